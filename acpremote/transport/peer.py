"""Which user of this machine sits at the other end of a loopback TCP connection.

A port on a loopback address is open to every user of the machine, unlike a file. Linux tells whose socket the
other end is: `/proc/net/tcp` and `/proc/net/tcp6` have a row for it. Must never guess: what cannot be told is
None, and who asks has to treat that as a stranger.
"""

from __future__ import annotations

import ipaddress
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["can_tell_users", "is_stranger", "peer_uid"]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = b"01"
# The kernel hands out the table in pieces; a row can slip through when its neighbours go away meanwhile.
_READS = 3

SocketAddress = tuple[str, int] | tuple[str, int, int, int]


def can_tell_users(tables: Iterable[Path] = _TABLES) -> bool:
    """Whether this system has the tables that `peer_uid` reads."""
    return sys.platform == "linux" and any(table.exists() for table in tables)


def peer_uid(local: SocketAddress, remote: SocketAddress) -> int | None:
    """Finds the user id of the process that holds the other end of one of our connections.

    Args:
        local: our end, as `getsockname()` of the accepted socket gives it.
        remote: the other end, as `getpeername()` gives it; it must be on this machine.
    """
    wanted = _spell(remote) + b" " + _spell(local)
    for _ in range(_READS):
        for table in _TABLES:
            uid = _find(table, wanted)
            if uid is not None:
                return uid
    return None


def is_stranger(local: SocketAddress, remote: SocketAddress) -> bool:
    """Whether the other end belongs, or may belong, to a user who is neither this process's nor root."""
    return peer_uid(local, remote) not in (0, os.geteuid())


def _find(table: Path, wanted: bytes) -> int | None:
    """Looks for an established row `wanted` (its own address, then its peer's)."""
    try:
        rows = table.read_bytes().splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        # sl, local, remote, state, queues, timer, retransmits, uid, …
        fields = row.split(maxsplit=8)
        # Other states do not count: the kernel shows user 0 for a socket that its process has closed already,
        # so a stranger who sends and closes at once would pass for root.
        if fields[3] == _ESTABLISHED and _widen(fields[1]) + b" " + _widen(fields[2]) == wanted:
            return int(fields[7])
    return None


def _spell(address: SocketAddress) -> bytes:
    """An address and port as the tables write them, always as IPv6: native-endian words in hexadecimal."""
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    packed = ip.packed if ip.version == 6 else _mapped(ip.packed)
    words = struct.unpack("=4I", packed)
    return ("".join(f"{word:08X}" for word in words) + f":{address[1]:04X}").encode("ascii")


def _widen(field: bytes) -> bytes:
    """A table's IPv4 address as the IPv4-mapped IPv6 one, for a client may use either kind of socket."""
    if len(field) > len("7F000001:1F90"):
        return field
    prefix = "".join(f"{word:08X}" for word in struct.unpack("=3I", _mapped(b"")))
    return prefix.encode("ascii") + field


def _mapped(ipv4: bytes) -> bytes:
    return bytes(10) + b"\xff\xff" + ipv4
