"""The control messages of the acpremote link: their fields, their bytes, their limits.

They travel as binary WebSocket messages that hold a JSON object with a `type`, so that a browser can take
part; data travels as text. Types that are not known are ignored, so that later versions can add some.
`journal.py` says when each is sent.

    hello    client, first          which link (none: a new one), its secret, what was received, the limits
    welcome  server, the answer     the link, its secret when it is new, what was received, the limits
    refused  server, the answer     the link cannot be had; close code 4004 follows
    ack      either                 every frame up to `n` was taken
    end      either, once, last     why the sender ends the link; it takes the number after its last frame
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec

from ..ending import Ending, EndingKind
from ..errors import RemoteProtocolError

__all__ = ["Ack", "Control", "End", "Hello", "Refused", "Welcome", "encode", "parse"]

MAX_CONTROL_BYTES = 64 * 1024
"""Longest control message that is looked at."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
"""A counter; every JSON implementation keeps integers up to this one exactly."""
Size = Annotated[int, msgspec.Meta(ge=1024, le=2**53 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class _Message(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True, kw_only=True):
    """Shows itself by its type alone: some hold the secret."""

    def __repr__(self) -> str:
        return f"<{self.__struct_config__.tag}>"


class Hello(_Message, frozen=True, tag="hello"):
    """Asks for a new link, or for an old one by `link` and `secret`."""

    window: Size
    """Bytes that may be on their way to this client unacknowledged."""
    max_size: Size
    """Longest message this client accepts."""
    link: Name | None = None
    secret: Name | None = None
    received: Number = 0
    """Number of the last frame this client took."""
    attempt: Number = 0
    """Rises with every try to resume; a try that is not above all before it came late, or is a replay."""


class Welcome(_Message, frozen=True, tag="welcome"):
    """Grants a link. `secret` is None on a resume; `grace` is in seconds, 0 if the link cannot be resumed."""

    link: Name
    window: Size
    max_size: Size
    grace: Annotated[float, msgspec.Meta(ge=0)]
    secret: Name | None = None
    received: Number = 0
    remote_cwd: str | None = None


class Refused(_Message, frozen=True, tag="refused"):
    """Says that there is no link for this hello."""

    reason: str = ""


class Ack(_Message, frozen=True, tag="ack"):
    """Says that every frame up to number `n` was taken."""

    n: Number


class End(_Message, frozen=True, tag="end"):
    """Ends the link in an orderly way."""

    kind: str
    status: int | None = None
    reason: str = ""

    @classmethod
    def from_ending(cls, ending: Ending) -> End:
        """Writes an ending down."""
        return cls(kind=ending.kind.value, status=ending.status, reason=ending.reason)

    @property
    def ending(self) -> Ending:
        """The ending that is meant; a kind from a later version counts as a lost link."""
        known = {kind.value for kind in EndingKind}
        kind = EndingKind(self.kind) if self.kind in known else EndingKind.LOST
        return Ending(kind, self.reason, self.status)


Control: TypeAlias = Hello | Welcome | Refused | Ack | End
_Any = TypeVar("_Any")


class _Head(msgspec.Struct):
    type: str


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)
_decoder = msgspec.json.Decoder(Control)
_TYPES = {"hello", "welcome", "refused", "ack", "end"}


def encode(message: Control) -> bytes:
    """The message's bytes."""
    return _encoder.encode(message)


def parse(data: bytes) -> Control | None:
    """Reads a control message; None if its type is not known.

    Raises:
        RemoteProtocolError: it is too long, no JSON object with a type, or a field is missing or absurd.
    """
    if len(data) > MAX_CONTROL_BYTES:
        raise RemoteProtocolError(f"a control message of {len(data)} bytes; {MAX_CONTROL_BYTES} are allowed")
    if _decode(_head, data).type not in _TYPES:
        return None
    return _decode(_decoder, data)


def _decode(decoder: msgspec.json.Decoder[_Any], data: bytes) -> _Any:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"not a control message: {error}") from error
