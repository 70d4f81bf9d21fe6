"""The chat without a terminal: lines in, text out. What a person sees in a pipe, and a script can use."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import anyio
import anyio.to_thread

from acpremote.chat.view import (
    Plan,
    Shown,
    Status,
    TextQuestion,
    Thought,
    TurnStarted,
    View,
    Words,
    WordsEnded,
)
from acpremote.components.display import safe_text
from acpremote.components.menu import Menu, MenuOutcome, Unchosen
from acpremote.components.plain import choose_by_line

from .chat_words import lines_of, plan_lines

__all__ = ["PlainView"]


class PlainView(View):
    """Reads lines of standard input, one prompt each, and waits for a turn before it reads the next."""

    asks_lists = False

    def __init__(self) -> None:
        self.wait_idle: Callable[[], Awaitable[None]] = _at_once
        self._is_mid_line = False

    def show(self, shown: Shown) -> None:
        """See `View.show`."""
        match shown:
            case Words(text):
                self._write(safe_text(text))
            case WordsEnded():
                self._end_line()
            case Plan():
                self._write_lines([f"plan: {'  '.join(plan_lines(shown))}"])
            case Thought() | Status() | TurnStarted():
                pass  # what was typed stands in the terminal or the script already
            case _:
                self._write_lines(line for _, line in lines_of(shown))

    async def lines(self) -> AsyncIterator[str]:
        """See `View.lines`."""
        while True:
            await self.wait_idle()
            line = await self._read_line()
            if line is None:
                return
            yield line

    async def choose(self, menu: Menu) -> MenuOutcome:
        """See `View.choose`."""
        self._end_line()
        return await choose_by_line(menu, self._read_line, self._write)

    async def ask_text(self, question: TextQuestion) -> str | Unchosen:
        """See `View.ask_text`. An empty line takes the default; the end of the input cancels."""
        self._end_line()
        default = f" [{safe_text(question.default)}]" if question.default else ""
        while True:
            self._write(f"{safe_text(question.prompt)} ({safe_text(question.hint)}){default}\n")
            line = await self._read_line()
            if line is None:
                return Unchosen.CANCELLED
            text = line or question.default
            problem = question.check(text)
            if problem is None:
                return text
            self._write(f"{safe_text(problem)}\n")

    def prefill(self, text: str) -> None:
        """See `View.prefill`. There is no box to fill; the person may type it."""
        self._write_lines([f"  (to send it: {safe_text(text)})"])

    def copy(self, text: str) -> None:
        """See `View.copy`. There is no clipboard: the text is shown."""
        self._write_lines(safe_text(text).split("\n"))

    def set_completions(self, words: Mapping[str, str]) -> None:
        """See `View.set_completions`."""

    def _write_lines(self, lines: Iterable[str]) -> None:
        self._end_line()
        for line in lines:
            self._write(f"{line}\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._is_mid_line = not text.endswith("\n")

    async def _read_line(self) -> str | None:
        # The thread is a daemon and is left behind when the chat ends while it waits.
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        return line.rstrip("\r\n") if line else None


async def _at_once() -> None:
    pass
