"""A real SDK client for tests: it keeps what the agent shows and answers what the agent asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from acp import schema

FORMS = schema.ClientCapabilities.model_validate({"elicitation": {"form": {}}})
FORMS_AND_URLS = schema.ClientCapabilities.model_validate({"elicitation": {"form": {}, "url": {}}})
NOTHING = schema.ClientCapabilities()

Answer = Callable[[schema.ElicitationMode], schema.CreateElicitationResponse]


def pick(label: str) -> Answer:
    """Picks the option with this title."""

    def answer(mode: schema.ElicitationMode) -> schema.CreateElicitationResponse:
        assert isinstance(mode, schema.ElicitationFormSessionMode)
        ((name, asked),) = (mode.requested_schema.properties or {}).items()
        assert isinstance(asked, schema.ElicitationStringPropertySchema)
        tokens = {option.title: option.const for option in asked.one_of or []}
        return schema.AcceptElicitationResponse(action="accept", content={name: tokens[label]})

    return answer


def accept(content: dict[str, object] | None = None) -> Answer:
    return lambda _: schema.AcceptElicitationResponse(action="accept", content=content)


def decline(_: schema.ElicitationMode) -> schema.CreateElicitationResponse:
    return schema.DeclineElicitationResponse(action="decline")


class RecordingClient:
    """Answers elicitations with `answer` and permissions with `option` (None: cancelled)."""

    def __init__(self, answer: Answer = decline, option: str | None = None) -> None:
        self.answer = answer
        self.option = option
        self.updates: list[Any] = []
        self.asked: list[tuple[str, schema.ElicitationMode]] = []
        self.permissions: list[schema.ToolCallUpdate] = []
        self.completed: list[str] = []
        self.updated = asyncio.Event()
        self.was_asked = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.updated.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.permissions.append(tool_call)
        if self.option is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.option)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(
        self, message: str, mode: schema.ElicitationMode, **_: Any
    ) -> schema.CreateElicitationResponse:
        self.asked.append((message, mode))
        self.was_asked.set()
        return self.answer(mode)

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        self.completed.append(elicitation_id)

    @property
    def messages(self) -> list[str]:
        """The agent's messages, put together from their chunks by message id."""
        by_id: dict[str | None, str] = {}
        for update in self.updates:
            if isinstance(update, schema.AgentMessageChunk):
                text = getattr(update.content, "text", "")
                by_id[update.message_id] = by_id.get(update.message_id, "") + text
        return list(by_id.values())

    def seen(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]
