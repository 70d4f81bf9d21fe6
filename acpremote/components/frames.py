"""The three envelopes of the component protocol, version 1, and their decoder.

    render    assistant to shell: show this component        RenderFrame
    select    shell to host: this choice was made            SelectionEvent
    interact  shell to host: another component's event       InteractionEvent

Decoding never raises, whatever it is given: it answers with the message or with a `Diagnostic`. The
order of the checks is part of the protocol (a frame of version 2 with an unknown type reports the
version). A diagnostic's text is fixed and never quotes the input. Read `manifest.py` next.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, Literal, NoReturn, TypeAlias, TypeVar, cast

from ..errors import RemoteProtocolError
from .bounded import JsonValue, freeze, thaw
from .lexical import is_identifier, is_key, is_text

__all__ = [
    "ABSENT",
    "MAX_FRAME_CHARS",
    "PROTOCOL",
    "VERSION",
    "Absent",
    "Decoded",
    "Diagnostic",
    "DiagnosticCode",
    "Fallback",
    "InteractionEvent",
    "InvalidFrameError",
    "RenderFrame",
    "SelectionEvent",
    "Undecoded",
    "decode_component_event",
    "decode_component_frame",
    "format_fallback",
    "parse_json",
]

PROTOCOL: Final = "agentskit.chat.component"
VERSION: Final = 1

MAX_FRAME_CHARS = 32 * 1024 * 1024
"""Longest text that is parsed at all: above every frame whose props are within the limits."""

MAX_KIND = 64
MAX_SUMMARY = 4096


class Absent(enum.Enum):
    """The type of `ABSENT`: no value, which JSON's `null` is not."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class DiagnosticCode(enum.StrEnum):
    """Why a frame is not shown as a component."""

    UNSUPPORTED_VERSION = "COMPONENT_UNSUPPORTED_VERSION"
    UNKNOWN_TYPE = "COMPONENT_UNKNOWN_TYPE"
    INVALID_FRAME = "COMPONENT_INVALID_FRAME"
    UNKNOWN = "COMPONENT_UNKNOWN"
    INVALID_PROPS = "COMPONENT_INVALID_PROPS"


_MESSAGES = {
    DiagnosticCode.UNSUPPORTED_VERSION: "The component frame has a protocol version that is not supported.",
    DiagnosticCode.UNKNOWN_TYPE: "The component frame has a type that is not known.",
    DiagnosticCode.INVALID_FRAME: "The component frame is not valid.",
    DiagnosticCode.UNKNOWN: "The component is not declared here.",
    DiagnosticCode.INVALID_PROPS: "The component's properties are not valid.",
}
_BAD_JSON = "The component frame is not valid JSON."


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Says why a frame is not shown. `message` is fixed for its code and quotes nothing."""

    code: DiagnosticCode
    message: str
    retryable: Literal[False] = False

    @classmethod
    def of(cls, code: DiagnosticCode) -> Diagnostic:
        """The diagnostic of a code, with its text."""
        return cls(code, _MESSAGES[code])


class InvalidFrameError(RemoteProtocolError):
    """Says that something is no valid frame, where the caller asked for an exception."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _refuse(what: str) -> NoReturn:
    raise ValueError(what)


@dataclass(frozen=True, slots=True)
class Fallback:
    """What a shell shows that does not know the component. Checked when it is made.

    `kind` is free text of 1 to 64 units, `summary` of 1 to 4,096.
    """

    kind: str
    summary: str

    def __post_init__(self) -> None:
        if not is_text(self.kind, MAX_KIND) or not is_text(self.summary, MAX_SUMMARY):
            _refuse("a fallback has a kind of 1 to 64 and a summary of 1 to 4096 characters")

    def to_json(self) -> dict[str, object]:
        """The fallback as it travels."""
        return {"kind": self.kind, "summary": self.summary}


def _head(kind: str, key: str, instance: str) -> dict[str, object]:
    return {
        "protocol": PROTOCOL,
        "version": VERSION,
        "type": kind,
        "componentKey": key,
        "instanceId": instance,
    }


def _check_names(key: str, instance: str) -> None:
    if not is_key(key):
        _refuse("a component key is a lowercase letter and up to 63 of a-z, 0-9 and -")
    if not is_identifier(instance):
        _refuse("an instance id is a letter or digit and up to 127 of A-Z, a-z, 0-9, and . _ : -")


