"""An event loop in a thread of its own for agents whose code may block.

An agent's code runs in some event loop, and while it blocks (a long computation, a synchronous HTTP call)
nothing else in that loop moves. In a loop of its own it stops only itself: pings, handshakes, the health
check and a shutdown go on in the server's loop. The thread is a daemon, because blocked code cannot be
stopped and must not keep the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from ..ending import Ending
from ..transport.channel import Channel

__all__ = ["AgentThread", "ThreadedChannel"]

CLOSE_TIMEOUT = 3.0
"""Seconds that closing waits for the agents' loop."""

T = TypeVar("T")


class AgentThread:
    """Runs coroutines of the server's loop in the agents' loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="acpremote agents", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._stopped = asyncio.Event()
            runner.run(self._stopped.wait())

    def stop(self) -> None:
        """Lets the loop end; returns at once."""
        self._loop.call_soon_threadsafe(lambda: self._stopped.set())

    async def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Awaits what `make` returns in the agents' loop. Cancelling cancels it there."""

        async def run() -> T:
            return await make()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))

    def call_soon(self, function: Callable[[], None]) -> None:
        """Calls `function` in the agents' loop; returns at once."""
        self._loop.call_soon_threadsafe(function)


class ThreadedChannel:
    """A channel of the agents' loop, used from the server's."""

    def __init__(self, thread: AgentThread, channel: Channel) -> None:
        self._thread = thread
        self._channel = channel

    async def receive(self) -> Sequence[bytes]:
        """See `Channel.receive`; but what a cancelled call had received is lost."""
        return await self._thread.call(self._channel.receive)

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`."""
        await self._thread.call(lambda: self._channel.send(frames))

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. Code that blocks is not waited for: it closes when it can."""
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self._thread.call(lambda: self._channel.aclose(ending))

    def abort(self) -> None:
        """See `Channel.abort`."""
        self._thread.call_soon(self._channel.abort)
