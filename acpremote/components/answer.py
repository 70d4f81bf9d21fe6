"""Exactly one answer per question, whoever comes first.

A question of an agent can be answered by a selection, a decline, a cancel, a lost connection, the end of
its turn, or its withdrawal. The first of them is the answer; the others learn that they were too late.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import anyio

__all__ = ["OneAnswer"]

T = TypeVar("T")


class OneAnswer(Generic[T]):
    """A place for one answer. To be made inside a running event loop."""

    def __init__(self) -> None:
        self._answered = anyio.Event()
        self._answer: T | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the answer was given."""
        return self._answered.is_set()

    def settle(self, answer: T) -> bool:
        """Gives the answer; false when another one came first, and then this one is nothing."""
        if self._answered.is_set():
            return False
        self._answer = answer
        self._answered.set()
        return True

    async def wait(self) -> T:
        """Waits for the answer; may be called by many, and after it."""
        await self._answered.wait()
        return cast("T", self._answer)
