"""Sockets that never get through: bounded in number and in time, whatever they stop in the middle of."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from acpremote.options import ServerOptions, TransportOptions
from acpremote.tls import SelfSigned, client_context, parse_fingerprint, self_signed

from ..raw import TIMEOUT, RawClient, connect, masked, read_head, request_head, wait_until
from ..running import Exposed, exposed

LOOPS = pytest.mark.parametrize("loop", [True, False], ids=["uvloop", "asyncio"])
TEXT, BOUND = 1, 10
NOTE = b'{"method":"x"}'
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)
"""The beginning of one."""

STOPS = pytest.mark.parametrize(
    ("tls", "said"),
    [(False, b""), (False, b"GET /acp HT"), (True, b""), (True, CLIENT_HELLO)],
    ids=["silent", "in the request", "silent before TLS", "in the TLS handshake"],
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> SelfSigned:
    return self_signed([], tmp_path_factory.mktemp("state"))


@contextmanager
def served(
    certificate: SelfSigned, *, tls: bool = True, loop: bool = True, open_timeout: float = 10
) -> Iterator[Exposed]:
    options = ServerOptions(max_handshakes=BOUND, tls_certificate=certificate.file if tls else None)
    transport = TransportOptions(open_timeout=open_timeout)
    with exposed(["cat"], server_options=options, options=transport, uses_uvloop=loop) as server:
        yield server


@contextmanager
def arriving(server: Exposed, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    """That many sockets which say this and nothing more."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            address = ("127.0.0.1", server.port)
            sock = stack.enter_context(closing(socket.create_connection(address, TIMEOUT)))
            sock.sendall(said)
            sockets.append(sock)
        yield sockets


def is_ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def waiting(server: Exposed) -> int:
    return server.server.doorkeeper.waiting


@contextmanager
def over_tls(
    server: Exposed, certificate: SelfSigned, said_hello: Callable[[], object] = lambda: None
) -> Iterator[RawClient]:
    """A link through TLS whose request, and a first frame, travel with the last flight of the TLS handshake."""
    context = client_context(pin=parse_fingerprint(certificate.fingerprint))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing)
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT) as sock:
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                said_hello()
                incoming.write(sock.recv(65536))
        session.write(request_head() + masked(TEXT, NOTE))
        sock.sendall(outgoing.read())
        yield RawClient(_OverTls(sock, session, incoming, outgoing))  # type: ignore[arg-type]


class _OverTls:
    """What `RawClient` needs of a socket."""

    def __init__(
        self, sock: socket.socket, session: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._sock, self._session, self._in, self._out = sock, session, incoming, outgoing

    def recv(self, size: int) -> bytes:
        while True:
            try:
                return self._session.read(size)
            except ssl.SSLWantReadError:
                self._in.write(self._sock.recv(65536))

    def sendall(self, data: bytes) -> None:
        self._session.write(data)
        self._sock.sendall(self._out.read())


def open_link(client: RawClient) -> None:
    status, _, client.buffer = read_head(client.sock)
    assert status == 101
    assert client.receive() == NOTE


@LOOPS
@STOPS
def test_many_do_not_keep_others_out(certificate: SelfSigned, tls: bool, said: bytes, loop: bool) -> None:
    with served(certificate, tls=tls, loop=loop) as server, arriving(server, 4 * BOUND, said) as sockets:
        wait_until(lambda: waiting(server) == BOUND)
        assert all(is_ended(sock) for sock in sockets[: 3 * BOUND]), "the oldest are ended"
        if tls:
            with over_tls(server, certificate) as client:
                open_link(client)
        else:
            with connect(server.port, first=masked(TEXT, NOTE)) as client:
                assert client.receive() == NOTE
        assert waiting(server) == BOUND - 1, "the newcomer took the place of the oldest and is through"


@LOOPS
@STOPS
def test_one_that_never_finishes_is_cut(certificate: SelfSigned, tls: bool, said: bytes, loop: bool) -> None:
    with (
        served(certificate, tls=tls, loop=loop, open_timeout=0.2) as server,
        arriving(server, 1, said) as [sock],
    ):
        assert is_ended(sock)
        wait_until(lambda: waiting(server) == 0)


def close(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@LOOPS
@STOPS
@pytest.mark.parametrize("leave", [close, reset])
def test_one_that_leaves_is_forgotten(
    certificate: SelfSigned,
    tls: bool,
    said: bytes,
    loop: bool,
    leave: Callable[[socket.socket], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with served(certificate, tls=tls, loop=loop) as server, arriving(server, BOUND, said) as sockets:
        wait_until(lambda: waiting(server) == BOUND)
        for sock in sockets:
            leave(sock)
        wait_until(lambda: waiting(server) == 0)
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING]


@LOOPS
@STOPS
def test_a_server_that_stops_does_not_wait_for_them(
    certificate: SelfSigned, tls: bool, said: bytes, loop: bool
) -> None:
    with arriving_until_stopped(certificate, tls=tls, loop=loop, said=said) as [sock]:
        assert is_ended(sock)


@contextmanager
def arriving_until_stopped(
    certificate: SelfSigned, *, tls: bool, loop: bool, said: bytes
) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        with served(certificate, tls=tls, loop=loop, open_timeout=1000) as server:
            sockets = stack.enter_context(arriving(server, 1, said))
            wait_until(lambda: waiting(server) == 1)
        yield sockets


@LOOPS
def test_the_log_says_once_what_is_done_to_a_flood_of_them(
    certificate: SelfSigned, loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with served(certificate, loop=loop) as server, arriving(server, 10 * BOUND, b"") as sockets:
        assert all(is_ended(sock) for sock in sockets[: 9 * BOUND])
        assert waiting(server) == BOUND
    [said] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said.startswith("more than 10 unfinished handshakes; ended the oldest (1 in all), from 127.0.0.1")


@LOOPS
def test_links_through_tls_that_are_open_do_not_count(certificate: SelfSigned, loop: bool) -> None:
    with served(certificate, loop=loop) as server, ExitStack() as stack:
        clients = [stack.enter_context(over_tls(server, certificate)) for _ in range(2 * BOUND)]
        for client in clients:
            open_link(client)
        assert waiting(server) == 0
        assert server.links == 2 * BOUND


@LOOPS
def test_what_tls_begins_with_may_come_before_the_server_looks(certificate: SelfSigned, loop: bool) -> None:
    with served(certificate, loop=loop) as server:
        for _ in range(5):
            looks = threading.Event()
            server.loop.call_soon_threadsafe(looks.wait)
            with over_tls(server, certificate, looks.set) as client:
                open_link(client)


@LOOPS
def test_a_large_frame_passes_through_tls_in_both_directions(certificate: SelfSigned, loop: bool) -> None:
    frame = b'{"method":"x","params":"%b"}' % (b"p" * 5_000_000)
    with served(certificate, loop=loop) as server, over_tls(server, certificate) as client:
        open_link(client)
        client.send(frame)
        assert client.receive() == frame
        assert client.close().code == 1000
