"""A channel over a websockets connection, on both ends.

`websockets` does handshake, framing and closing. This module replaces four parts of its connection, each
for a measured reason:

- Receiving. `recv()` hides whether a message was text or binary, lets invalid UTF-8 pass and bounds its
  queue by messages. Here `process_event` keeps opcode and payload, bounds the queue in bytes and fails
  invalid UTF-8 with 1007.
- Sending. One `send()` a frame costs half of the throughput of small frames. Here all frames of a batch are
  serialised into the connection and written at once.
- Keepalive. The built-in one waits behind a full write buffer and fires while reading is paused. Here one
  watchdog a socket looks for any sign of life: a byte that arrived, or a write buffer that shrank.
- Turns. One read may hold ten thousand frames. Here a large one is parsed piece by piece.

Reading is paused while any of these holds, and goes on when none does: the inbox is over its bound, a part of
the last read is still to be parsed, the peer pings and does not read what we answer.

Read `pump.py` next.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.protocol import State

from ..core.batch import Batch
from ..core.envelope import is_json
from ..core.frame import as_line
from ..core.journal import Message
from ..core.noise import is_utf8
from ..core.side import Side
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed
from ..options import TransportOptions
from .bell import Bell

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection as _Base
    from websockets.protocol import Event
else:
    _Base = object

__all__ = ["Message", "Socket", "WebSocketChannel"]

logger = logging.getLogger(__name__)

# At DEBUG the library prints headers and content, tokens among them; at INFO every connection, as we do.
for _name in ("websockets", "websockets.server", "websockets.client"):
    logging.getLogger(_name).setLevel(logging.WARNING)

STOCK_LIMIT = 1024 * 1024
"""Bytes of a message that every client accepts; several stock ones refuse more."""

WRITE_HIGH_WATER = 256 * 1024
"""Bytes in the write buffer above which a sender waits."""

FEW_WRITES = 16
"""Messages above which it is cheaper to join them than to hand them to the system one by one."""

_TIMESTAMP = struct.Struct("!d")

TURN_BYTES = 32 * 1024
"""Bytes of a socket that are parsed before the rest of the loop gets its turn; full of tiny frames, 20 ms."""

MESSAGE_OVERHEAD = 128
"""Bytes of memory that a message takes beside its content: many small ones, or empty ones, are large too."""

UNREAD_PONGS = 64 * 1024
"""Bytes that we answer to the pings of a peer whose write buffer is full before we stop reading from it."""

PING_BYTES = 2 + 4 + _TIMESTAMP.size
"""Length of a ping on the wire, with its mask."""

LINGER = 1.0
"""Seconds the peer has to close its end of the TCP connection after the closing handshake."""

_SLEEP_CHECK = 5.0


class Socket(_Base):
    """What we add to a websockets connection; mixed into its server class by `DoorSocket` and into its client
    class by `ClientSocket`, each where it is used: a command needs one of them only.

    `configure` must be called before the first message; `peer` names who is at the other end; `round_trip`
    is told the seconds between each ping and its pong.
    """

    peer = Side.CLIENT
    round_trip: Callable[[float], None] | None = None
    _options = TransportOptions()
    _ending: Ending | None = None
    _receiver: Callable[[list[Message]], None] | None = None
    _reading_paused = False
    _is_in_turns = False
    _discards = False
    _unread_pongs = 0
    _inbox_size = 0
    _written = 0
    _last_byte = 0.0

    def configure(self, options: TransportOptions, peer: Side) -> None:
        """Sets limits and the peer's name; `options` holds what both ends share."""
        self._options = options
        self.peer = peer

    # -- called by websockets and the event loop --------------------------------------------------------

    def connection_made(self, transport: object) -> None:
        """Starts with an empty inbox."""
        super().connection_made(transport)  # type: ignore[arg-type]  # asyncio's own signature is wider
        self._inbox: list[Message] = []
        self._backlog = bytearray()
        self._fragments = bytearray()
        self._fragments_are_text = False
        self._arrived = Bell()
        self._ended: asyncio.Future[None] = self.loop.create_future()
        self._last_byte = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Notes the sign of life, then lets websockets parse."""
        self._last_byte = self.loop.time()
        if self._is_in_turns:  # TLS may bring more although it was told to pause
            self._backlog += data
        elif len(data) < TURN_BYTES or self.transport.is_closing():
            self._parse(data)
        else:
            # uvloop gives 256 kB at once, and reads a busy socket up to 32 times before it runs anything:
            # seconds, when frames are small. A turn of the loop in between keeps everybody else alive.
            self.transport.pause_reading()
            if self.peer is Side.CLIENT:  # one of many, and a stranger
                self._backlog += data[TURN_BYTES:]
                data = data[:TURN_BYTES]
            self._is_in_turns = True
            self._parse(data)
            self.loop.call_soon(self._read_on)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if self._receiver is not None and self._inbox:
            self._receiver(self._empty_inbox())
        # While we close in order, only the peer's close, or its loss, is the end.
        if self._ending is None and self.protocol.state > State.OPEN and not self._discards:
            self._note_end()

    def process_event(self, event: Event) -> None:
        """Takes data frames into our own inbox."""
        if not isinstance(event, Frame):
            super().process_event(event)
        elif event.opcode in DATA_OPCODES:
            self._take(event)
        elif event.opcode is Opcode.PONG and len(event.data) == _TIMESTAMP.size:
            self.latency = self.loop.time() - _TIMESTAMP.unpack(event.data)[0]
            if self.round_trip is not None:
                self.round_trip(self.latency)
        elif event.opcode is Opcode.CLOSE and self._ending is None:
            self._note_end()

    def eof_received(self) -> None:
        """Parses what came before the end; TLS tells of it although reading is paused."""
        self._parse_backlog()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wakes whoever receives."""
        if not hasattr(self, "_inbox"):
            return  # TLS failed inside a proxy's tunnel: nobody was told that there is a connection
        self._parse_backlog()
        super().connection_lost(exc)
        if self._ending is None:
            self._note_end()

    def send_data(self) -> None:
        """Writes what websockets has to say by itself: answers to pings, which the peer may never read."""
        before = (
            self.transport.get_write_buffer_size() if self.paused and not self.transport.is_closing() else 0
        )
        super().send_data()
        if before and not self.transport.is_closing():
            self._unread_pongs += self.transport.get_write_buffer_size() - before
            if self._unread_pongs > UNREAD_PONGS and not self._reading_paused:
                self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Goes on reading from a peer that reads again."""
        super().resume_writing()
        if self._unread_pongs:
            self._unread_pongs = 0
            self._resume_reading()

    def _read_on(self) -> None:
        if self.transport.is_closing():
            return  # `connection_lost` takes the rest
        if self._backlog:
            self._parse_backlog(TURN_BYTES)
            self.loop.call_soon(self._read_on)
        else:
            self._is_in_turns = False
            self._resume_reading()

    def _parse_backlog(self, size: int | None = None) -> None:
        data = bytes(self._backlog[:size])
        del self._backlog[:size]
        if data:
            self._parse(data)

    def _resume_reading(self) -> None:
        """Reads on, unless one of the reasons to pause is left: see the head of this module."""
        is_free = not (self._is_in_turns or self._reading_paused or self._unread_pongs > UNREAD_PONGS)
        if is_free and not self.transport.is_closing():
            self.transport.resume_reading()

    def _take(self, event: Frame) -> None:
        if self._ending is not None or self._discards:
            return
        data = bytes(event.data)
        if event.opcode is not Opcode.CONT:
            self._fragments_are_text = event.opcode is Opcode.TEXT
        if not event.fin or event.opcode is Opcode.CONT:
            self._fragments += data
            if not event.fin:
                return
            data = bytes(self._fragments)
            self._fragments = bytearray()
        if self._fragments_are_text and not is_utf8(data):
            self.fail(Ending(EndingKind.NOT_UTF8, f"the {self.peer.value} sent text that is not UTF-8"))
            return
        self._inbox.append(Message(self._fragments_are_text, data))
        self._inbox_size += len(data) + MESSAGE_OVERHEAD
        if self._inbox_size > self._options.window and not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()
        self._arrived.ring()

    def _note_end(self) -> None:
        """Finds out why the connection ended: the peer's close frame, our own, or neither."""
        received, sent = self.protocol.close_rcvd, self.protocol.close_sent
        if received is not None:
            by_client = self.peer is Side.CLIENT
            self._end(Ending.from_close(received.code, received.reason, by_client=by_client))
        elif sent is not None and sent.code == 1009:
            limit = self._options.max_size
            self._end(Ending(EndingKind.TOO_BIG, f"the {self.peer.value} sent a message over {limit} bytes"))
        elif sent is not None:
            self._end(Ending.from_close(sent.code, sent.reason))
        else:
            self._end(Ending(EndingKind.LOST, f"the connection to the {self.peer.value} was lost"))

    @property
    def ending(self) -> Ending | None:
        """Why the connection ended, or None while it has not."""
        return self._ending

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        if not self._ended.done():
            self._ended.set_result(None)
        self._arrived.ring()

    # -- called by us -----------------------------------------------------------------------------------

    def fail(self, ending: Ending) -> None:
        """Ends the connection with this ending without waiting for the peer. Idempotent."""
        if self._ending is None:
            self._end(ending)
        if self.protocol.state is State.OPEN:
            self.protocol.fail(ending.close_code, ending.close_reason)
            self.send_data()

    async def receive_messages(self) -> list[Message]:
        """Waits for messages and returns all that arrived.

        Raises:
            ChannelClosed: the connection has ended and everything received was returned.
        """
        while not self._inbox:
            if self._ending is not None:
                raise ChannelClosed(self._ending)
            await self._arrived.next()
        return self._empty_inbox()

    def deliver(self, receiver: Callable[[list[Message]], None]) -> None:
        """Gives messages to `receiver` from now on, instead of `receive_messages`; see `LinkSocket`."""
        self._receiver = receiver
        if self._inbox:
            receiver(self._empty_inbox())

    async def wait_ended(self) -> Ending:
        """Waits for the end of the connection; returns why."""
        await asyncio.shield(self._ended)
        assert self._ending is not None
        return self._ending

    def _empty_inbox(self) -> list[Message]:
        messages, self._inbox, self._inbox_size = self._inbox, [], 0
        if self._reading_paused:
            self._reading_paused = False
            self._last_byte = self.loop.time()
            self._resume_reading()
        return messages

    def write_messages(self, messages: Sequence[Message]) -> None:
        """Queues messages for sending, without waiting; `wait_room` waits.

        Raises:
            ChannelClosed: the connection has ended.
        """
        protocol = self._open_protocol()
        for is_text, data in messages:
            if is_text:
                protocol.send_text(data)
            else:
                protocol.send_binary(data)
        self._flush()

    def write_texts(self, texts: Iterable[bytes | memoryview]) -> None:
        """Queues text messages; the fast path of `write_messages`."""
        send_text = self._open_protocol().send_text
        for text in texts:
            send_text(text)
        self._flush()

    def _open_protocol(self) -> _Protocol:
        if self._ending is not None:
            raise ChannelClosed(self._ending)
        if self.protocol.state is not State.OPEN:
            raise ChannelClosed(Ending(EndingKind.LOST, "the connection is closed"))
        return self.protocol

    def _flush(self) -> None:
        writes = self.protocol.data_to_send()
        if len(writes) > FEW_WRITES:
            writes = [b"".join(writes)]
        self._written += sum(map(len, writes))
        self.transport.writelines(writes)

    @property
    def _delivered(self) -> int:
        """Bytes of ours that the peer's machine has acknowledged, as far as the system tells."""
        transport = self.transport
        if transport.is_closing():  # uvloop raises when a closed transport is asked
            return self._written
        return self._written - transport.get_write_buffer_size() - _unacknowledged(transport)

    async def wait_room(self) -> None:
        """Returns when the write buffer is below its bound.

        Raises:
            ChannelClosed: the peer took nothing for `stall_timeout`, or the connection has ended.
        """
        while self.paused:
            delivered = self._delivered
            with anyio.move_on_after(self._options.stall_timeout):
                await self.wait_drained()
            if self.paused and self._delivered <= delivered:
                self.fail(Ending(EndingKind.STALLED, f"the {self.peer.value} stopped reading"))
            if self._ending is not None:
                raise ChannelClosed(self._ending)

    async def wait_drained(self) -> None:
        """Returns when the write buffer is below its bound, or will never be."""
        with contextlib.suppress(OSError):
            await self.drain()

    def abort(self) -> None:
        """Ends the connection at once; what is queued may be lost."""
        self.transport.abort()

    async def watch(self, *, watch_sleep: bool = False) -> None:
        """Pings the peer until the connection is closed, and ends it when the peer shows no life.

        `watch_sleep`: the machine may sleep (a laptop); the peer is then tried at once on waking up.
        """
        interval, timeout = self._options.ping_interval, self._options.ping_timeout
        if not interval:
            await self.wait_closed()
            return
        tick = min(interval, _SLEEP_CHECK) if watch_sleep else interval
        alive, delivered, pinged, asleep = self.loop.time(), 0, self.loop.time(), _time_asleep()
        deadline = interval + timeout
        while True:
            now = self.loop.time()
            with anyio.move_on_after(max(0.001, min(tick, alive + deadline - now, pinged + interval - now))):
                await self.wait_closed()
                return
            now = self.loop.time()
            # The peer's system acknowledges our ping even when the peer itself hangs: that is no life.
            if self._reading_paused or self._delivered > delivered + PING_BYTES:
                alive = now
            alive, delivered = max(alive, self._last_byte), self._delivered
            if _time_asleep() - asleep > 1:
                alive, pinged, asleep = now + _SLEEP_CHECK - deadline, 0.0, _time_asleep()
            if now >= alive + deadline:
                who = self.peer.value
                self._end(Ending(EndingKind.LOST, f"no sign of life from the {who} for {now - alive:.0f} s"))
                return
            if now >= pinged + interval and self.protocol.state is State.OPEN:
                pinged = now
                self.protocol.send_ping(_TIMESTAMP.pack(now))
                self._flush()

    async def shut(self, ending: Ending) -> None:
        """Delivers what is queued, closes with the ending's code and waits until the socket is closed."""
        self._discards = True
        self._empty_inbox()
        try:
            if not self.transport.is_closing():
                await self._shake_hands(ending)
            with anyio.move_on_after(LINGER):
                await self.wait_closed()
        except ChannelClosed:
            pass  # the peer is gone, or takes nothing
        finally:
            self.transport.abort()
            if self._ending is None:
                self._end(Ending(EndingKind.DONE, "closed by this side"))

    async def _shake_hands(self, ending: Ending) -> None:
        """The closing handshake. (websockets' own would wait longer for the end of the TCP connection.)"""
        in_order = ending.kind not in (EndingKind.LOST, EndingKind.STALLED)
        if in_order:
            # Not 0: a TLS transport would pause its writer at nothing to write, and never say otherwise.
            self.transport.set_write_buffer_limits(1, 0)
            await self.wait_room()
        if self.protocol.state is State.OPEN:
            self.protocol.send_close(ending.close_code, ending.close_reason)
            self._flush()
        if in_order:  # otherwise its answer may wait behind megabytes of frames that nobody wants any more
            with anyio.move_on_after(self._options.close_timeout):
                await asyncio.shield(self._ended)


