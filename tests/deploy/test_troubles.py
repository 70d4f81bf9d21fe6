"""Every row of the trouble-shooting table is brought about, and says what the table says."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.authorities import PrivateAuthority
from tests.raw import connect, wait_until
from tests.running import FAST_PYTHON, command, expose_command

from .cable import cable
from .proxies import DEPLOY, is_installed, proxied

TOKEN = "t0ken-of-this-test"
ANSWER = [
    *FAST_PYTHON,
    "import sys\nfor line in sys.stdin: print(line.replace('method', 'result'), end='', flush=True)",
]
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"x"}\n'


def row_with(symptom: str) -> str:
    """The row of the table that quotes the symptom."""
    table = (DEPLOY / "README.md").read_text().partition("## Trouble")[2]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    found = [row for row in rows if f"`{symptom}`" in row.split("|")[1]]
    assert len(found) == 1, f"{len(found)} rows tell of {symptom!r}"
    return found[0]


def told(symptom: str, text: str) -> None:
    """The program says it, and the table knows it."""
    assert symptom in text, text
    row_with(symptom)


def mirrored(
    url: str, *flags: str, env: dict[str, str] | None = None, asks: bytes = ASKED
) -> tuple[int, str]:
    """Exit status and standard error of a mirror whose editor asks one thing and leaves."""
    with command("mirror", "--no-reconnect", url, *flags, env=env) as mirror:
        _, err = mirror.communicate(asks, timeout=50)
        return mirror.returncode, err.decode()


@contextmanager
def relay(*flags: str, agent: list[str] = ANSWER, **variables: str) -> Iterator[str]:
    """A relay; gives the address of its endpoint."""
    with expose_command(*flags, "--", *agent, env=variables) as (_, port):
        yield f"ws://127.0.0.1:{port}/acp/ws"


def test_nothing_listens() -> None:
    status, err = mirrored("ws://127.0.0.1:1/acp/ws")
    assert status == 3
    told("cannot connect", err)


def test_the_token_is_wrong() -> None:
    with relay(ACPREMOTE_TOKEN=TOKEN) as url:
        status, err = mirrored(url)
    assert status == 4
    told("a valid bearer token is required", err)


def test_the_name_is_not_allowed() -> None:
    with relay() as url, connect_as(url, "agents.example.com") as answer:
        told("421", answer)


def test_the_page_comes_from_elsewhere() -> None:
    with relay() as url, connect_as(url, "localhost", "Origin: https://app.example\r\n") as answer:
        told("403", answer.split("\r\n")[0])


@contextmanager
def connect_as(url: str, host: str, more: str = "") -> Iterator[str]:
    """What the endpoint answers to a request for this host."""
    port = int(url.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(f"GET /acp/ws HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())
        data = b""
        while piece := sock.recv(4096):
            data += piece
        yield data.decode()


def test_listening_for_everybody_without_a_token() -> None:
    with command("expose", "--host", "0.0.0.0", "--port", "0", "--", "cat") as process:
        err = process.communicate(timeout=40)[1].decode()
    assert process.returncode == 2
    told("without a token would let everybody who can reach it run the agent", err)


def test_the_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with command("expose", "--port", port, "--", "cat") as process:
            err = process.communicate(timeout=40)[1].decode()
    assert process.returncode == 3
    told("cannot listen on", err)


def test_a_token_would_travel_unencrypted() -> None:
    status, err = mirrored("ws://192.0.2.1:8080/acp/ws", "--token-env", "T", env={"T": TOKEN})
    assert status == 2
    told("--insecure", err)


def test_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    issued = PrivateAuthority(tmp_path).issue("localhost")
    with command(
        *(
            "expose",
            "--port",
            "0",
            "--tls-cert",
            str(issued.certificate),
            "--tls-key",
            str(issued.key),
            "--",
            "cat",
        )
    ) as process:
        assert process.stderr is not None
        port = process.stderr.readline().decode().split("/acp")[0].rsplit(":", 1)[1]
        status, err = mirrored(f"wss://localhost:{port}/acp/ws")
    assert status == 3
    told("is not accepted: unable to get local issuer certificate", err)


def test_the_agent_fails() -> None:
    fails = [*FAST_PYTHON, "import sys; sys.stdin.readline(); sys.exit('no key')"]
    with relay(agent=fails) as url, command("mirror", url) as mirror:
        assert mirror.stdin is not None
        assert mirror.stderr is not None
        mirror.stdin.write(ASKED)
        mirror.stdin.flush()
        assert mirror.wait(50) == 5
        told("the agent exited with status 1", mirror.stderr.read().decode())


def test_there_is_no_room() -> None:
    with relay("--max-connections", "1") as url, connect(int(url.split(":")[2].split("/")[0])) as client:
        client.send(ASKED)
        client.receive()
        status, err = mirrored(url)
    assert status == 3
    told("503", err)


def test_the_path_is_wrong() -> None:
    with relay() as url:
        status, err = mirrored(url.replace("/acp/ws", "/devbox/acp/ws"))
    assert status == 4
    told("nothing is served at this path", err)


@pytest.mark.interop
@pytest.mark.skipif(not is_installed("nginx"), reason="nginx is not installed")
def test_the_proxy_does_not_pass_the_upgrade_on(tmp_path: Path) -> None:
    forgotten = ("proxy_set_header Upgrade $http_upgrade;", "")
    with (
        relay(ACPREMOTE_TOKEN=TOKEN) as url,
        proxied("nginx", [int(url.split(":")[2].split("/")[0])], tmp_path, forgotten) as (port, authority),
    ):
        flags = ["--ca-file", str(authority), "--token-env", "T"]
        status, err = mirrored(f"wss://localhost:{port}/devbox/acp/ws", *flags, env={"T": TOKEN})
    assert status == 4
    told("this path speaks WebSocket only", err)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@pytest.mark.interop
@pytest.mark.skipif(not is_installed("nginx"), reason="nginx is not installed")
@pytest.mark.parametrize("is_allowed", [False, True])
def test_the_proxy_does_not_pass_the_host_on(is_allowed: bool, tmp_path: Path) -> None:
    """The console's scripts come with an `Origin`, so that its page has to say what is the matter by itself."""
    rewritten = ("proxy_set_header Host $http_host;", "")
    port = free_port()
    with proxied("nginx", [port], tmp_path, rewritten) as (front, authority):
        origin = f"https://localhost:{front}"
        trusted = ssl.create_default_context(cafile=str(authority))

        def get(path: str, **headers: str) -> tuple[int, str]:
            with closing(HTTPSConnection("localhost", front, context=trusted, timeout=20)) as connection:
                connection.request("GET", f"/devbox/{path}", headers=headers)
                with connection.getresponse() as response:
                    return response.status, response.read().decode()

        allowing = ("--allow-origin", origin) if is_allowed else ()
        with relay("--port", str(port), *allowing, ACPREMOTE_TOKEN=TOKEN):
            status, page = get("")
            assert status == 200
            told("The console has not started", page)
            (script,) = re.findall(r'<script[^>]* src="([^"]+)"', page)
            assert get(script, Origin=origin)[0] == (200 if is_allowed else 403)
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
            secrets = {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Authorization": f"Bearer {TOKEN}"}
            assert get("acp/ws", Origin=origin, **upgrade, **secrets)[0] == (101 if is_allowed else 403)


def test_an_agent_prints_what_is_no_message() -> None:
    chatty = [*FAST_PYTHON, "import sys; print('Starting ...', flush=True); sys.stdin.read()"]
    with expose_command("--", *chatty) as (process, port), connect(port) as client:
        client.send(ASKED)
        assert process.stderr is not None
        while b"is no message" not in (line := process.stderr.readline()):
            assert line, "it was not said"
    told("a line that is no message, dropped", line.decode())
    assert "12 bytes of text: 'Starting ...'" in line.decode()


def test_the_relay_was_restarted_while_the_client_was_away() -> None:
    port = free_port()
    serve = ("expose", "--port", str(port), "--", *ANSWER)
    with command(*serve) as first, cable(port) as line:
        assert first.stderr is not None
        first.stderr.readline()
        with command("mirror", f"ws://127.0.0.1:{line.port}/acp/ws") as mirror:
            assert mirror.stdin is not None
            assert mirror.stdout is not None
            assert mirror.stderr is not None
            mirror.stdin.write(ASKED)
            mirror.stdin.flush()
            assert json.loads(mirror.stdout.readline())["id"] == 1
            first.kill()
            first.wait(20)
            line.cut()
            with command(*serve) as second:
                assert second.stderr is not None
                second.stderr.readline()
                assert mirror.wait(50) == 6
                told("the server does not know this link any more", mirror.stderr.read().decode())


def test_a_relay_that_is_told_to_stop_is_not_ready_any_more_and_tells_its_clients() -> None:
    stubborn = [
        *FAST_PYTHON,
        "import signal, time; signal.signal(15, signal.SIG_IGN); input(); time.sleep(600)",
    ]
    with expose_command("--terminate-timeout", "1.5", "--", *stubborn) as (process, port):
        with command("mirror", f"ws://127.0.0.1:{port}/acp/ws") as mirror:
            assert mirror.stdin is not None
            assert mirror.stdout is not None
            assert process.stderr is not None
            mirror.stdin.write(ASKED)
            mirror.stdin.flush()
            while b"started agent" not in process.stderr.readline():
                pass
            process.terminate()
            wait_until(lambda: health(port) == "503")
            answer = json.loads(mirror.stdout.readline())
            assert answer["id"] == 1
            assert "shutting down" in answer["error"]["message"]
            assert mirror.wait(30) == 6
        assert process.wait(20) == 0


def health(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return sock.recv(100).decode().split()[1]
