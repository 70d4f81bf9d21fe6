"""A real browser and real endpoints for the console's tests."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from .endpoints import Endpoint, expose

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

OpenConsole = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def scripted() -> Iterator[Endpoint]:
    """`acpremote expose` with the agent of these tests; each page gets an agent of its own."""
    with expose() as endpoint:
        yield endpoint


@pytest.fixture
def open_console(browser: Browser) -> Iterator[OpenConsole]:
    """Opens pages, each in a context of its own; none of them may have complained or gone elsewhere."""
    faults: list[str] = []
    contexts = []

    def open_console(
        url: str, *, start: bool = True, width: int = 1100, noisy: bool = False, **options: Any
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        watch(page, urlsplit(url).netloc, faults, noisy=noisy)
        page.goto(url)
        if start:
            begin(page)
        return page

    yield open_console
    for context in contexts:
        context.close()
    assert not faults


def watch(page: Page, origin: str, faults: list[str], *, noisy: bool) -> None:
    """Collects what no page of ours may do; a noisy one may be refused by its server."""

    def told(message: ConsoleMessage) -> None:
        gone = "net::ERR_" in message.text or "WebSocket connection" in message.text  # a server that has gone
        refused = noisy and "the server responded with a status" in message.text
        if message.type == "error" and not gone and not refused:
            faults.append(f"console: {message.text}")

    def requested(request: Request) -> None:
        if foreign(request.url, origin):
            faults.append(f"request: {request.url}")

    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("console", told)
    page.on("request", requested)


def foreign(url: str, origin: str) -> bool:
    return not url.startswith("data:") and urlsplit(url).netloc != origin


def begin(page: Page) -> None:
    """Starts a session in the directory that is offered."""
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_label("Message to the agent").wait_for()


def prompt(page: Page, text: str) -> None:
    """Sends a prompt, once the turn before has ended."""
    page.get_by_role("button", name="Send", exact=True).and_(page.locator(".composer *")).wait_for()
    page.get_by_label("Message to the agent").fill(text)
    page.keyboard.press("Enter")


def until(condition: Callable[[], bool], timeout: float = 15) -> None:
    """Polls for what no event tells."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
