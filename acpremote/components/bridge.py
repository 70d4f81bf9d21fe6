"""Between ACP's questions and components: elicitations and permission requests, as they travel.

    elicitation/create, form, one string of 1 to 20 listed values  <->  ChoiceList frame   SingleChoice
    elicitation/create, any other form                              ->  fields             FormQuestion
    elicitation/create, url                                         ->  an address         UrlQuestion
    session/request_permission                                      ->  ChoiceList frame   PermissionQuestion

Works on plain JSON members, so that it serves any client (those of the ACP SDK through `model_dump`). What
does not fit a ChoiceList is never cut to fit. Values stay here, under synthetic choice ids: a selection can
only ever name one of them. Every answer is a complete JSON-RPC `result`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from ..errors import ConfigError, RemoteProtocolError
from .choicelist import (
    MAX_CHOICES,
    MAX_LABEL,
    MAX_PROMPT,
    Choice,
    ChoiceListProps,
    choice_list_frame,
    parse_choice_list_props,
)
from .forms import FieldKind, FieldOption, FieldValue, Form, FormField
from .frames import RenderFrame, SelectionEvent
from .lexical import is_text
from .schema import InvalidFormError, read_form

__all__ = [
    "CANCEL",
    "CANCELLED_PERMISSION",
    "DECLINE",
    "ElicitationQuestion",
    "FormQuestion",
    "InvalidQuestionError",
    "PermissionOption",
    "PermissionQuestion",
    "SingleChoice",
    "UrlQuestion",
    "elicitation_of_frame",
    "read_elicitation",
    "read_permission",
]

Result: TypeAlias = "dict[str, object]"

DECLINE: Final[Mapping[str, object]] = {"action": "decline"}
"""The result that says: the person refuses to answer."""

CANCEL: Final[Mapping[str, object]] = {"action": "cancel"}
"""The result that says: the person went away without answering, or the turn, or the client did."""

CANCELLED_PERMISSION: Final[Mapping[str, object]] = {"outcome": {"outcome": "cancelled"}}
"""The permission result for a turn that was cancelled; never for a no."""


class InvalidQuestionError(RemoteProtocolError):
    """Says that a question is malformed (JSON-RPC -32602)."""


@dataclass(frozen=True, slots=True)
class SingleChoice:
    """A form that is one choice: `frame` shows it, `values` stay with the host.

    `default` is the choice to highlight first. Unless it is `required`, the person may skip it.
    """

    frame: RenderFrame
    name: str
    values: Mapping[str, str]
    default: str | None
    required: bool

    @property
    def props(self) -> ChoiceListProps:
        """The frame's properties."""
        return parse_choice_list_props(self.frame.props)

    def accept(self, event: SelectionEvent) -> Result:
        """The result for a selection.

        Raises:
            ConfigError: The selection belongs to another frame.
        """
        value = self.values.get(event.choice_id)
        if event.instance_id != self.frame.instance_id or value is None:
            raise ConfigError("this selection belongs to another question")
        return {"action": "accept", "content": {self.name: value}}

    def skip(self) -> Result:
        """The result that leaves the choice out.

        Raises:
            ConfigError: It is required.
        """
        if self.required:
            raise ConfigError("this choice is required")
        return {"action": "accept", "content": {}}


@dataclass(frozen=True, slots=True)
class FormQuestion:
    """Any other form."""

    message: str
    form: Form

    def accept(self, values: Mapping[str, FieldValue]) -> Result:
        """The result for a filled form.

        Raises:
            ConfigError: A value does not fit; the message names the field.
        """
        for name, problem in self.form.problems(values).items():
            raise ConfigError(f"{name}: {problem}")
        return {"action": "accept", "content": dict(values)}


@dataclass(frozen=True, slots=True)
class UrlQuestion:
    """An address to be opened, with consent. `host` is spelled as it is looked up; `notes` are warnings."""

    message: str
    url: str
    host: str
    elicitation_id: str
    notes: tuple[str, ...]

    def accept(self) -> Result:
        """The result for consent. It says nothing about what happened at the address."""
        return {"action": "accept"}


