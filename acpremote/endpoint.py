"""What the endpoint answers over HTTP: a request's head in, a response or an open door out.

Decisions are made in `core/access.py`; this module gathers what has to be known from the socket, writes the
responses, and keeps account of the sockets that have not got through yet. Nothing is spawned here. Must
never log a header or a query, which may hold secrets. Read `server.py` next.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from .core.access import Circumstances, Grant, Refusal, RequestHead, Route, Rules, decide
from .core.credentials import ACP_SUBPROTOCOL, LINK_SUBPROTOCOL
from .options import TransportOptions
from .transport.peer import is_stranger
from .transport.websocket import Socket

if TYPE_CHECKING:
    from .metadata import ServerMetadata

__all__ = ["DoorSocket", "Doorkeeper", "Page"]

logger = logging.getLogger(__name__)

Page = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body of a page of the console."""

_ALWAYS = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)


_SAY_EVERY = 10.0
"""Seconds between two warnings about sockets that were ended because too many waited."""


class DoorSocket(Socket, ServerConnection):
    """A server's end of a connection, with what the doorkeeper decided about it.

    `connection_id` names the socket to the client and in the log; it is no credential. TLS is agreed on here
    and not by the event loop: that tells nobody of a connection before TLS stands, and then a stranger holds
    as many as there are descriptors.
    """

    doorkeeper: Doorkeeper
    grant: Grant | None = None
    connection_id = ""
    _before_tls: bytearray | None = None

    def connection_made(self, transport: object) -> None:
        """Names it, and counts it among the sockets that have not got through."""
        super().connection_made(transport)
        self.connection_id = secrets.token_hex(16)
        self._before_tls = None if self.doorkeeper.tls is None else bytearray()
        self.doorkeeper.knocked(self)

    def data_received(self, data: bytes) -> None:
        """Keeps what belongs to TLS until it can be handed on.

        Pausing in `connection_made` would not do: uvloop begins to read after it, whatever it asked for.
        """
        if self._before_tls is None:
            super().data_received(data)
            return
        self._before_tls += data
        self.transport.pause_reading()

    async def handshake(self, *arguments: Any, **options: Any) -> None:
        """Performs the opening handshakes, all within `open_timeout`."""
        if self.doorkeeper.tls is not None:
            try:
                await self._agree_on_tls(self.doorkeeper.tls)
            except BaseException:
                self.doorkeeper.left(self)  # the event loop does not tell of a loss before TLS stands
                raise
        await super().handshake(*arguments, **options)

    async def _agree_on_tls(self, context: ssl.SSLContext) -> None:
        early = _Early()
        # Runs when `start_tls` has put its protocol in our place and before anything more is read.
        self.loop.call_soon(self._hand_on)
        transport = await self.loop.start_tls(
            self.transport, early, context, server_side=True, ssl_shutdown_timeout=self.close_timeout
        )
        if transport is None or early.is_lost:
            raise ConnectionResetError("the client left as soon as TLS stood")
        self._before_tls = None
        Connection.connection_made(self, transport)  # not our own, which would begin another handshake
        transport.set_protocol(self)
        for data in early.data:
            self.data_received(data)

    def _hand_on(self) -> None:
        """Gives TLS what came before it was there."""
        waiting = self._before_tls
        tls = cast(asyncio.BufferedProtocol, self.transport.get_protocol())
        if cast(object, tls) is self or waiting is None:
            return  # it was lost meanwhile
        while waiting:
            buffer = memoryview(tls.get_buffer(len(waiting)))
            count = min(len(buffer), len(waiting))
            buffer[:count] = waiting[:count]
            del waiting[:count]
            tls.buffer_updated(count)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops counting it."""
        super().connection_lost(exc)
        self.doorkeeper.left(self)


class _Early(asyncio.Protocol):
    """Keeps what asyncio hands over before `start_tls` returns: a request that came with the handshake."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.data.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Doorkeeper:
    """Answers every request of one server, before the 101.

    Args:
        rules: what the server's owner decided.
        options: shown in the metadata.
        circumstances: tells what holds at this moment; whether the peer is a stranger is found here.
        check_peer: whether the connecting process must belong to our user or root.
        page: the console's answer for a path, or None where it has none.
        max_handshakes: how many sockets may be in their opening handshake (TLS and HTTP) at once. One more
            ends the oldest: a handshake takes milliseconds, so the oldest is the least likely to be an
            honest one.
        tls: with it, every socket speaks TLS.
    """

    def __init__(
        self,
        rules: Rules,
        options: TransportOptions,
        circumstances: Callable[[], Circumstances],
        *,
        check_peer: bool = False,
        page: Callable[[str], Page | None] = lambda path: None,
        max_handshakes: int = 256,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules
        self.tls = tls
        self._options = options
        self._circumstances = circumstances
        self._check_peer = check_peer
        self._page = page
        self._max_handshakes = max_handshakes
        self._waiting: dict[DoorSocket, None] = {}  # in order of arrival
        self._arriving: set[DoorSocket] = set()
        self._ended = 0
        self._say_at = 0.0
        self.refused: Callable[[int], None] = lambda status: None
        """Is told the status of every refusal."""
        self.remote_cwd: str | None = None
        self.supported_agent_families: Sequence[str] = ()
        self.socket_class = type("_Socket", (DoorSocket,), {"doorkeeper": self})
        """The connection class for websockets' `create_connection=`."""

    # -- the hooks of `websockets.serve` ----------------------------------------------------------------

    def process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answers a request, or returns None to let the opening handshake go on."""
        assert isinstance(connection, DoorSocket)
        head = RequestHead.of(request.method, request.path, request.headers.raw_items())
        decision = decide(head, self.rules, self._now(connection))
        if isinstance(decision, Refusal):
            self.refused(decision.status)
            who, path = _name(connection), head.path[:80]
            logger.info("refused %r to %s: %d, %s", path, who, decision.status, decision.reason)
            return _response(decision.status, f"{decision.reason}\n", decision.headers, head=head)
        if decision.route is Route.LINK:
            connection.grant = decision
            self._arriving.add(connection)
            return None
        return self._serve(decision, head)

    def select_subprotocol(
        self, connection: ServerConnection, offered: Sequence[Subprotocol]
    ) -> Subprotocol | None:
        """Echoes what was chosen when the request was granted."""
        assert isinstance(connection, DoorSocket)
        chosen = connection.grant.subprotocol if connection.grant else None
        return None if chosen is None else Subprotocol(chosen)

    def process_response(self, connection: ServerConnection, request: Request, response: Response) -> None:
        """Adds to the 101 the connection's name and whether the acpremote link was negotiated."""
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return
        assert isinstance(connection, DoorSocket)
        response.headers["Acp-Connection-Id"] = connection.connection_id
        if response.headers.get("Sec-WebSocket-Protocol") == LINK_SUBPROTOCOL:
            response.headers["Acpremote-Link"] = "1"
        self._waiting.pop(connection, None)

    # -- sockets on their way in ------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Sockets that have not finished their handshake."""
        return len(self._waiting)

    @property
    def arriving(self) -> int:
        """Sockets that were granted a link and have none yet; they take places already."""
        return len(self._arriving)

    def knocked(self, socket: DoorSocket) -> None:
        """Counts a new socket, and ends the oldest waiting one when there are too many."""
        self._waiting[socket] = None
        if len(self._waiting) > self._max_handshakes:
            oldest = next(iter(self._waiting))
            self._say_ended(oldest)
            self._end(oldest)

    def close(self) -> None:
        """Ends every socket that has not finished its handshake."""
        for socket in list(self._waiting):
            self._end(socket)

    def _end(self, socket: DoorSocket) -> None:
        self.left(socket)
        socket.transport.abort()

    def _say_ended(self, socket: DoorSocket) -> None:
        """Warns now and then: a stranger who makes thousands a second is not to fill the log as well."""
        self._ended += 1
        now = time.monotonic()
        if now < self._say_at:
            return
        logger.warning(
            "more than %d unfinished handshakes; ended the oldest (%d in all), from %s",
            self._max_handshakes,
            self._ended,
            _name(socket),
        )
        self._say_at = now + _SAY_EVERY

    def admitted(self, socket: ServerConnection) -> None:
        """Notes that a granted socket has its link now. Idempotent."""
        assert isinstance(socket, DoorSocket)
        self._arriving.discard(socket)

    def left(self, socket: DoorSocket) -> None:
        """Stops counting a socket. Idempotent."""
        self._waiting.pop(socket, None)
        self._arriving.discard(socket)

    # -- answers ----------------------------------------------------------------------------------------

    def _now(self, connection: ServerConnection) -> Circumstances:
        now = self._circumstances()
        if not self._check_peer:
            return now
        return replace(now, stranger=is_stranger(connection.local_address, connection.remote_address))

    def _serve(self, grant: Grant, head: RequestHead) -> Response:
        match grant.route:
            case Route.HEALTH:
                return _response(200, "ok\n", head=head)
            case Route.METADATA:
                document = self.metadata(authorized=grant.authorized).to_json()
                return _response(200, document, [("Content-Type", "application/json")], head=head)
            case Route.CONSOLE:
                page = self._page(grant.path)
                if page is not None:
                    status, headers, body = page
                    return _response(status, body, headers, head=head)
        raise AssertionError(f"no answer for {grant.route}: the rules grant no such request")

    def metadata(self, *, authorized: bool) -> ServerMetadata:
        """The document at the mount path, as holders of the token or others see it."""
        from .metadata import ServerMetadata

        rules, options = self.rules, self._options
        return ServerMetadata(
            package_version=version("acpremote"),
            auth_required=rules.token is not None,
            supported_auth_modes=() if rules.token is None else ("bearer",),
            max_size=options.max_size,
            compression=options.compression,
            metadata_path=rules.mount_path,
            websocket_path=rules.websocket_path,
            supported_agent_families=tuple(self.supported_agent_families),
            remote_cwd=self.remote_cwd if authorized else None,
            subprotocols=(ACP_SUBPROTOCOL, LINK_SUBPROTOCOL) if rules.link else (ACP_SUBPROTOCOL,),
            console_path="/" if rules.console("/") else None,
            authorized=authorized,
        )


def _response(
    status: int, body: bytes | str, headers: Sequence[tuple[str, str]] = (), *, head: RequestHead
) -> Response:
    """Makes a response; `headers` replace those that every response has."""
    content = body if isinstance(body, bytes) else body.encode()
    fields = Headers([("Date", formatdate(usegmt=True)), ("Connection", "close")])
    for name, value in (("Content-Type", "text/plain; charset=utf-8"), *_ALWAYS, *headers):
        if name in fields:
            del fields[name]
        fields[name] = value
    fields["Content-Length"] = str(len(content))
    return Response(status, HTTPStatus(status).phrase, fields, b"" if head.method == "HEAD" else content)


def _name(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]} port {address[1]}" if isinstance(address, tuple) else "a local process"
