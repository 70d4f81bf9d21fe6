"""Cookies of a client's connections, so that a balancer in front of many servers finds the same one again.

ACP asks clients to keep cookies over reconnects. The standard library's jar knows the rules (domain,
path, `Secure`, end); this module only tells it about handshakes. Kept in memory, gone with the process.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable
from email.message import Message
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from typing import cast

__all__ = ["Cookies"]


class Cookies:
    """The cookies of one client."""

    def __init__(self) -> None:
        self._jar = CookieJar()

    def header(self, url: str) -> str | None:
        """The `Cookie` header for a handshake at the `ws://` or `wss://` address `url`."""
        request = _request(url)
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie")

    def store(self, url: str, set_cookie: Iterable[str]) -> None:
        """Keeps what the answer to a handshake at `url` set; what is malformed or not allowed is ignored."""
        message = Message()
        for value in set_cookie:
            message["Set-Cookie"] = value
        self._jar.extract_cookies(cast("HTTPResponse", _Answer(message)), _request(url))


class _Answer:
    """As much of an HTTP response as the jar looks at."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def info(self) -> Message:
        """The response's headers."""
        return self._message


def _request(url: str) -> urllib.request.Request:
    return urllib.request.Request("http" + url.removeprefix("ws"))  # noqa: S310 - never opened
