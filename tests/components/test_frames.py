"""Envelopes: every row of the published vectors, and "never raises" for anything at all."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components import (
    Fallback,
    InteractionEvent,
    RenderFrame,
    SelectionEvent,
    decode_component_event,
    decode_component_frame,
    format_fallback,
    resolve_component_frame,
)
from acpremote.components.bounded import NotBoundedError, canonical, freeze, thaw
from acpremote.components.frames import ABSENT, MAX_FRAME_CHARS, PROTOCOL, Undecoded
from acpremote.components.lexical import utf16_length

from .samples import MANIFEST, frame, nested, without

EMOJI = "\N{GRINNING FACE}"
OK = "ok"
INVALID = "COMPONENT_INVALID_FRAME"
VERSION = "COMPONENT_UNSUPPORTED_VERSION"
TYPE = "COMPONENT_UNKNOWN_TYPE"


def outcome(value: object) -> str:
    decoded = decode_component_frame(value)
    return decoded.diagnostic.code.value if isinstance(decoded, Undecoded) else OK


def fallback(kind: object = "k", summary: object = "s", **more: object) -> dict[str, object]:
    return {"fallback": {"kind": kind, "summary": summary, **more}}


ROWS: list[tuple[object, str]] = [
    (frame(), OK),
    (frame(note="later"), OK),
    (frame(**fallback(note="later")), OK),
    (frame(props=None), OK),
    (frame(props="text"), OK),
    (frame(props=[]), OK),
    (without(frame(), "props"), INVALID),
    *[(frame(version=version), VERSION) for version in (2, 0, 1.5, -1, float("nan"), 10**400)],
    *[(frame(version=version), INVALID) for version in ("1", True, None, [1])],
    (frame(version=1.0), OK),
    (without(frame(), "version"), INVALID),
    (frame(type="select"), TYPE),
    (frame(type=None), TYPE),
    (frame(type=["render"]), TYPE),
    (without(frame(), "type"), TYPE),
    (without(frame(), "type", "version"), TYPE),
    (frame(type="later", version=2), VERSION),
    (frame(type="select", version="1"), TYPE),
    *[(frame(protocol="other", version=version), INVALID) for version in (1, 2)],
    (frame(protocol=None), INVALID),
    (without(frame(), "protocol"), INVALID),
    *[(value, INVALID) for value in ([1], 5, None, "x", '"x"', "[1]", "5", "null", "", b"", b"\xff", "{")],
    (frame(componentKey="a" * 64), OK),
    (frame(componentKey="a-1-"), OK),
    *[
        (frame(componentKey=key), INVALID)
        for key in ("a" * 65, "Choice", "1a", "a_b", "a\n", "", "-a", "é", "__proto__", 1, None)
    ],
    (frame(instanceId="a" * 128), OK),
    (frame(instanceId="A1._:-"), OK),
    *[
        (frame(instanceId=name), INVALID)
        for name in ("a" * 129, ".a", "", "é", "a b", "a/b", "a\n", "a@b", "a+b", 7)
    ],
    (frame(**fallback(kind="k" * 64)), OK),
    (frame(**fallback(kind=" ")), OK),
    (frame(**fallback(summary="s" * 4096)), OK),
    (frame(**fallback(summary=EMOJI * 2048)), OK),
    *[
        (frame(**bad), INVALID)
        for bad in (
            fallback(kind="k" * 65),
            fallback(kind=""),
            fallback(kind=None),
            fallback(summary="s" * 4097),
            fallback(summary=EMOJI * 2049),
            fallback(summary=""),
            {"fallback": None},
            {"fallback": "text"},
            {"fallback": {"kind": "k"}},
        )
    ],
    (without(frame(), "fallback"), INVALID),
    (frame(props=nested(20)), OK),
    (frame(props=nested(21)), INVALID),
    (frame(props=[1] * 999), OK),
    (frame(props=[1] * 1000), INVALID),
    (frame(props="x" * 16384), OK),
    (frame(props="x" * 16385), INVALID),
    (frame(props=EMOJI * 8193), INVALID),
    (frame(props={"k" * 256: 1}), OK),
    (frame(props={"": 1}), OK),
    (frame(props={"k" * 257: 1}), INVALID),
    (frame(props=["x" * 16384] * 100), OK),
    (frame(props=float("inf")), INVALID),
    (frame(props=float("nan")), INVALID),
    (frame(props=10**400), INVALID),
    (frame(props=2**53), OK),
    (frame(props="\ud83d"), OK),
    (json.dumps(frame()), OK),
    (json.dumps(frame()).encode(), OK),
    (" \n" + json.dumps(frame()) + "\t", OK),
    ("\ufeff" + json.dumps(frame()), INVALID),
    (json.dumps(frame()).replace('"version": 1', '"version": 1.0'), OK),
    (json.dumps(frame()).replace('"version": 1', '"version": 1e0'), OK),
    (json.dumps(frame()).replace('"version": 1', '"version": NaN'), INVALID),
    (json.dumps(frame(props=1)).replace('"props": 1', '"props": 1e400'), INVALID),
    (json.dumps(frame(props=1)).replace('"props": 1', '"props": Infinity'), INVALID),
    (json.dumps(frame(props=1)).replace('"props": 1', f'"props": {"9" * 5000}'), INVALID),
    (json.dumps(frame()).replace('"version": 1', '"version": 2, "version": 1'), OK),
    (json.dumps(frame()).replace('"version": 1', '"version": 1, "version": 2'), VERSION),
    ("[" * 200_000 + "]" * 200_000, INVALID),
    ('{"protocol":' * 200_000, INVALID),
    (" " * (MAX_FRAME_CHARS + 1), INVALID),
]


@pytest.mark.parametrize(("value", "expected"), ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_a_render_frame_decodes_as_the_published_vectors_say(value: object, expected: str) -> None:
    assert outcome(value) == expected


def test_unknown_envelope_keys_are_dropped_and_props_are_kept() -> None:
    decoded = decode_component_frame(frame(later=1, props={"any": [1, None, {"x": "y"}]}))
    assert decoded.ok
    assert decoded.frame.to_json() == frame(props={"any": [1, None, {"x": "y"}]})
    assert json.loads(decoded.frame.encode()) == decoded.frame.to_json()


def test_a_diagnostic_quotes_nothing_of_the_input() -> None:
    for value in ("{secret", frame(componentKey="SECRET"), frame(version=77)):
        decoded = decode_component_frame(value)
        assert not decoded.ok
        assert not {"secret", "77"} & set(decoded.diagnostic.message.lower().split())
        assert decoded.diagnostic.retryable is False


def test_a_decoded_frame_does_not_follow_later_changes_of_the_input() -> None:
    value: dict[str, Any] = frame()
    decoded = decode_component_frame(value)
    value["props"]["choices"].clear()
    assert decoded.ok
    assert decoded.frame.to_json() == frame()
    with pytest.raises(TypeError):
        decoded.frame.props["prompt"] = "other"  # type: ignore[index]


class Raises:
    """Raises wherever it is touched."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return hash("protocol")

    def __len__(self) -> NoReturn:
        raise RuntimeError("len")


