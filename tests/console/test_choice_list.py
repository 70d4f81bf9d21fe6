"""<acp-choice-list>: its decoder by the protocol's vectors, the element as a person and a program use it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from .pages import ASSETS, ORIGIN, serve

pytestmark = pytest.mark.interop

Json = Any

FRAME: dict[str, Json] = {
    "protocol": "agentskit.chat.component",
    "version": 1,
    "type": "render",
    "componentKey": "choice-list",
    "instanceId": "pick-branch:m-17",
    "props": {
        "prompt": "Which branch?",
        "choices": [
            {"id": "trunk", "label": "main", "description": "Latest green build"},
            {"id": "rel-4", "label": "release/4.x"},
            {"id": "stash", "label": "Stash", "action": {"name": "git.stash", "input": {"keepIndex": True}}},
        ],
    },
    "fallback": {"kind": "choice-list", "summary": "Pick one."},
}

INVALID = "COMPONENT_INVALID_FRAME"
VERSION = "COMPONENT_UNSUPPORTED_VERSION"
TYPE = "COMPONENT_UNKNOWN_TYPE"
UNKNOWN = "COMPONENT_UNKNOWN"
PROPS = "COMPONENT_INVALID_PROPS"
MISSING = object()


def frame(**changes: Json) -> Json:
    made = copy.deepcopy(FRAME) | changes
    return {name: value for name, value in made.items() if value is not MISSING}


def nested(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = {"a": value}
    return value


def of_choices(*choices: Json) -> Json:
    return frame(props={"prompt": "?", "choices": list(choices)})


def choice(**changes: Json) -> Json:
    made = {"id": "a", "label": "A"} | changes
    return {name: value for name, value in made.items() if value is not MISSING}


def action(**changes: Json) -> Json:
    made = {"name": "do.it", "input": {}} | changes
    return choice(action={name: value for name, value in made.items() if value is not MISSING})


ENVELOPES: list[tuple[Json, str | None]] = [
    (FRAME, None),
    (frame(extra=1), None),
    (frame(fallback={"kind": "k", "summary": "s", "extra": 1}), None),
    *[(frame(props=value), None) for value in (None, "text", [1], 0, False)],
    (frame(props=MISSING), INVALID),
    *[(frame(version=value), VERSION) for value in (2, 0, 1.5, -1)],
    *[(frame(version=value), INVALID) for value in ("1", True, None, MISSING, [1])],
    *[(frame(type=value), TYPE) for value in ("select", "", None, MISSING)],
    (frame(version=2, type="select"), VERSION),
    (frame(version=MISSING, type=MISSING), TYPE),
    (frame(protocol="other", version=2), INVALID),
    (frame(protocol=MISSING), INVALID),
    ([1], INVALID),
    (5, INVALID),
    (None, INVALID),
    ("x", INVALID),
    (True, INVALID),
    ({}, INVALID),
    *[(frame(componentKey="a" * 64), None), (frame(componentKey="a-"), None)],
    *[(frame(componentKey=key), INVALID) for key in ("a" * 65, "Aa", "1a", "a_b", "a\n", "", 1, "__proto__")],
    *[(frame(instanceId=value), None) for value in ("a" * 128, "A.b_c:d-1", "0")],
    *[(frame(instanceId=value), INVALID) for value in ("a" * 129, ".a", "", "é", "a b", "a\n", 1)],
    (frame(fallback={"kind": "k" * 64, "summary": "s" * 4096}), None),
    (frame(fallback={"kind": " ", "summary": "\U0001f600" * 2048}), None),
    (frame(fallback={"kind": "k", "summary": "\U0001f600" * 2049}), INVALID),
    (frame(fallback={"kind": "k" * 65, "summary": "s"}), INVALID),
    (frame(fallback={"kind": "k", "summary": "s" * 4097}), INVALID),
    *[
        (frame(fallback=value), INVALID)
        for value in (None, [1], "s", {"kind": "k"}, {"kind": "", "summary": "s"})
    ],
    (frame(props=nested(20)), None),
    (frame(props=nested(21)), INVALID),
    (frame(props=[0] * 999), None),
    (frame(props=[0] * 1000), INVALID),
    (frame(props="s" * 16384), None),
    (frame(props="s" * 16385), INVALID),
    (frame(props={"k" * 256: 1, "": 1}), None),
    (frame(props={"k" * 257: 1}), INVALID),
    (frame(props={"__proto__": {"a": 1}}), None),
]
"""Render frames, and the code that the envelope's decoder gives (None: decoded)."""

