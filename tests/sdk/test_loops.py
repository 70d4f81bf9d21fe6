"""A remote agent as an object: it is checked when it is made, and it outlives event loops."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import cast

import anyio
import pytest
from acp import Agent, Client

from acpremote import ConfigError, connect_acp, serve_acp

from .scripted_agent import ScriptedAgent


def make_agent(_: Client) -> Agent:
    return cast(Agent, ScriptedAgent())


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://host", "ws://"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="address"):
        connect_acp(url)


def test_a_remote_agent_can_be_used_again_in_another_event_loop() -> None:
    ready: list[str] = []
    leave = threading.Event()

    async def serve() -> None:
        async with await serve_acp(make_agent) as server:
            ready.append(server.address)
            while not leave.is_set():
                await anyio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not ready:
            time.sleep(0.01)
        agent = connect_acp(ready[0])

        async def use() -> int:
            return (await agent.initialize(1)).protocol_version

        assert [asyncio.run(use()) for _ in range(2)] == [1, 1]
    finally:
        leave.set()
        thread.join(10)
