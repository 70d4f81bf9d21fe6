"""The client's end of an acpremote link: greets the server, and dials again when a socket is lost.

    dial ── welcome ──► ATTACHED ── lost ──► dial again, with growing gaps, while the server keeps the link
                                               │
                                               └─ refused, or the grace is over ──► gone for good

A person is told what happens in one line each, through the log. Read `resumable.py` first.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Protocol

import anyio

from ..core import control
from ..core.credentials import ACP_SUBPROTOCOL, LINK_SUBPROTOCOL
from ..core.journal import Message
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed, ConfigError, ConnectError, ConnectRefused, RemoteProtocolError
from ..options import TransportOptions
from .channel import Channel
from .dial import ClientSocket, back_off, with_retry
from .resumable import LinkSocket, ResumableChannel, new_journal
from .websocket import WebSocketChannel

__all__ = ["OFFERED", "ClientLink", "Remote", "open_remote"]

logger = logging.getLogger(__name__)

OFFERED = (ACP_SUBPROTOCOL, LINK_SUBPROTOCOL)
"""The subprotocols of our clients, in the order in which some servers, wrongly, echo the first."""

GOODBYE_TIMEOUT = 10.0
"""Seconds of dialling, when we want to leave and are not connected, to deliver what is left."""

HURRY = 1.0
"""Longest gap between tries while somebody waits for us to leave."""

_UNKNOWN = "the server does not know this link any more; the outcome of what was asked is unknown"


class RedialSocket(LinkSocket, Protocol):
    """What is needed of a client's socket."""

    @property
    def is_link(self) -> bool:
        """Whether the acpremote link was negotiated."""
        ...

    async def watch(self, *, watch_sleep: bool = False) -> None:
        """Looks for signs of life until the socket is closed."""
        ...


INTERRUPTED_TIMEOUT = 2.0
"""Seconds that an interrupted client has for its goodbye. A close as if a rule was broken (1008) replaces it:
the server would keep the link for any other."""


class _Refused(Exception):
    """The server has no such link."""


VERDICT_TIMEOUT = 1.0
"""Seconds that the server has for its own end after it has taken ours."""


