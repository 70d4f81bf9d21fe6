"""Silent, slow and stalled peers, frames around the handshake, stops and addresses."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from acpremote.errors import ListenError
from acpremote.options import ServerOptions, TransportOptions
from tests.raw import TEXT, connect, masked, read_head, request_head, wait_until
from tests.running import FAST_PYTHON, command, expose_command, exposed

REPLY = 'while read line; do echo \'{"id":1,"result":0}\'; done'


def test_a_half_open_client_is_found_and_its_agent_reaped() -> None:
    options = TransportOptions(ping_interval=0.2, ping_timeout=0.3, close_timeout=0.3)
    with exposed(["cat"], options=options) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        client.receive()
        wait_until(lambda: server.links == 0, within=5)


def test_a_client_that_answers_pings_may_be_silent() -> None:
    options = TransportOptions(ping_interval=0.1, ping_timeout=0.2)
    with (
        exposed(["sh", "-c", "read x; sleep 1.5; cat"], options=options) as server,
        connect(server.port) as client,
    ):
        client.send(b'{"method":"x"}', b'{"method":"y"}')
        assert client.receive() == b'{"method":"y"}'
        assert client.pings >= 5


def test_frames_in_the_segment_of_the_handshake_wait_for_a_slow_agent() -> None:
    frames = [b'{"method":"x","params":%d}' % number for number in range(50)]
    first = b"".join(masked(TEXT, frame) for frame in frames)
    with (
        exposed(["sh", "-c", "sleep 2; exec cat"]) as server,
        connect(server.port, first=first) as client,
    ):
        assert [client.receive() for _ in frames] == frames


def test_tiny_frames_of_large_reads_keep_their_order() -> None:
    frames = [b'{"method":"%d"}' % number for number in range(40_000)]
    with exposed(["cat"]) as server, connect(server.port) as client:
        blob = b"".join(masked(TEXT, frame) for frame in frames)
        writer = threading.Thread(target=client.sock.sendall, args=(blob,))
        writer.start()
        assert [client.receive() for _ in frames] == frames
        writer.join()


def test_sigterm_tells_every_client_and_leaves_nothing() -> None:
    with (
        expose_command("--", "cat") as (server, port),
        connect(port) as one,
        connect(port) as other,
        connect(port) as half,
    ):
        for client in (one, other, half):
            client.send(b'{"id":1,"method":"x"}')
            client.receive()
        half.sock.sendall(masked(TEXT, b'{"method":"cut here"}')[:9])
        began = time.monotonic()
        server.terminate()
        for client in (one, other, half):
            frames, closed = client.rest()
            assert closed.code == 1001
            assert "shutting down" in json.loads(frames[-1])["error"]["message"]
            client.sock.close()
        assert server.wait(10) == 0
        assert time.monotonic() - began < 8


def test_a_draining_server_turns_newcomers_away() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
    with expose_command("--terminate-timeout", "1.5", "--", *FAST_PYTHON, stubborn) as (server, port):
        with connect(port) as client:
            client.send(b'{"method":"x"}')
            server.terminate()
            client.rest()
            with socket.create_connection(("127.0.0.1", port), 5) as sock:
                sock.sendall(request_head())
                assert read_head(sock)[0] == 503
            with socket.create_connection(("127.0.0.1", port), 5) as sock:
                sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                assert read_head(sock)[0] == 503
        assert server.wait(10) == 0


def test_a_port_that_is_taken_is_one_line_and_starts_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with command("expose", "--port", str(port), "--", "cat") as process:
            _, said = process.communicate(timeout=10)
    assert process.returncode == 3
    assert said.decode().count("\n") == 1
    assert str(port) in said.decode()


def test_a_host_name_that_cannot_be_one_is_told() -> None:
    host = "x" * 64
    with (
        pytest.raises(ListenError, match=host),
        exposed(["cat"], server_options=ServerOptions(host=host, insecure_no_auth=True)),
    ):
        pass


def test_port_zero_prints_the_real_port() -> None:
    with expose_command("--", "cat") as (_, port), connect(port) as client:
        client.send(b'{"method":"x"}')
        assert client.receive() == b'{"method":"x"}'


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


FLOOD = """
import os
os.read(0, 100)
line = b'{"method":"n","params":"%s"}\\n' % (b"p" * 970)
for _ in range(500 * 1024):
    os.write(1, line)
