"""From a server's options to the rules of its endpoint, and the set-ups that are refused.

Owns the judgement of what is unsafe to start at all. It is a refusal rather than a warning wherever
somebody else could run the agent without having been let in on purpose: a warning is read after the
fact, if at all. Must do no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import ConfigError
from ..options import ServerOptions
from .access import Rules
from .authority import BoundTo, normalize_origin, parse_authority

__all__ = ["bound_to", "make_rules", "wants_peer_check", "warnings"]


def bound_to(options: ServerOptions, *addresses: str) -> BoundTo:
    """What the server is bound to: the host that was asked for and the `addresses` that came of it."""
    if options.unix_path is not None:
        return BoundTo()
    # An empty host is every address to the operating system, so it has to be to us.
    return BoundTo.of(options.host or "::", *addresses)


def make_rules(options: ServerOptions, *, link: bool, console: Callable[[str], bool]) -> Rules:
    """Makes the endpoint's rules.

    Raises:
        ConfigError: the set-up would let in anybody, or a listed host or origin is none.
    """
    place = bound_to(options)
    if options.bearer_token is None and not place.is_loopback and not options.insecure_no_auth:
        raise ConfigError(
            f"listening on {options.host or 'every address'} without a token would let everybody who can"
            " reach it run the agent; set a token (--token-env, --token-file), or say --insecure-no-auth"
        )
    return Rules(
        mount_path=options.mount_path.rstrip("/") or "/",
        token=None if options.bearer_token is None else options.bearer_token.encode("ascii"),
        query_token=options.query_token,
        tls=options.has_tls,
        bound_to=place,
        allowed_hosts=frozenset(map(_host, options.allowed_hosts)),
        allowed_origins=frozenset(map(_origin, options.allowed_origins)),
        console=console,
        link=link,
    )


def wants_peer_check(options: ServerOptions) -> bool:
    """Whether only our own user's processes may connect: without a token on a loopback address.

    A Unix socket needs no check, its file's mode does that.
    """
    unlocked = options.bearer_token is None and not options.insecure_no_auth
    return unlocked and options.unix_path is None and bound_to(options).is_loopback


def warnings(options: ServerOptions, *, can_tell_users: bool) -> Iterator[str]:
    """What the owner should know about a set-up that is allowed."""
    place = bound_to(options)
    if options.insecure_no_auth and options.bearer_token is None and options.unix_path is None:
        whom = "every user of this machine" if place.is_loopback else "everybody who can reach this address"
        yield f"no token is asked for: {whom} can run the agent, as you"
    elif wants_peer_check(options) and not can_tell_users:
        yield (
            "no token is asked for, and this system cannot tell whose a connection is: every user of this"
            " machine can run the agent, as you"
        )
    if options.bearer_token is not None and not place.is_loopback and not options.has_tls:
        yield (
            "the token and everything else travels unencrypted; use --tls-cert and --tls-key,"
            " --tls-self-signed, or a proxy that does TLS"
        )
    if options.query_token:
        yield "tokens are accepted in the query, where proxies and browsers keep them in logs and histories"


def _host(text: str) -> str:
    authority = parse_authority(text)
    if authority is None:
        raise ConfigError(f"{text!r} is no host to allow; allowed: a name or an address, no scheme")
    return authority.host


def _origin(text: str) -> str:
    origin = normalize_origin(text)
    if origin is None:
        raise ConfigError(f"{text!r} is no web origin to allow; allowed: SCHEME://HOST[:PORT], no path")
    return origin
