"""One connection of a remote agent to its endpoint: an SDK connection, a channel in memory, and the link.

    ClientSideConnection ─ OrderedTransport ─ memory channel ═ relay and policies ═ WebSocket

It runs in one task of its own from the first call to the end. What a call raises when there will be no
answer is decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar

import anyio
from acp import Agent, Client, RequestError
from acp.client.router import build_client_router
from acp.core import ClientSideConnection

from ..ending import Ending, EndingKind
from ..errors import AcpRemoteError
from ..transport.channel import Channel, memory_channels
from .errors import LinkClosed, lost
from .transport import OrderedTransport, forget_current_update, is_in_update_handler

__all__ = ["Join", "RemoteLink", "ToClient"]

logger = logging.getLogger(__name__)

Join = Callable[[Channel, Callable[[], None]], Awaitable[Ending]]
"""Joins a client's channel to the endpoint, calls back when that is open, and returns why it ended.

Raises `ConnectError`.
"""

ToClient = Callable[[Agent], Client] | Client
"""A client, or what makes one for a connection: as the SDK's `connect_to_agent` takes it."""

CLOSE_TIMEOUT = 2.0
"""Seconds that the client's running methods have to end after they were cancelled."""

T = TypeVar("T")


class RemoteLink:
    """Runs one connection; made, started and ended by a `RemoteAgent`."""

    def __init__(self, join: Join, to_client: ToClient, *, window: int) -> None:
        self._join = join
        self._near, self._far = memory_channels()
        self._transport = OrderedTransport(self._near, window=window)
        self._failure: AcpRemoteError | None = None
        self._ending: Ending | None = None
        self._opened = asyncio.Event()
        self._leave = anyio.Event()
        self.connection = ClientSideConnection(
            self._remember_client(to_client), self._transport, use_unstable_protocol=True
        )
        # The one bare task of this package's client side: the SDK's surface has no scope that it could live
        # in. Everything else runs in the task group inside it.
        context = copy_context()
        context.run(forget_current_update)
        self.loop = asyncio.get_running_loop()
        self._task = self.loop.create_task(self._run(), name="acpremote link", context=context)

    def _remember_client(self, to_client: ToClient) -> Callable[[Agent], Client]:
        def make(connection: Agent) -> Client:
            client = to_client(connection) if callable(to_client) else to_client
            # Which routes exist is decided by the relay's policy, for the mirror and for this alike.
            self._router = build_client_router(client, use_unstable_protocol=True)
            return client

        return make

    @property
    def failed_to_open(self) -> bool:
        """Whether the endpoint was never reached, so that another try loses nothing."""
        return self._failure is not None

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run_link, tasks.cancel_scope)
                tasks.start_soon(self._wait_leave)
                await self._transport.run(self._notify)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await self.connection.close()

    async def _run_link(self, everything: anyio.CancelScope) -> None:
        try:
            self._ending = await self._join(self._far, self._opened.set)
        except AcpRemoteError as error:
            self._failure = error
        finally:
            ending = self._ending or Ending(EndingKind.LOST, str(self._failure or "the link was cancelled"))
            with anyio.CancelScope(shield=True):
                await self._far.aclose(ending)
            self._opened.set()
        if self._leave.is_set():
            everything.cancel()  # handlers that still run are of no use any more

    async def _wait_leave(self) -> None:
        await self._leave.wait()
        await self._near.aclose(Ending(EndingKind.CLIENT_LEFT, "the client has gone"))

    async def wait_open(self) -> None:
        """Waits until the endpoint is reached.

        Raises:
            ConnectError: it could not be reached, or refused us.
        """
        await self._opened.wait()
        if self._failure is not None:
            raise self._failure

    async def _notify(self, method: str, params: object) -> None:
        await self._router(method, params, True)

    async def call(self, answer: Awaitable[T]) -> T:
        """Waits for the answer to a call.

        Raises:
            ConnectError: the endpoint could not be reached, or refused us.
            ChannelClosed: the link is gone.
            RequestError: the agent answered with an error.
        """
        try:
            return await answer
        except LinkClosed as closed:
            raise (self._failure or closed) from None
        except RequestError as error:
            raise (lost(error) or error) from None
        except ConnectionError:
            raise self._reason() from None

    def _reason(self) -> AcpRemoteError:
        ending = self._ending or Ending(EndingKind.DONE, "the connection was closed by this side")
        return self._failure or LinkClosed(ending)

    def retire(self) -> None:
        """Begins to say goodbye; idempotent."""
        if not self.loop.is_closed():
            self._leave.set()

    async def aclose(self) -> None:
        """Says goodbye and waits for the end; idempotent and bounded by the close timeout.

        Called by an update handler, which is itself a part of what is to end, it does not wait.
        """
        self.retire()
        if self.loop is asyncio.get_running_loop() and not is_in_update_handler():
            await asyncio.wait([self._task])
