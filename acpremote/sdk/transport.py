"""SDK transports over a channel.

`ChannelTransport` carries messages as they come; it stands before an agent that we serve. `OrderedTransport`
stands before a client and adds what the SDK alone does not promise: a call returns only when the updates
that were read before its response have been handled.

    channel ─► run() ┬─ notification ─► the lane of its session, handled one after the other
                     ├─ request ──────► the SDK at once, after starting every update read before it
                     └─ response ─────► held until the updates read before it are done, then the SDK

The SDK starts a task for every message and lets them race. Here the updates of one session never overtake
each other, sessions do not wait for each other, and nothing that the agent asks in the middle of a turn
waits for an update handler, because that handler may be waiting for just this request.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import TypeAlias

import anyio
import anyio.abc

from ..core.envelope import Kind
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed
from ..transport.channel import Channel
from .errors import LinkClosed
from .message import Message, decode, encode, kind_of

__all__ = ["ChannelTransport", "Notify", "OrderedTransport", "forget_current_update", "is_in_update_handler"]

logger = logging.getLogger(__name__)

Notify: TypeAlias = Callable[[str, object], Awaitable[None]]
"""Handles a notification: method and params."""

_CLOSED = Ending(EndingKind.CLIENT_LEFT, "the client closed the connection")


class ChannelTransport:
    """Carries the SDK's messages over a channel, one by one and in order."""

    def __init__(self, channel: Channel, closed: Ending) -> None:
        """`closed` is the ending that the other side is told when the SDK closes its connection."""
        self._channel = channel
        self._closed = closed
        self._waiting: deque[Message] = deque()

    async def send(self, message: Message) -> None:
        """Sends a message and waits until there is room for more.

        Raises:
            LinkClosed: a request or notification cannot be delivered. A response to a peer that is gone
                is dropped: nobody is left to tell.
        """
        try:
            await self._channel.send([encode(message)])
        except ChannelClosed as closed:
            if kind_of(message) is not Kind.RESPONSE:
                raise LinkClosed(closed.ending) from None

    async def receive(self) -> Message | None:
        """Waits for the next message; None when no more will come."""
        while not self._waiting:
            try:
                frames = await self._channel.receive()
            except ChannelClosed:
                return None
            self._waiting.extend(message for frame in frames if (message := decode(frame)) is not None)
        return self._waiting.popleft()

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.aclose(self._closed)


class _Update:
    """A notification on its way to being handled."""

    __slots__ = ("_done", "calls", "is_done", "message", "size")

    def __init__(self, message: Message, size: int) -> None:
        self.message = message
        self.size = size
        self.calls = 0
        """Calls made by its handler that have not returned."""
        self.is_done = False
        self._done: anyio.Event | None = None  # made when somebody waits: most updates are not waited for

    async def wait_done(self) -> None:
        if not self.is_done:
            self._done = self._done or anyio.Event()
            await self._done.wait()

    def set_done(self) -> None:
        self.is_done = True
        if self._done is not None:
            self._done.set()


class _Lane:
    """The notifications of one session; those without a session share one."""

    def __init__(self, session: object) -> None:
        self.session = session
        self.waiting: deque[_Update] = deque()
        self.open: dict[_Update, None] = {}
        """Everything not yet handled, in order."""
        self.is_served = False

    @property
    def is_in_a_call(self) -> bool:
        return any(update.calls for update in self.open)


class _Call:
    """A request of ours that is not answered yet."""

    __slots__ = ("made_in", "session")

    def __init__(self, session: object, made_in: _Update | None) -> None:
        self.session = session
        self.made_in = made_in


_current: ContextVar[_Update | None] = ContextVar("acpremote_update", default=None)


def _session_of(message: Message) -> object:
    params = message.get("params")
    session = params.get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) else None


