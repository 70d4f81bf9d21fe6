"""The client of `acpremote demo`: prints a turn as a readable transcript and answers what the agent asks.

Must never invent an answer in a terminal: there the person answers; elsewhere the default is taken, and the
transcript says so.
"""

from __future__ import annotations

import enum
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from acp import schema

__all__ = ["Option", "TranscriptClient", "Unanswered", "default_answer", "person_answers"]

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Option:
    """One line of a question: what is sent back, and what is shown."""

    token: str
    label: str
    description: str | None = None


class Unanswered(enum.Enum):
    """Ways to leave a question without an answer."""

    DECLINED = "declined"
    CANCELLED = "cancelled"


Ask = Callable[[str, Sequence[Option], int], Awaitable[int | Unanswered]]
"""Shows a question with options, of which one is the default, and returns the index of the answer."""


class TranscriptClient:
    """An SDK client that writes to standard output and asks by `ask`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._message_id: str | None = None

    def line(self, who: str, text: str) -> None:
        """Writes one labelled line; further lines of the text are indented under it."""
        self.end_message()
        typer.echo(who.ljust(_WIDTH) + text.replace("\n", "\n" + " " * _WIDTH))

    def end_message(self) -> None:
        """Ends the line of a message that is still being streamed."""
        if self._message_id is not None:
            typer.echo()
        self._message_id = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        match update:
            case schema.AgentMessageChunk(content=schema.TextContentBlock(text=text), message_id=message_id):
                self._stream(text, message_id or "")
            case schema.AgentPlanUpdate(entries=entries):
                self.line("plan", "  ".join(f"{_MARKS[entry.status]} {entry.content}" for entry in entries))
            case schema.ToolCallStart(title=title):
                self.line("tool", title)
            case schema.ToolCallProgress(status=status):
                self.line("tool", str(status))
            case _:
                pass  # commands, modes: nothing that the transcript shows

    def _stream(self, text: str, message_id: str) -> None:
        if message_id != self._message_id:
            self.end_message()
            typer.echo("agent".ljust(_WIDTH), nl=False)
            self._message_id = message_id
        typer.echo(text.replace("\n", "\n" + " " * _WIDTH), nl=False)
        sys.stdout.flush()

    async def create_elicitation(
        self, message: str, mode: schema.ElicitationMode, **_: Any
    ) -> schema.CreateElicitationResponse:
        """Asks a form of one single-choice string property; declines every other shape."""
        asked = _single_choice(mode)
        if asked is None:
            self.line("asks", f"{message} (this demo shows only single choices: declined)")
            return schema.DeclineElicitationResponse(action="decline")
        name, options, default = asked
        self.end_message()
        match await self._ask(message, options, default):
            case Unanswered.DECLINED:
                return schema.DeclineElicitationResponse(action="decline")
            case Unanswered.CANCELLED:
                return schema.CancelElicitationResponse(action="cancel")
            case index:
                return schema.AcceptElicitationResponse(action="accept", content={name: options[index].token})

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.end_message()
        listed = [Option(each.option_id, each.name) for each in options]
        answer = await self._ask(f"May I do this? {tool_call.title}", listed, 0)
        if isinstance(answer, Unanswered):
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=listed[answer].token)
        return schema.RequestPermissionResponse(outcome=outcome)


def _single_choice(mode: schema.ElicitationMode) -> tuple[str, list[Option], int] | None:
    if not isinstance(mode, schema.ElicitationFormSessionMode):
        return None
    match list((mode.requested_schema.properties or {}).items()):
        case [(name, schema.ElicitationStringPropertySchema(one_of=[_, *_] as listed, default=default))]:
            options = [Option(each.const, each.title, each.description) for each in listed]
            tokens = [option.token for option in options]
            return name, options, tokens.index(default) if default in tokens else 0
        case _:
            return None


async def default_answer(question: str, options: Sequence[Option], default: int) -> int | Unanswered:
    """Answers with the default, where no person can be asked."""
    typer.echo("asks".ljust(_WIDTH) + question)
    for index, option in enumerate(options):
        description = f": {option.description}" if option.description else ""
        mark = " (default)" if index == default else ""
        typer.echo(" " * _WIDTH + f"{index + 1}. {option.label}{description}{mark}")
    typer.echo(" " * _WIDTH + f"answer: {default + 1} (the default: standard input is no terminal)")
    return default


async def person_answers(question: str, options: Sequence[Option], default: int) -> int | Unanswered:
    """Asks the person at the terminal, with arrow keys or a number."""
    from acpremote.components.menu import Chosen, Menu, MenuRow, Unchosen
    from acpremote.components.terminal import choose_in_terminal

    rows = [MenuRow(str(index), option.label, option.description) for index, option in enumerate(options)]
    menu = Menu(question, tuple(rows), highlighted=str(default), decline="decline")
    try:
        outcome = await choose_in_terminal(menu)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)  # the event loop's own handler ends the command in order
        return Unanswered.CANCELLED
    match outcome:
        case Chosen(id):
            return int(id)
        case Unchosen.DECLINED:
            return Unanswered.DECLINED
        case _:
            return Unanswered.CANCELLED
