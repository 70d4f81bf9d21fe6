"""The two sides of a link."""

from __future__ import annotations

import enum

__all__ = ["Side"]


class Side(enum.Enum):
    """Who a frame comes from: the client (an editor) or the agent."""

    CLIENT = "client"
    AGENT = "agent"

    other: Side
    """The opposite side."""

    # Every frame is looked up by its side, and the hash of an enum member is computed in Python.
    __hash__ = object.__hash__


Side.CLIENT.other, Side.AGENT.other = Side.AGENT, Side.CLIENT
