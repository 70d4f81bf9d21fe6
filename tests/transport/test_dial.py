"""Connecting to real sockets: what is final, what is said, and to whom secrets are sent."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from acpremote.ending import Ending, EndingKind, ExitStatus
from acpremote.errors import ConfigError, ConnectError, ConnectRefused
from acpremote.options import ClientOptions, TransportOptions
from acpremote.tls import fingerprint, server_context
from acpremote.transport.address import Address, parse_address
from acpremote.transport.dial import Dialer

from ..authorities import PrivateAuthority

pytestmark = pytest.mark.anyio

TOKEN = "t0ken-of-this-test"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def dialer(url: str, **client: Any) -> Dialer:
    return Dialer(
        parse_address(url), ClientOptions(**client), TransportOptions(open_timeout=5, close_timeout=1)
    )


async def knock(url: str, **client: Any) -> None:
    """Connects and closes."""
    socket = await dialer(url, **client).dial()
    await socket.close()


@dataclass
class Answering:
    """A WebSocket server that answers handshakes by a list, and accepts when the list is empty."""

    port: int = 0
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    set_cookies: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def url(self, scheme: str = "ws", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}/acp/ws"

    def process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if not self.answers:
            return None
        status, headers, body = self.answers.pop(0)
        response = connection.respond(HTTPStatus(status), "")
        response.body = body
        del response.headers["Content-Length"]
        response.headers["Content-Length"] = str(len(body))
        response.headers.update(headers)
        return response

    def process_response(self, connection: ServerConnection, request: Request, response: Response) -> None:
        for value in self.set_cookies:
            response.headers["Set-Cookie"] = value


@asynccontextmanager
async def answering(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Answering]:
    answers = Answering()

    async def wait(connection: ServerConnection) -> None:
        await connection.wait_closed()

    hooks: dict[str, Any] = {
        "process_request": answers.process_request,
        "process_response": answers.process_response,
    }
    async with serve(wait, host, 0, ssl=tls, close_timeout=1, **hooks) as server:
        answers.port = server.sockets[0].getsockname()[1]
        yield answers


@asynccontextmanager
async def saying(first: bytes) -> AsyncIterator[int]:
    """The port of a server that says something and hangs up."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\n")
        writer.write(first)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("ws://h:1/acp/ws", "ws://h:1/acp/ws"),
            ("ws://h", "ws://h/acp/ws"),
            ("http://h:1/x", "ws://h:1/x"),
            ("https://h", "wss://h/acp/ws"),
            ("wss://[::1]:8/acp?a=b#c", "wss://[::1]:8/acp?a=b"),
        ],
    )
    def test_it_is_read(self, text: str, url: str) -> None:
        assert parse_address(text) == Address(url)

    @pytest.mark.parametrize(
        "text", ["", "h:1", "ftp://h", "ws://", "ws://:1", "ws://h:x", "ws://h:0", "unix:", "ws://[::1"]
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="is no address"):
            parse_address(text)

    @pytest.mark.parametrize(
        "text", ["localhost:8080", "127.0.0.1:8080/acp", "h-1.example:1/acp?token=s3cret"]
    )
    def test_a_forgotten_scheme_is_guessed_aloud(self, text: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            parse_address(text)
        assert str(refusal.value).endswith(f"; did you mean ws://{text.partition('?')[0]}?")
        assert "s3cret" not in str(refusal.value)

    def test_credentials_in_it_are_refused_and_not_shown(self) -> None:
        with pytest.raises(ConfigError) as refusal:
            parse_address("ws://me:s3cret@h/acp")
        assert "s3cret" not in str(refusal.value)

    def test_a_query_is_used_and_not_shown(self) -> None:
        address = parse_address("ws://h/acp?token=s3cret")
        assert address.url.endswith("?token=s3cret")
        assert "s3cret" not in f"{address} {address!r}"


class TestSecretsInTheClear:
    @pytest.mark.parametrize("secret", [{"bearer_token": "t"}, {"headers": [("Authorization", "Basic x")]}])
    @pytest.mark.parametrize("host", ["agents.example", "192.168.1.5", "localhost.example"])
    def test_are_refused_beyond_this_machine(self, host: str, secret: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="unencrypted"):
            dialer(f"ws://{host}/acp", **secret)

    @pytest.mark.parametrize(
        "url", ["wss://agents.example", "ws://localhost", "ws://[::1]", "unix:/run/acp.sock"]
    )
    def test_are_allowed_where_nobody_listens(self, url: str) -> None:
        dialer(url, bearer_token="t")

    def test_are_allowed_on_demand_or_without_a_secret(self) -> None:
        dialer("ws://agents.example", bearer_token="t", insecure=True)
        dialer("ws://agents.example")

    @pytest.mark.parametrize("option", [{"tls_pin": "00" * 32}, {"ca_file": Path("x")}])
    def test_certificate_options_need_tls(self, option: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="wss://"):
            dialer("ws://localhost", **option)


class TestHeaders:
    async def test_token_and_further_headers_are_sent(self) -> None:
        async with answering() as server:
            await knock(server.url(), bearer_token=TOKEN, headers=[("X-Team", "a"), ("X-Team", "b")])
            [request] = server.requests
            assert request.headers["Authorization"] == f"Bearer {TOKEN}"
            assert request.headers.get_all("X-Team") == ["a", "b"]
            assert request.headers["User-Agent"] == "acpremote"
            assert request.headers["Sec-WebSocket-Protocol"] == "acp.v1"

    @pytest.mark.parametrize(
        "header",
        [
            ("Host", "x"),
            ("sec-websocket-key", "x"),
            ("Bad Name", "x"),
            ("X", "a\r\nY: b"),
            ("", "x"),
            ("X", "€"),
        ],
    )
    def test_a_header_that_would_break_the_handshake_is_refused(self, header: tuple[str, str]) -> None:
        with pytest.raises(ConfigError):
            ClientOptions(headers=[header])

    def test_two_kinds_of_credentials_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="either"):
            ClientOptions(bearer_token="t", headers=[("authorization", "Basic x")])

    def test_secrets_are_in_no_repr(self) -> None:
        assert TOKEN not in repr(ClientOptions(bearer_token=TOKEN))
        assert TOKEN not in repr(ClientOptions(headers=[("Authorization", TOKEN)]))

    async def test_cookies_are_kept_over_reconnects(self) -> None:
        async with answering() as server:
            server.set_cookies = ["node=a1; Path=/", "x=1; Path=/elsewhere"]
            client = dialer(server.url())
            for _ in range(2):
                await (await client.dial()).close()
            server.set_cookies = []
            server.answers = [(503, {"Set-Cookie": "node=b2; Path=/"}, b"")]
            with pytest.raises(ConnectRefused):
                await client.dial()
            await (await client.dial()).close()
            sent = [request.headers.get("Cookie") for request in server.requests]
            assert sent == [None, "node=a1", "node=a1", "node=b2"]

    async def test_a_cookie_of_the_users_own_is_left_alone(self) -> None:
        async with answering() as server:
            server.set_cookies = ["node=a1; Path=/"]
            client = dialer(server.url(), headers=[("Cookie", "mine=1")])
            for _ in range(2):
                await (await client.dial()).close()
            assert [request.headers["Cookie"] for request in server.requests] == ["mine=1", "mine=1"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "final", "said"),
        [
            (400, True, ""),
            (401, True, "--token-env"),
            (403, True, ""),
            (404, True, "the path"),
            (408, False, ""),
            (429, False, ""),
            (500, False, ""),
            (503, False, ""),
        ],
    )
    async def test_a_status_is_final_or_not(self, status: int, final: bool, said: str) -> None:
        async with answering() as server:
            server.answers = [(status, {}, b"because of this\nand more")]
            with pytest.raises(ConnectRefused) as refusal:
                await knock(server.url())
            assert refusal.value.status == status
            assert refusal.value.final is final
            assert refusal.value.exit_status is (ExitStatus.REFUSED if final else ExitStatus.CANNOT_CONNECT)
            assert f"{status} because of this" in str(refusal.value)
            assert said in str(refusal.value)
            assert "and more" not in str(refusal.value)

    async def test_a_wrong_token_is_named_and_not_shown(self) -> None:
        async with answering() as server:
            server.answers = [(401, {}, b"")]
            with pytest.raises(ConnectRefused, match="not the server's") as refusal:
                await knock(server.url(), bearer_token=TOKEN)
            assert TOKEN not in str(refusal.value)

    async def test_a_strangers_text_cannot_move_the_cursor(self) -> None:
        async with answering() as server:
            server.answers = [(403, {}, b"\x1b]0;owned\x07\x1b[2Jno")]
            with pytest.raises(ConnectRefused) as refusal:
                await knock(server.url())
            assert str(refusal.value).isprintable()

    async def test_it_tries_again_with_growing_gaps_while_that_can_help(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "acpremote")
        async with answering() as server:
            server.answers = [(503, {}, b""), (503, {}, b"")]
            socket = await dialer(server.url()).dial_with_retry(timeout=30)
            await socket.close()
            assert len(server.requests) == 3
            gaps = [float(str(record.args[1])) for record in caplog.records if isinstance(record.args, tuple)]
            assert len(gaps) == 2
            assert gaps[0] < gaps[1]

    async def test_401_is_tried_once(self) -> None:
        async with answering() as server:
            server.answers = [(401, {}, b"")] * 5
            with pytest.raises(ConnectRefused):
                await dialer(server.url()).dial_with_retry(timeout=30)
            assert len(server.requests) == 1

    async def test_nobody_listening_may_be_tried_again(self) -> None:
        async with answering() as server:
            url = server.url()
        with pytest.raises(ConnectError) as refusal:
            await knock(url)
        assert not refusal.value.final
        assert refusal.value.exit_status is ExitStatus.CANNOT_CONNECT

    @pytest.mark.parametrize(
        ("first", "final", "said"),
        [
            (b"", False, "hung up"),
            (b"HTTP/1.1 101 Switch", False, "hung up"),
            (b"SSH-2.0-OpenSSH\r\n", True, "does not answer in HTTP"),
            (b"\x15\x03\x01\x00\x02\x02\x46", False, "wss://"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True, "200"),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", True, "no WebSocket endpoint"),
        ],
    )
    async def test_what_is_no_websocket_server_is_named(self, first: bytes, final: bool, said: str) -> None:
        async with saying(first) as port:
            with pytest.raises(ConnectError, match=said) as refusal:
                await knock(f"ws://127.0.0.1:{port}/acp")
            assert refusal.value.final is final


