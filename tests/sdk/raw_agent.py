"""The far end of a remote agent, message by message, for tests that decide what arrives when."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from acp import Client

from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed
from acpremote.sdk import RemoteAgent
from acpremote.transport.channel import Channel

LOST = Ending(EndingKind.LOST, "the cable was cut")


class RawAgent:
    """What stands in for an endpoint; every connection of the remote agent comes here."""

    def __init__(self) -> None:
        self.connections = 0
        self.endings: list[str] = []
        self._channel: Channel | None = None
        self._connected = anyio.Event()
        self._cut: anyio.Event = anyio.Event()
        self._ending = LOST
        self._received: deque[dict[str, Any]] = deque()
        self._arrived = anyio.Event()

    async def join(self, channel: Channel, on_open: Callable[[], None]) -> Ending:
        """See `acpremote.sdk.link.Join`."""
        self.connections += 1
        self._received.clear()
        self._channel, self._cut = channel, anyio.Event()
        on_open()
        self._connected.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, channel, self._cut)
            await self._cut.wait()
            tasks.cancel_scope.cancel()
        return self._ending

    async def _watch(self, channel: Channel, cut: anyio.Event) -> None:
        try:
            while True:
                self._received += map(json.loads, await channel.receive())
                self._arrived.set()
                self._arrived = anyio.Event()
        except ChannelClosed as closed:
            self.endings.append(str(closed.ending))
            self._ending = closed.ending
            cut.set()

    async def next(self, method: str | None = None) -> dict[str, Any]:
        """The next message of the client, which must be of this method."""
        await self._connected.wait()
        while not self._received:
            await self._arrived.wait()
        message = self._received.popleft()
        assert method is None or message.get("method") == method, message
        return message

    @property
    def unread(self) -> list[dict[str, Any]]:
        return list(self._received)

    async def write(self, *messages: dict[str, Any] | bytes) -> None:
        """Sends messages in one batch."""
        assert self._channel is not None
        frames = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages]
        await self._channel.send(frames)

    def cut(self, ending: Ending = LOST) -> None:
        """Ends the link."""
        self._ending = ending
        self._cut.set()


@asynccontextmanager
async def remote_agent(
    client: object | None = None, *, window: int = 1 << 20
) -> AsyncIterator[tuple[RemoteAgent, RawAgent]]:
    raw = RawAgent()
    agent = RemoteAgent(raw.join, window=window)
    if client is not None:
        agent.on_connect(cast(Client, client))
    with anyio.fail_after(20):
        async with agent:
            yield agent, raw


def text(number: object, session: str = "s-1") -> dict[str, Any]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": str(number)}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}


def result(request: dict[str, Any], value: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}


def ended(request: dict[str, Any], reason: str = "end_turn") -> dict[str, Any]:
    return result(request, {"stopReason": reason})
