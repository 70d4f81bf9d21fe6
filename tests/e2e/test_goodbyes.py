"""A mirror or a server is told to go, in any situation: it goes, with its status, and takes the agent along."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from acpremote.options import TransportOptions

from ..raw import TEXT, connect, masked, wait_until
from ..running import FAST_PYTHON, Exposed, command, expose_command, exposed, processes_with
from .test_resume import NOTE, bad_network, hear, say

FLOOD = """
import sys, threading
sys.stdin.readline()
sys.stdout.write('{"method":"x"}\\n'); sys.stdout.flush()
sys.stdin.readline()
threading.Thread(target=sys.stdin.read, daemon=True).start()
try:
    while True: sys.stdout.write('{"method":"x","params":"%s"}\\n' % ("p" * 300))
except OSError:
    pass
"""
"""Answers one line; after the next it reads and writes without end."""

ECHO = [*FAST_PYTHON, 'import os, sys\nfor line in sys.stdin.buffer: os.write(1, b\'{"method":"x"}\\n\')']
PROMPT = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}'

STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 143}
DEAF = [
    *FAST_PYTHON,
    """
import sys, time
sys.stdin.buffer.raw.read(1)
print('{"method":"x"}', flush=True)
while True: time.sleep(1000)
""",
]
SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["TERM", "INT", "HUP"]
)


@pytest.fixture
def marker() -> Iterator[str]:
    """A word in the environment of every agent; nothing may hold it afterwards."""
    word = f"marker-{uuid.uuid4()}"
    yield word
    wait_until(lambda: not processes_with(word))


@contextmanager
def mirrored(
    agent: list[str], marker: str, *flags: str, options: TransportOptions | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Exposed]]:
    """A mirror with its link open and its agent running, and the server, which would keep the link for an hour."""
    with (
        exposed(agent, env={"MARKER": marker}, options=options) as server,
        command("mirror", server.url, *flags) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        assert server.links == 1
        yield mirror, server


def assert_gone(
    mirror: subprocess.Popen[bytes], server: Exposed, marker: str, number: signal.Signals
) -> None:
    assert mirror.wait(15) == STATUS[number]
    wait_until(lambda: server.links == 0)
    assert not processes_with(marker)


@SIGNALS
def test_an_idle_mirror_takes_its_agent_along(marker: str, number: signal.Signals) -> None:
    with mirrored(ECHO, marker) as (mirror, server):
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)


@SIGNALS
def test_a_mirror_in_mid_turn_takes_its_agent_along(marker: str, number: signal.Signals) -> None:
    with mirrored(ECHO, marker) as (mirror, server):
        say(mirror, PROMPT)
        hear(mirror)
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)


@SIGNALS
@pytest.mark.parametrize("is_read", [True, False], ids=["that is read", "that nobody reads"])
def test_a_mirror_in_a_flood_takes_its_agent_along(
    marker: str, number: signal.Signals, is_read: bool
) -> None:
    with mirrored([*FAST_PYTHON, FLOOD], marker) as (mirror, server):
        assert mirror.stdout is not None
        output = mirror.stdout
        say(mirror, NOTE)
        for _ in range(1000):
            hear(mirror)
        reader = threading.Thread(target=output.read)
        if is_read:
            reader.start()
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)
        if is_read:
            reader.join()


def flood(mirror: subprocess.Popen[bytes]) -> None:
    assert mirror.stdin is not None
    try:
        while True:
            os.write(mirror.stdin.fileno(), NOTE + b"\n")
    except OSError:
        pass


@SIGNALS
def test_a_mirror_in_floods_both_ways_takes_its_agent_along(marker: str, number: signal.Signals) -> None:
    with mirrored([*FAST_PYTHON, FLOOD], marker) as (mirror, server):
        assert mirror.stdout is not None
        threads = [
            threading.Thread(target=flood, args=(mirror,)),
            threading.Thread(target=mirror.stdout.read),
        ]
        say(mirror, NOTE)
        for _ in range(1000):
            hear(mirror)
        for thread in threads:
            thread.start()
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)
        for thread in threads:
            thread.join()


@SIGNALS
def test_a_mirror_whose_agent_does_not_read_takes_it_along(marker: str, number: signal.Signals) -> None:
    """Its goodbye would have to wait behind more than the server takes, which waits for the agent no longer
    than `stall_timeout`."""
    options = TransportOptions(stall_timeout=1)
    with mirrored(DEAF, marker, "--window", str(256 * 1024), options=options) as (mirror, server):
        thread = threading.Thread(target=flood, args=(mirror,))
        thread.start()
        assert mirror.stdin is not None
        wait_until(lambda: not select.select([], [mirror.stdin], [], 0.5)[1])
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)
        thread.join()


@SIGNALS
def test_a_mirror_that_is_disconnected_goes_without_its_goodbye(marker: str, number: signal.Signals) -> None:
    with (
        exposed(ECHO, env={"MARKER": marker}) as server,
        bad_network(server.port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        proxy.refuses = True
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted >= 2)
        mirror.send_signal(number)
        assert mirror.wait(15) == STATUS[number]
        assert server.links == 1, "nobody told the server: the grace applies"


@SIGNALS
def test_a_mirror_before_its_connection_stands_goes_at_once(number: signal.Signals) -> None:
    with bad_network(1) as (proxy, _loop), command("mirror", proxy.url) as mirror:
        proxy.refuses = True
        wait_until(lambda: proxy.accepted)
        mirror.send_signal(number)
        assert mirror.wait(15) == STATUS[number]


def test_a_killed_mirror_leaves_its_link_for_the_grace(marker: str) -> None:
    options = TransportOptions(grace=1)
    with (
        exposed(ECHO, options=options, env={"MARKER": marker}) as server,
        command("mirror", server.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        mirror.kill()
        mirror.wait()
        assert server.links == 1
        wait_until(lambda: server.links == 0)


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The writing end of a pipe that is full and that nobody reads."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(theirs, b"x" * 4096)
    os.set_blocking(theirs, True)
    yield theirs
    os.close(ours)
    os.close(theirs)


@SIGNALS
def test_a_mirror_whose_log_nobody_reads_goes(marker: str, full_pipe: int, number: signal.Signals) -> None:
    with (
        exposed(ECHO, env={"MARKER": marker}) as server,
        command("mirror", "--log-level", "debug", server.url, stderr=full_pipe) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        mirror.send_signal(number)
        assert_gone(mirror, server, marker, number)


@pytest.mark.parametrize(("way", "status"), [("the input ends", 0), ("the server is gone", 6)])
def test_a_mirror_whose_log_nobody_reads_ends_when(
    marker: str, full_pipe: int, way: str, status: int
) -> None:
    with (
        expose_command("--env", f"MARKER={marker}", "--", *ECHO) as (server, port),
        command("mirror", "--no-reconnect", f"ws://127.0.0.1:{port}", stderr=full_pipe) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        if status:
            server.kill()
        else:
            assert mirror.stdin is not None
            mirror.stdin.close()
        assert mirror.wait(15) == status


def test_a_server_whose_log_nobody_reads_ends(marker: str) -> None:
    flags = ["--log-level", "debug", "--stderr-mode", "inherit", "--env", f"MARKER={marker}"]
    agent = ["sh", "-c", "yes >&2"]
    with expose_command(*flags, "--", *agent) as (server, port), connect(port) as client:
        client.send(NOTE)
        assert server.stderr is not None
        stderr = server.stderr.fileno()
        wait_until(lambda: unread(stderr) > 60_000)
        server.terminate()
        assert server.wait(15) == 0


def unread(descriptor: int) -> int:
    """Bytes that wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_mirror_whose_reader_has_gone_ends_and_takes_its_agent_along(marker: str) -> None:
    with mirrored([*FAST_PYTHON, FLOOD], marker) as (mirror, _):
        assert mirror.stdout is not None
        assert mirror.stderr is not None
        say(mirror, NOTE)
        for _ in range(1000):
            hear(mirror)
        mirror.stdout.close()
        assert mirror.wait(15) == 6
        assert b"Traceback" not in mirror.stderr.read()
        wait_until(lambda: not processes_with(marker))


