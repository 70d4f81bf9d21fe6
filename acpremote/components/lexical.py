"""The protocol's lexical rules: keys, identifiers and the length of text.

Lengths count UTF-16 code units, as the published implementation does (an emoji counts two).
Must never accept by coercion: a value of another type is refused, also a subclass of `str`.
"""

from __future__ import annotations

import re
from typing import TypeGuard

__all__ = ["is_identifier", "is_key", "is_text", "utf16_length"]

_KEY = re.compile(r"[a-z][a-z0-9-]{0,63}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def utf16_length(text: str) -> int:
    """Counts UTF-16 code units; a lone surrogate counts one."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_key(value: object) -> TypeGuard[str]:
    """Tells whether the value is a component key or an event name."""
    return type(value) is str and _KEY.fullmatch(value) is not None


def is_identifier(value: object) -> TypeGuard[str]:
    """Tells whether the value is an instance, choice, action or session identifier."""
    return type(value) is str and _IDENTIFIER.fullmatch(value) is not None


def is_text(value: object, longest: int) -> TypeGuard[str]:
    """Tells whether the value is a string of 1 to `longest` UTF-16 units."""
    return type(value) is str and 0 < len(value) <= longest and utf16_length(value) <= longest
