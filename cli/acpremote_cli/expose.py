"""`acpremote expose`: relays an agent's standard input and output over WebSocket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acpremote.command import serve_stdio_command
from acpremote.ending import ExitStatus
from acpremote.options import CommandOptions, ServerOptions, StderrMode, TransportOptions

from .flags import server_flags, transport_flags, with_flags
from .run import LogFormat, LogLevel, fail_by, logging_to_stderr, run, serve_until_signal


@with_flags("transport", transport_flags, from_environment=True)
@with_flags("server_options", server_flags, from_environment=True)
def expose(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND…", help="The agent's command and its own options, after --."),
    ],
    *,
    server_options: ServerOptions,
    transport: TransportOptions,
    cwd: Annotated[Path | None, typer.Option(help="Working directory of the agent.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the agent; repeatable.")] = None,
    stderr_mode: Annotated[
        StderrMode, typer.Option(metavar="MODE", help="inherit or discard the agent's standard error.")
    ] = "inherit",
    terminate_timeout: Annotated[float, typer.Option(help="Seconds the agent has to leave.")] = 2,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> None:
    """Relay the agent that COMMAND starts: one process per connection, frames unchanged."""
    with logging_to_stderr(log_level, log_format):
        try:
            command_options = CommandOptions(
                command=command,
                cwd=cwd,
                env=dict(_pair(text) for text in env or ()),
                stderr_mode=stderr_mode,
                terminate_timeout=terminate_timeout,
            )
        except ValueError as error:
            raise fail_by(error, from_environment=True) from None

        async def serve() -> ExitStatus:
            server = await serve_stdio_command(
                command_options, options=transport, server_options=server_options
            )
            return await serve_until_signal(server)

        run(serve)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--env needs NAME=VALUE, got {name!r}")
    return name, value
