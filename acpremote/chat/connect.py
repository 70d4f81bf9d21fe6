"""Opens what a conversation talks to: an endpoint by its address, or a command's process.

Either is a link as everywhere else, with the conversation at its client's end: noise is filtered, open
requests are settled when the agent ends, the process is stopped with its group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from ..client import Endpoint, join
from ..core.relay import Relay
from ..ending import Ending, EndingKind
from ..errors import AcpRemoteError
from ..options import CommandOptions, TransportOptions
from ..pump import Link
from ..transport.channel import Channel, MemoryChannel, memory_channels
from ..transport.guardian import Guardian
from ..transport.process import ProcessChannel, check_command, spawn

__all__ = ["Connection", "open_command", "open_endpoint"]


class Connection:
    """A channel to an agent, and how the link behind it ended."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ending: Ending | None = None
        self.failure: AcpRemoteError | None = None
        self.last_words: Callable[[], list[str]] = list
        """The last lines of a command's standard error."""


@asynccontextmanager
async def open_endpoint(endpoint: Endpoint) -> AsyncIterator[Connection]:
    """Joins the agent behind an endpoint; leaving says goodbye to it.

    A connection that cannot be made shows as a closed channel, with `failure` telling why.
    """
    near, far = memory_channels()
    connection = Connection(near)

    async def run() -> None:
        ending = Ending(EndingKind.LOST, "the link was cancelled")
        try:
            ending = connection.ending = await join(endpoint, far)
        except AcpRemoteError as error:
            connection.failure = error
            ending = connection.ending = Ending(EndingKind.CANNOT_CONNECT, str(error))
        finally:
            with anyio.CancelScope(shield=True):
                await far.aclose(ending)

    async with _running(near, run, endpoint.options.close_timeout):
        yield connection


@asynccontextmanager
async def open_command(command: CommandOptions, options: TransportOptions) -> AsyncIterator[Connection]:
    """Starts a command and talks to it; leaving stops it and all that it started.

    Raises:
        ConfigError: the command does not exist.
        AgentStartError: it could not be started.
    """
    check_command(command)
    guardian = Guardian()
    try:
        process = await spawn(
            command, max_size=options.max_size, stall_timeout=options.stall_timeout, guardian=guardian
        )
        async with _talking_to(process, command) as connection:
            yield connection
    finally:
        guardian.close()


@asynccontextmanager
async def _talking_to(process: ProcessChannel, command: CommandOptions) -> AsyncIterator[Connection]:
    near, far = memory_channels()
    connection = Connection(near)
    connection.last_words = lambda: process.stderr_tail
    link = Link("chat", far, process, Relay(), drain_timeout=0)

    async def run() -> None:
        connection.ending = await link.run()

    # The bound of `ProcessChannel.aclose`, and a second.
    async with _running(near, run, 4 * command.terminate_timeout + 3):
        yield connection


@asynccontextmanager
async def _running(
    near: MemoryChannel, run: Callable[[], Awaitable[None]], patience: float
) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        done = anyio.Event()

        async def run_and_tell() -> None:
            try:
                await run()
            finally:
                done.set()

        tasks.start_soon(run_and_tell)
        try:
            yield
        finally:
            with anyio.move_on_after(patience, shield=True):
                await near.aclose(Ending(EndingKind.CLIENT_LEFT, "the person has left"))
                await done.wait()
            tasks.cancel_scope.cancel()
