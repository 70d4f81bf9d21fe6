"""A channel that is opened by the first frame sent to it.

An agent is started by the first valid frame of its client, so that scans and failed handshakes start
nothing. Frames that come while it starts wait, in order, in the client's channel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from ..ending import Ending, EndingKind
from ..errors import AcpRemoteError, ChannelClosed
from .channel import Channel

__all__ = ["LazyChannel"]


class LazyChannel:
    """Stands for the channel that `open_channel` makes. Only one task may send before it is open."""

    def __init__(self, open_channel: Callable[[], Awaitable[Channel]]) -> None:
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._decided = anyio.Event()
        self._ending: Ending | None = None

    @property
    def is_open(self) -> bool:
        """Whether a frame was sent and the channel was opened."""
        return self._channel is not None

    async def receive(self) -> Sequence[bytes]:
        """See `Channel.receive`."""
        if self._channel is None:
            await self._decided.wait()
        if self._channel is None:
            raise ChannelClosed(self._ending or Ending(EndingKind.DONE, "never opened"))
        return await self._channel.receive()

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        if self._channel is None:
            await self._open()
        if self._channel is None:
            raise ChannelClosed(self._ending or Ending(EndingKind.DONE, "never opened"))
        await self._channel.send(frames)

    async def _open(self) -> None:
        if self._ending is not None:
            return
        try:
            with anyio.CancelScope(shield=True):  # a channel opened halfway would be closed by nobody
                self._channel = await self._open_channel()
        except AcpRemoteError as error:
            self._ending = Ending(EndingKind.AGENT_FAILED, str(error))
        finally:
            self._decided.set()

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`."""
        if self._ending is None:
            self._ending = ending
        self._decided.set()
        if self._channel is not None:
            await self._channel.aclose(ending)

    def abort(self) -> None:
        """See `Channel.abort`."""
        if self._channel is not None:
            self._channel.abort()
