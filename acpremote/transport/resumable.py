"""A channel that outlives its sockets: what both ends of the acpremote link share.

`core/journal.py` decides what is sent, kept and sent again; this module lends it one socket after another and
the clock. Where sockets come from is decided in `links.py` (server) and `redial.py` (client).

    ATTACHED ◄─ attach ──┬── socket lost ─► DETACHED ── time is up ──┐
       └─ aclose ─► LEAVING ── the peer has taken everything ────────┴─► CLOSED
       └─ a broken rule, 1002, 1003, 1007, 1008, 1009, 4001, 4004 ─────► CLOSED

A socket is always read, so acks never wait behind data; what was read and not taken is bounded by the
window that the peer was granted. Writing is done by whoever has something to write (a `send`, an ack that is
due), as long as the socket has room; a task of the socket goes on when it has room again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import anyio

from ..core.journal import Inbox, Journal, Message, Outbox
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed, RemoteProtocolError
from ..options import TransportOptions
from .bell import Bell
from .budget import JournalBudget

__all__ = ["LinkSocket", "ResumableChannel", "new_journal"]

logger = logging.getLogger(__name__)

ACK_DELAY = 0.2
"""Seconds after which frames that were taken are acknowledged, however few they are."""

WRITE_BYTES = 1024 * 1024
"""Bytes written in one go; acks get in between."""

JOURNAL_FLOOR = 256 * 1024
"""Bytes that a link may keep even when all journals of the server are over their common limit."""

_FINAL = frozenset(
    {
        EndingKind.PROTOCOL,
        EndingKind.NOT_UTF8,
        EndingKind.POLICY,
        EndingKind.TOO_BIG,
        EndingKind.REPLACED,
        EndingKind.NO_SUCH_LINK,
    }
)
"""What a socket can end with that ends its link, too; after anything else the link waits for another."""


class LinkSocket(Protocol):
    """What is needed of a socket; `websocket.Socket` has it."""

    paused: bool
    """Whether the write buffer is over its bound."""

    async def receive_messages(self) -> list[Message]:
        """Waits for messages; raises `ChannelClosed` after the last."""
        ...

    def deliver(self, receiver: Callable[[list[Message]], None]) -> None:
        """Gives messages to `receiver` as they arrive, from now on, and to no receiver named before.

        It is called by the event loop in the middle of a read: it must not raise, and may end the socket.
        """
        ...

    async def wait_ended(self) -> Ending:
        """Waits for the end of the socket; returns why."""
        ...

    def write_messages(self, messages: Sequence[Message]) -> None:
        """Queues messages; raises `ChannelClosed`."""
        ...

    async def wait_drained(self) -> None:
        """Returns when the write buffer has room, or will never have any."""
        ...

    def fail(self, ending: Ending) -> None:
        """Ends the socket without waiting for the peer."""
        ...

    async def shut(self, ending: Ending) -> None:
        """Closes in order; bounded in time."""
        ...

    def abort(self) -> None:
        """Ends the socket at once."""
        ...


def new_journal(options: TransportOptions, *, peer_window: int, peer_max_size: int) -> Journal:
    """Makes a journal with our limits and the peer's; we never keep more than our own window."""
    return Journal(
        Inbox(window=options.window, max_size=options.max_size),
        Outbox(window=min(options.window, peer_window), max_size=peer_max_size),
    )


