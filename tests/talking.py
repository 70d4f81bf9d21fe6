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
async def talking_to_demo(
    client: object,
    capabilities: schema.ClientCapabilities = FORMS_AND_URLS,
    *,
    unstable: bool = True,
    pause: float = 0,
) -> AsyncIterator[Conversation]:
    ours, theirs = socket.socketpair()
    agent_reader, agent_writer = await asyncio.open_connection(sock=ours)
    client_reader, client_writer = await asyncio.open_connection(sock=theirs)
    agent = AgentSideConnection(cast(Agent, DemoAgent(pause=pause)), agent_writer, agent_reader)
    connection = connect_to_agent(
        cast(Client, client), client_writer, client_reader, use_unstable_protocol=unstable
    )
    async with agent, connection:
        await connection.initialize(1, client_capabilities=capabilities)
        session = await connection.new_session(cwd="/nowhere")
        with anyio.fail_after(20):
            yield Conversation(cast(Agent, connection), session.session_id)
    for writer in (agent_writer, client_writer):
        writer.close()
        await writer.wait_closed()
