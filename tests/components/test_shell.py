"""What a selection leads to, and that a list gains nothing by imitating the host's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from acpremote.components import (
    UNAVAILABLE,
    ActionRegistry,
    ActionStatus,
    Choice,
    ChoiceAction,
    ChoiceReservation,
    ChoiceSubmissions,
    ComponentShell,
    NoArguments,
    RenderFrame,
    SelectionEvent,
    choice_list_frame,
    create_action_confirmation,
)
from acpremote.components.shell import MAX_CHOSEN
from acpremote.components.submission import MAX_INSTANCES, MAX_SESSIONS, RESERVED_PREFIX
from acpremote.errors import ConfigError, ConnectError

pytestmark = pytest.mark.anyio

SESSION = "s-9"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def listed(instance: str = "m-17", **actions: ChoiceAction) -> RenderFrame:
    choices = [Choice("a", "Apples", action=actions.get("a")), Choice("b", "Bears", action=actions.get("b"))]
    return choice_list_frame(instance, "Which?", choices)


def own(number: object = 1) -> RenderFrame:
    return listed(f"{RESERVED_PREFIX}{number}")


VALUES = {"a": "tell me about apples", "b": "tell me about bears"}


@dataclass
class Host:
    events: list[SelectionEvent] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def __post_init__(self) -> None:
        registry = ActionRegistry()
        registry.register("copy-text", print, arguments=NoArguments)
        self.actions = create_action_confirmation(session_id=SESSION, registry=registry)
        self.lists = ChoiceSubmissions()
        self.shell = ComponentShell(
            SESSION,
            on_component_select=self.events.append,
            actions=self.actions,
            choice_submission=self.lists.resolve,
            send=self.send,
        )

    async def send(self, text: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(text)


async def test_a_list_that_a_model_wrote_is_reported_and_sends_nothing() -> None:
    host = Host()
    result = await host.shell.select(listed(), "b")
    assert host.events == [SelectionEvent("choice-list", "m-17", "b")]
    assert (result.handle, result.sent, result.error, host.sent) == (None, None, None, [])
    assert result.choice is not None
    assert result.choice.label == "Bears"


async def test_the_second_selection_of_a_list_is_ignored_before_any_callback() -> None:
    host = Host()
    await host.shell.select(listed(), "b")
    assert (await host.shell.select(listed(), "a")).event is None
    assert len(host.events) == 1
    assert host.shell.is_chosen(listed())


async def test_a_choice_with_an_action_proposes_it_and_consults_no_submission() -> None:
    host = Host()
    frame = listed(f"{RESERVED_PREFIX}1", a=ChoiceAction("copy-text", {}))
    host.lists.remember(SESSION, frame, VALUES)
    result = await host.shell.select(frame, "a")
    assert result.handle is not None
    assert (result.handle.status, host.sent) == (ActionStatus.PENDING, [])


async def test_a_refused_proposal_is_told_and_frees_the_list() -> None:
    host = Host()
    frame = listed(a=ChoiceAction("rm.rf", {}))
    for _ in range(2):
        result = await host.shell.select(frame, "a")
        assert (result.handle, result.error) == (None, "the action is not known here")
    assert (await ComponentShell(SESSION).select(frame, "a")).error == "this client runs no actions"


async def test_an_undeclared_choice_is_refused_before_the_host_hears_of_it() -> None:
    host = Host()
    with pytest.raises(ConfigError):
        await host.shell.select(listed(), "c")
    assert (host.events, host.shell.is_chosen(listed())) == ([], False)


async def test_a_host_that_raises_is_reported_and_does_not_stop_the_rest() -> None:
    async def raising(_event: SelectionEvent) -> None:
        raise RuntimeError("host down")

    host = Host()
    shell = ComponentShell(SESSION, on_component_select=raising, actions=host.actions)
    result = await shell.select(listed(a=ChoiceAction("copy-text", {})), "a")
    assert result.handle is not None
    assert "host down" in (result.error or "")


async def test_the_hosts_own_list_sends_its_private_text_once() -> None:
    host = Host()
    host.lists.remember(SESSION, own(), VALUES)
    result = await host.shell.select(own(), "a")
    assert (result.sent, host.sent) == (VALUES["a"], [VALUES["a"]])
    replayed = await ComponentShell(SESSION, choice_submission=host.lists.resolve, send=host.send).select(
        own(), "a"
    )
    assert (replayed.sent, replayed.error) == (None, "this list is out of date: ask again")
    assert len(host.sent) == 1


async def test_text_that_could_not_be_sent_can_be_chosen_again() -> None:
    host = Host()
    host.lists.remember(SESSION, own(), VALUES)
    for failure in (ConnectError("gone"), RuntimeError("gone")):
        host.failure = failure
        assert (await host.shell.select(own(), "a")).error == "the choice could not be sent: try again"
    host.failure = None
    assert (await host.shell.select(own(), "b")).sent == VALUES["b"]


def changed_props(frame: RenderFrame) -> RenderFrame:
    return RenderFrame(
        frame.component_key,
        frame.instance_id,
        choice_list_frame("x", "Which?", [Choice("a", "Bears"), Choice("b", "Apples")]).props,
        frame.fallback,
    )


@pytest.mark.parametrize(
    ("frame", "choice_id", "session", "expected"),
    [
        (own(), "a", "s-8", UNAVAILABLE),
        (own(2), "a", SESSION, UNAVAILABLE),
        (changed_props(own()), "a", SESSION, UNAVAILABLE),
        (own(), "c", SESSION, UNAVAILABLE),
        (listed(), "a", SESSION, None),
    ],
)
def test_another_session_id_props_or_choice_gains_nothing(
    frame: RenderFrame, choice_id: str, session: str, expected: object
) -> None:
    lists = ChoiceSubmissions()
    lists.remember(SESSION, own(), VALUES)
    assert lists.resolve(frame, choice_id, session) is expected
    assert isinstance(lists.resolve(own(), "a", SESSION), ChoiceReservation)


def test_key_order_of_props_does_not_matter() -> None:
    frame = own()
    shuffled: dict[str, Any] = frame.to_json()["props"]  # type: ignore[assignment]
    again = dict(reversed(shuffled.items()))
    lists = ChoiceSubmissions()
    lists.remember(SESSION, frame, VALUES)
    other = RenderFrame(frame.component_key, frame.instance_id, again, frame.fallback)
    assert isinstance(lists.resolve(other, "a", SESSION), ChoiceReservation)


def test_a_claimed_list_cannot_be_claimed_again_until_released() -> None:
    lists = ChoiceSubmissions()
    lists.remember(SESSION, own(), VALUES)
    first = lists.resolve(own(), "a", SESSION)
    assert isinstance(first, ChoiceReservation)
    assert lists.resolve(own(), "b", SESSION) is UNAVAILABLE
    first.release()
    first.commit()  # only the first of the two counts
    assert isinstance(lists.resolve(own(), "b", SESSION), ChoiceReservation)


def test_a_late_commit_does_not_touch_a_session_made_anew() -> None:
    lists = ChoiceSubmissions()
    lists.remember(SESSION, own(), VALUES)
    late = lists.resolve(own(), "a", SESSION)
    assert isinstance(late, ChoiceReservation)
    lists.release_session(SESSION)
    lists.remember(SESSION, own(), VALUES)
    late.commit()
    assert isinstance(lists.resolve(own(), "a", SESSION), ChoiceReservation)


def test_memory_is_bounded_and_claimed_lists_stay() -> None:
    lists = ChoiceSubmissions()
    lists.remember(SESSION, own(0), VALUES)
    claimed = lists.resolve(own(0), "a", SESSION)
    for number in range(1, MAX_INSTANCES + 50):
        lists.remember(SESSION, own(number), VALUES)
    for number in range(MAX_SESSIONS + 50):
        lists.remember(f"other-{number}", own(), VALUES)
    assert isinstance(claimed, ChoiceReservation)
    claimed.release()
    assert isinstance(lists.resolve(own(0), "a", SESSION), ChoiceReservation)
    assert lists.resolve(own(1), "a", SESSION) is UNAVAILABLE
    assert lists.resolve(own(), "a", "other-0") is UNAVAILABLE
    assert isinstance(lists.resolve(own(), "a", f"other-{MAX_SESSIONS + 49}"), ChoiceReservation)


@pytest.mark.parametrize(
    ("frame", "values"), [(listed(), VALUES), (own(), {"a": "x"}), (own(), {**VALUES, "c": "x"})]
)
def test_only_complete_lists_with_the_reserved_prefix_are_remembered(
    frame: RenderFrame, values: dict[str, str]
) -> None:
    with pytest.raises(ConfigError):
        ChoiceSubmissions().remember(SESSION, frame, values)


async def test_the_memory_of_chosen_lists_is_bounded() -> None:
    shell = ComponentShell(SESSION)
    for number in range(MAX_CHOSEN + 1):
        await shell.select(listed(f"m-{number}"), "a")
    assert not shell.is_chosen(listed("m-0"))
    assert shell.is_chosen(listed(f"m-{MAX_CHOSEN}"))
