"""The one GET of a client: what a server may answer, and what of it is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acpremote.errors import ConnectError, ConnectRefused
from acpremote.options import ClientOptions, TransportOptions
from acpremote.tls import self_signed, server_context
from acpremote.transport.address import Address, parse_address
from acpremote.transport.dial import Dialer
from acpremote.transport.fetch import fetch

pytestmark = pytest.mark.anyio

BODY = b'{"remote_cwd": "/srv"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = OK + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Answering:
    """A server that answers every request with the same bytes and remembers the requests."""

    def __init__(self, *pieces: bytes, hangs: bool = False) -> None:
        self.pieces = pieces
        self.hangs = hangs
        self.requests: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            for piece in self.pieces:
                writer.write(piece)
                await writer.drain()
            if self.hangs:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort() if self.hangs else writer.close()


@asynccontextmanager
async def answering(answer: Answering, tls: ssl.SSLContext | None = None) -> AsyncIterator[Address]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield parse_address(f"{'wss' if tls else 'ws'}://127.0.0.1:{port}/acp/ws?x=1")


async def get(answer: Answering, *, timeout: float = 5) -> bytes:
    async with answering(answer) as address:
        return await fetch(address, "/acp", [("X-Mine", "1")], None, timeout=timeout)


@pytest.mark.parametrize(
    "pieces",
    [
        (WHOLE,),
        tuple(WHOLE[at : at + 1] for at in range(len(WHOLE))),
        (OK + b"\r\n", BODY),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    ],
    ids=["whole", "bytewise", "to the end", "chunked"],
)
async def test_a_document_is_read_however_it_is_sent(pieces: tuple[bytes, ...]) -> None:
    answer = Answering(*pieces)
    assert await get(answer) == BODY
    (request,) = answer.requests
    assert request.startswith(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-Mine: 1\r\n" in request
    assert b"upgrade" not in request.lower()


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((), "not answered in HTTP"),
        ((b"SSH-2.0-OpenSSH\r\n",), "not answered in HTTP"),
        ((WHOLE[:-1],), "not answered in HTTP"),
        ((b"HTTP/1.1 200 OK\r\n" + b"x" * 10_000,), "not answered in HTTP"),
        ((OK + b"Content-Length: x\r\n\r\n",), "not answered in HTTP"),
        ((OK + b"\r\n", *[b"x" * 65536] * 8), "longer than"),
    ],
)
async def test_what_is_no_such_document_is_an_error(pieces: tuple[bytes, ...], message: str) -> None:
    with pytest.raises(ConnectError, match=message):
        await get(Answering(*pieces))


async def test_a_status_other_than_200_is_a_refusal_and_redirects_are_not_followed() -> None:
    answer = Answering(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(ConnectRefused, match="302") as caught:
        await get(answer)
    assert caught.value.status == 302
    assert len(answer.requests) == 1


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    with anyio.fail_after(5), pytest.raises(ConnectError, match="/acp"):
        await get(Answering(hangs=True), timeout=0.1)


async def test_nobody_there_is_an_error_that_names_the_address() -> None:
    with pytest.raises(ConnectError, match=r"/acp of ws://127\.0\.0\.1:1/acp/ws"):
        await fetch(parse_address("ws://127.0.0.1:1"), "/acp", [], None, timeout=5)


async def test_a_pin_holds_for_the_document_too(tmp_path: Path) -> None:
    made = self_signed(["127.0.0.1"], tmp_path)
    other = self_signed(["127.0.0.1"], tmp_path / "other")
    async with answering(Answering(WHOLE), server_context(made.file)) as address:
        for fingerprint, fits in ((made.fingerprint, True), (other.fingerprint, False)):
            dialer = Dialer(address, ClientOptions(tls_pin=fingerprint, bearer_token="t"), TransportOptions())
            if fits:
                assert await dialer.fetch_metadata() == BODY
            else:
                with pytest.raises(ConnectError):
                    await dialer.fetch_metadata()


async def test_a_unix_socket_is_asked_too(tmp_path: Path) -> None:
    answer = Answering(WHOLE)
    path = str(tmp_path / "s")
    server = await asyncio.start_unix_server(answer, path)
    async with server:
        dialer = Dialer(
            parse_address(f"unix:{path}"), ClientOptions(bearer_token="s3cret"), TransportOptions()
        )
        assert await dialer.fetch_metadata() == BODY
    assert answer.requests[0].startswith(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n")
    assert b"\r\nAuthorization: Bearer s3cret\r\n" in answer.requests[0]
