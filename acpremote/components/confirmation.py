"""Confirmation: what happens between a proposed action and its handler.

    pending ──approve──> approving ──handler returned or raised──> approved   (outcome: executed, failed)
       ├─────reject────> rejected
       └──time is over─> expired

Selecting proposes, only `approve` runs. A handle is correlation data, not authentication: knowing its
token proves nothing about who asks. Every call is idempotent; a handler runs at most once per handle.

Where the published behaviour is at fault, ours differs: the session is checked before calls are
coalesced; tokens are random and say nothing about tool-call ids; every read sees the expiry, and rejecting
after it leaves `expired`; `approved` says nothing about success, `outcome` does; a handler that raised
is not tried again, because its effect is unknown.
"""

from __future__ import annotations

import enum
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from ..errors import ConfigError, LocalProtocolError
from .actions import Action, ActionRefusal, ActionRefusedError, ActionRegistry
from .bounded import JsonValue
from .choicelist import ChoiceAction
from .lexical import is_identifier

__all__ = [
    "DEFAULT_TTL_MS",
    "ActionConfirmation",
    "ActionHandle",
    "ActionOutcome",
    "ActionPhase",
    "ActionStatus",
    "create_action_confirmation",
]

logger = logging.getLogger(__name__)

DEFAULT_TTL_MS = 300_000
"""How long a proposal can be approved, in milliseconds."""

MAX_HANDLES = 256
"""Handles kept by one coordinator; settled ones make room for new ones, oldest first."""

_MAX_SUFFIX = 120


class ActionStatus(enum.StrEnum):
    """Where a proposal stands."""

    PENDING = "pending"
    APPROVING = "approving"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


class ActionOutcome(enum.StrEnum):
    """What became of the action itself."""

    NOT_RUN = "not_run"
    EXECUTED = "executed"
    FAILED = "failed"


class ActionPhase(enum.StrEnum):
    """When the host's authorizer is asked."""

    PROPOSE = "propose"
    EXECUTE = "execute"


Authorize = Callable[[str, JsonValue, ActionPhase], bool]


@dataclass(frozen=True, slots=True)
class ActionHandle:
    """One proposal, as it stands. `input` is a frozen snapshot; `expires_at` is in epoch milliseconds."""

    token: str
    session_id: str
    action: str
    title: str
    input: JsonValue
    tool_call_id: str
    expires_at: int
    status: ActionStatus = ActionStatus.PENDING
    outcome: ActionOutcome = ActionOutcome.NOT_RUN
    error: str | None = None


@dataclass(slots=True)
class _Record:
    handle: ActionHandle
    action: Action
    settled: anyio.Event | None = None


def _wall_clock() -> int:
    return int(time.time() * 1000)


def _allow(_name: str, _input: JsonValue, _phase: ActionPhase) -> bool:
    return True


def _nothing(_handles: tuple[ActionHandle, ...]) -> None:
    pass


