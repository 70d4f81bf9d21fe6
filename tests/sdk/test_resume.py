"""A program that uses a remote agent notices nothing of a cut connection."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, helpers

from acpremote import connect_remote_agent, serve_acp

from ..transport.cutting import CuttingProxy, cutting_proxy
from .full_client import FullClient
from .scripted_agent import ScriptedAgent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class CutByUpdates(FullClient):
    """Cuts the connection whenever it has seen so many updates."""

    proxy: CuttingProxy

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        await super().session_update(session_id, update, **meta)
        if len(self.texts) % 100 == 50:
            self.proxy.cut()

    async def request_permission(self, *arguments: Any, **more: Any) -> Any:
        """Answers while there is no connection."""
        accepted = self.proxy.accepted
        self.proxy.refuses = True
        self.proxy.cut()
        while self.proxy.accepted == accepted:
            await anyio.sleep(0.01)
        self.proxy.refuses = False
        return await super().request_permission(*arguments, **more)


async def test_a_turn_goes_on_over_cuts_in_its_updates_and_in_its_question() -> None:
    client = CutByUpdates()

    def make_agent(_: Client) -> Agent:
        return cast(Agent, ScriptedAgent())

    async with await serve_acp(make_agent) as server, cutting_proxy(server.port or 0) as proxy:
        client.proxy = proxy
        async with connect_remote_agent(cast(Client, client), proxy.url) as agent:
            with anyio.fail_after(30):
                await agent.initialize(1)
                session = (await agent.new_session("/work")).session_id
                for prompt in ("count 500", "permission", "count 500"):
                    response = await agent.prompt(session, [helpers.text_block(prompt)])
                    assert response.stop_reason == "end_turn"
        assert proxy.accepted >= 4
    numbers = [text for text in client.texts if text.isdecimal()]
    assert numbers == [str(number) for number in range(500)] * 2