RESOLUTIONS: list[tuple[Json, str | None]] = [
    (FRAME, None),
    (frame(componentKey="future"), UNKNOWN),
    (frame(componentKey="constructor"), UNKNOWN),
    (frame(props=None), PROPS),
    *[
        (of_choices(*[choice(id=f"c{n}") for n in range(count)]), code)
        for count, code in ((1, None), (20, None), (0, PROPS), (21, PROPS))
    ],
    (of_choices(choice(), choice()), PROPS),
    (of_choices(choice(id="a"), choice(id="A")), None),
    *[
        (of_choices(choice(label=value)), code)
        for value, code in (("l" * 256, None), ("l" * 257, PROPS), ("", PROPS), (1, PROPS))
    ],
    (of_choices(choice(label=" "), choice(id="b", label=" ")), None),
    *[
        (of_choices(choice(description="d" * size)), code)
        for size, code in ((4096, None), (4097, PROPS), (0, PROPS))
    ],
    (of_choices(choice(description=None)), PROPS),
    *[(of_choices(choice(id=value)), PROPS) for value in ("a b", "a/b", "a" * 129, 1, "", "-a", MISSING)],
    *[
        (frame(props={"prompt": "p" * size, "choices": [choice()]}), code)
        for size, code in ((4096, None), (4097, PROPS), (0, PROPS))
    ],
    (frame(props={"prompt": "\x1b \n", "choices": [choice()]}), None),
    (frame(props={"prompt": "?", "choices": [choice()], "extra": 1}), PROPS),
    (frame(props={"prompt": "?", "choices": {"0": choice()}}), PROPS),
    (of_choices(choice(extra=1)), PROPS),
    (of_choices(choice(action=None)), PROPS),
    (of_choices(action()), None),
    (of_choices(action(extra=1)), PROPS),
    *[(of_choices(action(input=value)), PROPS) for value in (MISSING, None, [], "x")],
    *[(of_choices(action(input={"k" * size: 1})), code) for size, code in ((128, None), (129, PROPS))],
    (of_choices(action(input={"a": {"k" * 200: 1}})), None),
    *[(of_choices(action(name=value)), PROPS) for value in ("a b", "", 1, MISSING)],
    (of_choices(action(input=nested(16))), None),
    (of_choices(action(input=nested(17))), INVALID),
    (of_choices(action(input={"a": [0] * 990})), None),
    (of_choices(action(input={"a": [0] * 991})), INVALID),
]
"""Render frames, and the code against a manifest that declares `choice-list` only."""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    serve(
        context,
        {
            "/plain": (
                "text/html",
                f"<!doctype html><script type=module src='{ASSETS}/choice-list.js'></script><body>",
            )
        },
    )
    page = context.new_page()
    page.set_default_timeout(5000)
    page.goto(f"{ORIGIN}/plain")
    page.evaluate(f"import('{ASSETS}/choice-list.js').then((module) => {{ window.lib = module; }})")
    yield page
    context.close()


def codes(page: Page, call: str, inputs: list[Json]) -> list[str | None]:
    found = page.evaluate(
        f"(inputs) => inputs.map((input) => {{ const r = {call}; return r.ok ? null : r.diagnostic.code; }})",
        inputs,
    )
    assert isinstance(found, list)
    return found


def test_the_envelope_is_decoded_by_the_protocols_vectors(page: Page) -> None:
    inputs = [vector for vector, _ in ENVELOPES]
    wanted = [code for _, code in ENVELOPES]
    assert codes(page, "lib.decodeComponentFrame(input)", inputs) == wanted
    assert codes(page, "lib.decodeComponentFrame(JSON.stringify(input))", inputs) == wanted


