"""A form an agent asks for, as fields with their rules, independent of how it is shown.

Owns reading a person's text for a field, and checking a whole answer. A field of an unknown kind cannot
be filled in: it is named, and when it is required the form cannot be accepted. Nothing is cut and nothing
is coerced. `schema.py` makes forms of what an agent sends.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from .patterns import fits_pattern

__all__ = ["FieldKind", "FieldOption", "FieldValue", "Form", "FormField", "is_finite", "text_problem"]

FieldValue: TypeAlias = str | int | float | bool | list[str]

MAX_SAFE_INTEGER = 2**53 - 1


class FieldKind(enum.Enum):
    """What a field holds."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "one of"
    CHOICES = "any of"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class FieldOption:
    """One allowed value of a choice, with what is shown for it."""

    value: str
    label: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class FormField:
    """One field. `least` and `most` bound a text's length, a number's value or a selection's size."""

    name: str
    kind: FieldKind
    title: str
    description: str | None
    required: bool
    default: FieldValue | None
    options: tuple[FieldOption, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    format: str | None = None

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, as a person should read it; None when it fits."""
        return _CHECKS[self.kind](self, value)

    def read(self, text: str) -> FieldValue:
        """Reads what a person typed.

        Raises:
            ValueError: The text is no value of this field; the message says what is expected.
        """
        value = _READERS[self.kind](self, text)
        if (problem := self.problem(value)) is not None:
            raise ValueError(problem)
        return value

    @property
    def hint(self) -> str:
        """The rules in a few words."""
        parts = [_NOUNS[self.kind]]
        if self.least is not None:
            parts.append(f"at least {_counted(self, self.least)}")
        if self.most is not None:
            parts.append(f"at most {_counted(self, self.most)}")
        if self.format is not None:
            parts.append(self.format)
        parts.append("required" if self.required else "optional")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Form:
    """A form: its fields in the agent's order."""

    title: str | None
    description: str | None
    fields: tuple[FormField, ...]

    @property
    def unfillable(self) -> tuple[FormField, ...]:
        """Required fields of a type that is not known: with one of these the form cannot be accepted."""
        return tuple(field for field in self.fields if field.kind is FieldKind.UNSUPPORTED and field.required)

    def problems(self, values: Mapping[str, object]) -> dict[str, str]:
        """What is wrong with a whole answer, by field name."""
        found = dict.fromkeys(values.keys() - {field.name for field in self.fields}, "there is no such field")
        for field in self.fields:
            if field.name in values:
                problem = field.problem(values[field.name])
            else:
                problem = "this is required" if field.required else None
            if problem is not None:
                found[field.name] = problem
        return found


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < MAX_SAFE_INTEGER else str(number)


_NOUNS = {
    FieldKind.TEXT: "text",
    FieldKind.NUMBER: "a number",
    FieldKind.INTEGER: "a whole number",
    FieldKind.BOOLEAN: "yes or no",
    FieldKind.CHOICE: "one of the list",
    FieldKind.CHOICES: "any of the list",
    FieldKind.UNSUPPORTED: "a kind this client does not know",
}


# Checking a value


def _bounds(field: FormField, size: float) -> str | None:
    if field.least is not None and size < field.least:
        return f"at least {_counted(field, field.least)}"
    if field.most is not None and size > field.most:
        return f"at most {_counted(field, field.most)}"
    return None


def _counted(field: FormField, number: float) -> str:
    plural = "" if number == 1 else "s"
    unit = {FieldKind.TEXT: f" character{plural}", FieldKind.CHOICES: " of them"}.get(field.kind, "")
    return f"{_plain(number)}{unit}"


def text_problem(field: FormField, value: object) -> str | None:
    """What is wrong with a text under a field's length, format and pattern."""
    if not isinstance(value, str):
        return "text is expected"
    if (problem := _bounds(field, len(value))) is not None:
        return problem
    if field.format in _FORMATS and not _FORMATS[field.format](value):
        return f"this is not a valid {field.format}"
    if field.pattern is not None and not fits_pattern(field.pattern, value):
        return f"this does not match {field.pattern}"
    return None


def _number_problem(field: FormField, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        return "a number is expected"
    return _bounds(field, value)


def _integer_problem(field: FormField, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return "a whole number is expected"
    if abs(value) > MAX_SAFE_INTEGER:
        return "this number is too large to be sent exactly"
    return _bounds(field, value)


def _boolean_problem(_field: FormField, value: object) -> str | None:
    return None if isinstance(value, bool) else "yes or no is expected"


def _choice_problem(field: FormField, value: object) -> str | None:
    known = isinstance(value, str) and any(option.value == value for option in field.options)
    return None if known else "this is not one of the list"


def _choices_problem(field: FormField, value: object) -> str | None:
    if not isinstance(value, list) or any(_choice_problem(field, item) for item in value):
        return "these are not all of the list"
    if len(set(value)) < len(value):
        return "something is chosen twice"
    return _bounds(field, len(value))


def _unsupported_problem(_field: FormField, _value: object) -> str | None:
    return "this client does not know this kind of field"


_CHECKS: dict[FieldKind, Callable[[FormField, object], str | None]] = {
    FieldKind.TEXT: text_problem,
    FieldKind.NUMBER: _number_problem,
    FieldKind.INTEGER: _integer_problem,
    FieldKind.BOOLEAN: _boolean_problem,
    FieldKind.CHOICE: _choice_problem,
    FieldKind.CHOICES: _choices_problem,
    FieldKind.UNSUPPORTED: _unsupported_problem,
}


def is_finite(value: float) -> bool:
    """Whether JSON can carry the number and a double can hold it."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) and not re.search(r"[\s<>\"]", text) and len(text) > len(parts.scheme) + 1


def _is_date(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    stamp = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)"  # RFC 3339 section 5.6
    if re.fullmatch(stamp, text) is None:
        return False
    try:
        datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", text.upper()))
    except ValueError:
        return False
    return True


_FORMATS: dict[str | None, Callable[[str], bool]] = {
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_date_time,
}


# Reading a person's text


def _read_number(_field: FormField, text: str) -> float:
    stripped = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,300}", stripped):
        return int(stripped)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", stripped):
        return float(stripped)
    raise ValueError("a number is expected")


def _read_integer(_field: FormField, text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,300}", text.strip()) is None:
        raise ValueError("a whole number is expected")
    return int(text)


def _read_boolean(_field: FormField, text: str) -> bool:
    word = text.strip().lower()
    if word not in _WORDS:
        raise ValueError("yes or no is expected")
    return _WORDS[word]


_WORDS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def _pick(field: FormField, text: str) -> str:
    """A number of the list counts first, then a value, then a label; a label must be unique."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,6}", text) and 1 <= int(text) <= len(field.options):
        return field.options[int(text) - 1].value
    labelled = [option.value for option in field.options if text == option.label]
    if any(option.value == text for option in field.options):
        return text
    if len(labelled) == 1:
        return labelled[0]
    raise ValueError(f"a number from 1 to {len(field.options)} is expected")


def _pick_several(field: FormField, text: str) -> list[str]:
    return [_pick(field, part) for part in text.split(",") if part.strip()]


def _read_nothing(field: FormField, _text: str) -> FieldValue:
    raise ValueError(_unsupported_problem(field, None))


_READERS: dict[FieldKind, Callable[[FormField, str], FieldValue]] = {
    FieldKind.TEXT: lambda _field, text: text,
    FieldKind.NUMBER: _read_number,
    FieldKind.INTEGER: _read_integer,
    FieldKind.BOOLEAN: _read_boolean,
    FieldKind.CHOICE: _pick,
    FieldKind.CHOICES: _pick_several,
    FieldKind.UNSUPPORTED: _read_nothing,
}
