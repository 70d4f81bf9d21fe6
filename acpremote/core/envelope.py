"""What a frame is, seen from outside: request, notification or response, its id and its method.

Owns the peek and the error frames that we write ourselves. It never rewrites a frame and never looks into
params or result. `scan.py` judges what the fast decoder refuses; read `relay.py` next.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import Raw

from . import scan
from .batch import Batch

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING",
    "PARSE_ERROR",
    "REQUEST_LOST",
    "Envelope",
    "InvalidFrame",
    "Kind",
    "error_frame",
    "is_json",
    "peek",
    "peek_all",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
REQUEST_LOST = -32050
"""Code of the error that settles a request whose answer will never come.

JSON-RPC 2.0 (section 5.1) leaves -32000 to -32099 to implementations; ACP has taken -32000 for
"authentication required", on which editors ask their user to sign in, and -32002.
"""

MISSING = Raw()
"""Stands for an absent member; compared by identity."""

_LARGEST = 2**64
_LARGE_DIGITS = 19


class Kind(enum.Enum):
    """Kinds of JSON-RPC 2.0 messages."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


class InvalidFrame(ValueError):
    """Says that bytes are no JSON-RPC message; `code` is the JSON-RPC error code that fits."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """The top-level members of a message, as the raw bytes they were written in.

    Of duplicate members the last counts, as in every common parser.
    """

    id: Raw = MISSING
    method: Raw = MISSING
    result: Raw = MISSING
    error: Raw = MISSING
    jsonrpc: Raw = MISSING

    @property
    def kind(self) -> Kind | None:
        """What the message is, or None for an object that is no JSON-RPC message."""
        if self.method is not MISSING:
            return Kind.NOTIFICATION if self.id is MISSING else Kind.REQUEST
        if self.result is not MISSING or self.error is not MISSING:
            return Kind.RESPONSE
        return None

    @property
    def is_noise(self) -> bool:
        """Whether the object has none of the members that mark a message (a log line, for instance)."""
        return self.kind is None and self.jsonrpc is MISSING

    @property
    def key(self) -> object:
        """The id as a dictionary key: equal for ids that JSON spells differently (`"a/b"`, `"a\\/b"`)."""
        raw = bytes(self.id)
        if raw.isdigit() and len(raw) < _LARGE_DIGITS:
            return int(raw)
        try:
            value: object = msgspec.json.decode(raw)
            hash(value)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
            return raw
        # The hash of a large number can be chosen, that of bytes cannot: nobody makes the table slow.
        return raw if isinstance(value, int) and abs(value) > _LARGEST else value

    @property
    def method_name(self) -> str | None:
        """The decoded method, or None when it is absent or not a string."""
        raw = bytes(self.method)
        return scan.unescape(raw) if raw.startswith(b'"') else None


_decoder = msgspec.json.Decoder(Envelope)
_decode = _decoder.decode
_skip = msgspec.json.Decoder(Raw).decode


def peek(frame: bytes) -> Envelope:
    """Reads the top-level members of a frame.

    The frame's UTF-8 must have been checked: the fast decoder does not look into strings that it skips.

    Raises:
        InvalidFrame: not JSON (`PARSE_ERROR`), or not an object (`INVALID_REQUEST`).
    """
    try:
        return _decode(frame)
    except RecursionError:
        return _peek_slowly(frame)
    except msgspec.DecodeError as error:
        return _peek_again(frame, error)


def _peek_again(frame: bytes, error: msgspec.DecodeError) -> Envelope:
    """Finds out what the fast decoder refused, without the scanner if possible."""
    is_odd = scan.has_surrogates(frame)
    if not is_odd and not isinstance(error, msgspec.ValidationError):
        raise InvalidFrame(f"the message is not JSON: {error}", PARSE_ERROR)
    plain = scan.without_surrogates(frame) if is_odd else frame
    try:
        _skip(plain)
    except RecursionError:
        return _peek_slowly(frame)
    except msgspec.DecodeError:
        raise InvalidFrame(f"the message is not JSON: {error}", PARSE_ERROR) from None
    if isinstance(error, msgspec.ValidationError):
        raise InvalidFrame("the message is not a JSON object", INVALID_REQUEST)
    envelope = _decode(plain)
    if any(b"\\u0041" in bytes(value) for value in (envelope.id, envelope.method)):
        return _peek_slowly(frame)  # these are read, and echoed, as they were written
    return envelope


def peek_all(batch: Batch) -> list[Envelope] | None:
    """Reads all frames of a batch in one call, for a quarter of the cost of one `peek` each.

    None means that they have to be taken one by one: at least one is not UTF-8, no message, or needs the slow
    scanner.
    """
    if not batch.is_plain:  # the decoder takes several values on a line and one value over several lines
        return None
    data = batch.data
    try:
        if not data.isascii():
            data.decode()
        if batch.lines == 1:
            return [_decode(data)]
        envelopes = _decoder.decode_lines(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None
    return envelopes if len(envelopes) == batch.lines else None


def _peek_slowly(frame: bytes) -> Envelope:
    try:
        members = scan.object_members(frame)
    except scan.NotAnObject:
        raise InvalidFrame("the message is not a JSON object", INVALID_REQUEST) from None
    except ValueError as error:
        raise InvalidFrame(f"the message is not JSON: {error}", PARSE_ERROR) from None
    found = {scan.unescape(key): Raw(frame[start:end]) for key, start, end in members}
    return Envelope(**{name: found[name] for name in Envelope.__struct_fields__ if name in found})


def is_json(data: bytes) -> bool:
    """Whether the data, whose UTF-8 must have been checked, is one JSON value."""
    try:
        peek(data)
    except InvalidFrame as error:
        return error.code == INVALID_REQUEST
    return True


def error_frame(raw_id: bytes, code: int, message: str, data: object = msgspec.UNSET) -> bytes:
    """Writes an error response; `raw_id` is echoed as it was spelled, `b"null"` when it is unknown."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not msgspec.UNSET:
        error["data"] = data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (raw_id, msgspec.json.encode(error))