class ResumableChannel:
    """One end of a link, as a channel.

    `ending` is why the link is over, None while it is not; `is_attached` whether it has a socket.
    """

    def __init__(
        self,
        journal: Journal,
        options: TransportOptions,
        *,
        stall_timeout: float = math.inf,
        budget: JournalBudget | None = None,
    ) -> None:
        """`stall_timeout`: a peer that takes nothing of what waits for it so long is given up."""
        self.journal = journal
        self.ending: Ending | None = None
        self._options = options
        self._stall_timeout = stall_timeout
        self._budget = budget or JournalBudget()
        self._charged = 0
        self._socket: LinkSocket | None = None
        self._is_leaving = False
        self._said_goodbye = False
        self.was_delivered = False
        """Whether the peer had taken everything when the channel was closed."""
        self._ack_timer: asyncio.TimerHandle | None = None
        self._progress = 0.0
        self._arrived = Bell()
        self._changed = asyncio.Event()
        self._congested = asyncio.Event()

    # -- the channel ------------------------------------------------------------------------------------

    async def receive(self) -> Sequence[bytes]:
        """See `Channel.receive`."""
        inbox = self.journal.inbox
        while True:
            frames = inbox.take()
            if frames or inbox.ending is not None:
                self._acknowledge()
            if frames:
                return frames
            ending = self._no_more
            if ending is not None:
                raise ChannelClosed(ending)
            await self._arrived.next()

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`. A peer that has ended is spared what is sent until its end is received."""
        self._check_open()
        if not frames:
            return
        self.journal.outbox.queue(frames)
        self._flush()
        if self._is_full:
            with self._budget.waiting(self.wake):
                await self._wait_room()

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. Waits for a socket to deliver over while the link may still be resumed."""
        if self._is_leaving:
            return
        self._is_leaving = True
        try:
            if self.ending is None:
                self.journal.outbox.end(ending)
                await self._leave(ending)
            elif self.journal.inbox.has_end and not self.journal.outbox.has_ended:
                # The peer left first; that we failed meanwhile is told all the same.
                self.journal.outbox.end(ending)
                await self._let_go()
        finally:
            ours = Ending(EndingKind.DONE) if self.journal.inbox.has_end else ending
            self.ending = self.ending or ending
            self.was_delivered = self.journal.outbox.is_delivered
            self._release()
            if self._socket is not None:
                await self._socket.shut(ours)

    def abort(self) -> None:
        """See `Channel.abort`."""
        socket = self._socket
        self.fail(Ending(EndingKind.LOST, "aborted"))
        if socket is not None:
            socket.abort()

    def fail(self, ending: Ending) -> None:
        """Ends the link without the peer's help. What was received can still be taken. Idempotent."""
        if self.ending is None:
            self.ending = ending
        if self._socket is not None:
            self._socket.fail(ending)
        self.wake()
        self._arrived.ring()

    # -- its sockets ------------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether the link has a socket."""
        return self._socket is not None

    def attach(self, socket: LinkSocket) -> None:
        """Goes on with this socket, for which the journal was made ready; an older one is replaced."""
        replaced, self._socket = self._socket, socket
        if replaced is not None:
            replaced.fail(Ending(EndingKind.REPLACED, "resumed over another connection"))
        self._progress = self._now
        self.wake()

    async def serve(self, socket: LinkSocket, first: Sequence[Message] = ()) -> Ending:
        """Uses the attached socket until it is lost or replaced; returns why. `first` was read already."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, socket)
                ending = await self._read(socket, first)
                tasks.cancel_scope.cancel()
        finally:
            if self._socket is socket:
                self._socket = None
                self.wake()
        return ending

    async def _read(self, socket: LinkSocket, first: Sequence[Message]) -> Ending:
        def take_in(messages: Sequence[Message]) -> None:
            if self._socket is not socket or self.ending is not None:
                return
            try:
                self._take_in(messages)
            except RemoteProtocolError as error:
                self.fail(error.ending)
            except Exception:  # the event loop would close the socket, and the next one would fail again
                logger.exception("cannot take in what the peer sent")
                self.fail(Ending(EndingKind.INTERNAL, "the relay failed; its log says how"))

        take_in(first)
        socket.deliver(take_in)
        ending = await socket.wait_ended()
        if self._socket is not socket:
            return Ending(EndingKind.REPLACED, "resumed over another connection")
        self._lost(ending)
        return ending

    def _lost(self, ending: Ending) -> None:
        self._said_goodbye = ending.kind in (EndingKind.CLIENT_LEFT, EndingKind.DONE)
        if ending.kind in _FINAL:
            self.fail(ending)

    def _take_in(self, messages: Sequence[Message]) -> None:
        before = self.journal.outbox.acknowledged
        try:
            self.journal.arrived(messages)
        finally:
            self._arrived.ring()
            if self.journal.outbox.acknowledged > before or self.journal.inbox.has_end:
                self._progress = self._now
                self.wake()
                self._flush()

    async def _write(self, socket: LinkSocket) -> None:
        while True:
            self._flush(ack_now=True)
            self._congested = asyncio.Event()
            if not socket.paused:
                await self._congested.wait()
            await socket.wait_drained()

    def _flush(self, *, ack_now: bool = False) -> None:
        """Writes what may be written as long as the socket has room."""
        self._settle()
        socket = self._socket
        if socket is None:
            return
        while not socket.paused:
            messages = self.journal.pending(WRITE_BYTES, ack_now=ack_now)
            if not messages:
                return
            try:
                socket.write_messages(messages)
            except ChannelClosed:
                return  # whoever reads the socket finds out; a resume sends again
            if not self.journal.outbox.is_waiting:
                return
        self._congested.set()

    def _acknowledge(self) -> None:
        inbox = self.journal.inbox
        if inbox.is_ack_due:
            self._flush()
        elif self._ack_timer is None and inbox.taken > inbox.acknowledged:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_DELAY, self._acknowledge_late)

    def _acknowledge_late(self) -> None:
        self._ack_timer = None
        self._flush(ack_now=True)

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # -- waiting ----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Lets everybody look again who waits for room, for a socket or for the end."""
        self._settle()
        self._changed.set()
        self._changed = asyncio.Event()

    def _settle(self) -> None:
        charge = self.journal.outbox.size - self._charged
        if charge:
            self._charged += charge
            self._budget.charge(charge)

    @property
    def _is_full(self) -> bool:
        outbox = self.journal.outbox
        return outbox.size > outbox.window or (outbox.size > JOURNAL_FLOOR and self._budget.is_spent)

    @property
    def _no_more(self) -> Ending | None:
        """Why nothing will come any more and nothing can be sent."""
        return self.journal.inbox.ending or self.ending

    def _check_open(self) -> None:
        ending = self._no_more
        if self._is_leaving:
            ending = ending or Ending(EndingKind.DONE, "closed by this side")
        if ending is not None:
            raise ChannelClosed(ending)

    async def _wait_room(self) -> None:
        if self.is_attached:
            self._progress = max(self._progress, self._now)
        while self._is_full:
            await self._wait_change(self._stall_timeout)
            if self.ending is not None:
                raise ChannelClosed(self.ending)
            if self._is_stalled(self._stall_timeout):
                why = f"the other end took nothing for {self._stall_timeout:g} s"
                ending = Ending(EndingKind.STALLED, why)
                self.fail(ending)
                raise ChannelClosed(ending)

    async def _wait_change(self, timeout: float) -> None:
        """Waits for a change, or for `timeout` seconds since the last progress."""
        left = self._progress + timeout - self._now if self.is_attached else math.inf
        with anyio.move_on_after(max(0.01, left)):
            await self._changed.wait()

    def _is_stalled(self, timeout: float) -> bool:
        return self.is_attached and self._now >= self._progress + timeout

    async def _leave(self, ending: Ending) -> None:
        """Waits until the peer has taken everything, its end included, or until there is no hope."""
        patience = self._options.stall_timeout
        self._progress = self._now
        deadline = self._progress + self._patience(ending)
        while self.ending is None:
            if self.journal.inbox.has_end:
                await self._let_go()
                return
            self._flush()
            if self.journal.outbox.is_delivered:
                await self._hear_out(ending)
                return
            if self._is_stalled(patience):
                return
            if self.is_attached:
                await self._wait_change(patience)
            elif self._now < deadline:
                with anyio.move_on_after(deadline - self._now):
                    await self._changed.wait()
            else:
                return

    def _patience(self, ending: Ending) -> float:
        """Seconds that `aclose` waits for a socket, if there is none; a server's grace ends the wait."""
        return math.inf

    async def _hear_out(self, ending: Ending) -> None:
        """Our end has arrived: waits for the peer's where it can still tell something. A server need not."""

    async def _let_go(self) -> None:
        """The peer has ended: tells it that this was received. The rest of what it said is of no use."""
        while self.journal.inbox.take():
            pass
        self._flush(ack_now=True)

    def _release(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self.journal.outbox.abandon()
        self.wake()
