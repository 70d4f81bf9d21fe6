"""An agent's process and the channel over its pipes.

The agent runs in a session of its own, so that one signal reaches it and what it started. Its exit is
learned from a pidfd, never from the end of its pipes: a grandchild may hold those for its lifetime.

    RUNNING ── it exits ───────────────► EXITED: TERM to what is left of its group, then KILL
       └────── aclose(): close stdin, wait, TERM the group, wait, KILL the group ──► EXITED

Every wait has a bound. Pipes are made here and not by the event loop's subprocess support, because uvloop
gives the child sockets instead (`cat /dev/stdin` then fails in the child).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

import anyio

from ..ending import Ending, EndingKind
from ..errors import AgentStartError, ChannelClosed, ConfigError
from ..options import CommandOptions
from . import descriptors
from .guardian import Guardian
from .pipe import LineReader, LineWriter
from .stderr import StderrLog

__all__ = ["ProcessChannel", "check_command", "spawn"]

EXIT_WAIT = 1.0
"""Seconds an agent has to exit after it closed its output."""

QUIET = 0.25
"""Seconds without output after which an exited agent's output counts as ended, though someone holds it."""

KILL_WAIT = 1.0
"""Seconds the system has to take a killed process away."""

_GROUP_POLL = 0.01


def check_command(options: CommandOptions) -> None:
    """Makes sure that the command can be run, so that a mistake shows at start.

    Raises:
        ConfigError: the program or the working directory does not exist.
    """
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise ConfigError(f"the agent's working directory does not exist: {os.fspath(options.cwd)}")
    program = options.command[0]
    search = options.env.get("PATH", os.environ.get("PATH", os.defpath))
    path = os.path.join(options.cwd or "", program) if "/" in program else program
    if shutil.which(path, path=search) is None:
        raise ConfigError(f"command not found, or not executable: {program}")


async def spawn(
    options: CommandOptions,
    *,
    max_size: int,
    stall_timeout: float,
    guardian: Guardian | None = None,
) -> ProcessChannel:
    """Starts the agent.

    It inherits our environment, from which our own secrets were removed when they were read.

    Raises:
        AgentStartError: the command could not be started.
    """
    process, pipes = _start(options, {**os.environ, **options.env})
    try:
        if guardian is not None:
            guardian.watch(process.pid)
        channel = ProcessChannel(process, options, max_size, stall_timeout, guardian)
    except OSError as error:  # no descriptor is left, no process
        pipes.close()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise _not_started(options, error) from error
    await channel.connect(pipes.stdin, pipes.stdout, pipes.stderr)
    return channel


def _not_started(options: CommandOptions, error: OSError) -> AgentStartError:
    reason = error.strerror or str(error)
    return AgentStartError(f"the agent could not be started: {options.command[0]}: {reason}")


