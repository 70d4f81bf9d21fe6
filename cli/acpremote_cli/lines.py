"""Lines to standard error from a thread of their own: whoever does not read them holds nobody up.

They are written to the descriptor: a thread that is stuck in Python's own stream would hold its lock, and the
interpreter aborts when it cannot flush that at its end.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from collections.abc import Iterator
from typing import TextIO

__all__ = ["Lines", "lines_to"]

MOST_LINES = 10_000
"""Lines that may wait; further ones are dropped."""

LAST_WORDS = 1.0
"""Seconds that the reader has at the end for what still waits."""


class Lines:
    """A queue of lines and the thread that writes them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_LINES)
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queues a line, or drops it."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def finish(self) -> None:
        """Waits until everything is written, but not for long."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=LAST_WORDS)
            self._thread.join(LAST_WORDS)

    def _run(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has gone, or the stream was closed
            while (line := self._lines.get()) is not None:
                self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            descriptor = self._stream.fileno()
        except OSError:  # no file, but something in memory
            self._stream.write(text)
            return
        view = memoryview(text.encode(self._stream.encoding or "utf-8", "backslashreplace"))
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # it is the same pipe as standard output, or its owner wants it so
                select.select([], [descriptor], [])


@contextlib.contextmanager
def lines_to(stream: TextIO) -> Iterator[Lines]:
    """Writes lines to the stream while the context lasts."""
    lines = Lines(stream)
    try:
        yield lines
    finally:
        lines.finish()
