"""A menu as a person works it by keys: pure state, drawn by `terminal.py` and asked on lines by `plain.py`.

    Up, Down        one row, clamped at both ends      Home, End   first and last row
    a number        echoed, Backspace edits it         Enter       the number if one was typed, else the row
    d               declines   Esc or c   cancels   s   skips      (each where the question allows it)

A number out of range is an error line and never the highlighted row. Selecting is Enter on what is visibly
highlighted or visibly typed: that is the review that ACP asks for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from .choicelist import ChoiceListProps
from .display import one_line, safe_text

__all__ = ["Chosen", "Line", "Menu", "MenuOutcome", "MenuRow", "MenuState", "Unchosen", "menu_of_choices"]

_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class MenuRow:
    """One row: its id, and what is shown (escaped by the renderer, not here)."""

    id: str
    label: str
    description: str | None = None


class Unchosen(enum.Enum):
    """Ways to leave a menu without a choice."""

    DECLINED = "declined"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The row that was chosen."""

    id: str


MenuOutcome: TypeAlias = Chosen | Unchosen


@dataclass(frozen=True, slots=True)
class Menu:
    """A question with at least one row. `highlighted` is the id of the row to begin with.

    `decline`, `cancel` and `skip` are the words shown for leaving without a choice; None takes that away.
    """

    prompt: str
    rows: tuple[MenuRow, ...]
    highlighted: str | None = None
    decline: str | None = None
    cancel: str | None = "cancel"
    skip: str | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a menu needs a row")


def menu_of_choices(
    props: ChoiceListProps,
    *,
    highlighted: str | None = None,
    decline: str | None = None,
    cancel: str | None = "cancel",
    skip: str | None = None,
) -> Menu:
    """Makes the menu of a ChoiceList."""
    rows = tuple(MenuRow(choice.id, choice.label, choice.description) for choice in props.choices)
    return Menu(props.prompt, rows, highlighted, decline, cancel, skip)


@dataclass(frozen=True, slots=True)
class Line:
    """One drawn line. `style` is prompt, row, highlighted, description, hint or error."""

    style: str
    text: str


class MenuState:
    """Where a person is in a menu. `press` takes one key and answers with the outcome, if that was it."""

    def __init__(self, menu: Menu) -> None:
        self.menu = menu
        ids = [row.id for row in menu.rows]
        self.highlighted = ids.index(menu.highlighted) if menu.highlighted in ids else 0
        self.typed = ""
        self.error = ""

    def press(self, key: str) -> MenuOutcome | None:
        """Takes a key: `up`, `down`, `home`, `end`, `backspace`, `enter`, `escape`, or a character."""
        self.error = ""
        last = len(self.menu.rows) - 1
        match key:
            case "up" | "down" | "home" | "end":
                goals = {"up": self.highlighted - 1, "down": self.highlighted + 1, "home": 0, "end": last}
                self.highlighted = min(max(goals[key], 0), last)
                self.typed = ""  # what is highlighted is what Enter takes
            case "backspace":
                self.typed = self.typed[:-1]
            case "enter":
                return self._enter()
            case _ if len(key) == 1 and key in "0123456789":
                self._digit(key)
            case _:
                return self._leave(key)
        return None

    def paste(self, text: str) -> None:
        """Takes pasted text: digits are typed, anything else is refused. A paste never chooses."""
        self.error = ""
        text = text.strip()
        if text and all(char in "0123456789" for char in text):
            for char in text:
                self._digit(char)
        else:
            self.error = "Only a number can be pasted here."

    def lines(self) -> list[Line]:
        """What is to be drawn, without markers that depend on the terminal; nothing in it acts on one."""
        drawn = [Line("prompt", text) for text in safe_text(self.menu.prompt).split("\n")]
        width = len(str(len(self.menu.rows)))
        for index, row in enumerate(self.menu.rows):
            style, mark = ("highlighted", ">") if index == self.highlighted else ("row", " ")
            drawn.append(Line(style, f"{mark} {index + 1:>{width}}. {one_line(row.label)}"))
            description = safe_text(row.description or "").strip()
            drawn += [
                Line("description", " " * (width + 4) + text) for text in description.split("\n") if text
            ]
        if self.typed:
            drawn.append(Line("prompt", f"Number: {self.typed}"))
        if self.error:
            drawn.append(Line("error", self.error))
        drawn.append(Line("hint", self._hint()))
        return drawn

    def _digit(self, digit: str) -> None:
        if len(self.typed) < _MOST_DIGITS:
            self.typed += digit

    def _enter(self) -> MenuOutcome | None:
        rows = self.menu.rows
        if not self.typed:
            return Chosen(rows[self.highlighted].id)
        number = int(self.typed)
        if 1 <= number <= len(rows):
            return Chosen(rows[number - 1].id)
        self.error = f"There is no number {self.typed}: 1 to {len(rows)}."
        self.typed = ""
        return None

    def _leave(self, key: str) -> MenuOutcome | None:
        if key == "escape" and self.typed:
            self.typed = ""  # the first Esc takes back what was typed
            return None
        for keys, words, outcome in self._exits():
            if key in keys and words is not None:
                return outcome
        return None

    def _exits(self) -> Iterable[tuple[tuple[str, ...], str | None, Unchosen]]:
        yield ("d",), self.menu.decline, Unchosen.DECLINED
        yield ("escape", "c"), self.menu.cancel, Unchosen.CANCELLED
        yield ("s",), self.menu.skip, Unchosen.SKIPPED

    def _hint(self) -> str:
        names = {"escape": "Esc"}
        exits = [f"{names.get(keys[0], keys[0])}: {words}" for keys, words, _ in self._exits() if words]
        return " · ".join(["Up/Down or a number, then Enter", *exits])
