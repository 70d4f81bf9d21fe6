"""Reads one small document over HTTP: what a server says about itself.

Websockets' client can only open WebSockets, so this is the one GET of the package, with its parser for the
response. It connects directly: proxies are not used, redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator, Sequence
from typing import Any
from urllib.parse import urlsplit

import anyio
from websockets.datastructures import Headers
from websockets.exceptions import WebSocketException
from websockets.http11 import Request, Response
from websockets.streams import StreamReader

from ..errors import ConnectError, ConnectRefused
from .address import Address

__all__ = ["fetch", "get"]

MAX_SIZE = 256 * 1024
"""Bytes of a response; what describes a server is much shorter."""


async def fetch(
    address: Address,
    path: str,
    headers: Sequence[tuple[str, str]],
    tls: ssl.SSLContext | None,
    *,
    timeout: float,
) -> bytes:
    """Reads the document at `path` of the address's server.

    Raises:
        ConnectRefused: the answer is not 200.
        ConnectError: there is no answer, or it is no HTTP.
    """
    response = await get(address, path, headers, tls, timeout=timeout)
    if response.status_code != 200:
        raise ConnectRefused(f"{path} of {address} was answered {response.status_code}", response.status_code)
    return bytes(response.body or b"")


async def get(
    address: Address,
    path: str,
    headers: Sequence[tuple[str, str]],
    tls: ssl.SSLContext | None,
    *,
    timeout: float,
) -> Response:
    """Asks for `path` of the address's server and returns the answer, whatever its status.

    Raises:
        ConnectError: there is no answer, or it is no HTTP.
    """
    try:
        with anyio.fail_after(timeout):
            reader, writer = await _connect(address, tls)
            try:
                writer.write(_request(address, path, headers))
                data = await _read_all(reader)
            finally:
                writer.transport.abort()
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectError(f"cannot read {path} of {address}: {reason}") from error
    return _parse(data, f"{path} of {address}")


async def _connect(
    address: Address, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.unix_path is not None:
        return await asyncio.open_unix_connection(address.unix_path)
    port = urlsplit(address.url).port or (443 if address.has_tls else 80)
    return await asyncio.open_connection(address.host, port, ssl=tls)


def _request(address: Address, path: str, headers: Sequence[tuple[str, str]]) -> bytes:
    fields = Headers(
        [
            ("Host", urlsplit(address.url).netloc),
            ("Accept", "application/json"),
            ("Connection", "close"),
            *headers,
        ]
    )
    return Request(path, fields).serialize()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    data = bytearray()
    while chunk := await reader.read(65536):
        data += chunk
        if len(data) > MAX_SIZE:
            raise ValueError(f"the answer is longer than {MAX_SIZE} bytes")
    return bytes(data)


def _parse(data: bytes, what: str) -> Response:
    stream = StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    parsing: Generator[Any, None, Response] = Response.parse(
        stream.read_line, stream.read_exact, stream.read_to_eof
    )
    try:
        next(parsing)
    except StopIteration as parsed:
        response: Response = parsed.value
        return response
    except (EOFError, ValueError, OverflowError, WebSocketException) as error:
        raise ConnectError(f"{what} was not answered in HTTP: {error}") from error
    raise AssertionError("everything was fed, so nothing is waited for")
