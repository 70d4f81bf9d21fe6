"""The client-side actions that a choice may propose: name, argument model, handler.

A frame that a model wrote can only name an action; what the name means is the host's alone. Unknown
actions and arguments that do not fit are refused before anything is shown as approvable, and every
registered action needs a person's confirmation. Read `confirmation.py` next.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast, runtime_checkable

import msgspec

from ..errors import ConfigError, RemoteProtocolError
from .bounded import INPUT_LIMITS, JsonValue, NotBoundedError, freeze, thaw
from .choicelist import ChoiceAction
from .lexical import is_identifier

__all__ = ["Action", "ActionRefusal", "ActionRefusedError", "ActionRegistry", "NoArguments"]

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class NoArguments:
    """The argument model of an action that takes none."""


class ActionRefusal(enum.Enum):
    """Why an action is not proposed."""

    UNKNOWN = "the action is not known here"
    INVALID_INPUT = "the action's input does not fit"
    FORBIDDEN = "the action is not allowed"


class ActionRefusedError(RemoteProtocolError):
    """Says that a proposed action was refused before it was shown; `refusal` says why."""

    def __init__(self, refusal: ActionRefusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


@runtime_checkable
class _Validating(Protocol):
    """What a pydantic model class offers; pydantic itself is not imported here."""

    def model_validate(self, obj: object, *, strict: bool) -> object: ...

    model_fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Action:
    """One registered action. `arguments` is the type its handler is called with."""

    name: str
    arguments: type
    handler: Callable[[object], object]
    title: str

    def read(self, value: JsonValue) -> object:
        """Makes the arguments of an input; a fresh object every time.

        Raises:
            ActionRefusedError: The input does not fit.
        """
        plain = thaw(value)
        try:
            if not isinstance(plain, dict) or not plain.keys() <= _field_names(self.arguments):
                raise ActionRefusedError(ActionRefusal.INVALID_INPUT)
            if isinstance(self.arguments, _Validating):
                return self.arguments.model_validate(plain, strict=True)
            return cast("object", msgspec.convert(plain, self.arguments, strict=True))
        except ValueError as error:  # msgspec.ValidationError and pydantic's are both of this kind
            raise ActionRefusedError(ActionRefusal.INVALID_INPUT) from error

    async def run(self, value: JsonValue) -> object:
        """Calls the handler with arguments made anew from the input, and awaits what it returns."""
        returned = self.handler(self.read(value))
        return await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned


def _field_names(model: type) -> set[str]:
    """Names the fields of an argument model: a person must not approve what the handler never sees."""
    if isinstance(model, _Validating):
        fields = model.model_fields
        return {*fields, *(str(getattr(field, "alias", None) or name) for name, field in fields.items())}
    if dataclasses.is_dataclass(model):
        return {field.name for field in dataclasses.fields(model)}
    if issubclass(model, msgspec.Struct):
        return set(model.__struct_encode_fields__)
    return set(model.__annotations__)


class ActionRegistry:
    """The host's actions, by name."""

    def __init__(self) -> None:
        self._actions: dict[str, Action] = {}

    def register(
        self,
        name: str,
        handler: Callable[[A], object],
        *,
        arguments: type[A],
        requires_confirmation: bool = True,
        title: str = "",
    ) -> Action:
        """Adds an action.

        Args:
            name: An identifier, for instance `git.stash`.
            handler: Called with the arguments once a person approved; sync or async.
            arguments: A dataclass, a msgspec Struct, a TypedDict or a pydantic model. There is no action
                without one (`NoArguments` takes nothing), and fields it does not have are refused.
            requires_confirmation: Must be true. It is asked for so that a host which means to run
                things unasked is told that this is not the way.
            title: What a person reads beside the name.

        Raises:
            ConfigError: One of these is not so, or the name is taken.
        """
        if requires_confirmation is not True:
            raise ConfigError(f"the action {name!r} must require confirmation")
        if not is_identifier(name):
            raise ConfigError(
                "an action name is a letter or digit and up to 127 of A-Z, a-z, 0-9, and . _ : -"
            )
        if name in self._actions:
            raise ConfigError(f"the action {name} is registered twice")
        if not callable(handler):
            raise ConfigError(f"the action {name} has no handler that can be called")
        if not _is_model(arguments):
            raise ConfigError(f"the action {name} needs an argument model (NoArguments for none)")
        action = Action(name, arguments, cast("Callable[[object], object]", handler), title or name)
        self._actions[name] = action
        return action

    def check(self, proposed: ChoiceAction) -> tuple[Action, JsonValue]:
        """Finds the proposed action and gives a frozen snapshot of its input.

        Raises:
            ActionRefusedError: It is unknown, or its input exceeds the limits or does not fit.
        """
        action = self._actions.get(proposed.name) if is_identifier(proposed.name) else None
        if action is None:
            raise ActionRefusedError(ActionRefusal.UNKNOWN)
        try:
            snapshot = freeze(proposed.input, INPUT_LIMITS)
        except NotBoundedError as error:
            raise ActionRefusedError(ActionRefusal.INVALID_INPUT) from error
        action.read(snapshot)
        return action, snapshot


def _is_model(model: object) -> bool:
    if not isinstance(model, type):
        return False
    is_typed_dict = issubclass(model, dict) and hasattr(model, "__total__")
    return (
        isinstance(model, _Validating)
        or dataclasses.is_dataclass(model)
        or issubclass(model, msgspec.Struct)
        or is_typed_dict
    )
