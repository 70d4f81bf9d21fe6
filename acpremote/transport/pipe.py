"""Lines over a pair of pipes: the reading and the writing half that `process.py` and `stdio.py` share.

Both halves are event-loop protocols, so that one read of the pipe becomes one batch and a write costs no
task. Buffers are bounded in bytes: a full inbox pauses reading, a full write buffer makes `send` wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sys
import termios
from collections.abc import Sequence
from typing import cast

import anyio

from ..core.batch import Batch, join, joined
from ..core.envelope import is_json
from ..core.frame import LineSplitter
from ..core.noise import is_utf8
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed
from .bell import Bell

__all__ = ["LineReader", "LineWriter"]

READ_HIGH_WATER = 1024 * 1024
"""Bytes of frames that may wait to be received before reading pauses."""

FRAME_OVERHEAD = 128
"""Bytes that a frame counts beside its content: a megabyte of tiny lines would hold everybody for seconds."""

WRITE_HIGH_WATER = 1024 * 1024
"""Bytes that may wait to be written before `send` waits."""


PIPE_SIZE = 64 * 1024
"""Bytes that a pipe holds unless told otherwise (Linux)."""

WIDE_PIPE = 256 * 1024
"""Bytes that the pipe of a busy writer is made to hold. (128 kB gained nothing, 1 MB no more.)"""

COPIED = 16 * 1024
"""Bytes below which it is cheaper to copy a batch than to write its last LF apart."""


class LineReader(asyncio.Protocol):
    """Receives frames, one a line."""

    def __init__(self, who: str, max_size: int) -> None:
        """`who` names the writer in messages for people; `max_size` is the longest frame in bytes."""
        self._who = who
        self._max_size = max_size
        self._splitter = LineSplitter(max_size)
        self._batches: list[Batch] = []
        self._size = 0
        self._paused = False
        self._is_wide = False
        self._arrived = Bell()
        self._transport: asyncio.ReadTransport | None = None
        self.ending: Ending | None = None
        self.bytes_received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport for pausing."""
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Cuts what one read gave into frames."""
        self.bytes_received += len(data)
        if len(data) >= PIPE_SIZE:
            self._give_turn()
        batch = self._splitter.feed(data)
        if batch is not None:
            self._batches.append(batch)
            self._size += len(data) + FRAME_OVERHEAD * batch.lines
        if self._splitter.overflowed:
            self.end(
                Ending(EndingKind.TOO_BIG, f"{self._who} wrote a line of more than {self._max_size} bytes")
            )
        elif self._size > READ_HIGH_WATER and not self._paused:
            self._paused = True
            self._reading(False)
        self._arrived.ring()

    def eof_received(self) -> None:
        """Lets the transport close."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The writer has closed; an unterminated last line counts if it is a complete JSON object."""
        if self.ending is None:
            last = self._splitter.finish()
            if last is not None and last.data[:1] == b"{" and is_utf8(last.data) and is_json(last.data):
                self._batches.append(last)
            self.end(Ending(EndingKind.DONE, f"{self._who} closed its output"))

    def _give_turn(self) -> None:
        """Lets everybody else run after a large read: uvloop would read 32 times first."""
        if not self._is_wide:
            self._widen()
        if not self._paused:
            self._reading(False)
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._paused:
            self._reading(True)

    def _widen(self) -> None:
        """The writer filled the pipe: gives it room for more, so that there are fewer reads and writes.

        Only then, because what all pipes of a user may hold is limited (pipe(7)); the system may refuse.
        """
        self._is_wide = True
        pipe = self._transport.get_extra_info("pipe") if self._transport is not None else None
        if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, WIDE_PIPE)

    @property
    def is_quiet(self) -> bool:
        """Whether everything written was received: nothing waits here, nor in the pipe."""
        return not self._batches and not self._paused and not self._unread

    @property
    def _unread(self) -> int:
        """Bytes that wait in the pipe itself: a busy loop may not have come to read them."""
        if self._transport is None or self._transport.is_closing():
            return 0
        descriptor = self._transport.get_extra_info("pipe").fileno()
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)

    def end(self, ending: Ending) -> None:
        """Stops reading. Frames that were completed can still be received. Idempotent."""
        if self.ending is None:
            self.ending = ending
        if self._transport is not None:
            self._transport.close()
        self._arrived.ring()

    def _reading(self, on: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if on:
                transport.resume_reading()
            else:
                transport.pause_reading()

    async def receive(self) -> Batch:
        """See `Channel.receive`."""
        while not self._batches:
            if self.ending is not None:
                raise ChannelClosed(self.ending)
            await self._arrived.next()
        batches, self._batches, self._size = self._batches, [], 0
        if self._paused:
            self._paused = False
            self._reading(True)
        return batches[0] if len(batches) == 1 else join(batches)


class LineWriter(asyncio.BaseProtocol):
    """Sends frames, one a line."""

    def __init__(self, who: str, stall_timeout: float) -> None:
        """`who` names the reader in messages for people; it is given up when it takes nothing so long."""
        self._who = who
        self._stall_timeout = stall_timeout
        self._transport: asyncio.WriteTransport | None = None
        self._paused = False
        self._written = 0
        self._room: asyncio.Future[None] | None = None
        self.ending: Ending | None = None
        self.has_failed = False
        """Whether the reader closed before it had everything."""
        self.closed = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the bound of the write buffer."""
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER)

    def pause_writing(self) -> None:
        """The write buffer is over its bound."""
        self._paused = True

    def resume_writing(self) -> None:
        """The write buffer is below its bound."""
        self._paused = False
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The reader has closed."""
        self.has_failed = exc is not None
        if self.ending is None:
            self.ending = Ending(EndingKind.LOST, f"{self._who} closed its input")
        self.closed.set()
        self._wake()

    def _wake(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    @property
    def _delivered(self) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():  # uvloop raises when a closed transport is asked
            return self._written
        return self._written - transport.get_write_buffer_size()

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        if self.ending is not None or self._transport is None:
            raise ChannelClosed(self.ending or Ending(EndingKind.LOST, f"{self._who} is not connected"))
        data = joined(frames)
        self._written += len(data) + 1
        if len(data) < COPIED:
            self._transport.write(data + b"\n")
        else:
            self._transport.writelines([data, b"\n"])
        while self._paused:
            await self._wait_room()

    async def _wait_room(self) -> None:
        delivered = self._delivered
        if self._room is None or self._room.done():
            self._room = asyncio.get_running_loop().create_future()
        with anyio.move_on_after(self._stall_timeout):
            await asyncio.shield(self._room)
        if self._paused and self.ending is None and self._delivered <= delivered:
            self.ending = Ending(EndingKind.STALLED, f"{self._who} stopped reading")
        if self.ending is not None:
            raise ChannelClosed(self.ending)

    async def finish(self, timeout: float) -> None:
        """Writes what is queued, within `timeout` seconds, then closes in any case. Idempotent."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.set_write_buffer_limits(0)
        with anyio.move_on_after(timeout), contextlib.suppress(ChannelClosed):
            while self._paused and self.ending is None:
                await self._wait_room()
        if self.ending is None:
            self.ending = Ending(EndingKind.DONE, "closed by this side")
        self.abort() if self._paused else self._transport.close()

    def abort(self) -> None:
        """Closes at once; what is queued is dropped. Idempotent."""
        if self._transport is not None and not self.closed.is_set():  # asyncio fails on a closed transport
            self._transport.abort()
