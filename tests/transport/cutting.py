"""A TCP proxy that is as bad as a real network: it cuts, stalls and refuses when it is told to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc

HANDSHAKE_END = b"\r\n\r\n"


@dataclass
class Fate:
    """What happens to one connection: cut after so many bytes behind the opening handshake."""

    up: int | None = None
    down: int | None = None


class Direction:
    """Carries bytes one way and counts those behind the opening handshake."""

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.seen = b""
        self.opened = False

    def allow(self, data: bytes) -> tuple[bytes, bool]:
        """What of `data` still passes, and whether the connection is cut after it."""
        head = b""
        if not self.opened:
            before, self.seen = len(self.seen), self.seen + data
            end = self.seen.find(HANDSHAKE_END)
            if end < 0:
                return data, False
            self.opened = True
            split = end + len(HANDSHAKE_END) - before
            head, data = data[:split], data[split:]
        if self.budget is None:
            return head + data, False
        passed = data[: self.budget]
        self.budget -= len(passed)
        return head + passed, self.budget == 0


class CuttingProxy:
    """Listens on `port`; `fates` are dealt out to its connections in order, then all is well."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.fates: deque[Fate] = deque()
        self.refuses = False
        self.answers: deque[bytes] = deque()
        """What the next connections get instead of the server."""
        self.stalls = False
        self.accepted = 0
        self.up = self.down = 0
        """Bytes that came from clients and from the server."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = anyio.Event()
        self._flowing.set()
        self.connected = anyio.Event()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/acp/ws"

    def cut(self) -> None:
        """Ends every connection at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Lets nothing pass any more on the connections that exist, and keeps them open."""
        for writer in list(self._writers):
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a socket's transport
        self.stalls = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            if self.answers:
                await reader.readuntil(HANDSHAKE_END)
                writer.write(self.answers.popleft())
                await writer.drain()
                writer.write_eof()
                await reader.read()
                return
            if self.refuses:
                return
            fate = self.fates.popleft() if self.fates else Fate()
            up_reader, upstream = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(upstream)
            self.connected.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._carry, reader, upstream, Direction(fate.up), "up", tasks.cancel_scope)
                await self._carry(up_reader, writer, Direction(fate.down), "down", tasks.cancel_scope)
        except OSError:
            pass
        finally:
            for each in (writer, upstream):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
        name: str,
        scope: anyio.CancelScope,
    ) -> None:
        try:
            while data := await reader.read(65536):
                passed, is_cut = direction.allow(data)
                setattr(self, name, getattr(self, name) + len(passed))
                writer.write(passed)
                await writer.drain()
                if is_cut:
                    break
        except OSError:
            pass
        scope.cancel()


@asynccontextmanager
async def cutting_proxy(target: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(target)
    server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        with anyio.move_on_after(5, shield=True):
            await server.wait_closed()
