"""The whole way, editor to agent, over a connection that is cut again and again."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acpremote.options import ServerOptions
from acpremote.recording import read_recording

from ..raw import wait_until
from ..running import FAST_PYTHON, alive, children_of, command, expose_command, exposed
from ..transport.cutting import CuttingProxy, cutting_proxy

REQUESTS, UPDATES = 120, 4000


@contextmanager
def bad_network(target: int) -> Iterator[tuple[CuttingProxy, asyncio.AbstractEventLoop]]:
    """A cutting proxy in a thread of its own; call its methods through the loop."""
    started: queue.Queue[tuple[CuttingProxy, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        async with cutting_proxy(target) as proxy:
            leave = asyncio.Event()
            started.put((proxy, asyncio.get_running_loop(), leave))
            await leave.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    proxy, loop, leave = started.get(timeout=10)
    try:
        yield proxy, loop
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(10)
        assert not thread.is_alive()


def update(number: int) -> bytes:
    """Of every size, and with everything that a relay might be tempted to rewrite."""
    text = b"\\ud83d\\/ \xc3\xa9 1e2" * (number * 7919 % 60)
    return b'{ "jsonrpc":"2.0","method":"session/update","params":{"n":%d, "n":1E400,"t":"%b"} }' % (
        number,
        text,
    )


AGENT = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.e2e.test_resume import REQUESTS, UPDATES, update
log = open({log!r}, "ab", buffering=0)
number = asked = 0
for line in sys.stdin.buffer:
    log.write(line)
    if b'"id"' not in line:
        continue
    asked += 1
    while number < UPDATES * asked // REQUESTS:
        number += 1
        os.write(1, update(number) + b"\\n")
        if number % 11 == 0:
            time.sleep(0.02)
    os.write(1, b'{{"result":{{"n":%d}},"jsonrpc":"2.0","id":%d}}\\n' % (number, asked))
"""


def asked(number: int) -> list[bytes]:
    """What the editor writes for one request: the request, and notifications around it."""
    request = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"big":"%b"}}'
    return [
        b'{"jsonrpc":"2.0","method":"$/before","params":[%d,1.50]}' % number,
        request % (number, b"y" * (number * 811 % 9000)),
        b'{"jsonrpc":"2.0","method":"$/after","params":{"n":%d}}' % number,
    ]


def replies() -> list[bytes]:
    lines: list[bytes] = []
    number = 0
    for asked_so_far in range(1, REQUESTS + 1):
        while number < UPDATES * asked_so_far // REQUESTS:
            number += 1
            lines.append(update(number))
        lines.append(b'{"result":{"n":%d},"jsonrpc":"2.0","id":%d}' % (number, asked_so_far))
    return lines


def lines_of(process: subprocess.Popen[bytes]) -> list[bytes]:
    assert process.stdout is not None
    return process.stdout.read().splitlines()


