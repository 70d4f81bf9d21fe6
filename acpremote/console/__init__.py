"""The web console: the page that a browser gets from the relay's address, and its assets.

`respond` is a pure function from a path to an answer; the server decides when to ask it (after its Host
check, and only for GET and HEAD). Everything that a page needs is served from the same origin and nothing
else may be loaded: the Content-Security-Policy allows no inline script, no foreign host and, through
Trusted Types, no text that becomes markup.

The assets lie in one directory whose name is a hash of their contents, so that they can be cached for ever
and a page never mixes two versions. All addresses in the page are relative: it works under any path prefix
that ends in a slash, and behind TLS, where the page derives the socket's address from its own.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

Response: TypeAlias = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers (without Content-Length, Date and Connection, which are the server's) and body."""

_TYPES = MappingProxyType(
    {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
)

_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # pictures in an agent's answer travel as data
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)

_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Permissions-Policy",
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)


def respond(path: str, *, mount_path: str = "/acp") -> Response | None:
    """Answers a GET of the console's page or of one of its assets.

    Args:
        path: The request's path, decoded, without query.
        mount_path: Where the link is, so that the page can find it from its own address.

    Returns:
        The answer, or None for a path that is not the console's.
    """
    files = _assets()
    if path == "/":
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), *_HEADERS]
        return 200, headers, _page(mount_path.strip("/"))
    directory, _, name = path.removeprefix("/").partition("/")
    if directory != _directory() or name not in files:
        return None
    headers = [
        ("Content-Type", _TYPES[Path(name).suffix]),
        ("Cache-Control", "public, max-age=31536000, immutable"),
        *_HEADERS,
    ]
    return 200, headers, files[name]


def paths() -> frozenset[str]:
    """Every path that `respond` answers."""
    return frozenset({"/", *(f"/{_directory()}/{name}" for name in _assets())})


@lru_cache(maxsize=1)
def _assets() -> dict[str, bytes]:
    here = Path(__file__).parent
    return {file.name: file.read_bytes() for file in sorted(here.iterdir()) if file.suffix in _TYPES}


@lru_cache(maxsize=1)
def _directory() -> str:
    digest = hashlib.sha256()
    for name, content in _assets().items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return f"console-{digest.hexdigest()[:16]}"


@lru_cache(maxsize=8)
def _page(endpoint: str) -> bytes:
    import html  # its table of entities would be loaded at every start

    template = (Path(__file__).parent / "index.html").read_text(encoding="utf-8")
    modules = [name for name in _assets() if name.endswith(".js")]
    preload = "\n  ".join(f'<link rel="modulepreload" href="{{assets}}/{name}">' for name in modules)
    text = template.replace("{preload}", preload).replace("{assets}", _directory())
    return text.replace("{endpoint}", html.escape(endpoint, quote=True)).encode()
