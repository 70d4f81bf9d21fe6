"""An SDK agent for tests: every method of the interface, and prompts for every method of a client.

Run as a program it serves on stdin and stdout, which is how a client talks to it directly; with `--stable` as
the SDK does it by default, without the routes of the unstable protocol.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import anyio
from acp import PROTOCOL_VERSION, Agent, Client, RequestError, helpers, run_agent, schema

FORM = {
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


class ScriptedAgent:
    """One object a connection; the first word of a prompt says what to do, what follows are its arguments."""

    def __init__(self) -> None:
        self.client: Client
        self.log: list[tuple[Any, ...]] = []
        self.cancelled = anyio.Event()
        self.prompted = anyio.Event()
        self.unwound = anyio.Event()
        self.cancels = 0

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    async def say(self, session_id: str, text: object) -> None:
        await self.client.session_update(session_id, helpers.update_agent_message_text(str(text)))

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **meta: Any,
    ) -> schema.InitializeResponse:
        assert client_capabilities is not None
        shown = client_capabilities.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=client_info,
            agent_capabilities=schema.AgentCapabilities(load_session=True),
            auth_methods=[schema.AuthMethodAgent(id="key", name="Key")],
            field_meta={"given": meta, "capabilities": shown},
        )

    async def authenticate(self, method_id: str, **meta: Any) -> schema.AuthenticateResponse | None:
        if method_id != "key":
            raise RequestError(-32000, "Authentication required", {"method": method_id, "list": [1, None]})
        return schema.AuthenticateResponse(field_meta={"given": meta})

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **meta: Any,
    ) -> schema.NewSessionResponse:
        modes = schema.SessionModeState(
            current_mode_id="a", available_modes=[schema.SessionMode(id="a", name="A")]
        )
        await self.say("s-1", "before the session is known")
        return schema.NewSessionResponse(
            session_id="s-1",
            modes=modes,
            field_meta={"cwd": cwd, "more": additional_directories, "servers": len(mcp_servers or [])} | meta,
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Any] | None = None,
        additional_directories: list[str] | None = None,
        **meta: Any,
    ) -> schema.LoadSessionResponse | None:
        if session_id == "none":
            raise RequestError.resource_not_found(session_id)
        for number in range(5):
            await self.say(session_id, f"replayed {number}")
        return schema.LoadSessionResponse(field_meta={"cwd": cwd} | meta)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> schema.ListSessionsResponse:
        found = [schema.SessionInfo(session_id="s-1", cwd=cwd or "/all", title=cursor)]
        return schema.ListSessionsResponse(sessions=found, next_cursor="next", field_meta=meta or None)

    async def set_session_mode(
        self, session_id: str, mode_id: str, **meta: Any
    ) -> schema.SetSessionModeResponse | None:
        return schema.SetSessionModeResponse(field_meta={"mode": mode_id} | meta)

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> schema.SetSessionConfigOptionResponse | None:
        return schema.SetSessionConfigOptionResponse(config_options=[], field_meta={config_id: value} | meta)

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **meta: Any,
    ) -> schema.ForkSessionResponse:
        return schema.ForkSessionResponse(session_id=f"{session_id}-fork", field_meta={"cwd": cwd} | meta)

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **meta: Any,
    ) -> schema.ResumeSessionResponse:
        return schema.ResumeSessionResponse(field_meta={"cwd": cwd} | meta)

    async def close_session(self, session_id: str, **meta: Any) -> schema.CloseSessionResponse | None:
        return schema.CloseSessionResponse(field_meta={"closed": session_id} | meta)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "fails":
            raise RequestError(-32077, "as asked", {"params": params})
        return {"method": method, "params": params, "notes": self.log}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.log.append((method, params))

    async def cancel(self, session_id: str, **meta: Any) -> None:
        self.cancels += 1
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **meta: Any) -> schema.PromptResponse:
        word, *arguments = prompt[0].text.split()
        try:
            reason = await getattr(self, f"do_{word}")(session_id, *arguments)
        finally:
            self.unwound.set()
        return schema.PromptResponse(stop_reason=reason or "end_turn", field_meta={"given": meta})

    # -- what a prompt can ask for

    async def do_count(self, session_id: str, number: str) -> None:
        for each in range(int(number)):
            await self.say(session_id, each)

    async def do_permission(self, session_id: str) -> None:
        call = schema.ToolCallUpdate(tool_call_id="t-1", title="Delete")
        options = [schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
        await self.client.session_update(session_id, helpers.start_tool_call("t-1", "Delete"))
        answer = await self.client.request_permission(session_id, call, options, why="test")
        await self.say(session_id, answer.outcome.model_dump())

    async def do_files(self, session_id: str) -> None:
        read = await self.client.read_text_file(session_id, "/etc/motd", line=2, limit=1)
        await self.client.write_text_file(session_id, "/tmp/new", f"{read.content} again")
        try:
            await self.client.read_text_file(session_id, "/missing")
        except RequestError as error:
            await self.say(session_id, (error.code, str(error), error.data))

    async def do_terminal(self, session_id: str) -> None:
        client = self.client
        variables = [schema.EnvVariable(name="A", value="1")]
        made = await client.create_terminal(session_id, "ls", ["-l"], variables, "/tmp", 100)
        output = await client.terminal_output(session_id, made.terminal_id)
        waited = await client.wait_for_terminal_exit(session_id, made.terminal_id)
        await client.kill_terminal(session_id, made.terminal_id)
        await client.release_terminal(session_id, made.terminal_id)
        await self.say(session_id, (output.output, output.truncated, waited.exit_code))

    async def do_elicit(self, session_id: str) -> None:
        mode = schema.ElicitationFormSessionMode.model_validate({"sessionId": session_id} | FORM)
        try:
            answer = await self.client.create_elicitation("Who are you?", mode, why="test")
        except RequestError as error:
            await self.say(session_id, (error.code, str(error), error.data))
        else:
            await self.say(session_id, answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        await self.client.complete_elicitation("e-1")

    async def do_extension(self, session_id: str) -> None:
        await self.client.ext_notification("agent/says", {"session": session_id, "n": None})
        try:
            answer = await self.client.ext_method("agent/asks", {"a": [1, {"b": None}]})
        except RequestError as error:
            answer = {"error": error.code}
        await self.say(session_id, answer)

    async def do_fail(self, session_id: str) -> None:
        raise RequestError(-32050, "told to", {"why": [1, {"deep": None}]})

    async def do_crash(self, session_id: str) -> None:
        raise ValueError("crashed")

    async def do_wait(self, session_id: str) -> str:
        await self.say(session_id, "waiting")
        self.prompted.set()
        await self.cancelled.wait()
        self.cancelled = anyio.Event()
        return "cancelled"

    async def do_block(self, session_id: str, seconds: str) -> None:
        import time

        self.prompted.set()
        time.sleep(float(seconds))


def main() -> None:
    stable = "--stable" in sys.argv
    asyncio.run(run_agent(cast(Agent, ScriptedAgent()), use_unstable_protocol=not stable))


if __name__ == "__main__":
    main()
