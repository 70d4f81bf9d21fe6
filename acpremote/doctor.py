"""Examines an endpoint from the outside and says, for each problem, what to do.

Connects as the mirror would, asks what stock clients ask, and judges the answers. It speaks to servers
of any make, so that a thing which is missing is a problem only if something does not work without it. A
handshake may start an agent on servers other than ours; a request is sent to it only when that is asked
for.
"""

from __future__ import annotations

import datetime
import enum
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from time import perf_counter
from typing import Any

import anyio

from .core.credentials import ACP_SUBPROTOCOL, LINK_SUBPROTOCOL
from .ending import Ending, EndingKind
from .errors import (
    AcpRemoteError,
    AgentStartError,
    ChannelClosed,
    ConfigError,
    ConnectError,
    ConnectRefused,
    RemoteProtocolError,
)
from .metadata import ServerMetadata, parse_metadata
from .options import ClientOptions, TransportOptions
from .tls import fingerprint
from .transport.address import Address, check_safe, parse_address
from .transport.dial import ClientSocket, Dialer
from .transport.websocket import WebSocketChannel

__all__ = ["Finding", "Verdict", "examine"]

_PING_INTERVAL, _PONG_TIMEOUT = 0.05, 3.0
_DAYS_LEFT = 14
_STOCK_LIMIT = 1024 * 1024


class Verdict(enum.Enum):
    """How good a finding is."""

    GOOD = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination: what was looked at, what was found, and what to do about it."""

    subject: str
    found: str
    verdict: Verdict = Verdict.GOOD
    advice: str = ""


@dataclass(slots=True)
class _Case:
    """The endpoint under examination, and what earlier steps learned about it."""

    address: Address
    client: ClientOptions
    options: TransportOptions
    dialer: Dialer
    findings: list[Finding]
    failure: AcpRemoteError | None = None
    metadata: ServerMetadata | None = None

    def note(self, subject: str, found: str, advice: str = "", verdict: Verdict | None = None) -> None:
        """Adds a finding; one with advice is at least a note."""
        self.findings.append(
            Finding(subject, found, verdict or (Verdict.NOTE if advice else Verdict.GOOD), advice)
        )

    def problem(self, subject: str, found: str, advice: str) -> None:
        """Adds a finding that has to be mended."""
        self.note(subject, found, advice, Verdict.PROBLEM)

    def agent_failed(self, found: str, advice: str) -> None:
        """Adds the finding that the agent does not work."""
        self.failure = AgentStartError(found)
        self.problem("agent", found, advice)


async def examine(
    url: str,
    client_options: ClientOptions | None = None,
    options: TransportOptions | None = None,
    *,
    ask_agent: bool = False,
) -> tuple[list[Finding], AcpRemoteError | None]:
    """Examines the endpoint at `url`.

    Args:
        url: as for the mirror.
        client_options: what to present; a token is needed to see everything.
        options: limits and timeouts.
        ask_agent: whether to start the agent and ask it to initialize.

    Returns:
        The findings in order, and why no connection could be had, or that the agent failed, if so.

    Raises:
        ConfigError: the address is not one, or the options are not allowed.
    """
    client, transport = client_options or ClientOptions(), options or TransportOptions()
    address = parse_address(url)
    case = _Case(address, client, transport, Dialer(address, client, transport), [])
    await _examine_socket(case)
    if case.failure is None or isinstance(case.failure, ConnectRefused):
        await _examine_metadata(case)
        await _examine_health(case)
        await _examine_access(case)
    if ask_agent and case.failure is None:
        await _examine_agent(case)
    return case.findings, case.failure


# -- the WebSocket --------------------------------------------------------------------------------------


async def _examine_socket(case: _Case) -> None:
    if not (case.address.has_tls or case.address.is_loopback):
        case.problem(
            "encryption", "none", "use wss://: everybody on the way can read and change what is said"
        )
    started = perf_counter()
    options = replace(case.options, ping_interval=_PING_INTERVAL, ping_timeout=case.options.open_timeout)
    try:
        socket = await Dialer(case.address, case.client, options).dial((ACP_SUBPROTOCOL, LINK_SUBPROTOCOL))
    except ConnectError as error:
        case.failure = error
        case.problem("connection", str(error), _advice_for(error))
        return
    case.note("connection", f"open after {1000 * (perf_counter() - started):.0f} ms")
    try:
        _examine_tls(case, socket)
        _examine_handshake(case, socket)
        await _examine_round_trip(case, socket)
    finally:
        await socket.shut(Ending(EndingKind.DONE))


def _advice_for(error: ConnectError) -> str:
    """What to do where the error's own sentence does not say it."""
    if isinstance(error, ConnectRefused):
        return {
            401: "",
            404: "",
            403: "without a token only the owner of the server may connect, from the same machine",
            421: "the server's owner can add this name with --allow-host",
            426: "something on the way took the upgrade out: set the proxy up for WebSocket",
            502: "the proxy in front of the server does not reach it",
            503: "the server is full or shutting down: try again later",
        }.get(error.status, "ask the server's owner")
    return "" if error.final else "check host and port, and that the server runs and listens on that address"


