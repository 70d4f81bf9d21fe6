"""ACP's restricted JSON Schema, read into a `Form`.

Properties are strings (free, or one of a list), numbers, integers, booleans, or arrays that choose several of
a list; a property of another type becomes an unsupported field. As the ACP SDK does, a malformed title,
description, bound or default is ignored, and a malformed structure is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import RemoteProtocolError
from .forms import FieldKind, FieldOption, Form, FormField, is_finite, text_problem

__all__ = ["InvalidFormError", "read_form"]


class InvalidFormError(RemoteProtocolError):
    """Says that an elicitation's schema is malformed (JSON-RPC -32602)."""


def read_form(schema: object) -> Form:
    """Reads an elicitation's `requestedSchema`.

    A malformed title, description, bound or default is ignored; a malformed structure is an error.

    Raises:
        InvalidFormError: The schema is malformed.
    """
    members = _mapping(schema, "requestedSchema")
    if members.get("type", "object") not in ("object", None):
        raise InvalidFormError("requestedSchema must be of type object")
    properties = _mapping({} if members.get("properties") is None else members["properties"], "properties")
    required = members.get("required")
    if required is not None and not _are_strings(required):
        raise InvalidFormError("required must be a list of strings")
    names = {*required} if isinstance(required, list) else set()
    if not names <= properties.keys():
        raise InvalidFormError("a required property is not declared")
    fields = tuple(_field(name, _mapping(rules, name), name in names) for name, rules in properties.items())
    return Form(_string(members, "title"), _string(members, "description"), fields)


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidFormError(f"{name} must be an object")
    return value


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _string(rules: Mapping[str, object], name: str) -> str | None:
    value = rules.get(name)
    return value if isinstance(value, str) and value else None


def _number(rules: Mapping[str, object], name: str) -> float | None:
    value = rules.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)
    return value if is_number and isinstance(value, int | float) else None


_BOUNDS = {
    FieldKind.TEXT: ("minLength", "maxLength"),
    FieldKind.NUMBER: ("minimum", "maximum"),
    FieldKind.INTEGER: ("minimum", "maximum"),
    FieldKind.CHOICE: ("minLength", "maxLength"),
    FieldKind.CHOICES: ("minItems", "maxItems"),
}
_KINDS = {
    "string": FieldKind.TEXT,
    "number": FieldKind.NUMBER,
    "integer": FieldKind.INTEGER,
    "boolean": FieldKind.BOOLEAN,
    "array": FieldKind.CHOICES,
}


def _field(name: str, rules: Mapping[str, object], required: bool) -> FormField:
    kind = _KINDS.get(str(rules.get("type")), FieldKind.UNSUPPORTED)
    options = _options(rules, kind)
    if kind is FieldKind.TEXT and options is not None:
        kind = FieldKind.CHOICE
    low, high = _BOUNDS.get(kind, ("", ""))
    field = FormField(
        name=name,
        kind=kind,
        title=_string(rules, "title") or name,
        description=_string(rules, "description"),
        required=required,
        default=None,
        options=tuple(options or ()),
        least=_number(rules, low),
        most=_number(rules, high),
        pattern=_string(rules, "pattern"),
        format=_string(rules, "format"),
    )
    return _with_default(_usable(field), rules.get("default"))


def _with_default(field: FormField, default: object) -> FormField:
    if isinstance(default, float) and field.kind is FieldKind.INTEGER and default.is_integer():
        default = int(default)
    if not isinstance(default, str | int | float | list) or field.problem(default) is not None:
        return field
    return replace(field, default=default)


def _usable(field: FormField) -> FormField:
    """Leaves out options that occur twice or that the field's own rules exclude."""
    first = {option.value: option for option in reversed(field.options)}
    kept = [option for option in field.options if first[option.value] is option]
    if field.kind is FieldKind.CHOICE:
        kept = [option for option in kept if text_problem(field, option.value) is None]
        if not kept:
            return replace(field, kind=FieldKind.UNSUPPORTED)  # no value satisfies its rules
    return replace(field, options=tuple(kept))


def _options(rules: Mapping[str, object], kind: FieldKind) -> Sequence[FieldOption] | None:
    if kind is FieldKind.CHOICES:
        items = _mapping(rules.get("items"), "items")
        options = _enum(items.get("enum")) or _titled(items.get("anyOf")) or _titled(items.get("oneOf"))
        if not options:
            raise InvalidFormError("a multi-select needs options")
        return options
    if kind is not FieldKind.TEXT:
        return None
    plain, titled = rules.get("enum"), rules.get("oneOf")
    if plain is not None and titled is not None:
        raise InvalidFormError("enum and oneOf exclude each other")
    found = _enum(plain) if plain is not None else _titled(titled)
    if found == []:
        raise InvalidFormError("a list of allowed values is empty")
    return found


def _enum(values: object) -> list[FieldOption] | None:
    if values is None:
        return None
    if not _are_strings(values) or not isinstance(values, list):
        raise InvalidFormError("enum must be a list of strings")
    return [FieldOption(value, value) for value in values]


def _titled(values: object) -> list[FieldOption] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise InvalidFormError("options must be a list")
    return [_titled_option(_mapping(value, "an option")) for value in values]


def _titled_option(option: Mapping[str, object]) -> FieldOption:
    value = option.get("const")
    if not isinstance(value, str):
        raise InvalidFormError("an option needs a const that is a string")
    title = option.get("title")
    return FieldOption(value, title if isinstance(title, str) else value, _string(option, "description"))
