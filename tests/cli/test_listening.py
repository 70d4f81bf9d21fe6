"""What the commands that serve say and offer, whichever of them it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
AGENT = "tests.sdk.scripted_agent:ScriptedAgent"
COMMANDS = {
    "acpremote expose": ["acpremote_cli.main", "expose"],
    "acpremote serve": ["acpremote_cli.main", "serve"],
    "acpkit serve": ["acpremote_cli.acpkit", "serve"],
}


@contextmanager
def serving(name: str, *flags: str) -> Iterator[Iterator[str]]:
    """Runs one of the commands on a free port; gives the lines of its standard error."""
    target = ["--", "cat"] if name.endswith("expose") else [AGENT]
    words = [sys.executable, "-m", *COMMANDS[name], "--port", "0", *flags, *target]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield iter(process.stderr)
        finally:
            process.terminate()
            process.communicate(timeout=20)


def port_in(lines: Iterator[str]) -> int:
    for line in lines:
        if found := re.match(r"acpremote: listening on ws://\S+:(\d+)/acp/ws$", line):
            return int(found[1])
    raise AssertionError("it does not listen")


def get(host: str, port: int, path: str) -> int:
    with closing(HTTPConnection(host, port, timeout=20)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as response:
            return response.status


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("flag", "status"), [("--console", 200), ("--no-console", 404)])
def test_every_command_that_serves_can_do_without_the_console(name: str, flag: str, status: int) -> None:
    with serving(name, flag) as lines:
        assert get("127.0.0.1", port_in(lines), "/") == status


@pytest.mark.parametrize(("host", "kind", "one"), [("0.0.0.0", "IPv4", "127.0.0.1"), ("::", "IPv6", "::1")])
def test_an_address_that_stands_for_many_is_followed_by_what_to_say_instead(
    host: str, kind: str, one: str
) -> None:
    with serving("acpremote expose", "--host", host, "--insecure-no-auth") as lines:
        port = port_in(lines)
        said = next(lines)
        assert said.startswith(f"acpremote: that is every {kind} address of this machine: clients say one")
        assert get(one, port, "/acp") == 200
