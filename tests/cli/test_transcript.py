"""What `acpremote demo` prints, and what it answers, with the demo agent behind a real socket."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

import anyio
import pytest

from acpremote_cli.transcript import Option, TranscriptClient, default_answer, person_answers

from ..recording_client import NOTHING
from ..talking import talking_to_demo

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answers(index: int | None) -> TranscriptClient:
    async def ask(options: Sequence[Option], default: int) -> int | None:
        return index

    return TranscriptClient(ask)


async def test_a_turn_reads_like_a_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    client = TranscriptClient(default_answer)
    async with talking_to_demo(client) as demo:
        await demo.say("tour and tool")
    client.end_message()
    assert (
        capsys.readouterr().out
        == """\
agent   Hello. I am a small agent without a model.
plan    [>] Read the question  [ ] Think about it  [ ] Answer
plan    [x] Read the question  [>] Think about it  [ ] Answer
plan    [x] Read the question  [x] Think about it  [>] Answer
plan    [x] Read the question  [x] Think about it  [x] Answer
asks    Choose a deployment target
        1. Preview (default)
        2. Production: Deploy to production.
        answer: 1 (the default: standard input is no terminal)
agent   You picked Target.PREVIEW.
agent   That was the tour. Say help to see what else I can show.
tool    Write greeting.txt
asks    May I do this? Write greeting.txt
        1. Allow once (default)
        2. Always allow
        3. Reject
        answer: 1 (the default: standard input is no terminal)
tool    in_progress
tool    completed
agent   The tool ran. (It only pretends: no file was written.)
"""
    )


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (0, "You picked Target.PREVIEW."),
        (1, "You picked Target.PRODUCTION."),
        (None, "You cancelled the question."),
    ],
)
async def test_the_answer_is_what_was_picked(
    index: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with talking_to_demo(answers(index)) as demo:
        await demo.say("choice")
    assert f"agent   {said}" in capsys.readouterr().out


@pytest.mark.parametrize(("index", "status"), [(0, "completed"), (2, "failed"), (None, "failed")])
async def test_a_permission_is_answered_by_its_option(
    index: int | None, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with talking_to_demo(answers(index)) as demo:
        await demo.say("tool")
    assert re.findall(r"tool    (\w+)\n", capsys.readouterr().out)[-1] == status


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where a person types: the other end of the terminal that is our standard input."""
    person, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield person
    os.close(person)


@pytest.mark.parametrize(
    ("typed", "answer", "complaints"),
    [
        ("\n", 1, 0),
        ("  \n", 1, 0),
        ("1\n", 0, 0),
        (" 2 \n", 1, 0),
        ("12\x7f\n", 0, 0),
        ("0\n3\nx\n-1\n1.0\n²\n1\n", 0, 6),
        ("\x04", None, 0),
        ("9\n\x04", None, 1),
    ],
)
async def test_a_person_types_a_number_or_enter_or_ctrl_d(
    keyboard: int, typed: str, answer: int | None, complaints: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(keyboard, typed.encode())
    with anyio.fail_after(10):
        assert await person_answers([Option("a", "A"), Option("b", "B")], 1) == answer
    assert capsys.readouterr().out.count("please type a number from 1 to 2") == complaints


async def test_other_forms_are_declined(capsys: pytest.CaptureFixture[str]) -> None:
    async with talking_to_demo(answers(0)) as demo:
        await demo.say("form url")
    out = capsys.readouterr().out
    assert out.count("declined)") == 2
    assert out.count("You answered with decline.") == 2


async def test_further_lines_of_a_message_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    async with talking_to_demo(answers(0), NOTHING) as demo:
        await demo.say("help")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "agent   Say any of these words:"
    assert all(line.startswith("        - ") for line in rest)
