"""Opens a client's WebSocket connections: one try, and tries with growing gaps.

Translates what `websockets` and the operating system raise into `ConnectError` and `ConnectRefused`, and
decides which failures are final.
"""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidProxyStatus,
    InvalidStatus,
    InvalidURI,
)
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from ..core.credentials import ACP_SUBPROTOCOL, LINK_SUBPROTOCOL
from ..core.side import Side
from ..errors import AcpRemoteError, ConfigError, ConnectError, ConnectRefused
from ..options import ClientOptions, TransportOptions
from .address import Address, check_safe
from .websocket import WRITE_HIGH_WATER, Socket

if TYPE_CHECKING:  # a mirror starts with its editor: what most connections never need is loaded when they do
    from .cookies import Cookies

__all__ = ["ClientSocket", "Dialer", "back_off", "with_retry"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_DELAY, LONGEST_DELAY = 0.25, 10.0


class ClientSocket(Socket, ClientConnection):
    """A client's end of a connection."""

    @property
    def is_link(self) -> bool:
        """Whether the acpremote link was negotiated: some servers echo any subprotocol."""
        headers = self.response.headers if self.response is not None else {}
        return self.subprotocol == LINK_SUBPROTOCOL and headers.get("Acpremote-Link") == "1"


class Dialer:
    """Opens a client's connections to one endpoint, and remembers its cookies from one to the next.

    Raises:
        ConfigError: secrets would travel in the clear to another machine, or a TLS option is wrong.
    """

    def __init__(self, address: Address, client: ClientOptions, options: TransportOptions) -> None:
        check_safe(address, client)
        self.address = address
        self._client = client
        self._options = options
        self._cookies: Cookies | None = None
        self._tls = _tls_of(client) if address.has_tls else None

    async def dial(self, subprotocols: Sequence[str] = (ACP_SUBPROTOCOL,)) -> ClientSocket:
        """Connects once, offering `subprotocols` in this order.

        Raises:
            ConnectRefused: the endpoint answered with an HTTP error.
            ConnectError: it could not be reached; `final` tells whether another try can help.
            ConfigError: a proxy named in the environment cannot be used.
        """
        try:
            socket = await self._connect(subprotocols)
        except Exception as error:
            translated = _translate(error, self.address, self._client)
            if translated is None:
                raise
            if isinstance(error, InvalidStatus):
                self._keep_cookies(error.response)
            raise translated from error
        if socket.response is not None:
            self._keep_cookies(socket.response)
        assert isinstance(socket, ClientSocket)
        socket.configure(self._options, Side.AGENT)
        return socket

    async def dial_with_retry(
        self, *, timeout: float, subprotocols: Sequence[str] = (ACP_SUBPROTOCOL,)
    ) -> ClientSocket:
        """Connects, with further tries for up to `timeout` seconds where they can help.

        Raises:
            ConnectError: the last failure.
            ConfigError: a proxy named in the environment cannot be used.
        """
        reconnect = self._options.reconnect
        return await with_retry(lambda: self.dial(subprotocols), timeout=timeout, reconnect=reconnect)

    async def fetch_metadata(self) -> bytes:
        """Reads the document in which the endpoint's server describes itself.

        Raises:
            ConnectError: there is none, or it cannot be read.
        """
        from .fetch import fetch

        path = self.address.metadata_path
        return await fetch(self.address, path, self._headers(), self._tls, timeout=self._options.open_timeout)

    async def get(self, path: str) -> Response:
        """Asks the endpoint's server for `path` and returns the answer, whatever its status.

        Raises:
            ConnectError: there is no answer, or it is no HTTP.
        """
        from .fetch import get

        return await get(self.address, path, self._headers(), self._tls, timeout=self._options.open_timeout)

    async def _connect(self, subprotocols: Sequence[str]) -> ClientConnection:
        address, options = self.address, self._options
        extra: dict[str, Any] = {} if self._tls is None else {"ssl": self._tls}
        if address.unix_path is not None:
            extra = {"unix": True, "path": address.unix_path}
        return await _Connect(
            address.url,
            create_connection=ClientSocket,
            subprotocols=[Subprotocol(name) for name in subprotocols],
            additional_headers=self._headers(),
            user_agent_header="acpremote",
            compression=options.compression,
            open_timeout=options.open_timeout,
            close_timeout=options.close_timeout,
            ping_interval=None,
            max_size=options.max_size,
            write_limit=WRITE_HIGH_WATER,
            proxy=None if address.is_loopback else True,
            **extra,
        )

    def _headers(self) -> list[tuple[str, str]]:
        headers = list(self._client.headers)
        if self._client.bearer_token is not None:
            headers.append(("Authorization", f"Bearer {self._client.bearer_token}"))
        cookie = None if self._cookies is None else self._cookies.header(self.address.url)
        if cookie is not None and not any(name.lower() == "cookie" for name, _ in headers):
            headers.append(("Cookie", cookie))
        return headers

    def _keep_cookies(self, response: Response) -> None:
        set_cookie = response.headers.get_all("Set-Cookie")
        if set_cookie and self._cookies is None:
            from .cookies import Cookies

            self._cookies = Cookies()
        if self._cookies is not None:
            self._cookies.store(self.address.url, set_cookie)


def _tls_of(client: ClientOptions) -> ssl.SSLContext:
    from ..tls import client_context, parse_fingerprint

    pin = None if client.tls_pin is None else parse_fingerprint(client.tls_pin)
    return client_context(ca_file=client.ca_file, pin=pin)


class _Connect(connect):
    """Websockets' `connect`, but a redirect to another origin is not followed.

    What we present is meant for the address that the user gave, and the user did not see the other one.
    """

    def process_redirect(self, exc: Exception) -> Exception | str:
        """See `connect.process_redirect`: an address to go on with, or the exception to raise."""
        before = self.ws_uri
        try:
            target = super().process_redirect(exc)
            after = parse_uri(target) if isinstance(target, str) else before
        except InvalidURI:
            return exc
        same = (before.secure, before.host, before.port) == (after.secure, after.host, after.port)
        return target if same else exc


def _translate(error: Exception, address: Address, client: ClientOptions) -> AcpRemoteError | None:
    """Our exception for one of websockets', the operating system's or OpenSSL's; None for a fault of ours."""
    match error:
        case InvalidStatus():
            return _refused(address, client, error.response)
        case ssl.SSLError():
            from ..tls import describe_tls_error

            return ConnectError(f"cannot connect: {describe_tls_error(error, address.host)}", final=True)
        case InvalidProxyStatus():
            status = error.response.status_code
            return ConnectError(f"the proxy refused to connect to {address}: {status}", final=status < 500)
        case InvalidMessage() | ConnectionClosed() | ConnectionError() if not getattr(
            error, "strerror", None
        ):
            hung_up = not isinstance(error, InvalidMessage) or isinstance(error.__cause__, EOFError)
            did = "hung up during the opening handshake" if hung_up else "does not answer in HTTP"
            hint = "it may not speak TLS" if address.has_tls else "an encrypted endpoint needs wss://"
            return ConnectError(f"{address} {did}; {hint}", final=not hung_up)
        case InvalidHandshake():
            return ConnectError(f"{address} is no WebSocket endpoint: {error}", final=True)
        case InvalidProxy() | ImportError():
            # The address of a proxy may hold a password, so it is not shown.
            why = error.msg if isinstance(error, InvalidProxy) else "SOCKS needs the package python-socks"
            return ConfigError(f"the proxy named in the environment cannot be used: {why}")
        case InvalidURI():
            return ConfigError(f"{address} is no address of an endpoint")
        case OSError() | EOFError():
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return ConnectError(f"cannot connect to {address}: {reason}")
    return None


def _refused(address: Address, client: ClientOptions, response: Response) -> ConnectRefused:
    status = response.status_code
    body = bytes(response.body or b"").decode("utf-8", "replace").strip()
    said = body.splitlines()[0][:200] if body else response.reason_phrase
    # A stranger's text goes to a terminal: nothing in it may move the cursor.
    said = "".join(character if character.isprintable() else "?" for character in said)
    return ConnectRefused(
        f"{address} refused the connection: {status} {said}{_advice(status, client, response)}", status
    )


def _advice(status: int, client: ClientOptions, response: Response) -> str:
    """What the user can do about a refusal, as the end of a sentence."""
    if status == 401:
        if client.bearer_token is None:
            return "; give the token with --token-env or --token-file"
        return "; the token that was given is not the server's"
    if status == 404:
        return "; the path is another one, see --mount-path of the server"
    if 300 <= status < 400 and "Location" in response.headers:
        return "; it points to another address, which is not followed"
    return ""


async def with_retry(attempt: Callable[[], Awaitable[T]], *, timeout: float, reconnect: bool = True) -> T:
    """Makes tries until one succeeds, for up to `timeout` seconds; only one without `reconnect`.

    Raises:
        ConnectError: the last failure, or the first that is final.
    """
    deadline = anyio.current_time() + timeout
    for delay in back_off():
        try:
            return await attempt()
        except ConnectError as error:
            if error.final or not reconnect or anyio.current_time() + delay > deadline:
                raise
            logger.warning("%s; trying again in %.1f s", error, delay)
        await anyio.sleep(delay)
    raise AssertionError("back_off never ends")


def back_off() -> Iterator[float]:
    """Growing gaps between tries in seconds, capped, with jitter so that many clients do not come at once."""
    delay = FIRST_DELAY
    while True:
        yield delay * random.uniform(0.75, 1.25)  # noqa: S311 -- no secret
        delay = min(delay * 2, LONGEST_DELAY)
