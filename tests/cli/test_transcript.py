"""What `acpremote demo` prints, and what it answers, with the demo agent behind a real socket."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from acpremote_cli.transcript import Option, TranscriptClient, Unanswered, default_answer

from ..recording_client import NOTHING
from ..talking import talking_to_demo

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answers(answer: int | Unanswered) -> TranscriptClient:
    async def ask(question: str, options: Sequence[Option], default: int) -> int | Unanswered:
        return answer

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
    ("answer", "said"),
    [
        (0, "You picked Target.PREVIEW."),
        (1, "You picked Target.PRODUCTION."),
        (Unanswered.DECLINED, "You declined the question."),
        (Unanswered.CANCELLED, "You cancelled the question."),
    ],
)
async def test_the_answer_is_what_was_picked(
    answer: int | Unanswered, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with talking_to_demo(answers(answer)) as demo:
        await demo.say("choice")
    assert f"agent   {said}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "status"), [(0, "completed"), (2, "failed"), (Unanswered.CANCELLED, "failed")]
)
async def test_a_permission_is_answered_by_its_option(
    answer: int | Unanswered, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with talking_to_demo(answers(answer)) as demo:
        await demo.say("tool")
    assert re.findall(r"tool    (\w+)\n", capsys.readouterr().out)[-1] == status


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
