"""The commands work, or fail clearly, with standard streams closed by who starts them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.raw import connect
from tests.running import MAIN, exposed

ASK = b'{"id":1,"method":"x"}\n'
ANSWER = ["sh", "-c", 'read x; echo \'{"id":1,"result":0}\'; cat']


def mirror(url: str, redirection: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a mirror from a shell, with a question in its standard input unless that is closed."""
    line = f'exec "$0" -c "$1" mirror "$2" {redirection}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, MAIN, url], input=ASK, capture_output=True, timeout=30, check=False
    )


def test_a_mirror_without_input_leaves_in_order() -> None:
    with exposed(ANSWER) as server:
        done = mirror(server.url, "<&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_mirror_without_output_fails() -> None:
    with exposed(ANSWER) as server:
        done = mirror(server.url, ">&-")
    assert done.returncode == 6
    assert b"closed its input" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_mirror_whose_reader_leaves_with_what_it_wanted_has_not_failed() -> None:
    with exposed(ANSWER) as server:
        line = '{ "$0" -c "$1" mirror "$2"; echo $? >&2; } | head -1'
        done = subprocess.run(
            ["sh", "-c", line, sys.executable, MAIN, server.url],
            input=ASK,
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert (json.loads(done.stdout), done.stderr) == ({"id": 1, "result": 0}, b"0\n")


def test_a_mirror_without_a_place_for_errors_works() -> None:
    with exposed(ANSWER) as server:
        done = mirror(server.url, "2>&-")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"id": 1, "result": 0})


@pytest.mark.parametrize("url", ["nonsense", "ws://127.0.0.1:1/acp --no-reconnect"])
def test_a_failure_never_goes_to_the_output_instead(url: str) -> None:
    address, *flags = url.split()
    done = mirror(address, " ".join([*flags, "2>&-"]))
    assert done.returncode in (2, 3)
    assert done.stdout == b""


def test_an_agent_gets_its_own_pipes_from_a_server_without_streams() -> None:
    line = 'exec "$0" -c "$1" expose --port 0 -- cat <&- >&-'
    process = subprocess.Popen(["sh", "-c", line, sys.executable, MAIN], stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        port = int(process.stderr.readline().decode().split("/acp")[0].rsplit(":", 1)[1])
        with connect(port) as client:
            client.send(ASK[:-1])
            assert client.receive() == ASK[:-1]
    finally:
        process.terminate()
        process.wait(15)
        process.stderr.close()
    assert process.returncode == 0
