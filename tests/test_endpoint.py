"""The HTTP side over real sockets: what strangers send, and what comes back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from acpremote.core.access import Circumstances, Rules
from acpremote.core.authority import BoundTo
from acpremote.core.credentials import token_subprotocol
from acpremote.endpoint import Doorkeeper, DoorSocket, Page
from acpremote.metadata import parse_metadata
from acpremote.options import TransportOptions

pytestmark = pytest.mark.anyio

TOKEN = "t0ken-of-this-test"
RULES = Rules(bound_to=BoundTo.of("127.0.0.1"), console=lambda path: path == "/")
BIG_PAGE = b"<p>" * 500_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def page(path: str) -> Page | None:
    return (
        (200, [("Content-Type", "text/html"), ("Cache-Control", "private")], BIG_PAGE)
        if path == "/"
        else None
    )


@dataclass
class Served:
    port: int
    doorkeeper: Doorkeeper
    links: list[DoorSocket]

    @property
    def waiting(self) -> int:
        return self.doorkeeper.waiting

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/acp"

    async def ask(self, target: str, *headers: str, method: str = "GET", host: str | None = None) -> Answer:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *headers]
        return await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def send(self, request: bytes) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        with anyio.fail_after(10):
            writer.write(request)
            received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return Answer.parse(received)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def parse(cls, received: bytes) -> Answer:
        head, _, body = received.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        return cls(int(first.split()[1]), dict(line.split(": ", 1) for line in rest), body)


@asynccontextmanager
async def served(
    rules: Rules = RULES,
    *,
    now: Circumstances | None = None,
    check_peer: bool = False,
    max_handshakes: int = 256,
    open_timeout: float = 10,
) -> AsyncIterator[Served]:
    doorkeeper = Doorkeeper(
        rules,
        TransportOptions(),
        lambda: now or Circumstances(),
        check_peer=check_peer,
        page=page,
        max_handshakes=max_handshakes,
    )
    doorkeeper.remote_cwd = "/w"
    links: list[DoorSocket] = []

    async def hold(connection: ServerConnection) -> None:
        assert isinstance(connection, DoorSocket)
        links.append(connection)
        await connection.wait_closed()

    async with serve(
        hold,
        "127.0.0.1",
        0,
        process_request=doorkeeper.process_request,
        process_response=doorkeeper.process_response,
        select_subprotocol=doorkeeper.select_subprotocol,
        create_connection=doorkeeper.socket_class,
        open_timeout=open_timeout,
        ping_interval=None,
        server_header=None,
        compression=None,
    ) as server:
        yield Served(server.sockets[0].getsockname()[1], doorkeeper, links)


async def test_refusals_are_short_plain_and_closed() -> None:
    async with served(replace(RULES, token=b"x")) as server:
        answer = await server.ask("/acp/ws", "Upgrade: websocket", "Connection: Upgrade")
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="acpremote"'
        assert answer.headers["Connection"] == "close"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Length"] == str(len(answer.body))
        assert answer.body == b"a valid bearer token is required\n"
        assert "Server" not in answer.headers
        assert not server.links


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("target", "status"),
    [("/healthz", 200), ("/health", 200), ("/acp", 200), ("/", 200), ("/acp/ws", 426), ("/x", 404)],
)
async def test_head_is_answered_like_get_but_without_body(method: str, target: str, status: int) -> None:
    async with served() as server:
        answer = await server.ask(target, method=method)
        assert answer.status == status
        assert (answer.body == b"") is (method == "HEAD")
        assert int(answer.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
async def test_other_methods_are_405(method: str) -> None:
    async with served() as server:
        answer = await server.ask("/acp", "Content-Length: 0", method=method)
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET, HEAD"


async def test_a_page_may_replace_headers_and_arrives_whole() -> None:
    async with served() as server:
        answer = await server.ask("/")
        assert answer.body == BIG_PAGE
        assert answer.headers["Content-Type"] == "text/html"
        assert answer.headers["Cache-Control"] == "private"


async def test_the_working_directory_is_shown_to_holders_of_the_token_only() -> None:
    async with served(replace(RULES, token=TOKEN.encode())) as server:
        for headers, shown in (
            ([f"Authorization: Bearer {TOKEN}"], "/w"),
            (["Authorization: Bearer no"], None),
            ([], None),
        ):
            answer = await server.ask("/acp", *headers)
            assert answer.headers["Content-Type"] == "application/json"
            metadata = parse_metadata(answer.body)
            assert metadata.remote_cwd == shown
            assert metadata.auth_required
            assert metadata.supported_auth_modes == ("bearer",)


async def test_metadata_is_read_by_a_plain_get() -> None:
    async with served() as server:
        answer = await server.send(f"GET /acp HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        assert json.loads(answer.body)["websocket_path"] == "/acp/ws"
        assert (await server.ask("/acp", "Accept: text/event-stream")).status == 406


async def test_health_tells_nothing_and_needs_nothing() -> None:
    async with served(replace(RULES, token=b"x")) as server:
        answer = await server.ask("/healthz", host="anything.example")
        assert (answer.status, answer.body) == (200, b"ok\n")
        assert (await server.send(b"GET /health HTTP/1.0\r\n\r\n")).status == 200
    async with served(now=Circumstances(draining=True)) as server:
        assert (await server.ask("/healthz")).status == 503


async def test_every_connection_has_an_id_of_its_own() -> None:
    async with served() as server, connect(server.url) as one, connect(server.url) as two:
        assert one.response is not None
        assert two.response is not None
        ids = {one.response.headers["Acp-Connection-Id"], two.response.headers["Acp-Connection-Id"]}
        assert len(ids) == 2
        assert all(len(id_) == 32 for id_ in ids)
        assert "Sec-WebSocket-Protocol" not in one.response.headers
        assert "Acpremote-Link" not in one.response.headers
        assert {link.connection_id for link in server.links} == ids


@pytest.mark.parametrize(
    ("offered", "echoed", "link"),
    [
        (["acp.v1"], "acp.v1", None),
        (["acp.v1", "acpremote.link.v1"], "acpremote.link.v1", "1"),
        (["chat"], "chat", None),
        ([token_subprotocol(TOKEN), "acp.v1"], "acp.v1", None),
    ],
)
async def test_one_subprotocol_is_echoed(offered: list[str], echoed: str, link: str | None) -> None:
    async with served(replace(RULES, token=TOKEN.encode())) as server:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        names = [Subprotocol(name) for name in offered]
        async with connect(server.url, subprotocols=names, additional_headers=headers) as client:
            assert client.subprotocol == echoed
            assert client.response is not None
            assert client.response.headers.get("Acpremote-Link") == link


async def test_a_malformed_handshake_is_refused_after_the_rules() -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade")
    async with served() as server:
        assert (await server.ask("/acp", *upgrade)).status == 400, "no key"
        assert (await server.ask("/acp", "Upgrade: websocket")).status == 426
        origins = ("Origin: http://127.0.0.1", "Origin: http://127.0.0.1")
        assert (await server.ask("/acp", *upgrade, *origins)).status == 400
        assert (await server.ask("/acp", *upgrade, "Sec-WebSocket-Protocol: a b")).status == 400
        assert not server.links


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"SSH-2.0-scanner\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00" * 20_000,
        b"GET /acp HTTP/1.1\r\nbroken\r\n\r\n",
        b"POST /acp HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"",
    ],
)
async def test_a_port_scanner_gets_nothing_and_leaves_no_traceback(
    junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(junk)
        writer.write_eof()
        with anyio.fail_after(10), contextlib.suppress(ConnectionError):
            assert b" 101 " not in await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert not server.links
        await until(lambda: server.waiting == 0)
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


class TestSlowHandshakes:
    async def test_one_that_never_finishes_is_cut(self) -> None:
        async with served(open_timeout=0.2) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /acp HTTP/1.1\r\n")
            with anyio.fail_after(5), contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            await until(lambda: server.waiting == 0)

    async def test_many_do_not_keep_others_out(self) -> None:
        async with served(max_handshakes=5) as server, contextlib.AsyncExitStack() as stack:
            slow = []
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                stack.callback(writer.close)
                slow.append(reader)
            await until(lambda: server.waiting == 5)
            with anyio.fail_after(5):
                for reader in slow[:15]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b"", "the oldest are ended"
                async with connect(server.url):
                    assert server.waiting == 4, "the newcomer took the place of the oldest and is through"

    async def test_open_links_do_not_count(self) -> None:
        async with (
            served(max_handshakes=1) as server,
            connect(server.url),
            connect(server.url),
            connect(server.url),
        ):
            assert server.waiting == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as a second user")
@pytest.mark.parametrize(
    ("target", "expected"), [("/acp", 403), ("/acp/ws", 403), ("/", 403), ("/healthz", 200)]
)
async def test_another_user_of_the_machine_is_refused(target: str, expected: int) -> None:
    async with served(check_peer=True) as server:
        request = (
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        answer = await anyio.to_thread.run_sync(ask_as_nobody, server.port, request.encode())
        assert answer.status == expected
        assert (await server.ask("/acp")).status == 200, "the owner is let in"
        assert not server.links


def ask_as_nobody(port: int, request: bytes) -> Answer:
    """Sends a request from a child process of another user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65_534)
            with socket.socket() as client:
                client.connect(("127.0.0.1", port))
                client.sendall(request)
                while received := client.recv(65_536):
                    os.write(write, received[:4096])
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    return Answer.parse(received)


