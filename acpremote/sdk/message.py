"""Between frames and the messages of the SDK, which are decoded dictionaries.

The SDK's connection ends with an error of its own on some messages that a peer may well send: an error that
is no object, an id that cannot be a key. What it gets from here is safe for it.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from ..core.envelope import INTERNAL_ERROR, InvalidFrame, Kind, peek

__all__ = ["Message", "decode", "encode", "kind_of"]

Message: TypeAlias = dict[str, Any]


def encode(message: Message) -> bytes:
    """Writes a message as one line."""
    try:
        return msgspec.json.encode(message)
    except (msgspec.MsgspecError, OverflowError, UnicodeEncodeError, TypeError, RecursionError):
        # Lone surrogates and integers beyond 64 bits, which only the standard library can write.
        return json.dumps(message, separators=(",", ":")).encode()


def decode(frame: bytes) -> Message | None:
    """Reads a message; None if there is nothing in it for an SDK connection.

    Some valid JSON is beyond Python: integers of more than 4300 digits, arrays nested a thousand deep. A
    response with such a value becomes an error response, so that its caller is told; a request with one
    is given to the SDK without `params`, which answers that they are invalid.
    """
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError) as error:
        return _unreadable(frame, error)
    if not isinstance(message, dict):
        return None
    kind = kind_of(message)
    if kind is None:
        return None
    return _response(message) if kind is Kind.RESPONSE else message


def kind_of(message: Message) -> Kind | None:
    """What the SDK takes a message for."""
    if message.get("method") is not None:
        return Kind.REQUEST if "id" in message else Kind.NOTIFICATION
    return Kind.RESPONSE if "id" in message else None


def _response(message: Message) -> Message | None:
    if isinstance(message["id"], (dict, list)):
        return None
    error = message.get("error")
    if error is None:
        return message
    if not isinstance(error, dict):
        error = {"code": INTERNAL_ERROR, "message": str(error)}
    # The SDK looks at `result` first, and some agents write `"result": null` beside an error.
    return {"id": message["id"], "error": error}


def _unreadable(frame: bytes, reason: Exception) -> Message | None:
    try:
        envelope = peek(frame)
        identifier = json.loads(bytes(envelope.id) or b"null")
    except (InvalidFrame, ValueError, RecursionError):
        return None
    text = f"the message holds a value that Python cannot read: {reason}"
    if envelope.kind is Kind.RESPONSE and not isinstance(identifier, (dict, list)):
        return {"id": identifier, "error": {"code": INTERNAL_ERROR, "message": text}}
    if envelope.kind is Kind.REQUEST and envelope.method_name is not None:
        return {"id": identifier, "method": envelope.method_name, "params": None}
    return None
