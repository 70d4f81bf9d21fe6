"""The link's state machine: events in, commands out. No I/O, no clock.

It owns the tables of open requests and the order of leave-taking: before a link finishes, every request
that was passed on and not answered is answered with an error.

    OPEN ── client closed (a mirror's stdin) ──► DRAINING ── last reply, or time is up ──► FINISHED
      └──── agent closed, client closed, stopped ──────────────────────────────────────────►┘

An event is a method call; it returns commands, which the caller performs in order:
`Send` and `Note` at any time, `Drain` once at most (start the drain timer), `Finish` once, last.
After `Finish` every event returns nothing. `pump.py` performs the commands; read it next.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ..ending import Ending, EndingKind
from . import noise
from .batch import Batch
from .envelope import (
    INVALID_REQUEST,
    MISSING,
    PARSE_ERROR,
    REQUEST_LOST,
    Envelope,
    InvalidFrame,
    Kind,
    error_frame,
    peek,
    peek_all,
)
from .policy import PASS, Policy
from .requests import OpenRequests
from .side import Side

__all__ = ["Command", "Drain", "Finish", "Note", "Relay", "Send"]


class Send(msgspec.Struct, frozen=True):
    """Send these frames to that side."""

    side: Side
    frames: Sequence[bytes]


class Note(msgspec.Struct, frozen=True):
    """Tell the operator; the text holds no message content."""

    text: str


class Drain(msgspec.Struct, frozen=True):
    """Start the drain timer: the client will send nothing more, its replies are still to come."""


class Finish(msgspec.Struct, frozen=True):
    """Close both channels with this ending. Nothing follows."""

    ending: Ending


Command: TypeAlias = Send | Note | Drain | Finish


class _State(enum.Enum):
    OPEN = enum.auto()
    DRAINING = enum.auto()
    FINISHED = enum.auto()


class Relay:
    """Decides what happens to every frame of one link."""

    def __init__(self, *, policy: Policy = PASS, drains: bool = False) -> None:
        """`drains`: the client can still be written to after it closed its input (a stdin at its end)."""
        self._policy = policy
        self._drains = drains
        self._state = _State.OPEN
        self._open = {Side.CLIENT: OpenRequests(), Side.AGENT: OpenRequests()}
        self.frames = {Side.CLIENT: 0, Side.AGENT: 0}
        """Frames received from each side, noise included."""

    @property
    def open_requests(self) -> int:
        """How many requests of the client wait for an answer."""
        return self._open[Side.CLIENT].count

    @property
    def is_idle(self) -> bool:
        """Whether neither side waits for an answer."""
        return not any(each.count for each in self._open.values())

    def frames_received(self, side: Side, frames: Sequence[bytes]) -> list[Command]:
        """Takes a batch in; the usual answer is one `Send` of the same batch to the other side."""
        if self._state is _State.FINISHED or not frames:
            return []
        batch = Batch.of(frames)
        self.frames[side] += batch.lines
        others: list[Command] = []
        envelopes = peek_all(batch)
        passed = (
            self._judge_singly(side, batch, others)
            if envelopes is None
            else self._judge_batch(side, batch, envelopes, others)
        )
        commands: list[Command] = [Send(side.other, passed), *others] if passed else others
        if self._state is _State.DRAINING and not self._open[Side.CLIENT].count:
            commands += self._finish(Ending(EndingKind.DONE, "the client left and everything was answered"))
        return commands

    def _judge_batch(
        self, side: Side, batch: Batch, envelopes: list[Envelope], others: list[Command]
    ) -> Sequence[bytes]:
        """A busy batch is mostly notifications of one method: what passed once is not judged again."""
        passing: Raw | None = None
        changed: dict[int, bytes | None] = {}
        for index, envelope in enumerate(envelopes):
            if envelope.id is MISSING and envelope.method == passing:
                continue
            if not self._passes(side, envelope):
                changed[index] = self._judge(side, batch[index], envelope, others)
            elif envelope.kind is Kind.NOTIFICATION:
                passing = envelope.method
        if not changed:
            return batch
        edited = (changed.get(index, frame) for index, frame in enumerate(batch))
        return [frame for frame in edited if frame is not None]

    def _judge_singly(self, side: Side, batch: Batch, others: list[Command]) -> Sequence[bytes]:
        frames, passed = batch.frames, list[bytes]()
        if side is Side.AGENT:
            frames, junk = noise.sift(frames)
            if junk:
                others.append(Note(noise.describe(junk)))
        for frame in frames:
            if not noise.is_utf8(frame):
                self._not_utf8(side, frame, others)
                continue
            try:
                envelope = peek(frame)
            except InvalidFrame as error:
                self._invalid(side, frame, error, passed, others)
                continue
            self._pass(side, frame, envelope, passed, others)
        return passed

    def _pass(
        self, side: Side, frame: bytes, envelope: Envelope, passed: list[bytes], others: list[Command]
    ) -> None:
        judged = frame if self._passes(side, envelope) else self._judge(side, frame, envelope, others)
        if judged is not None:
            passed.append(judged)

    def _passes(self, side: Side, envelope: Envelope) -> bool:
        """Takes in a frame that passes as it is; False if it has to be judged."""
        if envelope.method is MISSING:
            if envelope.kind is None:
                return False
            self._open[side.other].settle(envelope)
            return True
        raw_method = bytes(envelope.method)
        if not raw_method.startswith(b'"') or self._policy.concerns(raw_method):
            return False
        return envelope.id is MISSING or self._register(side, envelope)

    def _judge(self, side: Side, frame: bytes, envelope: Envelope, others: list[Command]) -> bytes | None:
        """Decides about every other frame: gives what is passed on in its place."""
        kind = envelope.kind
        if kind is None:
            return self._no_message(side, frame, envelope, others)
        raw_method = bytes(envelope.method)
        if side is Side.CLIENT and not raw_method.startswith(b'"'):
            self._refuse(side, b"null", INVALID_REQUEST, "the method is not a string", others)
            return None
        forward: bytes | None = frame
        if self._policy.concerns(raw_method):
            verdict = self._policy.judge(side, frame, envelope)
            if verdict.note is not None:
                others.append(Note(verdict.note))
            if verdict.answer is not None:
                others.append(Send(side, [verdict.answer]))
            forward = verdict.forward
        if forward is not None and kind is Kind.REQUEST and not self._register(side, envelope):
            self._refuse(side, bytes(envelope.id), REQUEST_LOST, self._no_room(side), others)
            return None
        return forward

    def _register(self, side: Side, envelope: Envelope) -> bool:
        if side is Side.AGENT and self._state is _State.DRAINING:
            return False
        raw_id = bytes(envelope.id)
        table = self._open[side]
        if not table.has_room(raw_id):
            return False
        table.open(envelope, raw_id)
        return True

    def _no_room(self, side: Side) -> str:
        if side is Side.AGENT and self._state is _State.DRAINING:
            return "the client has gone"
        return f"{self._open[side].count} requests are open already; with this id there would be too many"

    def _refuse(self, side: Side, raw_id: bytes, code: int, message: str, others: list[Command]) -> None:
        others.append(Send(side, [error_frame(raw_id, code, message)]))

    def _not_utf8(self, side: Side, frame: bytes, others: list[Command]) -> None:
        if side is Side.CLIENT:
            self._refuse(side, b"null", PARSE_ERROR, "the message is not UTF-8", others)
        else:
            others.append(Note(f"the agent wrote a line that is not UTF-8, dropped ({noise.preview(frame)})"))

    def _invalid(
        self, side: Side, frame: bytes, error: InvalidFrame, passed: list[bytes], others: list[Command]
    ) -> None:
        if side is Side.CLIENT:
            self._refuse(side, b"null", error.code, str(error), others)
            return
        found = noise.salvage(frame)
        for member, envelope in found:
            self._pass(side, member, envelope, passed, others)
        if not found:
            others.append(Note(noise.describe([frame])))

    def _no_message(
        self, side: Side, frame: bytes, envelope: Envelope, others: list[Command]
    ) -> bytes | None:
        """A JSON object without method, result and error."""
        if side is Side.AGENT and not envelope.is_noise:
            return frame
        if side is Side.CLIENT:
            self._refuse(side, b"null", INVALID_REQUEST, "the object is no JSON-RPC message", others)
        else:
            others.append(Note(noise.describe([frame])))
        return None

    def side_closed(self, side: Side, ending: Ending) -> list[Command]:
        """Takes in that no frame will come from `side` any more."""
        if self._state is not _State.OPEN and (self._state is _State.FINISHED or side is Side.CLIENT):
            return []
        if side is Side.AGENT:
            return self._finish(self._with_unanswered(ending))
        if not self._drains or not self._open[Side.CLIENT].count:
            return self._finish(ending)
        self._state = _State.DRAINING
        return [*self._settle_all(Side.AGENT, Ending(EndingKind.CLIENT_LEFT, "the client has gone")), Drain()]

    def undeliverable(self, side: Side, frames: Sequence[bytes], ending: Ending) -> list[Command]:
        """Takes in that frames could not be sent to `side`.

        An agent that closed its input may still say something and tell its exit status: only the requests
        that it never got are answered now. Every other failure to deliver finishes the link.
        """
        if self._state is _State.FINISHED:
            return []
        if side is Side.CLIENT or ending.kind is EndingKind.STALLED:
            return self.stopped(ending)
        lost: list[bytes] = []
        for frame in frames:
            envelope = peek(frame)
            if envelope.kind is Kind.REQUEST and self._open[Side.CLIENT].settle(envelope):
                lost.append(_lost(bytes(envelope.id), ending))
        return [Send(Side.CLIENT, lost)] if lost else []

    def stopped(self, ending: Ending) -> list[Command]:
        """Takes in that the link must end now: a shutdown, a stall, the drain timer."""
        if self._state is _State.FINISHED:
            return []
        if self._state is _State.DRAINING:
            ending = self._with_unanswered(ending)
        return self._finish(ending)

    def _with_unanswered(self, ending: Ending) -> Ending:
        count = self._open[Side.CLIENT].count
        if not count or not ending.is_orderly:
            return ending
        what = "1 request was" if count == 1 else f"{count} requests were"
        return Ending(EndingKind.UNANSWERED, f"{ending}; {what} left unanswered", ending.status)

    def _finish(self, ending: Ending) -> list[Command]:
        self._state = _State.FINISHED
        gone = ending
        if ending.kind is EndingKind.CLIENT_LEFT:
            gone = Ending(EndingKind.CLIENT_LEFT, "the client has gone")
        return [
            *self._settle_all(Side.CLIENT, gone),
            *self._settle_all(Side.AGENT, gone),
            Finish(ending),
        ]

    def _settle_all(self, side: Side, ending: Ending) -> list[Command]:
        """Answers every open request of `side` with an error."""
        frames = [_lost(raw_id, ending) for raw_id in self._open[side].take_all()]
        return [Send(side, frames)] if frames else []


def _lost(raw_id: bytes, ending: Ending) -> bytes:
    data = {"ending": ending.kind.value, "status": ending.status}
    return error_frame(raw_id, REQUEST_LOST, f"no answer will come: {ending}", data)
