"""The closed manifest: which components a shell shows, and how a frame resolves against it.

Only a declared key renders. `resolve_component_frame` never raises on any frame: it answers `Resolved`,
or `Unresolved` with one of five codes, together with the frame's own fallback when its envelope was
valid (the published implementation leaves that out, and its shells decode a second time for it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar

from ..errors import ConfigError
from .bounded import JsonValue, freeze
from .choicelist import CHOICE_LIST, ChoiceListProps, choice_list_summary, parse_choice_list_props
from .frames import (
    ABSENT,
    Absent,
    Decoded,
    Diagnostic,
    DiagnosticCode,
    Fallback,
    InteractionEvent,
    RenderFrame,
    Undecoded,
    decode_component_frame,
)
from .lexical import is_identifier, is_key

__all__ = [
    "ChoiceListComponent",
    "ComponentDefinition",
    "ComponentManifest",
    "EventDefinition",
    "Resolved",
    "Unresolved",
    "create_component_interaction",
    "define_component_manifest",
    "resolve_component_frame",
]

P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """An event a component may send, and what its value is; a form's value is an object."""

    name: str
    value: Literal["none", "id", "form", "url"] = "none"


@dataclass(frozen=True)  # no slots: a frozen, slotted, generic class cannot be called subscripted
class ComponentDefinition(Generic[P_co]):
    """Declares one component.

    `parse_props` gets the frozen properties and returns the typed ones, or raises whatever it likes.
    `fallback` makes the text for shells that cannot show typed properties.
    """

    key: str
    parse_props: Callable[[JsonValue], P_co]
    events: tuple[EventDefinition, ...] = ()
    capabilities: frozenset[str] = frozenset()
    fallback: Callable[..., str] | None = None


ChoiceListComponent: Final[ComponentDefinition[ChoiceListProps]] = ComponentDefinition(
    key=CHOICE_LIST,
    parse_props=parse_choice_list_props,
    events=(EventDefinition("select", "id"),),
    capabilities=frozenset({"display", "selection", "action"}),
    fallback=choice_list_summary,
)
"""The ChoiceList, for `define_component_manifest`."""

_STANDARD = MappingProxyType({CHOICE_LIST: ChoiceListComponent})
"""Keys that only the catalogue's own definition may carry."""


class ComponentManifest:
    """A closed, unchangeable set of component definitions. `define_component_manifest` makes it."""

    __slots__ = ("_definitions",)

    def __init__(self, definitions: dict[str, ComponentDefinition[object]]) -> None:
        self._definitions = MappingProxyType(dict(definitions))

    def get(self, key: str) -> ComponentDefinition[object] | None:
        """The definition declared under the key."""
        return self._definitions.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._definitions

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)


def define_component_manifest(definitions: Iterable[ComponentDefinition[object]]) -> ComponentManifest:
    """Declares the components that a shell shows. An empty manifest shows none.

    Raises:
        ConfigError: A key is invalid or repeated, or a standard key carries another definition.
    """
    declared: dict[str, ComponentDefinition[object]] = {}
    for definition in definitions:
        if not isinstance(definition, ComponentDefinition) or not is_key(definition.key):
            raise ConfigError("a component definition needs a key of a lowercase letter and a-z, 0-9, -")
        if definition.key in declared:
            raise ConfigError(f"the component {definition.key} is declared twice")
        if _STANDARD.get(definition.key, definition) is not definition:
            raise ConfigError(f"the standard component {definition.key} cannot be replaced")
        declared[definition.key] = definition
    return ComponentManifest(declared)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A frame that can be shown: `props` are what its definition's `parse_props` made of it."""

    frame: RenderFrame
    props: object
    definition: ComponentDefinition[object]
    ok: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A frame that is not shown as a component. `fallback` is None when there is no valid envelope."""

    diagnostic: Diagnostic
    fallback: Fallback | None = None
    ok: Literal[False] = field(default=False, init=False)


def resolve_component_frame(frame: object, manifest: ComponentManifest) -> Resolved | Unresolved:
    """Resolves a frame (text, bytes, parsed object or `RenderFrame`) against the manifest.

    Never raises, whatever the frame is, and never calls anything but the declared `parse_props`.
    """
    # `type()`, not `isinstance`: the latter asks the object for its `__class__`, which may raise.
    decoded = Decoded(frame) if type(frame) is RenderFrame else decode_component_frame(frame)
    if isinstance(decoded, Undecoded):
        return Unresolved(decoded.diagnostic)
    return _resolve(decoded.frame, manifest)


def _resolve(frame: RenderFrame, manifest: ComponentManifest) -> Resolved | Unresolved:
    definition = manifest.get(frame.component_key)
    if definition is None:
        return Unresolved(Diagnostic.of(DiagnosticCode.UNKNOWN), frame.fallback)
    try:
        props = definition.parse_props(frame.props)
    except Exception:  # noqa: BLE001 - a definition's validator may raise anything; that is its "no"
        return Unresolved(Diagnostic.of(DiagnosticCode.INVALID_PROPS), frame.fallback)
    return Resolved(frame, props, definition)


def create_component_interaction(
    resolved: Resolved, event: str, value: object | Absent = ABSENT
) -> InteractionEvent:
    """Makes an event of a component other than a ChoiceList, as its definition declares it.

    Raises:
        ConfigError: The component is a ChoiceList, or its definition declares no such event or value.
        ValueError: The value is no bounded JSON.
    """
    if resolved.frame.component_key == CHOICE_LIST:
        raise ConfigError("a choice-list is answered with select_choice")
    declared = next((known for known in resolved.definition.events if known.name == event), None)
    if declared is None or not _fits(declared.value, value):
        raise ConfigError("the component declares no such event, or none with such a value")
    frozen = ABSENT if isinstance(value, Absent) else freeze(value)
    return InteractionEvent(resolved.frame.component_key, resolved.frame.instance_id, event, frozen)


def _fits(kind: str, value: object) -> bool:
    match kind:
        case "none":
            return value is ABSENT
        case "id":
            return is_identifier(value)
        case "form":
            return type(value) is dict
        case _:
            return type(value) is str and value.startswith(("https://", "http://"))
