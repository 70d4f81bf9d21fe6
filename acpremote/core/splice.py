"""Finds values in a frame by their key and replaces them; every other byte stays as it is.

Owns the reading of a frame for the policies that edit one. It refuses an object in which the key that is
asked for stands twice: which of the two counts is up to the parser, so no judgement about one is safe.
Read `ownership.py` next.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from . import scan

__all__ = ["DuplicateKey", "Edit", "ObjectView", "WrongType", "splice"]


class DuplicateKey(ValueError):
    """Says that a key that matters stands more than once in an object."""


class WrongType(ValueError):
    """Says that a value that matters is not an object."""


class Edit(msgspec.Struct, frozen=True):
    """Says that the bytes from `start` to `end` become `value`."""

    start: int
    end: int
    value: bytes


class ObjectView:
    """A JSON object inside a frame; positions are those of the frame."""

    def __init__(
        self, frame: bytes, start: int = 0, end: int | None = None, name: str = "the message"
    ) -> None:
        """`name` is how errors call the object.

        Raises:
            WrongType: the value is not an object.
        """
        self._frame = frame
        self._name = name
        try:
            members = scan.object_members(frame[start:end])
        except scan.NotAnObject:
            raise WrongType(f"{name} is not an object") from None
        self._members = [(scan.unescape(key), start + first, start + last) for key, first, last in members]

    def find(self, key: str) -> tuple[int, int] | None:
        """Finds the value of `key`: its start and end, or None.

        Raises:
            DuplicateKey: `key` stands more than once.
        """
        found = [(start, end) for name, start, end in self._members if name == key]
        if len(found) > 1:
            raise DuplicateKey(f"{self._name} has {key!r} more than once")
        return found[0] if found else None

    def find_object(self, key: str) -> ObjectView | None:
        """Finds the object under `key`; None if the value is absent or null.

        Raises:
            DuplicateKey: `key` stands more than once.
            WrongType: the value is something else.
        """
        found = self.find(key)
        if found is None or self._frame[slice(*found)] == b"null":
            return None
        return ObjectView(self._frame, *found, name=key)

    def require_unique(self, *keys: str) -> None:
        """Raises `DuplicateKey` if one of the keys stands more than once."""
        for key in keys:
            self.find(key)

    def keys(self) -> list[str]:
        """The keys, decoded, in order, each once."""
        return list(dict.fromkeys(name for name, _, _ in self._members))

    def replace(self, key: str, value: bytes) -> Iterable[Edit]:
        """Yields the edit that makes `value` the value of `key`; none if it is absent or is so already."""
        found = self.find(key)
        if found is not None and self._frame[slice(*found)] != value:
            yield Edit(*found, value)


def splice(frame: bytes, edits: Iterable[Edit]) -> bytes:
    """Performs edits that do not overlap; without any, returns the frame itself."""
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        parts += [frame[position : edit.start], edit.value]
        position = edit.end
    return b"".join([*parts, frame[position:]]) if parts else frame
