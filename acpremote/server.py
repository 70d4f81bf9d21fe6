"""Listens, lets clients in, and runs one link per connection.

A link runs in the server's task group, not in the handler that websockets made for its socket: the handler
lends the socket, watches it and waits; an acpremote link outlives it (`transport/links.py`). On a stop, new
connections get 503, every link is ended with 1001 and its agent is stopped, all within `shutdown_timeout`.

    STARTING ─► LISTENING ── aclose(), SIGTERM ──► DRAINING ── every link has ended, or time is up ──► CLOSED
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

import anyio
import anyio.abc
from websockets.asyncio.server import ServerConnection

from . import console
from .core.access import Circumstances
from .core.credentials import LINK_SUBPROTOCOL
from .core.relay import Relay
from .core.setup import bound_to, make_rules, wants_peer_check, warnings
from .core.side import Side
from .ending import Ending, EndingKind
from .endpoint import Doorkeeper, DoorSocket
from .errors import AcpRemoteError, ListenError
from .listening import listen, remove_own_socket, tls_of
from .options import ServerOptions, TransportOptions
from .pump import Link, Observer
from .transport.channel import Channel
from .transport.lazy import LazyChannel
from .transport.links import LinkRegistry, ServerLink
from .transport.peer import can_tell_users
from .transport.websocket import WRITE_HIGH_WATER, WebSocketChannel

if TYPE_CHECKING:
    from .metrics import Metrics
    from .recording import Recordings

__all__ = ["AgentSource", "Server", "start_server"]

logger = logging.getLogger(__name__)

AgentSource = Callable[[str], Awaitable[Channel]]
"""Opens the channel of a new link's agent; is given the link id."""

_ABORT_RESERVE = 1.0
"""Seconds of the shutdown timeout kept for ending at once what did not end in order."""

_SHUTDOWN = Ending(EndingKind.SHUTDOWN, "the relay is shutting down")


