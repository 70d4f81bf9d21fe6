"""The `Channel` protocol: something frames are received from and sent to.

Owns the seam between the pump and every transport, and the in-memory pair that stands in for two
transports in tests and behind in-process agents. Read `websocket.py` or `process.py` next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import anyio

from ..ending import Ending, EndingKind
from ..errors import ChannelClosed

__all__ = ["Channel", "MemoryChannel", "memory_channels"]

MEMORY_BOUND = 1024 * 1024
"""Bytes that may wait in one direction of an in-memory pair before `send` waits."""


class Channel(Protocol):
    """Carries frames (one JSON-RPC message as bytes, without line ending) in both directions.

    One task receives; any number of tasks may send: the frames of one `send` stay together and calls
    keep their order. Cancelling `receive` loses nothing; cancelling `send` may leave its frames queued.
    """

    async def receive(self) -> Sequence[bytes]:
        """Waits for frames and returns all that have arrived, at least one, in order.

        Raises:
            ChannelClosed: no frame will come any more; its ending says why. Raised again by later calls.
        """
        ...

    async def send(self, frames: Sequence[bytes]) -> None:
        """Queues all frames at once and returns when the peer has room for more (the back-pressure).

        Raises:
            ChannelClosed: the frames cannot be delivered.
        """
        ...

    async def aclose(self, ending: Ending) -> None:
        """Delivers what is queued, tells the peer why, releases everything; bounded in time, idempotent."""
        ...

    def abort(self) -> None:
        """Ends everything at once; what is queued may be lost. A running `aclose` then returns promptly."""
        ...


class _Direction:
    """One direction of a pair: a queue bounded in bytes."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        self.ending: Ending | None = None
        self.changed = anyio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class MemoryChannel:
    """One end of an in-memory pair."""

    def __init__(self, incoming: _Direction, outgoing: _Direction) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> list[bytes]:
        """See `Channel.receive`."""
        direction = self._incoming
        while not direction.frames:
            if direction.ending is not None:
                raise ChannelClosed(direction.ending)
            await direction.changed.wait()
        frames, direction.frames, direction.size = direction.frames, [], 0
        direction.notify()
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        direction = self._outgoing
        if direction.ending is not None:
            raise ChannelClosed(direction.ending)
        direction.frames += frames
        direction.size += sum(map(len, frames))
        direction.notify()
        while direction.size > MEMORY_BOUND and direction.ending is None:
            await direction.changed.wait()

    def abort(self) -> None:
        """See `Channel.abort`."""
        self._close(Ending(EndingKind.LOST, "aborted"))

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. The other end receives what is queued first, then this ending."""
        self._close(ending)

    def _close(self, ending: Ending) -> None:
        own = Ending(EndingKind.DONE, "closed by this side")
        for direction, why in ((self._outgoing, ending), (self._incoming, own)):
            if direction.ending is None:
                direction.ending = why
                direction.notify()


def memory_channels() -> tuple[MemoryChannel, MemoryChannel]:
    """Makes two channels; what one sends, the other receives."""
    one, other = _Direction(), _Direction()
    return MemoryChannel(one, other), MemoryChannel(other, one)
