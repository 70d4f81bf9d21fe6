"""`acpremote serve` and `acpkit serve`: an agent of a Python module behind an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acpremote.ending import ExitStatus
from acpremote.options import ServerOptions, TransportOptions

from .flags import server_flags, transport_flags, with_flags
from .run import fail, logging_to_stderr, run, serve_until_signal
from .target import load_target

__all__ = ["Directory", "Target", "serve"]

Target = Annotated[str, typer.Argument(metavar="TARGET", help="MODULE:ATTRIBUTE of the agent.")]
Directory = Annotated[
    Path | None,
    typer.Option("--path", "-p", metavar="DIR", help="Directory to import from; by default the current one."),
]


@with_flags("transport", transport_flags, from_environment=True)
@with_flags("server_options", server_flags, from_environment=True)
def serve(
    target: Target,
    *,
    server_options: ServerOptions,
    transport: TransportOptions,
    path: Directory = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="text, or json: one object a line.")] = "text",
) -> None:
    """Serve the ACP agent that a Python module defines.

    TARGET is an agent, which all connections share, or a factory or class, which makes one for each of
    them. Pydantic AI and LangGraph agents are adapted.

    The code runs in a thread of its own: while it blocks, other agents wait, but connections live.
    """
    with logging_to_stderr(log_level, log_format):
        try:
            agent = load_target(target, path)
        except ValueError as error:
            raise fail(str(error), ExitStatus.USAGE) from None

        async def listen() -> ExitStatus:
            from acpremote.sdk import serve_acp

            server = await serve_acp(
                agent, options=transport, server_options=server_options, cwd=path, own_thread=True
            )
            return await serve_until_signal(server)

        run(listen)
