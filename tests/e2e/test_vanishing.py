"""One side vanishes, or stops, at the worst moment: the other hears of it, and nothing is left or raised."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import uuid
from collections.abc import Iterator

import pytest

from acpremote.core.side import Side
from acpremote.options import TransportOptions
from acpremote.transport.websocket import Socket, WebSocketChannel
from tests.raw import PING, PONG, TEXT, TIMEOUT, connect, masked, wait_until
from tests.running import FAST_PYTHON, Exposed, exposed, processes_with

LOOPS = pytest.mark.parametrize("loop", [True, False], ids=["uvloop", "asyncio"])

FLOOD = """
import sys
sys.stdin.readline()
try:
    while True: sys.stdout.write('{"method":"x","params":"%s"}\\n' % ("p" * 1000))
except OSError:
    pass
"""


@pytest.fixture(autouse=True)
def no_failure(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No link may end by an exception that nobody expected."""
    caplog.set_level(logging.INFO)
    yield
    assert not [record for record in caplog.records if record.exc_info]


def socket_of(server: Exposed) -> Socket:
    """The server's end of its only connection."""
    wait_until(lambda: server.links == 1)
    [link] = server.server._links.values()
    channel = link._channels[Side.CLIENT]
    assert isinstance(channel, WebSocketChannel)
    return channel.socket


def send_until_blocked(sock: socket.socket, data: bytes, at_most: int) -> int:
    """Sends until nothing more is taken, and returns how much was."""
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < at_most:
            sent += sock.send(data)
    return sent


@LOOPS
def test_a_client_resets_while_the_agent_waits_for_it(loop: bool, caplog: pytest.LogCaptureFixture) -> None:
    with (
        exposed([*FAST_PYTHON, FLOOD], uses_uvloop=loop) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        ours = socket_of(server)
        wait_until(lambda: ours.paused)
        client.reset()
        wait_until(lambda: server.links == 0)
    assert "was lost" in caplog.text


@LOOPS
def test_an_agent_closes_its_input_while_it_is_told_to_leave(loop: bool) -> None:
    """The stop ladder goes on although the last frames could not be written."""
    marker = f"marker-{uuid.uuid4()}"
    agent = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.read(0, 10)
os.write(1, b'{"method":"x"}\\n')
time.sleep(0.5)
os.close(0)
while True: signal.pause()
"""
    with (
        exposed(
            [*FAST_PYTHON, agent], uses_uvloop=loop, terminate_timeout=1, env={"MARKER": marker}
        ) as server,
        connect(server.port) as client,
    ):
        client.send(json.dumps({"method": "x", "params": "p" * 700_000}).encode())
        client.receive()
        client.reset()
        wait_until(lambda: server.links == 0)
        assert not processes_with(marker)


MIB = 1024 * 1024
DEAF = "import sys, time; sys.stdin.buffer.raw.read(1); time.sleep(1000)"


@LOOPS
def test_pings_of_a_client_that_never_reads_do_not_pile_up(loop: bool) -> None:
    """Their answers go into our write buffer, so reading stops until the client reads."""
    with (
        exposed([*FAST_PYTHON, FLOOD], uses_uvloop=loop) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"x"}')
        client.sock.settimeout(2)
        pings = masked(PING, b"p" * 125) * 500
        assert send_until_blocked(client.sock, pings, at_most=64 * MIB) < 64 * MIB
        client.sock.settimeout(TIMEOUT)
        while client.receive_frame()[0] != PONG:
            pass
        client.reset()


@LOOPS
def test_messages_without_content_take_room_too(loop: bool) -> None:
    options = TransportOptions(window=64 * 1024)
    with (
        exposed([*FAST_PYTHON, DEAF], options=options, uses_uvloop=loop) as server,
        connect(server.port) as client,
    ):
        client.send(*[b'{"method":"x","params":"%s"}' % (b"p" * 60_000)] * 40)
        client.sock.sendall(masked(TEXT, b"") * 50_000)
        ours = socket_of(server)
        wait_until(lambda: ours._reading_paused)
        client.sock.sendall(masked(TEXT, b"") * 50_000)
        assert len(ours._inbox) < 50_000


def test_a_message_in_very_many_fragments_arrives_whole() -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        nothing = masked(0, b"", fin=False) * 1000
        client.sock.sendall(masked(TEXT, b"", fin=False) + nothing)
        for byte in b'{"method":"x"}':
            client.sock.sendall(masked(0, bytes([byte]), fin=False) + nothing)
        client.sock.sendall(masked(0, b""))
        assert client.receive() == b'{"method":"x"}'
