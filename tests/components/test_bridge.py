"""ACP's questions as components and back: nothing is cut, and only what was offered can be answered."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components import (
    Choice,
    ChoiceAction,
    SelectionEvent,
    choice_list_frame,
    resolve_component_frame,
    select_choice,
)
from acpremote.components.answer import OneAnswer
from acpremote.components.bridge import (
    CANCEL,
    DECLINE,
    FormQuestion,
    InvalidQuestionError,
    SingleChoice,
    UrlQuestion,
    elicitation_of_frame,
    read_elicitation,
    read_permission,
)
from acpremote.components.forms import FieldKind
from acpremote.errors import ConfigError

from .samples import MANIFEST
from .test_frames import JSON

EMOJI = "\N{GRINNING FACE}"

ZONES = [
    {"const": "eu west/2", "title": "Europe", "description": "Default region"},
    {"const": "us", "title": "America"},
]


def asked(
    message: object = "Target for the upload?", required: tuple[str, ...] = ("zone",), **rules: object
) -> dict[str, Any]:
    zone = {"type": "string", "oneOf": ZONES, **rules}
    if "enum" in rules:
        zone.pop("oneOf")
    schema = {"type": "object", "properties": {"zone": zone}, "required": list(required)}
    return {"sessionId": "s-4", "mode": "form", "message": message, "requestedSchema": schema}


def test_a_single_choice_makes_the_round_trip_through_a_frame() -> None:
    question = read_elicitation(asked(default="eu west/2"))
    assert isinstance(question, SingleChoice)
    assert resolve_component_frame(question.frame.encode(), MANIFEST).ok
    assert question.props.to_json() == {
        "prompt": "Target for the upload?",
        "choices": [
            {"id": "o1", "label": "Europe", "description": "Default region"},
            {"id": "o2", "label": "America"},
        ],
    }
    assert (question.default, question.required) == ("o1", True)
    assert question.frame.fallback.summary == "Target for the upload? Europe, America."
    chosen = select_choice(question.frame, "o2")
    assert question.accept(chosen) == {"action": "accept", "content": {"zone": "us"}}
    assert (DECLINE, CANCEL) == ({"action": "decline"}, {"action": "cancel"})


def test_every_question_has_a_frame_of_its_own_and_refuses_anothers_selection() -> None:
    first, second = read_elicitation(asked()), read_elicitation(asked())
    assert isinstance(first, SingleChoice)
    assert isinstance(second, SingleChoice)
    assert first.frame.instance_id != second.frame.instance_id
    with pytest.raises(ConfigError):
        first.accept(select_choice(second.frame, "o1"))
    with pytest.raises(ConfigError):
        first.accept(SelectionEvent("choice-list", first.frame.instance_id, "o3"))


def test_only_an_optional_choice_can_be_skipped() -> None:
    optional, required = read_elicitation(asked(required=())), read_elicitation(asked())
    assert isinstance(optional, SingleChoice)
    assert isinstance(required, SingleChoice)
    assert optional.skip() == {"action": "accept", "content": {}}
    with pytest.raises(ConfigError):
        required.skip()


def test_values_need_not_be_identifiers_and_never_travel_in_the_frame() -> None:
    values = ["", " ", "a/b", "x" * 500, "é", "o2"]
    rules = [{"const": value, "title": f"Option {number}"} for number, value in enumerate(values)]
    question = read_elicitation(asked(oneOf=rules))
    assert isinstance(question, SingleChoice)
    assert "x" * 500 not in question.frame.encode()
    for number, value in enumerate(values, 1):
        chosen = select_choice(question.frame, f"o{number}")
        assert question.accept(chosen)["content"] == {"zone": value}


@pytest.mark.parametrize(
    ("rules", "default"),
    [({"default": "us"}, "o2"), ({"default": "mars"}, None), ({"default": 5}, None), ({}, None)],
)
def test_a_default_is_a_highlight_and_only_if_it_is_offered(
    rules: dict[str, Any], default: str | None
) -> None:
    question = read_elicitation(asked(**rules))
    assert isinstance(question, SingleChoice)
    assert question.default == default


def test_the_propertys_own_words_join_the_prompt_where_they_add_something() -> None:
    def prompt(**rules: Any) -> str:
        question = read_elicitation(asked(message="Which zone?", **rules))
        assert isinstance(question, SingleChoice)
        return question.props.prompt

    assert prompt(title="Zone", description="Where data is kept.") == "Which zone?\nWhere data is kept."
    assert prompt(description="d" * 4096) == "Which zone?"


def titled(count: int, **more: object) -> list[dict[str, object]]:
    return [{"const": f"v{number}", "title": f"T{number}", **more} for number in range(count)]


@pytest.mark.parametrize(
    "params",
    [
        asked(oneOf=titled(21)),
        asked(message="m" * 4097),
        asked(message=EMOJI * 2049),
        asked(message=""),
        asked(oneOf=[*titled(2), {"const": "long", "title": "t" * 257}]),
        asked(oneOf=[*titled(2), {"const": "none", "title": ""}]),
        asked(oneOf=titled(2, description="d" * 4097)),
        asked(oneOf=[*titled(2), *titled(1)]),
        asked(enum=["a", "v" * 257]),
        asked(enum=["", "a"]),
        asked(enum=["a", "a"]),
        asked(enum=["aa", "b"], minLength=2),
        asked(enum=["aa", "b"], maxLength=1),
        asked(enum=["aa", "b"], pattern="^a"),
        asked(enum=["a@b", "b"], format="email"),
    ],
)
def test_what_does_not_fit_a_choice_list_becomes_a_form_and_is_never_cut(params: dict[str, Any]) -> None:
    question = read_elicitation(params)
    assert isinstance(question, FormQuestion)
    assert question.message == params["message"]
    assert question.form.fields[0].kind is FieldKind.CHOICE


@pytest.mark.parametrize(
    "params",
    [
        asked(oneOf=titled(20)),
        asked(oneOf=titled(2, description="")),
        asked(oneOf=[{"const": "l", "title": "t" * 256}]),
        asked(enum=["aa", "ab"], pattern="^a", minLength=2, maxLength=2),
        asked(enum=["plain", "strings"]),
    ],
)
def test_what_just_fits_is_a_choice_list(params: dict[str, Any]) -> None:
    assert isinstance(read_elicitation(params), SingleChoice)


BOTH_LISTS = {
    "mode": "form",
    "message": "m",
    "requestedSchema": {"properties": {"z": {"type": "string", "enum": ["a"], "oneOf": ZONES}}},
}


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"mode": "form"},
        {"mode": "form", "message": "m"},
        {"mode": "form", "message": 5, "requestedSchema": {}},
        {"mode": "voice", "message": "m"},
        {"message": "m", "requestedSchema": {}},
        asked(oneOf=[{"title": "no const"}]),
        asked(oneOf="text"),
        asked(oneOf=[]),
        asked(enum=[1, 2]),
        BOTH_LISTS,
        {"mode": "form", "message": "m", "requestedSchema": {"type": "array"}},
        {"mode": "form", "message": "m", "requestedSchema": {"properties": []}},
        {"mode": "form", "message": "m", "requestedSchema": {"properties": {"a": 5}}},
        {"mode": "form", "message": "m", "requestedSchema": {"required": "zone"}},
        {"mode": "form", "message": "m", "requestedSchema": {"required": ["zone"]}},
        {"mode": "form", "message": "m", "requestedSchema": {"properties": {"a": {"type": "array"}}}},
    ],
)
def test_a_malformed_question_is_an_error_of_its_sender(params: object) -> None:
    with pytest.raises(InvalidQuestionError):
        read_elicitation(params)


RULES = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "array", "integer"])},
    optional={
        "enum": JSON,
        "oneOf": JSON,
        "items": JSON,
        "default": JSON,
        "pattern": st.text(),
        "minLength": JSON,
    },
)
FORMS = st.fixed_dictionaries(
    {
        "mode": st.just("form"),
        "message": st.text(),
        "requestedSchema": st.fixed_dictionaries({"properties": st.dictionaries(st.text(), JSON | RULES)}),
    }
)
URLS = st.fixed_dictionaries(
    {
        "mode": st.just("url"),
        "message": st.text(),
        "url": st.text() | st.text().map("https://".__add__),
        "elicitationId": st.text(),
    }
)


@given(JSON | FORMS | URLS)
def test_any_parameters_are_a_question_or_a_named_error(params: object) -> None:
    for read in (read_elicitation, read_permission):
        with contextlib.suppress(InvalidQuestionError):
            read(params)


def link(url: object, **changes: object) -> dict[str, object]:
    return {
        "mode": "url",
        "message": "Sign in.",
        "elicitationId": "e-1",
        "sessionId": "s",
        "url": url,
        **changes,
    }


@pytest.mark.parametrize(
    ("url", "host", "notes"),
    [
        ("https://example.org/sign-in?r=1", "example.org", 0),
        ("https://Example.ORG:8443/", "example.org", 0),
        ("http://localhost:8080/", "localhost", 0),
        ("http://example.org/", "example.org", 1),
        ("https://github.com@evil.example/", "evil.example", 1),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", 1),
        ("https://[::1]/", "::1", 0),
    ],
)
def test_an_address_is_shown_whole_with_the_host_that_counts(url: str, host: str, notes: int) -> None:
    question = read_elicitation(link(url))
    assert isinstance(question, UrlQuestion)
    assert (question.url, question.host, len(question.notes)) == (url, host, notes)
    assert question.accept() == {"action": "accept"}


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vscode://x",
        "https://",
        "//example.org/",
        "example.org",
        "https://exa mple.org/",
        "https://example.org/\x1b[2J",
        "https://example.org\\@evil.example/",
        "https://[::1",
        "https://a..b/",
        5,
        None,
    ],
)
def test_an_address_that_must_not_be_opened_is_refused(url: object) -> None:
    with pytest.raises(InvalidQuestionError):
        read_elicitation(link(url))


def permission(*kinds: str, title: object = "Write greeting.txt") -> dict[str, Any]:
    options = [{"optionId": f"id/{kind}", "name": kind.title(), "kind": kind} for kind in kinds]
    return {"sessionId": "s", "toolCall": {"toolCallId": "c-1", "title": title}, "options": options}


def test_permission_options_are_a_choice_list_of_their_own() -> None:
    question = read_permission(permission("allow_once", "reject_once"))
    assert question.frame is not None
    assert resolve_component_frame(question.frame.encode(), MANIFEST).ok
    chosen = select_choice(question.frame, "o1")
    assert question.select(chosen.choice_id) == {
        "outcome": {"outcome": "selected", "optionId": "id/allow_once"}
    }
    for wrong in ("o3", "o0", "id/allow_once", "o01", ""):
        with pytest.raises(ConfigError):
            question.select(wrong)


@pytest.mark.parametrize(
    ("kinds", "picked"),
    [
        (["allow_once", "reject_always", "reject_once"], "id/reject_once"),
        (["allow_once", "reject_always"], "id/reject_always"),
        (["allow_once", "allow_always"], None),
    ],
)
def test_a_no_picks_a_reject_option_and_is_never_cancelled(kinds: list[str], picked: str | None) -> None:
    refused = read_permission(permission(*kinds)).refuse()
    expected = None if picked is None else {"outcome": {"outcome": "selected", "optionId": picked}}
    assert refused == expected


def test_permission_options_that_do_not_fit_a_frame_are_all_kept() -> None:
    question = read_permission(permission(*(f"kind-{number}" for number in range(30))))
    assert (question.frame, len(question.options)) == (None, 30)
    assert question.select("o30")["outcome"] == {"outcome": "selected", "optionId": "id/kind-29"}
    assert read_permission(permission("allow_once", title=None)).title == "c-1"


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        permission(),
        {**permission("a"), "toolCall": None},
        {**permission("a"), "options": [{"optionId": 1, "name": "n", "kind": "k"}]},
        {**permission("a"), "options": ["x"]},
    ],
)
def test_a_malformed_permission_request_is_an_error_of_its_sender(params: object) -> None:
    with pytest.raises(InvalidQuestionError):
        read_permission(params)


def test_a_frame_asks_the_same_question_as_the_form_made_of_it() -> None:
    frame = choice_list_frame("m-1", "Which?", [Choice("a", "Apples", "Red ones"), Choice("b", "Bears")])
    params = json.loads(json.dumps(elicitation_of_frame(frame, "s-4")))
    question = read_elicitation(params)
    assert isinstance(question, SingleChoice)
    shown = [(choice.label, choice.description) for choice in question.props.choices]
    assert (question.props.prompt, shown) == ("Which?", [("Apples", "Red ones"), ("Bears", None)])
    assert question.accept(select_choice(question.frame, "o2"))["content"] == {"choice": "b"}
    acting = choice_list_frame("m-1", "Which?", [Choice("a", "Apples", action=ChoiceAction("x", {}))])
    with pytest.raises(ConfigError):
        elicitation_of_frame(acting, "s-4")


@pytest.mark.anyio
async def test_the_first_answer_wins_and_the_others_learn_it() -> None:
    answer: OneAnswer[str] = OneAnswer()
    seen: list[str] = []

    async def listen() -> None:
        seen.append(await answer.wait())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        tasks.start_soon(listen)
        await anyio.lowlevel.checkpoint()
        assert not answer.is_answered
        assert [answer.settle("select"), answer.settle("cancel"), answer.settle("select")] == [
            True,
            False,
            False,
        ]
    assert seen == ["select", "select"]
    assert await answer.wait() == "select"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
