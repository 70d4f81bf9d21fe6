"""The chat in a terminal: the transcript scrolls above; below it stand what is being written, the plan, a
question or the box to write in, and one line of status.

One prompt_toolkit application for all of it. What is finished is printed above it and belongs to the
terminal's own history; only the lower part is redrawn. Keys count for a question only when it was visible
and the person was not typing, so that nothing is approved by accident.
"""

from __future__ import annotations

import base64
import bisect
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import anyio
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    ConditionalContainer,
    Dimension,
    DynamicContainer,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.controls import UIControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style
from rich.text import Text

from acpremote.chat.view import (
    Plan,
    Shown,
    Status,
    TextQuestion,
    Thought,
    TurnEnded,
    TurnStarted,
    View,
    Words,
    WordsEnded,
)
from acpremote.components.answer import OneAnswer
from acpremote.components.display import one_line, safe_text
from acpremote.components.menu import Menu, MenuOutcome, Unchosen
from acpremote.components.terminal import (
    ESCAPE_WAIT,
    MENU_STYLE,
    MenuControl,
    color_depth,
    forget_typeahead,
)

from .chat_markdown import BlockStream, Painter
from .chat_words import Line, lines_of, plan_lines

__all__ = ["TerminalView"]

STYLES = {
    "user": "bold cyan",
    "tool": "blue",
    "problem": "red",
    "notice": "bright_black",
    "dim": "bright_black",
    "asked": "green",
    "added": "green",
    "removed": "red",
    "list": "",
    "": "",
}
"""Styles of transcript lines, in rich's words."""

REDRAW = 0.03
"""Seconds between two prints above the application while text streams in."""

QUIET = 0.4
"""Seconds without a key before a question takes keys, if the person was typing when it came."""

TAIL_LINES = 8
LONGEST_TAIL = 4096
PLAN_LINES = 8
MOST_COPIED = 64 * 1024
"""Bytes that terminals take for the clipboard."""


