"""Bearer tokens and subprotocols of a WebSocket handshake.

Owns where a token may stand (RFC 6750 header, subprotocol for browsers, query on demand), how it is
compared, and which of the offered subprotocols is echoed. A browser cannot set headers on a WebSocket,
hence the token in a subprotocol; for the same reason an offered subprotocol can be a secret and must not
be sent back. Must never raise on what a stranger sends. Read `access.py` next.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

__all__ = [
    "ACP_SUBPROTOCOL",
    "LINK_SUBPROTOCOL",
    "TOKEN_SUBPROTOCOL_PREFIX",
    "choose_subprotocol",
    "is_token_text",
    "offered_subprotocols",
    "presents_token",
    "token_subprotocol",
]

LINK_SUBPROTOCOL = "acpremote.link.v1"
ACP_SUBPROTOCOL = "acp.v1"
TOKEN_SUBPROTOCOL_PREFIX = "acp.bearer."  # noqa: S105 - a marker, not a secret

_HTTP_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_BEARER = re.compile(r"bearer +([!-~]+)", re.IGNORECASE)


def is_token_text(text: str) -> bool:
    """Whether `text` can be a bearer token: one or more visible ASCII characters, no space.

    Wider than RFC 6750's `b64token`, which stock clients do not enforce either.
    """
    return bool(text) and all("!" <= character <= "~" for character in text)


def token_subprotocol(token: str) -> str:
    """The subprotocol that carries `token` for clients that cannot set headers."""
    encoded = base64.urlsafe_b64encode(token.encode("ascii")).rstrip(b"=").decode("ascii")
    return TOKEN_SUBPROTOCOL_PREFIX + encoded


def offered_subprotocols(values: Sequence[str]) -> list[str] | None:
    """The subprotocols in all `Sec-WebSocket-Protocol` headers, in order; None when one is malformed.

    Empty list elements are ignored (RFC 9110 section 5.6.1).
    """
    offered = [item for value in values for raw in value.split(",") if (item := raw.strip(" \t"))]
    return offered if all(_HTTP_TOKEN.fullmatch(item) for item in offered) else None


def presents_token(
    token: bytes, *, authorization: Sequence[str], offered: Sequence[str], query: str | None
) -> bool:
    """Whether a request proves that it knows `token`.

    Every place that holds a token must hold this one, and none may hold two: of contradictory
    credentials nobody can say which one an intermediary would have believed. `query` is None where
    tokens in the query are off.
    """
    places = [
        [_from_authorization(value) for value in authorization],
        [_from_subprotocol(item) for item in offered if _is_token_subprotocol(item)],
        [] if query is None else _from_query(query),
    ]
    found = [candidate for place in places for candidate in place]
    if not found or any(len(place) > 1 for place in places):
        return False
    # No short cut: how many candidates match must not show in the time that this takes.
    return sum(hmac.compare_digest(candidate, token) for candidate in found) == len(found)


def choose_subprotocol(offered: Sequence[str], *, token: bytes | None, link: bool) -> str | None:
    """The one subprotocol to echo, or None when none of those offered may be.

    The link's own first (where `link` says that this server speaks it), then ACP's, then whatever comes
    first: some stock clients fail when they offered something and nothing is echoed.
    """
    for preferred in (LINK_SUBPROTOCOL, ACP_SUBPROTOCOL) if link else (ACP_SUBPROTOCOL,):
        if preferred in offered:
            return preferred
    # Echoing the link's own where it is not spoken would promise what this server does not do.
    safe = (item for item in offered if item != LINK_SUBPROTOCOL and not _may_hold_token(item, token))
    return next(safe, None)


def _from_authorization(value: str) -> bytes:
    match = _BEARER.fullmatch(value.strip(" \t"))
    return match[1].encode("ascii") if match else b""  # no token is empty, so b"" never matches


def _is_token_subprotocol(item: str) -> bool:
    return item.lower().startswith(TOKEN_SUBPROTOCOL_PREFIX)


def _from_subprotocol(item: str) -> bytes:
    encoded = item[len(TOKEN_SUBPROTOCOL_PREFIX) :]
    if not _BASE64URL.fullmatch(encoded):
        return b""
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return b""


def _from_query(query: str) -> list[bytes]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError:  # broken percent-encoding or too many fields
        return [b""]
    return [value.encode("utf-8", "replace") for name, value in pairs if name == "token"]


def _may_hold_token(item: str, token: bytes | None) -> bool:
    if _is_token_subprotocol(item):
        return True
    return token is not None and token in item.encode("ascii", "replace")