class ClientLink(ResumableChannel):
    """A client's end of one link."""

    goodbye_timeout = GOODBYE_TIMEOUT

    def __init__(
        self, dial: Callable[[], Awaitable[RedialSocket]], welcome: control.Welcome, options: TransportOptions
    ) -> None:
        journal = new_journal(options, peer_window=welcome.window, peer_max_size=welcome.max_size)
        super().__init__(journal, options)
        self._dial = dial
        self._link = welcome.link
        self._secret = welcome.secret
        self._grace = min(welcome.grace, options.grace) if options.reconnect else 0
        self._leaving = anyio.Event()
        self._orphaned = anyio.Event()
        self.remote_cwd = welcome.remote_cwd

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`."""
        self._leaving.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve_orphan)
            await super().aclose(ending)
            tasks.cancel_scope.cancel()

    async def _serve_orphan(self) -> None:
        """Goes on where `run` was cancelled: an event loop that closes down cancels every task it has."""
        await self._orphaned.wait()
        if self._socket is not None:
            await self.serve(self._socket)

    async def serve(self, socket: LinkSocket, first: Sequence[Message] = ()) -> Ending:
        """See `ResumableChannel.serve`; cancelled, it leaves the socket attached for `aclose`."""
        is_cancelled = True
        try:
            ending = await super().serve(socket, first)
            is_cancelled = False
        finally:
            if is_cancelled and self._socket is None:
                self._socket = socket
        return ending

    def _patience(self, ending: Ending) -> float:
        """Who was interrupted, or has waited for answers in vain, does not wait to say so."""
        return self.goodbye_timeout if ending.is_orderly else 0

    async def _leave(self, ending: Ending) -> None:
        """Who was interrupted does not wait behind what the agent does not take, and hangs up for good."""
        with anyio.move_on_after(math.inf if ending.is_orderly else INTERRUPTED_TIMEOUT) as scope:
            await super()._leave(ending)
        if scope.cancelled_caught:
            self.fail(Ending(EndingKind.POLICY, f"hung up: {ending}"))

    async def _hear_out(self, ending: Ending) -> None:
        """Waits for the server's end, which tells whether the agent failed while we said goodbye."""
        with anyio.move_on_after(VERDICT_TIMEOUT if ending.is_orderly else 0):
            while self.is_attached and not self.journal.inbox.has_end:
                await self._changed.wait()
        if self.journal.inbox.has_end:
            await self._let_go()

    async def run(self, socket: RedialSocket, first: list[Message], until: anyio.CancelScope) -> None:
        """Uses this socket, and others after it, until the link is over or `until` is cancelled.

        Cancelling anything else does not stop it: whoever is cancelled still wants to say goodbye.
        """
        try:
            with until:
                await self._run(socket, first)
        finally:
            self._orphaned.set()

    async def _run(self, socket: RedialSocket, first: list[Message]) -> None:
        attached: tuple[RedialSocket, list[Message]] | None = (socket, first)
        while attached is not None:
            socket, first = attached
            self.attach(socket)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(socket.watch, watch_sleep=True))
                ending = await self.serve(socket, first)
                if ending.kind is EndingKind.LOST:
                    socket.abort()  # nobody is there to close in order with, and the next socket is due
                await socket.shut(ending)
                tasks.cancel_scope.cancel()
            attached = None if self._is_over else await self._redial(ending)

    @property
    def _is_over(self) -> bool:
        is_leaving = self._is_leaving and self.journal.outbox.is_delivered
        return self.ending is not None or self.journal.inbox.has_end or is_leaving

    async def _redial(self, ending: Ending) -> tuple[RedialSocket, list[Message]] | None:
        lost_at = anyio.current_time()
        if not self._grace:
            self.fail(ending if not ending.is_orderly else Ending(EndingKind.LOST, str(ending)))
            return None
        logger.warning("%s; connecting again", ending)
        said = ""
        for delay in chain((0.0,), back_off()):
            await self._pause(delay)
            if self._is_over:
                return None
            try:
                resumed = await self._resume()
            except _Refused:
                self._give_up(EndingKind.NO_SUCH_LINK, _UNKNOWN)
            except (ConnectError, ConfigError) as error:
                if _is_final(error):
                    self._give_up(EndingKind.LOST, str(error))
                elif anyio.current_time() - lost_at > self._grace:
                    self._give_up(EndingKind.LOST, f"not back within {self._grace:g} s: {error}")
                elif str(error) != said:
                    said = str(error)
                    logger.warning("%s; trying again", said)
            else:
                logger.warning("resumed after %.1f s", anyio.current_time() - lost_at)
                return resumed
        raise AssertionError("back_off never ends")

    def _give_up(self, kind: EndingKind, reason: str) -> None:
        self.fail(Ending(kind, f"the link is gone for good: {reason}"))

    async def _pause(self, delay: float) -> None:
        with anyio.move_on_after(delay):
            await self._leaving.wait()
            await anyio.sleep(min(delay, HURRY))

    async def _resume(self) -> tuple[RedialSocket, list[Message]]:
        """Makes one try.

        Raises:
            ConnectError: it failed.
        """
        socket = await self._dial()
        received, attempt = self.journal.redial()
        hello = control.Hello(
            link=self._link,
            secret=self._secret,
            received=received,
            attempt=attempt,
            window=self._options.window,
            max_size=self._options.max_size,
        )
        welcome, first = await greet(socket, hello, self._options.open_timeout)
        try:
            self.journal.resume(welcome.received)
        except RemoteProtocolError as error:
            await socket.shut(error.ending)
            raise _GoneForGood(f"the server resumed another link: {error}", final=True) from error
        return socket, first


def _is_final(error: ConnectError | ConfigError) -> bool:
    """Whether the server will not have us back.

    A wrong certificate, a redirect or no HTTP at all is final for a first connection. Here our server was
    once: what answers instead is a captive portal or a proxy between us, and will go away.
    """
    if isinstance(error, ConnectRefused):
        return error.final and 400 <= error.status < 500
    return isinstance(error, _GoneForGood)


class _GoneForGood(ConnectError):
    """Says that what answers is not the server whose link we hold."""


async def greet(
    socket: RedialSocket, hello: control.Hello, timeout: float
) -> tuple[control.Welcome, list[Message]]:
    """Says hello; gives the welcome and what came behind it. The socket is closed if there is none.

    Raises:
        ConnectError: no welcome came.
    """
    if not socket.is_link:
        await socket.shut(Ending(EndingKind.DONE))
        raise _GoneForGood("the server does not speak the acpremote link any more", final=True)
    try:
        with anyio.fail_after(timeout):
            socket.write_messages([Message(False, control.encode(hello))])
            return await _read_welcome(socket)
    except TimeoutError:
        ending = Ending(EndingKind.LOST, f"the server did not answer the hello within {timeout:g} s")
        error = ConnectError(str(ending))
    except RemoteProtocolError as broken:
        ending = broken.ending
        error = _GoneForGood(f"the server broke the rules of the link: {broken}", final=True)
    except ChannelClosed as closed:
        ending = closed.ending
        if ending.kind is EndingKind.NO_SUCH_LINK:
            raise _Refused from closed
        error = ConnectError(f"the connection was closed instead of a welcome: {closed}")
    except BaseException:
        socket.abort()
        raise
    await socket.shut(ending)
    raise error


async def _read_welcome(socket: RedialSocket) -> tuple[control.Welcome, list[Message]]:
    while True:
        messages = await socket.receive_messages()
        for index, (is_text, data) in enumerate(messages):
            match None if is_text else control.parse(data):
                case control.Welcome() as welcome:
                    return welcome, messages[index + 1 :]
                case control.Refused(reason=reason):
                    raise ChannelClosed(Ending(EndingKind.NO_SUCH_LINK, reason))
                case None if not is_text:
                    pass
                case _:
                    raise RemoteProtocolError("the first message was not a welcome")


class Remote:
    """An endpoint that was reached.

    `channel` leads to its agent; `remote_cwd` is its directory if the link told it.
    """

    def __init__(self, channel: WebSocketChannel | ClientLink) -> None:
        self.channel: Channel = channel
        self._link = channel if isinstance(channel, ClientLink) else None
        self._socket = channel.socket if isinstance(channel, WebSocketChannel) else None
        self.remote_cwd = self._link.remote_cwd if self._link else None

    def judge(self, ending: Ending) -> Ending:
        """Why the link ended, after it was closed: a goodbye that did not arrive was none."""
        if not ending.is_orderly:
            return ending
        if self._socket is not None and self._socket.ending is not None:
            return ending if self._socket.ending.is_orderly else self._socket.ending
        announced = self._link.journal.inbox.announced if self._link is not None else None
        if announced is not None and not announced.is_orderly:
            return announced  # the agent failed while we were saying goodbye
        if self._link is not None and not self._link.was_delivered:
            why = self._link.ending
            return why if why is not None and not why.is_orderly else _UNDELIVERED
        return ending


_UNDELIVERED = Ending(EndingKind.LOST, "the connection was lost, and what was left could not be delivered")


@asynccontextmanager
async def open_remote(
    dial: Callable[[], Awaitable[ClientSocket]], options: TransportOptions
) -> AsyncIterator[Remote]:
    """Connects, with tries for `connect_timeout`, and keeps the connection alive while the context lasts.

    Where the server speaks the acpremote link, that is what the channel is; else it is a plain one.

    Raises:
        ConnectError: the endpoint cannot be reached or refuses us.
    """

    async def connect() -> tuple[ClientSocket, control.Welcome | None, list[Message]]:
        socket = await dial()
        if not socket.is_link:
            return socket, None, []
        hello = control.Hello(window=options.window, max_size=options.max_size)
        try:
            return socket, *await greet(socket, hello, options.open_timeout)
        except _Refused as refused:
            raise ConnectError("the server refuses to open a link", final=True) from refused

    socket, welcome, first = await with_retry(
        connect, timeout=options.connect_timeout, reconnect=options.reconnect
    )
    async with anyio.create_task_group() as tasks:
        keeping = anyio.CancelScope(shield=True)
        if welcome is None:
            remote = Remote(WebSocketChannel(socket))
            tasks.start_soon(partial(socket.watch, watch_sleep=True))
        else:
            link = ClientLink(dial, welcome, options)
            remote = Remote(link)
            tasks.start_soon(link.run, socket, first, keeping)
        try:
            yield remote
        finally:
            remote.channel.abort()  # closed long ago, unless something went wrong
            keeping.cancel()
        tasks.cancel_scope.cancel()
