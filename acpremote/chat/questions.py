"""What an agent asks: permissions and elicitations, brought to the view and answered exactly once.

One question is shown at a time, in the order they came. The first of selection, refusal, cancel of the turn,
its end, withdrawal and a lost connection is the answer.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread

from ..components.answer import OneAnswer
from ..components.bridge import (
    CANCEL,
    CANCELLED_PERMISSION,
    FormQuestion,
    InvalidQuestionError,
    PermissionQuestion,
    SingleChoice,
    UrlQuestion,
    read_elicitation,
    read_permission,
)
from ..components.choicelist import select_choice
from ..components.menu import Chosen, Menu, MenuRow, Unchosen, menu_of_choices
from .filling import fill_form, refusal_of
from .peer import INVALID_PARAMS, RequestRefused
from .view import Asked, Notice, View

__all__ = ["Questions"]

Result = Mapping[str, object]
Q = TypeVar("Q")


@dataclass(eq=False, slots=True)
class _Open:
    answer: OneAnswer[Result]
    when_cancelled: Result


class Questions:
    """Asks an agent's questions. `open_url` opens an address in a browser and says whether it could."""

    def __init__(self, view: View, *, open_url: Callable[[str], bool] = webbrowser.open) -> None:
        self._view = view
        self._open_url = open_url
        self._one_at_a_time = anyio.Lock()
        self._open: list[_Open] = []
        self._addresses: dict[str, str] = {}

    def cancel_all(self) -> None:
        """Answers every open question as ACP wants it when the turn is cancelled or over."""
        for question in list(self._open):
            question.answer.settle(question.when_cancelled)

    async def permission(self, params: object, show_call: Callable[[object], None]) -> Result:
        """Answers `session/request_permission`; `show_call` shows what it is about.

        Raises:
            RequestRefused: the request is malformed.
        """
        question = _read(read_permission, params)

        async def ask() -> Result:
            show_call(question.tool_call)
            return await self._permission(question)

        return await self._ask(CANCELLED_PERMISSION, ask)

    async def elicitation(self, params: object) -> Result:
        """Answers `elicitation/create`.

        Raises:
            RequestRefused: the request is malformed.
        """
        question = _read(read_elicitation, params)
        match question:
            case SingleChoice():
                return await self._ask(CANCEL, lambda: self._single_choice(question))
            case FormQuestion():
                return await self._ask(CANCEL, lambda: fill_form(question, self._view))
            case UrlQuestion():
                return await self._ask(CANCEL, lambda: self._visit(question))

    def completed(self, params: object) -> None:
        """Takes `elicitation/complete`."""
        elicitation_id = params.get("elicitationId") if isinstance(params, Mapping) else None
        host = self._addresses.pop(elicitation_id, None) if isinstance(elicitation_id, str) else None
        if host is not None:
            self._view.show(Notice(f"The agent says that {host} is done."))

    async def _ask(self, when_cancelled: Result, ask: Callable[[], Awaitable[Result]]) -> Result:
        question = _Open(OneAnswer(), when_cancelled)
        self._open.append(question)

        async def dialog() -> None:
            async with self._one_at_a_time:
                question.answer.settle(await ask())

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(dialog)
                result = await question.answer.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._open.remove(question)
        return result

    async def _permission(self, question: PermissionQuestion) -> Result:
        rows = tuple(MenuRow(f"o{number}", option.name) for number, option in enumerate(question.options, 1))
        refusal = question.refuse()
        # Without a reject option there is no way to say no but to cancel the turn, so none is offered.
        menu = Menu(f"The agent asks: {question.title}", rows, cancel="no" if refusal is not None else None)
        outcome = await self._view.choose(menu)
        if isinstance(outcome, Chosen):
            chosen = next(row.label for row in rows if row.id == outcome.id)
            self._view.show(Asked(question.title, chosen))
            return question.select(outcome.id)
        self._view.show(Asked(question.title, "no"))
        return refusal if refusal is not None else CANCELLED_PERMISSION

    async def _single_choice(self, question: SingleChoice) -> Result:
        props = question.props
        menu = menu_of_choices(
            props,
            highlighted=question.default,
            decline="decline",
            skip=None if question.required else "skip",
        )
        outcome = await self._view.choose(menu)
        if isinstance(outcome, Chosen):
            event = select_choice(question.frame, outcome.id)
            choice = props.find(outcome.id)
            self._view.show(Asked(props.prompt, choice.label if choice else ""))
            return question.accept(event)
        self._view.show(Asked(props.prompt, outcome.value))
        return question.skip() if outcome is Unchosen.SKIPPED else refusal_of(outcome)

    async def _visit(self, question: UrlQuestion) -> Result:
        lines = [question.message, "", f"Host: {question.host}", f"Address: {question.url}", *question.notes]
        rows = (MenuRow("open", "Open it in the browser"), MenuRow("self", "I open it myself"))
        outcome = await self._view.choose(Menu("\n".join(lines), rows, decline="decline"))
        if not isinstance(outcome, Chosen):
            self._view.show(Asked(question.host, outcome.value))
            return refusal_of(outcome)
        if outcome.id == "open" and not await anyio.to_thread.run_sync(self._open_url, question.url):
            self._view.show(Notice(f"No browser could be started. The address is {question.url}"))
        self._view.show(Asked(question.host, "agreed"))
        self._addresses[question.elicitation_id] = question.host
        return question.accept()


def _read(read: Callable[[object], Q], params: object) -> Q:
    try:
        return read(params)
    except InvalidQuestionError as error:
        raise RequestRefused(INVALID_PARAMS, str(error)) from error