class TerminalView(View):
    """Shows a conversation in the terminal. `run` must be running while it is used."""

    asks_lists = True

    def __init__(self, on_interrupt: Callable[[], None]) -> None:
        self._on_interrupt = on_interrupt
        self._painter = Painter(has_colors=color_depth() is None)
        self._blocks = BlockStream()
        self._thought = ""
        self._plan: Plan | None = None
        self._is_busy = False
        self._status = Status("")
        self._finished: list[str] = []
        self._is_dirty = anyio.Event()
        self._submit, self._submitted = anyio.create_memory_object_stream[str](64)
        self._dialogs = anyio.Lock()
        self._cancel_dialog: Callable[[], object] | None = None
        self._last_key = float("-inf")
        self._armed = True
        self._words: Mapping[str, str] = {}
        self._input = create_input()
        self._output = create_output()
        self._box = Buffer(
            multiline=True,
            history=InMemoryHistory(),
            completer=_Commands(lambda: self._words),
            complete_while_typing=True,
            accept_handler=self._accept,
        )
        self._box_window = Window(
            BufferControl(self._box, input_processors=[_ShownSafely()]),
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1, max=10),
        )
        self._lower: AnyContainer = VSplit([Window(FormattedTextControl("› "), width=2), self._box_window])
        self._normal_lower = self._lower
        self._application = self._make_application()

    # Running

    async def run(self) -> None:
        """Draws and takes keys until `close`; leaves the transcript and takes the rest away."""
        forget_typeahead(self._input)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._print_finished)
                await self._application.run_async(handle_sigint=False)
                tasks.cancel_scope.cancel()
        finally:
            self._end_stream()
            self._write("".join(self._finished))
            self._finished.clear()

    def close(self) -> None:
        """Ends `run`."""
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    async def _print_finished(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty = anyio.Event()
            if self._finished:
                text = "".join(self._finished)
                self._finished.clear()
                await run_in_terminal(partial(self._write, text))
            self._application.invalidate()
            await anyio.sleep(REDRAW)

    def _write(self, text: str) -> None:
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._output.flush()

    # Showing

    def show(self, shown: Shown) -> None:
        """See `View.show`."""
        match shown:
            case Words(text):
                for block in self._blocks.feed(text):
                    self._finish_block(block)
            case Thought(text):
                self._think(text)
            case WordsEnded():
                self._end_stream()
            case Plan():
                self._plan = shown
            case Status():
                self._status = shown
            case _:
                self._end_stream()
                self._watch_turn(shown)
                self._finish_lines(lines_of(shown))
                if isinstance(shown, TurnStarted):
                    self._finished.append("\n")
        self._is_dirty.set()

    def _watch_turn(self, shown: Shown) -> None:
        if isinstance(shown, TurnStarted | TurnEnded):
            self._is_busy = isinstance(shown, TurnStarted)
            if self._plan is not None:
                self._finish_lines(("dim", f"  {line}") for line in plan_lines(self._plan))
                self._plan = None
            if self._is_busy:
                self._finished.append("\n")

    def _finish_block(self, block: str) -> None:
        if block.strip():
            self._finished.append(self._painter.markdown(block, self._width) + "\n")

    def _think(self, text: str) -> None:
        *lines, self._thought = (self._thought + text).split("\n")
        self._finish_lines(("dim", f"  {safe_text(line)}") for line in lines)

    def _end_stream(self) -> None:
        self._finish_block(self._blocks.finish())
        if self._thought.strip():
            self._finish_lines([("dim", f"  {safe_text(self._thought)}")])
        self._thought = ""

    def _finish_lines(self, lines: Iterable[Line]) -> None:
        for style, line in lines:
            self._finished.append(self._painter.paint(Text(line, style=STYLES[style]), self._width))

    @property
    def _width(self) -> int:
        return self._output.get_size().columns

    def prefill(self, text: str) -> None:
        """See `View.prefill`."""
        before = self._box.text
        self._box.text = f"{before} {text}" if before else text
        self._box.cursor_position = len(self._box.text)
        self._is_dirty.set()

    def copy(self, text: str) -> None:
        """See `View.copy`. OSC 52 reaches the clipboard through ssh too; some terminals refuse it."""
        data = text.encode("utf-8", "replace")[:MOST_COPIED]
        self._output.write_raw(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
        self._output.flush()

    def set_completions(self, words: Mapping[str, str]) -> None:
        """See `View.set_completions`."""
        self._words = words

    # Asking

    async def lines(self) -> AsyncIterator[str]:
        """See `View.lines`."""
        async for line in self._submitted:
            yield line

    def leave(self) -> None:
        """Ends `lines`."""
        self._submit.close()

    def cancel_dialog(self) -> bool:
        """Cancels the question that is open; false when there is none."""
        if self._cancel_dialog is None:
            return False
        self._cancel_dialog()
        return True

    async def choose(self, menu: Menu) -> MenuOutcome:
        """See `View.choose`."""
        answer = OneAnswer[MenuOutcome]()
        control = MenuControl(menu, answer.settle, lambda: self._armed)
        window = Window(control, wrap_lines=True, dont_extend_height=True)
        async with self._dialogs:
            with self._dialog(window, control, lambda: answer.settle(Unchosen.CANCELLED)):
                await self._arm()
                return await answer.wait()

    async def ask_text(self, question: TextQuestion) -> str | Unchosen:
        """See `View.ask_text`."""
        answer = OneAnswer[str | Unchosen]()
        problem = ""

        def accept(buffer: Buffer) -> bool:
            nonlocal problem
            problem = question.check(buffer.text) or ""
            if not problem:
                answer.settle(buffer.text)
            return True

        buffer = Buffer(multiline=False, accept_handler=accept, document=Document(question.default))
        keys = _exits(answer.settle)
        control = BufferControl(buffer, input_processors=[_ShownSafely()], key_bindings=keys)

        def head() -> StyleAndTextTuples:
            return [("class:choice.prompt", safe_text(question.prompt))]

        def foot() -> StyleAndTextTuples:
            shown: StyleAndTextTuples = [("class:choice.error", f"{one_line(problem)}\n")] if problem else []
            return [*shown, ("class:choice.hint", f"{one_line(question.hint)} · {_EXITS}")]

        container = HSplit(
            [
                Window(FormattedTextControl(head), wrap_lines=True, dont_extend_height=True),
                VSplit(
                    [Window(FormattedTextControl("> "), width=2), Window(control, dont_extend_height=True)]
                ),
                Window(FormattedTextControl(foot), wrap_lines=True, dont_extend_height=True),
            ]
        )
        async with self._dialogs:
            with self._dialog(container, control, lambda: answer.settle(Unchosen.CANCELLED)):
                return await answer.wait()

    @contextmanager
    def _dialog(
        self, container: AnyContainer, control: UIControl, cancel: Callable[[], object]
    ) -> Iterator[None]:
        self._lower, self._cancel_dialog = container, cancel
        self._application.layout.focus(control)
        self._is_dirty.set()
        try:
            yield
        finally:
            self._lower, self._cancel_dialog = self._normal_lower, None
            self._application.layout.focus(self._box)
            self._is_dirty.set()

    async def _arm(self) -> None:
        """Waits until the person has stopped typing; keys until then were meant for something else."""
        self._armed = False
        try:
            while (rest := self._last_key + QUIET - time.monotonic()) > 0:  # noqa: ASYNC110 - time is the event
                await anyio.sleep(rest)
        finally:
            self._armed = True
        self._application.invalidate()

    # Drawing

    def _make_application(self) -> Application[None]:
        tail = Window(FormattedTextControl(self._tail), wrap_lines=True, dont_extend_height=True)
        plan = Window(FormattedTextControl(self._plan_text), dont_extend_height=True)
        status = Window(FormattedTextControl(self._status_text), height=1, style="class:chat.status")
        body = HSplit(
            [
                ConditionalContainer(tail, Condition(lambda: bool(self._tail()))),
                ConditionalContainer(plan, Condition(lambda: self._plan is not None)),
                DynamicContainer(lambda: self._lower),
                status,
            ]
        )
        menu = Float(CompletionsMenu(max_height=6), xcursor=True, ycursor=True)
        application: Application[None] = Application(
            layout=Layout(FloatContainer(body, [menu]), focused_element=self._box),
            key_bindings=self._keys(),
            style=Style.from_dict({**MENU_STYLE, "chat.status": "ansibrightblack", "chat.tail": ""}),
            color_depth=color_depth(),
            erase_when_done=True,
            input=self._input,
            output=self._output,
        )
        application.ttimeoutlen = application.timeoutlen = ESCAPE_WAIT
        application.key_processor.before_key_press += self._note_key
        return application

    def _note_key(self, _processor: object) -> None:
        self._last_key = time.monotonic()

    def _tail(self) -> StyleAndTextTuples:
        text = safe_text((self._blocks.tail or self._thought)[-LONGEST_TAIL:])
        lines = text.split("\n")[-TAIL_LINES:]
        return [("class:chat.tail", "\n".join(lines)[-TAIL_LINES * self._width :])] if text.strip() else []

    def _plan_text(self) -> StyleAndTextTuples:
        lines = plan_lines(self._plan) if self._plan is not None else []
        return [("class:chat.status", "\n".join(lines[:PLAN_LINES]))]

    def _status_text(self) -> StyleAndTextTuples:
        status = self._status
        state = "working, Ctrl-C cancels" if self._is_busy else "/help"
        parts = [status.agent, status.title, status.mode, status.usage, state]
        return [("", one_line(" · ".join(part for part in parts if part))[: self._width])]

    # Keys

    def _accept(self, buffer: Buffer) -> bool:
        try:
            self._submit.send_nowait(buffer.text)
        except (anyio.WouldBlock, anyio.ClosedResourceError):
            return True
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        in_box = Condition(lambda: self._application.layout.has_focus(self._box))

        @keys.add(Keys.ControlC)
        def _interrupt(_event: KeyPressEvent) -> None:
            self._on_interrupt()

        @keys.add(Keys.ControlD, filter=in_box & Condition(lambda: not self._box.text))
        def _end(_event: KeyPressEvent) -> None:
            self.leave()

        @keys.add(Keys.Enter, filter=in_box)
        def _send(_event: KeyPressEvent) -> None:
            self._box.validate_and_handle()

        @keys.add(Keys.Escape, Keys.Enter, filter=in_box)
        def _new_line(_event: KeyPressEvent) -> None:
            self._box.insert_text("\n")

        return keys


class _ShownSafely(Processor):
    """Shows what is in a box as everything else is shown, and leaves the text itself as it is."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """See `Processor`."""
        shown: StyleAndTextTuples = []
        places, width = [], 0
        for style, char, *_ in explode_text_fragments(transformation_input.fragments):
            text = safe_text(char)
            shown.append((style, text))
            places.append(width)
            width += len(text)

        def to_display(position: int) -> int:
            return places[position] if position < len(places) else width + position - len(places)

        def to_source(position: int) -> int:
            beyond = max(position - width, 0)
            return max(bisect.bisect_right(places, position) - 1, 0) if not beyond else len(places) + beyond

        return Transformation(shown, to_display, to_source)


class _Commands(Completer):
    """Completes a command at the beginning of the box."""

    def __init__(self, words: Callable[[], Mapping[str, str]]) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text
        if text.startswith("/") and " " not in text and "\n" not in text:
            for name, description in self._words().items():
                if name.startswith(text[1:]):
                    label, meta = one_line(f"/{name}"), one_line(description)
                    yield Completion(f"/{name}", -len(text), display=label, display_meta=meta)


_EXITS = "Enter: next · Ctrl-D: decline · Esc: cancel"


def _exits(leave: Callable[[Unchosen], object]) -> KeyBindings:
    """The keys by which a line of text is left as a menu is, where `d` is a letter."""
    keys = KeyBindings()

    @keys.add(Keys.Escape, eager=True)
    def _cancel(_event: KeyPressEvent) -> None:
        leave(Unchosen.CANCELLED)

    @keys.add(Keys.ControlD, eager=True)
    def _decline(_event: KeyPressEvent) -> None:
        leave(Unchosen.DECLINED)

    return keys
