"""An agent on another machine as an object of this program; `connect.py` makes them.

A `RemoteAgent` has every method of the SDK's `Agent` interface and connects at the first call. What it is
given and gives back are the SDK's models, so it carries what they can hold: `_meta`, extension methods (the
ones whose name begins with `_`) and errors with their data. Not through them come fields and capabilities
that the installed SDK does not know, its unknown kinds of `session/update` (dropped with a log line),
the difference between an absent and a null value, and a `_meta` key that has the name of a parameter.
`acpremote mirror` carries all of these.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio
from acp import Client
from acp.core import ClientSideConnection
from acp.schema import (
    AcpMcpServer,
    AudioContentBlock,
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    EmbeddedResourceContentBlock,
    ForkSessionResponse,
    HttpMcpServer,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionResponse,
    PromptResponse,
    ResourceContentBlock,
    ResumeSessionResponse,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    SseMcpServer,
    TextContentBlock,
)

from ..errors import AcpRemoteError, LocalProtocolError
from .link import Join, RemoteLink, ToClient

__all__ = ["RemoteAgent", "RemoteClientConnection"]

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 2.0
"""Seconds that the `session/cancel` of a cancelled `prompt()` may wait for room."""

McpServers = list[HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio]
PromptBlocks = list[
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
]
T = TypeVar("T")


class _Turn:
    """A running `prompt()`."""

    def __init__(self) -> None:
        self.is_cancelled = False


class RemoteAgent:
    """An agent behind an endpoint; connects at the first call.

    Every call raises `ConnectError` when the endpoint cannot be reached (the next call tries again),
    `ChannelClosed` when the link is or gets lost, and the SDK's `RequestError` when the agent answers with
    an error. A lost link stays lost until another client is connected: its sessions are gone, and nothing
    pretends that they are not.

    A call returns after every update of its session that was read before its answer has been handled; the
    updates of one session are handled one after the other. Cancelling a `prompt()` sends `session/cancel`
    once, unless the turn was cancelled already.
    """

    def __init__(self, join: Join, *, window: int) -> None:
        self._join = join
        self._window = window
        self._client: ToClient = cast("Client", _NoClient())
        self._link: RemoteLink | None = None
        self._is_closed = False
        self._turns: dict[str, list[_Turn]] = {}

    # -- connecting -------------------------------------------------------------------------------------

    def on_connect(self, conn: Client) -> None:
        """Takes the client that the agent's requests and updates go to, as the SDK's `run_agent` does it.

        Another client gets a connection of its own: an open link of the one before is closed. It also
        opens again what `close` has closed, and what was lost.
        """
        self._client = conn
        self._is_closed = False
        link, self._link = self._link, None
        if link is not None:
            link.retire()

    async def close(self) -> None:
        """Says goodbye to the agent and ends the link; calls in progress raise. Idempotent."""
        self._is_closed = True
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    def _connected(self) -> RemoteLink:
        if self._is_closed:
            raise LocalProtocolError("the remote agent was closed")
        link = self._link
        if link is None or link.failed_to_open or link.loop is not asyncio.get_running_loop():
            link = self._link = RemoteLink(self._join, self._client, window=self._window)
        return link

    async def _call(self, call: Callable[[ClientSideConnection], Awaitable[T]]) -> T:
        link = self._connected()
        return await link.call(call(link.connection))

    # -- the SDK's interface ----------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.initialize(
                protocol_version=protocol_version,
                client_capabilities=client_capabilities,
                client_info=client_info,
                **kwargs,
            )
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> AuthenticateResponse:
        """See `acp.Agent`."""
        return await self._call(lambda agent: agent.authenticate(method_id=method_id, **kwargs))

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: McpServers | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.new_session(
                cwd=cwd, additional_directories=additional_directories, mcp_servers=mcp_servers, **kwargs
            )
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: McpServers | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse:
        """See `acp.Agent`. Returns when the replayed updates have been handled."""
        return await self._call(
            lambda agent: agent.load_session(
                cwd=cwd,
                session_id=session_id,
                mcp_servers=mcp_servers,
                additional_directories=additional_directories,
                **kwargs,
            )
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        """See `acp.Agent`."""
        return await self._call(lambda agent: agent.list_sessions(cwd=cwd, cursor=cursor, **kwargs))

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> SetSessionModeResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.set_session_mode(session_id=session_id, mode_id=mode_id, **kwargs)
        )

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> SetSessionConfigOptionResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.set_config_option(
                config_id=config_id, session_id=session_id, value=value, **kwargs
            )
        )

    async def prompt(self, session_id: str, prompt: PromptBlocks, **kwargs: Any) -> PromptResponse:
        """See `acp.Agent`. Cancelled, it cancels the turn on the agent's side too."""
        with self._turn(session_id) as turn:
            try:
                return await self._call(
                    lambda agent: agent.prompt(session_id=session_id, prompt=prompt, **kwargs)
                )
            except asyncio.CancelledError:
                if not turn.is_cancelled:
                    with anyio.move_on_after(CANCEL_TIMEOUT, shield=True):
                        await self._cancel_quietly(session_id)
                raise

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """See `acp.Agent`."""
        for turn in self._turns.get(session_id, ()):
            turn.is_cancelled = True
        await self._call(lambda agent: agent.cancel(session_id=session_id, **kwargs))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: McpServers | None = None,
        **kwargs: Any,
    ) -> ForkSessionResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.fork_session(
                session_id=session_id,
                cwd=cwd,
                additional_directories=additional_directories,
                mcp_servers=mcp_servers,
                **kwargs,
            )
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: McpServers | None = None,
        **kwargs: Any,
    ) -> ResumeSessionResponse:
        """See `acp.Agent`."""
        return await self._call(
            lambda agent: agent.resume_session(
                session_id=session_id,
                cwd=cwd,
                additional_directories=additional_directories,
                mcp_servers=mcp_servers,
                **kwargs,
            )
        )

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse | None:
        """See `acp.Agent`."""
        return await self._call(lambda agent: agent.close_session(session_id=session_id, **kwargs))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Calls the extension method `_{method}`."""
        return await self._call(lambda agent: agent.ext_method(method, params))

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Sends the extension notification `_{method}`."""
        await self._call(lambda agent: agent.ext_notification(method, params))

    # -- turns ------------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self, session_id: str) -> Generator[_Turn]:
        turn = _Turn()
        turns = self._turns.setdefault(session_id, [])
        turns.append(turn)
        try:
            yield turn
        finally:
            turns.remove(turn)
            if not turns and self._turns.get(session_id) is turns:
                del self._turns[session_id]

    async def _cancel_quietly(self, session_id: str) -> None:
        try:
            await self.cancel(session_id)
        except AcpRemoteError as error:
            logger.debug("session/cancel was not sent: %s", error)


class RemoteClientConnection(RemoteAgent):
    """A `RemoteAgent` with the client that was given to it, for programs that are the client.

    It can be awaited, which connects and returns it, and used as an asynchronous context manager, which
    also closes it; the first call connects as well.
    """

    def __init__(self, join: Join, client: ToClient, *, window: int) -> None:
        super().__init__(join, window=window)
        self._client = client

    def on_connect(self, conn: Client) -> None:
        """Does nothing: the client is given."""

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

    async def _open(self) -> Self:
        await self._connected().wait_open()
        return self


class _NoClient:
    """Stands for the client of a program that gave none: requests are answered 'method not found'."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Drops the update."""
