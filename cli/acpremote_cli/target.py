"""TARGET arguments: `module:attribute` to an agent that can be served.

An ACP agent of the SDK, or what makes one, is taken as it is; Pydantic AI and LangGraph agents are adapted
by the packages `pydantic-acp` and `langchain-acp`. Neither these nor their frameworks are imported for
anything else.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acpremote.errors import AgentStartError, ConfigError

__all__ = ["load_agent", "load_target", "no_agent"]

logger = logging.getLogger(__name__)


def load_agent(target: str, directory: Path | None = None) -> Any:
    """Does as `load_target`, and calls a factory once to see that it makes an agent.

    Raises:
        ConfigError: also, what TARGET names is no agent and makes none.
    """
    value = load_target(target, directory)
    from acpremote.sdk import prove_factory

    try:
        asyncio.run(prove_factory(value))
    except AgentStartError as error:
        raise no_agent(target, error) from error
    return value


def no_agent(target: str, error: AgentStartError) -> ConfigError:
    """The error for a TARGET that did not make an agent."""
    return ConfigError(
        f"{target}: {error}; TARGET is an ACP agent, a class of agents, or a function that returns one"
    )


def load_target(target: str, directory: Path | None = None) -> Any:
    """Imports what TARGET names, from `directory` or the current one before everything else.

    Raises:
        ConfigError: it does not name anything, or what it names cannot be served.
    """
    name, colon, attribute = target.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{target!r} is no target; allowed: MODULE:ATTRIBUTE, for instance my_agent:agent")
    place = (directory or Path()).resolve()
    if not place.is_dir():
        raise ConfigError(f"{place} is no directory")
    sys.path.insert(0, str(place))
    value = _attribute(_import(name, place), attribute)
    return _adapt(value, target)


def _import(name: str, place: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"there is no module {error.name!r}; it was looked for in {place} and where Python looks "
                "(-p DIR names another directory)"
            ) from None
        raise ConfigError(f"importing {name!r} failed: {error}; install what it needs") from error
    except Exception as error:  # the user's own code, at its top level
        logger.exception("importing %s failed", name)
        raise ConfigError(f"importing {name!r} failed: {type(error).__name__}: {error}") from error


def _attribute(module: Any, attribute: str) -> Any:
    value = module
    for part in attribute.split("."):
        names = dir(value)
        if not hasattr(value, part):
            close = difflib.get_close_matches(part, names, n=3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise ConfigError(f"{module.__name__!r} has no {attribute!r}{hint}")
        value = getattr(value, part)
    return value


def _is_instance(value: object, module: str, class_name: str) -> bool:
    """Whether the value is of a class of a module that may not even be installed; never imports it."""
    base = getattr(sys.modules.get(module), class_name, None)
    return isinstance(base, type) and isinstance(value, base)


def _adapt(value: Any, target: str) -> Any:
    """Puts an adapter before a framework's agent: one a connection, for it remembers its client."""
    if _is_instance(value, "pydantic_ai.agent", "AbstractAgent"):
        adapt = _adapter("pydantic_acp", "pydantic", f"{target} is a Pydantic AI agent")
        return lambda: adapt(agent=value)
    if _is_instance(value, "langgraph.pregel", "Pregel"):
        adapt = _adapter("langchain_acp", "langchain", f"{target} is a LangGraph agent")
        return lambda: adapt(graph=value)
    return value


def _adapter(module: str, extra: str, what: str) -> Callable[..., Any]:
    try:
        adapter: Callable[..., Any] = importlib.import_module(module).create_acp_agent
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what}, which needs the package {error.name}: pip install 'acpremote[{extra}]'"
        ) from None
    return adapter
