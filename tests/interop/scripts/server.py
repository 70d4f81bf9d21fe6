"""An agent served by the Python SDK's own WebSocket server under uvicorn; prints its URL."""

import asyncio
import socket
from typing import Any

import uvicorn
from acp import helpers, schema
from acp.http.asgi import create_asgi_app


class StubAgent:
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=1)

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="session-1")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        for text in ("You said: ", prompt[0].text, " \u2028 "):
            await self.client.session_update(session_id, helpers.update_agent_message_text(text))
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="t1", title="Think"),
            options=[schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")],
        )
        text = f"permission {answer.outcome.option_id}"
        await self.client.session_update(session_id, helpers.update_agent_message_text(text))
        return schema.PromptResponse(stop_reason="end_turn")


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        make_agent: Any = lambda connection: StubAgent()  # noqa: E731 - the SDK wants an interface of 20 methods
        config = uvicorn.Config(create_asgi_app(make_agent), log_level="warning")
        print(f"ws://127.0.0.1:{listener.getsockname()[1]}/acp", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


asyncio.run(main())
