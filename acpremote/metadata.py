"""What a server says about itself at its mount path, as JSON.

Owns `ServerMetadata`, its spelling and its reading. The first thirteen keys are what stock clients of
this transport read, some of them with all keys required; a key may be added, never taken away. Must
never hold a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from .errors import RemoteProtocolError

__all__ = ["ServerMetadata", "parse_metadata"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """Describes an endpoint to clients and to people.

    `max_size` is the longest message in bytes. `max_queue` is a bound in messages, which stock clients
    want to see; this server bounds bytes. `subprotocols`, `console_path` and `authorized` are our
    additions; the last says whether the one who asks would get a link, which a page cannot learn from a
    refused handshake.
    """

    transport_kind: str = "websocket"
    transport_version: int = 1
    package_version: str
    auth_required: bool
    supported_auth_modes: tuple[str, ...] = ()
    max_size: int
    max_queue: int = 16
    compression: str | None = None
    health_path: str = "/healthz"
    metadata_path: str
    websocket_path: str
    supported_agent_families: tuple[str, ...] = ()
    remote_cwd: str | None = None
    subprotocols: tuple[str, ...] = ()
    console_path: str | None = None
    authorized: bool = True

    def to_json(self) -> bytes:
        """Spells it as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace")


def parse_metadata(body: bytes) -> ServerMetadata:
    """Reads the document of any server of this transport; keys that it does not know are ignored.

    Raises:
        RemoteProtocolError: it is no such document.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("the server's metadata is not JSON") from None
    if not isinstance(document, dict):
        raise RemoteProtocolError("the server's metadata is not a JSON object")
    known = {field.name: document[field.name] for field in fields(ServerMetadata) if field.name in document}
    _check(known)
    for name, value in known.items():
        if isinstance(value, list):
            known[name] = tuple(value)
    return ServerMetadata(**known)


_KINDS: Mapping[str, tuple[type, ...]] = {
    "transport_kind": (str,),
    "transport_version": (int,),
    "package_version": (str,),
    "auth_required": (bool,),
    "supported_auth_modes": (list,),
    "max_size": (int,),
    "max_queue": (int,),
    "compression": (str, type(None)),
    "health_path": (str,),
    "metadata_path": (str,),
    "websocket_path": (str,),
    "supported_agent_families": (list,),
    "remote_cwd": (str, type(None)),
    "subprotocols": (list,),
    "console_path": (str, type(None)),
    "authorized": (bool,),
}
_REQUIRED = ("package_version", "auth_required", "max_size", "metadata_path", "websocket_path")


def _check(known: Mapping[str, object]) -> None:
    for name in _REQUIRED:
        if name not in known:
            raise RemoteProtocolError(f"the server's metadata has no {name}")
    for name, value in known.items():
        strings = not isinstance(value, list) or all(isinstance(item, str) for item in value)
        if not isinstance(value, _KINDS[name]) or not strings:
            raise RemoteProtocolError(f"the server's metadata has an odd {name}")