@SIGNALS
@pytest.mark.parametrize("clients", ["mirror", "stock"])
def test_a_server_in_floods_both_ways_ends_in_order_and_in_time(
    marker: str, number: signal.Signals, clients: str
) -> None:
    agent = ["--env", f"MARKER={marker}", "--", *FAST_PYTHON, FLOOD]
    with expose_command(*agent, env={"MARKER": marker}) as (server, port), ExitStack() as stack:
        sources = [stack.enter_context(FLOODED[clients](port)) for _ in range(3)]
        for read in sources:
            read(1000)
        threads = [threading.Thread(target=read, args=(10**9,)) for read in sources]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        server.send_signal(number)
        assert server.wait(15) == 0
        assert time.monotonic() - began < 8, "what --shutdown-timeout promises"
        wait_until(lambda: not processes_with(marker) or clients == "mirror")
        for thread in threads:
            thread.join()


@contextmanager
def flooded_mirror(port: int) -> Iterator[Callable[[int], None]]:
    with command("mirror", f"ws://127.0.0.1:{port}") as mirror:
        say(mirror, NOTE)
        hear(mirror)
        say(mirror, NOTE)
        writer = threading.Thread(target=flood, args=(mirror,))
        writer.start()

        def read(count: int) -> None:
            while count and hear(mirror):
                count -= 1

        yield read
        assert mirror.wait(15) == 6
        writer.join()


@contextmanager
def flooded_socket(port: int) -> Iterator[Callable[[int], None]]:
    with connect(port) as client:
        client.send(NOTE)
        client.receive()
        client.send(NOTE)

        writer = threading.Thread(target=write_on, args=(client.sock,))
        writer.start()
        last = b""

        def read(count: int) -> None:
            nonlocal last
            with contextlib.suppress(ConnectionError):  # it ends while we write
                while count > 0 and (data := client.sock.recv(1_000_000)):
                    count -= len(data) // 300
                    last = (last + data)[-200:]
                    if CLOSED_1001 in last:
                        client.sock.shutdown(socket.SHUT_WR)

        yield read
        writer.join()
        assert CLOSED_1001 in last


def write_on(sock: socket.socket) -> None:
    data = masked(TEXT, b'{"method":"x","params":"%b"}' % (b"p" * 5000)) * 20
    with contextlib.suppress(OSError):
        while True:
            sock.sendall(data)


CLOSED_1001 = b"\x88\x1c" + struct.pack("!H", 1001) + b"the relay is shutting down"

FLOODED = {"mirror": flooded_mirror, "stock": flooded_socket}
