"""Runs one link: joins a client's channel to an agent's. The file to read first.

    client channel ──receive──► relay.frames_received(CLIENT, …) ──commands──► agent channel.send
    agent channel  ──receive──► relay.frames_received(AGENT, …)  ──commands──► client channel.send

Two loops, one a side. Each receives a batch, gives it to the relay, performs the commands and only then
receives again: that is the back-pressure, and there is no other buffer. What a frame means, who must be
answered and when the link is over is decided in `core/relay.py`; this module performs it.

What a small frame costs is Python between two system calls: a round trip through `mirror` and `expose` takes
400 µs, of which a bare byte relay in the same event loop needs 80. Callbacks from pipe to socket in place of
the two loops were measured there and left: they save 7 µs a hop. `tests/bench` measures.
"""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol, assert_never

import anyio
import anyio.lowlevel

from .core.batch import joined
from .core.relay import Command, Drain, Finish, Note, Relay, Send
from .core.side import Side
from .ending import Ending, EndingKind
from .errors import ChannelClosed
from .transport.channel import Channel

__all__ = ["Link", "Observer"]

logger = logging.getLogger(__name__)

LAST_SEND = 1.0
"""Seconds that the last frames of a link may wait for room; they are queued either way."""

MANY = 4096
"""Frames of a batch after which other links get their turn: each of them may have to be refused."""

NOTES_PER_MINUTE = 10


class Observer(Protocol):
    """Is told what a link does; must return at once and raise nothing."""

    def sent(self, side: str, lines: bytes, count: int) -> None:
        """So many frames, joined by LF, are on their way to `side`."""
        ...

    def noted(self, text: str) -> None:
        """The client's connection was lost, or came back."""
        ...

    def ended(self, ending: Ending) -> None:
        """The link has ended."""
        ...


class Link:
    """One client channel joined to one agent channel."""

    def __init__(
        self,
        link_id: str,
        client: Channel,
        agent: Channel,
        relay: Relay,
        *,
        drain_timeout: float = 10,
        observers: Sequence[Observer] = (),
    ) -> None:
        """`drain_timeout`: seconds that open replies may take after the client's input ended."""
        self.id = link_id
        self.relay = relay
        self._channels = {Side.CLIENT: client, Side.AGENT: agent}
        self._drain_timeout = drain_timeout
        self._observers = observers
        self._stop = anyio.Event()
        self._stop_ending = Ending(EndingKind.SHUTDOWN, "the relay is shutting down")
        self._finished = anyio.Event()
        self._is_over = False
        self._ending = Ending(EndingKind.SHUTDOWN, "the link was cancelled")
        self._draining = anyio.Event()
        self._notes = _NoteLimit()
        self.closed = anyio.Event()
        self.log = _LinkLog(logger, {"link": link_id})

    def stop(self, ending: Ending) -> None:
        """Asks the link to end: open requests are answered, then both channels close. Idempotent."""
        self._stop_ending = ending
        self._stop.set()

    def note(self, text: str) -> None:
        """Tells that the client's connection was lost, or came back."""
        self.log.info("%s", text)
        for observer in self._observers:
            observer.noted(text)

    def abort(self) -> None:
        """Ends the link at once, without waiting for anybody."""
        for channel in self._channels.values():
            channel.abort()

    async def run(self) -> Ending:
        """Relays until the link is over, closes both channels, also when cancelled, and returns why."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._relay_from, Side.CLIENT)
                tasks.start_soon(self._relay_from, Side.AGENT)
                tasks.start_soon(self._wait_stop)
                tasks.start_soon(self._wait_drained)
                try:
                    await self._finished.wait()
                finally:
                    self._is_over = True
                    tasks.cancel_scope.cancel()
        except Exception:
            self._ending = Ending(EndingKind.INTERNAL, "the relay failed; its log says how")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                # Answers what is open where neither side ended the link; otherwise it does nothing.
                await self._perform(self.relay.stopped(self._ending))
                await self._close()
            self._say_left_out()
            for observer in self._observers:
                observer.ended(self._ending)
            self.closed.set()
        return self._ending

    async def _relay_from(self, side: Side) -> None:
        channel, relay = self._channels[side], self.relay
        # A task that is woken in every turn of the loop, as in a flood, is never cancelled by anyio: it only
        # cancels those that wait. So the loop asks, too.
        while not self._is_over:
            try:
                frames = await channel.receive()
            except ChannelClosed as closed:
                await self._perform(relay.side_closed(side, closed.ending))
                return
            if len(frames) <= MANY:
                await self._perform(relay.frames_received(side, frames))
            else:
                await self._relay_many(side, frames)

    async def _relay_many(self, side: Side, frames: Sequence[bytes]) -> None:
        for start in range(0, len(frames), MANY):
            await self._perform(self.relay.frames_received(side, frames[start : start + MANY]))
            await anyio.lowlevel.checkpoint()

    async def _perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Send(side, frames):
                    await self._send(side, frames, is_last=isinstance(commands[-1], Finish))
                case Note(text):
                    self._note(text)
                case Drain():
                    self._draining.set()
                case Finish(ending):
                    self._ending = ending
                    self._finished.set()
                case _:
                    assert_never(command)

    async def _send(self, side: Side, frames: Sequence[bytes], *, is_last: bool) -> None:
        for observer in self._observers:
            observer.sent(side.value, joined(frames), len(frames))
        try:
            if is_last:
                with anyio.move_on_after(LAST_SEND):
                    await self._channels[side].send(frames)
            else:
                await self._channels[side].send(frames)
        except ChannelClosed as closed:
            await self._perform(self.relay.undeliverable(side, frames, closed.ending))

    async def _wait_stop(self) -> None:
        await self._stop.wait()
        await self._perform(self.relay.stopped(self._stop_ending))

    async def _wait_drained(self) -> None:
        await self._draining.wait()
        await anyio.sleep(self._drain_timeout)
        waited = f"the client's input ended, and nothing more came for {self._drain_timeout:g} s"
        await self._perform(self.relay.stopped(Ending(EndingKind.CLIENT_LEFT, waited)))

    def _note(self, text: str) -> None:
        if self._notes.is_over:
            self._say_left_out()
        if self._notes.allows():
            self.log.warning("%s", text)

    def _say_left_out(self) -> None:
        left_out = self._notes.restart()
        if left_out:
            self.log.warning("left out %d more notes of this kind", left_out)

    async def _close(self) -> None:
        ending = self._ending
        async with anyio.create_task_group() as tasks:
            for channel in self._channels.values():
                tasks.start_soon(channel.aclose, ending)


class _NoteLimit:
    """Lets ten notes a minute through, so that a chatty agent cannot fill the log."""

    def __init__(self) -> None:
        self._count, self._since = 0, time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the minute is."""
        return time.monotonic() - self._since > 60

    def allows(self) -> bool:
        self._count += 1
        return self._count <= NOTES_PER_MINUTE

    def restart(self) -> int:
        """Begins another minute; gives how many notes the last one left out."""
        left_out = max(0, self._count - NOTES_PER_MINUTE)
        self._count, self._since = 0, time.monotonic()
        return left_out


class _LinkLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the link id in front of every message and on every record."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        assert self.extra is not None
        kwargs["extra"] = {**kwargs.get("extra", {}), **self.extra}
        return f"link {self.extra['link']}: {msg}", kwargs
