"""Opens a client's WebSocket connection: addresses, one try, and tries with growing gaps.

Translates what `websockets` and the operating system raise into `ConnectError` and `ConnectRefused`, and
decides which failures are final.
"""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from ..core.authority import is_loopback_name
from ..core.side import Side
from ..errors import ConfigError, ConnectError, ConnectRefused
from ..options import ClientOptions, TransportOptions
from .websocket import WRITE_HIGH_WATER, ClientSocket

__all__ = ["Address", "back_off", "dial", "dial_with_retry", "parse_address"]

logger = logging.getLogger(__name__)

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
DEFAULT_PATH = "/acp/ws"
FIRST_DELAY, LONGEST_DELAY = 0.25, 10.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is: a WebSocket URL, and the path of a Unix socket if it is reached by one."""

    url: str
    unix_path: str | None = None

    def __str__(self) -> str:
        return self.url if self.unix_path is None else f"unix:{self.unix_path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return self.unix_path is not None or is_loopback_name(urlsplit(self.url).hostname or "")


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
        if not parts.hostname or parts.username is not None or parts.port == 0:
            raise ValueError(text)
    except (KeyError, ValueError):
        raise ConfigError(
            f"{text!r} is no address of an endpoint; allowed: ws://HOST:PORT/acp/ws, wss://…, unix:PATH"
        ) from None
    path = DEFAULT_PATH if parts.path in ("", "/") else parts.path
    return Address(urlunsplit((scheme, parts.netloc, path, parts.query, "")))


async def dial(address: Address, client: ClientOptions, options: TransportOptions) -> ClientSocket:
    """Connects once.

    Raises:
        ConnectRefused: the endpoint answered with an HTTP error.
        ConnectError: it could not be reached; `final` tells whether another try can help.
    """
    headers = list(client.headers)
    if client.bearer_token is not None:
        headers.append(("Authorization", f"Bearer {client.bearer_token}"))
    extra: dict[str, Any] = {"unix": True, "path": address.unix_path} if address.unix_path is not None else {}
    try:
        socket = await connect(
            address.url,
            create_connection=ClientSocket,
            subprotocols=[Subprotocol("acp.v1")],
            additional_headers=headers,
            compression=options.compression,
            open_timeout=options.open_timeout,
            close_timeout=options.close_timeout,
            ping_interval=None,
            max_size=options.max_size,
            write_limit=WRITE_HIGH_WATER,
            proxy=None if address.is_loopback else True,
            **extra,
        )
    except InvalidStatus as error:
        raise _refused(address, error) from error
    except InvalidURI as error:
        raise ConfigError(f"{address} is no address of an endpoint") from error
    except (ssl.SSLError, InvalidHandshake) as error:
        raise ConnectError(f"cannot connect to {address}: {error}", final=True) from error
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ConnectError(f"cannot connect to {address}: {reason}") from error
    assert isinstance(socket, ClientSocket)
    socket.configure(options, Side.AGENT)
    return socket


def _refused(address: Address, error: InvalidStatus) -> ConnectRefused:
    status = error.response.status_code
    body = bytes(error.response.body or b"").decode("utf-8", "replace").strip()
    said = body.splitlines()[0][:200] if body else error.response.reason_phrase
    return ConnectRefused(f"{address} refused the connection: {status} {said}", status)


def back_off() -> Iterator[float]:
    """Growing gaps between tries in seconds, capped, with jitter so that many clients do not come at once."""
    delay = FIRST_DELAY
    while True:
        yield delay * random.uniform(0.75, 1.25)  # noqa: S311 -- no secret
        delay = min(delay * 2, LONGEST_DELAY)


async def dial_with_retry(
    address: Address, client: ClientOptions, options: TransportOptions, *, timeout: float
) -> ClientSocket:
    """Connects, with further tries for up to `timeout` seconds where they can help.

    Raises:
        ConnectError: the last failure.
    """
    deadline = anyio.current_time() + timeout
    for delay in back_off():
        try:
            return await dial(address, client, options)
        except ConnectError as error:
            if error.final or not options.reconnect or anyio.current_time() + delay > deadline:
                raise
            logger.warning("%s; trying again in %.1f s", error, delay)
        await anyio.sleep(delay)
    raise AssertionError("back_off never ends")
