"""The endpoint as strangers and owners meet it: real commands, real sockets, real processes."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from acpremote.options import ServerOptions, TransportOptions

from ..raw import connect, read_head, request_head, wait_until
from ..running import FAST_PYTHON, children_of, command, expose_command, exposed

TOKEN = "t0ken-of-this-test"
ECHO = [*FAST_PYTHON, "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"]
ANSWER = [
    *FAST_PYTHON,
    """
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "result": 7}), flush=True)
""",
]
NOBODY = 65_534


def ask(port: int, head: bytes) -> int:
    """The status that a request's head is answered with."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(head)
        return read_head(sock)[0]


def request(id_: object = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "x"}).encode()


def finished(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and standard error of a command that ends by itself; standard output must hold nothing."""
    with command(*arguments, env=env) as process:
        out, err = process.communicate(stdin, timeout=40)
        assert out == b""
        return process.returncode, err.decode()


def call_through_mirror(url: str, *flags: str, env: dict[str, str] | None = None) -> None:
    """One request through `acpremote mirror` to an agent that answers; fails unless the answer arrives."""
    with command("mirror", url, *flags, env=env) as mirror:
        out, err = mirror.communicate(request() + b"\n", timeout=40)
        assert (out, mirror.returncode) == (b'{"id": 1, "result": 7}\n', 0), err


class TestRefusedAtStart:
    """Exit status 2, one line that says what to do, and nothing that listens."""

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["--host", "0.0.0.0"], "--insecure-no-auth"),
            (["--host", "::"], "--insecure-no-auth"),
            (["--host", ""], "--insecure-no-auth"),
            (["--token-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
            (["--token-env", "EMPTY"], "EMPTY"),
            (["--token-env", "BLANK"], "BLANK"),
            (["--token-file", "/nonexistent"], "/nonexistent"),
            (["--token-file", "/dev/null"], "empty"),
            (["--token-env", "A", "--token-file", "b"], "either"),
            (["--token-env", "TWO_WORDS"], "the token holds spaces"),
            (["--allow-origin", "null"], "web origin"),
            (["--allow-host", "a/b"], "host to allow"),
            (["--tls-cert", "/nonexistent"], "/nonexistent"),
            (["--tls-key", "x"], "certificate"),
            (["--query-token"], "no token"),
            (["--mount-path", "acp"], "--mount-path is 'acp'"),
        ],
    )
    def test_expose(self, flags: list[str], said: str) -> None:
        env = {"EMPTY": "", "BLANK": " \n", "TWO_WORDS": "a b"}
        status, err = finished("expose", "--port", "0", *flags, "--", *ECHO, env=env)
        assert status == 2
        assert said in err
        assert err.count("\n") == 1
        assert "listening on ws" not in err

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["ws://agents.example", "--token-env", "T"], "unencrypted"),
            (["ws://localhost", "--tls-pin", "00" * 32], "wss://"),
            (["wss://localhost", "--tls-pin", "00"], "64 hexadecimal"),
            (["wss://localhost", "--ca-file", "/nonexistent"], "/nonexistent"),
            (["ws://localhost", "--token-env", "EMPTY"], "EMPTY"),
            (["ws://localhost", "--header", "X"], "NAME:VALUE"),
            (["ws://localhost", "--header", "Host: x"], "Host"),
            (["ftp://localhost"], "no address"),
        ],
    )
    def test_mirror(self, flags: list[str], said: str) -> None:
        status, err = finished("mirror", *flags, env={"T": TOKEN, "EMPTY": ""})
        assert status == 2
        assert said in err
        assert err.count("\n") == 1
        assert TOKEN not in err


class TestMirrorIsRefused:
    @contextmanager
    def locked(self) -> Iterator[str]:
        with exposed(ANSWER, server_options=ServerOptions(bearer_token=TOKEN)) as server:
            yield server.url

    def test_401_is_final_with_status_4_and_one_sentence(self) -> None:
        with self.locked() as url:
            status, err = finished("mirror", url)
            assert status == 4
            assert "401" in err
            assert "--token-env" in err
            assert err.count("\n") == 1

    def test_a_wrong_path_is_final_with_status_4(self) -> None:
        with self.locked() as url:
            status, err = finished("mirror", url.replace("/acp/", "/other/"))
            assert status == 4
            assert "404" in err

    def test_a_wrong_token_is_not_shown(self) -> None:
        with self.locked() as url:
            status, err = finished(
                "mirror", url, "--token-env", "T", "--log-level", "debug", env={"T": "wr0ng-token"}
            )
            assert status == 4
            assert "wr0ng-token" not in err

    def test_with_the_token_it_works(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(f"{TOKEN}\n")
        with self.locked() as url:
            call_through_mirror(url, "--token-file", str(file))


class TestStrangers:
    @pytest.mark.parametrize("token", [None, TOKEN])
    @pytest.mark.parametrize(
        ("path", "host", "headers", "status"),
        [
            ("/acp/ws", "localhost", [("Origin", "http://evil.example")], 403),
            ("/acp", "localhost", [("Origin", "null")], 403),
            ("/acp", "evil.example", [], 421),
            ("/acp/ws", "evil.example:80", [("Origin", "http://evil.example:80")], 421),
            ("/other", "localhost", [], 404),
        ],
    )
    def test_a_hostile_page_gets_nothing_and_starts_nothing(
        self, path: str, host: str, headers: list[tuple[str, str]], status: int, token: str | None
    ) -> None:
        with exposed(ECHO, server_options=ServerOptions(bearer_token=token)) as server:
            bearer = [("Authorization", f"Bearer {token}")] if token else []
            assert ask(server.port, request_head(path, (*headers, *bearer), host)) == status
            assert server.links == 0

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as a second user")
    def test_another_user_of_the_machine_gets_nothing(self) -> None:
        with expose_command("--", *ECHO) as (process, port):
            before = children_of(process.pid)
            assert ask_as(NOBODY, port, request_head()) == 403
            assert ask_as(0, port, request_head()) == 101
            assert children_of(process.pid) == before, "a handshake alone starts nothing"

    def test_200_refusals_start_nothing_and_leave_nothing(self) -> None:
        with expose_command("--token-env", "T", "--", *ECHO, env={"T": TOKEN}) as (process, port):
            before, descriptors = children_of(process.pid), Path(f"/proc/{process.pid}/fd")
            open_before = len(list(descriptors.iterdir()))
            old = (("Authorization", "Bearer the-old-token"),)
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), 20)))
                    for _ in range(200)
                ]
                for client in clients:
                    client.sendall(request_head(headers=old))
                assert {read_head(client)[0] for client in clients} == {401}
                assert children_of(process.pid) == before
            wait_until(lambda: len(list(descriptors.iterdir())) == open_before)
            process.terminate()
            assert process.stderr is not None
            said = process.stderr.read().decode()
            assert "Traceback" not in said
            assert "the-old-token" not in said

    def test_a_slow_loris_does_not_keep_others_out(self) -> None:
        with exposed(ECHO, server_options=ServerOptions(max_handshakes=10)) as server, ExitStack() as stack:
            for _ in range(50):
                slow = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port))))
                slow.sendall(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n")
            with connect(server.port) as client:
                client.send(request())
                assert client.receive() == request()
            wait_until(lambda: server.server.doorkeeper.waiting <= 10)

    def test_an_unfinished_handshake_is_cut(self) -> None:
        with exposed(ECHO, options=TransportOptions(open_timeout=0.3)) as server:
            with socket.create_connection(("127.0.0.1", server.port), 20) as slow:
                slow.sendall(b"GET /acp HTTP/1.1\r\n")
                assert slow.recv(100) == b""
            wait_until(lambda: server.server.doorkeeper.waiting == 0)

    def test_no_more_links_than_allowed_even_at_once(self) -> None:
        with exposed(ECHO, server_options=ServerOptions(max_connections=3)) as server, ExitStack() as stack:
            sockets = [
                stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), 20)))
                for _ in range(12)
            ]
            for each in sockets:
                each.sendall(request_head())
            statuses = sorted(read_head(each)[0] for each in sockets)
            assert statuses == [101] * 3 + [503] * 9
            for each in sockets:
                each.close()
            wait_until(lambda: server.links == 0)
            assert ask(server.port, request_head()) == 101, "places are free again"


def ask_as(uid: int, port: int, head: bytes) -> int:
    """Asks from a child process of another user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            with socket.socket() as sock:
                sock.connect(("127.0.0.1", port))
                sock.sendall(head)
                os.write(write, sock.recv(100))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        status = int(pipe.read().split()[1])
    os.waitpid(child, 0)
    return status


class TestSecrets:
    """The token is in no log, command line, page or close reason, and not in the agent's environment."""

    AGENT = """
import json, os, sys
for line in sys.stdin:
    fds = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    print(json.dumps({"id": 1, "result": {"env": dict(os.environ), "fds": fds}}), flush=True)
"""

    @pytest.fixture
    def seen(self) -> tuple[dict[str, Any], str, list[str]]:
        """What an agent sees, what the server logs at DEBUG, and the command lines."""
        env = {"RELAY_TOKEN": TOKEN, "ANTHROPIC_API_KEY": "the-agents-own"}
        flags = ["--token-env", "RELAY_TOKEN", "--log-level", "debug"]
        with expose_command(*flags, "--", *FAST_PYTHON, self.AGENT, env=env) as (process, port):
            bearer = (("Authorization", f"Bearer {TOKEN}"),)
            said: list[str] = []
            assert process.stderr is not None
            reader = threading.Thread(target=lambda: said.append(process.stderr.read().decode()))  # type: ignore[union-attr]
            reader.start()
            with connect(port, headers=bearer) as client:
                client.send(request())
                result = client.receive_json()["result"]
                lines = [
                    Path(f"/proc/{pid}/cmdline").read_text()
                    for pid in (process.pid, *children_of(process.pid))
                ]
                closed = client.close()
                said.append(closed.reason)
            assert ask(port, request_head(headers=(("Authorization", f"Bearer {TOKEN}x"),))) == 401
            with socket.create_connection(("127.0.0.1", port), 20) as sock:
                sock.sendall(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n\r\n")
                said.append(b"".join(iter(lambda: sock.recv(65_536), b"")).decode())
            process.terminate()
            reader.join(20)
        return result, "".join(said), lines

    def test_are_kept(self, seen: tuple[dict[str, Any], str, list[str]]) -> None:
        result, said, command_lines = seen
        assert "refused" in said, "the log was read"
        assert TOKEN not in said
        assert TOKEN not in "".join(command_lines)
        assert TOKEN not in json.dumps(result["env"])
        assert "RELAY_TOKEN" not in result["env"]
        assert result["env"]["ANTHROPIC_API_KEY"] == "the-agents-own"
        assert "PATH" in result["env"]
        assert sorted(result["fds"])[:3] == [0, 1, 2]
        # The listing itself has one open while it looks; it is closed again when the names are checked.
        assert len(result["fds"]) == 3


class TestTls:
    @contextmanager
    def self_signed(self, state: Path) -> Iterator[tuple[str, str]]:
        """An endpoint with a certificate of its own making; its URL and the printed fingerprint."""
        env = {"XDG_STATE_HOME": str(state)}
        with command("expose", "--port", "0", "--tls-self-signed", "--", *ANSWER, env=env) as server:
            assert server.stderr is not None
            url, said = server.stderr.readline().decode().split()[-1], server.stderr.readline().decode()
            assert url.startswith("wss://127.0.0.1:")
            yield url, next(word.rstrip(",") for word in said.split() if word.count(":") == 31)

    def test_a_self_signed_certificate_is_pinned_by_the_printed_fingerprint(self, tmp_path: Path) -> None:
        with self.self_signed(tmp_path) as (url, fingerprint):
            call_through_mirror(url, "--tls-pin", fingerprint)

    def test_it_is_reused(self, tmp_path: Path) -> None:
        with self.self_signed(tmp_path) as (_, first), self.self_signed(tmp_path) as (_, second):
            assert first == second

    @pytest.mark.parametrize("flags", [[], ["--tls-pin", "00" * 32]])
    def test_another_certificate_fails_once_with_status_3_and_one_sentence(
        self, tmp_path: Path, flags: list[str]
    ) -> None:
        with self.self_signed(tmp_path) as (url, fingerprint):
            status, err = finished("mirror", url, *flags)
            assert status == 3
            assert (fingerprint if flags else "--tls-pin") in err
            assert err.count("\n") == 1

    def test_a_scanner_of_the_tls_port_leaves_no_traceback(self, tmp_path: Path) -> None:
        env = {"XDG_STATE_HOME": str(tmp_path)}
        with command("expose", "--port", "0", "--tls-self-signed", "--", *ECHO, env=env) as server:
            assert server.stderr is not None
            port = int(server.stderr.readline().decode().split(":")[-1].split("/")[0])
            for junk in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(300), bytes(5000)):
                with socket.create_connection(("127.0.0.1", port), 20) as sock:
                    sock.sendall(junk)
                    sock.shutdown(socket.SHUT_WR)
                    try:
                        while sock.recv(4096):
                            pass
                    except ConnectionResetError:
                        pass
            server.terminate()
            said = server.stderr.read().decode()
            assert "Traceback" not in said
            assert "rror" not in said


class TestAddresses:
    @pytest.mark.parametrize("host", ["::1", "localhost"])
    def test_the_printed_url_works(self, host: str) -> None:
        with command("expose", "--host", host, "--port", "0", "--", *ANSWER) as server:
            assert server.stderr is not None
            url = server.stderr.readline().decode().split()[-1]
            assert ("[::1]" in url) is (host == "::1")
            call_through_mirror(url)

    def test_a_unix_socket_is_for_its_owner_only(self, tmp_path: Path) -> None:
        path = tmp_path / "acp.sock"
        with command("expose", "--unix", str(path), "--", *ANSWER) as server:
            assert server.stderr is not None
            url = server.stderr.readline().decode().split()[-1]
            assert url == f"unix:{path}"
            assert path.stat().st_mode & 0o777 == 0o600
            call_through_mirror(url)
        assert not path.exists()

    def test_dead_proxies_do_not_disturb_loopback(self) -> None:
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        env = {spelled: "http://127.0.0.1:9" for name in names for spelled in (name, name.lower())}
        with exposed(ANSWER) as server:
            call_through_mirror(server.url, env=env)
