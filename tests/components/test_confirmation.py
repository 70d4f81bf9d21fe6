"""Typed actions: a choice only proposes; each way to get something run without a person's yes is attacked."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import anyio
import msgspec
import pydantic
import pytest

from acpremote.components import (
    ActionConfirmation,
    ActionHandle,
    ActionOutcome,
    ActionPhase,
    ActionRefusal,
    ActionRefusedError,
    ActionRegistry,
    ActionStatus,
    ChoiceAction,
    NoArguments,
    create_action_confirmation,
)
from acpremote.components.confirmation import MAX_HANDLES
from acpremote.errors import ConfigError, LocalProtocolError

pytestmark = pytest.mark.anyio

SESSION = "s-9"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Stash:
    keep_index: bool = False
    paths: list[str] = field(default_factory=list)


@dataclass
class Bench:
    """A coordinator with one action, a clock that is turned by hand, and what was seen."""

    handler: Callable[[Stash], object] | None = None
    authorize: Callable[..., bool] | None = None
    ran: list[Stash] = field(default_factory=list)
    seen: list[tuple[str, ...]] = field(default_factory=list)
    time: int = 1_000

    def __post_init__(self) -> None:
        registry = ActionRegistry()
        registry.register("git.stash", self.handler or self.ran.append, arguments=Stash)
        more: dict[str, Any] = {"authorize": self.authorize} if self.authorize else {}
        self.actions: ActionConfirmation = create_action_confirmation(
            session_id=SESSION,
            registry=registry,
            ttl_ms=100,
            now=lambda: self.time,
            on_change=lambda handles: self.seen.append(tuple(handle.status.value for handle in handles)),
            **more,
        )

    def propose(self, arguments: object = None, name: str = "git.stash") -> ActionHandle:
        chosen = {"keep_index": True} if arguments is None else arguments
        return self.actions.propose(ChoiceAction(name, chosen))  # type: ignore[arg-type]


async def test_proposing_runs_nothing_and_approving_runs_once() -> None:
    bench = Bench()
    handle = bench.propose()
    assert (handle.status, handle.outcome, bench.ran) == (ActionStatus.PENDING, ActionOutcome.NOT_RUN, [])
    assert (handle.session_id, handle.action, handle.input) == (SESSION, "git.stash", {"keep_index": True})
    assert handle.expires_at == 1_100
    for _ in range(3):
        approved = await bench.actions.approve(handle.token, SESSION)
        assert (approved.status, approved.outcome) == (ActionStatus.APPROVED, ActionOutcome.EXECUTED)
    assert bench.ran == [Stash(keep_index=True)]
    assert bench.seen == [("pending",), ("approving",), ("approved",)]


async def test_a_forged_token_and_another_session_reach_nothing() -> None:
    bench = Bench()
    handle = bench.propose()
    for token, session in [
        ("confirm-1-0", SESSION),
        (handle.tool_call_id, SESSION),
        (handle.token, "s-8"),
        (handle.token, ""),
    ]:
        for call in (bench.actions.approve, bench.actions.reject):
            with pytest.raises(ConfigError):
                await call(token, session)
    assert bench.ran == []
    assert bench.actions.get(handle.token) == handle


async def test_another_session_is_refused_even_while_the_approval_runs() -> None:
    started, go = anyio.Event(), anyio.Event()

    async def slow(_arguments: Stash) -> None:
        started.set()
        await go.wait()

    bench = Bench(slow)
    handle = bench.propose()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.actions.approve, handle.token, SESSION)
        await started.wait()
        with pytest.raises(ConfigError):
            await bench.actions.approve(handle.token, "s-8")
        go.set()


def test_tokens_are_random_and_say_nothing_about_tool_call_ids() -> None:
    bench = Bench()
    handles = [bench.propose() for _ in range(50)]
    suffixes = {handle.token.removeprefix("confirm-") for handle in handles}
    suffixes |= {handle.tool_call_id.removeprefix("app-") for handle in handles}
    assert len(suffixes) == 100
    assert min(map(len, suffixes)) >= 32


async def test_concurrent_approve_and_reject_agree_on_one_result() -> None:
    started, go = anyio.Event(), anyio.Event()

    async def slow(arguments: Stash) -> None:
        bench.ran.append(arguments)
        started.set()
        await go.wait()

    bench = Bench(slow)
    handle = bench.propose()
    results: list[ActionHandle] = []

    async def call(how: Callable[..., Any]) -> None:
        results.append(await how(handle.token, SESSION))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, bench.actions.approve)
        await started.wait()
        tasks.start_soon(call, bench.actions.reject)
        tasks.start_soon(call, bench.actions.approve)
        bench.time += 1_000  # the time runs out meanwhile: the approval was in time
        go.set()
    assert {(result.status, result.outcome) for result in results} == {
        (ActionStatus.APPROVED, ActionOutcome.EXECUTED)
    }
    assert len(bench.ran) == 1


async def test_a_rejected_proposal_stays_rejected() -> None:
    bench = Bench()
    handle = bench.propose()
    assert (await bench.actions.reject(handle.token, SESSION)).status is ActionStatus.REJECTED
    assert (await bench.actions.approve(handle.token, SESSION)).status is ActionStatus.REJECTED
    bench.time += 1_000
    assert (await bench.actions.reject(handle.token, SESSION)).status is ActionStatus.REJECTED
    assert bench.ran == []


async def test_every_read_sees_the_expiry_and_nothing_runs_after_it() -> None:
    bench = Bench()
    handle = bench.propose()
    bench.time = handle.expires_at - 1
    assert bench.actions.get_snapshot()[0].status is ActionStatus.PENDING
    bench.time = handle.expires_at  # between that read and the approval
    assert (await bench.actions.approve(handle.token, SESSION)).status is ActionStatus.EXPIRED
    assert bench.ran == []
    readers: list[Callable[[ActionHandle], ActionHandle | None]] = [
        lambda handle: bench.actions.get(handle.token),
        lambda handle: bench.actions.get_by_tool_call(handle.tool_call_id),
        lambda handle: bench.actions.get_snapshot()[-1],
    ]
    for read in readers:
        proposed = bench.propose()
        bench.time += 100
        shown = read(proposed)
        assert shown is not None
        assert shown.status is ActionStatus.EXPIRED


async def test_rejecting_after_the_expiry_leaves_expired() -> None:
    bench = Bench()
    handle = bench.propose()
    bench.time += 100
    assert (await bench.actions.reject(handle.token, SESSION)).status is ActionStatus.EXPIRED


async def test_the_input_is_a_snapshot_that_neither_caller_nor_handler_can_change() -> None:
    def meddle(arguments: Stash) -> None:
        arguments.paths.append("from the handler")

    bench = Bench(meddle)
    given: dict[str, Any] = {"keep_index": True, "paths": ["a"]}
    handle = bench.propose(given)
    given["paths"].append("b")
    given["keep_index"] = "no bool"
    approved = await bench.actions.approve(handle.token, SESSION)
    assert approved.outcome is ActionOutcome.EXECUTED
    assert approved.input == {"keep_index": True, "paths": ("a",)}
    with pytest.raises(TypeError):
        approved.input["keep_index"] = False  # type: ignore[index]


async def test_approved_does_not_mean_that_it_worked() -> None:
    def broken(_arguments: Stash) -> None:
        bench.ran.append(_arguments)
        raise OSError("disk full")

    bench = Bench(broken)
    handle = bench.propose()
    for _ in range(2):  # its effect is unknown: a second approval does not run it again
        failed = await bench.actions.approve(handle.token, SESSION)
        assert (failed.status, failed.outcome, failed.error) == (
            ActionStatus.APPROVED,
            ActionOutcome.FAILED,
            "disk full",
        )
    assert len(bench.ran) == 1


async def test_a_cancelled_approval_does_not_leave_anyone_waiting_nor_run_twice() -> None:
    started = anyio.Event()

    async def endless(arguments: Stash) -> None:
        bench.ran.append(arguments)
        started.set()
        await anyio.sleep_forever()

    bench = Bench(endless)
    handle = bench.propose()
    results: list[ActionHandle] = []

    async def follow() -> None:
        results.append(await bench.actions.reject(handle.token, SESSION))

    async with anyio.create_task_group() as tasks, anyio.create_task_group() as approving:
        approving.start_soon(bench.actions.approve, handle.token, SESSION)
        await started.wait()
        tasks.start_soon(follow)
        await anyio.lowlevel.checkpoint()
        approving.cancel_scope.cancel()
    assert [(result.status, result.outcome) for result in results] == [
        (ActionStatus.APPROVED, ActionOutcome.FAILED)
    ]
    assert len(bench.ran) == 1


@pytest.mark.parametrize(
    ("name", "arguments", "refusal"),
    [
        ("rm.rf", {}, ActionRefusal.UNKNOWN),
        ("constructor", {}, ActionRefusal.UNKNOWN),
        ("bad name", {}, ActionRefusal.UNKNOWN),
        (None, {}, ActionRefusal.UNKNOWN),
        ("git.stash", {"keep_index": "yes"}, ActionRefusal.INVALID_INPUT),
        ("git.stash", {"keep_index": 1}, ActionRefusal.INVALID_INPUT),
        ("git.stash", {"keep_index": True, "hidden": "extra"}, ActionRefusal.INVALID_INPUT),
        ("git.stash", {"paths": ["x" * 16_385]}, ActionRefusal.INVALID_INPUT),
        ("git.stash", {"paths": ["x"] * 10_001}, ActionRefusal.INVALID_INPUT),
        ("git.stash", [], ActionRefusal.INVALID_INPUT),
        ("git.stash", {"paths": object()}, ActionRefusal.INVALID_INPUT),
    ],
)
def test_unknown_actions_and_unfit_inputs_are_refused_before_anything_is_shown(
    name: Any, arguments: object, refusal: ActionRefusal
) -> None:
    bench = Bench()
    with pytest.raises(ActionRefusedError) as caught:
        bench.propose(arguments, name)
    assert caught.value.refusal is refusal
    assert (bench.seen, bench.actions.get_snapshot()) == ([], ())


def test_an_action_that_needs_no_confirmation_cannot_even_be_registered() -> None:
    registry = ActionRegistry()
    for wrong in (False, None, 0, 1, "yes"):
        with pytest.raises(ConfigError):
            registry.register("git.stash", print, arguments=NoArguments, requires_confirmation=wrong)  # type: ignore[arg-type]
    with pytest.raises(ActionRefusedError):
        registry.check(ChoiceAction("git.stash", {}))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "bad name"},
        {"name": ""},
        {"handler": None},
        {"arguments": None},
        {"arguments": dict},
        {"arguments": int},
        {"arguments": dict[str, int]},
    ],
)
def test_an_incomplete_action_is_a_set_up_error(changes: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"name": "a", "handler": print, "arguments": NoArguments, **changes}
    with pytest.raises(ConfigError):
        ActionRegistry().register(parts["name"], parts["handler"], arguments=parts["arguments"])


def test_a_later_action_does_not_replace_an_earlier_one() -> None:
    registry = ActionRegistry()
    registry.register("a", print, arguments=NoArguments)
    with pytest.raises(ConfigError):
        registry.register("a", repr, arguments=NoArguments)


class StashStruct(msgspec.Struct, rename="camel"):
    keep_index: bool


class StashDict(TypedDict):
    keepIndex: bool


class StashModel(pydantic.BaseModel):
    keep_index: bool = pydantic.Field(alias="keepIndex")


@pytest.mark.parametrize("model", [StashStruct, StashDict, StashModel])
async def test_structs_typed_dicts_and_pydantic_models_are_argument_models(model: Any) -> None:
    got: list[object] = []
    registry = ActionRegistry()
    action = registry.register("a", got.append, arguments=model)
    _, snapshot = registry.check(ChoiceAction("a", {"keepIndex": True}))
    await action.run(snapshot)
    assert got == [model(keepIndex=True) if model is not StashStruct else StashStruct(keep_index=True)]
    for wrong in ({"keepIndex": "true"}, {}, {"keepIndex": True, "extra": 1}):
        with pytest.raises(ActionRefusedError):
            registry.check(ChoiceAction("a", wrong))


@pytest.mark.parametrize("answer", [False, None, "yes", ConnectionError()])
async def test_an_authorizer_that_does_not_say_true_refuses_in_both_phases(answer: object) -> None:
    phases: list[ActionPhase] = []
    allowed = True

    def authorize(_name: str, _input: object, phase: ActionPhase) -> Any:
        phases.append(phase)
        if allowed:
            return True
        if isinstance(answer, Exception):
            raise answer
        return answer

    bench = Bench(authorize=authorize)
    handle = bench.propose()
    allowed = False
    with pytest.raises(ActionRefusedError) as caught:
        bench.propose()
    assert caught.value.refusal is ActionRefusal.FORBIDDEN
    refused = await bench.actions.approve(handle.token, SESSION)
    assert (refused.status, refused.outcome) == (ActionStatus.REJECTED, ActionOutcome.NOT_RUN)
    assert phases == [ActionPhase.PROPOSE, ActionPhase.PROPOSE, ActionPhase.EXECUTE]
    assert bench.ran == []


async def test_settled_handles_make_room_and_waiting_ones_are_never_dropped() -> None:
    bench = Bench()
    handles = [bench.propose() for _ in range(MAX_HANDLES)]
    with pytest.raises(LocalProtocolError):
        bench.propose()
    await bench.actions.reject(handles[7].token, SESSION)
    bench.propose()
    assert bench.actions.get(handles[7].token) is None
    assert bench.actions.get(handles[0].token) == handles[0]


@pytest.mark.parametrize(
    ("create_id", "proposals"),
    [(lambda: "bad id", 1), (lambda: "a" * 121, 1), (lambda: "", 1), (lambda: "same", 2)],
)
def test_unusable_and_repeated_ids_are_refused_and_overwrite_nothing(
    create_id: Callable[[], str], proposals: int
) -> None:
    registry = ActionRegistry()
    registry.register("a", print, arguments=NoArguments)
    actions = create_action_confirmation(session_id=SESSION, registry=registry, create_id=create_id)
    for _ in range(proposals - 1):
        actions.propose(ChoiceAction("a", {}))
    before = actions.get_snapshot()
    with pytest.raises(ConfigError):
        actions.propose(ChoiceAction("a", {}))
    assert actions.get_snapshot() == before


@pytest.mark.parametrize("ttl_ms", [0, -1, 1.5, True, 2**53])
def test_a_coordinator_needs_a_session_and_a_positive_time(ttl_ms: Any) -> None:
    with pytest.raises(ConfigError):
        create_action_confirmation(session_id=SESSION, registry=ActionRegistry(), ttl_ms=ttl_ms)
    with pytest.raises(ConfigError):
        create_action_confirmation(session_id="", registry=ActionRegistry())


async def test_a_listener_that_raises_leaves_nobody_waiting() -> None:
    counter = itertools.count()

    def listener(_handles: object) -> None:
        if next(counter) > 0:
            raise RuntimeError("listener")

    registry = ActionRegistry()
    registry.register("a", print, arguments=NoArguments)
    actions = create_action_confirmation(session_id=SESSION, registry=registry, on_change=listener)
    handle = actions.propose(ChoiceAction("a", {}))
    with pytest.raises(RuntimeError):
        await actions.approve(handle.token, SESSION)
    with anyio.fail_after(5):
        settled = await actions.approve(handle.token, SESSION)
    assert (settled.status, settled.outcome) == (ActionStatus.APPROVED, ActionOutcome.FAILED)