class Liar(dict[str, object]):
    """Tells another story at every look."""

    looks = 0

    def get(self, key: str, default: object = None) -> object:
        Liar.looks += 1
        return super().get(key, default) if Liar.looks % 2 else "lie"


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __len__(self) -> NoReturn:
        raise RuntimeError("len")


def cyclic() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


SHARED: list[object] = [1]
MIXED_KEYS: dict[object, object] = {1: 2, "protocol": PROTOCOL}

HOSTILE: list[object] = [
    Raises(),
    {Raises(): 1},
    MIXED_KEYS,
    Liar(frame()),
    Text("{}"),
    frame(protocol=Raises()),
    frame(type=Raises()),
    frame(version=Raises()),
    frame(version=Number.ONE),
    frame(props=Raises()),
    frame(props={"x": Raises()}),
    frame(props={1: "x"}),
    frame(props={"x": {1, 2}}),
    frame(props={"x": b"bytes"}),
    frame(props={"x": Number.ONE}),
    frame(props=cyclic()),
    frame(props=[SHARED, SHARED]),
    frame(fallback=Raises()),
    frame(fallback={"kind": Raises(), "summary": "s"}),
    frame(componentKey=Raises()),
    object(),
    frame,
    iter([]),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_object_is_a_diagnostic_and_never_an_exception(number: int) -> None:
    assert outcome(HOSTILE[number]) in {INVALID, TYPE}
    assert resolve_component_frame(HOSTILE[number], MANIFEST).ok is False
    assert decode_component_event(HOSTILE[number]).ok is False


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([PROTOCOL, "render"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "protocol": st.just(PROTOCOL) | JSON,
        "version": st.just(1) | JSON,
        "type": st.sampled_from(["render", "select", "interact"]) | JSON,
        "componentKey": st.just("choice-list") | st.text() | JSON,
        "instanceId": st.just("a:1") | JSON,
        "choiceId": st.just("a") | JSON,
        "event": st.just("submit") | JSON,
        "value": JSON,
        "props": JSON,
        "fallback": st.fixed_dictionaries({"kind": st.text(), "summary": st.text()}) | JSON,
    },
)


@given(ENVELOPES | JSON | st.text() | st.binary())
def test_anything_decodes_to_a_message_or_a_diagnostic(value: object) -> None:
    for decoded in (decode_component_frame(value), decode_component_event(value)):
        assert decoded.ok is not isinstance(decoded, Undecoded)


@given(ENVELOPES)
def test_text_and_parsed_object_decode_alike(value: dict[str, object]) -> None:
    text = json.dumps(value)
    if "NaN" not in text and "Infinity" not in text:
        assert outcome(text) == outcome(value)


@given(JSON)
def test_a_frozen_value_thaws_to_itself_and_is_spelled_canonically(value: object) -> None:
    try:
        frozen = freeze(value)
    except NotBoundedError:
        return
    assert thaw(frozen) == value
    assert freeze(frozen) == frozen
    assert json.loads(canonical(frozen)) == json.loads(json.dumps(value))


@given(st.text())
def test_length_counts_utf16_units(text: str) -> None:
    assert utf16_length(text) == sum(2 if ord(char) > 0xFFFF else 1 for char in text)


def test_canonical_spelling_ignores_key_order_only() -> None:
    assert canonical(freeze({"a": 1, "b": [1, 2]})) == canonical(freeze({"b": [1, 2], "a": 1}))
    assert canonical(freeze([1, 2])) != canonical(freeze([2, 1]))
    assert canonical(freeze(1)) != canonical(freeze(True))


SELECT = {
    "protocol": PROTOCOL,
    "version": 1,
    "type": "select",
    "componentKey": "choice-list",
    "instanceId": "i",
    "choiceId": "c",
}
INTERACT = {**SELECT, "type": "interact", "event": "submit", "value": {"mail": "li@example.org"}}


def test_events_round_trip() -> None:
    for event in (
        SelectionEvent("choice-list", "i", "c"),
        InteractionEvent("form", "i", "submit", freeze({"a": [1]})),
        InteractionEvent("form", "i", "submit", None),
        InteractionEvent("form", "i", "submit"),
    ):
        decoded = decode_component_event(json.dumps(event.to_json()))
        assert decoded.ok
        assert decoded.frame == event
    assert SelectionEvent("choice-list", "i", "c").to_json() == SELECT


def test_no_value_is_not_a_null_value() -> None:
    assert "value" not in InteractionEvent("form", "i", "submit", ABSENT).to_json()
    assert InteractionEvent("form", "i", "submit", None).to_json()["value"] is None


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({**SELECT, "choiceId": "a b"}, INVALID),
        (without(SELECT, "choiceId"), INVALID),
        ({**SELECT, "version": 2}, VERSION),
        ({**SELECT, "type": "render"}, TYPE),
        ({**INTERACT, "event": "Submit"}, INVALID),
        ({**INTERACT, "value": nested(21)}, INVALID),
        (without(INTERACT, "event"), INVALID),
    ],
)
def test_an_invalid_event_is_a_diagnostic(event: object, code: str) -> None:
    decoded = decode_component_event(event)
    assert isinstance(decoded, Undecoded)
    assert decoded.diagnostic.code == code


def test_the_fallback_has_one_text_form() -> None:
    shown = Fallback("map", "The route on a map.")
    assert format_fallback(shown) == "[unsupported visual: map] The route on a map."
    assert format_fallback(RenderFrame("map", "m-1", None, shown)) == format_fallback(shown)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fallback("", "s"),
        lambda: Fallback("k", 5),  # type: ignore[arg-type]
        lambda: RenderFrame("Bad", "i", None, Fallback("k", "s")),
        lambda: RenderFrame("good", "bad id", None, Fallback("k", "s")),
        lambda: RenderFrame("good", "i", {1, 2}, Fallback("k", "s")),  # type: ignore[arg-type]
        lambda: SelectionEvent("choice-list", "i", "bad id"),
        lambda: InteractionEvent("form", "i", "Bad"),
    ],
)
def test_our_own_messages_are_checked_when_they_are_made(make: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the kind is the promise
        make()
