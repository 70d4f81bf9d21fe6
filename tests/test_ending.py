"""Endings map to close codes, exit statuses and log levels in one table."""

from __future__ import annotations

import pytest

from acpremote.ending import MAX_REASON_BYTES, Ending, EndingKind, ExitStatus


@pytest.mark.parametrize("kind", EndingKind)
def test_every_kind_has_a_row(kind: EndingKind) -> None:
    ending = Ending(kind)
    assert ending.close_code
    assert isinstance(ending.exit_status, ExitStatus)
    assert ending.log_level
    assert str(ending)


@pytest.mark.parametrize("kind", set(EndingKind) - {EndingKind.DONE, EndingKind.CLIENT_LEFT})
def test_a_failure_never_looks_like_success(kind: EndingKind) -> None:
    assert Ending(kind).close_code != 1000
    assert Ending(kind).exit_status is not ExitStatus.OK
    assert not Ending(kind).is_orderly


def test_a_strangers_reason_cannot_forge_a_line_or_move_the_cursor() -> None:
    forged = Ending.from_close(4999, "bye\nacpremote: link 2: ended\x1b[2J\u2028\u202e\x9b")
    assert str(forged) == forged.close_reason == "bye?acpremote: link 2: ended?[2J???"


def test_a_close_reason_is_cut_at_a_character_boundary() -> None:
    reason = Ending(EndingKind.AGENT_FAILED, "é" * 100).close_reason
    assert reason == "é" * (MAX_REASON_BYTES // 2)


@pytest.mark.parametrize(
    ("code", "from_server", "from_client"),
    [
        (1000, EndingKind.DONE, EndingKind.CLIENT_LEFT),
        (1001, EndingKind.SHUTDOWN, EndingKind.CLIENT_LEFT),
        (1005, EndingKind.DONE, EndingKind.CLIENT_LEFT),
        (1006, EndingKind.LOST, EndingKind.LOST),
        (1009, EndingKind.TOO_BIG, EndingKind.TOO_BIG),
        (1011, EndingKind.AGENT_FAILED, EndingKind.LOST),
        (4001, EndingKind.REPLACED, EndingKind.REPLACED),
        (4999, EndingKind.LOST, EndingKind.LOST),
    ],
)
def test_a_close_code_names_an_ending(code: int, from_server: EndingKind, from_client: EndingKind) -> None:
    assert Ending.from_close(code, "").kind is from_server
    assert Ending.from_close(code, "", by_client=True).kind is from_client