class TestRedirects:
    @pytest.mark.parametrize(
        "target",
        ["ws://localhost:{port}/acp/ws", "http://127.0.0.1:{port}/x", "wss://127.0.0.1:{port}/x", "//h/x"],
    )
    @pytest.mark.parametrize("client", [{}, {"bearer_token": TOKEN}])
    async def test_another_origin_is_not_followed(self, target: str, client: dict[str, Any]) -> None:
        async with answering() as server, answering() as other:
            server.answers = [(307, {"Location": target.format(port=other.port)}, b"")]
            with pytest.raises(ConnectRefused, match="307") as refusal:
                await knock(server.url(), **client)
            assert refusal.value.final
            assert other.requests == []

    async def test_the_same_origin_is(self) -> None:
        async with answering() as server:
            server.answers = [(307, {"Location": "/elsewhere"}, b"")]
            await knock(server.url(), bearer_token=TOKEN)
            assert [request.path for request in server.requests] == ["/acp/ws", "/elsewhere"]


class TestProxies:
    @pytest.fixture(autouse=True)
    def no_proxies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in (
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "no_proxy",
            "socks_proxy",
            "ws_proxy",
            "wss_proxy",
        ):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
    async def test_loopback_bypasses_them(self, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SOCKS_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        async with answering(host="::1" if ":" in host else "127.0.0.1") as server:
            await knock(server.url(host=host))
            assert len(server.requests) == 1

    async def test_other_hosts_are_reached_through_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with answering() as server, tunnelling(server.port) as (proxy, targets):
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy}")
            await knock("ws://agents.example/acp/ws")
            assert targets == ["agents.example:80"]
            assert server.requests[0].headers["Host"] == "agents.example"

    async def test_tls_goes_through_them_to_the_endpoint(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        issued = PrivateAuthority(tmp_path).issue("agents.example")
        context = server_context(issued.certificate, issued.key)
        async with answering(context) as server, tunnelling(server.port) as (proxy, _):
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy}")
            await knock("wss://agents.example", bearer_token=TOKEN, ca_file=tmp_path / "ca.pem")
            with pytest.raises(ConnectError, match="pinned"):
                await knock("wss://agents.example", bearer_token=TOKEN, tls_pin="00" * 32)
            assert len(server.requests) == 1

    async def test_hosts_in_no_proxy_are_reached_directly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", ".invalid")
        with pytest.raises(ConnectError) as failure:
            await knock("ws://nowhere.invalid")
        assert "Connection refused" not in str(failure.value), "the name was looked up, not the proxy"

    @pytest.mark.parametrize(
        ("proxy", "said"),
        [("socks5://me:s3cret@127.0.0.1:9", "python-socks"), ("ftp://me:s3cret@127.0.0.1", "ftp")],
    )
    async def test_one_that_cannot_be_used_is_named_and_its_password_is_not(
        self, proxy: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with pytest.raises(ConfigError, match=said) as refusal:
            await knock("ws://agents.example")
        assert "s3cret" not in str(refusal.value)

    @pytest.mark.parametrize(("status", "final"), [(407, True), (502, False)])
    async def test_a_refusal_of_the_proxy_is_named(
        self, status: int, final: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with saying(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            with pytest.raises(ConnectError, match=f"the proxy refused.*{status}") as refusal:
                await knock("ws://agents.example")
            assert refusal.value.final is final


@asynccontextmanager
async def tunnelling(to_port: int) -> AsyncIterator[tuple[int, list[str]]]:
    """The port of an HTTP proxy that takes every CONNECT to one local port, and what it was asked for."""
    targets: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        targets.append(head.split()[1].decode())
        onward, outward = await asyncio.open_connection("127.0.0.1", to_port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(copy, reader, outward)
            tasks.start_soon(copy, onward, writer)

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], targets


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> PrivateAuthority:
        return PrivateAuthority(tmp_path)

    async def test_a_private_authority_works_when_it_is_named(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("localhost")
        async with answering(server_context(issued.certificate, issued.key)) as server:
            await knock(server.url("wss", "localhost"), bearer_token=TOKEN, ca_file=authority.file)
            with pytest.raises(ConnectError, match="--ca-file"):
                await knock(server.url("wss", "localhost"), bearer_token=TOKEN)
            assert len(server.requests) == 1, "nothing was asked of the server that was not believed"

    async def test_a_wrong_name_fails_once_and_clearly(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("agents.example")
        async with answering(server_context(issued.certificate, issued.key)) as server:
            client = dialer(server.url("wss", "localhost"), ca_file=authority.file)
            with pytest.raises(
                ConnectError, match=r"certificate of localhost is not accepted.*--tls-pin"
            ) as failure:
                await client.dial_with_retry(timeout=30)
            assert failure.value.final
            assert failure.value.exit_status is ExitStatus.CANNOT_CONNECT
            assert server.requests == []

    async def test_a_pin_is_checked_before_anything_is_sent(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("agents.example")
        right = hashlib.sha256(issued.der).hexdigest()
        async with answering(server_context(issued.certificate, issued.key)) as server:
            await knock(server.url("wss"), bearer_token=TOKEN, tls_pin=right)
            with pytest.raises(ConnectError, match=fingerprint(issued.der)) as failure:
                await knock(server.url("wss"), bearer_token=TOKEN, tls_pin=right[::-1])
            assert failure.value.final
            assert len(server.requests) == 1

    async def test_an_orderly_end_needs_no_timeout(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("localhost")
        async with answering(server_context(issued.certificate, issued.key)) as server:
            socket = await dialer(server.url("wss", "localhost"), ca_file=authority.file).dial()
            with anyio.fail_after(5):
                await socket.shut(Ending(EndingKind.DONE))

    async def test_a_server_without_tls_is_named(self) -> None:
        async with answering() as server:
            with pytest.raises(ConnectError, match="may not speak TLS"):
                await knock(server.url("wss", "localhost"))
            assert server.requests == []

    async def test_a_server_with_tls_asked_for_none_is_named(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("localhost")
        async with answering(server_context(issued.certificate, issued.key)) as server:
            with pytest.raises(ConnectError, match="needs wss://"):
                await knock(server.url("ws", "localhost"))
