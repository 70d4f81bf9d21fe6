"""The limit of open descriptors: a server needs several a link, a usual limit is 1,024.

The relay raises its own soft limit, as far as the hard one lets it. Agents get the limit back that we were
started with: programs that use `select()` break above 1,024.
"""

from __future__ import annotations

import contextlib
import resource

__all__ = ["PER_LINK", "give_back", "make_room"]

PER_LINK = 5
"""Descriptors of a link: its socket, the agent's three pipes and the descriptor that tells of its exit."""

_RESERVE = 64

_original: tuple[int, int] | None = None


def make_room(links: int) -> int:
    """Raises the soft limit for so many links and returns how many fit."""
    global _original
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = links * PER_LINK + _RESERVE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            _original = _original or (soft, hard)
            soft = limit
    return links if soft == resource.RLIM_INFINITY else max(0, min(links, (soft - _RESERVE) // PER_LINK))


def give_back(process_id: int) -> None:
    """Gives a child that was just started the limit that we were started with, on Linux."""
    if _original is not None and hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(process_id, resource.RLIMIT_NOFILE, _original)
