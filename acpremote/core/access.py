"""Who may do what at the endpoint: a request and the server's rules in, a grant or a refusal out.

The endpoint starts a program that edits files and runs commands, so everything is decided here, from the
request's head alone, before the WebSocket handshake is answered and before anything is spawned. The
order is fixed, so that a stranger learns no more than the first thing that is wrong:

    path 404 · method 405 · Host 400/421 · Origin 400/403 · other user 403 · form 406/426 · token 401 ·
    capacity 503 · subprotocol 400

Health checks stop after the method. The metadata document and the console's files do not need the token:
the first says how to authenticate, the second is a public program. `Host` and `Origin` are explained in
`authority.py`, tokens and subprotocols in `credentials.py`. Must do no I/O: what the operating system
knows (the peer's user, free places) comes in as `Circumstances`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from .authority import BoundTo, normalize_origin, parse_authority, parse_origin
from .credentials import LINK_SUBPROTOCOL, choose_subprotocol, offered_subprotocols, presents_token

__all__ = ["Circumstances", "Grant", "Refusal", "RequestHead", "Route", "Rules", "decide"]

_HEALTH_PATHS = ("/healthz", "/health")
_METHODS = ("GET", "HEAD")
_BEARER_CHALLENGE = ("WWW-Authenticate", 'Bearer realm="acpremote"')
_RETRY_AFTER = ("Retry-After", "5")


class Route(enum.Enum):
    """What a granted request is served with."""

    LINK = "link"
    METADATA = "metadata"
    HEALTH = "health"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of an HTTP request: `target` as sent (path and query), headers in order with repeats."""

    method: str
    target: str = field(repr=False)  # its query may hold a token
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, method: str, target: str, headers: Iterable[tuple[str, str]]) -> RequestHead:
        """Makes one of any iterable of header pairs."""
        return cls(method, target, tuple(headers))

    @property
    def path(self) -> str:
        """The path, without query and without a trailing slash."""
        path = self.target.partition("?")[0]
        if path.startswith("//") or not path.strip("/"):
            return path
        return path.rstrip("/")

    @property
    def query(self) -> str:
        """What follows the first question mark."""
        return self.target.partition("?")[2]

    def all(self, name: str) -> list[str]:
        """Every value of the header `name` (in lower case)."""
        return [value for key, value in self.headers if key.lower() == name]

    def lists(self, name: str, word: str) -> bool:
        """Whether a comma-separated header contains `word`, parameters and case aside."""
        items = ",".join(self.all(name)).split(",")
        return word in {item.partition(";")[0].strip().lower() for item in items}

    @property
    def wants_websocket(self) -> bool:
        """Whether it asks for an upgrade to WebSocket."""
        return self.method == "GET" and self.lists("upgrade", "websocket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the server's owner decided; fixed while it listens.

    `token` is None where none is asked for. `console` says which paths are pages of the console, none
    where it is off. `link` says whether the server speaks `acpremote.link.v1`.
    """

    mount_path: str = "/acp"
    token: bytes | None = field(default=None, repr=False)
    query_token: bool = False
    tls: bool = False
    bound_to: BoundTo = field(default_factory=BoundTo)
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    console: Callable[[str], bool] = lambda path: False
    link: bool = True

    @property
    def websocket_path(self) -> str:
        """The path that serves nothing but WebSocket."""
        return self.mount_path.rstrip("/") + "/ws"


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What holds at the moment of the request.

    `stranger` is true for a connection from another user of this machine where that matters. `full`
    means that no new link can be had; `resumable` that a link without a socket exists, so that the
    request may be its client coming back, which must not be kept out by its own place.
    """

    stranger: bool = False
    draining: bool = False
    full: bool = False
    resumable: bool = False


class Grant(msgspec.Struct, frozen=True):
    """Lets a request in.

    `authorized` says whether it may see what is for holders of the token only. `subprotocol` is the one
    to echo.
    """

    route: Route
    path: str
    authorized: bool = True
    subprotocol: str | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Turns a request away with an HTTP status and a sentence that repeats nothing of the request."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()


def decide(request: RequestHead, rules: Rules, now: Circumstances) -> Grant | Refusal:
    """Decides about one request in the order that the module's head gives."""
    route = _route(request, rules)
    if route is None:
        return Refusal(404, "nothing is served at this path")
    if request.method not in _METHODS:
        return Refusal(405, "only GET and HEAD are served", (("Allow", ", ".join(_METHODS)),))
    if route is Route.HEALTH:
        return Refusal(503, "shutting down") if now.draining else Grant(route, request.path)
    refusal = _check_sender(request, rules, now) or _check_form(request, rules, route)
    if refusal is not None:
        return refusal
    offered = offered_subprotocols(request.all("sec-websocket-protocol"))
    authorized = rules.token is None or presents_token(
        rules.token,
        authorization=request.all("authorization"),
        offered=offered or (),
        query=request.query if rules.query_token else None,
    )
    if route is Route.LINK and not authorized:
        return Refusal(401, "a valid bearer token is required", (_BEARER_CHALLENGE,))
    if now.draining:
        return Refusal(503, "shutting down", (_RETRY_AFTER,))
    if route is not Route.LINK:
        return Grant(route, request.path, authorized)
    return _admit(request, rules, now, offered)


def _route(request: RequestHead, rules: Rules) -> Route | None:
    path = request.path
    if path in _HEALTH_PATHS:
        return Route.HEALTH
    if path == rules.websocket_path:
        return Route.LINK
    if path == rules.mount_path:
        return Route.LINK if request.wants_websocket else Route.METADATA
    return Route.CONSOLE if rules.console(path) else None


def _check_sender(request: RequestHead, rules: Rules, now: Circumstances) -> Refusal | None:
    """Host, Origin and the peer's user: is it meant for us, and from where it may come?"""
    hosts, origins = request.all("host"), request.all("origin")
    host = parse_authority(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        return Refusal(400, "exactly one valid Host header is required")
    if not rules.bound_to.answers_to(host.host, rules.allowed_hosts):
        return Refusal(
            421, "this server does not answer to that host name; its owner can add it with --allow-host"
        )
    if len(origins) > 1:
        return Refusal(400, "more than one Origin header")
    if origins and not _origin_allowed(origins[0], hosts[0], rules):
        return Refusal(
            403, "this web origin is not allowed; the server's owner can add it with --allow-origin"
        )
    if now.stranger:
        return Refusal(403, "without a token, only the user who runs this server may connect")
    return None


def _origin_allowed(origin: str, host: str, rules: Rules) -> bool:
    parsed, own = parse_origin(origin), parse_authority(host)
    if parsed is None or own is None:
        return False
    if normalize_origin(origin) in rules.allowed_origins:
        return True
    scheme, authority = parsed
    # Without TLS of our own, https is what a page has whose proxy does TLS for us.
    schemes = ("https",) if rules.tls else ("http", "https")
    same_place = authority.host == own.host and authority.port_for(scheme) == own.port_for(scheme)
    return scheme in schemes and same_place


def _check_form(request: RequestHead, rules: Rules, route: Route) -> Refusal | None:
    if route is Route.LINK and not request.wants_websocket:
        return Refusal(426, "this path speaks WebSocket only", (("Upgrade", "websocket"),))
    if route is Route.METADATA and request.lists("accept", "text/event-stream"):
        return Refusal(406, "ACP is served over WebSocket here, not over HTTP with server-sent events")
    return None


def _admit(
    request: RequestHead, rules: Rules, now: Circumstances, offered: list[str] | None
) -> Grant | Refusal:
    """Capacity and subprotocol, for a link that may be had otherwise."""
    chosen = choose_subprotocol(offered or (), token=rules.token, link=rules.link)
    if now.full and not (now.resumable and chosen == LINK_SUBPROTOCOL):
        return Refusal(503, "no more connections are accepted (--max-connections)", (_RETRY_AFTER,))
    if offered is None or (offered and chosen is None):
        return Refusal(400, "none of the offered subprotocols can be chosen; offer acp.v1 as well, or none")
    return Grant(Route.LINK, request.path, subprotocol=chosen)
