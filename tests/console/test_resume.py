"""Nothing is lost when the network goes, the page is reloaded or a tab is duplicated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from .conftest import OpenConsole, begin, prompt, until
from .endpoints import Endpoint, Proxy, expose

pytestmark = pytest.mark.interop


@pytest.fixture
def proxy(scripted: Endpoint) -> Iterator[Proxy]:
    with Proxy(scripted.port) as proxy:
        yield proxy


def counted(page: Page, numbers: int) -> None:
    """Every number has arrived, once and in order."""
    whole = "".join(f"[{number}] " for number in range(numbers)).rstrip()
    expect(page.locator(".item.agent .prose").last).to_have_text(whole, timeout=30_000)
    expect(page.locator(".composer .send")).to_be_visible()
    expect(page.locator(".item.user")).to_have_count(1)


def has_said(page: Page, number: int) -> None:
    expect(page.locator(".item.agent")).to_contain_text(f"[{number}]")


def test_a_turn_goes_on_through_cuts(proxy: Proxy, open_console: OpenConsole) -> None:
    page = open_console(proxy.url, noisy=True)
    prompt(page, "slow 150")
    for number in (5, 40, 80):
        has_said(page, number)
        proxy.cut()
    counted(page, 150)
    expect(page.locator(".connection")).to_have_attribute("data-kind", "on")


def test_being_offline_is_said_and_what_is_sent_meanwhile_arrives_once(
    proxy: Proxy, open_console: OpenConsole
) -> None:
    page = open_console(proxy.url, noisy=True)
    proxy.closed = True
    proxy.cut()
    expect(page.locator(".banner")).to_contain_text("The agent goes on working; nothing is lost.")
    prompt(page, "slow 3")
    page.get_by_role("button", name="Try now").click()
    proxy.closed = False
    counted(page, 3)
    expect(page.locator(".banner")).to_be_empty()


def test_a_browser_that_goes_offline_and_comes_back_resumes_at_once(
    proxy: Proxy, open_console: OpenConsole
) -> None:
    page = open_console(proxy.url, noisy=True)
    prompt(page, "slow 60")
    has_said(page, 5)
    page.context.set_offline(True)
    expect(page.locator(".connection")).to_have_attribute("data-kind", "wait")
    page.context.set_offline(False)
    counted(page, 60)


def test_a_reload_in_mid_turn_loses_and_doubles_nothing(proxy: Proxy, open_console: OpenConsole) -> None:
    page = open_console(proxy.url)
    prompt(page, "slow 150")
    for number in (5, 50):
        has_said(page, number)
        page.reload()
    counted(page, 150)


def test_a_question_is_still_there_after_a_reload_and_its_answer_counts(
    proxy: Proxy, open_console: OpenConsole
) -> None:
    page = open_console(proxy.url)
    prompt(page, "choice")
    page.get_by_role("button", name="America").wait_for()
    page.reload()
    page.get_by_role("button", name="America").click()
    page.locator("acp-choice-list").get_by_role("button", name="Send").click()
    expect(page.locator(".item.agent")).to_have_text(
        'Answer: {"action": "accept", "content": {"zone": "us"}}'
    )
    page.reload()
    expect(page.locator(".settled")).to_have_text("Target for the upload? America")


def test_a_duplicated_tab_starts_afresh_and_leaves_the_other_alone(
    open_console: OpenConsole, scripted: Endpoint
) -> None:
    page = open_console(scripted.url)
    prompt(page, "slow 100")
    has_said(page, 5)
    with page.context.expect_page() as opened:
        page.evaluate(
            "void window.open(location.href)"
        )  # takes session storage along, as duplicating a tab does
    other = opened.value
    assert other.evaluate("sessionStorage.length") > 0
    expect(other.locator(".banner")).to_contain_text("open in another one")
    begin(other)
    prompt(other, "echo apart")
    expect(other.locator(".item.agent")).to_have_text("You said: apart")
    counted(page, 100)
    other.close()


def test_a_server_that_was_restarted_is_told_apart_and_the_session_offered_again(
    open_console: OpenConsole,
) -> None:
    with Proxy() as proxy:
        with expose() as endpoint:
            proxy.target = endpoint.port
            page = open_console(proxy.url, noisy=True)
            prompt(page, "slow 500")
            has_said(page, 3)
            proxy.closed = True
            proxy.cut()
        with expose() as endpoint:
            proxy.target = endpoint.port
            proxy.closed = False
            expect(page.locator(".banner")).to_contain_text("no longer has this conversation", timeout=20_000)
            expect(page.get_by_text("It is not known how this turn ended.")).to_be_visible()
            page.get_by_role("button", name="Connect again").click()
            page.get_by_role("button", name="Continue").click()
            expect(page.locator(".item.agent")).to_have_text("Both flags have new names.")


def test_the_agent_is_stopped_at_once_when_the_person_says_so(open_console: OpenConsole) -> None:
    with expose() as endpoint:
        page = open_console(endpoint.url, noisy=True)
        prompt(page, "wait")
        expect(page.locator(".item.agent")).to_have_text("Waiting.")
        page.get_by_role("button", name="Sessions").click()
        page.get_by_role("button", name="End the agent").click()
        expect(page.locator(".banner")).to_contain_text("The agent has ended.")
        until(lambda: any("client_left" in line for line in endpoint.log))
        page.reload()
        page.get_by_role("button", name="Start", exact=True).wait_for()
