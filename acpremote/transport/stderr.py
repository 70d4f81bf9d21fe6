"""An agent's standard error: always drained, put into our log line by line, its last lines kept.

An agent may write more than a log can take, and every line costs the loop that serves all links as much as a
message does. So there is a budget a second; what is over it is counted, not logged, and the count is.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from collections.abc import Sequence

__all__ = ["StderrLog"]

logger = logging.getLogger(__name__)

TAIL_LINES = 20
LINE_LIMIT = 4096
"""Bytes of a line that are logged; a line without end is logged in pieces of this length."""

LINES_PER_SECOND = 500
"""Lines of one agent that are logged in a second: room for any traceback, 1 % of a processor."""

BYTES_PER_SECOND = 256 * 1024
"""Bytes of one agent that are logged in a second."""


class StderrLog(asyncio.Protocol):
    """Logs what one agent writes, if `shown`, and keeps its tail in any case."""

    def __init__(self, process_id: int, *, shown: bool) -> None:
        self._process_id = process_id
        self._shown = shown
        self._rest = b""
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)
        self._lines = self._bytes = 0
        self._left_out = 0
        self._second: asyncio.TimerHandle | None = None

    @property
    def tail(self) -> list[str]:
        """The last lines."""
        return [_text(line) for line in self._tail]

    def data_received(self, data: bytes) -> None:
        """Logs the lines that are complete."""
        whole, end, rest = (self._rest + data).rpartition(b"\n")
        if end:
            self._take(whole)
        while len(rest) >= LINE_LIMIT:  # memory stays bounded
            self._take(rest[:LINE_LIMIT])
            rest = rest[LINE_LIMIT:]
        self._rest = rest

    def connection_lost(self, exc: Exception | None) -> None:
        """Logs what is left."""
        if self._rest:
            self._take(self._rest)
        self._new_second()

    def _take(self, lines: bytes) -> None:
        """Takes in lines that are joined by LF; those beyond the budget are not even taken apart."""
        if not self._shown:
            self._tail.extend(_last(lines))
            return
        if self._second is None:
            self._second = asyncio.get_running_loop().call_later(1, self._new_second)
        start = 0
        while start <= len(lines) and self._has_room:
            end = lines.find(b"\n", start)
            end = len(lines) if end < 0 else end
            self._log(lines[start:end])
            start = end + 1
        if start <= len(lines):
            self._left_out += lines.count(b"\n", start) + 1
            self._tail.extend(_last(lines[start:]))

    @property
    def _has_room(self) -> bool:
        return self._lines < LINES_PER_SECOND and self._bytes < BYTES_PER_SECOND

    def _log(self, line: bytes) -> None:
        line = line[:LINE_LIMIT]
        self._lines += 1
        self._bytes += len(line)
        self._tail.append(line)
        logger.info("agent %d: %s", self._process_id, _text(line))

    def _new_second(self) -> None:
        if self._left_out:
            logger.info(
                "agent %d: left out %d lines of its standard error, over %d lines or %d kB in a second",
                self._process_id,
                self._left_out,
                LINES_PER_SECOND,
                BYTES_PER_SECOND // 1024,
            )
        if self._second is not None:
            self._second.cancel()
        self._second = None
        self._lines = self._bytes = self._left_out = 0


def _last(lines: bytes) -> Sequence[bytes]:
    last = lines.rsplit(b"\n", TAIL_LINES)[-TAIL_LINES:]
    return [line[:LINE_LIMIT] for line in last]


def _text(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip()
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
