"""Why a link ended, and what follows from it.

Owns the one table that maps an ending to a WebSocket close code, a process exit status and a log level.
Must never import anything of this package. Read `errors.py` next.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["MAX_REASON_BYTES", "Ending", "EndingKind", "ExitStatus"]

MAX_REASON_BYTES = 123
"""Longest close reason in bytes of UTF-8 (RFC 6455 section 5.5.1: 125 bytes less the code)."""


class ExitStatus(enum.IntEnum):
    """Exit statuses of every command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    REFUSED = 4
    AGENT_FAILED = 5
    LINK_LOST = 6
    INTERRUPTED = 130
    TERMINATED = 143


class EndingKind(enum.Enum):
    """Kinds of endings; the value is the word used on the wire and in logs."""

    DONE = "done"
    AGENT_FAILED = "agent_failed"
    UNANSWERED = "unanswered"
    CLIENT_LEFT = "client_left"
    SHUTDOWN = "shutdown"
    LOST = "lost"
    NOT_UTF8 = "not_utf8"
    PROTOCOL = "protocol"
    POLICY = "policy"
    STALLED = "stalled"
    TOO_BIG = "too_big"
    REPLACED = "replaced"
    NO_SUCH_LINK = "no_such_link"
    REFUSED = "refused"
    CANNOT_CONNECT = "cannot_connect"
    INTERNAL = "internal"


class _Row(NamedTuple):
    close_code: int
    exit_status: ExitStatus
    log_level: int


_TABLE = {
    EndingKind.DONE: _Row(1000, ExitStatus.OK, logging.INFO),
    EndingKind.AGENT_FAILED: _Row(1011, ExitStatus.AGENT_FAILED, logging.WARNING),
    EndingKind.UNANSWERED: _Row(1011, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.CLIENT_LEFT: _Row(1000, ExitStatus.OK, logging.INFO),
    EndingKind.SHUTDOWN: _Row(1001, ExitStatus.LINK_LOST, logging.INFO),
    EndingKind.LOST: _Row(1011, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.NOT_UTF8: _Row(1007, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.PROTOCOL: _Row(1002, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.POLICY: _Row(1008, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.STALLED: _Row(1008, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.TOO_BIG: _Row(1009, ExitStatus.LINK_LOST, logging.WARNING),
    EndingKind.REPLACED: _Row(4001, ExitStatus.LINK_LOST, logging.INFO),
    EndingKind.NO_SUCH_LINK: _Row(4004, ExitStatus.LINK_LOST, logging.INFO),
    EndingKind.REFUSED: _Row(1008, ExitStatus.REFUSED, logging.WARNING),
    EndingKind.CANNOT_CONNECT: _Row(1011, ExitStatus.CANNOT_CONNECT, logging.ERROR),
    EndingKind.INTERNAL: _Row(1011, ExitStatus.INTERNAL, logging.ERROR),
}

_VERDICTS = {
    1002: EndingKind.PROTOCOL,
    1003: EndingKind.PROTOCOL,
    1007: EndingKind.NOT_UTF8,
    1008: EndingKind.POLICY,
    1009: EndingKind.TOO_BIG,
    4001: EndingKind.REPLACED,
    4004: EndingKind.NO_SUCH_LINK,
}
_FROM_SERVER = {
    1000: EndingKind.DONE,
    1001: EndingKind.SHUTDOWN,
    1005: EndingKind.DONE,
    1011: EndingKind.AGENT_FAILED,
    **_VERDICTS,
}
_FROM_CLIENT = {
    1000: EndingKind.CLIENT_LEFT,
    1001: EndingKind.CLIENT_LEFT,
    1005: EndingKind.CLIENT_LEFT,
    **_VERDICTS,
}


@dataclass(frozen=True, slots=True)
class Ending:
    """Says why a link ended.

    `reason` is a sentence for people. It may be a stranger's and go to a terminal or a log, so control
    characters in it become `?`. `status` is the agent's exit status, negative for a signal number, or None
    when it is unknown or does not apply.
    """

    kind: EndingKind
    reason: str = ""
    status: int | None = None

    def __post_init__(self) -> None:
        if not self.reason.isprintable():
            shown = "".join(character if character.isprintable() else "?" for character in self.reason)
            object.__setattr__(self, "reason", shown)

    @classmethod
    def from_close(cls, code: int, reason: str, *, by_client: bool = False) -> Ending:
        """Names what a peer's close code and reason say (RFC 6455 section 7.4.1)."""
        kinds = _FROM_CLIENT if by_client else _FROM_SERVER
        return cls(kinds.get(code, EndingKind.LOST), reason or f"the connection was closed with code {code}")

    @property
    def close_code(self) -> int:
        """WebSocket close code to send for this ending."""
        return _TABLE[self.kind].close_code

    @property
    def close_reason(self) -> str:
        """The reason, cut to `MAX_REASON_BYTES` of UTF-8 at a character boundary."""
        return self.reason.encode("utf-8", "replace")[:MAX_REASON_BYTES].decode("utf-8", "ignore")

    @property
    def exit_status(self) -> ExitStatus:
        """Exit status of a command whose link ended like this."""
        return _TABLE[self.kind].exit_status

    @property
    def log_level(self) -> int:
        """Level at which the ending is logged."""
        return _TABLE[self.kind].log_level

    @property
    def is_orderly(self) -> bool:
        """Whether nothing was lost: both sides finished."""
        return self.exit_status is ExitStatus.OK

    def __str__(self) -> str:
        return self.reason or self.kind.value.replace("_", " ")
