"""What the README prints is true: its programs run, its commands have the flags that it names."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main

from acpremote_cli import acpkit, main

from .raw import wait_until

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PORT = "8080"
ASKS = [
    {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
    {
        "id": 2,
        "method": "session/prompt",
        "params": {"sessionId": "1", "prompt": [{"type": "text", "text": "Hi"}]},
    },
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port(tmp_path: Path) -> int:
    """Writes every Python program of the README to the file that its first line names; only the port differs."""
    port = free_port()
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\b", block)
        assert name is not None, f"no name in {block.splitlines()[0]!r}"
        (tmp_path / name[1]).write_text(block.replace(PORT, str(port)))
    return port


@contextmanager
def hello(place: Path, port: int) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "hello.py"], cwd=place) as server:
        try:
            wait_until(lambda: is_open(port) or server.poll() is not None)
            assert server.poll() is None
            yield
        finally:
            server.terminate()


def run(place: Path, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        input=given,
        capture_output=True,
        text=True,
        timeout=50,
    )


def answers(place: Path, *command: str) -> list[Any]:
    """What an agent on standard input and output says to a plain client's first questions."""
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        said: list[Any] = []
        for ask in ASKS:
            agent.stdin.write(json.dumps({"jsonrpc": "2.0", **ask}) + "\n")
            agent.stdin.flush()
            while not said or said[-1].get("id") != ask["id"]:
                said.append(json.loads(agent.stdout.readline()))
        agent.stdin.close()
        return said


def texts(said: list[Any]) -> list[str]:
    updates = [each["params"]["update"] for each in said if each.get("method") == "session/update"]
    return [update["content"]["text"] for update in updates]


def test_the_programs_are_a_server_a_client_and_one_that_asks(tmp_path: Path, port: int) -> None:
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ask.py", "deployer.py", "hello.py"]


def test_the_server_and_its_client_talk(tmp_path: Path, port: int) -> None:
    with hello(tmp_path, port):
        done = run(tmp_path, "ask.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")


def test_an_agent_is_shown_on_by_the_line_that_does_it(tmp_path: Path, port: int) -> None:
    (line,) = re.findall(r"`(await run_agent\(connect_acp\(url\)\))`", README)
    (tmp_path / "shown.py").write_text(
        "import asyncio\nfrom acp import run_agent\nfrom acpremote import connect_acp\n"
        f"async def main(url):\n    {line}\nasyncio.run(main('ws://127.0.0.1:{port}/acp/ws'))\n"
    )
    with hello(tmp_path, port):
        assert texts(answers(tmp_path, "shown.py")) == ["Hello!"]


def test_the_typed_question_falls_back_where_the_client_has_no_forms(tmp_path: Path, port: int) -> None:
    said = answers(tmp_path, "-m", "acpremote_cli.acpkit", "run", "deployer:Deployer")
    assert texts(said) == ["Off to Target.PREVIEW"]


@pytest.mark.parametrize(
    ("line", "said"), [("2", "Off to Target.PRODUCTION"), ("d", "You declined it"), ("c", "You cancelled it")]
)
def test_the_typed_question_is_answered_by_a_person(tmp_path: Path, port: int, line: str, said: str) -> None:
    (printed,) = re.findall(r"^# deployer\.py: acpremote (chat -- acpkit .*)$", README, re.MULTILINE)
    words = printed.replace("acpkit", f"{sys.executable} -m acpremote_cli.acpkit").split()
    done = run(tmp_path, "-m", "acpremote_cli.main", *words, given=f"Hi\n{line}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Choose a deployment target" in done.stdout
    assert f"{said}\n" in done.stdout


def test_the_editors_settings_are_json_that_starts_a_mirror() -> None:
    (settings,) = map(json.loads, blocks("json"))
    (agent,) = settings["agent_servers"].values()
    assert [agent["command"], *agent["args"]] == ["acpremote", "mirror", f"ws://127.0.0.1:{PORT}/acp/ws"]


@pytest.mark.parametrize("file", ["README.md", "deploy/README.md"])
def test_every_flag_that_is_named_is_one(file: str) -> None:
    groups: list[Any] = [
        typer.main.get_command(main._app(list(main._SETTINGS))),
        typer.main.get_command(acpkit.app),
    ]
    known = {
        name
        for group in groups
        for each in group.commands.values()
        for parameter in each.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    others = {"--help", "--its-flags", "--init"}  # of everybody, of the agent, of docker
    text = re.sub(
        r"^    .*\b(useradd|systemctl|install)\b.*$", "", (ROOT / file).read_text(), flags=re.MULTILINE
    )
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert named - known - others == set()


def test_it_is_short() -> None:
    assert README.count("\n") < 200
