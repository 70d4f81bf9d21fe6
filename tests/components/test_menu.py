"""Menus: the keys as a table, then drawn in a real terminal, then by lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components import Choice, ChoiceListProps
from acpremote.components.menu import (
    Chosen,
    Menu,
    MenuOutcome,
    MenuRow,
    MenuState,
    Unchosen,
    menu_of_choices,
)
from acpremote.components.plain import choose_by_line

from ..terminal import Terminal, terminal

ROWS = tuple(MenuRow(f"r{number}", f"Row {number}") for number in range(1, 13))
UP, DOWN, HOME, END = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F"


def menu(**changes: Any) -> Menu:
    return Menu(**{"prompt": "Which?", "rows": ROWS, **changes})


def press(keys: str, **changes: Any) -> tuple[MenuOutcome | None, MenuState]:
    state = MenuState(menu(**changes))
    outcome = None
    for key in keys.split():
        outcome = state.press(key)
    return outcome, state


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ("enter", Chosen("r1")),
        ("down enter", Chosen("r2")),
        ("up enter", Chosen("r1")),
        ("end down enter", Chosen("r12")),
        ("end home enter", Chosen("r1")),
        ("1 2 enter", Chosen("r12")),
        ("1 2 backspace enter", Chosen("r1")),
        ("7 backspace enter", Chosen("r1")),
        ("7 down enter", Chosen("r2")),
        ("0 7 enter", Chosen("r7")),
        ("escape", Unchosen.CANCELLED),
        ("c", Unchosen.CANCELLED),
        ("7 escape", None),
        ("7 escape escape", Unchosen.CANCELLED),
        ("1 3 enter", None),
        ("0 enter", None),
        ("x", None),
        ("\x1b", None),
    ],
)
def test_keys_do_what_the_table_says(keys: str, outcome: MenuOutcome | None) -> None:
    assert press(keys)[0] == outcome


def test_a_number_out_of_range_is_an_error_line_and_never_the_highlighted_row() -> None:
    outcome, state = press("down 9 9 enter")
    assert outcome is None
    assert [line.text for line in state.lines() if line.style == "error"] == [
        "There is no number 99: 1 to 12."
    ]
    assert state.press("enter") == Chosen("r2")


def test_the_default_is_highlighted_first_and_an_unknown_one_is_ignored() -> None:
    assert press("enter", highlighted="r3")[0] == Chosen("r3")
    assert press("enter", highlighted="other")[0] == Chosen("r1")


@pytest.mark.parametrize(
    ("key", "way"), [("d", "decline"), ("c", "cancel"), ("escape", "cancel"), ("s", "skip")]
)
def test_a_way_out_exists_only_where_the_question_has_it(key: str, way: str) -> None:
    assert press(key, **{way: "leave"})[0] in set(Unchosen)
    assert press(key, **{way: None})[0] is None


def test_a_paste_types_digits_and_never_chooses() -> None:
    state = MenuState(menu())
    state.paste("1\n2")
    assert state.error
    state.paste(" 12\n")
    assert (state.typed, state.press("enter")) == ("12", Chosen("r12"))


@given(
    st.lists(
        st.sampled_from(["up", "down", "home", "end", "backspace", "enter", "escape", "é"]) | st.characters()
    )
)
def test_no_keys_raise_and_every_outcome_is_one_of_the_menus(keys: list[str]) -> None:
    state = MenuState(menu(decline="no", skip="later"))
    for key in keys:
        outcome = state.press(key)
        assert outcome is None or outcome in [*Unchosen, *(Chosen(row.id) for row in ROWS)]
        assert all("\n" not in line.text for line in state.lines())


@given(st.text(), st.text(min_size=1), st.text())
def test_nothing_that_acts_on_a_terminal_is_drawn(prompt: str, label: str, description: str) -> None:
    props = ChoiceListProps(prompt, (Choice("a", label, description),))
    for line in MenuState(menu_of_choices(props)).lines():
        assert not [char for char in line.text if ord(char) < 32 or 0x7F <= ord(char) < 0xA0]


@contextmanager
def shown(columns: int = 80, lines: int = 24, color: bool = True, **changes: Any) -> Iterator[Terminal]:
    wanted: dict[str, Any] = {
        "prompt": "Which?",
        "rows": [[row.id, row.label] for row in ROWS[:3]],
        **changes,
    }
    script = Path(__file__).with_name("show_menu.py")
    root = str(Path(__file__).parents[2])
    environment = {"PYTHONPATH": root, **({} if color else {"NO_COLOR": "1"})}
    with terminal(
        sys.executable, str(script), json.dumps(wanted), columns=columns, lines=lines, environment=environment
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ("\r", "r1"),
        (DOWN + "\r", "r2"),
        (DOWN + DOWN + DOWN + UP + "\r", "r2"),  # a burst: several keys in one read
        (END + "\r", "r3"),
        (END + HOME + "\r", "r1"),
        ("\x1bOB\r", "r2"),  # arrows in application mode
        ("3\r", "r3"),
        ("35\x7f\r", "r3"),
        ("\x1b", "cancelled"),
        ("c", "cancelled"),
        ("\x04", "cancelled"),
        ("\x03", "interrupted"),
        ("9\r2\r", "r2"),
        ("\x1b[200~2\n\x1b[201~\r", "r2"),  # a bracketed paste types, and Enter chooses
        ("xyz\x1b[5~\x1b[24~\r", "r1"),
    ],
)
def test_a_real_terminal_is_worked_by_keys(keys: str, outcome: str) -> None:
    with shown() as seen:
        seen.wait_for("> 1. Row 1", "then Enter")
        seen.send(keys)
        seen.wait_for(f"outcome: {outcome}")
        assert seen.wait_closed() == 0
        assert "then Enter" not in seen.screen  # the menu has given way


def test_the_number_is_echoed_and_an_error_is_shown() -> None:
    with shown() as seen:
        seen.wait_for("then Enter")
        seen.send("42")
        seen.wait_for("Number: 42")
        seen.send("\x7f")
        seen.wait_for("Number: 4", absent="Number: 42")
        seen.send("\r")
        seen.wait_for("There is no number 4: 1 to 3.", absent="Number:")
        seen.send("2\r")
        seen.wait_for("Which? Row 2", "outcome: r2")


def test_declining_works_only_where_it_is_offered() -> None:
    with shown(decline="decline") as seen:
        seen.wait_for("d: decline")
        seen.send("d")
        seen.wait_for("outcome: declined")
    with shown(cancel=None) as seen:
        seen.wait_for("then Enter")
        seen.send("dc\x1b")
        seen.send("2\r")
        seen.wait_for("outcome: r2")


def test_what_was_typed_before_the_menu_was_visible_does_not_answer_it() -> None:
    with shown(wait=True) as seen:
        seen.wait_for("waiting")
        seen.send("go\n2\r\r\r")
        seen.wait_for("then Enter")
        seen.send(DOWN)
        seen.wait_for("> 2. Row 2")
        seen.send("\r")
        seen.wait_for("outcome: r2")


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2J \u202etxt.exe\u202c"


def test_control_characters_in_a_question_are_shown_and_do_nothing() -> None:
    rows = [["r1", f"Row {HOSTILE}", HOSTILE], ["r2", "Row\r\n> 9. fake"]]
    with shown(prompt=HOSTILE, rows=rows) as seen:
        seen.wait_for("then Enter", "before")
        assert "\\x1b]0;owned\\x07" in seen.screen
        assert "\\u202etxt.exe" in seen.screen
        assert "2. Row > 9. fake" in seen.screen
        seen.send("\r")
        seen.wait_for("outcome: r1", "before")
        for acts in (b"\x1b]0;", b"\x07", b"\x1b[31m", b"\x9b", "\u202e".encode()):
            assert acts not in seen.raw


def test_a_long_list_in_a_low_and_narrow_terminal_scrolls_to_the_highlighted_row() -> None:
    rows = [
        [f"r{number}", f"A label that is longer than the terminal is wide {number}"] for number in range(20)
    ]
    with shown(columns=24, lines=8, rows=rows) as seen:
        seen.wait_for("> ")
        seen.send(END)
        seen.wait_for("> 20.")
        seen.send(HOME)
        seen.wait_for(">  1.", absent="> 20.")
        seen.send(DOWN * 9 + "\r")
        seen.wait_for("outcome: r9")


def test_a_menu_survives_a_change_of_size() -> None:
    with shown() as seen:
        seen.wait_for("then Enter")
        seen.resize(40, 10)
        seen.send(DOWN)
        seen.wait_for("> 2. Row 2")
        seen.resize(100, 30)
        seen.send(DOWN + "\r")
        seen.wait_for("outcome: r3")


def test_no_color_takes_the_colours_away() -> None:
    colours = (b"\x1b[0;36", b"\x1b[0;38", b"\x1b[0;90", b";36;1m")
    for color in (True, False):
        with shown(color=color) as seen:
            seen.wait_for("then Enter")
            seen.send("\r")
            seen.wait_for("outcome: r1")
            assert any(code in seen.raw for code in colours) is color


async def by_line(given_lines: list[str], **changes: Any) -> tuple[MenuOutcome, str]:
    written: list[str] = []
    waiting = iter(given_lines)

    async def read_line() -> str | None:
        return next(waiting, None)

    outcome = await choose_by_line(menu(**changes), read_line, written.append)
    return outcome, "".join(written)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("lines", "changes", "outcome"),
    [
        (["2"], {}, Chosen("r2")),
        ([" 12 "], {}, Chosen("r12")),
        (["0", "99", "x", "", "3"], {}, Chosen("r3")),
        ([""], {"highlighted": "r5"}, Chosen("r5")),
        (["c"], {}, Unchosen.CANCELLED),
        (["d"], {"decline": "no"}, Unchosen.DECLINED),
        (["d", "1"], {}, Chosen("r1")),
        (["s"], {"skip": "later"}, Unchosen.SKIPPED),
        ([], {}, Unchosen.CANCELLED),
        (["x"], {"cancel": None}, Unchosen.CANCELLED),  # the end of the input
        (["9" * 5000, "\u0662", "2"], {}, Chosen("r2")),
    ],
)
async def test_without_a_terminal_numbered_lines_are_asked(
    lines: list[str], changes: dict[str, Any], outcome: MenuOutcome
) -> None:
    assert (await by_line(lines, **changes))[0] == outcome


@pytest.mark.anyio
async def test_lines_show_the_numbers_the_default_and_what_was_wrong() -> None:
    _, written = await by_line(["99", "2"], rows=ROWS[:2], highlighted="r2", decline="decline")
    assert written.splitlines() == [
        "Which?",
        "  1. Row 1",
        "> 2. Row 2",
        "Type a number; an empty line takes the marked one · d: decline · c: cancel",
        "There is no number 99: 1 to 2.",
    ]
    _, written = await by_line(["2"], rows=ROWS[:2])
    assert written.splitlines()[1] == "  1. Row 1"


def test_a_menu_without_rows_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="row"):
        Menu("Which?", ())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
