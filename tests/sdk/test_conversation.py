"""An agent behind `serve_acp` behaves as it does directly, however it is reached."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, spawn_agent_process

from acpremote import TransportOptions, connect_remote_agent, serve_acp

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
    await run_agent(proxy_agent, use_unstable_protocol=True)

asyncio.run(main(sys.argv[1]))
"""


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


async def directly() -> list[object]:
    client = FullClient()
    async with spawned(client, "-m", "tests.sdk.scripted_agent") as agent:
        return await converse(agent, client)


@pytest.mark.parametrize("own_thread", [False, True])
async def test_a_program_sees_what_it_would_see_directly(own_thread: bool) -> None:
    with anyio.fail_after(50):
        expected = await directly()
        async with await serve_acp(make_agent, own_thread=own_thread) as server:
            client = FullClient()
            async with connect_remote_agent(cast(Client, client), server.address, options=UNSTABLE) as agent:
                assert await converse(agent, client) == expected


async def test_the_documented_snippet_under_a_real_client_is_the_agent_behind_it() -> None:
    with anyio.fail_after(50):
        expected = await directly()
        async with await serve_acp(make_agent) as server:
            client = FullClient()
            async with spawned(client, "-c", SNIPPET, server.address) as agent:
                assert await converse(agent, client) == expected
