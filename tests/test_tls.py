"""TLS between real sockets: who is believed, who is not, and that nothing is sent before that is known."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import ssl
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from acpremote.errors import ConfigError
from acpremote.tls import (
    PinMismatch,
    client_context,
    default_state_dir,
    describe_tls_error,
    fingerprint,
    parse_fingerprint,
    self_signed,
    server_context,
)

from .authorities import PrivateAuthority

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS: list[NewLoop] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture
def authority(tmp_path: Path) -> PrivateAuthority:
    return PrivateAuthority(tmp_path)


@dataclass
class Outcome:
    """What a server received from a client that says `secret`, and why the client did not say it."""

    received: bytes
    error: ssl.SSLError | None


def exchange(
    server: ssl.SSLContext | None,
    client: ssl.SSLContext,
    name: str = "localhost",
    new_loop: NewLoop = LOOPS[0],
) -> Outcome:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        listener.settimeout(10)
        received = thread.submit(receive_once, listener, server)
        error = None
        with asyncio.Runner(loop_factory=new_loop) as runner:
            try:
                runner.run(say_secret(listener.getsockname()[1], client, name))
            except ssl.SSLError as failure:
                error = failure
        return Outcome(received.result(10), error)


def receive_once(listener: socket.socket, context: ssl.SSLContext | None) -> bytes:
    accepted, _ = listener.accept()
    with accepted:
        if context is None:
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return b""
        try:
            with context.wrap_socket(accepted, server_side=True) as secured:
                return b"".join(iter(lambda: secured.recv(100), b""))
        except OSError:
            return b""


async def say_secret(port: int, context: ssl.SSLContext, name: str) -> None:
    async with asyncio.timeout(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        writer.write(b"secret")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("new_loop", LOOPS)
class TestPin:
    def test_the_pinned_certificate_is_accepted_whoever_signed_it(
        self, tmp_path: Path, new_loop: NewLoop
    ) -> None:
        made = self_signed([], tmp_path)
        context = client_context(pin=parse_fingerprint(made.fingerprint))
        outcome = exchange(server_context(made.file), context, "any.name", new_loop)
        assert outcome == Outcome(b"secret", None)

    def test_another_certificate_is_refused_before_anything_is_said(
        self, tmp_path: Path, new_loop: NewLoop
    ) -> None:
        made = self_signed([], tmp_path)
        outcome = exchange(server_context(made.file), client_context(pin=bytes(32)), new_loop=new_loop)
        assert outcome.received == b""
        assert isinstance(outcome.error, PinMismatch)
        assert made.fingerprint in describe_tls_error(outcome.error, "localhost")

    def test_with_an_authority_both_must_hold(
        self, tmp_path: Path, authority: PrivateAuthority, new_loop: NewLoop
    ) -> None:
        issued = authority.issue("localhost")
        pin = hashlib.sha256(issued.der).digest()
        server = server_context(issued.certificate, issued.key)
        both = client_context(ca_file=authority.file, pin=pin)
        assert exchange(server, both, new_loop=new_loop) == Outcome(b"secret", None)
        wrong_name = exchange(server, both, "elsewhere", new_loop)
        assert isinstance(wrong_name.error, ssl.SSLCertVerificationError)
        wrong_pin = exchange(server, client_context(ca_file=authority.file, pin=bytes(32)), new_loop=new_loop)
        assert isinstance(wrong_pin.error, PinMismatch)
        assert wrong_name.received == wrong_pin.received == b""


class TestAuthority:
    @pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
    def test_a_private_authority_is_believed_when_it_is_named(
        self, authority: PrivateAuthority, name: str
    ) -> None:
        issued = authority.issue(name)
        server = server_context(issued.certificate, issued.key)
        assert exchange(server, client_context(ca_file=authority.file), name) == Outcome(b"secret", None)

    def test_it_is_not_believed_otherwise_and_the_advice_names_the_options(
        self, authority: PrivateAuthority
    ) -> None:
        issued = authority.issue("localhost")
        outcome = exchange(server_context(issued.certificate, issued.key), client_context())
        assert outcome.received == b""
        assert outcome.error is not None
        sentence = describe_tls_error(outcome.error, "localhost")
        assert "--ca-file" in sentence
        assert "--tls-pin" in sentence

    def test_a_wrong_name_is_refused_and_named(self, authority: PrivateAuthority) -> None:
        issued = authority.issue("right.example")
        outcome = exchange(
            server_context(issued.certificate, issued.key),
            client_context(ca_file=authority.file),
            "wrong.example",
        )
        assert outcome.received == b""
        assert outcome.error is not None
        sentence = describe_tls_error(outcome.error, "wrong.example")
        assert "wrong.example" in sentence
        assert "connect by a name" in sentence

    def test_a_server_without_tls_is_named(self) -> None:
        outcome = exchange(None, client_context())
        assert outcome.error is not None
        assert "does not speak TLS" in describe_tls_error(outcome.error, "localhost")


class TestSelfSigned:
    def test_it_is_made_once_and_reused(self, tmp_path: Path) -> None:
        first = self_signed(["agent.example", "[2001:db8::1]"], tmp_path)
        contents = first.file.read_bytes()
        assert self_signed(["Agent.Example.", "2001:db8:0::1"], tmp_path) == first
        assert first.file.read_bytes() == contents
        assert [path.name for path in tmp_path.iterdir()] == [first.file.name], "no draft is left"

    def test_only_the_owner_can_read_it(self, tmp_path: Path) -> None:
        state = tmp_path / "new" / "state"
        file = self_signed([], state).file
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        file.chmod(0o644)
        self_signed([], state)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it is mended"

    def test_a_new_name_makes_a_new_certificate_that_keeps_the_old_names(self, tmp_path: Path) -> None:
        first = self_signed(["one.example"], tmp_path)
        second = self_signed(["two.example"], tmp_path)
        assert second.fingerprint != first.fingerprint
        assert self_signed(["one.example", "two.example"], tmp_path) == second

    def test_names_that_no_certificate_can_hold_are_left_out(self, tmp_path: Path) -> None:
        first = self_signed(["0.0.0.0", "::", "", "a..b", "x" * 80, "fe80::1%eth0"], tmp_path)
        assert first == self_signed(["fe80::1"], tmp_path)

    @pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "bücher.example"])
    def test_it_can_be_named_as_an_authority(self, tmp_path: Path, name: str) -> None:
        made = self_signed(["bücher.example"], tmp_path)
        public = tmp_path / "public.pem"
        certificate = ssl.PEM_cert_to_DER_cert(
            re.sub(r"(?s)^.*(?=-----BEGIN CERT)", "", made.file.read_text())
        )
        public.write_text(ssl.DER_cert_to_PEM_cert(certificate))
        assert fingerprint(certificate) == made.fingerprint
        context = client_context(ca_file=public)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        assert exchange(server_context(made.file), context, name) == Outcome(b"secret", None)

    @pytest.mark.parametrize("contents", [b"", b"junk", b"-----BEGIN PRIVATE KEY-----\n"])
    def test_a_damaged_file_is_named(self, tmp_path: Path, contents: bytes) -> None:
        (tmp_path / "self-signed.pem").write_bytes(contents)
        with pytest.raises(ConfigError, match=r"self-signed\.pem"):
            self_signed([], tmp_path)

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match="file"):
            self_signed([], tmp_path / "file")

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
    def test_another_users_file_is_not_used(self, tmp_path: Path) -> None:
        file = self_signed([], tmp_path).file
        os.chown(file, 65_534, 65_534)
        with pytest.raises(ConfigError, match="another user"):
            self_signed([], tmp_path)

    @pytest.mark.parametrize(
        ("state_home", "below"), [("/state", "/state"), ("relative", "/home/x/.local/state")]
    )
    def test_it_is_kept_in_the_state_directory(
        self, monkeypatch: pytest.MonkeyPatch, state_home: str, below: str
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", state_home)
        monkeypatch.setenv("HOME", "/home/x")
        assert default_state_dir() == Path(below) / "acpremote"


class TestBadFiles:
    def test_a_key_of_another_certificate(self, authority: PrivateAuthority) -> None:
        with pytest.raises(ConfigError, match="private key"):
            server_context(authority.issue("one").certificate, authority.issue("two").key)

    def test_a_key_with_a_passphrase_is_refused_instead_of_asking_the_terminal(
        self, authority: PrivateAuthority
    ) -> None:
        issued = authority.issue("localhost", passphrase=b"x")
        with pytest.raises(ConfigError, match="passphrase"):
            server_context(issued.certificate, issued.key)

    def test_a_missing_file_is_named(self, authority: PrivateAuthority, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="gone"):
            server_context(authority.issue("localhost").certificate, tmp_path / "gone")
        with pytest.raises(ConfigError, match="gone"):
            client_context(ca_file=tmp_path / "gone")

    def test_a_file_without_certificates_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "empty.pem").touch()
        with pytest.raises(ConfigError, match="empty"):
            client_context(ca_file=tmp_path / "empty.pem")


@pytest.mark.parametrize("form", ["{}", "sha256:{}", "SHA256 Fingerprint={}", " {} \n"])
def test_a_fingerprint_is_read_in_every_usual_spelling(form: str) -> None:
    digest = hashlib.sha256(b"x").digest()
    for spelled in (digest.hex(), digest.hex(":"), digest.hex(":").upper()):
        assert parse_fingerprint(form.format(spelled)) == digest
    assert fingerprint(b"x") == digest.hex(":").upper()


@pytest.mark.parametrize("text", ["", "sha1:00", "00" * 20, "00" * 33, "zz" * 32])
def test_anything_else_is_no_fingerprint(text: str) -> None:
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        parse_fingerprint(text)
