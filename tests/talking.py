"""Conversations with the demo agent for tests, over a real socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import anyio
from acp import Agent, Client, connect_to_agent, helpers, schema
from acp.core import AgentSideConnection

from acpremote.demo import DemoAgent

from .recording_client import FORMS_AND_URLS


class Conversation:
    """One session with the demo agent."""

    def __init__(self, agent: Agent, session_id: str) -> None:
        self.agent = agent
        self.session_id = session_id

    async def say(self, text: str) -> schema.StopReason:
        response = await self.agent.prompt(self.session_id, [helpers.text_block(text)])
        return response.stop_reason


@asynccontextmanager
async def streams_of(end: socket.socket) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The streams of one end of a socket pair."""
    reader, writer = await asyncio.open_connection(sock=end)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def connected(agent: Agent, client: object, *, unstable: bool = True) -> AsyncIterator[Agent]:
    """Joins an agent and a client by SDK connections over a socket pair; gives the client's connection."""
    ours, theirs = socket.socketpair()
    async with (
        streams_of(ours) as (agent_reader, agent_writer),
        streams_of(theirs) as (reader, writer),
        AgentSideConnection(agent, agent_writer, agent_reader),
        connect_to_agent(cast(Client, client), writer, reader, use_unstable_protocol=unstable) as near,
    ):
        yield cast(Agent, near)


@asynccontextmanager
async def talking_to_demo(
    client: object,
    capabilities: schema.ClientCapabilities = FORMS_AND_URLS,
    *,
    unstable: bool = True,
    pause: float = 0,
) -> AsyncIterator[Conversation]:
    async with connected(cast(Agent, DemoAgent(pause=pause)), client, unstable=unstable) as agent:
        await agent.initialize(1, client_capabilities=capabilities)
        session = await agent.new_session(cwd="/nowhere")
        with anyio.fail_after(20):
            yield Conversation(agent, session.session_id)
