"""axe-core finds nothing to object to, in any state of the console, light and dark, wide and narrow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ..interop.tools import NODE_PACKAGES, needs_node
from .conftest import OpenConsole, prompt
from .endpoints import Endpoint
from .test_choice_list import FRAME

pytestmark = [pytest.mark.interop, needs_node]


def check(page: Page) -> None:
    """Runs axe-core as it is, outside the page's policy, as an extension would."""
    page.evaluate((NODE_PACKAGES / "axe-core" / "axe.min.js").read_text())
    found: list[Any] = page.evaluate("axe.run().then((result) => result.violations)")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (360, "dark")])
def test_no_state_of_the_console_has_violations(
    open_console: OpenConsole, scripted: Endpoint, width: int, scheme: str
) -> None:
    page = open_console(scripted.url, start=False, width=width, color_scheme=scheme, reduced_motion="reduce")
    page.get_by_role("button", name="Start", exact=True).wait_for()
    check(page)
    page.get_by_role("button", name="Start", exact=True).click()
    prompt(page, "story")
    page.get_by_role("button", name="Allow", exact=True).wait_for()
    check(page)
    page.get_by_role("button", name="Allow", exact=True).click()
    page.locator(".prose", has_text="All eight tests pass").wait_for()
    prompt(page, "markdown")
    page.locator("td").first.wait_for()
    check(page)
    prompt(page, f"frame {json.dumps([FRAME])}")
    page.get_by_role("button", name="release/4.x").click()
    check(page)
    page.get_by_label("Message to the agent").fill("")
    prompt(page, "form")
    page.locator("acp-form").get_by_role("button", name="Send").click()
    check(page)
    page.get_by_role("button", name="Decline").click()
    prompt(page, "choice")
    page.get_by_role("button", name="Europe").wait_for()
    check(page)
    page.get_by_role("button", name="Decline").click()
    prompt(page, "url http://example.org/")
    page.get_by_role("button", name="Open in a new tab").wait_for()
    check(page)
    page.get_by_role("button", name="Decline").click()
    prompt(page, "fail")
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="Traffic").click()
    check(page)
    page.get_by_role("button", name="Close traffic").click()
    page.get_by_role("button", name="Sessions").click()
    check(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sessions")).to_be_focused()


def test_nothing_is_wider_than_a_small_phone(open_console: OpenConsole, scripted: Endpoint) -> None:
    page = open_console(scripted.url, width=360)
    prompt(page, "story")
    page.get_by_role("button", name="Allow", exact=True).click()
    prompt(page, "markdown")
    page.locator("td").first.wait_for()
    prompt(page, "echo " + "unbroken" * 200)
    page.locator(".item.agent", has_text="unbroken").wait_for()
    for selector in ("html", "main", ".composer"):
        assert page.locator(selector).first.evaluate("(all) => all.scrollWidth - all.clientWidth") <= 0, (
            selector
        )
