"""`acpremote serve` and `acpkit serve`: an agent of a Python module behind an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acpremote.ending import ExitStatus
from acpremote.options import ServerOptions, TransportOptions

from .flags import server_flags, transport_flags, with_flags
from .run import LogFormat, LogLevel, fail_by, logging_to_stderr, run, serve_until_signal
from .target import load_agent

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
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> None:
    """Serve the ACP agent that a Python module defines.

    TARGET is an agent, which all connections share, or a factory or class, which makes one for each of
    them. A factory is called once more at the start, to see that it works. Pydantic AI and LangGraph agents
    are adapted.

    The code runs in a thread of its own: while it blocks, other agents wait, but connections live.
    """
    with logging_to_stderr(log_level, log_format):
        try:
            agent = load_agent(target, path)
        except ValueError as error:
            raise fail_by(error) from None

        async def listen() -> ExitStatus:
            from acpremote.sdk import serve_acp

            server = await serve_acp(
                agent, options=transport, server_options=server_options, cwd=path, own_thread=True
            )
            return await serve_until_signal(server)

        run(listen)
