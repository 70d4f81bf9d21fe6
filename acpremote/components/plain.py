"""Menus without a terminal: numbered lines out, one line in. The rules are those of the keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .menu import Chosen, Line, Menu, MenuOutcome, MenuState, Unchosen

__all__ = ["choose_by_line"]


async def choose_by_line(
    menu: Menu, read_line: Callable[[], Awaitable[str | None]], write: Callable[[str], object]
) -> MenuOutcome:
    """Asks until an answer fits.

    Args:
        menu: The question.
        read_line: Gives the next line, or None at the end of the input, which cancels.
        write: Takes a piece of text with its line end.
    """
    state = MenuState(menu)
    for line in state.lines():
        text = (
            line.text.replace(">", " ", 1)
            if line.style == "highlighted" and not menu.highlighted
            else line.text
        )
        write(f"{_hint(menu) if line.style == 'hint' else text}\n")
    while True:
        line_in = await read_line()
        if line_in is None:
            return Unchosen.CANCELLED
        outcome = _answer(state, line_in.strip())
        if outcome is not None:
            return outcome
        write(f"{state.error}\n")


def _shown(menu: Menu, line: Line) -> str:
    if line.style == "hint":
        return _hint(menu)
    is_marked = line.style != "highlighted" or menu.highlighted is not None
    return line.text if is_marked else " " + line.text[1:]


def _answer(state: MenuState, line: str) -> MenuOutcome | None:
    """An empty line takes the default if the question has one, and is an error otherwise."""
    menu = state.menu
    if line and line.isascii() and line.isdecimal():
        state.typed = line[:7]
        return state.press("enter")
    if not line and menu.highlighted is not None:
        return Chosen(menu.rows[state.highlighted].id)
    outcome = state.press(line) if line in ("c", "d", "s") else None
    if outcome is None:
        state.error = f"Please type a number from 1 to {len(menu.rows)}."
    return outcome


def _hint(menu: Menu) -> str:
    exits = [
        f"{key}: {words}"
        for key, words in (("d", menu.decline), ("c", menu.cancel), ("s", menu.skip))
        if words is not None
    ]
    default = "; an empty line takes the marked one" if menu.highlighted is not None else ""
    return " · ".join([f"Type a number{default}", *exits])