def test_a_frame_is_resolved_by_the_protocols_vectors(page: Page) -> None:
    inputs = [vector for vector, _ in RESOLUTIONS]
    assert codes(page, "lib.resolveComponentFrame(input)", inputs) == [code for _, code in RESOLUTIONS]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("'{not json'", INVALID),
        ('JSON.stringify({...frame, props: 0}).replace(`"props":0`, `"props":1e400`)', INVALID),
        ("({...frame, version: NaN})", VERSION),
        ("({...frame, props: undefined})", INVALID),
        ("({...frame, props: new Date()})", INVALID),
        ("({...frame, props: 1n})", INVALID),
        ("({...frame, props: {f() {}}})", INVALID),
        ("({...frame, props: [, 1]})", INVALID),
        ("(() => { const loop = {}; loop.loop = loop; return {...frame, props: loop}; })()", INVALID),
        ("(() => { const twice = {}; return {...frame, props: [twice, twice]}; })()", INVALID),
        ("({get protocol() { throw new Error('hostile'); }})", INVALID),
        ("new Proxy({}, {get() { throw new Error('hostile'); }})", INVALID),
        ("new Proxy({}, {getPrototypeOf() { throw new Error('hostile'); }})", INVALID),
        ("'['.repeat(100000)", INVALID),
        ("undefined", INVALID),
        ("Symbol()", INVALID),
    ],
)  # fmt: skip
def test_no_object_makes_the_decoder_throw(page: Page, script: str, code: str) -> None:
    assert page.evaluate(f"(frame) => lib.resolveComponentFrame({script}).diagnostic.code", FRAME) == code


def test_a_failure_carries_the_fallback_when_the_envelope_was_valid(page: Page) -> None:
    result = page.evaluate(
        "(frame) => lib.resolveComponentFrame(frame)", frame(componentKey="future", extra=1)
    )
    assert result["fallback"] == FRAME["fallback"]
    assert result["diagnostic"]["retryable"] is False
    assert page.evaluate("(frame) => lib.resolveComponentFrame(frame)", frame(version=2))["fallback"] is None


def test_a_manifest_is_closed_and_its_standard_keys_cannot_be_taken(page: Page) -> None:
    build = (
        "(list) => { try { lib.defineComponentManifest(list); return 'ok'; } catch (e) { return e.code; } }"
    )
    attempts = {
        "[]": "ok",
        "[lib.choiceListComponent]": "ok",
        "[{key: 'mine', accepts: () => true}]": "ok",
        "[lib.choiceListComponent, lib.choiceListComponent]": "AK_CONFIG_INVALID",
        "[{...lib.choiceListComponent}]": "AK_CONFIG_INVALID",
        "[{key: 'Bad', accepts: () => true}]": "AK_CONFIG_INVALID",
    }
    assert {script: page.evaluate(f"() => ({build})({script})") for script in attempts} == attempts


def test_only_a_choice_that_the_frame_offers_can_be_selected(page: Page) -> None:
    select = "([frame, id]) => { try { return lib.selectChoice(frame, id); } catch (e) { return e.code; } }"
    event = page.evaluate(select, [FRAME, "rel-4"])
    assert event == {
        "protocol": "agentskit.chat.component",
        "version": 1,
        "type": "select",
        "componentKey": "choice-list",
        "instanceId": "pick-branch:m-17",
        "choiceId": "rel-4",
    }
    assert page.evaluate(select, [FRAME, "other"]) == "AK_CONFIG_INVALID"
    assert page.evaluate(select, [frame(componentKey="future"), "rel-4"]) == "AK_CONFIG_INVALID"


Show = Callable[..., Page]


@pytest.fixture
def show(page: Page) -> Show:
    def show(shown: Json, **attributes: str) -> Page:
        page.evaluate(
            """([frame, attributes]) => {
                const list = document.createElement("acp-choice-list");
                for (const [name, value] of Object.entries(attributes)) list.setAttribute(name, value);
                window.events = [];
                window.list = list;
                list.addEventListener("acp-select", (event) => events.push(event.detail));
                list.frame = frame;
                document.body.replaceChildren(list);
            }""",
            [shown, attributes],
        )
        return page

    return show


