"""Runs our own programs and servers for tests: in a thread, or as a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvloop

from acpremote.command import serve_stdio_command
from acpremote.options import CommandOptions, ServerOptions, TransportOptions
from acpremote.server import Server

MAIN = "from acpremote_cli.main import main; main()"
FAST_PYTHON = [sys.executable, "-I", "-S", "-c"]
"""For agents: starts in a few milliseconds."""


class Exposed:
    """A server in a thread with an event loop of its own."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop

    @property
    def port(self) -> int:
        assert self.server.port is not None
        return self.server.port

    @property
    def url(self) -> str:
        return self.server.address

    @property
    def links(self) -> int:
        return self.server.link_count


@contextlib.contextmanager
def exposed(
    command: Sequence[str],
    *,
    options: TransportOptions | None = None,
    server_options: ServerOptions | None = None,
    uses_uvloop: bool = True,
    **command_options: Any,
) -> Iterator[Exposed]:
    """Serves `command` until the block is left."""
    started: list[Exposed | BaseException] = []
    ready, leave = threading.Event(), asyncio.Event()

    async def serve() -> None:
        try:
            server = await serve_stdio_command(
                CommandOptions(command=command, **{"terminate_timeout": 0.5, **command_options}),
                options=options,
                server_options=server_options,
            )
        except BaseException as error:
            started.append(error)
            ready.set()
            return
        started.append(Exposed(server, asyncio.get_running_loop()))
        ready.set()
        async with server:
            await leave.wait()

    def run() -> None:
        factory = uvloop.new_event_loop if uses_uvloop else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    outcome = started[0]
    if isinstance(outcome, BaseException):
        thread.join()
        raise outcome
    try:
        yield outcome
    finally:
        outcome.loop.call_soon_threadsafe(leave.set)
        thread.join(15)
        assert not thread.is_alive(), "the server did not stop"


@contextlib.contextmanager
def command(
    *arguments: str, python: Sequence[str] = (), env: dict[str, str] | None = None, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `acpremote` with arguments as a child process with pipes; it is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, *python, "-c", MAIN, *arguments],
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        env={**os.environ, **(env or {})},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


@contextlib.contextmanager
def expose_command(*arguments: str, **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Runs `acpremote expose --port 0 …` and gives its port."""
    with command("expose", "--port", "0", *arguments, **options) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("acpremote: listening on ws://"), line + process.stderr.read().decode()
        yield process, int(line.split("/acp")[0].rsplit(":", 1)[1])


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def processes_with(marker: str) -> list[int]:
    """The living processes whose environment or command line holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "environ").read_bytes() and alive(int(entry.name)):
                    found.append(int(entry.name))
    return found


def interrupt(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Sends a signal to a process we started."""
    process.send_signal(number)
