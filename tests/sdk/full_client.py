"""An SDK client for tests that has every method, answers everything and writes down what it was asked."""

from __future__ import annotations

from typing import Any

import anyio
from acp import RequestError, schema


def shown(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else value


class FullClient:
    """`delay` seconds pass in every handler of an update before it is written down."""

    def __init__(self, delay: float | None = None) -> None:
        self.log: list[tuple[object, ...]] = []
        self.delay = delay
        self.connection: Any = None

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    def note(self, method: str, *arguments: object, **more: object) -> None:
        self.log.append((method, *(shown(each) for each in arguments), *more.items()))

    @property
    def texts(self) -> list[str]:
        """The texts of all message chunks, in the order in which they were handled."""
        return [text for method, text, *_ in self.log if method == "text" and isinstance(text, str)]

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        if self.delay is not None:
            await anyio.sleep(self.delay)
        if isinstance(update, schema.AgentMessageChunk):
            self.note("text", getattr(update.content, "text", None), **meta)
        else:
            self.note("update", update, **meta)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **meta: Any
    ) -> schema.RequestPermissionResponse:
        self.note("permission", session_id, tool_call, options[0], **meta)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> schema.ReadTextFileResponse:
        self.note("read", session_id, path, line, limit)
        if path == "/missing":
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content="héllo \U0001f680")

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.note("write", session_id, path, content)

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[Any] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> schema.CreateTerminalResponse:
        self.note("terminal", session_id, command, args, shown((env or [None])[0]), cwd, output_byte_limit)
        return schema.CreateTerminalResponse(terminal_id="t-9")

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.TerminalOutputResponse:
        self.note("output", session_id, terminal_id)
        return schema.TerminalOutputResponse(output="done\n", truncated=False)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        self.note("exit", session_id, terminal_id)
        return schema.WaitForTerminalExitResponse(exit_code=3)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.note("kill", session_id, terminal_id)

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.note("release", session_id, terminal_id)

    async def create_elicitation(self, message: str, mode: Any, **meta: Any) -> Any:
        self.note("elicitation", message, mode, **meta)
        return schema.AcceptElicitationResponse(action="accept", content={"name": "Ada"})

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        self.note("completed", elicitation_id)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.note("extension", method, params)
        return {"answered": params}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.note("notice", method, params)
