"""A real server, a real client and a bad network between them; the far ends are in the test's hands."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from acpremote.core import control
from acpremote.core.credentials import LINK_SUBPROTOCOL
from acpremote.core.side import Side
from acpremote.ending import Ending
from acpremote.errors import ChannelClosed
from acpremote.options import ClientOptions, ServerOptions, TransportOptions
from acpremote.server import Server, start_server
from acpremote.transport.address import parse_address
from acpremote.transport.channel import Channel, MemoryChannel, memory_channels
from acpremote.transport.dial import ClientSocket, Dialer
from acpremote.transport.links import ServerLink
from acpremote.transport.redial import OFFERED, ClientLink, Remote, open_remote

from .cutting import CuttingProxy, cutting_proxy

OPTIONS = TransportOptions(open_timeout=5, close_timeout=2, ping_interval=0, grace=30)


class Far:
    """The test's hand on the far end of a channel: what was received so far, and sending."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.got: list[bytes] = []
        self.ending: Ending | None = None
        self._changed = anyio.Event()

    async def collect(self) -> None:
        """Receives until the channel is closed."""
        try:
            while True:
                self.got += await self.channel.receive()
                self._notify()
        except ChannelClosed as closed:
            self.ending = closed.ending
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for(self, count: int) -> list[bytes]:
        with anyio.fail_after(20):
            while len(self.got) < count:
                await self._changed.wait()
        return self.got

    async def wait_ended(self) -> Ending:
        with anyio.fail_after(20):
            while self.ending is None:
                await self._changed.wait()
        return self.ending

    async def send(self, *frames: bytes) -> None:
        await self.channel.send(frames)


@dataclass
class World:
    """Everything of one test. `agents` are the far ends of the agents that were started, in order."""

    server: Server
    proxy: CuttingProxy
    options: TransportOptions
    agents: list[MemoryChannel] = field(default_factory=list)

    @asynccontextmanager
    async def client(self, options: TransportOptions | None = None) -> AsyncIterator[Remote]:
        """Connects through the proxy."""
        options = options or self.options
        dialer = Dialer(parse_address(self.proxy.url), ClientOptions(), options)
        async with open_remote(partial(dialer.dial, OFFERED), options) as remote:
            assert isinstance(remote.channel, ClientLink)
            yield remote

    async def agent(self, number: int = 0) -> MemoryChannel:
        """The far end of an agent, when it was started."""
        with anyio.fail_after(10):
            while len(self.agents) <= number:
                await anyio.sleep(0.005)
        return self.agents[number]

    @property
    def links(self) -> list[ServerLink]:
        return list(self.server._registry._links.values())

    async def wait(self, condition: Callable[[], object]) -> None:
        """A bounded poll for what has no event."""
        with anyio.fail_after(10):
            while not condition():
                await anyio.sleep(0.005)


@asynccontextmanager
async def world(
    options: TransportOptions = OPTIONS, server_options: ServerOptions | None = None
) -> AsyncIterator[World]:
    """A server whose agents are in the test's hands, behind a proxy."""
    agents: list[MemoryChannel] = []

    async def source(link_id: str) -> Channel:
        near, far = memory_channels()
        agents.append(far)
        return near

    async with AsyncExitStack() as stack:
        listen = server_options or ServerOptions()
        server = await stack.enter_async_context(
            await start_server(source, dataclasses.replace(listen, port=0), options)
        )
        assert server.port is not None
        proxy = await stack.enter_async_context(cutting_proxy(server.port))
        yield World(server, proxy, options, agents)


class Raw:
    """A hand-made client of the link, for what a well-behaved one never does."""

    def __init__(self, socket: ClientSocket) -> None:
        self.socket = socket
        self.inbox: list[tuple[bool, bytes]] = []

    def say(self, message: control.Control) -> None:
        self.write(False, control.encode(message))

    def write(self, is_text: bool, data: bytes) -> None:
        send = self.socket.protocol.send_text if is_text else self.socket.protocol.send_binary
        send(data)
        self.socket._flush()

    async def hear(self) -> tuple[bool, bytes]:
        with anyio.fail_after(10):
            while not self.inbox:
                self.inbox += await self.socket.receive_messages()
        return self.inbox.pop(0)

    async def hear_control(self) -> control.Control | None:
        is_text, data = await self.hear()
        assert not is_text
        return control.parse(data)

    async def hear_ending(self) -> Ending:
        """Why the server closed; fails if it says something first."""
        try:
            heard = await self.hear()
        except ChannelClosed as closed:
            return closed.ending
        raise AssertionError(heard)

    async def greet(self, hello: control.Hello) -> control.Welcome:
        self.say(hello)
        welcome = await self.hear_control()
        assert isinstance(welcome, control.Welcome)
        return welcome


@asynccontextmanager
async def raw_client(
    url: str, subprotocols: Sequence[str] = ("acp.v1", LINK_SUBPROTOCOL)
) -> AsyncIterator[Raw]:
    async with connect(
        url,
        create_connection=ClientSocket,
        subprotocols=[Subprotocol(name) for name in subprotocols],
        ping_interval=None,
    ) as socket:
        assert isinstance(socket, ClientSocket)
        socket.configure(OPTIONS, Side.AGENT)
        yield Raw(socket)
