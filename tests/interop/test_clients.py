"""Stock clients complete a turn with our `expose`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import PROTOCOL_VERSION, connect_to_agent, helpers, schema
from acp.ws import create_websocket_stream

from acpremote.core.credentials import token_subprotocol

from .tools import NODE, NODE_PACKAGES, PEER, needs_node, needs_python_tools
from .turns import ACPREMOTE, LONG_PROMPT, PROMPT, SCRIPTS, TIMEOUT, Turn, exposed, turn_over_stdio

pytestmark = pytest.mark.interop

TOKEN = "interop-token"
PROMPTS = pytest.mark.parametrize("prompt", [PROMPT, LONG_PROMPT], ids=["short", "long"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An endpoint without token; its agents have to be gone at the end."""
    with exposed() as (process, address):
        yield address.removesuffix("/ws")
        wait_for_no_agent(process.pid)


@pytest.fixture(scope="module")
def locked_url() -> Iterator[str]:
    """An endpoint with a token."""
    with exposed("--token-env", "INTEROP_TOKEN", env={"INTEROP_TOKEN": TOKEN}) as (process, address):
        yield address.removesuffix("/ws")
        wait_for_no_agent(process.pid)


def wait_for_no_agent(server: int) -> None:
    """However a client left (1000, 1005 or 1006), its agent must end soon."""
    deadline = time.monotonic() + 10
    while agents := [
        pid for pid in children(server) if "agent.py" in Path(f"/proc/{pid}/cmdline").read_text()
    ]:
        assert time.monotonic() < deadline, f"agents {agents} are left"
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


class TestTypeScript:
    """The TypeScript SDK's WebSocket client, with the `ws` package and with Node's own WebSocket."""

    def run(self, url: str, sdk: str, kind: str, prompt: str = PROMPT, **options: Any) -> Turn:
        flags = ["--experimental-websocket", "--no-warnings"] if kind == "native" else []
        done = subprocess.run(
            [NODE, *flags, str(SCRIPTS / "client.mjs"), url, sdk, kind, json.dumps(options)],
            env={**os.environ, "NODE_PACKAGES": str(NODE_PACKAGES)},
            input=prompt,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Turn.printed(done.stdout)

    @needs_node
    @pytest.mark.parametrize(
        "protocols", [None, "acp.v1", ["acp.v1"], ["vendor.acp", "acp.v1"], ["vendor.acp"]]
    )
    @pytest.mark.parametrize("kind", ["ws", "native"])
    def test_a_turn(self, url: str, kind: str, protocols: Any) -> None:
        options = {} if protocols is None else {"protocols": protocols}
        assert self.run(url, "acp-sdk-2", kind, **options) == Turn.expected()

    @needs_node
    def test_a_turn_at_the_path_for_websocket_only(self, url: str) -> None:
        assert self.run(f"{url}/ws", "acp-sdk-2", "ws") == Turn.expected()

    @needs_node
    @PROMPTS
    @pytest.mark.parametrize("kind", ["ws", "native"])
    @pytest.mark.parametrize("sdk", ["acp-sdk-1", "acp-sdk-2"])
    def test_a_turn_with_either_sdk(self, url: str, sdk: str, kind: str, prompt: str) -> None:
        assert self.run(url, sdk, kind, prompt) == Turn.expected(prompt)

    @needs_node
    def test_a_turn_with_a_token_in_a_header(self, locked_url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert self.run(locked_url, "acp-sdk-2", "ws", headers=headers) == Turn.expected()

    @needs_node
    def test_a_turn_with_a_token_in_a_subprotocol(self, locked_url: str) -> None:
        protocols = ["acp.v1", token_subprotocol(TOKEN)]
        assert self.run(locked_url, "acp-sdk-2", "native", protocols=protocols) == Turn.expected()

    @needs_node
    def test_an_old_token_gets_nothing(self, locked_url: str) -> None:
        headers = {"Authorization": "Bearer old"}
        with pytest.raises(AssertionError, match="401"):
            self.run(locked_url, "acp-sdk-2", "ws", headers=headers)


class TestPeer:
    """The `mirror` of the published acpremote 1.10.0, as an editor runs it."""

    @needs_python_tools
    def test_a_turn(self, url: str) -> None:
        assert turn_over_stdio([str(PEER), "mirror", f"{url}/ws"]) == Turn.expected()

    @needs_python_tools
    def test_a_turn_with_a_token(self, locked_url: str) -> None:
        argv = [str(PEER), "mirror", "--token-env", "INTEROP_TOKEN", f"{locked_url}/ws"]
        assert turn_over_stdio(argv, env={"INTEROP_TOKEN": TOKEN}) == Turn.expected()


class PythonClient:
    """The client side of the Python SDK."""

    def __init__(self) -> None:
        self.turn = Turn()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, schema.AgentMessageChunk):
            self.turn.text += update.content.text

    async def request_permission(self, options: Any, **_: Any) -> schema.RequestPermissionResponse:
        self.turn.asked += 1
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)


@pytest.mark.anyio
class TestPython:
    """The Python SDK's own WebSocket client."""

    async def run(self, url: str, prompt: str = PROMPT, **options: Any) -> Turn:
        client: Any = PythonClient()
        with anyio.fail_after(TIMEOUT):
            transport = await create_websocket_stream(url, **options)
            agent = connect_to_agent(client, transport)
            await agent.initialize(PROTOCOL_VERSION)
            session = await agent.new_session(cwd="/")
            answer = await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block(prompt)])
            await agent.close()
        client.turn.stop_reason = answer.stop_reason
        turn: Turn = client.turn
        return turn

    @PROMPTS
    @pytest.mark.parametrize("path", ["", "/ws"])
    async def test_a_turn(self, url: str, path: str, prompt: str) -> None:
        assert await self.run(url + path, prompt) == Turn.expected(prompt)

    async def test_a_turn_with_a_token(self, locked_url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert await self.run(locked_url, headers=headers) == Turn.expected()


class TestOurs:
    """Our own `mirror`, for comparison."""

    @PROMPTS
    def test_a_turn(self, url: str, prompt: str) -> None:
        assert turn_over_stdio([*ACPREMOTE, "mirror", url], prompt) == Turn.expected(prompt)
