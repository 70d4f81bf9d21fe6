"""The gate for routes of the unstable protocol: a mirror without `--unstable-protocol` has none of them.

It stands for receiving routes that are not registered, so an agent gets the answer that an editor without
them would give. Capabilities are another matter and pass unchanged: what the client announces is its own.
"""

from __future__ import annotations

from .envelope import METHOD_NOT_FOUND, Envelope, Kind
from .policy import MethodSet, Verdict, refuse
from .side import Side
from .splice import DuplicateKey, ObjectView

__all__ = ["UnstableGate"]

_METHODS = MethodSet("elicitation/create", "elicitation/complete")
_HINT = (
    "the agent asked with elicitation/create, which is part of the unstable protocol: "
    "answered 'method not found'; --unstable-protocol (use_unstable_protocol=True) lets it through"
)


class UnstableGate:
    """Answers the agent's `elicitation/create` with -32601 and drops `elicitation/complete`."""

    def __init__(self, hint: str = _HINT) -> None:
        """`hint` is noted once, when the gate first refuses a request."""
        self._hint: str | None = hint

    def concerns(self, raw_method: bytes) -> bool:
        """See `Policy.concerns`."""
        return raw_method in _METHODS

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """See `Policy.judge`. The client's frames pass: the routes are those of the receiving side."""
        if side is not Side.AGENT:
            return Verdict(frame)
        try:
            ObjectView(frame).require_unique("id", "method")
        except DuplicateKey as error:
            return refuse(envelope, str(error))
        if envelope.kind is not Kind.REQUEST:
            return Verdict(None)
        verdict = refuse(envelope, "Method not found", METHOD_NOT_FOUND, {"method": envelope.method_name})
        hint, self._hint = self._hint, None
        return Verdict(None, verdict.answer, hint)
