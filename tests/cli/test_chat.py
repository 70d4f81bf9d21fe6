"""`acpremote chat` as a person meets it: a real terminal, the demo agent, an agent that means harm."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.output import DummyOutput

from acpremote.components.menu import Menu, MenuOutcome, MenuRow
from acpremote.components.terminal import MenuControl
from acpremote_cli.chat_markdown import BlockStream, Painter

from ..terminal import Terminal, terminal

CHAT = [sys.executable, "-m", "acpremote_cli.main", "chat"]
DEMO = [sys.executable, "-m", "acpremote_cli.main", "demo", "--agent"]
HOSTILE = [sys.executable, str(Path(__file__).with_name("hostile_agent.py"))]
DOWN = "\x1b[B"
ENTER = "then Enter"


@contextmanager
def chatting(*words: str, columns: int = 90, lines: int = 40, **environment: str) -> Iterator[Terminal]:
    with terminal(*CHAT, *words, columns=columns, lines=lines, environment=environment) as opened:
        yield opened


@contextmanager
def demo(columns: int = 90, lines: int = 40) -> Iterator[Terminal]:
    with chatting("--", *DEMO, columns=columns, lines=lines) as opened:
        opened.wait_for("Demo is ready", "/help lists the commands")
        yield opened


def idle(seen: Terminal, *texts: str) -> str:
    return seen.wait_for(*texts, absent="working")


def test_a_newcomer_answers_allows_cancels_and_leaves() -> None:
    with demo() as seen:
        seen.send("hello\r")
        seen.wait_for("Choose a deployment target", "> 1. Preview", ENTER, last_lines=8)
        seen.send(DOWN + "\r")
        idle(seen, "You picked Target.PRODUCTION.", "That was the tour")
        seen.send("tool\r")
        seen.wait_for("+Hello", "> 1. Allow once", "Esc: no", last_lines=12)
        seen.send("1\r")
        idle(seen, "✓ Write greeting.txt", "The tool ran")
        seen.send("slow\r")
        seen.wait_for("working, Ctrl-C cancels", "1 2")
        seen.send("\x03")
        idle(seen, "Cancelling.", "The turn was cancelled.")
        seen.send("/quit\r")
        assert seen.wait_closed() == 0


def test_a_turn_is_cancelled_by_a_command_and_a_second_ctrl_c_leaves() -> None:
    with demo() as seen:
        seen.send("slow\r")
        seen.wait_for("working", "1 2")
        seen.send("/cancel\r")
        idle(seen, "The turn was cancelled.")
        seen.send("\x03")
        seen.wait_for("Press Ctrl-C again to leave.")
        seen.send("\x03")
        assert seen.wait_closed() == 0


def test_no_to_a_permission_is_a_reject_and_ctrl_c_in_a_question_cancels_the_turn() -> None:
    with demo() as seen:
        seen.send("tool\r")
        seen.wait_for("> 1. Allow once", ENTER, last_lines=6)
        seen.send("\x1b")
        idle(seen, "Write greeting.txt → no", "I did not run the tool.")
        seen.send("choice\r")
        seen.wait_for("> 1. Preview", ENTER, last_lines=6)
        seen.send("\x03")
        idle(seen, "The turn was cancelled.")
        seen.send("choice\r")
        seen.wait_for("> 1. Preview", ENTER, last_lines=6)
        seen.send("d")
        idle(seen, "You declined the question.")


def test_component_frames_become_a_list_a_fallback_or_a_diagnostic() -> None:
    with demo() as seen:
        seen.send("component\r")
        seen.wait_for("> 1. main", "Esc: not now", last_lines=7)
        assert "[unsupported visual: star-map] A map of three stars." in seen.everything
        assert "COMPONENT_INVALID_PROPS" in seen.everything
        assert '"protocol"' not in seen.everything
        seen.send("2\r")
        seen.wait_for("> 1. Copy the command", ENTER, last_lines=6)
        seen.send("\r")
        seen.wait_for("Copy text to the clipboard? (copy-text)", '"text": "git rebase main"', "> 1. No")
        seen.wait_for(ENTER, last_lines=3)
        assert b"\x1b]52;" not in seen.raw
        seen.send("2\r")
        seen.wait_for("Copy text to the clipboard: done.", "› release/4.x")
        assert b"\x1b]52;c;Z2l0IHJlYmFzZSBtYWlu\x07" in seen.raw  # "git rebase main"


def test_a_long_form_is_filled_in_reviewed_and_sent() -> None:
    with demo() as seen:
        seen.send("form\r")
        seen.wait_for("Name", "Esc: cancel", last_lines=6)
        seen.send("\r")
        seen.wait_for("\nat least 1 character\n", last_lines=6)
        seen.send("Li\r")
        seen.wait_for("E-mail", "email, optional", last_lines=6)
        seen.send("\r")
        seen.wait_for("> 2. M", ENTER, last_lines=7)
        seen.send("1\r")
        seen.wait_for("Copies", "a whole number", last_lines=6)
        seen.send("\x7f9\r")
        seen.wait_for("at most 5", last_lines=6)
        seen.send("\x7f3\r")
        seen.wait_for("Weight", "In kilograms.", last_lines=6)
        seen.send("\r")
        seen.wait_for("> 2. No", ENTER, last_lines=6)
        seen.send("s")
        seen.wait_for("> 1. Done", "[ ] ribbon", ENTER, last_lines=8)
        seen.send("3\r")
        seen.wait_for("[x] card", ENTER, last_lines=8)
        seen.send("1\r")
        seen.wait_for("Send this", "Name: Li", "Weight: (left out)", ENTER, last_lines=12)
        seen.send("1\r")
        idle(seen, "You filled in", '"Li"', '"S"', "copies: 3", '["card"]')


@pytest.mark.parametrize(
    ("key", "told", "said"), [("\x1b", "→ cancelled", "cancel."), ("\x04", "→ declined", "decline.")]
)
def test_one_key_leaves_a_form_in_the_middle_of_a_line(key: str, told: str, said: str) -> None:
    with demo() as seen:
        seen.send("form\r")
        seen.wait_for("Name", "Enter: next · Ctrl-D: decline · Esc: cancel", last_lines=6)
        seen.send(f"Li{key}")
        idle(seen, told, f"You answered with {said}")


@pytest.mark.parametrize(("key", "said"), [("\x1b", "cancel."), ("d", "decline.")])
def test_one_key_leaves_a_form_at_a_choice(key: str, said: str) -> None:
    with demo() as seen:
        seen.send("form\r")
        seen.wait_for("Name", "Esc: cancel", last_lines=6)
        seen.send("Li\r")
        seen.wait_for("E-mail", "Esc: cancel", last_lines=6)
        seen.send("\r")
        seen.wait_for("> 2. M", "d: decline · Esc: cancel", last_lines=7)
        seen.send(key)
        idle(seen, f"You answered with {said}")


def test_modes_sessions_and_completions_are_there() -> None:
    with demo() as seen:
        seen.send("/mo")
        seen.wait_for("choose the session's mode")
        seen.send("de\r")
        seen.wait_for("Which mode?", "Read only", ENTER, last_lines=8)
        seen.send("2\r")
        seen.wait_for("Mode: Auto", "Demo · Auto")
        seen.send("plan\r")
        idle(seen, "[x] Answer")
        seen.send("/new\r")
        seen.wait_for("A new session.")
        seen.send("/load\r")
        seen.wait_for("Which session?", "1. plan", ENTER, last_lines=6)
        seen.send("\r")
        seen.wait_for("The session is loaded.", "› plan")
        seen.send("/nonsense\r")
        seen.wait_for("There is no command /nonsense")


def test_a_narrow_terminal_and_a_change_of_size_in_a_turn() -> None:
    with demo(columns=32, lines=14) as seen:
        seen.send("tour\r")
        seen.wait_for("> 1. Preview", last_lines=10)
        seen.resize(60, 20)
        seen.wait_for(ENTER, last_lines=4)
        seen.send("2\r")
        seen.resize(24, 10)
        idle(seen, "Target.PRODUCTION")
        seen.send("\x04")
        assert seen.wait_closed() == 0


def test_an_agent_that_means_harm_reaches_no_terminal() -> None:
    with chatting("--", *HOSTILE, lines=60) as seen:
        seen.wait_for("is ready")
        seen.send("go\r")
        seen.wait_for("The agent asks: permission", ENTER, last_lines=10)
        seen.send("1\r")
        seen.wait_for("question", "> 1. choice", ENTER, last_lines=10)
        seen.send("1\r")
        seen.wait_for("field", "Esc: cancel", last_lines=10)
        seen.send("\r")
        seen.wait_for("Send this", ENTER, last_lines=8)
        seen.send("1\r")
        seen.wait_for("> 1. label", "Esc: not now", last_lines=10)
        seen.send("\r/")
        seen.wait_for("\\u202egnp.exe", "› label")
        seen.send("\x03\x03\x03")
        seen.wait_closed()
        shown = seen.everything
        for word in (
            "thought",
            "message",
            "code",
            "step",
            "tool",
            "output",
            "old",
            "new",
            "summary",
            "entity",
        ):
            assert word in shown, word
        for acts in ("\x1b]0;", "\x07", "\x9b", "\x00", "\u202e", "\u2066", "\u200b", "\x1b]8;"):
            assert acts.encode() not in seen.raw, acts
        assert b"\x1b[2J" not in seen.raw
        assert "https://example.org/" in shown  # a link's target is shown


def test_the_same_agent_in_a_pipe_writes_nothing_that_acts() -> None:
    lines = "go\n1\n1\n\n1\n/choose 1\n"
    run = subprocess.run([*CHAT, "--", *HOSTILE], input=lines, capture_output=True, text=True, timeout=60)
    for output in (run.stdout, run.stderr):
        assert not [char for char in output if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
        assert not {"\u202e", "\u2066", "\u200b"} & set(output)
    assert "answer 3" in run.stdout
    assert (run.returncode, "label" in run.stdout) == (0, True)


def test_in_a_pipe_every_line_is_a_prompt_and_questions_take_lines() -> None:
    lines = "choice\n2\ntool\nd\n1\ncomponent\n/choose 1\n2\n/choose 2\n"
    run = subprocess.run([*CHAT, "--", *DEMO], input=lines, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert "Choose a deployment target\n> 1. Preview\n  2. Production\n" in run.stdout
    assert "You picked Target.PRODUCTION.\n" in run.stdout
    assert "Please type a number from 1 to 3.\n" in run.stdout
    assert "The tool ran." in run.stdout
    assert (
        "(to send it: release/4.x)" in run.stdout or "Copy text to the clipboard? (copy-text)" in run.stdout
    )


def test_without_colours_nothing_is_coloured() -> None:
    with chatting("--", *DEMO, NO_COLOR="1") as seen:
        seen.wait_for("is ready")
        seen.send("tool\r")
        seen.wait_for("> 1. Allow once", ENTER, last_lines=8)
        for number in (*range(30, 38), *range(90, 98)):
            assert f"\x1b[0;{number}m".encode() not in seen.raw
            assert f"\x1b[{number}m".encode() not in seen.raw


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--", "no-such-agent"], 2, "command not found, or not executable: no-such-agent (an address looks"),
        (["ws://"], 2, "no address of an endpoint"),
        (["--max-message-size", "1", "--", "true"], 2, "--max-message-size is 1"),
        (["--", "sh", "-c", "echo broken config >&2; exit 3"], 5, "the agent exited with status 3"),
        (["--", "sh", "-c", 'read line; echo \'{"jsonrpc":"2.0","id":1,"result":{}}\'; cat'], 5, "version"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line_with_its_status(
    words: list[str], status: int, said: str
) -> None:
    run = subprocess.run([*CHAT, *words], input="", capture_output=True, text=True, timeout=60)
    assert run.returncode == status
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert ("agent: broken config" in run.stderr) is (status == 5 and "exited" in said)


@contextmanager
def exposed(*command: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    expose = [sys.executable, "-m", "acpremote_cli.main", "expose", "--port", "0", "--", *command]
    with subprocess.Popen(expose, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            line = next(line for line in server.stderr if "listening on" in line)
            yield line.split()[-1], server
        finally:
            server.terminate()
            server.communicate()


def test_an_agent_at_an_address_is_talked_to_alike() -> None:
    with exposed(*DEMO) as (address, server), chatting(address) as seen:
        seen.wait_for("Demo is ready")
        seen.send("choice\r")
        seen.wait_for("> 1. Preview", ENTER, last_lines=6)
        seen.send("\r")
        idle(seen, "You picked Target.PREVIEW.")
        seen.send("slow\r")
        seen.wait_for("working", "1 2")
        server.terminate()
        assert seen.wait_closed() != 0
        assert "acpremote:" in seen.everything


def test_an_address_where_nobody_listens_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ["--no-reconnect", f"ws://127.0.0.1:{port}/acp"]
    run = subprocess.run([*CHAT, *words], input="", capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.startswith(f"acpremote: cannot connect to ws://127.0.0.1:{port}/acp")


def leaving_a_pid(tmp_path: Path) -> list[str]:
    program = f"echo $$ > {tmp_path}/pid; exec {' '.join(DEMO)}"
    return ["--", "sh", "-c", program]


def wait_gone(tmp_path: Path) -> None:
    process = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 15
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline, "the agent still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_chat_that_is_killed_leaves_no_agent(tmp_path: Path, number: signal.Signals) -> None:
    with chatting(*leaving_a_pid(tmp_path)) as seen:
        seen.wait_for("is ready")
        seen.send("slow\r")
        seen.wait_for("1 2")
        seen.kill(number)
        status = seen.wait_closed()
    assert status == (-number if number is signal.SIGKILL else 143)
    wait_gone(tmp_path)


def test_leaving_in_the_middle_of_a_turn_stops_the_agent(tmp_path: Path) -> None:
    with chatting(*leaving_a_pid(tmp_path)) as seen:
        seen.wait_for("is ready")
        seen.send("slow\r")
        seen.wait_for("1 2")
        seen.send("\x04")
        assert seen.wait_closed() == 0
    wait_gone(tmp_path)


@pytest.mark.anyio
async def test_a_question_takes_no_keys_before_it_is_armed() -> None:
    outcomes: list[MenuOutcome] = []
    armed = False
    control = MenuControl(Menu("Run it?", (MenuRow("y", "Yes"),)), outcomes.append, lambda: armed)
    with create_pipe_input() as keys:
        application: Application[None] = Application(
            Layout(Window(control)), input=keys, output=DummyOutput()
        )

        def press(text: str) -> None:
            keys.send_text(text)
            for key in keys.read_keys():
                application.key_processor.feed(key)
            application.key_processor.process_keys()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(application.run_async)
            await anyio.lowlevel.checkpoint()
            press("\r1\r")
            assert (outcomes, control.state.typed) == ([], "")
            armed = True
            press("\r")
            application.exit()
    assert len(outcomes) == 1


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_markdown_is_cut_into_blocks_outside_of_code() -> None:
    stream = BlockStream()
    text = "# Head\n\npara\nmore\n\n```py\na\n\nb\n```\nafter\n\n````\n```\n\n````\n"
    blocks = [block for char in text for block in stream.feed(char)]
    assert blocks == ["# Head\n", "para\nmore\n", "```py\na\n\nb\n```", "after\n", "````\n```\n\n````"]
    assert stream.finish() == ""


def test_an_endless_line_is_shown_in_pieces_and_code_goes_on_as_code() -> None:
    stream = BlockStream()
    shown = [block for _ in range(100) for block in stream.feed("x" * 1000)]
    assert sum(map(len, shown)) + len(stream.tail) == 100_000
    assert len(stream.tail) < 20_000
    stream = BlockStream()
    pieces = [*stream.feed("```\n"), *(block for _ in range(30_000) for block in stream.feed("a\n"))]
    assert len(pieces) > 2
    assert all(piece.startswith("```\n") for piece in pieces)


def test_markdown_can_spell_no_character_that_acts() -> None:
    painted = Painter(has_colors=True).markdown(
        "&#x202e;a&#27;b&#x9b;c&#x2066; [d](https://e.org/&#x202e;)", 80
    )
    assert not {"\u202e", "\x9b", "\u2066"} & set(painted)
    assert "\x1b]8" not in painted
    assert "\\u202ea" in painted
