"""Conversations in a real browser, over real `acpremote expose`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from ..interop.test_agents import PYDANTIC_AGENT
from .conftest import OpenConsole, begin, prompt
from .endpoints import DEMO, Endpoint, expose
from .test_choice_list import FRAME, frame

pytestmark = pytest.mark.interop


def said(page: Page, text: str) -> Locator:
    return page.locator(".item.agent", has_text=text)


def answer(page: Page) -> Any:
    """What the scripted agent was answered: it repeats it."""
    told = page.locator(".item.agent", has_text="Answer: ").last
    told.wait_for()
    return json.loads(told.inner_text().partition("Answer: ")[2])


def test_a_whole_turn_with_the_demo_agent(open_console: OpenConsole) -> None:
    with expose(agent=DEMO) as endpoint:
        page = open_console(endpoint.url)
        prompt(page, "plan choice permission form")
        page.get_by_role("button", name="Production").click()
        page.locator("acp-choice-list").get_by_role("button", name="Send").click()
        page.locator(".ask").get_by_role("button").first.click()
        page.get_by_label("Name").fill("Ada")
        page.locator("acp-form").get_by_role("button", name="Send").click()
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        expect(page.locator(".plan header")).to_contain_text("3 of 3")
        expect(page.locator(".item.tool").first).to_be_visible()
        expect(page.locator(".item.agent").last).to_contain_text("Ada")
        prompt(page, "slow")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("Stopped.")).to_be_visible()
        page.get_by_label("Message to the agent").fill("/pl")
        page.get_by_role("group", name="Commands").get_by_role("button").click()
        expect(page.get_by_label("Message to the agent")).to_have_value("/plan ")


def test_a_whole_turn_with_an_agent_of_another_maker(open_console: OpenConsole) -> None:
    with expose(agent=PYDANTIC_AGENT) as endpoint:
        page = open_console(endpoint.url, start=False)
        # It takes its time to import what it needs.
        page.get_by_role("button", name="Start", exact=True).click(timeout=40_000)
        prompt(page, "please deploy")
        page.locator(".item.ask").get_by_role("button").first.click()
        expect(said(page, "the tool said: deployed to pröduction")).to_be_visible(timeout=20_000)
        expect(page.locator(".control-character")).to_have_text("U+2028")
        expect(page.locator(".tool .state")).to_have_text("done")


def test_streamed_markdown_is_typeset_and_links_stay_text(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "markdown")
    expect(page.locator(".prose .heading")).to_have_text("What happens")
    expect(page.locator(".prose ol > li")).to_have_count(3)
    expect(page.locator(".prose strong")).to_have_text("every frame")
    expect(page.locator(".prose td")).to_have_count(4)
    expect(page.locator(".prose pre code")).to_contain_text("def replay(journal, received):")


def test_thoughts_plan_tools_diff_terminal_and_usage_are_shown(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "story")
    expect(page.locator(".diff .added")).to_have_count(2)
    expect(page.locator(".diff .removed")).to_have_count(1)
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(said(page, "All eight tests pass")).to_be_visible()
    expect(page.locator(".thought summary")).to_contain_text("The retry loop sleeps")
    expect(page.locator(".plan header")).to_have_text("Plan3 of 3")
    states = page.locator(".tool .state")
    expect(states).to_have_text(["done", "done", "done"])
    expect(page.locator(".terminal")).to_contain_text("8 passed")
    expect(page.locator(".terminal .ansi-green")).to_have_count(2)
    expect(page.locator(".shell")).to_contain_text("Exit status 0")
    expect(page.locator(".usage")).to_have_text("18.4K of 200K tokens")


def test_a_permission_is_answered_with_the_option_that_was_chosen(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "permission")
    reject = page.get_by_role("button", name="Reject")
    expect(reject).to_have_accessible_description("Does not allow it this time.")
    reject.click()
    assert answer(page) == {"outcome": {"outcome": "selected", "optionId": "no 2"}}
    expect(page.locator(".settled")).to_have_text("Write notes.txt: Reject")


def test_stop_answers_an_open_permission_with_cancelled(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "permission")
    page.get_by_role("button", name="Reject").wait_for()
    page.get_by_role("button", name="Stop").click()
    assert answer(page) == {"outcome": {"outcome": "cancelled"}}


def test_stop_ends_a_turn_that_waits(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    prompt(page, "wait")
    said(page, "Waiting.").wait_for()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()


def test_a_single_choice_is_reviewed_and_sent_as_the_agents_value(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "choice")
    expect(page.locator(".ask header")).to_have_text("Scripted asks you")
    expect(page.get_by_role("button", name="Europe suggested")).to_be_visible()
    page.get_by_role("button", name="America").click()
    page.get_by_role("button", name="Europe").click()
    page.locator("acp-choice-list").get_by_role("button", name="Send").click()
    assert answer(page) == {"action": "accept", "content": {"zone": "eu west/2"}}


def test_every_question_can_be_declined_and_cancelled(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    told = page.locator(".item.agent", has_text="Answer: ")
    for number, word in enumerate(["choice", "form", "url"]):
        for label, action in [("Decline", "decline"), ("Cancel", "cancel")]:
            prompt(page, word)
            page.get_by_role("button", name=label).click()
            expect(told.last).to_have_text(f'Answer: {{"action": "{action}"}}')
        expect(told).to_have_count(2 * number + 2)


def test_a_form_is_checked_before_it_is_sent(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    prompt(page, "form")
    send = page.locator("acp-form").get_by_role("button", name="Send")
    page.get_by_label("Port").fill("70000")
    page.get_by_label("Contact").fill("nobody")
    send.click()
    name = page.get_by_label("Project name")
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field-error:not(:empty)")).to_have_text(
        ["Fill this in.", "Enter an e-mail address.", "At most 65535.", "Choose at least 1."]
    )
    name.fill("x")
    send.click()
    expect(page.locator(".field-error").first).to_have_text("At least 2 characters.")
    name.fill("Årsbok")
    page.get_by_label("Contact").fill("")
    page.get_by_label("Port").fill("443")
    page.get_by_label("Worker").check()
    page.get_by_label("large", exact=True).check()
    send.click()
    content = {"name": "Årsbok", "port": 443, "public": False, "tier": "large", "parts": ["w"]}
    assert answer(page) == {"action": "accept", "content": content}


def test_a_page_is_opened_only_after_its_whole_address_was_shown(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, f"url {scripted.url}healthz?code=AB-12")
    expect(page.locator(".address")).to_have_text(f"{scripted.url}healthz?code=AB-12")
    expect(page.locator(".host")).to_have_text(f"127.0.0.1:{scripted.port}")
    assert len(page.context.pages) == 1
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open in a new tab").click()
    assert opened.value.evaluate("window.opener") is None
    assert answer(page) == {"action": "accept"}
    expect(page.locator(".settled")).to_contain_text("the agent says that it is done")


MISLEADING = [
    ("http://example.org/", "not encrypted"),
    ("https://xn--pple-43d.com/", "look like others"),
    ("https://bank.example@evil.example/", "user name"),
]


def test_an_address_that_may_mislead_is_marked(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    for url, warning in MISLEADING:
        prompt(page, f"url {url}")
        expect(page.locator(".ask .warn")).to_contain_text(warning)
        page.get_by_role("button", name="Decline").click()


def test_what_is_no_web_address_cannot_be_opened(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    for url in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "no address"]:
        prompt(page, f"url {url}")
        expect(page.locator(".card.ask")).to_contain_text("cannot be opened")
        expect(page.get_by_role("button", name="Open in a new tab")).to_have_count(0)
        page.get_by_role("button", name="Decline").click()


def test_a_question_that_the_agent_takes_back_is_over(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    prompt(page, "withdraw")
    assert answer(page) == {"action": "cancel"}
    expect(page.locator(".settled")).to_have_text("The agent took the question back")


def test_what_the_console_does_not_offer_is_answered_with_an_error(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "unknown")
    assert answer(page) == -32601


def test_an_error_says_what_happened_and_leaves_the_session_usable(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "fail")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("the model is out of reach")
    expect(problem).to_contain_text("you can send your message again")
    prompt(page, "echo here")
    expect(said(page, "You said: here")).to_be_visible()


def test_a_directory_that_does_not_exist_is_said_at_the_field(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url, start=False)
    page.get_by_label("Directory on the agent's machine").fill("/missing")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Check that the directory exists")
    page.get_by_label("Directory on the agent's machine").fill("/tmp")
    begin(page)


def test_an_agent_that_dies_is_told_with_its_status_and_a_way_on(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "die")
    banner = page.locator(".banner")
    expect(banner).to_contain_text("3")
    banner.get_by_role("button", name="Connect again").click()
    begin(page)
    prompt(page, "echo again")
    expect(said(page, "You said: again")).to_be_visible()


def test_mode_and_options_can_be_set(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    mode = page.get_by_role("combobox", name="Mode", exact=True)
    mode.select_option("Auto")
    prompt(page, "echo x")
    said(page, "You said: x").wait_for()
    expect(mode.locator("option:checked")).to_have_text("Auto")
    expect(page.get_by_role("combobox", name="Model", exact=True).locator("option:checked")).to_have_text(
        "Large"
    )


def test_a_session_that_the_agent_kept_is_loaded_with_its_history(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url, start=False)
    page.get_by_role("button", name="Rename the flags").click()
    expect(page.locator(".item.user")).to_have_text("rename the flags")
    expect(said(page, "Both flags have new names.")).to_be_visible()


def test_sessions_can_be_started_side_by_side_and_switched(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "echo first")
    said(page, "You said: first").wait_for()
    page.get_by_role("button", name="Sessions").click()
    page.get_by_role("button", name="New session").click()
    begin(page)
    expect(page.locator(".item")).to_have_count(0)
    page.get_by_role("button", name="Sessions").click()
    page.get_by_role("button", name="echo first").click()
    expect(said(page, "You said: first")).to_be_visible()


# ---- components in messages


def send_frames(page: Page, *frames: Any) -> None:
    prompt(page, f"frame {json.dumps(frames)}")
    page.get_by_role("button", name="Send", exact=True).and_(page.locator(".composer *")).wait_for()


def test_a_choice_that_a_model_wrote_goes_into_the_prompt_box_for_the_person_to_send(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    page.evaluate("document.addEventListener('acp-select', (event) => { window.chosen = event.detail; })")
    send_frames(page, FRAME)
    page.get_by_role("button", name="release/4.x").click()
    expect(page.get_by_label("Message to the agent")).to_have_value("release/4.x")
    expect(page.locator(".item.user")).to_have_count(1)
    assert page.evaluate("chosen.choiceId") == "rel-4"
    expect(page.get_by_role("button", name="release/4.x ✓ chosen")).to_be_visible()


def test_frames_that_are_not_shown_leave_their_fallback_a_diagnostic_or_text(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    send_frames(
        page, frame(componentKey="chart"), frame(version=2), '{"a": 1}', "{ not json", json.dumps(FRAME) + "!"
    )
    notes = page.locator("acp-choice-list p")
    expect(notes).to_have_text(
        [
            "[unsupported visual: choice-list] Pick one.",
            "This component frame has a version that is not supported.",
        ]
    )
    expect(page.locator(".item.agent")).to_have_count(3)
    expect(said(page, '{"a": 1}')).to_be_visible()
    expect(said(page, "{ not json")).to_be_visible()


def with_action(name: str, value: Any) -> Any:
    choices = [{"id": "go", "label": "Go", "action": {"name": name, "input": value}}]
    return frame(instanceId=f"i-{name}", props={"prompt": "Shall I?", "choices": choices})


def test_an_action_is_only_proposed_and_runs_once_approved(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    send_frames(page, with_action("set-mode", {"modeId": "auto"}))
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".action .snapshot")).to_have_text("Auto")
    expect(page.get_by_role("combobox", name="Mode", exact=True).locator("option:checked")).to_have_text(
        "Ask"
    )
    page.get_by_role("button", name="Switch").click()
    expect(page.get_by_text("Approved and done")).to_be_visible()
    expect(page.get_by_role("combobox", name="Mode", exact=True).locator("option:checked")).to_have_text(
        "Auto"
    )


def test_a_rejected_action_does_nothing(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    send_frames(page, with_action("set-mode", {"modeId": "auto"}))
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="No", exact=True).click()
    expect(page.get_by_text("Rejected")).to_be_visible()
    expect(page.get_by_role("combobox", name="Mode", exact=True).locator("option:checked")).to_have_text(
        "Ask"
    )


def test_an_approved_copy_is_on_the_clipboard(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url, permissions=["clipboard-read", "clipboard-write"])
    send_frames(page, with_action("copy-text", {"text": "git push"}))
    page.get_by_role("button", name="Go").click()
    page.locator(".action").get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Approved and done")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "git push"


def test_an_action_that_is_unknown_or_does_not_fit_is_refused_before_it_can_be_approved(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    refused: list[tuple[str, Any]] = [
        ("git.stash", {}),
        ("set-mode", {"modeId": "root"}),
        ("set-mode", {}),
        ("copy-text", {"text": "a", "b": 1}),
        ("constructor", {}),
    ]
    page = open_console(scripted.url)
    send_frames(page, *[with_action(name, value) for name, value in refused])
    for number in range(len(refused)):
        page.get_by_role("button", name="Go").nth(number).click()
        expect(page.get_by_role("alert")).to_have_count(number + 1)
        expect(page.get_by_role("alert").last).to_contain_text("Nothing was done")
    expect(page.locator(".item.action")).to_have_count(0)
    expect(page.get_by_role("button", name="Go").last).to_have_attribute("aria-disabled", "false")


# ---- by keyboard, and the traffic


def test_a_turn_needs_no_mouse(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url, start=False)
    expect(page.get_by_label("Directory on the agent's machine")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message to the agent")).to_be_focused()
    page.keyboard.type("choice")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Europe").wait_for()
    america = page.get_by_role("button", name="America")
    for _ in range(10):
        if america.evaluate("(button) => button.getRootNode().activeElement === button"):
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert answer(page) == {"action": "accept", "content": {"zone": "us"}}
    expect(page.locator(".settled")).to_be_focused()


def test_the_traffic_view_shows_filters_pauses_and_copies(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Traffic").click()
    frames = page.locator("acp-traffic li:not([hidden])")
    expect(frames).to_have_count(0)
    prompt(page, "echo seen")
    said(page, "You said: seen").wait_for()
    expect(frames).to_have_count(3)
    expect(frames.first).to_contain_text("session/prompt")
    expect(frames.nth(1)).to_contain_text("session/update · agent_message_chunk")
    page.get_by_label("Filter").fill("update")
    expect(frames).to_have_count(1)
    frames.locator("summary").click()
    expect(frames.locator("pre")).to_contain_text('"You said: seen"')
    page.locator("acp-traffic").get_by_role("button", name="Copy").click()
    expect(page.get_by_text("1 frames copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["to"] == "client"
    assert json.loads(copied["frame"])["method"] == "session/update"
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name="Pause").click()
    prompt(page, "echo unseen")
    said(page, "You said: unseen").wait_for()
    expect(frames).to_have_count(3)
    page.get_by_role("button", name="Close traffic").click()
    expect(page.locator("acp-traffic")).to_be_hidden()
