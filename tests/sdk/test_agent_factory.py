"""What `serve_acp` takes for a factory, and with what it calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from acp import Agent, Client

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