def test_a_click_selects_once_and_says_so(show: Show) -> None:
    page = show(FRAME)
    expect(page.get_by_role("group", name="Which branch?")).to_be_visible()
    main = page.get_by_role("button", name="main", exact=True)
    expect(main).to_have_accessible_description("Latest green build")
    page.get_by_role("button", name="release/4.x").click()
    expect(page.get_by_role("button", name="release/4.x ✓ chosen")).to_be_focused()
    main.click(force=True)
    assert [event["choiceId"] for event in page.evaluate("events")] == ["rel-4"]
    expect(main).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("status")).to_have_text("Chosen: release/4.x")


def test_the_keyboard_alone_is_enough(show: Show) -> None:
    page = show(FRAME)
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    assert [event["choiceId"] for event in page.evaluate("events")] == ["rel-4"]


def test_under_review_a_click_arms_and_send_sends(show: Show) -> None:
    page = show(FRAME, review="")
    send = page.get_by_role("button", name="Send")
    send.click(force=True)
    expect(page.get_by_role("status")).to_have_text("Choose one first.")
    page.get_by_role("button", name="main", exact=True).click()
    page.get_by_role("button", name="release/4.x").click()
    assert page.evaluate("events") == []
    send.click()
    send.click(force=True)
    assert [event["choiceId"] for event in page.evaluate("events")] == ["rel-4"]


def test_a_suggestion_is_marked_and_sent_only_by_the_person(show: Show) -> None:
    page = show(FRAME, review="", initial="trunk")
    expect(page.get_by_role("button", name="main suggested")).to_be_visible()
    assert page.evaluate("events") == []
    page.get_by_role("button", name="Send").click()
    assert [event["choiceId"] for event in page.evaluate("events")] == ["trunk"]


def test_a_list_can_be_shown_as_answered_and_made_usable_again(show: Show) -> None:
    page = show(FRAME)
    page.evaluate("list.selected = 'trunk'")
    page.get_by_role("button", name="release/4.x").click(force=True)
    assert page.evaluate("events") == []
    page.evaluate("list.reset()")
    page.get_by_role("button", name="release/4.x").click()
    assert len(page.evaluate("events")) == 1


@pytest.mark.parametrize(
    ("shown", "text", "code"),
    [
        (frame(componentKey="future"), "[unsupported visual: choice-list] Pick one.", UNKNOWN),
        (frame(props=None), "[unsupported visual: choice-list] Pick one.", PROPS),
        (frame(version=2), "This component frame has a version that is not supported.", VERSION),
        ("{", "This component frame does not follow the protocol.", INVALID),
    ],
)
def test_what_is_not_declared_shows_its_fallback_or_a_diagnostic(
    show: Show, shown: Json, text: str, code: str
) -> None:
    page = show(shown)
    note = page.locator("acp-choice-list p")
    expect(note).to_have_text(text)
    expect(note).to_have_attribute("data-code", code)
    assert page.locator("acp-choice-list button").count() == 0


def test_a_component_that_the_page_declares_is_still_no_choice_list(show: Show) -> None:
    page = show(None)
    page.evaluate(
        """(frame) => {
            list.manifest = lib.defineComponentManifest([{key: "mine", accepts: () => true}]);
            list.frame = frame;
        }""",
        frame(componentKey="mine"),
    )
    expect(page.locator("acp-choice-list p")).to_have_attribute("data-code", UNKNOWN)


def test_hostile_text_stays_text_and_hidden_characters_are_shown(show: Show) -> None:
    hostile = "<img src=x onerror=alert(1)> https://evil.example \u202eexe\u200b\U000e0041"
    page = show(of_choices(choice(label=hostile, description=hostile)))
    assert page.locator("acp-choice-list").locator("img, a").count() == 0
    assert page.locator("acp-choice-list .label .control-character").all_inner_texts() == [
        "U+202E",
        "U+200B",
        "U+E0041",
    ]


def test_the_frame_may_stand_in_markup_as_json(page: Page) -> None:
    page.evaluate(
        """(text) => {
            const list = document.createElement("acp-choice-list");
            list.setAttribute("frame", text);
            document.body.replaceChildren(list);
        }""",
        json.dumps(FRAME),
    )
    expect(page.get_by_role("button", name="release/4.x")).to_be_visible()
