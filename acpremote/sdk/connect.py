"""`connect_acp` and `connect_remote_agent`: remote agents from an address and options."""

from __future__ import annotations

from ..client import Endpoint, HeaderFields, join
from ..options import ClientOptions, TransportOptions
from .link import Join, ToClient
from .remote import RemoteAgent, RemoteClientConnection

__all__ = ["connect_acp", "connect_remote_agent"]


def connect_acp(
    url: str,
    *,
    bearer_token: str | None = None,
    headers: HeaderFields | None = None,
    options: TransportOptions | None = None,
    client_options: ClientOptions | None = None,
) -> RemoteAgent:
    """Makes an agent of this program out of the one behind the endpoint at `url`.

        proxy_agent = connect_acp(websocket_url, options=TransportOptions(use_unstable_protocol=True))
        await run_agent(proxy_agent)

    Nothing is opened before the first call. The options' policies are those of `acpremote mirror`: without
    `use_unstable_protocol` an `elicitation/create` of the agent is answered 'method not found'.

    Args:
        url: `ws://…`, `wss://…` or `unix:PATH`.
        bearer_token: token to present; with `headers` a short form of `client_options`.
        headers: further headers of the opening handshake.
        options: limits, timeouts and policies.
        client_options: everything about presenting ourselves.

    Raises:
        ConfigError: the address is not one.
    """
    endpoint = Endpoint.of(url, options, client_options, bearer_token=bearer_token, headers=headers)
    return RemoteAgent(_joining(endpoint), window=endpoint.options.window)


def connect_remote_agent(
    client: ToClient,
    url: str,
    *,
    bearer_token: str | None = None,
    headers: HeaderFields | None = None,
    options: TransportOptions | None = None,
    client_options: ClientOptions | None = None,
) -> RemoteClientConnection:
    """Connects `client` to the agent behind the endpoint at `url`.

        async with connect_remote_agent(client, url) as agent:
            await agent.initialize(protocol_version=PROTOCOL_VERSION)

    Args:
        client: a client, or what makes one for a connection, as the SDK's `connect_to_agent` takes it.
        url: see `connect_acp`; so are the options.
        bearer_token: token to present.
        headers: further headers of the opening handshake.
        options: limits, timeouts and policies.
        client_options: everything about presenting ourselves.

    Raises:
        ConfigError: the address is not one.
    """
    endpoint = Endpoint.of(url, options, client_options, bearer_token=bearer_token, headers=headers)
    return RemoteClientConnection(_joining(endpoint), client, window=endpoint.options.window)


def _joining(endpoint: Endpoint) -> Join:
    return lambda channel, on_open: join(endpoint, channel, on_open=on_open)
