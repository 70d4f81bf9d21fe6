"""The user at the other end of a loopback connection, with real sockets and a real second user."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from acpremote.transport.peer import can_tell_users, is_stranger, peer_uid

NOBODY = 65_534

pytestmark = pytest.mark.skipif(not can_tell_users(), reason="needs Linux's /proc/net/tcp")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as a second user")

WAYS = [
    ("127.0.0.1", "127.0.0.1"),
    ("::1", "::1"),
    ("::", "127.0.0.1"),
    ("::", "::ffff:127.0.0.1"),
    ("127.0.0.1", "::ffff:127.0.0.1"),
]


@contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")) as server:
        server.settimeout(10)
        yield server


def connect(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    client = socket.socket(family, socket.SOCK_STREAM)
    client.connect((host, port))
    return client


@contextmanager
def connected_as(
    uid: int, server: socket.socket, host: str, *, close: bool = False
) -> Iterator[socket.socket]:
    """The accepted end of a connection that a child process of user `uid` makes."""
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:  # no test code may run on here: leave by _exit only
        try:
            os.setuid(uid)
            os.close(go_write)
            client = connect(host, server.getsockname()[1])
            client.sendall(b"x")
            if close:
                client.close()
            os.read(go_read, 1)
        finally:
            os._exit(0)
    os.close(go_read)
    try:
        with server.accept()[0] as accepted:
            assert accepted.recv(1) == b"x"
            yield accepted
    finally:
        os.close(go_write)
        os.waitpid(child, 0)


@pytest.mark.parametrize(("bound", "host"), WAYS)
def test_our_own_connection_is_ours(bound: str, host: str) -> None:
    with listening(bound) as server, closing(connect(host, server.getsockname()[1])):
        accepted, _ = server.accept()
        with accepted:
            assert peer_uid(accepted.getsockname(), accepted.getpeername()) == os.geteuid()
            assert not is_stranger(accepted.getsockname(), accepted.getpeername())


@needs_root
@pytest.mark.parametrize(("bound", "host"), WAYS)
def test_another_users_connection_is_a_strangers(bound: str, host: str) -> None:
    with listening(bound) as server, connected_as(NOBODY, server, host) as accepted:
        assert peer_uid(accepted.getsockname(), accepted.getpeername()) == NOBODY
        assert is_stranger(accepted.getsockname(), accepted.getpeername())


@needs_root
def test_who_sends_and_closes_at_once_does_not_pass_for_root() -> None:
    with (
        listening("127.0.0.1") as server,
        connected_as(NOBODY, server, "127.0.0.1", close=True) as accepted,
    ):
        assert accepted.recv(1) == b"", "the other end is closed by now"
        assert is_stranger(accepted.getsockname(), accepted.getpeername())


def test_it_is_found_among_many() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(listening("127.0.0.1"))
        for _ in range(100):
            stack.enter_context(closing(connect("127.0.0.1", server.getsockname()[1])))
            accepted = stack.enter_context(server.accept()[0])
            assert not is_stranger(accepted.getsockname(), accepted.getpeername())


def test_a_connection_that_is_gone_is_nobodys() -> None:
    with listening("127.0.0.1") as server:
        client = connect("127.0.0.1", server.getsockname()[1])
        accepted, remote = server.accept()
        local = accepted.getsockname()
        accepted.close()
        client.close()
        assert peer_uid(local, remote) is None
        assert is_stranger(local, remote)
