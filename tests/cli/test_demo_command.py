"""`acpremote demo` as people run it: in a terminal, in a pipe, interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import cast

import anyio
import pytest
from acp import Client, helpers, spawn_agent_process

from ..recording_client import FORMS, RecordingClient, pick
from ..terminal import terminal

DEMO = [sys.executable, "-m", "acpremote_cli.main", "demo"]
MARK = "ACPREMOTE_TEST_MARK"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment with a mark that every process started under it inherits."""
    return {**os.environ, MARK: uuid.uuid4().hex}


def running(environment: dict[str, str]) -> list[str]:
    """The command lines of the processes that carry the mark of `environment`."""
    mark = f"{MARK}={environment[MARK]}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass  # gone, or not ours
    return found


def test_without_a_terminal_the_defaults_are_taken(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        DEMO, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=50
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    address = re.search(r"^acpremote: listening on (ws://127\.0\.0\.1:\d+/acp/ws)$", ran.stdout, re.M)
    assert address
    assert f"$ acpremote mirror --unstable-protocol {address[1]}\n" in ran.stdout
    assert "asks    Choose a deployment target\n        1. Preview (default)\n" in ran.stdout
    assert ran.stdout.count("answer: 1 (the default: standard input is no terminal)\n") == 2
    assert "agent   You picked Target.PREVIEW.\n" in ran.stdout
    assert "end     end_turn\n" in ran.stdout
    assert running(environment) == []


def test_in_a_terminal_the_person_answers_by_keys(environment: dict[str, str]) -> None:
    with terminal(*DEMO, columns=100, lines=40, environment=environment) as shown:
        shown.wait_for("May I do this?", "Always allow", "cancel")
        shown.send("c")
        shown.wait_for("I did not run the tool", "Choose a deployment target", "Deploy to production.")
        shown.send("\x1b[B\r")
        shown.wait_for("You picked Target.PRODUCTION.", "end_turn")
        assert shown.wait_closed() == 0
    assert running(environment) == []


def test_ctrl_c_at_a_question_leaves_with_130_and_nothing_running(environment: dict[str, str]) -> None:
    with terminal(*DEMO, columns=100, lines=40, environment=environment) as shown:
        shown.wait_for("May I do this?", "decline")
        shown.send("d")
        shown.wait_for("I did not run the tool", "Choose a deployment target", "decline")
        shown.send("\x03")
        assert shown.wait_closed() == 130
        assert "Traceback" not in shown.everything
    assert running(environment) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_it_starts_leaves_nothing_running(
    environment: dict[str, str], number: signal.Signals, status: int
) -> None:
    demo = subprocess.Popen(
        DEMO,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert any("acpremote mirror" in line for line in demo.stdout)
        demo.send_signal(number)
        assert demo.wait(50) == status
        assert "Traceback" not in demo.stderr.read()
    assert running(environment) == []


def test_a_reader_that_leaves_early_gets_no_traceback(environment: dict[str, str]) -> None:
    shown = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1', "sh", *DEMO],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=50,
    )
    assert shown.stdout == "$ acpremote expose --port 0 -- acpremote demo --agent\n"
    assert "Traceback" not in shown.stderr
    assert running(environment) == []


@pytest.mark.anyio
async def test_the_agent_alone_speaks_acp_on_stdio() -> None:
    client = RecordingClient(pick("Production"))
    command = [*DEMO, "--agent"]
    spawned = spawn_agent_process(cast(Client, client), *command, env=os.environ, use_unstable_protocol=True)
    with anyio.fail_after(30):
        async with spawned as (agent, _):
            await agent.initialize(1, client_capabilities=FORMS)
            session = await agent.new_session(cwd="/nowhere")
            await agent.prompt(session.session_id, [helpers.text_block("choice")])
    assert client.messages == ["You picked Target.PRODUCTION."]


def test_the_agent_alone_says_how_it_is_started_when_it_has_no_pipe() -> None:
    ran = subprocess.run(
        [*DEMO, "--agent"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert "acpremote expose -- acpremote demo --agent" in line
