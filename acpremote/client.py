"""The mirror: shows a remote agent as a local one on standard input and output.

It is the same link as a server's, with our stdio as the client's channel and a WebSocket as the agent's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import anyio

from .core.relay import Relay
from .core.side import Side
from .ending import Ending, EndingKind
from .options import ClientOptions, TransportOptions
from .pump import Link
from .transport.channel import Channel
from .transport.dial import Address, dial_with_retry, parse_address
from .transport.stdio import open_stdio
from .transport.websocket import WebSocketChannel

__all__ = ["run_mirror"]

logger = logging.getLogger(__name__)


async def run_mirror(
    url: str,
    *,
    bearer_token: str | None = None,
    headers: Sequence[tuple[str, str]] = (),
    options: TransportOptions | None = None,
    client_options: ClientOptions | None = None,
) -> Ending:
    """Joins our standard input and output to the endpoint at `url` until either side is done.

    Args:
        url: `ws://…`, `wss://…` or `unix:PATH`.
        bearer_token: token to present; with `headers` a short form of `client_options`.
        headers: further headers of the opening handshake.
        options: limits, timeouts and policies.
        client_options: everything about presenting ourselves.

    Returns:
        Why the link ended; its `exit_status` is the mirror's.

    Raises:
        ConfigError: the address is not one.
        ConnectError: the endpoint cannot be reached or refuses us.
    """
    options = options or TransportOptions()
    client_options = client_options or ClientOptions(bearer_token=bearer_token, headers=headers)
    address = parse_address(url)
    stdio = await open_stdio(options.max_size, options.stall_timeout)
    try:
        return await _mirror(address, client_options, options, stdio)
    finally:
        with anyio.CancelScope(shield=True):
            await stdio.aclose(Ending(EndingKind.DONE))


async def _mirror(
    address: Address, client_options: ClientOptions, options: TransportOptions, stdio: Channel
) -> Ending:
    while True:
        socket = await dial_with_retry(address, client_options, options, timeout=options.connect_timeout)
        link = Link(
            "mirror",
            _Borrowed(stdio),
            WebSocketChannel(socket),
            Relay(drains=True),
            drain_timeout=options.drain_timeout,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(socket.watch, watch_sleep=True))
            ending = await link.run()
            tasks.cancel_scope.cancel()
        if ending.is_orderly and socket.ending is not None and not socket.ending.is_orderly:
            ending = socket.ending  # the agent failed while we were saying goodbye
        if not options.reconnect or not _may_try_again(ending, link):
            return ending
        logger.warning("%s; connecting again", ending)


def _may_try_again(ending: Ending, link: Link) -> bool:
    """Whether a new agent can take over unnoticed: nothing was said yet, and the loss is no verdict."""
    lost = ending.kind in (EndingKind.LOST, EndingKind.SHUTDOWN)
    return lost and not any(link.relay.frames[side] for side in Side)


class _Borrowed:
    """A channel that is not closed with the link, because the next link uses it again."""

    def __init__(self, channel: Channel) -> None:
        self.receive = channel.receive
        self.send = channel.send
        self.abort = channel.abort

    async def aclose(self, ending: Ending) -> None:
        """Leaves the channel open."""
