"""An agent's standard error: all of it is read, what the log can take is logged, the rest is counted."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

import pytest

from acpremote.transport.stderr import (
    BYTES_PER_SECOND,
    LINE_LIMIT,
    LINES_PER_SECOND,
    TAIL_LINES,
    StderrLog,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Gives what was logged so far of the agent's own words."""
    caplog.set_level(logging.INFO)
    return lambda: [said.removeprefix("agent 7: ") for said in messages(caplog) if "left out" not in said]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def left_out(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [int(found[1]) for said in messages(caplog) if (found := re.search(r"left out (\d+) lines", said))]


Logged = Callable[[], list[str]]


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_every_line_is_logged_however_it_arrives(step: int, logged: Logged) -> None:
    log = StderrLog(7, shown=True)
    data = "first\n\nthird é\n  with \x1b[31mcolour\x1b[0m and\ttab\r\nlast".encode()
    for start in range(0, len(data), step):
        log.data_received(data[start : start + step])
    log.connection_lost(None)
    assert logged() == ["first", "", "third é", "  with  [31mcolour [0m and tab", "last"]
    assert log.tail == logged()


async def test_a_line_without_end_is_logged_in_pieces(logged: Logged) -> None:
    log = StderrLog(7, shown=True)
    for _ in range(10):
        log.data_received(b"x" * 1000)
    log.connection_lost(None)
    assert [len(line) for line in logged()] == [LINE_LIMIT, LINE_LIMIT, 10_000 - 2 * LINE_LIMIT]


async def test_a_long_line_is_logged_cut(logged: Logged) -> None:
    log = StderrLog(7, shown=True)
    log.data_received(b"y" * 10_000 + b"\nz\n")
    assert logged() == ["y" * LINE_LIMIT, "z"]


@pytest.mark.parametrize("lines_at_once", [1, 77, 10_000])
async def test_of_a_flood_the_first_lines_are_logged_and_the_others_counted(
    lines_at_once: int, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    log = StderrLog(7, shown=True)
    lines = [b"line %d" % number for number in range(10_000)]
    for start in range(0, len(lines), lines_at_once):
        log.data_received(b"\n".join([*lines[start : start + lines_at_once], b""]))
    log.connection_lost(None)
    assert logged() == [line.decode() for line in lines[:LINES_PER_SECOND]]
    assert left_out(caplog) == [10_000 - LINES_PER_SECOND]
    assert log.tail == [line.decode() for line in lines[-TAIL_LINES:]]


async def test_long_lines_are_bounded_by_their_bytes(
    logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    log = StderrLog(7, shown=True)
    log.data_received((b"x" * LINE_LIMIT + b"\n") * 1000)
    log.connection_lost(None)
    assert len(logged()) == BYTES_PER_SECOND // LINE_LIMIT
    assert left_out(caplog) == [1000 - BYTES_PER_SECOND // LINE_LIMIT]


async def test_the_next_second_has_a_budget_of_its_own(
    logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    log = StderrLog(7, shown=True)
    log.data_received(b"a\n" * 1000)
    async with asyncio.timeout(10):
        while not left_out(caplog):  # nothing more has to come for it to be said
            await asyncio.sleep(0.02)
    log.data_received(b"b\n" * 1000)
    log.connection_lost(None)
    assert logged() == ["a"] * LINES_PER_SECOND + ["b"] * LINES_PER_SECOND
    assert left_out(caplog) == [1000 - LINES_PER_SECOND] * 2


async def test_what_is_not_shown_leaves_its_tail_and_no_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    log = StderrLog(7, shown=False)
    log.data_received(b"".join(b"%d\n" % number for number in range(10_000)) + b"last")
    log.connection_lost(None)
    assert log.tail == [*(str(number) for number in range(9981, 10_000)), "last"]
    assert not messages(caplog)
