"""The open requests of one side: passed on, and not answered yet. `relay.py` has one table a side."""

from __future__ import annotations

from .envelope import Envelope

__all__ = ["MAX_OPEN_BYTES", "MAX_OPEN_REQUESTS", "OpenRequests"]

MAX_OPEN_REQUESTS = 100_000
"""Requests that one side may have open at once; further ones are refused."""

MAX_OPEN_BYTES = 16 * 1024 * 1024
"""Bytes that their ids may have together."""


class OpenRequests:
    """A table of ids; an id that is used twice is open twice, and the oldest is answered first."""

    def __init__(self) -> None:
        self._raw_ids: dict[object, list[bytes]] = {}
        self._bytes = 0
        self.count = 0

    def has_room(self, raw_id: bytes) -> bool:
        """Whether one more request, with this id, is within the bounds."""
        return self.count < MAX_OPEN_REQUESTS and self._bytes + len(raw_id) <= MAX_OPEN_BYTES

    def open(self, envelope: Envelope, raw_id: bytes) -> None:
        """Takes in a request."""
        self._raw_ids.setdefault(envelope.key, []).append(raw_id)
        self.count += 1
        self._bytes += len(raw_id)

    def settle(self, envelope: Envelope) -> bool:
        """Takes in what has the id of a response; False if no such request is open."""
        key = envelope.key
        waiting = self._raw_ids.get(key)
        if waiting is None:
            return False
        self.count -= 1
        self._bytes -= len(waiting.pop(0))
        if not waiting:
            del self._raw_ids[key]
        return True

    def take_all(self) -> list[bytes]:
        """Gives the ids of all, as they were spelled; none is open afterwards."""
        raw_ids = [raw_id for waiting in self._raw_ids.values() for raw_id in waiting]
        self._raw_ids.clear()
        self.count = self._bytes = 0
        return raw_ids