def _examine_tls(case: _Case, socket: ClientSocket) -> None:
    secured: ssl.SSLObject | None = socket.transport.get_extra_info("ssl_object")
    if secured is None:
        return
    cipher = secured.cipher()
    case.note("encryption", f"{secured.version()}, {cipher[0] if cipher else 'unknown cipher'}")
    der = secured.getpeercert(binary_form=True)
    if der is not None:
        end = _end_of(der)
        left = (end - datetime.datetime.now(datetime.UTC)).days
        found = f"SHA-256 {fingerprint(der)}, until {end:%Y-%m-%d}"
        if left < _DAYS_LEFT:
            case.problem("certificate", found, f"renew it: {max(left, 0)} days are left")
        else:
            case.note("certificate", found)


def _end_of(der: bytes) -> datetime.datetime:
    from cryptography import x509

    return x509.load_der_x509_certificate(der).not_valid_after_utc


def _examine_handshake(case: _Case, socket: ClientSocket) -> None:
    headers = socket.response.headers if socket.response is not None else {}
    case.note("subprotocol", socket.subprotocol or "none chosen of acp.v1 and acpremote.link.v1")
    if socket.subprotocol == LINK_SUBPROTOCOL and headers.get("Acpremote-Link") == "1":
        case.note("resume", "yes: a cut connection loses nothing")
    else:
        case.note(
            "resume", "no: a cut connection ends the link", "run acpremote 0.1 or newer at the other end"
        )
    compressed = headers.get("Sec-WebSocket-Extensions")
    case.note("compression", compressed or "none")


async def _examine_round_trip(case: _Case, socket: ClientSocket) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(socket.watch)
        with anyio.move_on_after(_PONG_TIMEOUT):
            # A socket keeps its latency, but tells nobody when it changes.
            while not socket.latency and socket.ending is None:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    if socket.latency:
        case.note("round trip", f"{1000 * socket.latency:.1f} ms")
    else:
        case.problem(
            "round trip", f"no pong within {_PONG_TIMEOUT:.0f} s", "check what stands between: it drops pings"
        )


async def _examine_agent(case: _Case) -> None:
    """Speaks as a plain client does, so that any server and any agent can answer."""
    try:
        answer = await _ask_agent(case)
    except ConnectError as error:
        case.failure = error
        case.problem("agent", str(error), _advice_for(error))
        return
    except (ChannelClosed, TimeoutError, ValueError) as error:
        found = str(error) or f"no answer within {case.options.connect_timeout:.0f} s"
        case.agent_failed(found, "run its command by hand where the server runs, and see what it says")
        return
    result = answer.get("result")
    if not isinstance(result, dict):
        said = json.dumps(answer.get("error"))[:200]
        case.agent_failed(f"initialize failed: {said}", "see the agent's log")
        return
    info = result.get("agentInfo")
    info = info if isinstance(info, dict) else {}
    name = " ".join(str(info[key]) for key in ("title", "name", "version") if info.get(key)) or "unnamed"
    case.note("agent", f"{name}, ACP version {result.get('protocolVersion')}")