if TYPE_CHECKING:
    from websockets.protocol import Protocol as _Protocol


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes in the system's send queue. Megabytes fit in there, so a slow peer would look like a dead one."""
    try:
        queued = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:  # not every system and socket tells
        return 0
    return int.from_bytes(queued, sys.byteorder)


def _time_asleep() -> float:
    """Seconds this machine has slept since it started, where the system tells (Linux)."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return 0.0


class WebSocketChannel:
    """A plain link: one frame a text message, as every stock client and server speaks it."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self._warned = False

    async def receive(self) -> Batch:
        """See `Channel.receive`. Messages become single lines; binary ones count if they are JSON."""
        while True:
            messages = await self.socket.receive_messages()
            frames = [frame for message in messages if (frame := _frame_of(message))]
            if frames:
                return Batch.of(frames)

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        if not frames:
            return
        batch = Batch.of(frames)
        self.socket.write_texts(batch.views())
        if len(batch.data) > STOCK_LIMIT:
            self._warn(batch)
        if self.socket.paused:
            await self.socket.wait_room()

    def _warn(self, batch: Batch) -> None:
        is_client = self.socket.peer is Side.CLIENT
        if is_client and not self._warned and max(map(len, batch)) > STOCK_LIMIT:
            self._warned = True
            logger.warning("sent a message over 1 MiB; some clients accept no more and close with 1009")

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`."""
        await self.socket.shut(ending)

    def abort(self) -> None:
        """See `Channel.abort`."""
        self.socket.transport.abort()


def _frame_of(message: Message) -> bytes:
    """The frame in a message, empty if there is none.

    A browser library in use sends text as binary messages, line ending included.
    """
    frame = as_line(message.data.rstrip(b"\r\n"))
    if not frame.strip(b" \t"):
        return b""
    if message.is_text or (is_utf8(frame) and is_json(frame)):
        return frame
    return b""
