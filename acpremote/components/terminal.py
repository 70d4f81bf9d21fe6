"""Draws a menu in a terminal with prompt_toolkit, below what is there, and takes its keys.

`MenuControl` is a part for applications that show more than the menu; `choose_in_terminal` is such an
application. What a person typed before a menu was visible never answers it. The terminal's own
application mode, keys split out of one read, and wrapping in narrow windows are prompt_toolkit's work.
"""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.styles import Style

from .display import one_line
from .menu import Chosen, Menu, MenuOutcome, MenuState, Unchosen

__all__ = ["MENU_STYLE", "MenuControl", "choose_in_terminal", "color_depth", "forget_typeahead"]

MENU_STYLE = {
    "choice.prompt": "bold",
    "choice.highlighted": "bold ansicyan",
    "choice.description": "italic",
    "choice.error": "ansired",
    "choice.hint": "ansibrightblack",
}
"""Style rules that an application showing a `MenuControl` merges into its own."""

ESCAPE_WAIT = 0.1
"""Seconds after which an Esc is a key of its own and not the beginning of an arrow key."""

_NAMES: dict[Keys | str, str] = {
    Keys.Up: "up",
    Keys.Down: "down",
    Keys.Home: "home",
    Keys.End: "end",
    Keys.Backspace: "backspace",
    Keys.Enter: "enter",
    Keys.Escape: "escape",
}


def color_depth() -> ColorDepth | None:
    """No colours when NO_COLOR is set to anything (no-color.org); else what the terminal can do."""
    return ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None


def forget_typeahead(source: Input) -> None:
    """Drops keys that were typed before now: they cannot have been meant for what is shown next."""
    clear_typeahead(source)
    source.flush_keys()
    # An input that is no terminal holds nothing back.
    with contextlib.suppress(NotImplementedError, termios.error, OSError):
        termios.tcflush(source.fileno(), termios.TCIFLUSH)


class MenuControl(FormattedTextControl):
    """Shows a menu; calls `done` with the outcome. `is_armed` says whether keys count already."""

    def __init__(
        self,
        menu: Menu,
        done: Callable[[MenuOutcome], object],
        is_armed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.state = MenuState(menu)
        self._done = done
        self._is_armed = is_armed
        super().__init__(self._draw, focusable=True, show_cursor=False, key_bindings=self._bindings())

    def _draw(self) -> StyleAndTextTuples:
        drawn: StyleAndTextTuples = []
        for line in self.state.lines():
            if line.style == "highlighted":
                drawn.append(("[SetCursorPosition]", ""))  # the window scrolls to this row
            if line.style == "hint" and not self._is_armed():
                drawn.append(("class:choice.hint", "…"))  # the keys are not live yet, and it does not say so
            else:
                drawn.append((f"class:choice.{line.style}", line.text))
            drawn.append(("", "\n"))
        return drawn[:-1]

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        for key in _NAMES:
            bindings.add(key, eager=True)(self._on_key)
        bindings.add(Keys.Any)(self._on_key)
        bindings.add(Keys.BracketedPaste)(self._on_paste)
        return bindings

    def _on_key(self, event: KeyPressEvent) -> None:
        if not self._is_armed():
            return
        pressed = event.key_sequence[-1]
        outcome = self.state.press(_NAMES.get(pressed.key, pressed.data))
        if outcome is not None:
            self._done(outcome)

    def _on_paste(self, event: KeyPressEvent) -> None:
        if self._is_armed():
            self.state.paste(event.data)


async def choose_in_terminal(
    menu: Menu, *, source: Input | None = None, output: Output | None = None
) -> MenuOutcome:
    """Shows a menu and returns the outcome; the menu gives way to a line that tells it.

    Ctrl-D cancels where the menu can be cancelled.

    Args:
        menu: The question.
        source: Where keys come from; the controlling terminal's input by default.
        output: Where it is drawn; standard output by default.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    source = source or create_input()
    output = output or create_output()
    application: Application[MenuOutcome] = _application(menu, source, output)
    forget_typeahead(source)
    outcome = await application.run_async()
    output.write(f"{_told(menu, outcome)}\n")
    output.flush()
    return outcome


def _application(menu: Menu, source: Input, output: Output) -> Application[MenuOutcome]:
    control = MenuControl(menu, lambda outcome: application.exit(result=outcome))
    keys = KeyBindings()

    @keys.add(Keys.ControlC)
    def _interrupt(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt())

    @keys.add(Keys.ControlD)
    def _end_of_input(event: KeyPressEvent) -> None:
        if menu.cancel is not None:
            event.app.exit(result=Unchosen.CANCELLED)

    application: Application[MenuOutcome] = Application(
        layout=Layout(Window(control, wrap_lines=True, dont_extend_height=True)),
        key_bindings=keys,
        style=Style.from_dict(MENU_STYLE),
        color_depth=color_depth(),
        erase_when_done=True,
        input=source,
        output=output,
    )
    application.ttimeoutlen = ESCAPE_WAIT
    application.timeoutlen = ESCAPE_WAIT
    return application


def _told(menu: Menu, outcome: MenuOutcome) -> str:
    if isinstance(outcome, Chosen):
        label = next(row.label for row in menu.rows if row.id == outcome.id)
        return f"{one_line(menu.prompt)} {one_line(label)}"
    return f"{one_line(menu.prompt)} ({outcome.value})"
