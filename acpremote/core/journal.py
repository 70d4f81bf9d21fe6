"""What makes a link survive its sockets: numbers, credit, acknowledgements, replay. No I/O, no clock.

The n-th frame in a direction has number n; the number is never written. `Outbox` keeps what was sent until
the peer acknowledges it, `Inbox` holds what arrived until it is taken, `Journal` is both halves of one end.

    send ──► Outbox: waiting ─ credit ─► sent ─ ack ─► forgotten        ┐ a resume moves what is sent and
                                │                                       ┘ not received back to waiting
                              socket
                                ▼
             Inbox:  unread ─ take ─► taken (counted, acknowledged)       a resume discards what is unread

Frames are kept joined by LF, as they travel: a batch costs one join, one object and no work per frame; it is
split only if the peer's count ends inside it. Sizes are in bytes of lines, LF included, on both ends, so that
joining and splitting never changes a size. `control.py` has the messages; read `transport/resumable.py` next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..ending import Ending, EndingKind
from ..errors import RemoteProtocolError
from . import control
from .batch import Batch, joined

__all__ = ["BATCH_BYTES", "Inbox", "Journal", "Message", "Outbox"]

BATCH_BYTES = 256 * 1024
"""Longest message made of several frames; a longer frame travels alone."""

SMALL_BYTES = 8 * 1024
"""Batches that wait are joined up to this size: a long wait then costs no object a frame."""

ACK_FRAMES = 256
ACK_BYTES = 256 * 1024
"""An ack is due after so many frames or bytes were taken; the owner's timer sends the rest."""


class Message(NamedTuple):
    """One WebSocket message: data if it is text, control if not."""

    is_text: bool
    data: bytes


class _Kept:
    """Frames with consecutive numbers, joined; or an `end`, which is not text."""

    __slots__ = ("count", "data", "is_text")

    def __init__(self, count: int, data: bytes, is_text: bool = True) -> None:
        self.count = count
        self.data = data
        self.is_text = is_text

    @property
    def size(self) -> int:
        return len(self.data) + 1


