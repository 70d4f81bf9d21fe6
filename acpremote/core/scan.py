"""A JSON scanner without recursion, for what the fast decoder refuses although it is valid.

msgspec refuses deep nesting (its recursion limit) and lone surrogate escapes. Frames with either are
rare and must pass unchanged, so they are judged here: one pass, a stack of one byte per open container,
no values built. It is a thousand times slower than the decoder and everybody waits meanwhile, so the number
of tokens is bounded, and what can be decided without it is (`envelope.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "NotAnObject",
    "array_members",
    "has_surrogates",
    "object_members",
    "unescape",
    "without_surrogates",
]

MAX_TOKENS = 400_000
"""Tokens of one frame after which the scanner gives up."""


class NotAnObject(ValueError):
    """Says that data is JSON, but not an object."""


_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_TOKEN = re.compile(
    rb"[ \t\r\n]*+(?:(?P<string>"
    + _STRING
    + rb")|(?P<scalar>"
    + _NUMBER
    + rb"|true|false|null)|(?P<mark>[\[\]{},:]))"
)
_BLANK = re.compile(rb"[ \t\r\n]*+")

_ARRAY, _OBJECT = b"[{"
_BEFORE_VALUE, _AFTER_VALUE, _BEFORE_KEY, _AFTER_KEY, _FIRST_VALUE, _FIRST_KEY = range(6)

_Token = tuple[int, int, int, bytes]
"""Depth before the token, its start, its end, its first byte (`0` for number, true, false and null)."""


def _tokens(data: bytes) -> Iterator[_Token]:
    """Walks one JSON value and yields its tokens; raises ValueError where it is not JSON."""
    position, state, stack = 0, _BEFORE_VALUE, bytearray()
    match = _TOKEN.match
    for _ in range(MAX_TOKENS):
        found = match(data, position)
        if found is None:
            break
        start, position = found.span(found.lastgroup or 0)
        mark = data[start : start + 1] if found.lastgroup != "scalar" else b"0"
        yield len(stack), start, position, mark
        state = _step(state, mark, stack)
        if state == _AFTER_VALUE and not stack:
            break
    else:
        raise ValueError(f"too deep and too long: more than {MAX_TOKENS} tokens")
    end = _BLANK.match(data, position)
    if state != _AFTER_VALUE or stack or end is None or end.end() != len(data):
        raise ValueError(f"not JSON at byte {position}")


def _step(state: int, mark: bytes, stack: bytearray) -> int:
    """One step of the grammar; raises ValueError for a token that may not stand here."""
    if state in (_BEFORE_VALUE, _FIRST_VALUE):
        if mark in (b'"', b"0"):
            return _AFTER_VALUE
        if mark in (b"[", b"{"):
            stack += mark
            return _FIRST_VALUE if mark == b"[" else _FIRST_KEY
    elif state == _AFTER_VALUE and mark == b"," and stack:
        return _BEFORE_VALUE if stack[-1] == _ARRAY else _BEFORE_KEY
    elif state in (_BEFORE_KEY, _FIRST_KEY) and mark == b'"':
        return _AFTER_KEY
    elif state == _AFTER_KEY and mark == b":":
        return _BEFORE_VALUE
    closes = _ARRAY if mark == b"]" else _OBJECT if mark == b"}" else None
    may_close = state in (_AFTER_VALUE, _FIRST_VALUE, _FIRST_KEY)
    if may_close and stack and stack[-1] == closes:
        stack.pop()
        return _AFTER_VALUE
    raise ValueError(f"{mark.decode()} may not stand here")


def array_members(data: bytes) -> list[bytes]:
    """Splits a JSON array into the bytes of its members.

    Raises:
        ValueError: `data` is not a JSON array.
    """
    members: list[bytes] = []
    begin, last = -1, 0
    for depth, start, end, mark in _tokens(data):
        if depth == 0 and mark != b"[":
            raise ValueError("not a JSON array")
        if depth == 1 and mark in b",]":
            if begin >= 0:
                members.append(data[begin:last])
            begin = -1
        elif depth == 1 and begin < 0:
            begin = start
        last = end
    return members


def object_members(data: bytes) -> list[tuple[bytes, int, int]]:
    """Lists the members of a JSON object in order, duplicates included: raw key, start and end of the value.

    Raises:
        NotAnObject: `data` is another JSON value.
        ValueError: `data` is not JSON.
    """
    members: list[tuple[bytes, int, int]] = []
    key, begin, last = b"", -1, 0
    expecting_key, is_object = True, True
    for depth, start, end, mark in _tokens(data):
        if depth == 0:
            is_object = mark == b"{"
        if depth == 1 and expecting_key and mark == b'"':
            key, expecting_key, begin = data[start:end], False, -1
        elif depth == 1 and mark in b",}":
            if begin >= 0:
                members.append((key, begin, last))
            expecting_key, begin = True, -1
        elif depth >= 1 and begin < 0 and not expecting_key and mark != b":":
            begin = start
        last = end
    if not is_object:
        raise NotAnObject("not a JSON object")
    return members


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescape(string: bytes) -> str:
    """Decodes a raw JSON string, quotes included; lone surrogates stay as they are, pairs are joined."""
    text = string[1:-1].decode("utf-8", "surrogatepass")
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SIMPLE.get(m[2], m[2]), text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def has_surrogates(data: bytes) -> bool:
    """Whether there may be escapes of surrogates, which the fast decoder refuses when they are alone."""
    return _SURROGATE.search(data) is not None


def without_surrogates(data: bytes) -> bytes:
    """The data with every escape of a surrogate replaced by one as long, for looking at its structure.

    What only looks like one, behind an escaped backslash, may be replaced as well: it stays JSON.
    """
    return _SURROGATE.sub(rb"\\u0041", data)
