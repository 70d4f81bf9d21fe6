"""One side vanishes, or stops, at the worst moment: the other hears of it, and nothing is left or raised."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator

import pytest

from acpremote.core.side import Side
from acpremote.transport.websocket import WebSocketChannel
from tests.raw import connect, wait_until
from tests.running import FAST_PYTHON, exposed, processes_with

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


@LOOPS
def test_a_client_resets_while_the_agent_waits_for_it(loop: bool, caplog: pytest.LogCaptureFixture) -> None:
    with (
        exposed([*FAST_PYTHON, FLOOD], uses_uvloop=loop) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        [link] = server.server._links.values()
        channel = link._channels[Side.CLIENT]
        assert isinstance(channel, WebSocketChannel)
        wait_until(lambda: channel.socket.paused)
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
