"""The common limit of all journals of one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["JournalBudget"]

JOURNALS_BYTES = 256 * 1024 * 1024


class JournalBudget:
    """Bytes that the journals of one server may keep together.

    Past the limit, nobody's frames are dropped: senders wait, as they do when their own journal is full.
    """

    def __init__(self, limit: int = JOURNALS_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_spent(self) -> bool:
        """Whether journals keep more than they may."""
        return self.used > self.limit

    def charge(self, size: int) -> None:
        """Adds to what is used; a negative size gives back."""
        was_spent = self.is_spent
        self.used += size
        if was_spent and not self.is_spent:
            for wake in list(self._waiting):
                wake()

    @contextmanager
    def waiting(self, wake: Callable[[], None]) -> Iterator[None]:
        """Calls `wake` when there is room, while the context lasts."""
        self._waiting.append(wake)
        try:
            yield
        finally:
            self._waiting.remove(wake)