def _start(options: CommandOptions, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], _Pipes]:
    """Starts the process; blocks for the millisecond that the system's vfork and exec take."""
    child, ours = _Pipes(), _Pipes()
    try:
        child.stdin, ours.stdin = os.pipe()
        ours.stdout, child.stdout = os.pipe()
        ours.stderr, child.stderr = os.pipe()
        process = subprocess.Popen(
            options.command,
            stdin=child.stdin,
            stdout=child.stdout,
            stderr=child.stderr,
            cwd=options.cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise _not_started(options, error) from error
    finally:
        child.close()
    descriptors.give_back(process.pid)
    return process, ours


class _Pipes:
    """Three descriptors, closed together."""

    def __init__(self) -> None:
        self.stdin = self.stdout = self.stderr = -1

    def close(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)


class ProcessChannel:
    """A channel over an agent's pipes; made by `spawn`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        options: CommandOptions,
        max_size: int,
        stall_timeout: float,
        guardian: Guardian | None,
    ) -> None:
        self.pid = process.pid
        self.status: int | None = None
        """Exit status once the agent has exited, negative for a signal number."""
        self.exited = anyio.Event()
        self._process = process
        self._timeout = options.terminate_timeout
        self._guardian = guardian
        self._stdout = LineReader("the agent", max_size)
        self._stdin = LineWriter("the agent", stall_timeout)
        self._stderr = StderrLog(process.pid, shown=options.stderr_mode == "inherit")
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._was_gone = False
        self._watch_exit()

    async def connect(self, stdin: int, stdout: int, stderr: int) -> None:
        """Hands our ends of the pipes to the event loop, which closes them."""
        for descriptor in (stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
        connect = self._loop.connect_read_pipe
        await self._loop.connect_write_pipe(lambda: self._stdin, os.fdopen(stdin, "wb", 0))
        await connect(lambda: self._stdout, os.fdopen(stdout, "rb", 0))
        self._stderr_transport, _ = await connect(lambda: self._stderr, os.fdopen(stderr, "rb", 0))

    # -- exit -------------------------------------------------------------------------------------------

    def _watch_exit(self) -> None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # other systems than Linux, old kernels, sandboxes
            threading.Thread(target=self._wait_in_thread, daemon=True).start()
        else:
            self._loop.add_reader(pidfd, self._pidfd_readable, pidfd)

    def _pidfd_readable(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._on_exit()

    def _wait_in_thread(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        # The group is signalled before its leader is reaped: until then its number cannot be used again.
        self._signal(signal.SIGTERM)
        self.status = self._process.wait()
        self.exited.set()
        if not self._group_is_gone:  # asked now, before the number can be another's
            self._later(self._timeout, self._signal, signal.SIGKILL)
        self._later(QUIET, self._end_when_quiet, self._stdout.bytes_received)

    def _later(self, delay: float, call: Callable[[int], None], argument: int) -> None:
        self._timers.append(self._loop.call_later(delay, call, argument))

    def _end_when_quiet(self, received: int) -> None:
        """Ends the output of an exited agent that a grandchild in another session still holds open."""
        if self._stdout.ending is not None:
            return
        if self._stdout.is_quiet and self._stdout.bytes_received == received:
            self._stdout.end(Ending(EndingKind.DONE, "the agent closed its output"))
        else:
            self._later(QUIET, self._end_when_quiet, self._stdout.bytes_received)

    def _signal(self, number: int) -> None:
        if not self._group_is_gone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    @property
    def _group_is_gone(self) -> bool:
        """Whether no process of the group is left. The kernel keeps the number so long, not longer."""
        if not self._was_gone:
            self._reap()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._was_gone = True
            except PermissionError:
                return False
        return self._was_gone

    def _reap(self) -> None:
        """The first process of a container inherits orphans: they stay in their group until it takes them."""
        if self.status is not None and os.getpid() == 1:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-self.pid, os.WNOHANG)[0]:
                    pass

    # -- the channel ------------------------------------------------------------------------------------

    async def receive(self) -> Sequence[bytes]:
        """See `Channel.receive`. The ending tells exit status or signal."""
        try:
            return await self._stdout.receive()
        except ChannelClosed as closed:
            if closed.ending.kind is not EndingKind.DONE:
                raise
        await self._wait_exited(EXIT_WAIT)
        raise ChannelClosed(self._exit_ending())

    async def send(self, frames: Sequence[bytes]) -> None:
        """See `Channel.send`.

        Frames that come too late for an agent that exits are dropped here without an error: `receive` tells
        how the agent ended, after the last frame that it wrote.
        """
        try:
            await self._stdin.send(frames)
        except ChannelClosed as closed:
            if closed.ending.kind is EndingKind.LOST:
                await self._wait_exited(EXIT_WAIT)
            if self.status is None:
                raise

    def _exit_ending(self) -> Ending:
        status = self.status
        if status is None:
            return Ending(EndingKind.AGENT_FAILED, "the agent closed its output and did not exit")
        if status == 0:
            return Ending(EndingKind.DONE, "the agent exited with status 0", 0)
        if status > 0:
            reason = f"the agent exited with status {status}"
        else:
            reason = f"the agent was ended by {_signal_name(-status)}"
        return Ending(EndingKind.AGENT_FAILED, reason, status)

    @property
    def stderr_tail(self) -> list[str]:
        """The last lines of the agent's standard error."""
        return self._stderr.tail

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. Returns when the agent and its group are gone.

        The bounds add up to four times `terminate_timeout` and two seconds.
        """
        with anyio.CancelScope(shield=True):
            await self._stdin.finish(self._timeout)
            self._stdout.end(Ending(EndingKind.DONE, "closed by this side"))
            await self._wait_exited(self._timeout)
            if self.status is None:
                self._signal(signal.SIGTERM)
                await self._wait_exited(self._timeout)
            if self.status is None:
                self._signal(signal.SIGKILL)
                await self._wait_exited(KILL_WAIT)
            await self._wait_group(self._timeout)
            self._signal(signal.SIGKILL)
            await self._wait_group(KILL_WAIT)
            self._release()

    def abort(self) -> None:
        """See `Channel.abort`: kills the group."""
        self._stdin.abort()
        self._signal(signal.SIGKILL)

    async def _wait_exited(self, timeout: float) -> None:
        with anyio.move_on_after(timeout):
            await self.exited.wait()

    async def _wait_group(self, timeout: float) -> None:
        """Waits until the group is gone. The system has no event for that, hence the poll."""
        with anyio.move_on_after(timeout):
            while not self._group_is_gone:  # noqa: ASYNC110 -- there is nothing to wait for
                await anyio.sleep(_GROUP_POLL)

    def _release(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._stdin.abort()
        self._stderr_transport.close()
        if self._guardian is not None and self._group_is_gone:
            self._guardian.forget(self.pid)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
