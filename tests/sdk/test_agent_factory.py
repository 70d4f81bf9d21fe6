"""What `serve_acp` takes for a factory, and with what it calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from acp import Agent, Client

from acpremote import ConfigError
from acpremote.demo import DemoAgent
from acpremote.sdk.serve import agent_factory

CONNECTION = cast(Client, object())


class Keeping(DemoAgent):
    """An agent that is made with the connection."""

    def __init__(self, connection: Client, *, pause: float = 0) -> None:
        super().__init__(pause=pause)
        self.client = connection


def keyword_only(**_: object) -> DemoAgent:
    return DemoAgent()


@pytest.mark.parametrize("factory", [DemoAgent, lambda: DemoAgent(), keyword_only])
def test_a_factory_without_positional_argument_is_called_without_the_connection(
    factory: Callable[..., Any],
) -> None:
    assert isinstance(agent_factory(factory)(CONNECTION), DemoAgent)


@pytest.mark.parametrize(
    "factory", [Keeping, lambda connection: Keeping(connection), lambda *each: Keeping(*each)]
)
def test_a_factory_with_one_is_given_the_connection(factory: Callable[..., Any]) -> None:
    agent: Any = agent_factory(factory)(CONNECTION)
    assert agent.client is CONNECTION


class Plain(Agent):
    """An agent as the SDK's documentation writes one: a subclass without `__init__`."""


def test_a_subclass_of_the_interface_without_init_is_made_without_the_connection() -> None:
    factory: Any = Plain
    assert isinstance(agent_factory(factory)(CONNECTION), Plain)


class Forwarding:
    """An agent whose methods are found when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(DemoAgent(), name)


def test_a_class_that_makes_its_methods_up_is_believed() -> None:
    factory: Any = Forwarding
    assert isinstance(agent_factory(factory)(CONNECTION), Forwarding)


def test_what_has_no_signature_to_look_at_is_called() -> None:
    factory: Any = {}.get
    with pytest.raises(TypeError, match="returned a NoneType, which is no ACP agent"):
        agent_factory(factory)(CONNECTION)


def wants_two(connection: Client, workspace: str) -> DemoAgent:
    raise AssertionError("never called")


def wants_a_name(*, name: str) -> DemoAgent:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "int is no ACP agent"),
        (dict, "the class dict has no methods 'initialize' and 'prompt'"),
        (wants_two, "wants_two is no factory of agents: it is given a connection, and missing a required"),
        (wants_a_name, "wants_a_name is no factory of agents: it is given nothing, and missing a required"),
    ],
)
def test_what_cannot_be_a_factory_is_refused_without_being_called(value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        agent_factory(value)