class OrderedTransport:
    """Carries the SDK's messages over a channel and keeps responses behind the updates before them."""

    def __init__(self, channel: Channel, *, window: int) -> None:
        """`window`: bytes of updates that may wait for their handlers before reading pauses.

        It does not pause while a handler waits for an answer of the agent, which would never come then.
        """
        self._channel = channel
        self._window = window
        self._ready: deque[Message | None] = deque()
        self._lanes: dict[object, _Lane] = {}
        self._calls: dict[object, _Call] = {}
        self._queued = 0
        self._calls_in_handlers = 0
        self._ending: Ending | None = None
        self._arrived = anyio.Event()
        self._room: anyio.Event | None = None
        self._notify: Notify  # this and the next one are set while `run` runs
        self._tasks: anyio.abc.TaskGroup

    # -- the SDK's side ---------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Sends a message; see `ChannelTransport.send`."""
        is_response = kind_of(message) is Kind.RESPONSE
        if kind_of(message) is Kind.REQUEST:
            self._begin_call(message)
        try:
            await self._channel.send([encode(message)])
        except ChannelClosed as closed:
            self._end_call(message.get("id"))
            if not is_response:
                raise LinkClosed(self._ending or closed.ending) from None

    async def receive(self) -> Message | None:
        """Waits for the next request or released response; None when no more will come."""
        while not self._ready:
            await self._arrived.wait()
        return self._ready.popleft()

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.aclose(_CLOSED)

    # -- the channel's side -----------------------------------------------------------------------------

    async def run(self, notify: Notify) -> Ending:
        """Reads the channel to its end, handles the notifications, and returns why it ended.

        When this returns, every update that was read is handled and every response released.
        """
        self._notify = notify
        try:
            async with anyio.create_task_group() as self._tasks:
                ending = self._ending = await self._read()
        finally:
            self._release(None)
        return ending

    async def _read(self) -> Ending:
        while True:
            while self._queued >= self._window and not self._calls_in_handlers:
                self._room = anyio.Event()
                await self._room.wait()
            try:
                frames = await self._channel.receive()
            except ChannelClosed as closed:
                return closed.ending
            for frame in frames:
                message = decode(frame)
                if message is None:
                    logger.warning("a message of %d bytes that says nothing was dropped", len(frame))
                else:
                    self._dispatch(message, len(frame))

    def _dispatch(self, message: Message, size: int) -> None:
        match kind_of(message):
            case Kind.NOTIFICATION:
                self._queue(message, size)
            case Kind.REQUEST:
                self._start_updates(self._lanes_before(_session_of(message)))
                self._release(message)
            case _:
                self._answer(message)

    # -- updates ----------------------------------------------------------------------------------------

    def _queue(self, message: Message, size: int) -> None:
        session = _session_of(message)
        lane = self._lanes.setdefault(session, _Lane(session))
        update = _Update(message, size)
        lane.open[update] = None
        lane.waiting.append(update)
        self._queued += size
        if not lane.is_served:
            lane.is_served = True
            self._tasks.start_soon(self._serve, lane)

    async def _serve(self, lane: _Lane) -> None:
        while lane.waiting:
            first = next(iter(lane.open))
            if first is lane.waiting[0]:
                await self._handle(lane, lane.waiting.popleft())
            else:  # one that was started for a request's sake
                await first.wait_done()
        lane.is_served = False

    def _start_updates(self, lanes: Iterable[_Lane]) -> None:
        """Starts every update that still waits for the one before it: a request comes that may need them."""
        for lane in lanes:
            while lane.waiting:
                self._tasks.start_soon(self._handle, lane, lane.waiting.popleft())

    async def _handle(self, lane: _Lane, update: _Update) -> None:
        message = update.message
        token = _current.set(update)
        try:
            await self._notify(message["method"], message.get("params"))
        except Exception:  # the client's own code: its failure must not end the link
            logger.exception("the handler of a %s notification failed", message["method"])
        finally:
            _current.reset(token)
            del lane.open[update]
            self._queued -= update.size
            update.set_done()
            if not lane.open and self._lanes.get(lane.session) is lane:
                del self._lanes[lane.session]
            self._read_on()

    # -- calls ------------------------------------------------------------------------------------------

    def _begin_call(self, message: Message) -> None:
        update = _current.get()
        if update is not None and update.is_done:
            update = None  # a task that outlived the handler which started it
        if update is not None:
            update.calls += 1
            self._calls_in_handlers += 1
            self._read_on()
        self._calls[message["id"]] = _Call(_session_of(message), update)

    def _end_call(self, identifier: object) -> None:
        call = self._calls.pop(identifier, None)
        if call is not None and call.made_in is not None:
            call.made_in.calls -= 1
            self._calls_in_handlers -= 1

    def _answer(self, response: Message) -> None:
        call = self._calls.get(response["id"])
        if call is None:
            logger.warning("a response that nobody waits for was dropped")
            return
        updates = self._updates_before(call)
        if updates:
            self._tasks.start_soon(self._answer_after, response, updates)
        else:
            self._end_call(response["id"])
            self._release(response)

    def _updates_before(self, call: _Call) -> list[_Update]:
        """What must be handled before the response to `call` may be seen.

        A call made by an update handler waits for no lane in which a handler is in a call itself, its own
        first of all: handlers that wait for each other's calls would wait for ever.
        """
        lanes = self._lanes_before(call.session)
        if call.made_in is not None:
            lanes = [lane for lane in lanes if not lane.is_in_a_call]
        return [update for lane in lanes for update in lane.open]

    def _lanes_before(self, session: object) -> list[_Lane]:
        """The lanes that a message of this session may depend on: its own and the common one, or all."""
        return [lane for key, lane in self._lanes.items() if session is None or key in (session, None)]

    async def _answer_after(self, response: Message, updates: list[_Update]) -> None:
        for update in updates:
            await update.wait_done()
        self._end_call(response["id"])
        self._release(response)

    def _release(self, message: Message | None) -> None:
        self._ready.append(message)
        self._arrived.set()
        self._arrived = anyio.Event()

    def _read_on(self) -> None:
        if self._room is not None:
            self._room.set()


def forget_current_update() -> None:
    """Makes the current context one outside of any update handler."""
    _current.set(None)


def is_in_update_handler() -> bool:
    """Whether the caller is an update handler that has not returned."""
    update = _current.get()
    return update is not None and not update.is_done
