"""The policy seam: what may be edited or refused on its way through a link.

A relay without a policy passes everything. A policy names the methods it is concerned with; only frames
with those are given to it, the rest never leaves the fast path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .envelope import Envelope
from .side import Side

__all__ = ["PASS", "Policy", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
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
