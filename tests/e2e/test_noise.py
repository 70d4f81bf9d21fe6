"""What agents write beside their messages never reaches a client, and what mirrors write is only messages."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.raw import connect, wait_until
from tests.running import FAST_PYTHON, command, expose_command, exposed

NOISY = r"""
echo 'Welcome to the agent'; echo; echo 42; echo '"ready"'; echo '{"level":"info","id":1}'; echo '[1,2'
read x
printf '\033]0;working\007\033[?25l{"jsonrpc":"2.0","id":1,"result":{"real":true}}\n'
printf '[{"method":"a","x":1e2},{"method":"b"}]\n'
cat
"""


def test_banners_and_log_lines_never_reach_the_client() -> None:
    with exposed(["sh", "-c", NOISY]) as server, connect(server.port) as client:
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
        assert client.receive() == b'{"jsonrpc":"2.0","id":1,"result":{"real":true}}'
        assert client.receive() == b'{"method":"a","x":1e2}'
        assert client.receive() == b'{"method":"b"}'
        client.send(b'{"method":"last"}')
        assert client.receive() == b'{"method":"last"}'


def test_a_request_is_settled_by_the_real_reply_only() -> None:
    agent = r"""read x; echo '{"level":"info","id":1}'; exit 3"""
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        client.send(b'{"id":1,"method":"initialize"}')
        answer = client.receive_json()
        assert answer["id"] == 1
        assert "status 3" in answer["error"]["message"]


@pytest.mark.parametrize("end", [r"\n", ""], ids=["lines", "no line ends"])
@pytest.mark.parametrize("mode", ["inherit", "discard"])
def test_a_flood_on_standard_error_does_not_hold_the_reply(end: str, mode: str) -> None:
    agent = f"import os; os.write(2, b'{'x' * 99}{end}' * 10000); os.write(1, b'{{\"id\":1,\"result\":0}}\\n'); os.read(0,1)"
    with exposed([*FAST_PYTHON, agent], stderr_mode=mode) as server, connect(server.port) as client:
        client.sock.settimeout(5)
        client.send(b'{"id":1,"method":"initialize"}')
        assert client.receive_json()["result"] == 0


@pytest.mark.parametrize("mode", ["inherit", "discard"])
@pytest.mark.parametrize("where", ["1", "2"], ids=["standard output", "standard error"])
def test_an_agent_that_floods_does_not_hold_the_links_of_others(where: str, mode: str) -> None:
    agent = f'read x; case $x in *flood*) exec yes >&{where};; esac; echo \'{{"method":"x"}}\'; exec cat'
    with (
        exposed(["sh", "-c", agent], stderr_mode=mode) as server,
        connect(server.port) as flooding,
        connect(server.port) as other,
    ):
        other.send(b'{"method":"x"}')
        other.receive()
        flooding.send(b'{"method":"flood"}')
        for _ in range(100):  # a second each, if the other agent's lines are taken as they come
            other.send(b'{"method":"x"}')
            other.receive()
        flooding.reset()


def test_of_noise_without_end_the_first_is_told_and_the_rest_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = """read x; for n in $(seq 30); do echo noise; printf '{"method":"x"}\\n'; read x; done"""
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        for _ in range(30):
            client.send(b'{"method":"x"}')
            client.receive()
        client.close()
        wait_until(lambda: server.links == 0)
    assert caplog.text.count("no message") == 10
    assert "left out 20 more notes of this kind" in caplog.text


@pytest.mark.parametrize("mode", ["inherit", "discard"])
def test_standard_error_is_in_the_log_or_discarded(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    agent = "echo 'a \x1b[31mred\x1b[0m word' >&2; exec cat"
    with exposed(["sh", "-c", agent], stderr_mode=mode) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        client.receive()
        if mode == "inherit":
            wait_until(lambda: "red" in caplog.text)
    assert ("red" in caplog.text) is (mode == "inherit")
    assert "\x1b" not in caplog.text


def assert_only_messages(shown: bytes) -> None:
    for line in shown.splitlines():
        assert isinstance(json.loads(line), dict), line


SENT = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'


@pytest.mark.parametrize("python", [[], ["-X", "dev", "-W", "always"]], ids=["plain", "dev"])
class TestMirrorsWriteOnlyMessages:
    def test_on_a_good_address(self, python: list[str]) -> None:
        with (
            exposed(["sh", "-c", NOISY]) as server,
            command("mirror", "--log-level", "debug", server.url, python=python) as mirror,
        ):
            shown, _ = mirror.communicate(SENT, timeout=20)
        assert b"real" in shown
        assert_only_messages(shown)

    def test_on_a_refused_port(self, python: list[str]) -> None:
        with command("mirror", "--no-reconnect", "ws://127.0.0.1:1/acp/ws", python=python) as mirror:
            shown, said = mirror.communicate(SENT, timeout=20)
        assert_only_messages(shown)
        assert b"cannot connect" in said
        assert b"Traceback" not in said
        assert mirror.returncode == 3

    def test_on_a_refusal(self, python: list[str]) -> None:
        with exposed(["cat"]) as server, command("mirror", f"{server.url}/no", python=python) as mirror:
            shown, said = mirror.communicate(SENT, timeout=20)
        assert_only_messages(shown)
        assert b"404" in said
        assert mirror.returncode == 4

    def test_on_a_drop_in_mid_session(self, python: list[str]) -> None:
        with (
            expose_command("--", "sh", "-c", 'read x; echo \'{"method":"a"}\'; cat') as (server, port),
            command("mirror", "--no-reconnect", f"ws://127.0.0.1:{port}", python=python) as mirror,
        ):
            assert mirror.stdin is not None
            assert mirror.stdout is not None
            mirror.stdin.write(SENT)
            mirror.stdin.flush()
            first = mirror.stdout.readline()
            server.kill()
            shown, said = mirror.communicate(timeout=20)
        assert_only_messages(first + shown)
        assert b"Traceback" not in said
        assert mirror.returncode == 6
        assert json.loads(shown)["id"] == 1


def test_nobody_who_ignores_the_mirrors_log_can_block_it() -> None:
    """An editor that never reads the mirror's standard error still gets its frames."""
    with (
        exposed(
            ["sh", "-c", 'while echo noise; do read x; printf \'{"id":1,"result":0}\\n\'; done']
        ) as server,
        command("mirror", "--log-level", "debug", server.url, stderr=subprocess.PIPE) as mirror,
    ):
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        for _ in range(2000):
            mirror.stdin.write(SENT)
            mirror.stdin.flush()
            assert mirror.stdout.readline() == b'{"id":1,"result":0}\n'
