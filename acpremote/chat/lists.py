"""The ChoiceLists of an agent's messages: asked about when the turn is over, and what choosing leads to.

A choice is reported to the host. One with an action proposes it: a person sees action and input, and says
yes or no. One of the host's own lists sends what the host keeps for it. Any other puts its label where the
person writes, and sends nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ..components.actions import ActionRegistry
from ..components.bounded import thaw
from ..components.choicelist import ChoiceListProps
from ..components.confirmation import ActionHandle, ActionOutcome, ActionStatus, create_action_confirmation
from ..components.frames import SelectionEvent
from ..components.manifest import Resolved
from ..components.menu import Chosen, Menu, MenuRow, menu_of_choices
from ..components.shell import ComponentShell
from ..components.submission import ChoiceSubmission
from .updates import NOT_NOW
from .view import Asked, Notice, Problem, View

__all__ = ["Lists", "builtin_actions"]

KEPT = 50
"""Unanswered lists that `/choose` can still reach."""


@dataclass(frozen=True, slots=True)
class CopyText:
    """Arguments of `copy-text`."""

    text: str


@dataclass(frozen=True, slots=True)
class SetMode:
    """Arguments of `set-mode`."""

    modeId: str  # noqa: N815 - the name in the frame


def builtin_actions(view: View, set_mode: Callable[[str], Awaitable[None]]) -> ActionRegistry:
    """The actions that a list may propose here; each one is confirmed by the person."""
    registry = ActionRegistry()
    copy, mode = "Copy text to the clipboard", "Change the session's mode"
    registry.register("copy-text", lambda given: view.copy(given.text), arguments=CopyText, title=copy)
    registry.register("set-mode", lambda given: set_mode(given.modeId), arguments=SetMode, title=mode)
    return registry


class Lists:
    """The lists of one session."""

    def __init__(
        self,
        session_id: str,
        view: View,
        registry: ActionRegistry,
        *,
        on_component_select: Callable[[SelectionEvent], object] | None,
        choice_submission: ChoiceSubmission | None,
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        self._session_id = session_id
        self._view = view
        self._actions = create_action_confirmation(session_id=session_id, registry=registry)
        self._shell = ComponentShell(
            session_id,
            on_component_select=on_component_select,
            actions=self._actions,
            choice_submission=choice_submission,
            send=send,
        )
        self._unanswered: deque[Resolved] = deque(maxlen=KEPT)

    def add(self, lists: Sequence[Resolved]) -> list[Resolved]:
        """Keeps lists that came, and returns those of them that can be answered."""
        fresh = [resolved for resolved in lists if not self._shell.is_chosen(resolved.frame)]
        self._unanswered.extend(fresh)
        return fresh

    async def ask_all(self, lists: Sequence[Resolved]) -> None:
        """Asks about lists, one after the other, and puts what was chosen where the person writes.

        Not before all are asked: keys meant for the next list must not send the choice of the one before.
        """
        labels = [label for resolved in lists if (label := await self._ask(resolved))]
        if labels:
            self._view.prefill(" ".join(labels))

    async def _ask(self, resolved: Resolved) -> str | None:
        outcome = await self._view.choose(menu_of_choices(_props(resolved), cancel=NOT_NOW))
        return await self._choose(resolved, outcome.id) if isinstance(outcome, Chosen) else None

    async def choose(self, number: str) -> None:
        """`/choose N`: picks from the latest unanswered list; without a number, asks about it."""
        if not self._unanswered:
            self._view.show(Notice("There is no list to choose from."))
            return
        resolved = self._unanswered[-1]
        choices = _props(resolved).choices
        if not number:
            await self.ask_all([resolved])
        elif number.isascii() and number.isdecimal() and 1 <= int(number[:6]) <= len(choices):
            label = await self._choose(resolved, choices[int(number[:6]) - 1].id)
            if label is not None:
                self._view.prefill(label)
        else:
            self._view.show(Problem(f"There is no number {number}: 1 to {len(choices)}."))

    async def _choose(self, resolved: Resolved, choice_id: str) -> str | None:
        """Makes a choice; returns the label that the person may send, if nothing else follows from it."""
        result = await self._shell.select(resolved.frame, choice_id)
        if self._shell.is_chosen(resolved.frame) and resolved in self._unanswered:
            self._unanswered.remove(resolved)
        if result.event is None or result.choice is None:
            self._view.show(Notice("This list was answered before."))
            return None
        self._view.show(Asked(_props(resolved).prompt, result.choice.label))
        if result.error is not None:
            self._view.show(Problem(result.error))
        if result.handle is not None:
            await self._confirm(result.handle)
            return None
        return result.choice.label if result.sent is None and result.choice.action is None else None

    async def _confirm(self, handle: ActionHandle) -> None:
        given = json.dumps(thaw(handle.input), indent=2, ensure_ascii=False)
        menu = Menu(
            f"{handle.title}? ({handle.action})\n{given}",
            (MenuRow("no", "No"), MenuRow("yes", "Yes, do it")),
            cancel="no",
        )
        outcome = await self._view.choose(menu)
        answer = self._actions.approve if outcome == Chosen("yes") else self._actions.reject
        settled = await answer(handle.token, self._session_id)
        self._view.show(_told(settled))


def _props(resolved: Resolved) -> ChoiceListProps:
    if not isinstance(resolved.props, ChoiceListProps):
        raise AssertionError("only ChoiceLists are collected")
    return resolved.props


def _told(handle: ActionHandle) -> Notice | Problem:
    if handle.outcome is ActionOutcome.EXECUTED:
        return Notice(f"{handle.title}: done.")
    if handle.outcome is ActionOutcome.FAILED:
        return Problem(f"{handle.title}: failed: {handle.error}")
    if handle.status is ActionStatus.EXPIRED:
        return Problem(f"{handle.title}: not done, the proposal was too old.")
    return Notice(f"{handle.title}: not done.")