os.write(1, b'{"method":"last"}\\n')
os.read(0, 1)
"""


def test_a_client_that_does_not_read_keeps_our_memory_flat_and_loses_nothing() -> None:
    """500 MB wait for a reader that stops for a while."""
    with (
        expose_command("--", *FAST_PYTHON, FLOOD) as (server, port),
        connect(port, receive_buffer=65536) as client,
    ):
        client.send(b'{"method":"go"}')
        before = memory_of(server.pid)
        time.sleep(2)  # nothing to wait for: the point is that nothing happens
        assert memory_of(server.pid) - before < 32 * 1024 * 1024
        count = 0
        while client.receive() != b'{"method":"last"}':
            count += 1
            if count % 100_000 == 0:
                assert memory_of(server.pid) - before < 32 * 1024 * 1024
        assert count == 500 * 1024


def test_a_client_that_stops_reading_is_ended_by_name(caplog: pytest.LogCaptureFixture) -> None:
    options = TransportOptions(stall_timeout=0.5)
    with (
        exposed([*FAST_PYTHON, FLOOD], options=options) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"go"}')
        wait_until(lambda: "(stalled): the client stopped reading" in caplog.text)
        wait_until(lambda: server.links == 0)


def test_a_dead_client_is_found_although_our_write_buffer_is_full(caplog: pytest.LogCaptureFixture) -> None:
    options = TransportOptions(ping_interval=0.3, ping_timeout=0.5, close_timeout=0.5)
    with (
        exposed([*FAST_PYTHON, FLOOD], options=options) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"go"}')
        wait_until(lambda: "no sign of life from the client" in caplog.text)
        wait_until(lambda: server.links == 0)


def test_a_slow_client_that_still_reads_is_not_ended() -> None:
    options = TransportOptions(ping_interval=0.3, ping_timeout=0.5, stall_timeout=0.8)
    with (
        exposed([*FAST_PYTHON, FLOOD], options=options) as server,
        connect(server.port, receive_buffer=4096) as client,
    ):
        client.send(b'{"method":"go"}')
        until = time.monotonic() + 3
        while time.monotonic() < until:
            client.sock.recv(200_000)
            time.sleep(0.05)
        assert server.links == 1


def test_an_agent_that_stops_reading_is_ended_by_name(caplog: pytest.LogCaptureFixture) -> None:
    options = TransportOptions(stall_timeout=0.5)
    with exposed(["sleep", "60"], options=options) as server, connect(server.port) as client:
        frame = b'{"id":1,"method":"x","params":"%s"}' % (b"p" * 100_000)
        client.send(*[frame] * 30)
        frames, closed = client.rest()
        assert closed.code == 1008
        assert "the agent stopped reading" in closed.reason
        assert frames
        assert all("stopped reading" in json.loads(frame)["error"]["message"] for frame in frames)
        wait_until(lambda: server.links == 0)


class TestUnixSockets:
    def test_serve_and_take_mirrors(self, tmp_path: Path) -> None:
        path = str(tmp_path / "acp.sock")
        with (
            exposed(["sh", "-c", REPLY], server_options=ServerOptions(unix_path=path)) as server,
            command("mirror", f"unix:{path}") as mirror,
        ):
            assert server.url == f"unix:{path}"
            assert os.stat(path).st_mode & 0o777 == 0o600
            shown, _ = mirror.communicate(b'{"id":1,"method":"x"}\n', timeout=10)
        assert shown == b'{"id":1,"result":0}\n'
        assert not os.path.exists(path)

    def test_replace_one_that_nobody_listens_on(self, tmp_path: Path) -> None:
        path = str(tmp_path / "acp.sock")
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
        with exposed(["cat"], server_options=ServerOptions(unix_path=path)) as server:
            assert server.url == f"unix:{path}"

    def test_leave_the_socket_of_another_server_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "acp.sock"
        with (
            exposed(["cat"], server_options=ServerOptions(unix_path=str(path))),
            socket.socket(socket.AF_UNIX) as other,
        ):
            path.rename(tmp_path / "kept")  # the inode must not be free for the next one
            other.bind(str(path))
        assert path.exists()

    def test_leave_alone_what_is_not_theirs(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("precious")
        with (
            pytest.raises(ListenError, match="no socket"),
            exposed(["cat"], server_options=ServerOptions(unix_path=str(path))),
        ):
            pass
        assert path.read_text() == "precious"
        path = tmp_path / "acp.sock"
        with (
            exposed(["cat"], server_options=ServerOptions(unix_path=str(path))),
            pytest.raises(ListenError, match="another server"),
            exposed(["cat"], server_options=ServerOptions(unix_path=str(path))),
        ):
            pass


class TestMirrorsStdio:
    """Whatever an editor or a shell gives a mirror as standard input and output works."""

    SENT = b'{"id":1,"method":"x"}\n'
    SHOWN = b'{"id":1,"result":0}\n'

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(self.SENT)
        with (
            exposed(["sh", "-c", REPLY]) as server,
            open(tmp_path / "in", "rb") as stdin,
            open(tmp_path / "out", "wb") as stdout,
            command("mirror", server.url, stdin=stdin, stdout=stdout) as mirror,
        ):
            assert mirror.wait(10) == 0
        assert (tmp_path / "out").read_bytes() == self.SHOWN

    def test_null_devices(self) -> None:
        with (
            exposed(["sh", "-c", REPLY]) as server,
            command("mirror", server.url, stdout=subprocess.DEVNULL) as mirror,
        ):
            mirror.communicate(self.SENT, timeout=10)
        assert mirror.returncode == 0

    def test_unix_sockets(self) -> None:
        """Node gives its children sockets."""
        ours, theirs = socket.socketpair()
        with (
            ours,
            theirs,
            exposed(["sh", "-c", REPLY]) as server,
            command("mirror", server.url, stdin=theirs, stdout=theirs) as mirror,
        ):
            theirs.close()
            ours.settimeout(10)
            ours.sendall(self.SENT)
            assert ours.recv(1000) == self.SHOWN
            ours.shutdown(socket.SHUT_WR)
            assert mirror.wait(10) == 0

    def test_tcp_sockets(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
        with (
            ours,
            theirs,
            exposed(["sh", "-c", REPLY]) as server,
            command("mirror", server.url, stdin=theirs, stdout=theirs) as mirror,
        ):
            theirs.close()
            ours.settimeout(10)
            ours.sendall(self.SENT)
            assert ours.recv(1000) == self.SHOWN
            ours.shutdown(socket.SHUT_WR)
            assert mirror.wait(10) == 0

    def test_a_terminal(self) -> None:
        controller, terminal = os.openpty()
        try:
            with (
                exposed(["sh", "-c", REPLY]) as server,
                command("mirror", server.url, stdin=terminal, stdout=subprocess.PIPE) as mirror,
            ):
                os.write(controller, self.SENT)
                assert mirror.stdout is not None
                assert mirror.stdout.readline() == self.SHOWN
                os.write(controller, b"\x04")
                assert mirror.wait(10) == 0
        finally:
            os.close(controller)
            os.close(terminal)

    def test_the_blocking_mode_is_restored(self) -> None:
        reader, writer = os.pipe()
        try:
            with (
                exposed(["sh", "-c", REPLY]) as server,
                command("mirror", server.url, stdout=writer) as mirror,
            ):
                mirror.communicate(self.SENT, timeout=10)
            assert os.get_blocking(writer)
            assert os.read(reader, 100) == self.SHOWN
        finally:
            os.close(reader)
            os.close(writer)


def test_a_mirror_that_is_terminated_says_goodbye() -> None:
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with exposed(["cat"]) as server, command("mirror", server.url) as mirror:
            assert mirror.stdin is not None
            assert mirror.stdout is not None
            assert mirror.stderr is not None
            mirror.stdin.write(b'{"method":"x"}\n')
            mirror.stdin.flush()
            mirror.stdout.readline()
            mirror.send_signal(number)
            assert mirror.wait(5) == status
            assert mirror.stderr.read() == b""
            wait_until(lambda: server.links == 0)


def test_loopback_works_whatever_the_proxy_variables_say() -> None:
    dead = "http://127.0.0.1:9"
    proxies = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), dead
    )
    with exposed(["sh", "-c", REPLY]) as server:
        for host in ("127.0.0.1", "localhost"):
            url = server.url.replace("127.0.0.1", host)
            with command("mirror", "--no-reconnect", url, env=proxies) as mirror:
                shown, said = mirror.communicate(b'{"id":1,"method":"x"}\n', timeout=10)
            assert (shown, said) == (b'{"id":1,"result":0}\n', b"")


def test_a_mirror_tries_again_until_the_endpoint_is_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with command("mirror", f"ws://127.0.0.1:{port}") as mirror:
        assert mirror.stderr is not None
        assert b"trying again" in mirror.stderr.readline()
        with exposed(["sh", "-c", REPLY], server_options=ServerOptions(port=port)):
            shown, _ = mirror.communicate(b'{"id":1,"method":"x"}\n', timeout=20)
    assert shown == b'{"id":1,"result":0}\n'


def test_a_mirror_gives_a_server_that_always_hangs_up_growing_gaps() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        with command("mirror", url) as mirror:
            times = []
            for _ in range(4):
                sock, _ = listener.accept()
                times.append(time.monotonic())
                with sock:
                    key = sock.recv(4096).decode().partition("Sec-WebSocket-Key: ")[2].split("\r\n")[0]
                    sock.sendall(accepting(key))
            assert mirror.poll() is None
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps[0] > 0.15
    assert gaps[2] > gaps[0]


def accepting(key: str) -> bytes:
    """A server's half of the opening handshake (RFC 6455 section 4.2.2)."""
    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    accept = base64.b64encode(digest).decode()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_mirror_does_not_try_a_wrong_path_again() -> None:
    with exposed(["cat"]) as server, command("mirror", server.url + "/wrong") as mirror:
        _, said = mirror.communicate(timeout=10)
    assert mirror.returncode == 4
    assert said.decode().count("\n") == 1


def test_capacity_is_kept_and_given_back() -> None:
    with exposed(["cat"], server_options=ServerOptions(max_connections=1)) as server:
        with connect(server.port) as client:
            client.send(b'{"method":"x"}')
            client.receive()
            with socket.create_connection(("127.0.0.1", server.port), 5) as sock:
                sock.sendall(request_head())
                assert read_head(sock)[0] == 503
            client.close()
        wait_until(lambda: server.links == 0)
        with connect(server.port) as client:
            client.send(b'{"method":"x"}')
            assert client.receive() == b'{"method":"x"}'