class ActionConfirmation:
    """The coordinator of one session's proposals. `create_action_confirmation` makes it."""

    def __init__(
        self,
        session_id: str,
        registry: ActionRegistry,
        authorize: Authorize,
        ttl_ms: int,
        now: Callable[[], float],
        create_id: Callable[[], str],
        on_change: Callable[[tuple[ActionHandle, ...]], None],
    ) -> None:
        self._session_id = session_id
        self._registry = registry
        self._authorize = authorize
        self._ttl_ms = ttl_ms
        self._now = now
        self._create_id = create_id
        self._on_change = on_change
        self._records: dict[str, _Record] = {}

    def propose(self, action: ChoiceAction) -> ActionHandle:
        """Makes a proposal that can be shown and approved. Nothing runs.

        Raises:
            ActionRefusedError: The action is unknown, its input does not fit, or it is not allowed.
            ConfigError: `create_id` gave an unusable or a used id.
            LocalProtocolError: Too many proposals are waiting.
        """
        found, snapshot = self._registry.check(action)
        if not self._is_allowed(found, snapshot, ActionPhase.PROPOSE):
            raise ActionRefusedError(ActionRefusal.FORBIDDEN)
        token, tool_call_id = f"confirm-{self._new_id()}", f"app-{self._new_id()}"
        if token in self._records:
            raise ConfigError("create_id gave an id twice")
        self._make_room()
        handle = ActionHandle(
            token=token,
            session_id=self._session_id,
            action=found.name,
            title=found.title,
            input=snapshot,
            tool_call_id=tool_call_id,
            expires_at=int(self._now()) + self._ttl_ms,
        )
        self._records[token] = _Record(handle, found)
        self._on_change(self.get_snapshot())
        return handle

    async def approve(self, token: str, session_id: str) -> ActionHandle:
        """Runs the action once, if the proposal still stands, and tells how that went.

        A second call while the first one runs waits for it; on a settled handle nothing happens. A
        cancelled call leaves `approved` with the outcome `failed`: the handler had begun.

        Raises:
            ConfigError: No such proposal in this session.
        """
        record = self._find(token, session_id)
        if record.handle.status is not ActionStatus.PENDING:
            return await self._settled(record)
        record.settled = anyio.Event()
        try:
            await self._approve(record)
        finally:
            record.settled.set()
        return record.handle

    async def reject(self, token: str, session_id: str) -> ActionHandle:
        """Refuses the proposal; idempotent. While an approval runs, waits for it and tells its result.

        Raises:
            ConfigError: No such proposal in this session.
        """
        record = self._find(token, session_id)
        if record.handle.status is ActionStatus.PENDING:
            self._change(record, status=ActionStatus.REJECTED)
        return await self._settled(record)

    def get(self, token: str) -> ActionHandle | None:
        """The handle with this token."""
        record = self._records.get(token)
        return None if record is None else self._read(record)

    def get_by_tool_call(self, tool_call_id: str) -> ActionHandle | None:
        """The handle with this tool-call id."""
        return next((handle for handle in self.get_snapshot() if handle.tool_call_id == tool_call_id), None)

    def get_snapshot(self) -> tuple[ActionHandle, ...]:
        """All handles, oldest first."""
        return tuple(self._read(record) for record in self._records.values())

    async def _settled(self, record: _Record) -> ActionHandle:
        if record.settled is not None:
            await record.settled.wait()
        return record.handle

    async def _approve(self, record: _Record) -> None:
        try:
            self._change(record, status=ActionStatus.APPROVING)
            await self._run(record)
        finally:
            if record.handle.status is ActionStatus.APPROVING:
                self._fail(record, "interrupted; whether it took effect is unknown")

    async def _run(self, record: _Record) -> None:
        handle = record.handle
        if not self._is_allowed(record.action, handle.input, ActionPhase.EXECUTE):
            self._change(record, status=ActionStatus.REJECTED, error=ActionRefusal.FORBIDDEN.value)
            return
        try:
            await record.action.run(handle.input)
        except Exception as error:
            logger.warning("the action %s failed", handle.action, exc_info=True)
            self._fail(record, str(error) or type(error).__name__)
        else:
            self._change(record, status=ActionStatus.APPROVED, outcome=ActionOutcome.EXECUTED)

    def _fail(self, record: _Record, error: str) -> None:
        self._change(record, status=ActionStatus.APPROVED, outcome=ActionOutcome.FAILED, error=error)

    def _is_allowed(self, action: Action, snapshot: JsonValue, phase: ActionPhase) -> bool:
        try:
            return self._authorize(action.name, snapshot, phase) is True
        except Exception:
            logger.warning("the authorizer failed on %s", action.name, exc_info=True)
            return False

    def _find(self, token: str, session_id: str) -> _Record:
        record = self._records.get(token)
        if record is None or session_id != self._session_id:
            raise ConfigError("there is no such proposal in this session")
        self._read(record)
        return record

    def _read(self, record: _Record) -> ActionHandle:
        """Every read goes through here, so that no reader sees a pending handle past its time."""
        if record.handle.status is ActionStatus.PENDING and self._now() >= record.handle.expires_at:
            record.handle = replace(record.handle, status=ActionStatus.EXPIRED)
        return record.handle

    def _change(
        self,
        record: _Record,
        *,
        status: ActionStatus,
        outcome: ActionOutcome = ActionOutcome.NOT_RUN,
        error: str | None = None,
    ) -> None:
        record.handle = replace(record.handle, status=status, outcome=outcome, error=error)
        self._on_change(self.get_snapshot())

    def _new_id(self) -> str:
        suffix = self._create_id()
        if not is_identifier(suffix) or len(suffix) > _MAX_SUFFIX:
            raise ConfigError(f"create_id must give an identifier of at most {_MAX_SUFFIX} characters")
        return suffix

    def _make_room(self) -> None:
        if len(self._records) < MAX_HANDLES:
            return
        waiting = (ActionStatus.PENDING, ActionStatus.APPROVING)
        for token, record in self._records.items():
            if self._read(record).status not in waiting:
                del self._records[token]
                return
        raise LocalProtocolError(f"{MAX_HANDLES} proposals are waiting already")


def _random_id() -> str:
    return secrets.token_hex(16)


def create_action_confirmation(
    *,
    session_id: str,
    registry: ActionRegistry,
    authorize: Authorize = _allow,
    ttl_ms: int = DEFAULT_TTL_MS,
    now: Callable[[], float] = _wall_clock,
    create_id: Callable[[], str] = _random_id,
    on_change: Callable[[tuple[ActionHandle, ...]], None] = _nothing,
) -> ActionConfirmation:
    """Makes the coordinator of one session's proposals.

    Args:
        session_id: The session its handles are bound to.
        registry: The host's actions.
        authorize: Asked with name, input and phase before an action is shown and again before it runs;
            anything but `True`, and an exception, is a no.
        ttl_ms: How long a proposal stands, in milliseconds.
        now: The clock, in epoch milliseconds.
        create_id: Gives unguessable identifiers of at most 120 characters, never the same twice.
        on_change: Told of all handles after every change but a passing expiry.

    Raises:
        ConfigError: `session_id` is empty or `ttl_ms` is no positive integer.
    """
    if not isinstance(session_id, str) or not session_id:
        raise ConfigError("an action confirmation needs a session id")
    if type(ttl_ms) is not int or not 0 < ttl_ms < 2**53:
        raise ConfigError("ttl_ms must be a positive integer (milliseconds)")
    return ActionConfirmation(session_id, registry, authorize, ttl_ms, now, create_id, on_change)
