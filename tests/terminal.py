"""A real pseudo-terminal for tests: a process behind it, and a screen that understands what it draws."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pexpect
import pyte

__all__ = ["Terminal", "terminal"]

PATIENCE = 20.0
"""Seconds until a test gives up on a screen."""


class _Screen(pyte.HistoryScreen):
    """Answers the cursor position requests that prompt_toolkit makes."""

    process: Any = None

    def write_process_input(self, data: str) -> None:
        self.process.send(data)


class Terminal:
    """A command in a terminal of `columns` by `lines`."""

    def __init__(
        self, command: Sequence[str], columns: int, lines: int, environment: Mapping[str, str]
    ) -> None:
        self._process = pexpect.spawn(
            command[0],
            list(command[1:]),
            dimensions=(lines, columns),
            env={**os.environ, "TERM": "xterm-256color", **environment},
            encoding=None,
        )
        self._process.delaybeforesend = None
        self._screen = _Screen(columns, lines, history=5000, ratio=0.5)
        self._screen.process = self._process
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        """Everything that was written to the terminal."""

    @property
    def screen(self) -> str:
        """What is to be seen now, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def everything(self) -> str:
        """What scrolled out above, and the screen."""
        above = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*above, self.screen])

    def send(self, keys: str) -> None:
        """Types keys, all in one write."""
        self._process.send(keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Changes the size, which signals the process."""
        self._screen.resize(lines, columns)
        self._process.setwinsize(lines, columns)

    def wait_for(self, *texts: str, absent: str = "\0", last_lines: int = 10_000) -> str:
        """Reads until all texts are in the last lines that were shown, and `absent` is not on the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            seen = "\n".join(self.everything.split("\n")[-last_lines:])
            if all(text in seen for text in texts) and absent not in self.screen:
                return seen
            if time.monotonic() > deadline:
                raise AssertionError(f"not seen: {texts} (absent: {absent}) in:\n{seen}\n{self.raw!r}")
            if not self._read():
                raise AssertionError(f"ended before {texts} in:\n{self.everything}\n{self.raw!r}")

    def wait_closed(self) -> int:
        """Reads to the end and returns the exit status, negative for a signal."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            if time.monotonic() > deadline:
                raise AssertionError(f"did not end:\n{self.everything}")
        self._process.wait()
        status = self._process.exitstatus
        return int(status) if status is not None else -int(self._process.signalstatus)

    def kill(self, number: int) -> None:
        """Sends a signal to the process."""
        self._process.kill(number)

    def close(self) -> None:
        """Ends the process, if it still runs."""
        self._process.close(force=True)

    def _read(self) -> bool:
        try:
            data = self._process.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True


@contextmanager
def terminal(
    *command: str, columns: int = 80, lines: int = 24, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Runs a command in a terminal, and ends it."""
    opened = Terminal(command, columns, lines, environment or {})
    try:
        yield opened
    finally:
        opened.close()
