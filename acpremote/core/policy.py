"""The policy seam: what may be edited or refused on its way through a link.

A relay without a policy passes everything. A policy names the methods it is concerned with; only frames
with those are given to it, the rest never leaves the fast path. The policies are `unstable.py` and
`ownership.py`; this module owns what they share.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from . import scan
from .envelope import INVALID_REQUEST, Envelope, Kind, error_frame
from .side import Side

__all__ = ["PASS", "MethodSet", "Policies", "Policy", "Verdict", "refuse"]


class Verdict(msgspec.Struct, frozen=True):
    """Says what becomes of a frame.

    `forward` is what goes on to the other side: the frame itself, edited bytes, or None for nothing.
    `answer` is a frame to send back to the sender. `note` is a line for the person who runs the relay.
    """

    forward: bytes | None
    answer: bytes | None = None
    note: str | None = None


class Policy(Protocol):
    """Judges frames by their method."""

    def concerns(self, raw_method: bytes) -> bool:
        """Whether frames with this method, spelled as on the wire, must be judged. Called for every frame."""
        ...

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """Decides about one frame that came from `side`."""
        ...


class PassAll:
    """The policy that is concerned with nothing."""

    def concerns(self, raw_method: bytes) -> bool:
        """See `Policy.concerns`."""
        return False

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """See `Policy.judge`."""
        return Verdict(frame)


PASS = PassAll()


class MethodSet:
    """A set of method names that raw spellings are looked up in.

    JSON has many spellings of one name, and encoders in use do write `elicitation\\/create`. Every one
    but the plain one holds a backslash and is at most six bytes a character: only such a method is decoded,
    so that a frame costs a look-up in most cases, and a long method never costs more.
    """

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self._plain = frozenset(f'"{name}"'.encode() for name in names)
        self._longest = 2 + 6 * max(map(len, names), default=0)

    def __contains__(self, raw_method: bytes) -> bool:
        if raw_method in self._plain:
            return True
        if b"\\" not in raw_method or len(raw_method) > self._longest or raw_method[0] != 0x22:
            return False
        return scan.unescape(raw_method) in self._names


MAX_REMEMBERED = 256
"""Spellings of methods that `Policies` remembers; real peers use about forty."""


class Policies:
    """Several policies in a row: each judges what the one before it let through.

    It is asked for every frame, so it remembers its answers; a peer that invents methods without end fills
    the memory once, and from then on its frames cost what they would without.
    """

    def __init__(self, *policies: Policy) -> None:
        self._policies = policies
        self._remembered: dict[bytes, bool] = {}

    def concerns(self, raw_method: bytes) -> bool:
        """See `Policy.concerns`."""
        remembered = self._remembered.get(raw_method)
        if remembered is not None:
            return remembered
        concerned = any(policy.concerns(raw_method) for policy in self._policies)
        if len(self._remembered) < MAX_REMEMBERED and len(raw_method) <= MAX_REMEMBERED:
            self._remembered[raw_method] = concerned
        return concerned

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """See `Policy.judge`. The first refusal is final; notes are joined."""
        notes: list[str] = []
        verdict = Verdict(frame)
        for policy in self._policies:
            if verdict.forward is None or not policy.concerns(bytes(envelope.method)):
                continue
            verdict = policy.judge(side, verdict.forward, envelope)
            notes += [verdict.note] if verdict.note is not None else []
        return Verdict(verdict.forward, verdict.answer, "; ".join(notes) or None)


def refuse(envelope: Envelope, message: str, code: int = INVALID_REQUEST, data: object = None) -> Verdict:
    """Refuses a frame: a request is answered with an error, a notification dropped with a note."""
    if envelope.kind is not Kind.REQUEST:
        return Verdict(None, note=f"a {envelope.method_name} notification was dropped: {message}")
    more = {} if data is None else {"data": data}
    return Verdict(None, answer=error_frame(bytes(envelope.id), code, message, **more))
