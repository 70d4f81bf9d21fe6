"""Cookies go back to where they came from, and nowhere else."""

from __future__ import annotations

import pytest

from acpremote.transport.cookies import Cookies

URL = "wss://agents.example/acp/ws"


@pytest.mark.parametrize(
    "url", [URL, "ws://127.0.0.1:8080/acp", "ws://localhost:8080/acp", "ws://[::1]:8080/acp"]
)
def test_a_cookie_is_sent_back(url: str) -> None:
    cookies = Cookies()
    assert cookies.header(url) is None
    cookies.store(url, ["node=a1; Path=/; HttpOnly", "route=7"])
    header = cookies.header(url)
    assert header is not None
    assert sorted(header.split("; ")) == ["node=a1", "route=7"]


def test_a_later_cookie_replaces_an_earlier_one_and_may_end_it() -> None:
    cookies = Cookies()
    cookies.store(URL, ["node=a1; Path=/"])
    cookies.store(URL, ["node=b2; Path=/"])
    assert cookies.header(URL) == "node=b2"
    cookies.store(URL, ["node=; Path=/; Max-Age=0"])
    assert cookies.header(URL) is None


@pytest.mark.parametrize(
    "other", ["wss://other.example/acp/ws", "ws://agents.example/acp/ws", "wss://agents.example/x"]
)
def test_it_is_sent_nowhere_else(other: str) -> None:
    cookies = Cookies()
    cookies.store(URL, ["node=a1; Path=/acp; Secure"])
    assert cookies.header(other) is None


@pytest.mark.parametrize("value", ["", ";;;", "node=a1; Domain=other.example", "="])
def test_what_is_malformed_or_not_allowed_is_ignored(value: str) -> None:
    cookies = Cookies()
    cookies.store(URL, [value])
    assert not cookies.header(URL)