@dataclass(frozen=True, slots=True)
class RenderFrame:
    """Asks a shell to show one component. Checked when it is made; `props` are copied and frozen."""

    component_key: str
    instance_id: str
    props: JsonValue
    fallback: Fallback

    def __post_init__(self) -> None:
        _check_names(self.component_key, self.instance_id)
        object.__setattr__(self, "props", freeze(self.props))

    def to_json(self) -> dict[str, object]:
        """The frame as it travels."""
        head = _head("render", self.component_key, self.instance_id)
        return head | {"props": thaw(self.props), "fallback": self.fallback.to_json()}

    def encode(self) -> str:
        """The frame as JSON text."""
        return json.dumps(self.to_json(), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SelectionEvent:
    """Reports that one choice of a ChoiceList was made. `select_choice` makes it; a model never does."""

    component_key: str
    instance_id: str
    choice_id: str

    def __post_init__(self) -> None:
        _check_names(self.component_key, self.instance_id)
        if not is_identifier(self.choice_id):
            _refuse("a choice id is a letter or digit and up to 127 of A-Z, a-z, 0-9, and . _ : -")

    def to_json(self) -> dict[str, object]:
        """The event as it travels."""
        return _head("select", self.component_key, self.instance_id) | {"choiceId": self.choice_id}


@dataclass(frozen=True, slots=True)
class InteractionEvent:
    """Reports an event of a component other than a ChoiceList; `value` is optional."""

    component_key: str
    instance_id: str
    event: str
    value: JsonValue | Absent = ABSENT

    def __post_init__(self) -> None:
        _check_names(self.component_key, self.instance_id)
        if not is_key(self.event):
            _refuse("an event name is a lowercase letter and up to 63 of a-z, 0-9 and -")
        if not isinstance(self.value, Absent):
            object.__setattr__(self, "value", freeze(self.value))

    def to_json(self) -> dict[str, object]:
        """The event as it travels; `value` is left out when there is none."""
        head = _head("interact", self.component_key, self.instance_id) | {"event": self.event}
        return head if isinstance(self.value, Absent) else head | {"value": thaw(self.value)}


M = TypeVar("M")
Readers: TypeAlias = Mapping[str, Callable[[Mapping[str, object]], M]]
"""By message type, what makes the message of its members."""


@dataclass(frozen=True)  # no slots: a frozen, slotted, generic class cannot be called as `Decoded[X](…)`
class Decoded(Generic[M]):
    """A message that was decoded."""

    frame: M
    ok: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Something that is no valid message."""

    diagnostic: Diagnostic
    ok: Literal[False] = field(default=False, init=False)


def decode_component_frame(frame: object) -> Decoded[RenderFrame] | Undecoded:
    """Decodes a render frame from JSON text, UTF-8 bytes, or a parsed object. Never raises."""
    return _decode(frame, {"render": _render})


def decode_component_event(event: object) -> Decoded[SelectionEvent | InteractionEvent] | Undecoded:
    """Decodes a select or interact event, as a host receives it. Never raises."""
    return _decode(event, {"select": _select, "interact": _interact})


def _decode(value: object, readers: Readers[M]) -> Decoded[M] | Undecoded:
    # `type()`, not `isinstance`: the latter asks the object for its `__class__`, which may raise.
    if type(value) in (str, bytes):
        try:
            value = parse_json(cast("str | bytes", value))
        except Exception:  # noqa: BLE001 - whatever is wrong with the text, it is no frame
            return Undecoded(Diagnostic(DiagnosticCode.INVALID_FRAME, _BAD_JSON))
    try:
        return _decode_parsed(value, readers)
    except Exception:  # noqa: BLE001 - a hostile object may raise anything; the protocol says what that is
        return Undecoded(Diagnostic.of(DiagnosticCode.INVALID_FRAME))


def _decode_parsed(value: object, readers: Readers[M]) -> Decoded[M] | Undecoded:
    members = _members(value)
    if members is None or not _is(members.get("protocol"), PROTOCOL):
        return Undecoded(Diagnostic.of(DiagnosticCode.INVALID_FRAME))
    version, kind = members.get("version"), members.get("type")
    is_number = type(version) in (int, float)
    if is_number and version != VERSION:
        return Undecoded(Diagnostic.of(DiagnosticCode.UNSUPPORTED_VERSION))
    if type(kind) is not str or kind not in readers:
        return Undecoded(Diagnostic.of(DiagnosticCode.UNKNOWN_TYPE))
    if not is_number:
        return Undecoded(Diagnostic.of(DiagnosticCode.INVALID_FRAME))
    return Decoded(readers[kind](members))


def _members(value: object) -> dict[str, object] | None:
    """Copies the members of an object, so that what is checked is what is used.

    A key that is no plain string can only come from a caller's object; refusing it keeps foreign
    `__eq__` out of the look-ups that follow.
    """
    if not isinstance(value, dict | MappingProxyType) or type(value) not in (dict, MappingProxyType):
        return None
    members = dict(value)
    return None if any(type(key) is not str for key in members) else members


def _is(value: object, text: str) -> bool:
    return type(value) is str and value == text


def _string(members: Mapping[str, object], name: str) -> str:
    value = members[name]
    return value if type(value) is str else _refuse(f"{name} is not a string")


def _render(members: Mapping[str, object]) -> RenderFrame:
    fallback = _members(members["fallback"])
    if fallback is None:
        _refuse("the fallback is not an object")
    return RenderFrame(
        _string(members, "componentKey"),
        _string(members, "instanceId"),
        freeze(members["props"]),
        Fallback(_string(fallback, "kind"), _string(fallback, "summary")),
    )


def _select(members: Mapping[str, object]) -> SelectionEvent:
    return SelectionEvent(
        _string(members, "componentKey"), _string(members, "instanceId"), _string(members, "choiceId")
    )


def _interact(members: Mapping[str, object]) -> InteractionEvent:
    return InteractionEvent(
        _string(members, "componentKey"),
        _string(members, "instanceId"),
        _string(members, "event"),
        freeze(members["value"]) if "value" in members else ABSENT,
    )


def parse_json(text: str | bytes) -> object:
    """Parses JSON as `JSON.parse` does: duplicate keys, the last wins; no NaN or Infinity; no BOM.

    Raises:
        ValueError: The text is not JSON, or longer than `MAX_FRAME_CHARS`.
        RecursionError: The text is nested too deeply to be parsed.
    """
    if len(text) > MAX_FRAME_CHARS:
        _refuse("the text is too long")
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return json.loads(text, parse_constant=_refuse)


def format_fallback(frame: RenderFrame | Fallback) -> str:
    """Spells a frame's fallback as the one text form that every shell shares."""
    fallback = frame.fallback if isinstance(frame, RenderFrame) else frame
    return f"[unsupported visual: {fallback.kind}] {fallback.summary}"
