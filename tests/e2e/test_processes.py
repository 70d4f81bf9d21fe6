"""Nothing is left running, and nobody is left waiting, whatever ends first."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acpremote.errors import ConfigError
from acpremote.options import TransportOptions
from tests.raw import RawClient, connect, wait_until
from tests.running import (
    FAST_PYTHON,
    MAIN,
    alive,
    children_of,
    command,
    expose_command,
    exposed,
    processes_with,
)

STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    sys.stdout.write(line); sys.stdout.flush()
while True: signal.pause()
"""


@pytest.fixture
def marker() -> Iterator[str]:
    """A word in the environment of everything that a test starts; nothing may hold it afterwards."""
    word = f"marker-{uuid.uuid4()}"
    yield word
    wait_until(lambda: not processes_with(word))


STUBBORN_TREE = ["sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh", *FAST_PYTHON, STUBBORN]
"""A shell that waits for an agent which ignores the end of its input and SIGTERM."""


def leave_cleanly(client: RawClient) -> None:
    client.close()


def leave_by_reset(client: RawClient) -> None:
    client.reset()


def leave_silently(client: RawClient) -> None:
    client.sock.close()


@pytest.mark.parametrize("leave", [leave_cleanly, leave_by_reset, leave_silently])
def test_the_whole_group_is_gone_after_the_client(marker: str, leave: Callable[[RawClient], None]) -> None:
    with (
        exposed(STUBBORN_TREE, env={"MARKER": marker}) as server,
        connect(server.port) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        assert len(processes_with(marker)) == 2
        leave(client)
        wait_until(lambda: server.links == 0)
        assert not processes_with(marker)


def test_the_whole_group_is_gone_after_sigterm(marker: str) -> None:
    with (
        expose_command("--env", f"MARKER={marker}", "--", *STUBBORN_TREE) as (server, port),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        began = time.monotonic()
        server.terminate()
        assert client.rest()[1].code == 1001
        assert server.wait(10) == 0
        assert time.monotonic() - began < 8
        assert not processes_with(marker)


def test_a_second_signal_is_immediate(marker: str) -> None:
    with (
        expose_command("--terminate-timeout", "60", "--env", f"MARKER={marker}", "--", *STUBBORN_TREE) as (
            server,
            port,
        ),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        server.send_signal(signal.SIGINT)
        assert client.rest()[1].code == 1001
        server.send_signal(signal.SIGINT)
        assert server.wait(5) == 130
        assert not processes_with(marker)


def test_the_whole_group_is_gone_after_the_relay_is_killed(marker: str) -> None:
    with (
        expose_command("--env", f"MARKER={marker}", "--", *STUBBORN_TREE) as (server, port),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        client.receive()
        server.kill()
        wait_until(lambda: not processes_with(marker))


def test_twenty_quick_clients_leave_nothing(marker: str) -> None:
    with exposed(STUBBORN_TREE, env={"MARKER": marker}) as server:
        for _ in range(20):
            with connect(server.port) as client:
                client.send(b'{"method":"x"}')
        wait_until(lambda: server.links == 0, within=30)


def test_a_handshake_alone_starts_nothing(marker: str) -> None:
    with exposed(["cat"], env={"MARKER": marker}) as server, connect(server.port) as client:
        client.send(b"no json", b"[]", b'{"x":1}')
        for _ in range(3):
            assert "error" in client.receive_json()
        assert not processes_with(marker)
        client.close()


@pytest.mark.parametrize("loop", [True, False], ids=["uvloop", "asyncio"])
def test_an_exit_status_is_told_although_a_grandchild_holds_the_pipe(marker: str, loop: bool) -> None:
    agent = ["sh", "-c", "read x; sleep 60 & exit 3"]
    with (
        exposed(agent, env={"MARKER": marker}, uses_uvloop=loop) as server,
        connect(server.port) as client,
    ):
        client.sock.settimeout(5)
        client.send(b'{"id":1,"method":"x"}')
        frames, closed = client.rest()
    assert "status 3" in json.loads(frames[0])["error"]["message"]
    assert (closed.code, closed.reason) == (1011, "the agent exited with status 3")


def test_an_exit_status_is_told_although_another_session_holds_the_pipe() -> None:
    agent = ["sh", "-c", 'read x; setsid sleep 8 & sleep 0.1; echo \'{"method":"last"}\'; exit 3']
    with exposed(agent) as server, connect(server.port) as client:
        client.sock.settimeout(5)
        client.send(b'{"id":1,"method":"x"}')
        frames, closed = client.rest()
    assert frames[0] == b'{"method":"last"}'
    assert closed.reason == "the agent exited with status 3"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("exit 7", "exited with status 7"),
        ("kill -KILL $$", "was ended by SIGKILL"),
        ("exit 0", "exited with status 0"),
    ],
)
def test_a_dying_agent_answers_its_open_requests(end: str, said: str) -> None:
    with exposed(["sh", "-c", f"read x; read y; {end}"]) as server, connect(server.port) as client:
        client.sock.settimeout(5)
        client.send(b'{"id":"a","method":"x"}', b'{"id":2,"method":"y"}')
        frames, closed = client.rest()
    answers = [json.loads(frame) for frame in frames]
    assert [answer["id"] for answer in answers] == ["a", 2]
    assert all(said in answer["error"]["message"] for answer in answers)
    assert closed.code == 1011
    assert said in closed.reason


def test_an_agent_that_leaves_with_nothing_open_closes_1000() -> None:
    with exposed(["sh", "-c", "read x"]) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        assert client.rest()[1].code == 1000


def test_an_agent_that_fails_with_nothing_open_closes_1011() -> None:
    with (
        exposed(["sh", "-c", "read x; echo last words >&2; exit 9"]) as server,
        connect(server.port) as client,
    ):
        client.send(b'{"method":"x"}')
        assert client.rest()[1].code == 1011


def test_a_mirror_exits_5_when_the_agent_dies() -> None:
    with exposed(["sh", "-c", "read x; exit 3"]) as server, command("mirror", server.url) as mirror:
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        assert mirror.stderr is not None
        mirror.stdin.write(b'{"id":1,"method":"x"}\n')
        mirror.stdin.flush()
        assert "status 3" in json.loads(mirror.stdout.readline())["error"]["message"]
        assert mirror.wait(10) == 5
        assert b"status 3" in mirror.stderr.read()


@pytest.mark.parametrize("attempt", range(6))
def test_a_mirror_exits_5_when_the_agent_fails_after_the_input_ended(attempt: int) -> None:
    """Both ends say goodbye at the same moment; neither may miss what the other says."""
    with (
        exposed(["sh", "-c", "read x; exit 3"]) as server,
        command("mirror", server.url) as mirror,
    ):
        _, log = mirror.communicate(b'{"id":1,"method":"x"}\n', timeout=20)
        assert mirror.returncode == 5
    assert b"status 3" in log


def test_an_agent_that_closes_its_input_is_told_about() -> None:
    agent = 'import os, time; os.read(0, 100); os.close(0); os.write(1, b\'{"method":"deaf"}\\n\'); time.sleep(60)'
    with exposed([*FAST_PYTHON, agent]) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        assert client.receive_json() == {"method": "deaf"}
        client.send(b'{"id":1,"method":"y"}')
        answer = client.receive_json()
        assert "closed its input" in answer["error"]["message"]


@pytest.mark.parametrize("loop", [True, False], ids=["uvloop", "asyncio"])
def test_an_agent_that_reads_late_loses_nothing(loop: bool) -> None:
    """4 MB wait for three seconds; the peer's pings are answered all the time."""
    agent = "import time, shutil, sys; time.sleep(3); shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    options = TransportOptions(ping_interval=0.3, ping_timeout=0.6)
    with (
        exposed([*FAST_PYTHON, agent], options=options, uses_uvloop=loop) as server,
        connect(server.port) as client,
    ):
        frames = [b'{"method":"x","params":%d,"pad":"%s"}' % (number, b"p" * 1000) for number in range(4000)]
        client.send(*frames)
        for frame in frames[:2000]:
            assert client.receive() == frame
        assert client.pings >= 3


def test_five_megabytes_echoed_in_both_directions_at_once() -> None:
    with exposed(["cat"]) as server, command("mirror", server.url) as mirror:
        frame = b'{"method":"x","params":"%s"}\n' % (b"p" * 1000)
        data = frame * 5000
        shown = _talk(mirror, data)
    assert shown == data


def _talk(process: subprocess.Popen[bytes], data: bytes) -> bytes:
    """Writes everything while reading as much back."""
    assert process.stdin is not None
    assert process.stdout is not None
    stdin = process.stdin

    def write() -> None:
        stdin.write(data)
        stdin.flush()

    writer = threading.Thread(target=write)
    writer.start()
    shown = process.stdout.read(len(data))
    writer.join()
    return shown


def test_a_command_that_does_not_exist_fails_at_start() -> None:
    with (
        pytest.raises(ConfigError, match="command not found, or not executable: no-such-agent"),
        exposed(["no-such-agent"]),
    ):
        pass
    with command("expose", "--", "no-such-agent") as process:
        assert process.wait(10) == 2
        assert process.stderr is not None
        assert process.stderr.read() == b"acpremote: command not found, or not executable: no-such-agent\n"


def test_a_command_that_disappears_is_told_to_the_client(tmp_path: os.PathLike[str]) -> None:
    program = os.path.join(tmp_path, "agent")
    with open(program, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o755)
    with exposed([program]) as server, connect(server.port) as client:
        os.unlink(program)
        client.send(b'{"id":1,"method":"x"}')
        frames, closed = client.rest()
    assert "could not be started" in json.loads(frames[0])["error"]["message"]
    assert closed.code == 1011


def test_arguments_reach_the_agent_as_they_are() -> None:
    arguments = ["a b", '"c"', "$(d)", "'e'", "*", "", "ü"]
    show = "import json, os, sys; os.read(0, 100); print(json.dumps({'method': 'x', 'params': sys.argv[1:]}))"
    with (
        expose_command("--", *FAST_PYTHON, show, *arguments) as (_, port),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        assert client.receive_json()["params"] == arguments


def test_the_agent_has_real_pipes_and_only_those() -> None:
    show = (
        "import json, os, stat; os.read(0, 100); "
        "print(json.dumps({'method': 'x', 'params': [sorted(map(int, os.listdir('/proc/self/fd')))[:-1],"
        " [stat.S_ISFIFO(os.fstat(each).st_mode) for each in (0, 1, 2)], os.getsid(0) == os.getpid()]}))"
    )
    with exposed([*FAST_PYTHON, show]) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        assert client.receive_json()["params"] == [[0, 1, 2], [True] * 3, True]


def test_the_agent_gets_the_given_directory_and_environment(tmp_path: os.PathLike[str]) -> None:
    show = "import json, os; os.read(0, 100); print(json.dumps({'method': os.getcwd(), 'params': [os.environ.get(n) for n in ('EXTRA', 'PATH', 'ANTHROPIC_API_KEY')]}))"
    with (
        expose_command(
            *("--cwd", str(tmp_path), "--env", "EXTRA=a=b", "--", *FAST_PYTHON, show),
            env={"ANTHROPIC_API_KEY": "kept"},
        ) as (_, port),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        message = client.receive_json()
    assert message == {"method": os.path.realpath(tmp_path), "params": ["a=b", os.environ["PATH"], "kept"]}


class TestMirrorsEnd:
    def test_at_once_without_input(self) -> None:
        with exposed(["cat"]) as server, command("mirror", server.url, stdin=subprocess.DEVNULL) as mirror:
            assert mirror.wait(5) == 0

    def test_with_the_reply_to_what_was_piped_in(self) -> None:
        agent = 'read x; sleep 0.5; echo \'{"id":1,"result":{}}\'; cat'
        with exposed(["sh", "-c", agent]) as server, command("mirror", server.url) as mirror:
            shown, said = mirror.communicate(b'{"id":1,"method":"initialize"}\n', timeout=10)
        assert (shown, said, mirror.returncode) == (b'{"id":1,"result":{}}\n', b"", 0)

    def test_with_6_when_the_reply_does_not_come(self) -> None:
        with (
            exposed(["sh", "-c", "cat >/dev/null"]) as server,
            command("mirror", "--drain-timeout", "0.3", server.url) as mirror,
        ):
            shown, said = mirror.communicate(b'{"id":1,"method":"initialize"}\n', timeout=10)
        answer = json.loads(shown.splitlines()[-1])
        assert answer["id"] == 1
        assert "error" in answer
        assert mirror.returncode == 6
        assert b"unanswered" in said

    def test_without_traceback_when_standard_output_is_closed(self) -> None:
        agent = 'while echo \'{"method":"n"}\'; do :; done'
        with exposed(["sh", "-c", f"read x; {agent}"]) as server, command("mirror", server.url) as mirror:
            assert mirror.stdin is not None
            assert mirror.stdout is not None
            assert mirror.stderr is not None
            mirror.stdin.write(b'{"method":"x"}\n')
            mirror.stdin.flush()
            mirror.stdout.readline()
            mirror.stdout.close()
            mirror.wait(5)
            assert b"Traceback" not in mirror.stderr.read()

    def test_when_its_parent_is_killed(self) -> None:
        with exposed(["cat"]) as server:
            parent = subprocess.Popen(
                ["sh", "-c", '"$@" & wait', "sh", *_mirror_command(server.url)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert parent.stdin is not None
            assert parent.stdout is not None
            parent.kill()
            parent.stdin.close()
            parent.stdout.close()
            parent.wait()
            wait_until(lambda: server.links == 0)


def _mirror_command(url: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "mirror", url]


def test_short_lives_leave_no_descriptors() -> None:
    with exposed(["cat"]) as server:
        with connect(server.port) as client:
            client.send(b'{"method":"x"}')
            client.receive()
        wait_until(lambda: server.links == 0)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(30):
            with connect(server.port) as client:
                client.send(b'{"method":"x"}')
                client.receive()
                client.close()
        wait_until(lambda: server.links == 0 and len(os.listdir("/proc/self/fd")) <= before)


def test_the_guardian_ends_with_its_server() -> None:
    with expose_command("--", "cat") as (server, port):
        with connect(port) as client:
            client.send(b'{"method":"x"}')
            client.receive()
            helpers = children_of(server.pid)
            assert len(helpers) == 2
            client.close()
        server.terminate()
        assert server.wait(10) == 0
    assert not any(map(alive, helpers))


def test_the_relay_has_room_for_its_links_and_agents_keep_the_usual_limit() -> None:
    show = "import json, os, resource; os.read(0, 100); print(json.dumps({'method': 'x', 'params': resource.getrlimit(resource.RLIMIT_NOFILE)}))"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limited = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # noqa: E731
    with (
        expose_command("--max-connections", "100", "--", *FAST_PYTHON, show, preexec_fn=limited) as (
            server,
            port,
        ),
        connect(port) as client,
    ):
        client.send(b'{"method":"x"}')
        assert client.receive_json()["params"] == [256, hard]
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (564, hard)


def can_unshare() -> bool:
    try:
        return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="needs unshare and the right to make a namespace of processes")
def test_the_first_process_of_a_container_takes_away_what_its_agents_leave() -> None:
    """Without that, a link's end would wait for dead processes, and they would pile up."""
    agent = 'read x; sleep 0.1 & sleep 1000 & echo \'{"method":"x"}\'; read y'
    flags = ["expose", "--port", "0", "--terminate-timeout", "30", "--", "sh", "-c", agent]
    unshare = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", MAIN, *flags]
    with subprocess.Popen(unshare, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            port = int(process.stderr.readline().split(b"/acp")[0].rsplit(b":", 1)[1])
            [first] = children_of(process.pid)
            for _ in range(3):
                with connect(port) as client:
                    client.send(b'{"method":"x"}')
                    client.receive()
                    client.close()
            wait_until(lambda: len(all_children_of(first)) == 1)
            os.kill(first, signal.SIGTERM)
            assert process.wait(15) == 0
        finally:
            process.kill()


def all_children_of(pid: int) -> list[int]:
    """The children of a process, dead ones that were not taken away included."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found
