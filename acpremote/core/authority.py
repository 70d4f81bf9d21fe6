"""Who a request is addressed to and which web page it comes from: the `Host` and `Origin` headers.

Owns their grammar and the two questions asked of them. A browser lets any page open a WebSocket to any
address, loopback included, and a name of the attacker's can be made to resolve to a loopback address
(DNS rebinding). `Origin` answers the first, `Host` the second; neither proves anything about native
programs, which may send what they like. Must never resolve a name. Read `access.py` next.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

import msgspec

__all__ = [
    "Authority",
    "BoundTo",
    "is_loopback_name",
    "normalize_host",
    "normalize_origin",
    "parse_authority",
    "parse_origin",
]

_DEFAULT_PORTS = {"http": 80, "https": 443}

# RFC 3986 `host [":" port]` without user information, narrowed to the characters that names and addresses
# use: what is left out (`@`, `/`, `?`, `%2e`, spaces, control characters) has no honest use in these two
# headers.
_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]|[0-9A-Za-z._~-]+)(?::(?P<port>[0-9]{0,5}))?"
)
_ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>.+)")


class Authority(msgspec.Struct, frozen=True):
    """A normalised host with its port, or with None for the default port of whatever scheme applies."""

    host: str
    port: int | None

    def port_for(self, scheme: str) -> int | None:
        """The port, with the default one of `scheme` filled in."""
        return self.port if self.port is not None else _DEFAULT_PORTS.get(scheme)


def normalize_host(host: str) -> str:
    """Spells a name or an address in the one way that comparisons use.

    Lower case, no brackets, no zone, no final dot; an IPv4 address inside an IPv6 one is the IPv4 address.
    """
    bare = host.strip("[]").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return bare
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def parse_authority(text: str) -> Authority | None:
    """Parses `host` or `host:port`; None when it is neither."""
    match = _AUTHORITY.fullmatch(text.strip(" \t"))
    if match is None:
        return None
    host, port = normalize_host(match["host"]), match["port"]
    if not host or (port and int(port) > 65_535):
        return None
    return Authority(host, int(port) if port else None)


def parse_origin(text: str) -> tuple[str, Authority] | None:
    """Parses an origin (RFC 6454 section 6.2) into scheme and authority; None for `null` and junk."""
    match = _ORIGIN.fullmatch(text.strip(" \t"))
    authority = match and parse_authority(match["authority"])
    if match is None or authority is None:
        return None
    return match["scheme"].lower(), authority


def normalize_origin(text: str) -> str | None:
    """Spells an origin in the one way that comparisons use; None when it is no origin."""
    parsed = parse_origin(text)
    if parsed is None:
        return None
    scheme, authority = parsed
    port = authority.port_for(scheme)
    return f"{scheme}://{authority.host}" + ("" if port is None else f":{port}")


def is_loopback_name(host: str) -> bool:
    """Whether a normalised host can only be this machine (`.localhost`: RFC 6761 section 6.3)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


class BoundTo(msgspec.Struct, frozen=True):
    """What a server listens on: the name or address it was given and the addresses that came of it.

    Empty for a Unix socket, which counts as loopback.
    """

    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, *hosts: str) -> BoundTo:
        """Makes one of names and addresses in any spelling."""
        return cls(tuple(dict.fromkeys(normalize_host(host) for host in hosts)))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return all(is_loopback_name(host) for host in self.hosts)

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on every address of the machine."""
        return any(address.is_unspecified for address in map(_address, self.hosts) if address is not None)

    def answers_to(self, host: str, allowed: Collection[str]) -> bool:
        """Whether a request for the normalised `host` is meant for this server.

        `allowed` holds normalised names that the owner listed.
        """
        if host in allowed or host in self.hosts:
            return True
        if is_loopback_name(host):
            return self.is_loopback or self.is_wildcard
        # A literal address in Host cannot come from a rebound name: the browser would have sent the name.
        return self.is_wildcard and _address(host) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