ElicitationQuestion: TypeAlias = SingleChoice | FormQuestion | UrlQuestion


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One way to answer a permission request."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """A permission request. `frame` is None when its options do not fit a ChoiceList.

    Choice ids are `o1`, `o2`, … in the order of `options`.
    """

    title: str
    tool_call: Mapping[str, object]
    options: tuple[PermissionOption, ...]
    frame: RenderFrame | None

    def select(self, choice_id: str) -> Result:
        """The result for a choice.

        Raises:
            ConfigError: There is no such choice.
        """
        number = int(choice_id[1:]) if re.fullmatch(r"o[1-9][0-9]{0,5}", choice_id) else 0
        if not 1 <= number <= len(self.options):
            raise ConfigError("there is no such choice")
        return _selected(self.options[number - 1])

    def refuse(self) -> Result | None:
        """The result for a plain "no": a reject option, once rather than always; None if there is none."""
        kinds = {option.kind: option for option in reversed(self.options)}
        option = kinds.get("reject_once") or kinds.get("reject_always")
        return None if option is None else _selected(option)


def _selected(option: PermissionOption) -> Result:
    return {"outcome": {"outcome": "selected", "optionId": option.id}}


# Reading elicitations


def read_elicitation(params: object) -> ElicitationQuestion:
    """Reads the parameters of `elicitation/create`.

    Raises:
        InvalidQuestionError: They are malformed, of an unknown mode, or ask to open what must not be opened.
    """
    members = _members(params, "params")
    message = _text(members, "message")
    match members.get("mode"):
        case "form":
            return _read_form(members, message)
        case "url":
            return _read_url(members, message)
        case _:
            raise InvalidQuestionError("this client knows the elicitation modes form and url")


def _members(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidQuestionError(f"{name} must be an object")
    return value


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise InvalidQuestionError(f"{name} must be a string")
    return value


def _read_form(members: Mapping[str, object], message: str) -> SingleChoice | FormQuestion:
    schema = _members(members.get("requestedSchema"), "requestedSchema")
    try:
        form = read_form(schema)
    except InvalidFormError as error:
        raise InvalidQuestionError(str(error)) from error
    return _single_choice(message, form, schema) or FormQuestion(message, form)


def _single_choice(message: str, form: Form, schema: Mapping[str, object]) -> SingleChoice | None:
    if len(form.fields) != 1 or form.fields[0].kind is not FieldKind.CHOICE:
        return None
    field = form.fields[0]
    prompt = _prompt(message, field)
    if not _is_exact(field, schema) or not _fits(prompt, field.options):
        return None
    choices = [
        Choice(f"o{number}", option.label, option.description)
        for number, option in enumerate(field.options, 1)
    ]
    values = {choice.id: option.value for choice, option in zip(choices, field.options, strict=True)}
    default = next((name for name, value in values.items() if value == field.default), None)
    frame = choice_list_frame(f"elicit-{secrets.token_hex(8)}", prompt, choices)
    return SingleChoice(frame, field.name, values, default, field.required)


def _is_exact(field: FormField, schema: Mapping[str, object]) -> bool:
    """Whether every listed value is offered: none twice, none excluded by the property's other rules."""
    rules = _members(_members(schema.get("properties"), "properties")[field.name], field.name)
    listed = rules.get("enum") if rules.get("enum") is not None else rules.get("oneOf")
    return isinstance(listed, list) and len(listed) == len(field.options)


def _fits(prompt: str, options: tuple[FieldOption, ...]) -> bool:
    return (
        is_text(prompt, MAX_PROMPT)
        and 1 <= len(options) <= MAX_CHOICES
        and all(is_text(option.label, MAX_LABEL) for option in options)
        and all(option.description is None or is_text(option.description, MAX_PROMPT) for option in options)
    )


def _prompt(message: str, field: FormField) -> str:
    """The message, with the property's own words where they add something and there is room."""
    words = [field.title if field.title != field.name else "", field.description or ""]
    added = [word for word in words if word and word.casefold() not in message.casefold()]
    prompt = "\n".join([message, *added])
    return prompt if is_text(prompt, MAX_PROMPT) else message


def _read_url(members: Mapping[str, object], message: str) -> UrlQuestion:
    url, elicitation_id = _text(members, "url"), _text(members, "elicitationId")
    if re.search(r"[\x00-\x20\x7f-\xa0\\]", url):
        raise InvalidQuestionError("the address holds blanks, control characters or backslashes")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii") if parts.hostname else ""
    except (ValueError, UnicodeError) as error:
        raise InvalidQuestionError("the address is malformed") from error
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidQuestionError("only http and https addresses are opened")
    return UrlQuestion(message, url, host, elicitation_id, tuple(_url_notes(url, host)))


def _url_notes(url: str, host: str) -> list[str]:
    parts = urlsplit(url)
    notes = []
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        notes.append("The connection to this address is not encrypted.")
    if "@" in parts.netloc:
        notes.append("The address carries a name before its host; what counts is the host.")
    if host.startswith("xn--") or ".xn--" in host:
        notes.append("The host's name uses letters that can look like others.")
    return notes


# Reading permission requests


def read_permission(params: object) -> PermissionQuestion:
    """Reads the parameters of `session/request_permission`.

    Raises:
        InvalidQuestionError: They are malformed or offer nothing to choose.
    """
    members = _members(params, "params")
    tool_call = _members(members.get("toolCall"), "toolCall")
    offered = members.get("options")
    if not isinstance(offered, list) or not offered:
        raise InvalidQuestionError("options must be a list that offers something")
    options = tuple(_permission_option(_members(option, "an option")) for option in offered)
    title = tool_call.get("title")
    if not isinstance(title, str) or not title:
        title = str(tool_call.get("toolCallId") or "a tool call")
    return PermissionQuestion(title, tool_call, options, _permission_frame(title, options))


def _permission_option(option: Mapping[str, object]) -> PermissionOption:
    return PermissionOption(_text(option, "optionId"), _text(option, "name"), _text(option, "kind"))


def _permission_frame(title: str, options: tuple[PermissionOption, ...]) -> RenderFrame | None:
    shown = tuple(FieldOption(option.id, option.name) for option in options)
    if not _fits(title, shown):
        return None
    choices = [Choice(f"o{number}", option.label) for number, option in enumerate(shown, 1)]
    return choice_list_frame(f"permit-{secrets.token_hex(8)}", title, choices)


# The other way


def elicitation_of_frame(frame: RenderFrame, session_id: str, *, name: str = "choice") -> dict[str, object]:
    """Makes the parameters of an `elicitation/create` that asks a ChoiceList's question.

    Raises:
        ConfigError: A choice has an action, which a form cannot carry.
        InvalidPropsError: The frame is no valid ChoiceList.
    """
    props = parse_choice_list_props(frame.props)
    if any(choice.action is not None for choice in props.choices):
        raise ConfigError("a form cannot carry a choice's action")
    options = []
    for choice in props.choices:
        option = {"const": choice.id, "title": choice.label}
        options.append(option if choice.description is None else option | {"description": choice.description})
    rules = {"type": "string", "oneOf": options}
    schema = {"type": "object", "properties": {name: rules}, "required": [name]}
    return {"sessionId": session_id, "mode": "form", "message": props.prompt, "requestedSchema": schema}
