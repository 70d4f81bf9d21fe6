"""The `acpkit` command: runs, serves and launches agents that Python modules define."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from acpremote.client import run_mirror
from acpremote.ending import Ending, ExitStatus
from acpremote.errors import AgentStartError
from acpremote.options import ClientOptions, TransportOptions

from .flags import client_flags, with_flags
from .run import LogLevel, fail, fail_by, logging_to_stderr, run
from .serve import Directory, serve
from .target import load_agent, load_target, no_agent

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run, serve and launch ACP agents.",
)
app.command()(serve)

OptionalTarget = Annotated[
    str | None, typer.Argument(metavar="TARGET", help="MODULE:ATTRIBUTE of an agent to run here.")
]


@app.command("run")
@with_flags("client_options", client_flags)
def run_agent(
    target: OptionalTarget = None,
    *,
    client_options: ClientOptions,
    addr: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Endpoint of a remote agent: ws://…, wss://…, http(s)://…, unix:PATH."
        ),
    ] = None,
    unstable_protocol: Annotated[
        bool,
        typer.Option("--unstable-protocol", help="With --addr: let the agent ask questions (elicitation)."),
    ] = False,
    path: Directory = None,
    log_level: LogLevel = "warning",
) -> None:
    """Run an agent on standard input and output: the one of TARGET, or the remote one at --addr."""
    if (target is None) == (addr is None):
        raise fail("give either TARGET or --addr", ExitStatus.USAGE)
    with logging_to_stderr(log_level):
        if addr is not None:
            _run_remote(addr, client_options, TransportOptions(use_unstable_protocol=unstable_protocol))
        elif target is not None:
            _run_here(target, path)


def _run_remote(address: str, client_options: ClientOptions, options: TransportOptions) -> None:
    async def join() -> ExitStatus:
        return _status(await run_mirror(address, options=options, client_options=client_options))

    run(join)


def _run_here(target: str, path: Path | None) -> None:
    with redirect_stdout(sys.stderr):  # what the agent's module prints must not get between the frames
        try:
            agent = load_target(target, path)
        except ValueError as error:
            raise fail_by(error) from None

        async def serve_stdio() -> ExitStatus:
            from acpremote.sdk import run_stdio_agent

            try:
                return _status(await run_stdio_agent(agent))
            except AgentStartError as error:
                raise no_agent(target, error) from error

        run(serve_stdio)


def _status(ending: Ending) -> ExitStatus:
    if not ending.is_orderly:
        raise fail(str(ending), ending.exit_status)
    return ExitStatus.OK


@app.command()
def launch(
    target: OptionalTarget = None,
    *,
    command: Annotated[
        str | None, typer.Option("--command", "-c", metavar="COMMAND", help="Command line of an ACP agent.")
    ] = None,
    path: Directory = None,
) -> None:
    """Open the toad terminal client on an agent: the one of TARGET, or the one that COMMAND starts."""
    if (target is None) == (command is None):
        raise fail("give either TARGET or -c COMMAND", ExitStatus.USAGE)
    if target is not None:
        try:
            load_agent(target, path)  # a mistake is better told here than inside the client's window
        except ValueError as error:
            raise fail_by(error) from None
        place = [] if path is None else ["-p", str(path.resolve())]
        command = shlex.join([sys.executable, "-m", "acpremote_cli.acpkit", "run", target, *place])
    _become_toad(["acp", str(command), "."])


def _become_toad(arguments: list[str]) -> NoReturn:
    toad = shutil.which("toad")
    if toad is None:
        raise fail(
            "the toad terminal client is not installed: uv tool install -U batrachian-toad --python 3.14",
            ExitStatus.USAGE,
        )
    os.execv(toad, ["toad", *arguments])  # noqa: S606  the terminal is handed over; a shell is not wanted


def main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
