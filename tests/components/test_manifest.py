"""Resolution against the closed manifest, ChoiceList's schema and selection, by the published vectors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components import (
    Choice,
    ChoiceAction,
    ChoiceListComponent,
    ChoiceListProps,
    ComponentDefinition,
    EventDefinition,
    Fallback,
    InvalidFrameError,
    InvalidPropsError,
    RenderFrame,
    Resolved,
    SelectionEvent,
    Unresolved,
    choice_list_frame,
    create_component_interaction,
    define_component_manifest,
    resolve_component_frame,
    select_choice,
)
from acpremote.components.bounded import freeze
from acpremote.components.choicelist import clamp
from acpremote.components.lexical import utf16_length
from acpremote.errors import ConfigError

from .samples import MANIFEST, action, choice, frame, nested, props, without
from .test_frames import ENVELOPES, JSON

OK = "ok"
PROPS = "COMPONENT_INVALID_PROPS"
FRAME = "COMPONENT_INVALID_FRAME"
UNKNOWN = "COMPONENT_UNKNOWN"


def outcome(value: object) -> str:
    resolved = resolve_component_frame(value, MANIFEST)
    return OK if isinstance(resolved, Resolved) else resolved.diagnostic.code.value


def many(count: int) -> list[object]:
    return [choice(id=f"c{number}") for number in range(count)]


PROPS_ROWS: list[tuple[object, str]] = [
    (props(), OK),
    (props(*many(20)), OK),
    (props(*many(21)), PROPS),
    ({"prompt": "p", "choices": []}, PROPS),
    ({"prompt": "p", "choices": {}}, PROPS),
    ({"prompt": "p"}, PROPS),
    (None, PROPS),
    ("text", PROPS),
    ([], PROPS),
    (props(prompt=" "), OK),
    (props(prompt="\x1b[2J"), OK),
    (props(prompt="p" * 4096), OK),
    *[(props(prompt=prompt), PROPS) for prompt in ("", "p" * 4097, None, 5)],
    (props(later=1), PROPS),
    (props(choice(), choice()), PROPS),
    (props(choice(id="a"), choice(id="A")), OK),
    (props(choice(id="a"), choice(id="b")), OK),
    (props(choice(label="x" * 256)), OK),
    *[(props(choice(label=label)), PROPS) for label in ("x" * 257, "", None, "\N{GRINNING FACE}" * 129)],
    (props(choice(description="d" * 4096)), OK),
    *[(props(choice(description=text)), PROPS) for text in ("d" * 4097, "", None, 1)],
    *[(props(choice(id=name)), PROPS) for name in ("a b", "a/b", "a" * 129, 5, "", None)],
    (props(choice(later=1)), PROPS),
    (props("text"), PROPS),
    (props(without(choice(), "label")), PROPS),
    (props(action({})), OK),
    (props(action({"keepIndex": True})), OK),
    (props(action([])), PROPS),
    (props(choice(action=None)), PROPS),
    (props(choice(action={"name": "a"})), PROPS),
    (props(choice(action={"name": "a", "input": None})), PROPS),
    (props(action({}, later=1)), PROPS),
    (props(action({}, name="a b")), PROPS),
    (props(action({"k" * 128: 1})), OK),
    (props(action({"k" * 129: 1})), PROPS),
    (props(action({"a": {"k" * 200: 1}})), OK),
    (props(action(nested(16))), OK),
    (props(action(nested(17))), FRAME),
    (props(action({"a": [1] * 990})), OK),
    (props(action({"a": [1] * 991})), FRAME),
]


@pytest.mark.parametrize(
    ("given_props", "expected"), PROPS_ROWS, ids=[str(n) for n in range(len(PROPS_ROWS))]
)
def test_choice_list_props_resolve_as_the_published_vectors_say(given_props: object, expected: str) -> None:
    assert outcome(frame(props=given_props)) == expected
    assert outcome(json.dumps(frame(props=given_props))) == expected


@pytest.mark.parametrize("key", ["future", "constructor", "tostring", "has-own-property"])
def test_only_a_declared_key_renders(key: str) -> None:
    resolved = resolve_component_frame(frame(componentKey=key), MANIFEST)
    assert isinstance(resolved, Unresolved)
    assert resolved.diagnostic.code == UNKNOWN
    assert resolved.fallback == Fallback("choice-list", "Pick main.")


def test_an_empty_manifest_shows_nothing() -> None:
    resolved = resolve_component_frame(frame(), define_component_manifest([]))
    assert isinstance(resolved, Unresolved)
    assert resolved.diagnostic.code == UNKNOWN


def test_the_envelopes_diagnostic_comes_through_and_then_there_is_no_fallback() -> None:
    for value, code in [
        (frame(version=2), "COMPONENT_UNSUPPORTED_VERSION"),
        (frame(type="later"), "COMPONENT_UNKNOWN_TYPE"),
        ("{", FRAME),
    ]:
        resolved = resolve_component_frame(value, MANIFEST)
        assert isinstance(resolved, Unresolved)
        assert (resolved.diagnostic.code, resolved.fallback) == (code, None)


def test_a_resolved_frame_carries_typed_props() -> None:
    resolved = resolve_component_frame(frame(props=props(action({"keepIndex": True}))), MANIFEST)
    assert resolved.ok
    assert isinstance(resolved.props, ChoiceListProps)
    chosen = resolved.props.find("trunk")
    assert chosen is not None
    assert chosen.action == ChoiceAction("git.stash", freeze({"keepIndex": True}))  # type: ignore[arg-type]
    assert resolved.props.to_json() == props(action({"keepIndex": True}))


@given(ENVELOPES | JSON | st.builds(lambda inner: frame(props=inner), JSON))
def test_any_json_resolves_or_gives_a_diagnostic(value: object) -> None:
    resolved = resolve_component_frame(value, MANIFEST)
    assert resolved.ok is isinstance(resolved, Resolved)
    if isinstance(resolved, Resolved):
        assert resolve_component_frame(resolved.frame, MANIFEST) == resolved
        assert resolve_component_frame(resolved.frame.encode(), MANIFEST) == resolved


def other(key: str, **changes: object) -> ComponentDefinition[object]:
    return replace(ComponentDefinition[object](key, lambda value: value), **changes)  # type: ignore[arg-type]


def raising(value: object) -> NoReturn:
    raise RuntimeError(value)


@pytest.mark.parametrize(
    "definitions",
    [
        [ChoiceListComponent, ChoiceListComponent],
        [other("Bad")],
        [other("")],
        [other("choice-list")],
        [replace(ChoiceListComponent)],
        ["choice-list"],
    ],
)
def test_a_manifest_refuses_bad_repeated_and_replaced_definitions(definitions: list[object]) -> None:
    with pytest.raises(ConfigError):
        define_component_manifest(definitions)  # type: ignore[arg-type]


def test_a_hosts_component_resolves_and_its_failing_validator_is_a_diagnostic() -> None:
    manifest = define_component_manifest([other("status"), other("broken", parse_props=raising)])
    assert resolve_component_frame(frame(componentKey="status", props=[1]), manifest).ok
    refused = resolve_component_frame(frame(componentKey="broken"), manifest)
    assert isinstance(refused, Unresolved)
    assert refused.diagnostic.code == PROPS
    assert (set(manifest), len(manifest), "status" in manifest) == ({"status", "broken"}, 2, True)


def test_selecting_a_declared_choice_makes_its_event() -> None:
    event = SelectionEvent("choice-list", "pick-branch:m-17", "trunk")
    resolved = resolve_component_frame(frame(), MANIFEST)
    assert resolved.ok
    assert select_choice(resolved.frame, "trunk") == event
    assert select_choice(frame(), "trunk") == event


@pytest.mark.parametrize(
    ("value", "chosen", "error"),
    [
        (frame(), "release", ConfigError),
        (frame(), "TRUNK", ConfigError),
        (frame(), None, ConfigError),
        (frame(componentKey="form"), "trunk", ConfigError),
        (frame(props={"prompt": "p"}), "trunk", InvalidPropsError),
        (frame(version=2), "trunk", InvalidFrameError),
        ("{", "trunk", InvalidFrameError),
    ],
)
def test_selecting_anything_else_is_refused(value: object, chosen: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        select_choice(value, chosen)


def test_a_hosts_list_gets_a_fallback_that_fits() -> None:
    made = choice_list_frame(
        "elicit-1", "Target?", [Choice("o1", "Europe", "Default region"), Choice("o2", "US")]
    )
    assert made.fallback == Fallback("choice-list", "Target? Europe, US.")
    assert resolve_component_frame(made, MANIFEST).ok
    long = choice_list_frame("elicit-1", "p" * 4096, [Choice(f"o{n}", "l" * 256) for n in range(20)])
    assert utf16_length(long.fallback.summary) == 4096
    with pytest.raises(InvalidPropsError):
        choice_list_frame("elicit-1", "p", [])


@given(st.text(), st.integers(1, 20))
def test_clamping_never_exceeds_the_limit_nor_splits_a_character(text: str, longest: int) -> None:
    cut = clamp(text, longest)
    assert utf16_length(cut) <= longest
    assert cut == text or text.startswith(cut.removesuffix("…"))


FORM = other(
    "form",
    events=(
        EventDefinition("submit", "form"),
        EventDefinition("reset"),
        EventDefinition("pick", "id"),
        EventDefinition("open", "url"),
    ),
)


@pytest.mark.parametrize(
    ("event", "value", "fits"),
    [
        ("submit", {"mail": "x"}, True),
        ("submit", "text", False),
        ("pick", "a:1", True),
        ("pick", "a b", False),
        ("open", "https://example.org/", True),
        ("open", "javascript:alert(1)", False),
        ("later", None, False),
    ],
)
def test_other_components_send_only_the_events_they_declare(event: str, value: object, fits: bool) -> None:
    resolved = Resolved(RenderFrame("form", "f-1", None, Fallback("form", "A form.")), None, FORM)
    if fits:
        assert create_component_interaction(resolved, event, value).to_json()["value"] == value
    else:
        with pytest.raises(ConfigError):
            create_component_interaction(resolved, event, value)


def test_an_event_without_value_and_a_choice_list_that_does_not_interact() -> None:
    resolved = Resolved(RenderFrame("form", "f-1", None, Fallback("form", "A form.")), None, FORM)
    assert "value" not in create_component_interaction(resolved, "reset").to_json()
    listed = resolve_component_frame(frame(), MANIFEST)
    assert listed.ok
    with pytest.raises(ConfigError):
        create_component_interaction(listed, "select", "trunk")
