"""Opens the listening sockets of a server: an address and port, or a Unix socket; with TLS or without.

Owns what may stand at a Unix socket's path and who may connect to it. Read `server.py` next.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve, unix_serve

from .errors import ListenError
from .options import ServerOptions

__all__ = ["listen", "remove_own_socket", "tls_of"]


async def listen(
    handler: Callable[[ServerConnection], Awaitable[None]], options: ServerOptions, settings: dict[str, Any]
) -> WebSocketServer:
    """Listens where `options` say; `settings` are further arguments of `websockets.serve`.

    Raises:
        OSError: the address cannot be listened on.
        ListenError: the Unix socket's path is in use.
    """
    if options.unix_path is None:
        try:
            return await serve(handler, options.host, options.port, **settings)
        except UnicodeError as error:  # a name that cannot be one
            raise ListenError(f"cannot listen on {options.host}: {error}") from error
    _remove_stale_socket(options.unix_path)
    mask = os.umask(0o177)
    try:
        return await unix_serve(handler, options.unix_path, **settings)
    finally:
        os.umask(mask)


def tls_of(options: ServerOptions) -> tuple[ssl.SSLContext | None, str | None]:
    """The TLS context, and the fingerprint of a certificate of our own making."""
    if options.tls_self_signed:
        from .tls import self_signed, server_context

        made = self_signed([options.host, *options.allowed_hosts], options.state_dir)
        return server_context(made.file), made.fingerprint
    if options.tls_certificate is not None:
        from .tls import server_context

        return server_context(options.tls_certificate, options.tls_key), None
    return None, None


def remove_own_socket(path: str, inode: int | None) -> None:
    """Removes the socket that a server listened on, unless another server has put its own there meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_ino == inode:
            os.unlink(path)


def _remove_stale_socket(path: str) -> None:
    """Removes a socket that nobody listens on any more; anything else at `path` is left alone.

    Raises:
        ListenError: something else is there, or a server is still listening.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on {path}: the file exists and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError:
            pass
    raise ListenError(f"cannot listen on {path}: another server does")
