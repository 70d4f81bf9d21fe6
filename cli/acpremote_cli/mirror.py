"""`acpremote mirror`: shows a remote agent as a local one on standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from acpremote.client import run_mirror
from acpremote.ending import ExitStatus
from acpremote.options import ClientOptions, HostOwnership, TransportOptions

from .flags import Address, Reconnect, Window, client_flags, with_flags
from .run import LogLevel, fail, fail_by, logging_to_stderr, run

_DEFAULTS = TransportOptions()


@with_flags("client_options", client_flags)
def mirror(
    address: Address,
    *,
    client_options: ClientOptions,
    reconnect: Reconnect = True,
    unstable_protocol: Annotated[
        bool,
        typer.Option(
            "--unstable-protocol", help="Let the agent ask questions (elicitation, unstable in ACP)."
        ),
    ] = False,
    host_ownership: Annotated[
        HostOwnership,
        typer.Option(
            metavar="OWNER",
            help="remote: files, terminals and the working directory are those of the agent's machine; "
            "client_passthrough: they are what the client says.",
        ),
    ] = _DEFAULTS.host_ownership,
    max_message_size: Annotated[int, typer.Option(help="Longest frame in bytes.")] = _DEFAULTS.max_size,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long to try to get a cut link back, at most what the server grants; 0: not at all.",
        ),
    ] = _DEFAULTS.grace,
    window: Window = _DEFAULTS.window,
    drain_timeout: Annotated[
        float, typer.Option(help="Seconds that open replies may take after the end of stdin.")
    ] = _DEFAULTS.drain_timeout,
    log_level: LogLevel = "warning",
) -> None:
    """Show the agent at ADDR as a local one: frames on stdin and stdout, unchanged."""
    with logging_to_stderr(log_level):
        try:
            options = TransportOptions(
                max_size=max_message_size,
                reconnect=reconnect,
                drain_timeout=drain_timeout,
                grace=grace,
                window=window,
                use_unstable_protocol=unstable_protocol,
                host_ownership=host_ownership,
            )
        except ValueError as error:
            raise fail_by(error) from None

        async def join() -> ExitStatus:
            ending = await run_mirror(address, options=options, client_options=client_options)
            if not ending.is_orderly:
                raise fail(str(ending), ending.exit_status)
            return ExitStatus.OK

        run(join)
