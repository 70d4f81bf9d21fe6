"""Our client before servers that are not ours, not any more, or broken."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from acpremote.core import control
from acpremote.core.control import Hello, Refused, Welcome
from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed, ConnectError
from acpremote.options import ClientOptions
from acpremote.transport.address import parse_address
from acpremote.transport.dial import Dialer
from acpremote.transport.redial import OFFERED, ClientLink, Remote, open_remote
from acpremote.transport.websocket import WebSocketChannel

from .linking import OPTIONS

pytestmark = pytest.mark.anyio

LINK = "acpremote.link.v1"
NOTE = b'{"jsonrpc":"2.0","method":"u"}'
WELCOME = Welcome(link="l", secret="s", window=1 << 20, max_size=1 << 20, grace=30)
Handler = Callable[[ServerConnection], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FakeServer:
    """Plays `handlers` one after another; then it hangs up. `offers_link` may change between them."""

    def __init__(self, *handlers: Handler) -> None:
        self.handlers = list(handlers)
        self.offers_link = True
        self.echoes: str | None = None
        self.accepted = 0
        self.url = ""

    async def handle(self, connection: ServerConnection) -> None:
        self.accepted += 1
        if self.handlers:
            await self.handlers.pop(0)(connection)

    def choose(self, _: ServerConnection, offered: object) -> Subprotocol:
        return Subprotocol(self.echoes or (LINK if self.offers_link else "acp.v1"))

    def respond(self, _: ServerConnection, __: Request, response: Response) -> None:
        if self.offers_link:
            response.headers["Acpremote-Link"] = "1"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async with serve(
            self.handle, "127.0.0.1", 0, select_subprotocol=self.choose, process_response=self.respond
        ) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp/ws"
            yield

    @asynccontextmanager
    async def client(self, **changes: object) -> AsyncIterator[Remote]:
        options = dataclasses.replace(OPTIONS, **changes)  # type: ignore[arg-type]
        dialer = Dialer(parse_address(self.url), ClientOptions(), options)
        async with open_remote(partial(dialer.dial, OFFERED), options) as remote:
            yield remote


def says(*messages: control.Control | bytes, then: str = "hang up") -> Handler:
    """A server that reads the hello and answers with these messages; bytes are data."""

    async def handle(connection: ServerConnection) -> None:
        hello = await connection.recv(decode=False)
        assert isinstance(control.parse(bytes(hello)), Hello)
        for message in messages:
            if isinstance(message, bytes):
                await connection.send(message.decode())
            else:
                await connection.send(control.encode(message))
        if then == "wait":
            await connection.wait_closed()
        elif then == "hang up":
            connection.transport.abort()

    return handle


async def refused(server: FakeServer, **changes: object) -> ConnectError:
    async with server.listening():
        with pytest.raises(ConnectError) as caught:
            async with server.client(**{"open_timeout": 0.3, "reconnect": False, **changes}):
                raise AssertionError("connected")
    return caught.value


@pytest.mark.parametrize(
    ("handler", "is_final"),
    [
        (says(then="wait"), False),
        (says(then="hang up"), False),
        (says(NOTE, then="wait"), True),
        (says(control.Ack(n=0), then="wait"), True),
        (says(Refused(reason="no such link"), then="wait"), True),
    ],
    ids=["silent", "gone", "data", "ack", "refused"],
)
async def test_a_first_connection_without_welcome_is_none(handler: Handler, is_final: bool) -> None:
    error = await refused(FakeServer(handler))
    assert error.final is is_final


async def test_a_server_that_hangs_up_before_its_welcome_is_tried_again() -> None:
    server = FakeServer(says(), says(WELCOME, then="wait"))
    async with server.listening(), server.client() as remote:
        assert isinstance(remote.channel, ClientLink)
        assert server.accepted == 2


async def test_a_later_servers_further_messages_are_ignored() -> None:
    async def handle(connection: ServerConnection) -> None:
        await connection.send(b'{"type":"motd"}')
        await says(WELCOME, NOTE, then="wait")(connection)

    server = FakeServer(handle)
    async with server.listening(), server.client() as remote:
        assert await remote.channel.receive() == [NOTE]


@pytest.mark.parametrize("echoes", ["acp.v1", LINK])
async def test_a_plain_server_gets_a_plain_link_whatever_subprotocol_it_echoes(echoes: str) -> None:
    async def echo(connection: ServerConnection) -> None:
        await connection.send(bytes(await connection.recv(decode=False)).decode())
        await connection.wait_closed()

    server = FakeServer(echo)
    server.offers_link, server.echoes = False, echoes
    async with server.listening(), server.client() as remote:
        assert isinstance(remote.channel, WebSocketChannel)
        await remote.channel.send([NOTE])
        assert await remote.channel.receive() == [NOTE]
        await remote.channel.aclose(Ending(EndingKind.DONE))


async def ending_after(server: FakeServer, **changes: object) -> Ending:
    async with server.listening(), server.client(**changes) as remote:
        with anyio.fail_after(10), pytest.raises(ChannelClosed) as caught:
            await remote.channel.receive()
        return caught.value.ending


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (says(Refused(reason="no such link")), "does not know this link any more"),
        (says(Welcome(link="l", window=1024, max_size=1024, grace=1, received=9)), "9"),
        (says(NOTE), "broke the rules"),
    ],
    ids=["refused", "absurd", "data"],
)
async def test_a_link_that_cannot_be_resumed_is_gone_for_good(second: Handler, said: str) -> None:
    ending = await ending_after(FakeServer(says(WELCOME), second))
    assert said in ending.reason
    assert "gone for good" in ending.reason
    assert not ending.is_orderly


async def test_a_server_that_speaks_plain_acp_now_has_no_link_to_resume() -> None:
    server = FakeServer(says(WELCOME))

    async def first(connection: ServerConnection) -> None:
        await says(WELCOME, then="")(connection)
        server.offers_link = False
        connection.transport.abort()

    server.handlers = [first]
    assert "does not speak the acpremote link any more" in (await ending_after(server)).reason


async def test_tries_end_with_the_grace() -> None:
    welcome = Welcome(link="l", secret="s", window=1024, max_size=1024, grace=0.2)
    ending = await ending_after(FakeServer(says(welcome)))
    assert ending.kind is EndingKind.LOST
    assert "not back within 0.2 s" in ending.reason


async def test_without_reconnect_a_cut_is_the_end() -> None:
    server = FakeServer(says(WELCOME))
    assert (await ending_after(server, reconnect=False)).kind is EndingKind.LOST
    assert server.accepted == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1002, EndingKind.PROTOCOL),
        (1008, EndingKind.POLICY),
        (1009, EndingKind.TOO_BIG),
        (4001, EndingKind.REPLACED),
    ],
)
async def test_some_codes_end_the_link_at_once(code: int, kind: EndingKind) -> None:
    async def close(connection: ServerConnection) -> None:
        await says(WELCOME, then="")(connection)
        await connection.close(code, "because")

    server = FakeServer(close)
    ending = await ending_after(server)
    assert (ending.kind, ending.reason, server.accepted) == (kind, "because", 1)


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, 3000])
async def test_every_other_close_without_an_end_is_a_cut(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async def close(connection: ServerConnection) -> None:
        await says(WELCOME, then="")(connection)
        await connection.close(code)

    again = Welcome(link="l", window=1 << 20, max_size=1 << 20, grace=30)
    server = FakeServer(close, says(again, NOTE, then="wait"))
    with caplog.at_level(logging.WARNING):
        async with server.listening(), server.client() as remote:
            with anyio.fail_after(10):
                assert await remote.channel.receive() == [NOTE]
    assert "resumed after" in caplog.text


async def test_a_program_that_is_cancelled_in_the_middle_of_a_resume_leaves_nothing_open() -> None:
    server = FakeServer(says(WELCOME), says(then="wait"))
    async with server.listening():
        with anyio.move_on_after(1):
            async with server.client() as remote:
                while server.accepted < 2:
                    await anyio.sleep(0.01)
                await remote.channel.receive()
        assert server.accepted == 2


async def test_closing_tells_the_server_why() -> None:
    heard: list[object] = []

    async def listen(connection: ServerConnection) -> None:
        await says(WELCOME, then="")(connection)
        try:
            while True:
                message = control.parse(bytes(await connection.recv(decode=False)))
                heard.append(message)
                if isinstance(message, control.End):
                    await connection.send(control.encode(control.Ack(n=1)))
        except ConnectionClosed:
            pass

    server = FakeServer(listen)
    async with server.listening(), server.client() as remote:
        await remote.channel.aclose(Ending(EndingKind.CLIENT_LEFT, "the editor was closed"))
        assert remote.judge(Ending(EndingKind.CLIENT_LEFT)).is_orderly
    assert heard == [control.End(kind="client_left", reason="the editor was closed")]
