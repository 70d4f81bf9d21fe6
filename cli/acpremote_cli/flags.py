"""Flags that several commands share, each group of them the way to one options object.

A group is a function whose parameters are the flags and whose result is the object; `with_flags` gives a
command all flags of a group in exchange for one parameter. Secrets come from a variable or a file only:
what stands in a command line is shown to every user of the machine.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from acpremote.ending import ExitStatus
from acpremote.errors import ConfigError
from acpremote.options import ClientOptions, ServerOptions

from .run import fail

__all__ = ["client_flags", "read_token", "server_flags", "with_flags"]

_SERVER = ServerOptions()
_LONGEST_TOKEN = 8192

TokenEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variable that holds the bearer token.", show_default=False)
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="PATH", help="File that holds the bearer token.", show_default=False)
]


def server_flags(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = _SERVER.host,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 8080,
    unix: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Listen on a Unix socket instead; only you can open it."),
    ] = None,
    mount_path: Annotated[str, typer.Option(help="Path of the endpoint.")] = _SERVER.mount_path,
    token_env: TokenEnv = None,
    token_file: TokenFile = None,
    query_token: Annotated[
        bool, typer.Option("--query-token", help="Accept the token as ?token= too.")
    ] = False,
    insecure_no_auth: Annotated[
        bool, typer.Option("--insecure-no-auth", help="Let in whoever can connect, without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name that clients may call this server by; repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web origin that may connect, https://app.example; repeatable."),
    ] = None,
    console: Annotated[bool, typer.Option(help="Serve the web console at /.")] = True,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="PATH", help="PEM file of the certificate.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="PATH", help="PEM file of its private key.")] = None,
    tls_self_signed: Annotated[
        bool,
        typer.Option("--tls-self-signed", help="Make a certificate once, reuse it, print its fingerprint."),
    ] = False,
    max_connections: Annotated[int, typer.Option(help="Links at once.")] = _SERVER.max_connections,
    max_handshakes: Annotated[
        int, typer.Option(help="Sockets at once that have not finished their handshake.")
    ] = _SERVER.max_handshakes,
) -> ServerOptions:
    """Where a server listens and whom it lets in."""
    return ServerOptions(
        host=host,
        port=port,
        unix_path=unix,
        mount_path=mount_path,
        bearer_token=read_token(token_env, token_file),
        query_token=query_token,
        insecure_no_auth=insecure_no_auth,
        allowed_hosts=allow_host or (),
        allowed_origins=allow_origin or (),
        console=console,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        tls_self_signed=tls_self_signed,
        max_connections=max_connections,
        max_handshakes=max_handshakes,
    )


def client_flags(
    *,
    token_env: TokenEnv = None,
    token_file: TokenFile = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:VALUE", help="Further header of the handshake; repeatable."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="PEM file of the only authorities to trust.")
    ] = None,
    tls_pin: Annotated[
        str | None,
        typer.Option(metavar="FINGERPRINT", help="SHA-256 fingerprint of the server's certificate."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Send the token even unencrypted to another machine.")
    ] = False,
) -> ClientOptions:
    """How a client presents itself, and whom it believes."""
    return ClientOptions(
        bearer_token=read_token(token_env, token_file),
        headers=[_header(text) for text in header or ()],
        ca_file=ca_file,
        tls_pin=tls_pin,
        insecure=insecure,
    )


def read_token(variable: str | None, file: Path | None) -> str | None:
    """Reads a token from a variable of the environment or from a file, without the space around it.

    The variable is taken out of our environment, so that no process that we start inherits it.

    Raises:
        ConfigError: there is none, or both were named.
    """
    if variable is not None and file is not None:
        raise ConfigError("give either --token-env or --token-file")
    if variable is not None:
        token = os.environ.pop(variable, "").strip()
        if not token:
            raise ConfigError(f"the variable {variable} holds no token: it is empty or not set")
        return token
    return None if file is None else _token_in(file)


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            token = stream.read(_LONGEST_TOKEN + 1).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(f"cannot read a token from {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{file} holds no token: it is not ASCII text") from None
    if not token or len(token) > _LONGEST_TOKEN:
        raise ConfigError(f"{file} holds no token: it is {'too long' if token else 'empty'}")
    return token


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError("--header needs NAME:VALUE")
    return name.strip(), value.strip()


def with_flags(
    parameter: str, group: Callable[..., object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of `group` in place of its parameter of the given name.

    Typer reads a command's flags from its signature, so that is what is put together here. What the
    group refuses ends the command with the status for wrong usage.
    """
    flags = inspect.signature(group, eval_str=True).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for name, each in signature.parameters.items() if name != parameter]

        @functools.wraps(command)
        def run_command(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in flags}
            try:
                options = group(**chosen)
            except ConfigError as error:
                raise fail(str(error), ExitStatus.USAGE) from None
            command(**given, **{parameter: options})

        merged = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *flags.values())]
        run_command.__dict__["__signature__"] = signature.replace(parameters=merged)
        run_command.__annotations__ = {each.name: each.annotation for each in merged}
        return run_command

    return decorate
