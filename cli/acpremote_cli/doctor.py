"""`acpremote doctor`: says what an endpoint speaks and, for each problem, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from acpremote.ending import ExitStatus
from acpremote.options import ClientOptions

from .flags import Address, client_flags, with_flags
from .run import LogLevel, logging_to_stderr, run

__all__ = ["doctor"]


@with_flags("client_options", client_flags)
def doctor(
    address: Address,
    *,
    client_options: ClientOptions,
    agent: Annotated[
        bool, typer.Option("--agent", help="Also start the agent and ask it to initialize.")
    ] = False,
    log_level: LogLevel = "warning",
) -> None:
    """Say what the endpoint at ADDR speaks and, for each problem, what to do.

    Looks at the connection, TLS, subprotocols, round-trip time, metadata, health and whether a token is
    asked for. Exits 3 when no connection can be had, 4 when it is refused, 5 when --agent finds that the
    agent fails, and 0 otherwise.
    """
    from acpremote.doctor import Finding, examine

    async def look() -> ExitStatus:
        findings, failure = await examine(address, client_options, ask_agent=agent)
        _show(findings)
        return ExitStatus.OK if failure is None else ExitStatus(failure.exit_status)

    def _show(findings: Sequence[Finding]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        for style in ("", "bold", ""):
            table.add_column(style=style, overflow="fold")
        for finding in findings:
            style = {"ok": "green", "note": "cyan", "problem": "bold red"}[finding.verdict.value]
            # Text, not markup: what a stranger's server says must not be read as instructions to the
            # terminal.
            found = Text(_printable(finding.found))
            if finding.advice:
                found.append(f"\n-> {finding.advice}", "italic")
            table.add_row(Text(finding.verdict.value, style), finding.subject, found)
        Console().print(table)

    with logging_to_stderr(log_level):
        run(look)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
