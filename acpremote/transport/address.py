"""Addresses of endpoints as users write them, and what may be presented there.

Must never resolve a name, and never show a query, which may hold a token. Read `dial.py` next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from ..core.authority import is_loopback_name, normalize_host
from ..errors import ConfigError
from ..options import ClientOptions

__all__ = ["Address", "check_safe", "parse_address"]

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
DEFAULT_PATH = "/acp/ws"
_WITHOUT_SCHEME = re.compile(r"[\w.-]+:\d+(/\S*)?")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is: a WebSocket URL, and the path of a Unix socket if it is reached by one."""

    url: str = field(repr=False)  # its query may hold a token
    unix_path: str | None = None

    def __str__(self) -> str:
        return self.url.partition("?")[0] if self.unix_path is None else f"unix:{self.unix_path}"

    @property
    def host(self) -> str:
        """The name or address of the machine, without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return self.unix_path is not None or is_loopback_name(normalize_host(self.host))

    @property
    def metadata_path(self) -> str:
        """Where the endpoint's server describes itself: the path, without the `/ws` of the socket."""
        return urlsplit(self.url).path.removesuffix("/ws") or "/"

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.startswith("wss:")


def parse_address(text: str) -> Address:
    """Reads `ws://`, `wss://`, `http://`, `https://` and `unix:PATH`; a missing path is `/acp/ws`.

    Raises:
        ConfigError: it is none of these.
    """
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address(f"ws://localhost{DEFAULT_PATH}", text.removeprefix("unix:"))
    try:
        parts = urlsplit(text)
        scheme = _SCHEMES[parts.scheme]
        if not parts.hostname or parts.port == 0:
            raise ValueError(text)
    except (KeyError, ValueError):
        shown = text.partition("?")[0]
        meant = f"; did you mean ws://{shown}?" if _WITHOUT_SCHEME.fullmatch(shown) else ""
        raise ConfigError(
            f"{shown!r} is no address of an endpoint; allowed: ws://HOST:PORT/acp/ws, wss://…, http(s)://…, "
            f"unix:PATH{meant}"
        ) from None
    if parts.username is not None:
        raise ConfigError("an address must hold no user name and password; use --token-env or --header")
    path = DEFAULT_PATH if parts.path in ("", "/") else parts.path
    return Address(urlunsplit((scheme, parts.netloc, path, parts.query, "")))


def check_safe(address: Address, client: ClientOptions) -> None:
    """Refuses to present secrets in the clear to another machine, and certificates' options without TLS.

    Raises:
        ConfigError: it is so.
    """
    if (client.tls_pin is not None or client.ca_file is not None) and not address.has_tls:
        raise ConfigError(f"{address} is not encrypted, so there is no certificate to check; use wss://")
    secret = client.bearer_token is not None or any(
        name.lower() in ("authorization", "cookie") for name, _ in client.headers
    )
    if secret and not (address.has_tls or address.is_loopback or client.insecure):
        raise ConfigError(
            f"the token would travel unencrypted to {address.host}; use wss://, or a tunnel to this machine,"
            " or say --insecure"
        )
