"""A small agent that needs no model, network or key, and shows what ACP can do.

Owns `DemoAgent`: words in the prompt choose what it shows (`help` lists them); any other prompt gets a short
tour with a typed question. Meant to be read and copied from: `DemoAgent` is what every agent needs, `Turn` is
what happens in one prompt, `Turn.choice` is the typed question. It must never touch a file, run a command or
reach a network: it only pretends to. It is one file, longer than the others, so that it can be copied whole.
Run it with `acpremote demo --agent`.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeAlias, cast

import anyio
from acp import PROTOCOL_VERSION, RequestError, helpers, run_agent, schema
from acp.interfaces import Agent, Client
from pydantic import AnyUrl

from .elicitation import (
    AcpSessionContext,
    ChoiceElicitationAccepted,
    ElicitationChoice,
    ElicitationUnsupportedError,
    InvalidElicitationResponseError,
)
from .errors import ConfigError

__all__ = ["DemoAgent", "main"]

logger = logging.getLogger(__name__)

MODES = [
    schema.SessionMode(id="ask", name="Ask", description="Asks before it runs a tool."),
    schema.SessionMode(id="auto", name="Auto", description="Runs tools without asking."),
    schema.SessionMode(id="read", name="Read only", description="Runs no tools."),
]


@dataclass
class Session:
    """What the agent remembers of one session; `log` is what `session/load` replays."""

    id: str
    cwd: str
    mode: str = "ask"
    title: str | None = None
    may_write: bool = False
    log: deque[Any] = field(default_factory=lambda: deque(maxlen=1000))
    running: anyio.CancelScope | None = None

    @property
    def mode_state(self) -> schema.SessionModeState:
        return schema.SessionModeState(current_mode_id=self.mode, available_modes=MODES)


class DemoAgent:
    """The agent: one object for one connection.

    `pause` is the time in seconds between two pieces of streamed text.
    """

    def __init__(self, *, pause: float = 0.03) -> None:
        self.pause = pause
        self.client: Client | None = None
        self.capabilities: schema.ClientCapabilities | None = None
        self.sessions: dict[str, Session] = {}

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        self.capabilities = client_capabilities
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name="acpremote-demo", title="Demo", version=version("acpremote")
            ),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        session = Session(f"demo-{secrets.token_hex(8)}", cwd)
        self.sessions[session.id] = session
        return schema.NewSessionResponse(session_id=session.id, modes=session.mode_state)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        session = self._session(session_id)
        session.cwd = cwd
        for update in list(session.log):
            await self._client.session_update(session.id, update)
        return schema.LoadSessionResponse(modes=session.mode_state)

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=each.id, cwd=each.cwd, title=each.title)
                for each in self.sessions.values()
                if cwd in (None, each.cwd)
            ]
        )

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        if mode_id not in {mode.id for mode in MODES}:
            raise RequestError.invalid_params({"details": f"there is no mode {mode_id!r}"})
        self._session(session_id).mode = mode_id
        await self._client.session_update(session_id, helpers.update_current_mode(mode_id))
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        session = self._session(session_id)
        if session.running is not None:
            raise RequestError.invalid_request({"details": "a turn of this session is already running"})
        text = " ".join(block.text for block in prompt if isinstance(block, schema.TextContentBlock))
        with anyio.CancelScope() as session.running:
            scope = session.running
            try:
                await Turn(self._client, self.capabilities, session, self.pause).run(text)
            except ConnectionError:
                logger.info("the client left in the middle of a turn")
            finally:
                session.running = None
        return schema.PromptResponse(stop_reason="cancelled" if scope.cancelled_caught else "end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self.sessions.get(session_id)
        if session is not None and session.running is not None:
            session.running.cancel()

    @property
    def _client(self) -> Client:
        assert self.client is not None, "on_connect comes before any request"
        return self.client

    def _session(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            raise RequestError.invalid_params({"details": f"there is no session {session_id!r}"})
        return session


class Target(enum.Enum):
    """The application values of the typed question: they never travel."""

    PREVIEW = "preview"
    PRODUCTION = "production"


Show: TypeAlias = "Callable[[Turn], Awaitable[None]]"


class Turn:
    """One prompt and what the agent does about it."""

    def __init__(
        self, client: Client, capabilities: schema.ClientCapabilities | None, session: Session, pause: float
    ) -> None:
        self.client = client
        self.session = session
        self.pause = pause
        self.user = AcpSessionContext(session_id=session.id, client=client, client_capabilities=capabilities)

    async def run(self, text: str) -> None:
        """Does what the words of `text` ask for, in their order, or the tour."""
        self.session.log.append(helpers.update_user_message_text(text))
        if self.session.title is None:
            self.session.title = text[:60] or "Tour"
            await self.send(helpers.update_available_commands(_commands()))
        words = re.findall(r"[a-z]+", text.lower())
        shows = dict.fromkeys(SHOWS[word] for word in words if word in SHOWS)
        for show in shows or [Turn.tour]:
            await self.attempt(show)

    async def attempt(self, show: Show) -> None:
        """Shows one thing; what the client cannot do, or answered wrongly, is said and not raised."""
        try:
            await show(self)
        except (ElicitationUnsupportedError, InvalidElicitationResponseError) as error:
            await self.say(f"That did not work: {error}.")
        except RequestError as error:
            hint = (
                " (is the receiving route switched on: --unstable-protocol?)" if error.code == -32601 else ""
            )
            await self.say(f"The client answered with error {error.code}: {error}{hint}.")

    async def send(self, update: Any) -> None:
        self.session.log.append(update)
        await self.client.session_update(self.session.id, update)

    async def say(self, text: str) -> None:
        """Streams a message word by word."""
        await self.stream(re.findall(r"\S+\s*", text), self.pause)

    async def stream(self, pieces: list[str], pause: float) -> None:
        """Streams one message; a fresh message id tells clients where it begins."""
        message_id = secrets.token_hex(8)
        for piece in pieces:
            update = helpers.update_agent_message_text(piece)
            update.message_id = message_id
            await self.send(update)
            await anyio.sleep(pause)

    async def help(self) -> None:
        """Lists what can be asked for."""
        lines = [f"- {word}: {show.__doc__}" for word, show in SHOWS.items()]
        await self.say("\n".join(["Say any of these words:", *lines]))

    async def tour(self) -> None:
        """Shows text, a plan and a typed question."""
        await self.say("Hello. I am a small agent without a model.")
        await self.plan()
        await self.choice()
        await self.say("That was the tour. Say help to see what else I can show.")

    async def plan(self) -> None:
        """Shows a plan whose steps get done."""
        steps = ["Read the question", "Think about it", "Answer"]
        for done in range(len(steps) + 1):
            states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
            entries = [
                schema.PlanEntry(content=step, priority="medium", status=cast(schema.PlanEntryStatus, state))
                for step, state in zip(steps, states, strict=False)
            ]
            await self.send(helpers.update_plan(entries))
            await anyio.sleep(self.pause)

    async def choice(self) -> None:
        """Asks a typed question: pick one of two deployment targets."""
        result = await self.user.ask_choice(
            "Choose a deployment target",
            [
                ElicitationChoice(value=Target.PREVIEW, label="Preview", default=True),
                ElicitationChoice(
                    value=Target.PRODUCTION, label="Production", description="Deploy to production."
                ),
            ],
            fallback=self.choose_preview,
        )
        if result.status == "accepted":
            await self.say(f"You picked {result.value}.")
        else:
            await self.say(f"You {result.status} the question.")

    async def choose_preview(self) -> ChoiceElicitationAccepted[Target]:
        await self.say("Your client cannot show forms, so I take the safe target.")
        return ChoiceElicitationAccepted(Target.PREVIEW)

    async def form(self) -> None:
        """Asks for several fields at once."""
        mode = schema.ElicitationFormSessionMode(session_id=self.session.id, requested_schema=_long_form())
        answer = await self.user.create_elicitation("Who gets the parcel?", mode)
        if isinstance(answer, schema.AcceptElicitationResponse):
            lines = [f"- {name}: {json.dumps(value)}" for name, value in (answer.content or {}).items()]
            await self.say("\n".join(["You filled in:", *lines]))
        else:
            await self.say(f"You answered with {answer.action}.")

    async def url(self) -> None:
        """Asks to open an address."""
        elicitation_id = secrets.token_hex(8)
        mode = schema.ElicitationUrlSessionMode(
            session_id=self.session.id,
            elicitation_id=elicitation_id,
            url=AnyUrl(f"https://example.org/sign-in?request={elicitation_id}"),
        )
        answer = await self.user.create_elicitation("Sign in to go on.", mode)
        if isinstance(answer, schema.AcceptElicitationResponse):
            await self.user.complete_elicitation(elicitation_id)
            await self.say("You opened the page; I call that signed in.")
        else:
            await self.say(f"You answered with {answer.action}.")

    async def tool(self) -> None:
        """Runs a tool, with your permission where the mode asks for it."""
        call_id = f"call-{secrets.token_hex(4)}"
        title = "Write greeting.txt"
        diff = helpers.tool_diff_content(f"{self.session.cwd}/greeting.txt", "Hello\n")
        await self.send(
            helpers.start_tool_call(call_id, title, kind="edit", status="pending", content=[diff])
        )
        if not await self.is_allowed(
            schema.ToolCallUpdate(tool_call_id=call_id, title=title, content=[diff])
        ):
            await self.send(helpers.update_tool_call(call_id, status="failed"))
            await self.say("I did not run the tool.")
            return
        await self.send(helpers.update_tool_call(call_id, status="in_progress"))
        await anyio.sleep(self.pause)
        await self.send(helpers.update_tool_call(call_id, status="completed"))
        await self.say("The tool ran. (It only pretends: no file was written.)")

    async def is_allowed(self, call: schema.ToolCallUpdate) -> bool:
        if self.session.mode == "read":
            return False
        if self.session.mode == "auto" or self.session.may_write:
            return True
        options = [
            schema.PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
            schema.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
            schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
        ]
        response = await self.client.request_permission(self.session.id, call, options)
        if not isinstance(response.outcome, schema.AllowedOutcome):
            return False
        self.session.may_write = response.outcome.option_id == "always"
        return response.outcome.option_id in ("once", "always")

    async def component(self) -> None:
        """Shows choice lists: good ones, one that nobody declared, one that is broken."""
        for frame in _component_frames():
            text = json.dumps(frame)
            await self.stream([text[start : start + 80] for start in range(0, len(text), 80)], 0)

    async def slow(self) -> None:
        """Counts for a minute, so that you can cancel it."""
        await self.stream([f"{number} " for number in range(1, 61)], 1)


SHOWS: dict[str, Show] = {
    "help": Turn.help,
    "tour": Turn.tour,
    "plan": Turn.plan,
    "choice": Turn.choice,
    "form": Turn.form,
    "url": Turn.url,
    "tool": Turn.tool,
    "permission": Turn.tool,
    "component": Turn.component,
    "slow": Turn.slow,
}
"""The words of a prompt that are understood; the first line of each docstring is shown to people."""


def _commands() -> list[schema.AvailableCommand]:
    return [
        schema.AvailableCommand(name=word, description=show.__doc__ or "") for word, show in SHOWS.items()
    ]


def _long_form() -> schema.ElicitationSchema:
    fields = {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "email": {"type": "string", "title": "E-mail", "format": "email"},
        "size": {"type": "string", "title": "Size", "enum": ["S", "M", "L"], "default": "M"},
        "copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 5, "default": 1},
        "weight": {"type": "number", "title": "Weight", "description": "In kilograms.", "minimum": 0.1},
        "gift": {"type": "boolean", "title": "A gift?", "default": False},
        "extras": {
            "type": "array",
            "title": "Extras",
            "items": {"type": "string", "enum": ["ribbon", "card", "wrapping"]},
            "maxItems": 2,
        },
    }
    form = {"type": "object", "properties": fields, "required": ["name", "size", "copies"]}
    return schema.ElicitationSchema.model_validate(form)


def _component_frames() -> Iterator[dict[str, object]]:
    branches = [
        {"id": "main", "label": "main", "description": "Latest green build."},
        {"id": "release", "label": "release/4.x"},
    ]
    yield _frame("choice-list", {"prompt": "Which branch?", "choices": branches}, "Pick main or release/4.x.")
    copy = {"name": "copy-text", "input": {"text": "git rebase main"}}
    commands = [{"id": "copy", "label": "Copy the command", "action": copy}, {"id": "no", "label": "Not now"}]
    yield _frame("choice-list", {"prompt": "git rebase main", "choices": commands}, "Run: git rebase main.")
    yield _frame("star-map", {"stars": 3}, "A map of three stars.")
    yield _frame("choice-list", {"prompt": "No choices", "choices": []}, "A list without choices.")


def _frame(key: str, props: dict[str, object], summary: str) -> dict[str, object]:
    return {
        "protocol": "agentskit.chat.component",
        "version": 1,
        "type": "render",
        "componentKey": key,
        "instanceId": f"demo-{secrets.token_hex(8)}",
        "props": props,
        "fallback": {"kind": key, "summary": summary},
    }


def main() -> None:
    """Runs the agent on standard input and output until standard input ends.

    Raises:
        ConfigError: standard input or output is a file, which the SDK cannot wait for.
    """
    for name, descriptor in (("input", 0), ("output", 1)):
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
            raise ConfigError(
                f"standard {name} is not a pipe: let an ACP client start the demo agent, "
                "for instance with acpremote expose -- acpremote demo --agent"
            )
    # The SDK's Agent lists every optional method; this agent has those that it needs.
    asyncio.run(run_agent(cast(Agent, DemoAgent())))


if __name__ == "__main__":
    main()
