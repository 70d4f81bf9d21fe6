"""Reading from a peer that sends more than is good for us; every reason to pause, and the end of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.protocol import State

from acpremote.core.side import Side
from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed
from acpremote.options import TransportOptions
from acpremote.transport.websocket import Socket

from ..raw import masked, request_head

TEXT, BINARY, CLOSE = 1, 2, 8
LARGEST_READ = 256_000
OPTIONS = TransportOptions(window=64 * 1024, close_timeout=5)

Test = Callable[["Server", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPS = pytest.mark.parametrize(
    "new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)


class Server(Socket, ServerConnection):
    """The server's end; the client's end is in the test's hands, byte by byte."""

    most_backlog = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.most_backlog = max(self.most_backlog, len(self._backlog))


def run(test: Test, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        connected: asyncio.Future[Server] = asyncio.get_running_loop().create_future()

        async def handler(connection: ServerConnection) -> None:
            assert isinstance(connection, Server)
            connection.configure(OPTIONS, Side.CLIENT)
            connected.set_result(connection)
            await connection.wait_closed()

        async with serve(
            handler, "127.0.0.1", 0, create_connection=Server, compression=None, ping_interval=None
        ) as server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_head("/", host=f"127.0.0.1:{port}"))
            await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(30):
                await test(await connected, reader, writer)
            writer.transport.abort()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


async def everything(socket: Server) -> tuple[list[bytes], Ending]:
    received: list[bytes] = []
    try:
        while True:
            received += [message.data for message in await socket.receive_messages()]
    except ChannelClosed as closed:
        return received, closed.ending


@LOOPS
def test_a_flood_behind_a_message_over_the_bound_is_not_read_ahead(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test(socket: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            masked(TEXT, b"x" * 200_000) + masked(BINARY, b"") * 100_000 + masked(CLOSE, b"\x03\xe8")
        )
        received, ending = await everything(socket)
        assert len(received) == 100_001
        assert ending.kind is EndingKind.CLIENT_LEFT
        assert socket.most_backlog <= LARGEST_READ

    run(test, new_loop)


@LOOPS
def test_what_came_before_the_end_is_parsed_although_the_end_came_at_once(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """TLS tells of the end of the stream in the same breath as of the data, paused or not."""

    async def test(socket: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket.data_received(masked(TEXT, b"x" * 1000) * 100 + masked(CLOSE, b"\x03\xe8"))
        socket.eof_received()
        received, ending = await everything(socket)
        assert len(received) == 100
        assert ending.kind is EndingKind.CLIENT_LEFT

    run(test, new_loop)


@LOOPS
def test_a_socket_whose_inbox_is_full_closes_in_order(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test(socket: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(masked(TEXT, b"x" * 1000) * 1000)
        while not socket._reading_paused:  # there is no event for that
            await asyncio.sleep(0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(socket.shut, Ending(EndingKind.SHUTDOWN, "bye"))
            assert (await reader.readexactly(2))[0] == 0x80 | CLOSE
            writer.write(masked(CLOSE, b"\x03\xe9"))
        assert socket.protocol.close_rcvd is not None
        assert socket.protocol.state is State.CLOSED

    run(test, new_loop)