def say(process: subprocess.Popen[bytes], *frames: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n".join((*frames, b"")))
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline().rstrip(b"\n")


@pytest.mark.parametrize("seed", range(2))
def test_4000_updates_and_120_requests_survive_random_cuts_in_both_directions(
    tmp_path: Path, seed: int
) -> None:
    log = tmp_path / "received"
    agent = AGENT.format(root=str(Path(__file__).parents[2]), log=str(log))
    dice = random.Random(seed)
    over = threading.Event()
    with (
        expose_command("--", sys.executable, "-c", agent) as (_, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):

        def cut() -> None:
            while not over.wait(dice.uniform(0.1, 0.9)):
                loop.call_soon_threadsafe(proxy.cut)

        def ask() -> None:
            for number in range(1, REQUESTS + 1):
                say(mirror, *asked(number))
                over.wait(dice.uniform(0, 0.1))

        threads = [threading.Thread(target=cut), threading.Thread(target=ask)]
        for thread in threads:
            thread.start()
        try:
            heard = [hear(mirror) for _ in range(REQUESTS + UPDATES)]
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert mirror.stdin is not None
        mirror.stdin.close()
        assert mirror.wait(15) == 0
        assert proxy.accepted > 5
    assert heard == replies()
    assert log.read_bytes().splitlines() == [line for n in range(1, REQUESTS + 1) for line in asked(n)]


ECHO = [*FAST_PYTHON, "import os, sys\nfor line in sys.stdin.buffer: os.write(1, line)"]
NOTE = b'{"jsonrpc":"2.0","method":"u"}'


def test_a_person_is_told_what_happens_in_one_line_each() -> None:
    with (
        expose_command("--", *ECHO) as (server, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        assert hear(mirror) == NOTE
        proxy.refuses = True
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted >= 3, within=10)
        proxy.refuses = False
        say(mirror, NOTE)
        assert hear(mirror) == NOTE
        server.kill()
        server.wait()
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted >= 6, within=10)
        assert mirror.stdin is not None
        assert mirror.stderr is not None
        mirror.stdin.close()
        assert mirror.wait(20) == 6
        told = mirror.stderr.read().decode().splitlines()
    assert told[0] == "acpremote: the connection to the agent was lost; connecting again"
    assert told[1].endswith("trying again")
    assert told[2].startswith("acpremote: resumed after ")
    assert told[3] == told[0]
    assert told[-1] == "acpremote: the connection was lost, and what was left could not be delivered"
    assert len(told) == 6


def test_a_recording_tells_when_the_connection_was_lost_and_when_it_came_back(tmp_path: Path) -> None:
    options = ServerOptions(record_dir=tmp_path)
    with (
        exposed(ECHO, server_options=options) as server,
        bad_network(server.port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        assert hear(mirror) == NOTE
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted == 2)
        say(mirror, NOTE)
        assert hear(mirror) == NOTE
        assert mirror.stdin is not None
        mirror.stdin.close()
        assert mirror.wait(15) == 0
    [file] = tmp_path.iterdir()
    entries = list(read_recording(file.read_bytes().splitlines(keepends=True)))
    told = [str(entry.members.get("note") or entry.members.get("to") or "") for entry in entries]
    lost, resumed = told[3:5]
    assert told == ["", "agent", "client", lost, resumed, "agent", "client", ""]
    assert lost.startswith("the connection was lost")
    assert resumed.startswith("resumed after")
    with command("show", str(file)) as show:
        assert lost in show.communicate(timeout=40)[0].decode()


def test_a_server_that_restarted_knows_no_link_and_every_open_request_is_settled() -> None:
    with (
        expose_command("--", "sh", "-c", "while read line; do :; done # AGENT-OF-TEST") as (server, port),
        expose_command("--", *ECHO) as (_, new_port),
        bad_network(port) as (proxy, _loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, *(b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt"}' % n for n in range(3)))
        agent_of(server)
        server.kill()
        server.wait()
        proxy.target = new_port
        answers = [json.loads(hear(mirror)) for _ in range(3)]
        assert mirror.wait(15) == 6
        assert mirror.stderr is not None
        last = mirror.stderr.read().decode().splitlines()[-1]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2]
    assert all("outcome of what was asked is unknown" in answer["error"]["message"] for answer in answers)
    assert "gone for good" in last


def agent_of(server: subprocess.Popen[bytes]) -> int:
    """The agent's process: the server's child that is not its guardian."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [
            pid
            for pid in children_of(server.pid)
            if b"AGENT-OF-TEST" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return bool(found)

    wait_until(look, within=10)
    return found[0]


SILENT = ["sh", "-c", 'while read line; do echo \'{"method":"x"}\'; done # AGENT-OF-TEST']


def test_a_killed_mirror_leaves_the_agent_for_the_grace_and_not_longer() -> None:
    with expose_command("--grace", "1.5", "--", *SILENT) as (server, port):
        with command("mirror", f"ws://127.0.0.1:{port}/acp/ws") as mirror:
            say(mirror, NOTE)
            hear(mirror)
            agent = agent_of(server)
            mirror.kill()
            mirror.wait()
        assert alive(agent)
        wait_until(lambda: not alive(agent), within=10)


@pytest.mark.parametrize("way", ["closed", "terminated", "interrupted"])
def test_a_mirror_that_is_closed_properly_takes_the_agent_with_it_at_once(way: str) -> None:
    with expose_command("--", *SILENT) as (server, port):
        with command("mirror", f"ws://127.0.0.1:{port}/acp/ws") as mirror:
            say(mirror, NOTE)
            hear(mirror)
            agent = agent_of(server)
            assert mirror.stdin is not None
            if way == "closed":
                mirror.stdin.close()
            else:
                mirror.send_signal(signal.SIGTERM if way == "terminated" else signal.SIGINT)
            assert mirror.wait(8) == {"closed": 0, "terminated": 143, "interrupted": 130}[way]
        wait_until(lambda: not alive(agent), within=5)


def test_an_agent_that_ends_while_the_connection_is_cut_is_reported_like_any_other() -> None:
    script = 'read a; echo \'{"method":"x"}\'; read b; echo \'{"method":"last"}\'; exit 3'
    with (
        expose_command("--", "sh", "-c", script) as (_, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        proxy.refuses = True
        say(mirror, b'{"id":1,"method":"prompt"}')
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted >= 2, within=10)
        proxy.refuses = False
        lines = lines_of(mirror)
        assert lines[0] == b'{"method":"last"}'
        error = json.loads(lines[1])
        assert (error["id"], error["error"]["data"]) == (1, {"ending": "agent_failed", "status": 3})
        assert mirror.wait(10) == 5


def test_a_server_that_stops_ends_links_whose_client_is_away_at_once() -> None:
    with (
        expose_command("--", *SILENT) as (server, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        agent = agent_of(server)
        proxy.refuses = True
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: proxy.accepted >= 2, within=10)
        server.terminate()
        assert server.wait(5) == 0
        assert not alive(agent)


def test_without_grace_a_cut_connection_is_the_end() -> None:
    with (
        expose_command("--grace", "0", "--", *SILENT) as (server, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        agent = agent_of(server)
        loop.call_soon_threadsafe(proxy.cut)
        assert mirror.wait(10) == 6
        wait_until(lambda: not alive(agent), within=10)


def test_a_large_frame_that_is_cut_arrives_whole() -> None:
    big = b'{"method":"u","x":"%b"}' % (b"x" * 8_000_000)
    with (
        expose_command("--", "cat") as (_, port),
        bad_network(port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        say(mirror, NOTE)
        hear(mirror)
        before = proxy.up
        writer = threading.Thread(target=say, args=(mirror, big))
        writer.start()
        wait_until(lambda: proxy.up > before + 1_000_000, within=10)
        loop.call_soon_threadsafe(proxy.cut)
        assert hear(mirror) == big
        writer.join()


def test_a_connection_that_nobody_cuts_is_never_lost() -> None:
    """A resume hides faults of the link as well: many acknowledgements each way, and not a word in the logs."""
    frames = [update(number) for number in range(UPDATES)]
    with (
        expose_command("--", "cat") as (server, port),
        command("mirror", f"ws://127.0.0.1:{port}/acp/ws") as mirror,
    ):
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        assert mirror.stderr is not None
        assert server.stderr is not None
        writer = threading.Thread(target=mirror.stdin.write, args=(b"\n".join([*frames, b""]),))
        writer.start()
        assert [mirror.stdout.readline()[:-1] for _ in frames] == frames
        writer.join()
        mirror.stdin.close()
        assert mirror.wait(10) == 0
        assert mirror.stderr.read() == b""
        server.terminate()
        log = server.stderr.read().decode()
    assert "lost" not in log
    assert "resumed" not in log
    assert "Traceback" not in log
