"""An agent behind `serve_acp` behaves as it does directly, however it is reached."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, spawn_agent_process

from acpremote import Server, TransportOptions, connect_remote_agent, serve_acp, serve_command

from .conversation import converse
from .full_client import FullClient
from .scripted_agent import ScriptedAgent

pytestmark = pytest.mark.anyio

UNSTABLE = TransportOptions(use_unstable_protocol=True)

SNIPPET = """
import asyncio, sys
from acp import run_agent
from acpremote import TransportOptions, connect_acp

async def main(websocket_url):
    proxy_agent = connect_acp(websocket_url, options=TransportOptions(use_unstable_protocol=True))
    await run_agent(proxy_agent)

asyncio.run(main(sys.argv[1]))
"""
UNSTABLE_SNIPPET = SNIPPET.replace(
    "run_agent(proxy_agent)", "run_agent(proxy_agent, use_unstable_protocol=True)"
)
AGENT = ["-m", "tests.sdk.scripted_agent"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make_agent(_: Client) -> Agent:
    return cast(Agent, ScriptedAgent())


@asynccontextmanager
async def spawned(client: FullClient, *command: str) -> AsyncIterator[Any]:
    """A real SDK client with an agent process of its own."""
    async with spawn_agent_process(
        cast(Client, client), sys.executable, *command, use_unstable_protocol=True
    ) as (agent, _):
        yield agent


async def conversation(*command: str) -> list[object]:
    client = FullClient()
    async with spawned(client, *command) as agent:
        return await converse(agent, client)


async def in_process() -> Server:
    return await serve_acp(make_agent)


async def in_a_thread() -> Server:
    return await serve_acp(make_agent, own_thread=True)


async def as_a_command() -> Server:
    return await serve_command([sys.executable, *AGENT], terminate_timeout=0.5)


@pytest.mark.parametrize("serve", [in_process, in_a_thread, as_a_command])
async def test_a_program_sees_what_it_would_see_directly(serve: Callable[[], Awaitable[Server]]) -> None:
    with anyio.fail_after(55):
        expected = await conversation(*AGENT)
        async with await serve() as server:
            client = FullClient()
            async with connect_remote_agent(cast(Client, client), server.address, options=UNSTABLE) as agent:
                assert await converse(agent, client) == expected


@pytest.mark.parametrize(
    ("snippet", "direct"),
    [(SNIPPET, [*AGENT, "--stable"]), (UNSTABLE_SNIPPET, AGENT)],
    ids=["stable", "unstable"],
)
async def test_the_documented_snippet_under_a_real_client_is_the_agent_behind_it(
    snippet: str, direct: list[str]
) -> None:
    with anyio.fail_after(55):
        expected = await conversation(*direct)
        async with await serve_acp(make_agent) as server:
            assert await conversation("-c", snippet, server.address) == expected


async def test_the_snippet_leaves_in_order_when_its_editor_does() -> None:
    """The turn that still ran is cancelled on the agent's side, and nothing is complained of."""
    agents: list[ScriptedAgent] = []

    def remember(_: Client) -> Agent:
        agents.append(ScriptedAgent())
        return cast(Agent, agents[-1])

    ask = {"sessionId": "s-1", "prompt": [{"type": "text", "text": "wait"}]}
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "session/prompt", "params": ask}) + "\n"
    with anyio.fail_after(55):
        async with await serve_acp(remember) as server:
            async with await anyio.open_process([sys.executable, "-c", SNIPPET, server.address]) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                await process.stdin.send(line.encode())
                assert b"waiting" in await process.stdout.receive()
                await process.stdin.aclose()
                await process.wait()
                assert process.returncode == 0
                assert process.stderr is not None
                assert [piece async for piece in process.stderr] == []
            await agents[0].unwound.wait()
            while server.link_count:
                await anyio.sleep(0.01)
