"""Bounded JSON: a limited, frozen copy of an untrusted value.

Owns the limits that keep a frame small enough to inspect, show and compare. Only the exact built-in
types are taken (no subclass can run code here), each container once, so that neither a cycle nor a
shared container gets through. Read `frames.py` next.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from .lexical import utf16_length

__all__ = [
    "FRAME_LIMITS",
    "INPUT_LIMITS",
    "JsonLimits",
    "JsonValue",
    "NotBoundedError",
    "canonical",
    "freeze",
    "thaw",
]

JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
"""A frozen JSON value: arrays are tuples, objects are read-only mappings."""


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """Limits of one value. All are inclusive; lengths are in UTF-16 units; the root has depth 0."""

    nodes: int
    depth: int
    string: int = 16_384
    key: int = 256
    entries: int = 1_000


FRAME_LIMITS = JsonLimits(nodes=1_000, depth=20)
"""Limits of a frame's `props` and of an event's `value`."""

INPUT_LIMITS = JsonLimits(nodes=10_000, depth=32, entries=10_000)
"""Limits of an action's input."""


class NotBoundedError(ValueError):
    """Says that a value is not JSON or exceeds a limit. The message never quotes the value."""


def freeze(value: object, limits: JsonLimits = FRAME_LIMITS) -> JsonValue:
    """Copies a value into its frozen form.

    Raises:
        NotBoundedError: The value is not JSON, exceeds a limit, or holds one container twice.
    """
    return _Freezer(limits).freeze(value, 0)


class _Freezer:
    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._nodes = 0
        self._seen: set[int] = set()

    def freeze(self, value: object, depth: int) -> JsonValue:
        self._nodes += 1
        if self._nodes > self._limits.nodes or depth > self._limits.depth:
            raise NotBoundedError("too many or too deeply nested values")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and type(value) is str:
            return self._text(value, self._limits.string)
        if isinstance(value, int | float) and type(value) in (int, float):
            return _finite(value)
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return self._array(value, depth)
        if isinstance(value, dict | MappingProxyType) and type(value) in (dict, MappingProxyType):
            return self._object(value, depth)
        raise NotBoundedError("not a JSON value")

    def _text(self, text: str, longest: int) -> str:
        if len(text) > longest or utf16_length(text) > longest:
            raise NotBoundedError("a string is too long")
        return text

    def _array(self, items: list[object] | tuple[object, ...], depth: int) -> JsonValue:
        self._enter(items)
        return tuple(self.freeze(item, depth + 1) for item in items)

    def _object(self, members: Mapping[object, object], depth: int) -> JsonValue:
        self._enter(members)
        frozen: dict[str, JsonValue] = {}
        for key, value in members.items():
            if type(key) is not str:
                raise NotBoundedError("an object key is not a string")
            frozen[self._text(key, self._limits.key)] = self.freeze(value, depth + 1)
        return MappingProxyType(frozen)

    def _enter(self, container: list[object] | tuple[object, ...] | Mapping[object, object]) -> None:
        if len(container) > self._limits.entries:
            raise NotBoundedError("too many entries")
        # Python shares the empty tuple, which is what an empty array is frozen to.
        if container == ():
            return
        if id(container) in self._seen:
            raise NotBoundedError("a container is referenced twice")
        self._seen.add(id(container))


def _finite(number: float) -> float:
    try:
        finite = math.isfinite(number)
    except OverflowError:  # an integer that a double cannot hold: JavaScript reads it as infinity
        finite = False
    if not finite:
        raise NotBoundedError("a number is not finite")
    return number


def thaw(value: JsonValue) -> object:
    """Copies a frozen value into fresh lists and dicts, which the receiver may change."""
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    return value


def canonical(value: JsonValue) -> str:
    """Spells a frozen value so that equal values, whatever their key order, are spelled equally."""
    return json.dumps(thaw(value), sort_keys=True, separators=(",", ":"))