async def _ask_agent(case: _Case) -> dict[str, Any]:
    socket = await case.dialer.dial()
    try:
        with anyio.fail_after(case.options.connect_timeout):
            return await _initialize(WebSocketChannel(socket))
    finally:
        await socket.shut(Ending(EndingKind.DONE))


async def _initialize(channel: WebSocketChannel) -> dict[str, Any]:
    """The answer to `initialize`."""
    client = {"name": "acpremote doctor", "version": version("acpremote")}
    params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    await channel.send([json.dumps(request).encode()])
    while True:
        for frame in await channel.receive():
            message = json.loads(frame)
            if isinstance(message, dict) and message.get("id") == 0 and "method" not in message:
                return message


# -- what the server says over HTTP ---------------------------------------------------------------------


async def _examine_metadata(case: _Case) -> None:
    path = case.address.metadata_path
    try:
        response = await case.dialer.get(path)
        if response.status_code != 200:
            case.note("metadata", f"none at {path} ({response.status_code})")
            return
        case.metadata = metadata = parse_metadata(bytes(response.body or b""))
    except (ConnectError, RemoteProtocolError) as error:
        case.note("metadata", f"none at {path}: {error}")
        return
    case.note(
        "metadata", f"at {path}: package {metadata.package_version}, socket at {metadata.websocket_path}"
    )
    case.findings.extend(_judge(metadata))


def _judge(metadata: ServerMetadata) -> Iterator[Finding]:
    size = f"messages up to {metadata.max_size:,} bytes"
    if metadata.max_size <= _STOCK_LIMIT:
        advice = "longer ones (pictures, large files) end the connection; see the server's --max-message-size"
        yield Finding("limit", size, Verdict.NOTE, advice)
    else:
        yield Finding("limit", size)
    if metadata.supported_agent_families:
        yield Finding("agents", ", ".join(metadata.supported_agent_families))
    if metadata.remote_cwd:
        yield Finding("directory", metadata.remote_cwd)
    if metadata.console_path:
        yield Finding("console", f"at {metadata.console_path}")


async def _examine_health(case: _Case) -> None:
    try:
        response = await case.dialer.get("/healthz")
    except ConnectError as error:
        case.note("health", f"none at /healthz: {error}")
        return
    if response.status_code == 200:
        case.note("health", "ok at /healthz")
    elif response.status_code == 503:
        case.problem(
            "health", "not well at /healthz (503)", "the server is shutting down or its proxy lost it"
        )
    else:
        case.note("health", f"none at /healthz ({response.status_code})")


async def _examine_access(case: _Case) -> None:
    """Whether somebody without our token would get in too."""
    bare = ClientOptions(ca_file=case.client.ca_file, tls_pin=case.client.tls_pin)
    presents = case.client.bearer_token is not None or bool(case.client.headers)
    try:
        check_safe(case.address, bare)
        if presents:
            socket = await Dialer(case.address, bare, case.options).dial()
            await socket.shut(Ending(EndingKind.DONE))
        elif case.failure is not None:
            raise case.failure
    except ConnectRefused as error:
        if error.status == 401:
            case.note(
                "access", "a token is required" + (", and ours is accepted" if case.failure is None else "")
            )
        else:
            case.note("access", f"refused with {error.status}")
    except (ConnectError, ConfigError) as error:
        case.note("access", f"unknown: {error}")
    else:
        _judge_open_door(case)


def _judge_open_door(case: _Case) -> None:
    if case.address.is_loopback:
        case.note("access", "no token is asked for, on this machine")
        return
    advice = "set a token: whoever reaches this address can run the agent"
    case.problem("access", "no token is asked for", advice)
