"""`acpremote demo`: one whole turn through expose and mirror, with nothing to install or configure."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from acpremote.ending import Ending, EndingKind, ExitStatus
from acpremote.errors import AcpRemoteError, ChannelClosed

from .run import fail, run

if TYPE_CHECKING:
    from .transcript import TranscriptClient

__all__ = ["demo"]

_PROMPT = "Run a tool, then give me the tour."
_AGENT = [sys.executable, "-m", "acpremote.demo"]
_MIRROR = [sys.executable, "-m", "acpremote_cli.main", "mirror", "--unstable-protocol"]
_NEXT = """
That went: this client -> mirror == WebSocket ==> expose -> agent. Now with your own agent:
  acpremote expose -- COMMAND             where the agent is to run
  acpremote mirror ws://HOST:PORT/acp/ws  as the agent command of your editor"""

AgentOption = Annotated[
    bool,
    typer.Option(
        "--agent", help="Run only the demo agent, on standard input and output, for any ACP client."
    ),
]


def demo(*, agent: AgentOption = False) -> None:
    """Show a whole turn with a small agent that needs no model, network or key.

    Starts an endpoint with the demo agent on a free port of this machine,
    connects to it through a mirror as an editor would, and prints what happens.
    In a terminal you answer the agent's questions; elsewhere the defaults are
    taken.
    """
    if agent:
        _run_agent()
    else:
        run(_show)


def _run_agent() -> None:
    from acpremote.demo import main

    try:
        main()
    except AcpRemoteError as error:
        raise fail(str(error), error.exit_status) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitStatus.INTERRUPTED) from None


async def _show() -> ExitStatus:
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scope.cancel)
        await _show_turn()
    return ExitStatus.TERMINATED if scope.cancelled_caught else ExitStatus.OK


async def _show_turn() -> None:
    from acpremote.command import serve_command

    from .transcript import TranscriptClient, default_answer, person_answers

    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    client = TranscriptClient(person_answers if at_terminal else default_answer)
    async with await serve_command(_AGENT, host="127.0.0.1", port=0) as server:
        typer.echo("$ acpremote expose --port 0 -- acpremote demo --agent")
        typer.echo(f"acpremote: listening on {server.address}")
        typer.echo(f"$ acpremote mirror --unstable-protocol {server.address}\n")
        await _run_turn(client, server.address)
    typer.echo(_NEXT)


async def _run_turn(client: TranscriptClient, address: str) -> None:
    from acp import PROTOCOL_VERSION, Client, helpers, schema, spawn_agent_process

    forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    mirror = spawn_agent_process(
        cast(Client, client),
        *_MIRROR,
        address,
        env=os.environ,
        use_unstable_protocol=True,
        transport_kwargs={"stderr": None},
    )
    try:
        async with mirror as (agent, _):
            await agent.initialize(
                PROTOCOL_VERSION, client_capabilities=schema.ClientCapabilities(elicitation=forms)
            )
            session = await agent.new_session(cwd=os.getcwd())
            client.line("you", _PROMPT)
            response = await agent.prompt(session.session_id, [helpers.text_block(_PROMPT)])
            client.line("end", response.stop_reason)
    except ConnectionError as error:
        raise ChannelClosed(Ending(EndingKind.LOST, f"the mirror ended in mid-turn: {error}")) from error
