"""What happens, in which order, when a person makes a choice; the same in every shell.

    already chosen? ignore
    mark it, tell the host (`on_component_select`); a host that raises is reported, and does not stop the rest
    the choice has an action     -> propose it; approving it is another step
    the host knows the list      -> send the text it keeps for this choice
    otherwise                    -> nothing more: a list that a model wrote sends nothing by itself

A proposal or a submission that fails frees the list again.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from ..errors import AcpRemoteError
from .choicelist import Choice, parse_choice_list_props, select_choice
from .confirmation import ActionConfirmation, ActionHandle
from .frames import RenderFrame, SelectionEvent
from .submission import ChoiceReservation, ChoiceSubmission, Unavailable

__all__ = ["ComponentShell", "SelectionResult"]

logger = logging.getLogger(__name__)

MAX_CHOSEN = 4096
"""Instance ids a shell remembers as chosen; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """What a selection led to.

    `event` is None when the list had been answered before. `handle` is the proposal, `sent` the text
    that was sent; with neither, the choice was only reported, and a shell may offer its label for sending.
    `error` tells what a person should read.
    """

    event: SelectionEvent | None
    choice: Choice | None = None
    handle: ActionHandle | None = None
    sent: str | None = None
    error: str | None = None


class ComponentShell:
    """The non-visual half of a shell, for one session.

    Args:
        session_id: The session it belongs to.
        on_component_select: The host's callback, sync or async.
        actions: Where actions are proposed; without it they are refused.
        choice_submission: The host's answer to its own lists.
        send: Sends text as the person's message; returns when it was accepted.
    """

    def __init__(
        self,
        session_id: str,
        *,
        on_component_select: Callable[[SelectionEvent], object] | None = None,
        actions: ActionConfirmation | None = None,
        choice_submission: ChoiceSubmission | None = None,
        send: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._session_id = session_id
        self._on_select = on_component_select
        self._actions = actions
        self._submission = choice_submission
        self._send = send
        self._chosen: OrderedDict[str, None] = OrderedDict()

    def is_chosen(self, frame: RenderFrame) -> bool:
        """Whether a choice of a frame with this instance id was made."""
        return frame.instance_id in self._chosen

    async def select(self, frame: RenderFrame, choice_id: str) -> SelectionResult:
        """Makes a choice.

        Raises:
            ConfigError: The frame is no ChoiceList or declares no such choice.
            InvalidPropsError: Its properties do not fit.
        """
        event = select_choice(frame, choice_id)
        if self.is_chosen(frame):
            return SelectionResult(None)
        self._chosen[frame.instance_id] = None
        if len(self._chosen) > MAX_CHOSEN:
            self._chosen.popitem(last=False)
        error = await self._tell(event)
        choice = parse_choice_list_props(frame.props).find(choice_id)
        if choice is None:
            raise AssertionError("select_choice has just found it")
        if choice.action is not None:
            return self._propose(event, choice, error)
        return await self._submit(frame, event, choice, error)

    async def _tell(self, event: SelectionEvent) -> str | None:
        if self._on_select is None:
            return None
        try:
            returned = self._on_select(event)
            if inspect.isawaitable(returned):
                await cast("Awaitable[object]", returned)
        except Exception as error:  # noqa: BLE001 - the host's callback may raise anything
            return f"the host could not take the selection: {error}"
        return None

    def _propose(self, event: SelectionEvent, choice: Choice, error: str | None) -> SelectionResult:
        if self._actions is None or choice.action is None:
            self._free(event)
            return SelectionResult(event, choice, error="this client runs no actions")
        try:
            handle = self._actions.propose(choice.action)
        except AcpRemoteError as refusal:
            self._free(event)
            return SelectionResult(event, choice, error=str(refusal))
        return SelectionResult(event, choice, handle, error=error)

    async def _submit(
        self, frame: RenderFrame, event: SelectionEvent, choice: Choice, error: str | None
    ) -> SelectionResult:
        if self._submission is None or self._send is None:
            return SelectionResult(event, choice, error=error)
        reserved = self._submission(frame, choice.id, self._session_id)
        if reserved is None:
            return SelectionResult(event, choice, error=error)
        if isinstance(reserved, Unavailable):
            self._free(event)
            return SelectionResult(event, choice, error="this list is out of date: ask again")
        if not await self._deliver(reserved, event):
            return SelectionResult(event, choice, error="the choice could not be sent: try again")
        return SelectionResult(event, choice, sent=reserved.value, error=error)

    async def _deliver(self, reserved: ChoiceReservation, event: SelectionEvent) -> bool:
        if self._send is None:
            raise AssertionError("only called with somewhere to send to")
        try:
            await self._send(reserved.value)
        except Exception:
            logger.warning("the text of a choice could not be sent", exc_info=True)
            return False
        else:
            reserved.commit()
            return True
        finally:
            if reserved.is_open:  # also when the sending was cancelled
                reserved.release()
                self._free(event)

    def _free(self, event: SelectionEvent) -> None:
        self._chosen.pop(event.instance_id, None)
