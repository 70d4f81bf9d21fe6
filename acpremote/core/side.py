"""The two sides of a link."""

from __future__ import annotations

import enum

__all__ = ["Side"]


class Side(enum.Enum):
    """Who a frame comes from: the client (an editor) or the agent."""

    CLIENT = "client"
    AGENT = "agent"

    @property
    def other(self) -> Side:
        """The opposite side."""
        return Side.AGENT if self is Side.CLIENT else Side.CLIENT