class Server:
    """The handle of a running server; made by `start_server` and the `serve_…` functions.

    It mirrors the part of `websockets.asyncio.server.Server` that programs use, and is an asynchronous
    context manager that closes it.
    """

    def __init__(self, source: AgentSource, options: ServerOptions, transport: TransportOptions) -> None:
        self._source = source
        self._options = options
        self._transport = transport
        self._links: dict[str, Link] = {}
        self._next_link = 1
        self._draining = False
        self._listening = anyio.Event()
        self._stop = anyio.Event()
        self._closed = anyio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closers: list[Callable[[], None]] = []
        self.sockets: tuple[socket.socket, ...] = ()
        """The listening sockets."""
        self.tls_fingerprint: str | None
        """SHA-256 of the self-signed certificate, for clients to pin."""
        self._tls, self.tls_fingerprint = tls_of(options)
        self._recordings = _recordings_of(options)
        self._metrics = _metrics_of(options)
        self._registry = LinkRegistry(
            transport,
            self._open_link,
            admitted=lambda socket: self.doorkeeper.admitted(cast(DoorSocket, socket)),
            has_room=lambda: len(self._links) < self._options.max_connections,
            remote_cwd=lambda: self.doorkeeper.remote_cwd,
        )
        console_on = options.console and options.mount_path.strip("/") != ""
        self.doorkeeper = Doorkeeper(
            make_rules(options, link=True, console=lambda path: console_on and path in console.paths()),
            transport,
            self._circumstances,
            check_peer=wants_peer_check(options) and can_tell_users(),
            page=lambda path: console.respond(path, mount_path=options.mount_path),
            max_handshakes=options.max_handshakes,
            tls=self._tls,
        )
        if self._metrics is not None:
            self._metrics.watch(links=lambda: len(self._links), detached=lambda: self._registry.detached)
            self._registry.resumed = self._metrics.resumed
            self.doorkeeper.refused = self._metrics.refused
        for warning in warnings(options, can_tell_users=can_tell_users()):
            logger.warning("%s", warning)

    # -- the handle -------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where clients connect, with the real port: `ws://127.0.0.1:8080/acp/ws` or `unix:/run/acp.sock`."""
        options = self._options
        if options.unix_path is not None:
            return f"unix:{options.unix_path}"
        host, port = self.sockets[0].getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        scheme = "ws" if self._tls is None else "wss"
        return f"{scheme}://{name}:{port}{self.doorkeeper.rules.websocket_path}"

    @property
    def port(self) -> int | None:
        """The real port, or None for a Unix socket."""
        return None if self._options.unix_path is not None else int(self.sockets[0].getsockname()[1])

    @property
    def max_connections(self) -> int:
        """Links that may exist at once."""
        return self._options.max_connections

    @property
    def link_count(self) -> int:
        """Links that exist now."""
        return len(self._links)

    def on_closed(self, closer: Callable[[], None]) -> None:
        """Registers what is to be released after the last link has ended."""
        self._closers.append(closer)

    async def serve_forever(self) -> None:
        """Waits until the server is closed; closes it when cancelled."""
        try:
            await self.wait_closed()
        finally:
            with anyio.CancelScope(shield=True):
                await self.aclose()

    async def aclose(self) -> None:
        """Stops listening, ends every link with 1001, stops the agents; idempotent and bounded in time."""
        self.close()
        await self.wait_closed()

    def close(self) -> None:
        """Begins to close; `wait_closed` waits for the end."""
        self._stop.set()

    async def wait_closed(self) -> None:
        """Waits until every link has ended and nothing is left running."""
        await self._closed.wait()

    def abort(self) -> None:
        """Ends every link at once and kills the agents; for a person who is in a hurry."""
        self.close()
        for link in self._links.values():
            link.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    # -- life -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listens.

        Raises:
            ListenError: the address cannot be listened on.
        """
        # The one bare task of the package: the handle outlives the caller's scope, and everything else runs
        # in the task group inside it.
        self._task = asyncio.get_running_loop().create_task(self._run(), name="acpremote server")
        try:
            await self._listening.wait()
        except BaseException:
            self.close()
            raise
        if self._failure is not None:
            raise self._failure

    @property
    def failure(self) -> BaseException | None:
        """What ended the server, if it did not end in order."""
        return self._failure

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are served, if they are."""
        return None if self._metrics is None else self._metrics.address

    async def _run(self) -> None:
        try:
            if self._metrics is not None:
                self._metrics.listen(str(self._options.metrics_address))
                logger.info("metrics are at %s", self._metrics.address)
            # The listener outlives the links: while they end, newcomers are told 503.
            async with self._listen(), anyio.create_task_group() as self._tasks:
                self._listening.set()
                await self._stop.wait()
                self._draining = True
                await self._end_links()
        except OSError as error:
            self._failure = ListenError(f"cannot listen on {self._where()}: {_reason(error)}")
        except AcpRemoteError as error:
            self._failure = error
        except BaseException as error:
            self._failure = error
            raise
        finally:
            for closer in self._closers:
                closer()
            if self._recordings is not None:
                self._recordings.finish()
            if self._metrics is not None:
                self._metrics.close()
            self._listening.set()
            self._closed.set()

    @contextlib.asynccontextmanager
    async def _listen(self) -> AsyncIterator[None]:
        options, transport = self._options, self._transport
        settings = {
            "create_connection": self.doorkeeper.socket_class,
            "process_request": self.doorkeeper.process_request,
            "process_response": self.doorkeeper.process_response,
            "select_subprotocol": self.doorkeeper.select_subprotocol,
            "compression": transport.compression,
            "open_timeout": transport.open_timeout,
            "close_timeout": transport.close_timeout,
            "ping_interval": None,
            "max_size": transport.max_size,
            "write_limit": WRITE_HIGH_WATER,
            "server_header": None,
        }
        server = await listen(self._handle, options, settings)
        self.sockets = tuple(server.sockets)
        own = None if options.unix_path is None else os.stat(options.unix_path).st_ino
        if options.unix_path is None:
            addresses = [listening.getsockname()[0] for listening in self.sockets]
            rules = replace(self.doorkeeper.rules, bound_to=bound_to(options, *addresses))
            self.doorkeeper.rules = rules
        try:
            yield
        finally:
            server.close(close_connections=False)
            self.doorkeeper.close()
            for connection in server.connections:
                connection.transport.abort()
            with anyio.move_on_after(_ABORT_RESERVE, shield=True):
                await server.wait_closed()
            if options.unix_path is not None:
                remove_own_socket(options.unix_path, own)

    def _where(self) -> str:
        options = self._options
        return options.unix_path or f"{options.host} port {options.port}"

    async def _end_links(self) -> None:
        self._registry.close()
        links = list(self._links.values())
        for link in links:
            link.stop(_SHUTDOWN)
        with anyio.move_on_after(max(0.1, self._options.shutdown_timeout - 2 * _ABORT_RESERVE)):
            for link in links:
                await link.closed.wait()
        for link in links:
            link.abort()

    # -- one connection ---------------------------------------------------------------------------------

    def _circumstances(self) -> Circumstances:
        arriving, links = self.doorkeeper.arriving, self._registry
        full = len(self._links) + arriving >= self._options.max_connections
        return Circumstances(
            draining=self._draining,
            full=full and not links.has_evictable,
            # A link whose socket is dead without our knowing has a socket: any may be come back to.
            resumable=links.count > 0 and arriving < self._options.max_handshakes,
        )

    async def _handle(self, connection: ServerConnection) -> None:
        assert isinstance(connection, DoorSocket)
        connection.configure(self._transport, Side.CLIENT)
        if self._metrics is not None:
            connection.round_trip = self._metrics.round_trip
        await self._listening.wait()
        if self._draining:  # asked last: nothing may come between the answer and the new link's entry
            await connection.shut(_SHUTDOWN)
            return
        if connection.subprotocol == LINK_SUBPROTOCOL:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.watch)
                await self._registry.serve(connection)
                tasks.cancel_scope.cancel()
            return
        if len(self._links) >= self._options.max_connections:
            self._registry.evict()
        link = self._new_link(WebSocketChannel(connection), connection)
        self.doorkeeper.admitted(connection)
        self._tasks.start_soon(self._run_link, link)
        await connection.watch()
        await link.closed.wait()

    def _open_link(self, channel: ServerLink, connection: object) -> None:
        assert isinstance(connection, DoorSocket)
        link = self._new_link(channel, connection)
        channel.is_idle = lambda: link.relay.is_idle
        channel.note = link.note
        self._tasks.start_soon(self._run_link, link, channel)

    def _new_link(self, channel: Channel, connection: DoorSocket) -> Link:
        link_id = str(self._next_link)
        self._next_link += 1
        agent = LazyChannel(lambda: self._start_agent(link_id))
        peer = _peer_name(connection)
        link = Link(
            link_id, channel, agent, Relay(), drain_timeout=0, observers=self._observers(link_id, peer)
        )
        self._links[link_id] = link
        link.log.info("opened by %s", peer, extra={"peer": peer})
        return link

    def _observers(self, link_id: str, peer: str) -> list[Observer]:
        observers: list[Observer] = []
        if self._recordings is not None:
            observers.append(self._recordings.record(link_id, peer))
        if self._metrics is not None:
            observers.append(self._metrics)
        return observers

    def _start_agent(self, link_id: str) -> Awaitable[Channel]:
        if self._metrics is not None:
            self._metrics.agent_started()
        return self._source(link_id)

    async def _run_link(self, link: Link, channel: ServerLink | None = None) -> None:
        try:
            ending = await link.run()
        except Exception:
            link.log.exception("failed")
        else:
            told = {
                "ending": ending.kind.value,
                "status": ending.status,
                "frames_from_client": link.relay.frames[Side.CLIENT],
                "frames_from_agent": link.relay.frames[Side.AGENT],
            }
            link.log.log(ending.log_level, "ended (%s): %s", ending.kind.value, ending, extra=told)
        finally:
            del self._links[link.id]
            if channel is not None:
                self._registry.closed(channel)


def _reason(error: OSError) -> str:
    """What the system says; asyncio puts the address, which we name ourselves, in front of it."""
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; choose another --port, or stop what listens there"
    return os.strerror(error.errno) if error.errno else str(error)


def _peer_name(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]} port {address[1]}" if isinstance(address, tuple) and address else "a local process"


def _recordings_of(options: ServerOptions) -> Recordings | None:
    if options.record_dir is None:
        return None
    from .recording import Recordings

    return Recordings(options.record_dir, limit=options.record_limit, redacted=options.record_redact)


def _metrics_of(options: ServerOptions) -> Metrics | None:
    if options.metrics_address is None:
        return None
    from .metrics import Metrics  # loads prometheus-client, which need not be installed

    return Metrics()


async def start_server(
    source: AgentSource, options: ServerOptions, transport: TransportOptions | None = None
) -> Server:
    """Starts a server whose links get their agents from `source`.

    Raises:
        ConfigError: the set-up is unsafe.
        ListenError: the address cannot be listened on.
    """
    server = Server(source, options, transport or TransportOptions())
    await server.start()
    return server
