"""TLS on both ends: server certificates, self-signed ones, private authorities and pinned certificates.

Owns every `ssl.SSLContext` of this package. A pin is checked inside the handshake (see `_Pinned`), so
whatever uses the context sends no byte of a request, and so no token, to a server that is not the pinned
one. Must never turn a certificate check off without a pin in its place.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = [
    "PinMismatch",
    "SelfSigned",
    "client_context",
    "default_state_dir",
    "describe_tls_error",
    "fingerprint",
    "parse_fingerprint",
    "self_signed",
    "server_context",
]

_FILE = "self-signed.pem"
_DAYS = 3650  # a renewal changes the fingerprint under everybody who pinned it
_ALPN = ["http/1.1"]  # a browser that were offered HTTP/2 would find no WebSocket there
_NAME_MISMATCH = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNSUPPORTED_PROTOCOL")


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate in DER, spelled as `openssl x509 -fingerprint -sha256` does."""
    return hashlib.sha256(der).digest().hex(":").upper()


def parse_fingerprint(text: str) -> bytes:
    """Reads a SHA-256 fingerprint: 64 hexadecimal digits, colons and a `sha256:` in front optional.

    Raises:
        ConfigError: it is something else.
    """
    digits = re.sub(r"(?i)^sha-?256(?: fingerprint)?[:=]", "", text.strip()).replace(":", "")
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", digits):
        raise ConfigError(
            "a TLS pin is the SHA-256 fingerprint of the server's certificate: 64 hexadecimal digits,"
            " with or without colons"
        )
    return bytes.fromhex(digits)


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """Makes a server's context from PEM files; without `key`, `certificate` holds the private key too.

    Raises:
        ConfigError: a file cannot be read, or certificate and key do not fit each other.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    for path in (certificate, key or certificate):
        _check_readable(path)
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        where = f"{certificate} and {key}" if key else str(certificate)
        raise ConfigError(f"no certificate with its private key in {where}: {_reason(error)}") from error
    return context


def client_context(*, ca_file: Path | None = None, pin: bytes | None = None) -> ssl.SSLContext:
    """Makes a client's context.

    Args:
        ca_file: PEM file of the only authorities to trust, instead of the system's.
        pin: SHA-256 of the server's certificate in DER. Without `ca_file` it replaces the check of authority
            and name, so that self-signed certificates work; with it, all of them must hold.

    Raises:
        ConfigError: `ca_file` cannot be read or holds no certificate.
    """
    if ca_file is not None:
        _check_readable(ca_file)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"no certificates in {ca_file}: {_reason(error)}") from error
    context.set_alpn_protocols(_ALPN)
    if pin is not None:
        if ca_file is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.sslobject_class = type("_PinnedTo", (_Pinned,), {"_pin": pin})
    return context


def describe_tls_error(error: ssl.SSLError, host: str) -> str:
    """Says in one sentence what is wrong with the TLS connection to `host` and what can be done."""
    if isinstance(error, PinMismatch):
        return f"the certificate of {host} is not the pinned one: its fingerprint is {error.shown}"
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = "name its authority with --ca-file, or pin the certificate with --tls-pin"
        if error.verify_code in _NAME_MISMATCH:
            advice = "connect by a name that it holds, or pin it with --tls-pin"
        return f"the certificate of {host} is not accepted: {error.verify_message.rstrip('.')}; {advice}"
    if error.reason in _NOT_TLS:
        return f"{host} does not speak TLS there; use ws:// instead of wss:// if it is meant not to"
    return f"no TLS connection to {host}: {_reason(error)}"


class PinMismatch(ssl.SSLError):
    """Says that a server showed another certificate than the pinned one; `shown` is its fingerprint."""

    def __init__(self, shown: str) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, f"the certificate is not the pinned one but {shown}")
        self.shown = shown


class _Pinned(ssl.SSLObject):
    """An `SSLObject` whose handshake fails when the certificate is not the pinned one.

    asyncio and uvloop make the object that the context's `sslobject_class` names, and call `do_handshake`
    on it before they tell anyone that there is a connection.
    """

    _pin = b""

    def do_handshake(self) -> None:
        super().do_handshake()
        der = self.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(der).digest(), self._pin):
            raise PinMismatch(fingerprint(der))


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A self-signed certificate: `file` holds certificate and private key."""

    file: Path
    fingerprint: str


def default_state_dir() -> Path:
    """Where the self-signed certificate is kept (XDG base directory specification, 0.8)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "acpremote"


def self_signed(names: Iterable[str], state_dir: Path | None = None) -> SelfSigned:
    """Finds or makes a self-signed certificate for this machine's names and for `names`.

    It is made once and reused, so that a pin stays true over restarts; only a name that it does not hold
    yet, or its end, makes a new one (with the same key). Certificate and key stand in one file with mode
    0600, replaced at once.

    Raises:
        ConfigError: the file cannot be read or written, or belongs to somebody else.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    file = (state_dir or default_state_dir()) / _FILE
    wanted = _names(["localhost", "127.0.0.1", "::1", socket.gethostname(), *names])
    try:
        key, certificate = _load(file)
        held = set() if certificate is None else _held(certificate)
        if certificate is None or not wanted <= held:
            certificate = _certify(key, sorted(wanted | held))
            _store(file, key, certificate)
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise ConfigError(f"cannot keep a self-signed certificate in {file}: {error}") from error
    return SelfSigned(file, fingerprint(certificate.public_bytes(Encoding.DER)))


def _names(names: Iterable[str]) -> set[str]:
    """What of `names` a certificate can hold: no wildcard addresses, no zones, no malformed names."""
    found = set()
    for name in names:
        bare = name.strip("[]").partition("%")[0].lower().rstrip(".")
        with suppress(UnicodeError):
            found.add(str(_address(bare) or bare.encode("idna").decode("ascii")))
    return found - {"", "0.0.0.0", "::"}  # noqa: S104 - these are taken out


def _load(file: Path) -> tuple[EllipticCurvePrivateKey, x509.Certificate | None]:
    """The stored key, or a new one, and the stored certificate while it is valid."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_uid != os.geteuid():
                raise PermissionError("it belongs to another user")
            os.fchmod(stream.fileno(), 0o600)
            pem = stream.read()
    except FileNotFoundError:
        return ec.generate_private_key(ec.SECP256R1()), None
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("it holds another kind of key; remove the file to make a new one")
    certificate = x509.load_pem_x509_certificate(pem)
    now = datetime.datetime.now(datetime.UTC)
    valid = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
    return key, certificate if valid else None


def _held(certificate: x509.Certificate) -> set[str]:
    from cryptography import x509

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def _certify(key: EllipticCurvePrivateKey, names: Iterable[str]) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "acpremote self-signed")])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    address = _address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _store(file: Path, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(pem + certificate.public_bytes(Encoding.PEM))
        os.replace(draft, file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _no_passphrase() -> str:
    # Without this, OpenSSL would ask the terminal, and a service has none.
    raise ConfigError("private keys with a passphrase cannot be used; store the key without one")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
