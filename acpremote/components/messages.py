"""Component frames in agent messages: held back until the message is whole, then shown as what it is.

    idle ──text that begins with `{`──> holding ──message ends──> component, fallback, diagnostic, or text
      └──other text──> streaming          └──longer than the limit, or no JSON object──> streaming

An agent message is a frame only if its *whole* text is a JSON object with our `protocol`. ACP sends text
in chunks, so what begins with `{` waits; everything else passes at once. User and tool text must never be
given to this. The web console does the same in its own language: change both.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TypeAlias

from .frames import PROTOCOL, parse_json
from .manifest import ComponentManifest, Resolved, Unresolved, resolve_component_frame

__all__ = [
    "HELD_LIMIT",
    "ComponentMessages",
    "MessageComponent",
    "MessagePart",
    "MessageText",
    "find_component",
]

HELD_LIMIT = 256 * 1024
"""Characters of one message that are held back at most; a longer one is text."""

_LONGEST_OPENING = 1024
"""Whitespace before the first key that is waited for; more of it is no frame of anyone's."""

_MAYBE_OBJECT = re.compile(r'[ \t\r\n]*(?:\{[ \t\r\n]*(?:"[\s\S]*)?)?')


@dataclass(frozen=True, slots=True)
class MessageText:
    """Text of an agent message, to be shown as such."""

    text: str


@dataclass(frozen=True, slots=True)
class MessageComponent:
    """A whole message that was a component frame, resolved."""

    resolution: Resolved | Unresolved


MessagePart: TypeAlias = MessageText | MessageComponent


def find_component(text: str, manifest: ComponentManifest) -> Resolved | Unresolved | None:
    """Resolves a whole message's text, or answers None when it is no frame of our protocol. Never raises."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("protocol") != PROTOCOL:
        return None
    return resolve_component_frame(value, manifest)


class _State(enum.Enum):
    IDLE = enum.auto()
    HOLDING = enum.auto()
    STREAMING = enum.auto()


class ComponentMessages:
    """Sorts an agent's message chunks into text and components. Pure: chunks in, parts out."""

    def __init__(self, manifest: ComponentManifest, *, limit: int = HELD_LIMIT) -> None:
        self._manifest = manifest
        self._limit = limit
        self._state = _State.IDLE
        self._message_id: str | None = None
        self._held: list[str] = []
        self._length = 0

    def agent_text(self, text: str, message_id: str | None = None) -> list[MessagePart]:
        """Takes a chunk of an agent message; another message id ends the message before it."""
        parts = self.end() if message_id != self._message_id else []
        self._message_id = message_id
        if self._state is _State.STREAMING:
            return [*parts, MessageText(text)]
        self._held.append(text)
        self._length += len(text)
        if self._state is _State.HOLDING and self._length <= self._limit:
            return parts
        return [*parts, *self._look()]

    def end(self) -> list[MessagePart]:
        """Ends the message: at another kind of update, at the end of the turn."""
        held = "".join(self._held)
        self._state, self._held, self._length, self._message_id = _State.IDLE, [], 0, None
        if not held:
            return []
        resolution = find_component(held, self._manifest)
        return [MessageText(held) if resolution is None else MessageComponent(resolution)]

    def _look(self) -> list[MessagePart]:
        """Decides whether what is held can still become a frame."""
        held = "".join(self._held)
        if self._length <= self._limit and _MAYBE_OBJECT.fullmatch(held):
            if '"' in held:  # from here on only the end of the message tells
                self._state = _State.HOLDING
                return []
            if self._length <= _LONGEST_OPENING:
                return []
        self._state, self._held, self._length = _State.STREAMING, [], 0
        return [MessageText(held)]
