"""The client's end: joins a local channel to a remote endpoint.

`run_mirror` joins our standard input and output, and so shows a remote agent as a local one; `sdk` joins an
in-memory channel. Either is the same link as a server's, with a WebSocket as the agent's channel; to our own
server it is the acpremote link, which survives the loss of its sockets (`transport/redial.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

import anyio

from .core.mirror_policy import mirror_policy
from .core.relay import Relay
from .core.side import Side
from .ending import Ending, EndingKind
from .errors import ConnectError, RemoteProtocolError
from .options import ClientOptions, TransportOptions
from .pump import Link
from .transport.address import Address, check_safe, parse_address
from .transport.channel import Channel
from .transport.dial import Dialer, back_off
from .transport.redial import OFFERED, open_remote
from .transport.stdio import open_stdio

__all__ = ["Endpoint", "HeaderFields", "join", "run_mirror"]

HeaderFields: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]

logger = logging.getLogger(__name__)


async def run_mirror(
    url: str,
    *,
    bearer_token: str | None = None,
    headers: HeaderFields | None = None,
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
    endpoint = Endpoint.of(url, options, client_options, bearer_token=bearer_token, headers=headers)
    stdio = await open_stdio(endpoint.options.max_size, endpoint.options.stall_timeout)
    try:
        ending = await join(endpoint, stdio, drains=True)
    finally:
        with anyio.CancelScope(shield=True):
            await stdio.aclose(Ending(EndingKind.DONE))
    if ending.is_orderly and stdio.has_failed:
        return Ending(EndingKind.LOST, "the client closed its input before it had everything")
    return ending


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an endpoint is, and how to talk to it."""

    address: Address
    client: ClientOptions
    options: TransportOptions

    @classmethod
    def of(
        cls,
        url: str,
        options: TransportOptions | None = None,
        client_options: ClientOptions | None = None,
        *,
        bearer_token: str | None = None,
        headers: HeaderFields | None = None,
    ) -> Self:
        """Reads an address and fills in defaults; token and headers are a short form of `client_options`.

        Raises:
            ConfigError: the address is not one, or an option is not allowed.
        """
        fields = [*headers.items()] if isinstance(headers, Mapping) else headers or ()
        client = client_options or ClientOptions(bearer_token=bearer_token, headers=fields)
        address = parse_address(url)
        check_safe(address, client)
        return cls(address, client, options or TransportOptions())


async def join(
    endpoint: Endpoint,
    channel: Channel,
    *,
    drains: bool = False,
    on_open: Callable[[], None] = lambda: None,
) -> Ending:
    """Joins a client's channel to an endpoint until either side is done; leaves the channel open.

    `drains`: the channel can still be written to after its input ended, so open replies are waited for.
    `on_open` is called when the connection is open.

    Raises:
        ConnectError: the endpoint cannot be reached or refuses us.
    """
    options = endpoint.options
    dialer = Dialer(endpoint.address, endpoint.client, options)
    dial = partial(dialer.dial, OFFERED)
    deadline = anyio.current_time() + options.connect_timeout
    for delay in back_off():
        async with open_remote(dial, options) as remote:
            remote_cwd = remote.remote_cwd or await _remote_cwd(dialer, options)
            on_open()
            relay = Relay(policy=mirror_policy(options, remote_cwd), drains=drains)
            near, far = _Borrowed(channel), remote.channel
            link = Link("mirror", near, far, relay, drain_timeout=options.drain_timeout)
            ending = remote.judge(await link.run())
        in_time = anyio.current_time() + delay < deadline
        if not options.reconnect or not in_time or not _may_try_again(ending, link):
            return ending
        logger.warning("%s; connecting again in %.1f s", ending, delay)
        await anyio.sleep(delay)
    raise AssertionError("back_off never ends")


async def _remote_cwd(dialer: Dialer, options: TransportOptions) -> str | None:
    """The server's directory, if an option makes it matter; a plain link does not tell it."""
    if options.host_ownership != "remote":
        return None
    from .metadata import parse_metadata

    try:
        return parse_metadata(await dialer.fetch_metadata()).remote_cwd
    except (ConnectError, RemoteProtocolError) as error:
        logger.warning("%s", error)
        return None


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
