"""Deterministic choices: the lists that the host itself wrote, and what choosing sends.

A host that shows its own ChoiceList (an ambiguous command, say) may let a choice send a message for the
person. Only the host's own memory of the frame gives that right: it is bound to session, instance id and
exact properties, and used once. A model that copies an id, or replays a list, gains nothing by it, and
the text that is sent never comes from the frame.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import ConfigError
from .bounded import canonical
from .choicelist import parse_choice_list_props
from .frames import RenderFrame

__all__ = [
    "RESERVED_PREFIX",
    "UNAVAILABLE",
    "ChoiceReservation",
    "ChoiceSubmission",
    "ChoiceSubmissions",
    "Unavailable",
]

RESERVED_PREFIX: Final = "deterministic-choices-"
"""Instance ids of the host's own lists begin with this, so that an outdated one is recognised."""

MAX_SESSIONS: Final = 256
MAX_INSTANCES: Final = 256


class Unavailable(enum.Enum):
    """The type of `UNAVAILABLE`: the list is the host's kind, but cannot be used (again)."""

    UNAVAILABLE = "unavailable"


UNAVAILABLE: Final = Unavailable.UNAVAILABLE


@dataclass(slots=True)
class _Entry:
    props: str
    values: dict[str, str]
    claimed: bool = False


class ChoiceReservation:
    """The right to send `value` once. `commit` uses it up, `release` gives it back; the first call counts."""

    def __init__(self, value: str, commit: Callable[[], None], release: Callable[[], None]) -> None:
        self.value = value
        self._commit = commit
        self._release = release
        self._settled = False

    @property
    def is_open(self) -> bool:
        """Whether neither call was made yet."""
        return not self._settled

    def commit(self) -> None:
        """Says that the value was sent."""
        self._settle(self._commit)

    def release(self) -> None:
        """Says that the value was not sent."""
        self._settle(self._release)

    def _settle(self, how: Callable[[], None]) -> None:
        if not self._settled:
            self._settled = True
            how()


ChoiceSubmission = Callable[[RenderFrame, str, str], ChoiceReservation | Unavailable | None]
"""Called with frame, choice id and session id: a reservation, `UNAVAILABLE`, or None for "not ours"."""


class ChoiceSubmissions:
    """The lists a host has shown and not yet seen answered; bounded, in memory, oldest forgotten first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, _Entry]] = OrderedDict()

    def remember(self, session_id: str, frame: RenderFrame, values: Mapping[str, str]) -> None:
        """Remembers a list that the host shows in a session, and what each of its choices sends.

        Raises:
            ConfigError: The instance id lacks `RESERVED_PREFIX`, or `values` are not exactly its choices'.
            InvalidPropsError: The frame is no valid ChoiceList.
        """
        choices = {choice.id for choice in parse_choice_list_props(frame.props).choices}
        if not frame.instance_id.startswith(RESERVED_PREFIX):
            raise ConfigError(f"a deterministic list's instance id begins with {RESERVED_PREFIX}")
        if choices != values.keys():
            raise ConfigError("every choice of a deterministic list needs the text it sends")
        entries = self._sessions.setdefault(session_id, OrderedDict())
        entries.pop(frame.instance_id, None)
        entries[frame.instance_id] = _Entry(canonical(frame.props), dict(values))
        self._sessions.move_to_end(session_id)
        self._forget(entries)

    def resolve(
        self, frame: RenderFrame, choice_id: str, session_id: str
    ) -> ChoiceReservation | Unavailable | None:
        """Claims a choice: the callback that a shell is given as `choice_submission`."""
        entries = self._sessions.get(session_id, OrderedDict())
        entry = entries.get(frame.instance_id)
        if entry is None or entry.claimed or entry.props != canonical(frame.props):
            return UNAVAILABLE if frame.instance_id.startswith(RESERVED_PREFIX) else None
        if choice_id not in entry.values:
            return UNAVAILABLE
        entry.claimed = True

        def commit() -> None:
            # Only this very entry: the session may have been released and made again meanwhile.
            if entries.get(frame.instance_id) is entry:
                del entries[frame.instance_id]

        def release() -> None:
            entry.claimed = False

        return ChoiceReservation(entry.values[choice_id], commit, release)

    def release_session(self, session_id: str) -> None:
        """Forgets a session's lists."""
        self._sessions.pop(session_id, None)

    def _forget(self, entries: OrderedDict[str, _Entry]) -> None:
        """Keeps the bounds. A claimed entry is in use and stays."""
        if len(entries) > MAX_INSTANCES:
            free = next((name for name, entry in entries.items() if not entry.claimed), None)
            if free is not None:
                del entries[free]
        if len(self._sessions) > MAX_SESSIONS:
            idle = (
                name for name, held in self._sessions.items() if not any(e.claimed for e in held.values())
            )
            self._sessions.pop(next(idle, ""), None)
