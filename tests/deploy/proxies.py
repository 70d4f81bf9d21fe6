"""Runs the real reverse proxies with the configurations of `deploy/`, changed only in names, ports and paths."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.authorities import Issued, PrivateAuthority
from tests.raw import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
SITE = "agents.example.com"
CERTIFICATE = "/etc/ssl/agents/fullchain.pem"
KEY = "/etc/ssl/agents/key.pem"
BOTH = "/etc/ssl/agents/fullchain-and-key.pem"


@dataclass(frozen=True)
class Place:
    """What a configuration is fitted to."""

    directory: Path
    issued: Issued
    port: int
    relays: Sequence[int]


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Replaces what must be there: a test of a configuration that has changed must not pass by accident."""
    for old, new in pairs:
        assert old in text, f"the configuration does not say {old!r}"
        text = text.replace(old, new)
    return text


def nginx(place: Place, *changes: tuple[str, str]) -> list[str]:
    here = place.directory
    text = replaced(
        (DEPLOY / "nginx.conf").read_text(),
        (SITE, "localhost"),
        ("listen 443 ssl", f"listen 127.0.0.1:{place.port} ssl"),
        (CERTIFICATE, str(place.issued.certificate)),
        (KEY, str(place.issued.key)),
        ("127.0.0.1:8080", f"127.0.0.1:{place.relays[0]}"),
        *changes,
    )
    temporary = "".join(
        f"{kind}_temp_path {here}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    around = (
        f"daemon off; pid {here}/pid; error_log stderr; events {{}}\nhttp {{ access_log off; {temporary}\n"
    )
    (here / "nginx.conf").write_text(f"{around}{text}}}\n")
    return ["nginx", "-c", str(here / "nginx.conf"), "-e", "stderr"]


def caddy(place: Place, *changes: tuple[str, str]) -> list[str]:
    text = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        (f"# tls {CERTIFICATE} {KEY}", f"tls {place.issued.certificate} {place.issued.key}"),
        *changes,
    )
    text = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n" + text
    (place.directory / "Caddyfile").write_text(text)
    return ["caddy", "run", "--config", str(place.directory / "Caddyfile")]


def haproxy(place: Place, *changes: tuple[str, str]) -> list[str]:
    both = place.directory / "both.pem"
    both.write_bytes(place.issued.certificate.read_bytes() + place.issued.key.read_bytes())
    first, last = place.relays[0], place.relays[-1]
    text = replaced(
        (DEPLOY / "haproxy.cfg").read_text(),
        ("bind :443", f"bind 127.0.0.1:{place.port}"),
        (BOTH, str(both)),
        ("127.0.0.1:8080", f"127.0.0.1:{first}"),
        ("127.0.0.1:8081", f"127.0.0.1:{last}"),
        *changes,
    )
    if first == last:
        text = "\n".join(line for line in text.splitlines() if "server two" not in line) + "\n"
    (place.directory / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", str(place.directory / "haproxy.cfg")]


Proxy = Callable[..., list[str]]
PROXIES: dict[str, Proxy] = {"nginx": nginx, "caddy": caddy, "haproxy": haproxy}


def is_installed(name: str) -> bool:
    return shutil.which(name, path=_PATH) is not None


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@contextlib.contextmanager
def proxied(
    name: str, relays: Sequence[int], directory: Path, *changes: tuple[str, str]
) -> Iterator[tuple[int, Path]]:
    """Runs a proxy in front of relays; gives its port and the file of the authority to trust."""
    authority = PrivateAuthority(directory)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = Place(directory, authority.issue("localhost"), port, relays)
    home = str(directory)
    environment = {
        **os.environ,
        "PATH": _PATH,
        "SITE": f"https://localhost:{port}",
        "RELAY": f"127.0.0.1:{relays[0]}",
        **dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), home),
    }
    log = directory / "proxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            PROXIES[name](place, *changes), stdout=output, stderr=output, env=environment, cwd=directory
        )
    try:
        wait_until(lambda: process.poll() is not None or _listens(port), 30)
        assert process.poll() is None, log.read_text()
        yield port, authority.file
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
