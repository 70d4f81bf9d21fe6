"""Every option, its default and its limits, validated once at construction.

`TransportOptions` holds what both ends of a connection share, `ServerOptions` what a server adds,
`CommandOptions` how an agent's process is run. Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, get_args

from .errors import ConfigError, OptionError

__all__ = [
    "ClientOptions",
    "CommandOptions",
    "Compression",
    "HostOwnership",
    "ServerOptions",
    "StderrMode",
    "TransportOptions",
]

HostOwnership = Literal["client_passthrough", "remote"]
StderrMode = Literal["inherit", "discard"]
Compression = Literal["deflate"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def _reject(options: object, name: str, value: object, allowed: str) -> NoReturn:
    raise _wrong(options, name, f"is {value!r}; allowed: {allowed}")


def _wrong(options: object, name: str, problem: str) -> OptionError:
    return OptionError(f"{type(options).__name__}.{name}", problem)


def _check_integer(options: object, name: str, low: int, high: int) -> None:
    value = getattr(options, name)
    if type(value) is not int or not low <= value <= high:
        _reject(options, name, value, f"a whole number from {low} to {high}")


def _check_seconds(options: object, name: str, low: float, high: float = 365 * 86400) -> None:
    value = getattr(options, name)
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:
        _reject(options, name, value, f"a number of seconds from {low} to {high}")


def _check_choice(options: object, name: str, allowed: Sequence[object]) -> None:
    value = getattr(options, name)
    if value not in allowed:
        _reject(options, name, value, ", ".join(map(repr, allowed)))


def _check_text(options: object, *names: str, optional: bool = False) -> None:
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, str) and not (optional and value is None):
            _reject(options, name, value, "a string" + (" or None" if optional else ""))


def _check_texts(options: object, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if isinstance(value, (str, bytes)) or not _all_text(value):
            _reject(options, name, value, "a sequence of strings")


def _all_text(values: object) -> bool:
    return isinstance(values, Sequence) and all(isinstance(each, str) for each in values)


def _check_token(options: object) -> None:
    """A token is visible ASCII: it travels in a header. The message must not show it."""
    token: object = getattr(options, "bearer_token", None)
    if token is None:
        return
    problem = ""
    if not isinstance(token, str):
        problem = f"is a {type(token).__name__}; allowed: a string or None"
    elif not token:
        problem = "is empty; leave it out to use no token"
    elif not all("!" <= character <= "~" for character in token):
        problem = "holds spaces, control characters or non-ASCII; none can be in a token"
    if problem:
        raise _wrong(options, "bearer_token", problem)


def _check_flag(options: object, name: str) -> None:
    if not isinstance(getattr(options, name), bool):
        _reject(options, name, getattr(options, name), "True, False")


# What the opening handshake consists of; a second one of these would make two handshakes in one.
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "host", "transfer-encoding", "upgrade"}
    | {f"sec-websocket-{name}" for name in ("accept", "extensions", "key", "protocol", "version")}
)


def _check_header(name: str, value: str) -> None:
    """Refuses what would break the handshake apart; the message must not show the value."""
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ConfigError(f"{name!r} is no name of a header")
    if name.lower() in _OWN_HEADERS:
        raise ConfigError(f"the header {name} belongs to the handshake and cannot be set")
    if not re.fullmatch(r"[\t -~\x80-\xff]*", value):
        raise ConfigError(f"the value of the header {name} holds line breaks or other control characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """Limits, timeouts and policies of a connection.

    Raises:
        ConfigError: a value is not allowed; the message names the field, the value and what is allowed.
    """

    max_size: int = 64 * MIB
    """Longest frame, in both directions, on the WebSocket and on stdio alike."""
    open_timeout: float = 10
    """Time for the connection and its opening handshake."""
    ping_interval: float = 20
    """Time between pings; 0 turns pings off."""
    ping_timeout: float = 20
    """A peer that shows no life for `ping_interval` + `ping_timeout` is dead."""
    close_timeout: float = 10
    """Time for the closing handshake."""
    stall_timeout: float = 60
    """A peer that takes nothing of what waits for it for so long is given up."""
    window: int = 16 * MIB
    """Unacknowledged bytes allowed on the acpremote link; bytes received and not yet passed on otherwise."""
    grace: float = 3600
    """How long a link outlives its connection; 0 turns resume off."""
    connect_timeout: float = 30
    """Time for all tries of the first connection together."""
    drain_timeout: float = 10
    """Time for open replies after the client's input ended."""
    reconnect: bool = True
    """Whether a connection that fails is tried again."""
    compression: Compression | None = None
    """Per-message compression; None is faster on all but slow networks."""
    host_ownership: HostOwnership = "client_passthrough"
    """Whose files and terminals the agent works on; `"remote"` means its own machine's."""
    use_unstable_protocol: bool = False
    """Whether the receiving routes of the unstable protocol (`elicitation/*`) are registered."""

    def __post_init__(self) -> None:
        _check_integer(self, "max_size", 1 * KIB, 2 * GIB - 1)
        _check_integer(self, "window", 64 * KIB, 1 * GIB)
        for name in ("open_timeout", "close_timeout", "stall_timeout"):
            _check_seconds(self, name, 0.01)
        for name in ("ping_interval", "ping_timeout", "grace", "connect_timeout", "drain_timeout"):
            _check_seconds(self, name, 0)
        _check_choice(self, "compression", (None, *get_args(Compression)))
        _check_choice(self, "host_ownership", get_args(HostOwnership))
        _check_flag(self, "reconnect")
        _check_flag(self, "use_unstable_protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where a server listens, whom it lets in and how many.

    Raises:
        ConfigError: a value is not allowed.
    """

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose a free one."""
    unix_path: str | None = None
    """Path of a Unix socket to listen on instead of host and port; made with mode 0600."""
    mount_path: str = "/acp"
    bearer_token: str | None = field(default=None, repr=False)
    """What clients must present; None asks for nothing."""
    query_token: bool = False
    """Whether the token may also stand in the query, as `?token=`."""
    insecure_no_auth: bool = False
    """Allows to ask for no token where others than our own user can connect."""
    allowed_hosts: Sequence[str] = ()
    """Further names that clients may call the server by (the `Host` header), besides what it listens on."""
    allowed_origins: Sequence[str] = ()
    """Web pages from elsewhere that may connect: `https://app.example`."""
    console: bool = True
    """Whether the web console is served at `/`."""
    tls_certificate: Path | None = None
    """PEM file of the certificate and of those that signed it; holds the key too, where `tls_key` is None."""
    tls_key: Path | None = None
    tls_self_signed: bool = False
    """Makes a certificate of our own and reuses it; clients pin it by its fingerprint."""
    state_dir: Path | None = None
    """Where the self-signed certificate is kept; None is the XDG state directory."""
    max_handshakes: int = 256
    """Sockets in their opening handshake at once; one more ends the oldest of them."""
    max_connections: int = 1000
    """Links at once, detached ones included; further connections get 503."""
    shutdown_timeout: float = 8
    """Time for everything to end after a stop was asked for."""
    record_dir: Path | None = None
    """Directory to record every link to; None records nothing."""
    record_limit: int = 1 * GIB
    """Bytes that all recordings may take together; the oldest are deleted."""
    metrics_address: str | None = None
    """`HOST:PORT`, or `PORT` on the loopback interface, to serve metrics at; None measures nothing."""
    record_redact: Sequence[str] = ()
    """Names of members whose values are left out of recordings, wherever they stand in a frame."""

    def __post_init__(self) -> None:
        _check_text(self, "host", "mount_path")
        _check_text(self, "unix_path", "metrics_address", optional=True)
        _check_texts(self, "allowed_hosts", "allowed_origins", "record_redact")
        _check_integer(self, "port", 0, 65535)
        if not self.mount_path.startswith("/") or set(self.mount_path) & set("?# "):
            _reject(self, "mount_path", self.mount_path, "a path that begins with /")
        _check_token(self)
        _check_integer(self, "max_connections", 1, 1_000_000)
        _check_integer(self, "max_handshakes", 1, 1_000_000)
        _check_integer(self, "record_limit", 1 * MIB, 1024 * GIB)
        _check_seconds(self, "shutdown_timeout", 0.1)
        for name in ("query_token", "insecure_no_auth", "console", "tls_self_signed"):
            _check_flag(self, name)
        if self.tls_key is not None and self.tls_certificate is None:
            raise ConfigError("a TLS key was given without its certificate")
        if self.tls_self_signed and self.tls_certificate is not None:
            raise ConfigError("give either a TLS certificate or ask for a self-signed one")
        if self.has_tls and self.unix_path is not None:
            raise ConfigError("a Unix socket needs no TLS: only our own user can open it")
        if self.query_token and self.bearer_token is None:
            raise ConfigError("a token in the query was allowed, but there is no token")
        if self.record_redact and self.record_dir is None:
            raise ConfigError("redaction was asked for, but nothing is recorded")

    @property
    def has_tls(self) -> bool:
        """Whether the server speaks TLS itself."""
        return self.tls_self_signed or self.tls_certificate is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client presents itself to a server.

    Raises:
        ConfigError: a value is not allowed.
    """

    bearer_token: str | None = field(default=None, repr=False)
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    """Further headers of the opening handshake."""
    insecure: bool = False
    """Allows a token over plain `ws://` to another machine."""
    ca_file: Path | None = None
    """PEM file of the only authorities to trust, instead of the system's."""
    tls_pin: str | None = None
    """SHA-256 fingerprint of the server's certificate; without `ca_file` it is all that is checked."""

    def __post_init__(self) -> None:
        _check_token(self)
        _check_flag(self, "insecure")
        _check_text(self, "tls_pin", optional=True)
        if not _are_pairs(self.headers):
            raise _wrong(self, "headers", "has something else than pairs of a name and a value")
        for name, value in self.headers:
            _check_header(name, value)
            if name.lower() == "authorization" and self.bearer_token is not None:
                raise ConfigError("give either a token or an Authorization header")


def _are_pairs(headers: object) -> bool:
    return isinstance(headers, Sequence) and all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and _all_text(pair) for pair in headers
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """How an agent's process is run.

    Raises:
        ConfigError: the command is empty, or a value is not allowed.
    """

    command: Sequence[str]
    """Program and arguments, passed as they are; no shell."""
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the inherited environment."""
    stderr_mode: StderrMode = "inherit"
    """Whether the agent's standard error is shown in our log; its tail is kept for a failure either way."""
    terminate_timeout: float = 2
    """Time the agent has to leave after its input was closed, and again after SIGTERM."""

    def __post_init__(self) -> None:
        command: object = self.command
        words = not isinstance(command, (str, bytes)) and _all_text(command)
        if not words or not self.command or any("\0" in word for word in self.command):
            _reject(self, "command", command, "a sequence of words, the first one the program")
        self._check_place()
        _check_choice(self, "stderr_mode", get_args(StderrMode))
        _check_seconds(self, "terminate_timeout", 0)

    def _check_place(self) -> None:
        cwd: object = self.cwd
        if cwd is not None and not isinstance(cwd, (str, os.PathLike)):
            _reject(self, "cwd", cwd, "a path or None")
        env: object = self.env
        if not isinstance(env, Mapping) or not _all_text([*env.keys(), *env.values()]):
            raise _wrong(self, "env", "has something else than strings for strings")
        for name, value in env.items():
            if not name or "=" in name or "\0" in name + value:
                _reject(self, "env", name, "names without '=' and NUL")
