"""Who gets in through the console, and by which address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from acpremote.tls import self_signed, server_context

from .conftest import OpenConsole, begin, prompt
from .endpoints import Endpoint, Proxy, expose

pytestmark = pytest.mark.interop

TOKEN = "T0ken+/=~with.odd_chars"


def locked(token: str = TOKEN, port: int = 0) -> AbstractContextManager[Endpoint]:
    return expose("--token-env", "CONSOLE_TEST", port=port, env={**os.environ, "CONSOLE_TEST": token})


@pytest.fixture(scope="module")
def with_token() -> Iterator[Endpoint]:
    with locked() as endpoint:
        yield endpoint


def give(page: Page, token: str, *, keep: bool = False) -> None:
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_label("Keep it in this tab").set_checked(keep)
    page.get_by_role("button", name="Connect").click()


def talks(page: Page) -> None:
    begin(page)
    prompt(page, "echo hello")
    expect(page.locator(".item.agent")).to_have_text("You said: hello")


def kept(page: Page) -> str:
    return str(page.evaluate("JSON.stringify({...sessionStorage, ...localStorage, cookie: document.cookie})"))


def test_a_token_is_asked_for_refused_when_wrong_and_taken_when_right(
    open_console: OpenConsole, with_token: Endpoint
) -> None:
    page = open_console(with_token.url, start=False)
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("websocket", lambda socket: addresses.append(socket.url))
    for wrong in ("wrong", "wörks not"):
        give(page, wrong)
        expect(page.get_by_role("alert")).to_have_text("The server did not accept this token.")
        expect(page.get_by_label("Token", exact=True)).to_have_value("")
    give(page, TOKEN)
    talks(page)
    assert addresses
    assert not any("T0ken" in address for address in addresses)
    assert "T0ken" not in kept(page)
    assert "T0ken" not in page.content()
    assert not any("T0ken" in line for line in with_token.log)


def test_a_token_in_the_fragment_is_used_and_removed(open_console: OpenConsole, with_token: Endpoint) -> None:
    page = open_console(f"{with_token.url}#token={TOKEN.replace('+', '%2B')}", start=False)
    talks(page)
    assert page.url == with_token.url
    assert page.evaluate("history.length") <= 2


def test_a_token_is_kept_over_a_reload_only_if_the_person_says_so(
    open_console: OpenConsole, with_token: Endpoint
) -> None:
    page = open_console(with_token.url, start=False)
    give(page, TOKEN)
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.reload()
    give(page, TOKEN, keep=True)
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.reload()
    talks(page)


def test_a_token_that_no_longer_holds_is_asked_for_again(open_console: OpenConsole) -> None:
    with locked() as endpoint:
        page = open_console(endpoint.url, start=False, noisy=True)
        give(page, TOKEN)
        talks(page)
    again = page.get_by_role("button", name="Connect again")
    again.wait_for()
    with locked("another", endpoint.port):
        again.click()
        expect(page.get_by_role("alert")).to_have_text("The server did not accept this token.")
        give(page, "another")
        talks(page)


def test_behind_tls_and_a_path_prefix_the_page_finds_the_right_address(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    tls = server_context(self_signed(["127.0.0.1"], tmp_path).file)
    with expose() as endpoint, Proxy(endpoint.port, tls=tls, prefix="/agents/one") as proxy:
        page = open_console(proxy.url, start=False, ignore_https_errors=True)
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.reload()
        talks(page)
        assert set(sockets) == {f"wss://{urlsplit(proxy.url).netloc}/agents/one/acp/ws"}


def test_a_page_whose_origin_is_not_allowed_is_told_what_to_do(open_console: OpenConsole) -> None:
    with Proxy(host="localhost") as proxy:
        with expose() as endpoint:
            proxy.target = endpoint.port
            page = open_console(proxy.url, start=False, noisy=True)
            expect(page.get_by_text("--allow-origin and the address of this page")).to_be_visible()
        with expose("--allow-origin", proxy.url.rstrip("/")) as endpoint:
            proxy.target = endpoint.port
            page.reload()
            talks(page)


def test_a_proxy_that_passes_no_upgrades_is_named(open_console: OpenConsole) -> None:
    with expose() as endpoint, Proxy(endpoint.port, upgrades=False) as proxy:
        page = open_console(proxy.url, start=False, noisy=True)
        expect(page.locator(".banner")).to_contain_text("passes WebSocket upgrades on", timeout=20_000)


def test_a_server_that_does_tls_itself_serves_the_console_too(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    with expose("--tls-self-signed", env=environment) as endpoint:
        page = open_console(f"https://127.0.0.1:{endpoint.port}/", start=False, ignore_https_errors=True)
        talks(page)


def test_the_mount_path_may_be_another_and_the_console_may_be_off(open_console: OpenConsole) -> None:
    with expose("--mount-path", "/my/agent") as endpoint:
        talks(open_console(endpoint.url, start=False))
    with expose("--no-console") as endpoint:
        page = open_console(endpoint.url, start=False, noisy=True)
        assert page.evaluate("document.querySelector('script')") is None