class Outbox:
    """The sending half.

    `window` bytes may be unacknowledged; a batch that is larger is sent when nothing else is.
    """

    def __init__(self, *, window: int, max_size: int) -> None:
        """`window` and `max_size` are the peer's."""
        self.window = window
        self._batch_bytes = min(BATCH_BYTES, window // 4, max_size)
        self._waiting: deque[_Kept] = deque()
        self._sent: deque[_Kept] = deque()
        self._in_flight = 0
        self.size = 0
        """Bytes kept: sent and unacknowledged, or waiting."""
        self.acknowledged = self.sent = self.queued = 0
        """Numbers of the last frame the peer has taken, that was sent, that was queued."""
        self.has_ended = False
        self._is_abandoned = False

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to send, now or when credit comes."""
        return bool(self._waiting)

    @property
    def is_delivered(self) -> bool:
        """Whether the peer has taken everything, or will take nothing more."""
        return self._is_abandoned or self.acknowledged == self.queued

    def queue(self, frames: Sequence[bytes]) -> None:
        """Takes frames in, none of which holds an LF. The caller heeds `size`; nothing is refused here."""
        if self._is_abandoned:
            return
        data, count = joined(frames), len(frames)
        if len(data) <= self._batch_bytes or count == 1:
            self._append(count, data)
        else:
            for piece in _pieces(data, self._batch_bytes):
                self._append(piece.count(b"\n") + 1, piece)

    def end(self, ending: Ending) -> None:
        """Queues the `end`. It has a number, so that its arrival is acknowledged like a frame's.

        A peer that takes no frame any more is told all the same: it may want to know how we ended.
        """
        self.has_ended = True
        data = control.encode(control.End.from_ending(ending))
        self._account(1, len(data) + 1)
        self._waiting.append(_Kept(1, data, is_text=False))

    def take(self, limit: int) -> list[Message]:
        """Gives what is to be sent now: as much as credit allows, about `limit` bytes at most."""
        messages: list[Message] = []
        waiting = self._waiting
        while waiting and limit > 0:
            kept = waiting[0]
            size = kept.size
            if self._in_flight and self._in_flight + size > self.window:
                break
            self._sent.append(waiting.popleft())
            self._in_flight += size
            self.sent += kept.count
            limit -= size
            messages.append(Message(kept.is_text, kept.data))
        return messages

    def acknowledge(self, number: int) -> None:
        """Forgets every frame up to this number.

        Raises:
            RemoteProtocolError: the number was never sent, or is below one acknowledged before.
        """
        self._check(number)
        if self._is_abandoned:
            return
        while number > self.acknowledged:
            kept = self._sent[0]
            count = min(kept.count, number - self.acknowledged)
            before = kept.size
            if count == kept.count:
                self._sent.popleft()
                released = before
            else:
                kept.data = kept.data.split(b"\n", count)[count]
                kept.count -= count
                released = before - kept.size
            self.acknowledged += count
            self._in_flight -= released
            self.size -= released

    def resume(self, received: int) -> None:
        """Gets ready to send again, on a new socket, what the peer did not receive.

        Raises:
            RemoteProtocolError: as `acknowledge`; nothing was changed.
        """
        self.acknowledge(received)
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
        self._in_flight = 0
        if not self._is_abandoned:
            self.sent = self.acknowledged

    def abandon(self) -> None:
        """Forgets everything, now and later: the peer will take no more."""
        self._is_abandoned = True
        self._waiting.clear()
        self._sent.clear()
        self._in_flight = self.size = 0

    def _check(self, number: int) -> None:
        if not self.acknowledged <= number <= self.sent:
            raise RemoteProtocolError(
                f"frames up to {number} are said to be received; between {self.acknowledged} "
                f"and {self.sent} were possible"
            )

    def _account(self, count: int, size: int) -> None:
        self.queued += count
        self.size += size

    def _append(self, count: int, data: bytes) -> None:
        self._account(count, len(data) + 1)
        if self._waiting:
            last = self._waiting[-1]
            if last.size + len(data) <= min(SMALL_BYTES, self._batch_bytes):
                last.data = b"%b\n%b" % (last.data, data)
                last.count += count
                return
        self._waiting.append(_Kept(count, data))


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cuts joined frames into pieces of so many bytes at most, or of one frame that is longer."""
    start = 0
    while len(data) - start > size:
        end = data.rfind(b"\n", start, start + size + 1)
        if end < 0:
            end = data.find(b"\n", start)
        if end < 0:
            break
        yield data[start:end]
        start = end + 1
    yield data[start:]


class Inbox:
    """The receiving half. A frame is received when it was taken; only then it is counted."""

    def __init__(self, *, window: int, max_size: int) -> None:
        """`window` and `max_size` are our own."""
        self._window = window
        self._max_size = max_size
        self._unread: deque[bytes] = deque()
        self._unread_size = 0
        self._ending: Ending | None = None
        self._ack_bytes = min(ACK_BYTES, window // 4)
        self._taken_size = 0
        self.acknowledged = self.taken = 0
        """Numbers of the last frame we acknowledged and of the last that was taken."""
        self.ending: Ending | None = None
        """The peer's, once everything before it was taken."""

    @property
    def announced(self) -> Ending | None:
        """The peer's `end` as soon as it has arrived; what came before it may still be unread."""
        return self._ending

    @property
    def has_end(self) -> bool:
        """Whether the peer's `end` has arrived."""
        return self._ending is not None

    @property
    def is_ack_due(self) -> bool:
        """Whether an ack must be sent without waiting for the timer."""
        return (
            self.taken - self.acknowledged >= ACK_FRAMES
            or self._taken_size >= self._ack_bytes
            or (self.ending is not None and self.taken > self.acknowledged)
        )

    def arrived(self, data: bytes) -> None:
        """Takes in a message of frames.

        Raises:
            RemoteProtocolError: it is more than we granted, or a frame is too long, or it follows an `end`.
        """
        if self._ending is not None:
            raise RemoteProtocolError("a frame after the end of the link")
        if len(data) > self._max_size and max(map(len, data.split(b"\n"))) > self._max_size:
            raise RemoteProtocolError(f"a frame over {self._max_size} bytes", EndingKind.TOO_BIG)
        if len(data) > BATCH_BYTES and b"\n" in data:
            raise RemoteProtocolError(f"a batch over {BATCH_BYTES} bytes")
        # The peer may count lines without their LF, so we do, to be sure of its fault.
        if self._unread and self._unread_size + len(data) > self._window:
            raise RemoteProtocolError(f"more than the {self._window} bytes that were granted")
        self._unread.append(data)
        self._unread_size += len(data)

    def ended(self, ending: Ending) -> None:
        """Takes in the peer's `end`."""
        if self._ending is not None:
            raise RemoteProtocolError("a second end of the link")
        self._ending = ending
        self._reach_end()

    def take(self) -> Sequence[bytes]:
        """Gives frames, empty if there are none now; after that `ending` may have been reached."""
        if not self._unread:
            return []
        taken = [self._unread.popleft()]
        size = len(taken[0])
        while self._unread and size < BATCH_BYTES:
            taken.append(self._unread.popleft())
            size += len(taken[-1])
        batch = Batch(taken[0] if len(taken) == 1 else b"\n".join(taken))
        self._unread_size -= size
        self._taken_size += size
        self.taken += batch.lines
        self._reach_end()
        return batch

    def acknowledge(self) -> int:
        """Gives the number to acknowledge now."""
        self.acknowledged = self.taken
        self._taken_size = 0
        return self.taken

    def discard(self) -> None:
        """Forgets what was not taken: it came over a socket that is gone and will be sent again."""
        self._unread.clear()
        self._unread_size = 0
        if self.ending is None:
            self._ending = None
        self.acknowledge()

    def _reach_end(self) -> None:
        if self._ending is not None and not self._unread and self.ending is None:
            self.ending = self._ending
            self.taken += 1


class Journal:
    """Both halves of one end of a link.

    A resume, seen from the client: `redial` before the hello, `resume` with the welcome; seen from the
    server: `readmit`. Each end lets go of the old socket first: what that may still bring counts for nothing.
    """

    def __init__(self, inbox: Inbox, outbox: Outbox) -> None:
        self.inbox = inbox
        self.outbox = outbox
        self._attempt = 0

    @property
    def has_carried(self) -> bool:
        """Whether a frame was taken or acknowledged in either direction."""
        return bool(self.inbox.taken or self.outbox.queued)

    def redial(self) -> tuple[int, int]:
        """Lets go of the old socket; gives the numbers of the hello: what was received, and of the try."""
        self.inbox.discard()
        self._attempt += 1
        return self.inbox.taken, self._attempt

    def readmit(self, received: int, attempt: int) -> int:
        """Takes in a hello's numbers and goes on with its socket; gives what was received, for the welcome.

        Raises:
            RemoteProtocolError: the hello came late, is a replay, or its count is absurd. Nothing was
                changed: the old socket goes on.
        """
        if attempt <= self._attempt:
            raise RemoteProtocolError(f"try {attempt} came after try {self._attempt}")
        self.outbox.resume(received)
        self.inbox.discard()
        self._attempt = attempt
        return self.inbox.taken

    def resume(self, received: int) -> None:
        """Takes in a welcome's number and goes on with its socket.

        Raises:
            RemoteProtocolError: the count is absurd.
        """
        self.outbox.resume(received)

    def arrived(self, messages: Iterable[tuple[bool, bytes]]) -> None:
        """Takes in what a socket received.

        Raises:
            RemoteProtocolError: the peer broke the rules; what came before was taken in.
        """
        for is_text, data in messages:
            if is_text:
                self.inbox.arrived(data)
                continue
            match control.parse(data):
                case control.Ack(n=number):
                    self.outbox.acknowledge(number)
                case control.End() as end:
                    self.inbox.ended(end.ending)
                    self.outbox.abandon()
                case None:
                    pass
                case other:
                    raise RemoteProtocolError(f"{other!r} on a link that is open")

    def pending(self, limit: int, *, ack_now: bool = False) -> list[Message]:
        """Gives the messages to send now, an ack first if one is due; `ack_now`: the timer says so."""
        messages = self.outbox.take(limit)
        inbox = self.inbox
        if inbox.is_ack_due or (ack_now and inbox.taken > inbox.acknowledged):
            ack = control.encode(control.Ack(n=inbox.acknowledge()))
            messages.insert(0, Message(False, ack))
        return messages
