"""A channel over our own standard input and output: the editor's end of a mirror.

Pipes and sockets (Node gives its children sockets) go to the event loop. Everything else, a terminal, a
file, /dev/null, goes through daemon threads: uvloop aborts the process when it is asked to watch those,
and a read of a terminal cannot be cancelled.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..ending import Ending, EndingKind
from ..errors import ChannelClosed
from .pipe import WRITE_HIGH_WATER, LineReader, LineWriter

__all__ = ["StdioChannel", "open_stdio"]

_T = TypeVar("_T")

READ_SIZE = 64 * 1024
FLUSH_TIMEOUT = 5.0
"""Seconds the reader of our output has to take what is queued when the channel closes."""


async def open_stdio(max_size: int, stall_timeout: float, *, stdin: int = 0, stdout: int = 1) -> StdioChannel:
    """Opens the channel over two descriptors, which stay open; their blocking mode is restored at the end."""
    channel = StdioChannel(max_size, stall_timeout, stdin, stdout)
    await channel.connect()
    return channel


class StdioChannel:
    """See `Channel`. The end of the input is an orderly ending; the output can still be written then."""

    def __init__(self, max_size: int, stall_timeout: float, stdin: int, stdout: int) -> None:
        self._reader = LineReader("the client", max_size)
        self._writer = LineWriter("the client", stall_timeout)
        self._stdin, self._stdout = stdin, stdout
        self._blocking = [(each, os.get_blocking(each)) for each in (stdin, stdout)]

    async def connect(self) -> None:
        """Hands both descriptors to the event loop or to a thread."""
        loop = asyncio.get_running_loop()
        if _is_stream(self._stdin):
            await loop.connect_read_pipe(lambda: self._reader, os.fdopen(os.dup(self._stdin), "rb", 0))
        else:
            _ThreadReader(loop, self._stdin, self._reader).start()
        if _is_stream(self._stdout):
            await loop.connect_write_pipe(lambda: self._writer, os.fdopen(os.dup(self._stdout), "wb", 0))
        else:
            _ThreadWriter(loop, self._stdout, self._writer).start()

    async def receive(self) -> Sequence[bytes]:
        """See `Channel.receive`."""
        try:
            return await self._reader.receive()
        except ChannelClosed as closed:
            if closed.ending.kind is EndingKind.DONE:
                raise ChannelClosed(Ending(EndingKind.CLIENT_LEFT, "the client closed its output")) from None
            raise

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        await self._writer.send(frames)

    @property
    def has_failed(self) -> bool:
        """Whether something that was sent could not be written; known once the channel is closed."""
        return self._writer.has_failed

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. Standard output has no place for an ending; it is only flushed."""
        self._reader.end(Ending(EndingKind.DONE, "closed by this side"))
        await self._writer.finish(FLUSH_TIMEOUT)
        for descriptor, blocking in self._blocking:
            os.set_blocking(descriptor, blocking)

    def abort(self) -> None:
        """See `Channel.abort`."""
        self._reader.end(Ending(EndingKind.DONE, "closed by this side"))
        self._writer.abort()


def _is_stream(descriptor: int) -> bool:
    """Whether the event loop can watch the descriptor as a pipe: a FIFO or a Unix socket."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode):
        return True
    if not stat.S_ISSOCK(mode):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        return sock.family == socket.AF_UNIX


class _ThreadReader(asyncio.ReadTransport):
    """Reads a descriptor in a daemon thread, a piece at a time, and only while reading is not paused."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, protocol: LineReader) -> None:
        super().__init__()
        self._loop = loop
        self._descriptor = descriptor
        self._protocol = protocol
        self._may_read = threading.Event()
        self._closing = False

    def start(self) -> None:
        self._may_read.set()
        self._protocol.connection_made(self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        data = b"."
        while data and not self._closing:
            self._may_read.wait()
            try:
                data = os.read(self._descriptor, READ_SIZE)
            except OSError:  # a terminal that hung up
                data = b""
            if not _call(self._loop, self._deliver, data):
                return

    def _deliver(self, data: bytes) -> None:
        if self._closing:
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._closing = True
            self._protocol.connection_lost(None)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._may_read.set()


class _ThreadWriter(asyncio.WriteTransport):
    """Writes to a descriptor in a daemon thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, protocol: LineWriter) -> None:
        super().__init__()
        self._loop = loop
        self._descriptor = descriptor
        self._protocol = protocol
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._size = 0
        self._limit = WRITE_HIGH_WATER
        self._paused = False
        self._closing = False

    def start(self) -> None:
        self._protocol.connection_made(self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                _call(self._loop, self._lost, error)
                return
            _call(self._loop, self._wrote, len(data))
        _call(self._loop, self._lost, None)

    def _wrote(self, size: int) -> None:
        self._size -= size
        if self._paused and self._size <= self._limit:
            self._paused = False
            self._protocol.resume_writing()

    def _lost(self, error: OSError | None) -> None:
        self._closing = True
        self._protocol.connection_lost(error)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._size += len(data)
        self._queue.put(bytes(data))
        self._check()

    def _check(self) -> None:
        if not self._paused and self._size > self._limit:
            self._paused = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._limit = WRITE_HIGH_WATER if high is None else high
        self._check()

    def get_write_buffer_size(self) -> int:
        return self._size

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._queue.put(None)

    def abort(self) -> None:
        self.close()


def _call(loop: asyncio.AbstractEventLoop, call: Callable[[_T], None], argument: _T) -> bool:
    """Runs a callback in the loop; false when the loop has closed."""
    try:
        loop.call_soon_threadsafe(call, argument)
    except RuntimeError:
        return False
    return True
