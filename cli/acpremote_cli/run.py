"""What every command shares: logging, the event loop, signals, and exceptions to exit statuses."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from acpremote.ending import ExitStatus
from acpremote.errors import AcpRemoteError

from .lines import Lines, lines_to
from .wording import explain

if TYPE_CHECKING:
    from acpremote.server import Server

__all__ = [
    "LogFormat",
    "LogLevel",
    "fail",
    "fail_by",
    "logging_to_stderr",
    "run",
    "serve_until_signal",
]

logger = logging.getLogger(__name__)

LARGE_BLOCK = 4 * 1024 * 1024

LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option(metavar="LEVEL", help="debug, info, warning or error.", case_sensitive=False),
]
LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option(metavar="FORMAT", help="text, or json: one object a line.", case_sensitive=False),
]

LOG_MEMBERS = ("link", "peer", "ending", "status", "frames_from_client", "frames_from_agent", "address")
"""What records may say besides their message; members of a JSON log line."""


class _JsonLines(logging.Formatter):
    """One JSON object a line, for machines that read logs."""

    def format(self, record: logging.LogRecord) -> str:
        """Puts the message and whatever else the record says into one object."""
        import json

        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        document = {"time": time, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        told = {name: getattr(record, name, None) for name in LOG_MEMBERS}
        return json.dumps({**document, **{name: each for name, each in told.items() if each is not None}})


_FORMATS: dict[str, logging.Formatter] = {
    "text": logging.Formatter("acpremote: %(message)s"),
    "json": _JsonLines(),
}
_formatter = _FORMATS["text"]
_stderr: Lines | None = None
"""Where lines go while the log does; otherwise they are printed."""


def say(message: str, level: int = logging.INFO, **members: object) -> None:
    """Prints one line on stderr, in the format of the log, whatever the log's level."""
    record = logging.makeLogRecord({"msg": message, "levelno": level, **members})
    record.levelname = logging.getLevelName(level)
    line = _formatter.format(record)
    if _stderr is not None:
        _stderr.put(line)
    else:
        print(line, file=sys.stderr, flush=True)


def fail(message: str, status: ExitStatus) -> typer.Exit:
    """Says why on stderr and returns the exit to raise."""
    say(message, logging.ERROR)
    return typer.Exit(status)


def fail_by(error: Exception, *, from_environment: bool = False) -> typer.Exit:
    """Says an error of ours, with flags named as such, and returns the exit to raise."""
    status = error.exit_status if isinstance(error, AcpRemoteError) else ExitStatus.USAGE
    return fail(explain(error, from_environment=from_environment), status)


@contextmanager
def logging_to_stderr(level: str, log_format: str = "text") -> Iterator[None]:
    """Sends the log to stderr, in such a way that nobody who does not read it can block us."""
    global _formatter, _stderr
    _formatter = _FORMATS[log_format]
    root = logging.getLogger()
    with lines_to(sys.stderr) as lines:
        _stderr = lines
        handler = _ToLines(lines)
        root.addHandler(handler)
        root.setLevel(level.upper())
        try:
            yield
        finally:
            _stderr = None
            root.removeHandler(handler)


class _ToLines(logging.Handler):
    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put(_formatter.format(record))
        except Exception:  # noqa: BLE001 -- a mistake in a log call must not end what it was telling of
            self.handleError(record)


def run(main: Callable[[], Awaitable[ExitStatus]]) -> None:
    """Runs a command in the event loop and exits with its status."""
    _keep_freed_memory()
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            status = runner.run(_awaited(main))
    except AcpRemoteError as error:
        raise fail_by(error) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(ExitStatus.TERMINATED) from None
    if status:
        raise typer.Exit(status)


def _keep_freed_memory() -> None:
    """Spares a busy relay a third of its time, in which the system takes pages back and gives them again.

    glibc returns freed memory above a bound, which grows to twice the largest block that was ever freed
    (mallopt(3), M_TRIM_THRESHOLD). Batches are of the order of the bound that it begins with.
    """
    bytes(LARGE_BLOCK)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no build for this platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _awaited(main: Callable[[], Awaitable[ExitStatus]]) -> ExitStatus:
    """Lets SIGTERM cancel the command as the runner lets SIGINT, so that it can say goodbye."""
    task = asyncio.current_task()
    assert task is not None
    for number in _terminating():
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await main()


def _terminating() -> list[signal.Signals]:
    """SIGTERM, and what a terminal that is closed sends; `nohup` has that ignored."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]


def _make_room(links: int) -> None:
    from acpremote.transport import descriptors

    fitting = descriptors.make_room(links)
    if fitting < links:
        logger.warning(
            "only about %d of %d connections fit into the limit of open files (ulimit -n)", fitting, links
        )


def _every_address(host: str) -> str:
    """Of which kind an address stands for all of the machine's; nothing if it can be dialled."""
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    return f"IPv{address.version}" if address.is_unspecified else ""


async def serve_until_signal(server: Server) -> ExitStatus:
    """Says where the server listens and serves until a signal says to stop; a second one is immediate."""
    say(f"listening on {server.address}", address=server.address)
    if kind := _every_address(urlsplit(server.address).hostname or ""):
        say(
            f"that is every {kind} address of this machine: clients say one of them in its place, "
            "or a name given with --allow-host"
        )
    if server.tls_fingerprint is not None:
        say(f"certificate SHA-256 {server.tls_fingerprint}, for --tls-pin")
    _make_room(server.max_connections)
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def on_signal(number: int) -> None:
        if received:
            server.abort()
        else:
            server.close()
        received.append(number)

    for number in (signal.SIGINT, *_terminating()):
        loop.add_signal_handler(number, on_signal, number)
    await server.wait_closed()
    if server.failure is not None:
        raise server.failure
    if len(received) == 1:
        return ExitStatus.OK
    return ExitStatus.INTERRUPTED if received[0] == signal.SIGINT else ExitStatus.TERMINATED