async def test_200_refusals_at_once_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(replace(RULES, token=TOKEN.encode())) as server:
        before = len(os.listdir("/dev/fd"))
        statuses: list[int] = []

        async def knock() -> None:
            with pytest.raises(InvalidStatus) as refusal:
                async with connect(
                    server.url, additional_headers={"Authorization": "Bearer old"}, open_timeout=30
                ):
                    pass
            statuses.append(refusal.value.response.status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(200):
                tasks.start_soon(knock)
        assert statuses == [401] * 200
        await until(lambda: len(os.listdir("/dev/fd")) == before and server.waiting == 0)
        assert not server.links
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("place", ["header", "subprotocol", "query"])
async def test_the_token_is_in_no_log(place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    encoded = token_subprotocol(TOKEN)
    async with served(replace(RULES, token=TOKEN.encode(), query_token=True)) as server:
        for secret in (TOKEN, "wrong"):
            target = f"/acp?token={secret}" if place == "query" else "/acp"
            headers = {
                "header": [f"Authorization: Bearer {secret}"],
                "subprotocol": [f"Sec-WebSocket-Protocol: acp.v1, {encoded}{'' if secret == TOKEN else 'x'}"],
            }.get(place, [])
            key = base64.b64encode(bytes(16)).decode()
            handshake = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            lines = [f"GET {target} HTTP/1.1", f"Host: localhost:{server.port}", *handshake, *headers]
            writer.write("\r\n".join([*lines, "Sec-WebSocket-Version: 13", "", ""]).encode())
            status = int((await reader.readline()).split()[1])
            assert status == (101 if secret == TOKEN else 401)
            writer.close()
            await writer.wait_closed()
    # asyncio's own names are about the loop; what can leak is what this package and websockets say.
    text = caplog.text
    assert "refused" in text
    assert TOKEN not in text
    assert encoded not in text
    assert "wrong" not in text


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.01)
