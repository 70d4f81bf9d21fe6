"""Whole turns through the real nginx, Caddy and HAProxy with the configurations of `deploy/`, and resumes."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.raw import wait_until
from tests.running import FAST_PYTHON, alive, command, expose_command

from .cable import cable
from .proxies import PROXIES, is_installed, proxied

TOKEN = "t0ken-of-this-test"
UPDATES = 60
AGENT = f"""
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "session/prompt":
        for number in range({UPDATES}):
            print(json.dumps({{"jsonrpc": "2.0", "method": "session/update", "params": number}}), flush=True)
            time.sleep(0.02)
    if asked["method"] == "silence":
        time.sleep(4)
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": os.getpid()}}), flush=True)
"""

pytestmark = pytest.mark.interop
each_proxy = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(not is_installed(name), reason=f"{name} is not installed")
        )
        for name in PROXIES
    ],
)


@contextmanager
def relay(*flags: str) -> Iterator[int]:
    """A relay as a command; what it asks for comes from its environment, as in a unit or a container."""
    with relay_process(*flags) as (_, port):
        yield port


@contextmanager
def relay_process(*flags: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    variables = {"ACPREMOTE_TOKEN": TOKEN, "ACPREMOTE_ALLOW_HOST": "agents.example.com"}
    with expose_command(*flags, "--", *FAST_PYTHON, AGENT, env=variables) as (process, port):
        yield process, port


class Editor:
    """What an editor does, through `acpremote mirror`."""

    def __init__(self, mirror: subprocess.Popen[bytes]) -> None:
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        self._mirror, self._to, self._from = mirror, mirror.stdin, mirror.stdout
        self._asked = 0

    def ask(self, method: str) -> int:
        self._asked += 1
        self._to.write(json.dumps({"jsonrpc": "2.0", "id": self._asked, "method": method}).encode() + b"\n")
        self._to.flush()
        return self._asked

    def read(self) -> dict[str, int]:
        line = self._from.readline()
        assert line, self._mirror.stderr and self._mirror.stderr.read().decode()
        frame: dict[str, int] = json.loads(line)
        return frame

    def call(self, method: str = "x") -> int:
        asked = self.ask(method)
        answer = self.read()
        assert answer["id"] == asked
        return answer["result"]

    def leave(self) -> None:
        self._to.close()
        assert self._mirror.wait(30) == 0


@contextmanager
def editor(port: int, authority: Path) -> Iterator[Editor]:
    url = f"wss://localhost:{port}/devbox/acp/ws"
    flags = ["--ca-file", str(authority), "--token-env", "EDITOR_TOKEN"]
    with command("mirror", url, *flags, env={"EDITOR_TOKEN": TOKEN}) as mirror:
        yield Editor(mirror)


@each_proxy
def test_a_turn_survives_a_cut_in_its_middle(name: str, tmp_path: Path) -> None:
    with (
        relay() as relay_port,
        proxied(name, [relay_port], tmp_path) as (port, authority),
        cable(port) as line,
        editor(line.port, authority) as person,
    ):
        agent = person.call("initialize")
        asked = person.ask("session/prompt")
        updates = [person.read() for _ in range(5)]
        for count in (20, 40):
            line.cut()
            while len(updates) < count:
                updates.append(person.read())
        while "id" not in (frame := person.read()):
            updates.append(frame)
        assert [update["params"] for update in updates] == list(range(UPDATES))
        assert (frame["id"], frame["result"]) == (asked, agent)
        assert line.connections == 3
        person.leave()


@each_proxy
def test_a_silent_turn_outlasts_the_idle_time_of_the_proxy(name: str, tmp_path: Path) -> None:
    changes = {"nginx": [("120s", "2s")], "haproxy": [("tunnel 120s", "tunnel 2s")]}.get(name, [])
    with (
        relay("--ping-interval", "0.5") as relay_port,
        proxied(name, [relay_port], tmp_path, *changes) as (port, authority),
        cable(port) as line,
        editor(line.port, authority) as person,
    ):
        person.call("silence")
        assert line.connections == 1
        person.leave()


@each_proxy
def test_the_console_and_a_page_of_the_same_site_are_let_in_and_others_are_not(
    name: str, tmp_path: Path
) -> None:
    with relay() as relay_port, proxied(name, [relay_port], tmp_path) as (port, authority):
        trusted = ssl.create_default_context(cafile=str(authority))

        def get(path: str, **headers: str) -> tuple[int, str]:
            connection = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=20)
            try:
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                return response.status, response.read().decode()
            finally:
                connection.close()

        status, page = get("/devbox/")
        assert status == 200
        for script in re.findall(r'src="([^"]+)"', page):
            assert not script.startswith("/"), "an absolute path would lose the prefix"
            assert get(f"/devbox/{script}")[0] == 200
        assert get("/devbox/acp")[0] == 200
        assert get("/devbox")[0] in (301, 302, 308)
        assert get("/devbox/healthz") == (200, "ok\n")

        url = f"wss://localhost:{port}/devbox/acp/ws"
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        with connect(url, ssl=trusted, additional_headers={**bearer, "Origin": f"https://localhost:{port}"}):
            pass
        stranger = {**bearer, "Origin": "https://evil.example"}
        refusals: list[tuple[dict[str, str], str]] = [(stranger, "403"), ({}, "401")]
        for headers, refusal in refusals:
            with (
                pytest.raises(InvalidStatus, match=refusal),
                connect(url, ssl=trusted, additional_headers=headers),
            ):
                pass


@pytest.mark.skipif(not is_installed("haproxy"), reason="haproxy is not installed")
class TestTwoRelays:
    def test_every_resume_reaches_the_relay_that_keeps_the_link(self, tmp_path: Path) -> None:
        with ExitStack() as stack:
            relays = [stack.enter_context(relay()) for _ in range(2)]
            port, authority = stack.enter_context(proxied("haproxy", relays, tmp_path))
            lines = [stack.enter_context(cable(port)) for _ in range(2)]
            people = [stack.enter_context(editor(line.port, authority)) for line in lines]
            agents = [person.call() for person in people]
            assert len(set(agents)) == 2
            for round_number in range(3):
                for line in lines:
                    line.cut()
                assert [person.call() for person in people] == agents, f"round {round_number}"
            assert all(line.connections == 4 for line in lines)
            for person in people:
                person.leave()
            wait_until(lambda: not any(alive(agent) for agent in agents))

    def test_a_relay_that_shuts_down_gets_no_newcomers(self, tmp_path: Path) -> None:
        with ExitStack() as stack:
            first, first_port = stack.enter_context(relay_process())
            second_port = stack.enter_context(relay())
            port, authority = stack.enter_context(proxied("haproxy", [first_port, second_port], tmp_path))
            first.terminate()
            assert first.wait(20) == 0
            for _ in range(3):
                with editor(port, authority) as person:
                    person.call()
                    person.leave()
