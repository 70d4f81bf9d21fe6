"""Forms: every kind of field, its rules, what a person may type, and patterns that would hang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components.bridge import FormQuestion, read_elicitation
from acpremote.components.forms import FieldKind, FormField
from acpremote.components.patterns import fits_pattern
from acpremote.components.schema import read_form
from acpremote.errors import ConfigError

from .test_frames import JSON


def one(required: bool = True, **rules: object) -> FormField:
    schema = {"properties": {"f": rules}, "required": ["f"] if required else []}
    return read_form(schema).fields[0]


SIZES = {"type": "string", "enum": ["S", "M", "L"]}
TOPPINGS = {
    "type": "array",
    "items": {
        "anyOf": [
            {"const": "c", "title": "Cheese"},
            {"const": "h", "title": "Ham"},
            {"const": "2", "title": "Two"},
        ]
    },
    "minItems": 1,
    "maxItems": 2,
}

READABLE: list[tuple[dict[str, Any], str, object]] = [
    ({"type": "string"}, " as typed ", " as typed "),
    ({"type": "string", "minLength": 2}, "ab", "ab"),
    ({"type": "string", "format": "email"}, "li@example.org", "li@example.org"),
    ({"type": "string", "format": "uri"}, "https://example.org/x", "https://example.org/x"),
    ({"type": "string", "format": "date"}, "2024-02-29", "2024-02-29"),
    ({"type": "string", "format": "date-time"}, "2024-02-29T12:00:00.5Z", "2024-02-29T12:00:00.5Z"),
    ({"type": "string", "format": "later"}, "anything", "anything"),
    ({"type": "string", "pattern": "^[a-z]+$"}, "abc", "abc"),
    ({"type": "integer", "minimum": 1, "maximum": 5}, " 5 ", 5),
    ({"type": "integer"}, "-0", 0),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "number"}, "2", 2),
    ({"type": "number"}, ".5e1", 5.0),
    ({"type": "boolean"}, "Yes", True),
    ({"type": "boolean"}, "n", False),
    (SIZES, "2", "M"),
    (SIZES, "L", "L"),
    (TOPPINGS, "1, Ham", ["c", "h"]),
    (TOPPINGS, "2", ["h"]),
]


@pytest.mark.parametrize(("rules", "text", "value"), READABLE)
def test_what_a_person_types_becomes_the_fields_value(
    rules: dict[str, Any], text: str, value: object
) -> None:
    read = one(**rules).read(text)
    assert (read, type(read)) == (value, type(value))


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "minLength": 2}, "a"),
    ({"type": "string", "maxLength": 2}, "abc"),
    ({"type": "string", "format": "email"}, "li"),
    ({"type": "string", "format": "uri"}, "no scheme"),
    ({"type": "string", "format": "uri"}, "http://[::1"),
    ({"type": "string", "format": "date"}, "2023-02-29"),
    ({"type": "string", "format": "date"}, "20230228"),
    ({"type": "string", "format": "date-time"}, "2024-02-29"),
    ({"type": "string", "format": "date-time"}, "2024-02-30T12:00:00Z"),
    ({"type": "string", "pattern": "^[a-z]+$"}, "ABC"),
    ({"type": "integer", "minimum": 1}, "0"),
    ({"type": "integer", "maximum": 5}, "6"),
    ({"type": "integer"}, "1.5"),
    ({"type": "integer"}, "1_000"),
    ({"type": "integer"}, "\u0661"),
    ({"type": "integer"}, str(2**53)),
    ({"type": "integer"}, ""),
    ({"type": "number"}, "nan"),
    ({"type": "number"}, "inf"),
    ({"type": "number"}, "1e999"),
    ({"type": "number"}, "9" * 400),
    ({"type": "boolean"}, "maybe"),
    (SIZES, "4"),
    (SIZES, "0"),
    (SIZES, "XL"),
    (TOPPINGS, ""),
    (TOPPINGS, "1, 1"),
    (TOPPINGS, "1, 2, 3"),
    (TOPPINGS, "pineapple"),
    ({"type": "_later"}, "x"),
]


@pytest.mark.parametrize(("rules", "text"), UNREADABLE)
def test_what_does_not_fit_is_refused_with_a_sentence(rules: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"\w{3}"):
        one(**rules).read(text)


@pytest.mark.parametrize(
    ("rules", "default"),
    [
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "default": "x", "minLength": 2}, None),
        ({"type": "integer", "default": 3}, 3),
        ({"type": "integer", "default": 3.0}, 3),
        ({"type": "integer", "default": True}, None),
        ({"type": "boolean", "default": False}, False),
        ({"type": "boolean", "default": 0}, None),
        ({**SIZES, "default": "M"}, "M"),
        ({**SIZES, "default": "XL"}, None),
        ({**TOPPINGS, "default": ["c"]}, ["c"]),
        ({**TOPPINGS, "default": ["x"]}, None),
        ({"type": "string", "default": None}, None),
    ],
)
def test_a_default_counts_only_if_it_fits(rules: dict[str, Any], default: object) -> None:
    found = one(**rules).default
    assert (found, type(found)) == (default, type(default))


def test_options_that_occur_twice_or_that_other_rules_exclude_are_not_offered() -> None:
    field = one(type="string", enum=["a", "bb", "a", "bbb"], minLength=1, maxLength=2)
    assert [option.value for option in field.options] == ["a", "bb"]


def test_malformed_titles_and_bounds_are_ignored() -> None:
    field = one(type="string", title=5, description=[], minLength="2", maxLength=True, pattern=7, default=[])
    assert (field.title, field.description, field.least, field.most, field.pattern) == (
        "f",
        None,
        None,
        None,
        None,
    )


def question(**properties: dict[str, Any]) -> FormQuestion:
    required = [name for name, rules in properties.items() if rules.pop("required", False)]
    schema = {"type": "object", "properties": properties, "required": required}
    asked = read_elicitation({"mode": "form", "message": "Fill in", "requestedSchema": schema})
    assert isinstance(asked, FormQuestion)
    return asked


def test_a_whole_form_is_accepted_only_if_every_value_fits() -> None:
    form = question(name={"type": "string", "required": True}, age={"type": "integer"})
    assert form.accept({"name": "Li"}) == {"action": "accept", "content": {"name": "Li"}}
    wrong: list[dict[str, Any]] = [
        {},
        {"name": 5},
        {"name": "Li", "age": "5"},
        {"name": "Li", "other": 1},
        {"name": "Li", "age": True},
    ]
    for values in wrong:
        with pytest.raises(ConfigError):
            form.accept(values)


def test_an_unknown_required_field_makes_the_form_unfillable_and_says_so() -> None:
    form = question(sketch={"type": "_drawing", "required": True}, name={"type": "string"}).form
    assert [field.name for field in form.unfillable] == ["sketch"]
    assert form.problems({"name": "Li"}) == {"sketch": "this is required"}
    optional = question(sketch={"type": "_drawing"}, name={"type": "string"})
    assert optional.form.unfillable == ()
    assert optional.accept({"name": "Li"})


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        (one(type="integer", minimum=1, maximum=5), "a whole number, at least 1, at most 5, required"),
        (
            one(required=False, **TOPPINGS),
            "any of the list, at least 1 of them, at most 2 of them, optional",
        ),
        (
            one(type="string", minLength=2, format="email"),
            "text, at least 2 characters, email, required",
        ),
    ],
)
def test_hints_tell_the_rules(field: FormField, hint: str) -> None:
    assert field.hint == hint


@given(st.dictionaries(st.text(), JSON, max_size=3), st.text())
def test_any_text_for_any_field_is_a_value_or_a_sentence(rules: dict[str, Any], text: str) -> None:
    rules.pop("required", None)
    for kind in ("string", "number", "integer", "boolean"):
        field = one(**{**rules, "type": kind, "enum": None, "oneOf": None})
        assert field.kind is not FieldKind.UNSUPPORTED
        try:
            value = field.read(text)
        except ValueError:
            continue
        assert field.problem(value) is None


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^[a-z]+@[a-z]+$", "li@example", True),
        ("^[a-z]+@[a-z]+$", "li", False),
        ("b", "abc", True),
        (r"^\d+(\.\d+)?$", "1.5", True),
        (r"^\d+(\.\d+)?$", "1.x", False),
        (r"^[)*+]{2}$", ")*", True),
        (r"^\(\+$", "(+", True),
        (r"^(?:a|b)$", "c", False),
        # Left to the agent: these might hang, or are not Python's dialect.
        ("^(a+)+$", "a" * 40 + "!", True),
        ("^(a|a)*$", "a" * 40 + "!", True),
        ("^(a*)*b", "a" * 40, True),
        (r"^(a)\1$", "b", True),
        ("^a*a*a*a*a*a*a*a*b$", "a" * 500, True),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60, True),
        ("(", "x", True),
        (r"\p{L}", "5", True),
        ("[[a]", "b", False),
        ("x" * 1001, "y", True),
    ],
)
def test_patterns_are_matched_unless_that_could_hang(pattern: str, text: str, fits: bool) -> None:
    assert fits_pattern(pattern, text) is fits


@given(st.text(alphabet="ab()*+?|[]{}1,\\^$.", max_size=12), st.text(alphabet="ab", max_size=60))
def test_no_pattern_raises_or_hangs(pattern: str, text: str) -> None:
    assert fits_pattern(pattern, text) in (True, False)
