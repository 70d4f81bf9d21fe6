"""The server's end of acpremote links: who may have one, and what becomes of it without a socket.

    hello ──► new link ──► admitted ◄───────────── hello with its id and secret
                              │  socket lost                 ▲
                              ▼                              │
                          detached ──────────────────────────┘
                              └─ the grace is over, or it is given up for a newcomer ──► failed (lost)

A hello that names no link of ours, or not by its secret, or that came late, gets one and the same answer, and
whoever holds the link notices nothing. Read `resumable.py` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import math
import secrets
from collections.abc import Callable, Sequence

import anyio

from ..core import control
from ..core.journal import Message
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed, RemoteProtocolError
from ..options import TransportOptions
from .budget import JournalBudget
from .resumable import LinkSocket, ResumableChannel, new_journal

__all__ = ["LinkRegistry", "ServerLink"]

logger = logging.getLogger(__name__)

_NO_SUCH_LINK = Ending(EndingKind.NO_SUCH_LINK, "no such link")
_NO_ROOM = Ending(EndingKind.SHUTDOWN, "no more connections are accepted (--max-connections)")
_SHUTDOWN = Ending(EndingKind.SHUTDOWN, "the relay is shutting down")


class ServerLink(ResumableChannel):
    """A server's end of one link.

    `id` names it to the client; `is_idle` tells whether nobody waits for an answer on it, and `note` takes a
    line for the log: both are set by whoever runs the link.
    """

    def __init__(self, hello: control.Hello, options: TransportOptions, budget: JournalBudget) -> None:
        journal = new_journal(options, peer_window=hello.window, peer_max_size=hello.max_size)
        super().__init__(journal, options, stall_timeout=options.stall_timeout, budget=budget)
        self.id = secrets.token_urlsafe(16)
        self.secret = secrets.token_urlsafe(32)
        self.is_idle: Callable[[], bool] = lambda: True
        self.note: Callable[[str], None] = logger.info
        self.detached_at: float | None = None
        self.may_wait = True
        self._grace_timer: asyncio.TimerHandle | None = None

    @property
    def is_evictable(self) -> bool:
        """Whether it may be given up for a newcomer."""
        return not self.is_attached and self.is_idle()

    def use(self, socket: LinkSocket) -> None:
        """Attaches a socket."""
        self._stop_grace()
        if self.detached_at is not None:
            self.note(f"resumed after {anyio.current_time() - self.detached_at:.1f} s")
        self.detached_at = None
        self.attach(socket)

    async def serve(self, socket: LinkSocket, first: Sequence[Message] = ()) -> Ending:
        """See `ResumableChannel.serve`; when it returns, the grace may have begun."""
        try:
            ending = await super().serve(socket, first)
        finally:
            if not self.is_attached and self.ending is None:
                self._begin_grace()
        return ending

    @property
    def _no_more(self) -> Ending | None:
        """See `ResumableChannel`. Whatever a client calls its end: it has left."""
        said = self.journal.inbox.ending
        return (
            self.ending
            if said is None
            else Ending(EndingKind.CLIENT_LEFT, said.reason or "the client has gone")
        )

    def _begin_grace(self) -> None:
        self.detached_at = anyio.current_time()
        if self.journal.inbox.has_end:
            return  # the client will not come back; what it said last is still to be taken
        grace = self._options.grace if self.may_wait and self.journal.has_carried else 0
        if not grace:
            self.fail(Ending(EndingKind.LOST, "the connection to the client was lost"))
            return
        self.note(f"the connection was lost; the client may come back within {grace:g} s")
        self._grace_timer = asyncio.get_running_loop().call_later(grace, self._expire)

    def _expire(self) -> None:
        self.fail(Ending(EndingKind.LOST, f"the client did not come back within {self._options.grace:g} s"))

    def _stop_grace(self) -> None:
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None

    async def _let_go(self) -> None:
        """Stays for a moment: if the connection is cut right now, the client comes back for its ack."""
        await super()._let_go()
        with anyio.move_on_after(self._options.close_timeout):
            while self.ending is None and not self._said_goodbye:
                await self._changed.wait()

    def _release(self) -> None:
        self._stop_grace()
        super()._release()


class LinkRegistry:
    """All links of one server, by id."""

    def __init__(
        self,
        options: TransportOptions,
        open_link: Callable[[ServerLink, LinkSocket], None],
        *,
        admitted: Callable[[LinkSocket], None] = lambda socket: None,
        has_room: Callable[[], bool] = lambda: True,
        remote_cwd: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`open_link` is given each new link to run, with its first socket, and calls `closed` after it.

        `admitted` is told about every socket whose hello was decided on.
        """
        self._options = options
        self._open_link = open_link
        self._admitted = admitted
        self._has_room = has_room
        self._remote_cwd = remote_cwd
        self._budget = JournalBudget()
        self._links: dict[str, ServerLink] = {}
        self._is_closed = False
        self.resumed: Callable[[int], None] = lambda replayed: None
        """Is told about every resume, with the number of frames that are sent once more."""

    @property
    def count(self) -> int:
        """Links that a client may come back to."""
        return len(self._links)

    @property
    def detached(self) -> int:
        """Links without a socket. May be asked from any thread."""
        return sum(not link.is_attached for link in list(self._links.values()))

    @property
    def has_evictable(self) -> bool:
        """Whether a link may be given up for a newcomer."""
        return any(link.is_evictable for link in self._links.values())

    def evict(self) -> bool:
        """Gives up the link that has waited longest among those nobody waits on; False if there is none."""
        waiting = [link for link in self._links.values() if link.is_evictable]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda link: link.detached_at or -math.inf)
        oldest.fail(Ending(EndingKind.LOST, "given up for a newcomer (--max-connections)"))
        self.closed(oldest)
        return True

    def closed(self, link: ServerLink) -> None:
        """Forgets a link. Idempotent."""
        self._links.pop(link.id, None)

    def close(self) -> None:
        """Gives up every link without a socket, now and later: the server is shutting down."""
        self._is_closed = True
        for link in list(self._links.values()):
            link.may_wait = False
            if not link.is_attached:
                link.fail(_SHUTDOWN)

    async def serve(self, socket: LinkSocket) -> None:
        """Serves one socket from its hello to its close."""
        ending: Ending
        try:
            with anyio.fail_after(self._options.open_timeout):
                hello, rest = await _read_hello(socket)
        except TimeoutError:
            ending = Ending(EndingKind.PROTOCOL, "no hello came in time")
        except RemoteProtocolError as error:
            ending = error.ending
        except ChannelClosed as closed:
            ending = closed.ending
        else:
            link = self._admit(socket, hello)
            self._admitted(socket)
            ending = await link.serve(socket, rest) if isinstance(link, ServerLink) else link
        await socket.shut(ending)

    def _admit(self, socket: LinkSocket, hello: control.Hello) -> ServerLink | Ending:
        if self._is_closed:
            return _SHUTDOWN
        if hello.link is None:
            return self._create(socket, hello)
        try:
            return self._readmit(socket, hello)
        except RemoteProtocolError:
            _answer(socket, control.Refused(reason=_NO_SUCH_LINK.reason))
            return _NO_SUCH_LINK

    def _create(self, socket: LinkSocket, hello: control.Hello) -> ServerLink | Ending:
        if not self._has_room() and not self.evict():
            return _NO_ROOM
        link = ServerLink(hello, self._options, self._budget)
        self._welcome(socket, link, secret=link.secret)
        self._links[link.id] = link
        link.use(socket)
        self._open_link(link, socket)
        return link

    def _readmit(self, socket: LinkSocket, hello: control.Hello) -> ServerLink:
        link = self._links.get(hello.link or "")
        known = link.secret if link is not None else secrets.token_urlsafe(32)
        if not hmac.compare_digest(known.encode(), (hello.secret or "").encode()) or link is None:
            logger.info("refused to resume a link: no such link")
            raise RemoteProtocolError("no such link")
        sent = link.journal.outbox.sent
        try:
            received = link.journal.readmit(hello.received, hello.attempt)
        except RemoteProtocolError as error:
            link.note(f"refused to resume: {error}")
            raise
        link.use(socket)
        self.resumed(sent - link.journal.outbox.sent)
        self._welcome(socket, link, received=received)
        return link

    def _welcome(
        self, socket: LinkSocket, link: ServerLink, *, secret: str | None = None, received: int = 0
    ) -> None:
        options = self._options
        welcome = control.Welcome(
            link=link.id,
            secret=secret,
            received=received,
            grace=options.grace,
            window=options.window,
            max_size=options.max_size,
            remote_cwd=self._remote_cwd(),
        )
        _answer(socket, welcome)


def _answer(socket: LinkSocket, message: control.Control) -> None:
    """Writes a message to a socket that may be closed already; whoever reads it finds out."""
    with contextlib.suppress(ChannelClosed):
        socket.write_messages([Message(False, control.encode(message))])


async def _read_hello(socket: LinkSocket) -> tuple[control.Hello, list[Message]]:
    """Waits for the hello; gives it and what came behind it."""
    while True:
        messages = await socket.receive_messages()
        for index, (is_text, data) in enumerate(messages):
            message = None if is_text else control.parse(data)
            if isinstance(message, control.Hello):
                return message, messages[index + 1 :]
            if is_text or message is not None:
                raise RemoteProtocolError("the first message of a link is not a hello")
