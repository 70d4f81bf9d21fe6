"""Flags that several commands share, each group of them the way to one options object.

A group is a function whose parameters are the flags and whose result is the object; `with_flags` gives a
command all flags of a group in exchange for one parameter. Secrets come from a variable or a file only:
what stands in a command line is shown to every user of the machine. What a server is given as an option
can be given in a variable instead: a unit file or a container then needs no command line of its own.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import OptionInfo

from acpremote.errors import ConfigError
from acpremote.options import ClientOptions, Compression, ServerOptions, TransportOptions

from .run import fail_by
from .wording import VARIABLE

__all__ = [
    "Address",
    "Reconnect",
    "Window",
    "client_flags",
    "read_token",
    "server_flags",
    "transport_flags",
    "with_flags",
]

_SERVER = ServerOptions()
_TRANSPORT = TransportOptions()
_LONGEST_TOKEN = 8192
_SERVER_TOKEN = "ACPREMOTE_TOKEN"  # noqa: S105  the variable's name

TokenEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variable that holds the bearer token.", show_default=False)
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="PATH", help="File that holds the bearer token.", show_default=False)
]

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDR",
        help="ws://…, wss://… (http://… and https://… mean the same) or unix:PATH. "
        "Without a path: /acp/ws; /acp works too.",
    ),
]

Reconnect = Annotated[
    bool,
    typer.Option(help="Try again when the connection fails: the first for 30 s, a cut one for the grace."),
]

Window = Annotated[
    int, typer.Option(metavar="BYTES", help="Unacknowledged bytes on an acpremote link, for each direction.")
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
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the self-signed certificate is kept.")
    ] = None,
    max_connections: Annotated[int, typer.Option(help="Links at once.")] = _SERVER.max_connections,
    max_handshakes: Annotated[
        int, typer.Option(help="Sockets at once that have not finished their handshake.")
    ] = _SERVER.max_handshakes,
    shutdown_timeout: Annotated[
        float, typer.Option(help="Seconds for everything to end after SIGTERM.")
    ] = _SERVER.shutdown_timeout,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics; needs the extra 'metrics'."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record every link to a file in DIR; see acpremote show."),
    ] = None,
    record_limit: Annotated[
        int, typer.Option(help="Bytes of all recordings together; the oldest are deleted.")
    ] = _SERVER.record_limit,
    record_redact: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave the values of members of this name out; repeatable."),
    ] = None,
) -> ServerOptions:
    """Where a server listens and whom it lets in."""
    return ServerOptions(
        host=host,
        port=port,
        unix_path=unix,
        mount_path=mount_path,
        bearer_token=_server_token(token_env, token_file),
        query_token=query_token,
        insecure_no_auth=insecure_no_auth,
        allowed_hosts=allow_host or (),
        allowed_origins=allow_origin or (),
        console=console,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        tls_self_signed=tls_self_signed,
        state_dir=state_dir,
        max_connections=max_connections,
        max_handshakes=max_handshakes,
        shutdown_timeout=shutdown_timeout,
        metrics_address=metrics,
        record_dir=record,
        record_limit=record_limit,
        record_redact=record_redact or (),
    )


def transport_flags(
    *,
    max_message_size: Annotated[int, typer.Option(help="Longest frame in bytes.")] = _TRANSPORT.max_size,
    open_timeout: Annotated[
        float, typer.Option(help="Seconds that an opening handshake may take.")
    ] = _TRANSPORT.open_timeout,
    ping_interval: Annotated[
        float, typer.Option(help="Seconds between pings; 0 turns them off.")
    ] = _TRANSPORT.ping_interval,
    ping_timeout: Annotated[
        float, typer.Option(help="Seconds more after which a client without any sign of life is given up.")
    ] = _TRANSPORT.ping_timeout,
    stall_timeout: Annotated[
        float, typer.Option(help="Seconds after which a client that stopped reading is given up.")
    ] = _TRANSPORT.stall_timeout,
    grace: Annotated[
        float, typer.Option(help="Seconds that a link outlives its connection; 0 turns resume off.")
    ] = _TRANSPORT.grace,
    window: Window = _TRANSPORT.window,
    compression: Annotated[
        Compression | None, typer.Option(metavar="NAME", help="deflate for slow networks; none by default.")
    ] = None,
) -> TransportOptions:
    """Limits and timeouts of a server's connections."""
    return TransportOptions(
        max_size=max_message_size,
        open_timeout=open_timeout,
        ping_interval=ping_interval,
        ping_timeout=ping_timeout,
        stall_timeout=stall_timeout,
        grace=grace,
        window=window,
        compression=compression,
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


def _server_token(variable: str | None, file: Path | None) -> str | None:
    """A server's token may also stand in `ACPREMOTE_TOKEN`, which no agent inherits, used or not."""
    if variable is None and file is None and _SERVER_TOKEN in os.environ:
        return read_token(_SERVER_TOKEN, None)
    token = read_token(variable, file)
    os.environ.pop(_SERVER_TOKEN, None)
    return token


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
    parameter: str, group: Callable[..., object], *, from_environment: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of `group` in place of its parameter of the given name.

    Typer reads a command's flags from its signature, so that is what is put together here. What the
    group refuses ends the command with the status for wrong usage. `from_environment`: every option of the
    command, its own ones too, can also be given as `ACPREMOTE_` and its name.
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
                raise fail_by(error, from_environment=from_environment) from None
            command(**given, **{parameter: options})

        merged = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *flags.values())]
        if from_environment:
            merged = [each.replace(annotation=_with_variable(each)) for each in merged]
        run_command.__dict__["__signature__"] = signature.replace(parameters=merged)
        run_command.__annotations__ = {each.name: each.annotation for each in merged}
        return run_command

    return decorate


def _with_variable(parameter: inspect.Parameter) -> object:
    """The parameter's annotation, with the variable that stands in for its option. (Arguments have none.)"""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation
    kind, *notes = get_args(parameter.annotation)
    for index, note in enumerate(notes):
        if isinstance(note, OptionInfo):
            notes[index] = option = copy.copy(note)  # groups share annotations; only servers read variables
            option.envvar = VARIABLE + parameter.name.upper()
    return Annotated[(kind, *notes)]
