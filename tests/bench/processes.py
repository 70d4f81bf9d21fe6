"""Processes under measurement: start them, ask /proc what they cost, and leave none behind. Linux only."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LISTEN_SECONDS = 20.0
ANSWER_SECONDS = 180.0
STOP_SECONDS = 10.0
NOT_RELAYS = {"bench-agent", "bench-load"}
"""Command names that are never counted as part of a relay."""


class BenchError(Exception):
    """A measurement could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a load client reports of one command."""

    seconds: float
    messages: int
    bytes: int
    median: float


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextmanager
def server(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a relay's listening half, from when it listens on `port`. It and its group are gone afterwards."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _wait_listening(process, port, errors.fileno())
            yield process
        finally:
            _stop(process)


class Load:
    """A load client: `load.c`, or a Python program that speaks the same commands (see `load.c`)."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the client
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)  # it closes its links in order, so that no relay waits for them
        _stop(self._process)
        self._process.stdout.close()
        self._errors.close()

    def ask(self, command: str) -> Answer:
        """Performs one command.

        Raises:
            BenchError: the command failed, or nothing came back in time.
        """
        self.tell(command)
        return self.answer()

    def tell(self, command: str) -> None:
        """Starts one command; `answer` must follow."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

    def answer(self) -> Answer:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise BenchError(_last_words(self._errors.fileno()) or "the load client gave no answer")
        fields: dict[str, object] = json.loads(line)
        if "error" in fields:
            raise BenchError(str(fields["error"]))
        return Answer(**fields)  # type: ignore[arg-type]  # our own programs' output


def relay_processes(roots: Sequence[int]) -> list[int]:
    """The processes of these trees that relay: all but agents and load clients."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for pid, name, parent in _all_processes():
        children.setdefault(parent, []).append(pid)
        names[pid] = name
    found, queue = [], list(roots)
    while queue:
        pid = queue.pop()
        queue += children.get(pid, [])
        if pid in names and names[pid] not in NOT_RELAYS:
            found.append(pid)
    return found


def cpu_seconds(roots: Sequence[int]) -> float:
    """Processor time used so far by the relays in these trees."""
    total = 0
    for pid in relay_processes(roots):
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(task.read_text().split()[0])  # ns; the ticks of /proc/PID/stat are too coarse
    return total / 1e9


def memory_kb(roots: Sequence[int]) -> int:
    """Proportional set size of the relays in these trees, in kB."""
    return sum(_kb_field(pid, "smaps_rollup", "Pss:") for pid in relay_processes(roots))


def reset_peak(roots: Sequence[int]) -> None:
    """Makes `peak_kb` count from now."""
    for pid in relay_processes(roots):
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_kb(roots: Sequence[int]) -> int:
    """Sum of the highest resident sizes since `reset_peak`, in kB."""
    return sum(_kb_field(pid, "status", "VmHWM:") for pid in relay_processes(roots))


def _kb_field(pid: int, file: str, field: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    return 0


def _all_processes() -> Iterator[tuple[int, str, int]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_text()
                name, rest = stat[stat.index("(") + 1 :].rsplit(")", 1)
                yield int(entry), name, int(rest.split()[1])


def _wait_listening(process: subprocess.Popen[bytes], port: int, errors: int) -> None:
    # Asking /proc, because a probing connection would make some of the relays start an agent.
    until = time.monotonic() + LISTEN_SECONDS
    while not _listens(port):
        if process.poll() is not None:
            raise BenchError(f"ended with status {process.returncode}: {_last_words(errors)}")
        if time.monotonic() > until:
            raise BenchError(f"does not listen after {LISTEN_SECONDS:.0f} s: {_last_words(errors)}")
        time.sleep(0.001)


def _listens(port: int) -> bool:
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
    return False


def _last_words(errors: int) -> str:
    size = os.lseek(errors, 0, os.SEEK_END)
    text = os.pread(errors, 2000, max(0, size - 2000)).decode("utf-8", "replace")
    return text.strip().rpartition("\n")[2]


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
