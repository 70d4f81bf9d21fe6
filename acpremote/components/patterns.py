"""A form's `pattern`, matched without letting it hang us.

The pattern comes from an agent and Python's matcher backtracks: `(a+)+$` needs more than a lifetime for
forty characters. A pattern is therefore tried only if its worst case is small; one that is not, or that
Python does not know (the dialect is ECMA 262's), is left for the agent to check.
"""

from __future__ import annotations

import re
import warnings

__all__ = ["fits_pattern"]

_LONGEST_PATTERN = 1_000
_STEPS = 10_000_000
"""Bound on the steps of a match, a fraction of a second."""

_ESCAPE = re.compile(r"\\[\s\S]")
_BACK_REFERENCE = re.compile(r"\\[1-9k]|\(\?P=")
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
_CHOICE_POINT = re.compile(r"[*+|]|(?<!\()\?|\{[0-9]*,?[0-9]*\}")


def fits_pattern(pattern: str, text: str) -> bool:
    """Whether the text matches somewhere (as JSON Schema has it); true when that cannot be told."""
    quantifiers = _count_quantifiers(pattern)
    if quantifiers is None or (len(text) + 2) ** (quantifiers + 1) > _STEPS:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the pattern's style; they would land on the terminal
            return re.search(pattern, text) is not None
    except (re.error, OverflowError, RecursionError):
        return True


def _count_quantifiers(pattern: str) -> int | None:
    """Counts quantifiers and alternatives; None when a group is repeated or referred back to."""
    if len(pattern) > _LONGEST_PATTERN or _BACK_REFERENCE.search(pattern):
        return None
    plain = _CLASS.sub("x", _ESCAPE.sub("x", pattern))
    return None if _REPEATED_GROUP.search(plain) else len(_CHOICE_POINT.findall(plain))
