"""`acpremote chat`: talks to an agent in the terminal, at an address or started by a command."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from acpremote.components.display import one_line, safe_text
from acpremote.ending import Ending, EndingKind, ExitStatus
from acpremote.errors import AcpRemoteError, ChannelClosed, ConfigError
from acpremote.options import ClientOptions, CommandOptions, TransportOptions

from .flags import Reconnect, client_flags, with_flags
from .foreign import is_address
from .run import fail, fail_by, run

if TYPE_CHECKING:
    from acpremote.chat.connect import Connection
    from acpremote.chat.conversation import Conversation
    from acpremote.chat.view import View

__all__ = ["chat"]

_DEFAULTS = TransportOptions()
AGAIN = 2.0
"""Seconds within which a second Ctrl-C leaves."""


@with_flags("client_options", client_flags)
def chat(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="ADDR | -- COMMAND…",
            help="ws://…, wss://…, http(s)://… or unix:PATH of an endpoint; or an agent's command, after --.",
        ),
    ],
    *,
    client_options: ClientOptions,
    cwd: Annotated[
        str | None,
        typer.Option(help="Working directory of the session; at an address, one of the agent's machine."),
    ] = None,
    reconnect: Reconnect = True,
    max_message_size: Annotated[int, typer.Option(help="Longest frame in bytes.")] = _DEFAULTS.max_size,
) -> None:
    """Talk to an agent, in a terminal or by lines.

    In a terminal: arrow keys or a number and Enter answer a question, Ctrl-C cancels the turn and, pressed
    again, leaves; /help lists the commands. Without a terminal each line of standard input is a prompt.
    """
    try:
        options = TransportOptions(
            max_size=max_message_size,
            reconnect=reconnect,
            use_unstable_protocol=True,
            # A chat has no files of its own: unless told otherwise, the agent works where its server says.
            host_ownership="client_passthrough" if cwd else "remote",
        )
        opening = _opening(words, cwd, client_options, options)
    except ValueError as error:
        raise fail_by(error) from None
    run(lambda: _Chat(opening, cwd or os.getcwd()).run())


Opening = Callable[[], "contextlib.AbstractAsyncContextManager[Connection]"]


def _opening(words: list[str], cwd: str | None, client: ClientOptions, options: TransportOptions) -> Opening:
    from acpremote.chat.connect import open_command, open_endpoint
    from acpremote.client import Endpoint
    from acpremote.transport.process import check_command

    if is_address(words[0]):
        if words[1:]:
            raise ConfigError(f"after an address no command is taken: {words[1]!r}")
        endpoint = Endpoint.of(words[0], options, client)
        return lambda: open_endpoint(endpoint)
    directory = Path(cwd) if cwd is not None else None
    command = CommandOptions(command=words, cwd=directory, stderr_mode="discard")
    try:
        check_command(command)
    except ConfigError as error:
        raise ConfigError(f"{error} (an address looks like ws://HOST:PORT/acp/ws)") from error
    return lambda: open_command(command, options)


class _Chat:
    """One run of the command: a view, a conversation, a connection, and the signals."""

    def __init__(self, opening: Opening, cwd: str) -> None:
        self._opening = opening
        self._cwd = cwd
        self._warned = float("-inf")
        self._was_terminated = False
        self._last_words: list[str] = []
        self._was_busy = False

    async def run(self) -> ExitStatus:
        """Talks, and returns the exit status."""
        from acpremote.chat.conversation import Conversation

        async with _open_view(self._interrupt) as (view, set_conversation, cancel_dialog):
            self._view, self._cancel_dialog = view, cancel_dialog
            self._conversation = Conversation(view, self._cwd)
            set_conversation(self._conversation)
            # Not raised in here, where a task group would wrap it.
            outcome = await self._talk()
        if not isinstance(outcome, AcpRemoteError):
            return outcome
        for line in self._last_words:
            print(f"agent: {safe_text(line)}", file=sys.stderr)
        ending = outcome.ending if isinstance(outcome, ChannelClosed) else None
        raise fail(one_line(str(outcome)), ending.exit_status if ending else outcome.exit_status)

    async def _talk(self) -> ExitStatus | AcpRemoteError:
        connection: Connection | None = None
        try:
            with _logged_to(self._view), self._signals():
                async with self._opening() as connection:
                    ending, failure = await self._converse(connection)
        except AcpRemoteError as error:  # the command could not be started
            return error
        if self._was_terminated:
            return ExitStatus.TERMINATED
        if ending is None and failure is None:
            return ExitStatus.INTERRUPTED if self._was_busy else ExitStatus.OK
        self._last_words = connection.last_words()
        if failure is not None or ending is None or not ending.is_orderly:
            return connection.failure or failure or ChannelClosed(ending or Ending(EndingKind.INTERNAL))
        print("acpremote: the agent has ended", file=sys.stderr)
        return ExitStatus.OK

    async def _converse(self, connection: Connection) -> tuple[Ending | None, AcpRemoteError | None]:
        try:
            return await self._conversation.run(connection.channel), None
        except AcpRemoteError as error:
            return None, error

    def _interrupt(self) -> None:
        """Ctrl-C: the turn first, then an open question, then, pressed again, the chat."""
        if self._conversation.interrupt() or self._cancel_dialog():
            self._warned = time.monotonic()
        elif time.monotonic() - self._warned < AGAIN or self._conversation.is_busy:
            self._was_busy = self._conversation.is_busy
            self._conversation.leave()
        else:
            from acpremote.chat.view import Notice

            self._warned = time.monotonic()
            self._view.show(Notice("Press Ctrl-C again to leave."))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """A terminated chat leaves as usual: the agent is stopped, the terminal restored."""
        import asyncio

        loop = asyncio.get_running_loop()

        def leave() -> None:
            self._was_terminated = True
            self._conversation.leave()

        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, leave)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)


SetConversation = Callable[["Conversation"], None]


@contextlib.asynccontextmanager
async def _open_view(
    on_interrupt: Callable[[], None],
) -> AsyncIterator[tuple[View, SetConversation, Callable[[], bool]]]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from .chat_plain import PlainView

        plain = PlainView()
        for stream in (sys.stdin, sys.stdout):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # text files of ours

        def wait_for(conversation: Conversation) -> None:
            plain.wait_idle = conversation.wait_idle

        yield plain, wait_for, lambda: False
        return
    from .chat_terminal import TerminalView

    view = TerminalView(on_interrupt)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(view.run)
        try:
            yield view, lambda _: None, view.cancel_dialog
        finally:
            view.close()


@contextlib.contextmanager
def _logged_to(view: View) -> Iterator[None]:
    """Shows warnings (a lost connection, another try) in the conversation instead of across it."""
    from acpremote.chat.view import Notice

    class ToView(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            view.show(Notice(record.getMessage()))

    handler = ToView(logging.WARNING)
    logger = logging.getLogger("acpremote")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
