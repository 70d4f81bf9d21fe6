"""What a conversation shows and asks: the seam to whatever shows it.

`Shown` values are shown in their order. Their texts come from agents and are raw: the view makes them safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..components.frames import Diagnostic, Fallback
from ..components.menu import Menu, MenuOutcome, Unchosen

__all__ = [
    "Asked",
    "ComponentProblem",
    "Diff",
    "Listed",
    "Notice",
    "Plan",
    "PlanStep",
    "Problem",
    "Shown",
    "Status",
    "TextQuestion",
    "Thought",
    "ToolShown",
    "TurnEnded",
    "TurnStarted",
    "UserText",
    "View",
    "Words",
    "WordsEnded",
]


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of an agent's message, streamed. `WordsEnded` ends the message."""

    text: str


@dataclass(frozen=True, slots=True)
class WordsEnded:
    """The message, or the thought, is whole."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of an agent's thinking, streamed."""

    text: str


@dataclass(frozen=True, slots=True)
class UserText:
    """What the person said in a session that was loaded."""

    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    """A change to a file; `before` is None for a new one."""

    path: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class ToolShown:
    """A tool call that began or changed. `texts` and `diffs` are what was not shown before."""

    title: str
    kind: str
    status: str
    is_new: bool
    texts: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan; `status` is pending, in_progress or completed."""

    text: str
    status: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The agent's plan as it stands; it replaces the one before."""

    steps: tuple[PlanStep, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A ChoiceList that an agent's message was; it is asked about later."""

    menu: Menu


@dataclass(frozen=True, slots=True)
class ComponentProblem:
    """A component frame that cannot be shown: its fallback if it has one, and why."""

    diagnostic: Diagnostic
    fallback: Fallback | None


@dataclass(frozen=True, slots=True)
class Asked:
    """How a question was answered."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know."""

    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The person's prompt was sent."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over; `reason` is ACP's stop reason, or "error"."""

    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """The session at a glance: agent, title, mode, and how much of the context is used."""

    agent: str
    mode: str = ""
    title: str = ""
    usage: str = ""


Shown: TypeAlias = (
    Words
    | WordsEnded
    | Thought
    | UserText
    | ToolShown
    | Plan
    | Listed
    | ComponentProblem
    | Asked
    | Notice
    | Problem
    | TurnStarted
    | TurnEnded
    | Status
)


@dataclass(frozen=True, slots=True)
class TextQuestion:
    """Asks for a line of text. `check` says what is wrong with one, or None."""

    prompt: str
    hint: str
    default: str
    check: Callable[[str], str | None]


class View(Protocol):
    """Shows a conversation and asks on its behalf. All questions can be cancelled as tasks."""

    @property
    def asks_lists(self) -> bool:
        """Whether to ask about the lists of a message by itself; `/choose` reaches them either way."""
        ...

    def show(self, shown: Shown) -> None:
        """Shows something. Must not wait."""
        ...

    def lines(self) -> AsyncIterator[str]:
        """What the person enters, until they leave."""
        ...

    async def choose(self, menu: Menu) -> MenuOutcome:
        """Asks a menu."""
        ...

    async def ask_text(self, question: TextQuestion) -> str | Unchosen:
        """Asks for text; the question can be declined and cancelled too."""
        ...

    def prefill(self, text: str) -> None:
        """Puts text where the person writes, to be sent or changed."""
        ...

    def copy(self, text: str) -> None:
        """Puts text into the person's clipboard, as far as there is one."""
        ...

    def set_completions(self, words: Mapping[str, str]) -> None:
        """Tells which commands exist, with their descriptions."""
        ...
