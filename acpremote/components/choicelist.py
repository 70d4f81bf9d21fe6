"""ChoiceList: the properties of the one component so far, and the event its selection makes.

The properties are strict at every level: an unknown key is refused, nothing is coerced, nothing is cut.
Choosing never executes anything: a choice with an `action` only proposes it (`confirmation.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from ..errors import ConfigError, RemoteProtocolError
from .bounded import JsonValue, freeze, thaw
from .frames import (
    MAX_SUMMARY,
    Fallback,
    InvalidFrameError,
    RenderFrame,
    SelectionEvent,
    Undecoded,
    decode_component_frame,
)
from .lexical import is_identifier, is_text, utf16_length

__all__ = [
    "CHOICE_LIST",
    "MAX_CHOICES",
    "MAX_LABEL",
    "MAX_PROMPT",
    "Choice",
    "ChoiceAction",
    "ChoiceListProps",
    "InvalidPropsError",
    "choice_list_frame",
    "choice_list_summary",
    "clamp",
    "parse_choice_list_props",
    "select_choice",
]

CHOICE_LIST: Final = "choice-list"
MAX_CHOICES: Final = 20
MAX_PROMPT: Final = 4096
MAX_LABEL: Final = 256
_MAX_INPUT_KEY: Final = 128


class InvalidPropsError(RemoteProtocolError, ValueError):
    """Says that a component's properties do not fit its schema. The message quotes nothing."""


def _refuse(what: str) -> NoReturn:
    raise InvalidPropsError(f"choice-list: {what}")


@dataclass(frozen=True, slots=True)
class ChoiceAction:
    """A typed action that a choice proposes; `input` is a frozen JSON object."""

    name: str
    input: Mapping[str, JsonValue]

    def to_json(self) -> dict[str, object]:
        """The action as it travels."""
        return {"name": self.name, "input": thaw(self.input)}


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a ChoiceList."""

    id: str
    label: str
    description: str | None = None
    action: ChoiceAction | None = None

    def to_json(self) -> dict[str, object]:
        """The choice as it travels; what it has not is left out."""
        shown: dict[str, object] = {"id": self.id, "label": self.label}
        if self.description is not None:
            shown["description"] = self.description
        if self.action is not None:
            shown["action"] = self.action.to_json()
        return shown


@dataclass(frozen=True, slots=True)
class ChoiceListProps:
    """A prompt and 1 to 20 choices with distinct ids."""

    prompt: str
    choices: tuple[Choice, ...]

    def find(self, choice_id: object) -> Choice | None:
        """The choice with this id, if it is one of these."""
        return next((choice for choice in self.choices if choice.id == choice_id), None)

    def to_json(self) -> dict[str, object]:
        """The properties as they travel."""
        return {"prompt": self.prompt, "choices": [choice.to_json() for choice in self.choices]}


def parse_choice_list_props(props: JsonValue) -> ChoiceListProps:
    """Reads a ChoiceList's properties.

    Raises:
        InvalidPropsError: They do not fit.
    """
    members = _object(props, {"prompt", "choices"}, set(), "the properties")
    prompt, choices = members["prompt"], members["choices"]
    if not is_text(prompt, MAX_PROMPT):
        _refuse(f"the prompt has 1 to {MAX_PROMPT} characters")
    if not isinstance(choices, tuple) or not 1 <= len(choices) <= MAX_CHOICES:
        _refuse(f"there are 1 to {MAX_CHOICES} choices")
    parsed = tuple(_choice(choice) for choice in choices)
    if len({choice.id for choice in parsed}) < len(parsed):
        _refuse("choice ids are distinct")
    return ChoiceListProps(prompt, parsed)


def _object(value: JsonValue, needed: set[str], allowed: set[str], what: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping) or not needed <= value.keys() <= needed | allowed:
        _refuse(f"{what} have exactly the declared keys")
    return value


def _choice(value: JsonValue) -> Choice:
    members = _object(value, {"id", "label"}, {"description", "action"}, "choices")
    identifier, label, description = members["id"], members["label"], members.get("description")
    if not is_identifier(identifier):
        _refuse("a choice id is not an identifier")
    if not is_text(label, MAX_LABEL):
        _refuse(f"a label has 1 to {MAX_LABEL} characters")
    # `null` is not the same as absent: the published schema refuses it.
    if "description" in members and not is_text(description, MAX_PROMPT):
        _refuse(f"a description has 1 to {MAX_PROMPT} characters")
    action = _action(members["action"]) if "action" in members else None
    return Choice(identifier, label, description if isinstance(description, str) else None, action)


def _action(value: JsonValue) -> ChoiceAction:
    members = _object(value, {"name", "input"}, set(), "actions")
    name, arguments = members["name"], members["input"]
    if not is_identifier(name):
        _refuse("an action name is not an identifier")
    if not isinstance(arguments, Mapping):
        _refuse("an action's input is an object")
    if any(utf16_length(key) > _MAX_INPUT_KEY for key in arguments):
        _refuse(f"an input key has at most {_MAX_INPUT_KEY} characters")
    return ChoiceAction(name, arguments)


def clamp(text: str, longest: int) -> str:
    """Cuts text to `longest` UTF-16 units at a character boundary, with an ellipsis when cut."""
    if utf16_length(text) <= longest:
        return text
    kept = text[: longest - 1]
    while utf16_length(kept) > longest - 1:
        kept = kept[:-1]
    return kept + "…"


def choice_list_summary(props: ChoiceListProps) -> str:
    """What a shell without ChoiceList shows instead; the only text here that is ever cut."""
    return clamp(f"{props.prompt} {', '.join(choice.label for choice in props.choices)}.", MAX_SUMMARY)


def choice_list_frame(instance_id: str, prompt: str, choices: Iterable[Choice]) -> RenderFrame:
    """Makes a ChoiceList's render frame, with a fallback that tells prompt and labels.

    Raises:
        InvalidPropsError: Prompt or choices are out of bounds.
        ValueError: The instance id is not an identifier.
    """
    shown = ChoiceListProps(prompt, tuple(choices)).to_json()
    props = parse_choice_list_props(freeze(shown))
    return RenderFrame(
        CHOICE_LIST, instance_id, freeze(shown), Fallback(CHOICE_LIST, choice_list_summary(props))
    )


def select_choice(frame: object, choice_id: str) -> SelectionEvent:
    """Makes the event that says which choice was made. A renderer calls it, never a model.

    Args:
        frame: A `RenderFrame`; anything else is decoded first.
        choice_id: The id of one of the frame's choices.

    Raises:
        ConfigError: The frame is no ChoiceList, or declares no such choice.
        InvalidPropsError: The frame's properties do not fit.
        InvalidFrameError: It is no valid frame.
    """
    if not isinstance(frame, RenderFrame):
        decoded = decode_component_frame(frame)
        if isinstance(decoded, Undecoded):
            raise InvalidFrameError(decoded.diagnostic)
        frame = decoded.frame
    if frame.component_key != CHOICE_LIST:
        raise ConfigError("only a choice-list frame has choices to select")
    if parse_choice_list_props(frame.props).find(choice_id) is None:
        raise ConfigError("the frame declares no such choice")
    return SelectionEvent(CHOICE_LIST, frame.instance_id, choice_id)
