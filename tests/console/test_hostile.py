"""Nothing that an agent writes runs, navigates, loads or hides, whatever text it writes it into."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from .conftest import OpenConsole, prompt
from .endpoints import Endpoint

pytestmark = pytest.mark.interop

NOT_OURS = "script, iframe, object, embed, link, style, base, meta, a, area, form[action], img, video, audio"

BARE = """() => {
    const treacherous = /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u0007\\u001b]/;
    const found = [];
    const look = (root) => {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
        while (walker.nextNode()) {
            const { currentNode: node } = walker;
            if (node.shadowRoot) look(node.shadowRoot);
            if (node.nodeType === 3 && treacherous.test(node.data)) found.push(node.parentElement.outerHTML);
        }
    };
    look(document.body);
    return found;
}"""


def inspect(page: Page) -> None:
    """No element that an agent could have made; every treacherous character shown by its code."""
    made = page.locator("body").locator(NOT_OURS)
    assert made.evaluate_all("(all) => all.map((each) => each.outerHTML)") == []
    assert page.evaluate(BARE) == []


def test_hostile_text_is_inert_everywhere(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url)
    page.evaluate("() => { window.ran = (what) => { throw new Error(`ran ${what}`); }; }")
    page.get_by_role("button", name="Traffic").click()
    prompt(page, "hostile")
    # The questions come one after the other; each is looked at before it is answered.
    permission = page.locator(".card.ask").get_by_role("button")
    permission.wait_for()
    expect(page.locator("acp-choice-list [part=fallback]")).to_be_visible()
    inspect(page)
    permission.click()
    page.locator("acp-form").wait_for()
    inspect(page)
    composer = page.locator(".composer").bounding_box()
    assert composer is not None
    assert composer["height"] < 250, "what an agent wrote takes the room of the conversation"
    page.get_by_role("button", name="Decline").click()
    expect(page.locator(".card.ask")).to_contain_text("cannot be opened")
    inspect(page)
    page.get_by_role("button", name="Decline").click()
    page.get_by_role("button", name="Send", exact=True).and_(page.locator(".composer *")).wait_for()
    page.get_by_label("Message to the agent").fill("/")
    page.get_by_role("button", name="Sessions").click()
    page.locator("summary").evaluate_all(
        "(all) => all.forEach((each) => { each.parentElement.open = true; })"
    )
    inspect(page)
    assert page.url == scripted.url
    assert len(page.context.pages) == 1


def test_a_flood_of_marks_and_depth_does_not_hold_up_the_page(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    floods = [
        "> " * 3000 + "x",
        "*_`~" * 1900,
        "# x\n" * 1000,
        "  " * 500 + "- x\n" * 500,
        "|-" * 5000,
        "`" * 9000,
    ]
    page = open_console(scripted.url)
    box = page.get_by_label("Message to the agent")
    for text in floods:
        page.get_by_role("button", name="Send", exact=True).and_(page.locator(".composer *")).wait_for()
        box.evaluate("(box, text) => { box.value = text; }", f"echo {text}")
        box.press("Enter")
    expect(page.locator(".item.agent")).to_have_count(len(floods))
