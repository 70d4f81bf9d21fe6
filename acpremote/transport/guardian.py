"""Stops the agents of a relay that was killed.

A process that dies of SIGKILL cannot clean up. The guardian is one tiny process per server that holds the
reading end of a pipe and a list of process groups. When the pipe closes, whatever closed it, it stops the
groups that are still listed. A process that made a session of its own is beyond it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

__all__ = ["Guardian"]

_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_PROGRAM = """
import os, signal, sys, time
groups = set()
for line in sys.stdin.buffer:
    (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
def send(number):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)
send(signal.SIGTERM)
deadline = time.monotonic() + float(sys.argv[1])
while groups and time.monotonic() < deadline:
    time.sleep(0.02)
    send(0)
send(signal.SIGKILL)
"""


class Guardian:
    """Lists process groups with a process that outlives us. Started at the first group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def watch(self, group: int) -> None:
        """Adds a process group."""
        if self._process is None:
            self._start()
        self._tell(b"+%d\n" % group)

    def _start(self) -> None:
        # Not `stdin=PIPE`: that leaks the pipe when /dev/null cannot be opened any more.
        theirs, ours = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_GRACE)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._pipe = ours

    def forget(self, group: int) -> None:
        """Removes a process group, once it is gone."""
        self._tell(b"-%d\n" % group)

    def _tell(self, line: bytes) -> None:
        # Without its guardian the relay still works; only its own SIGKILL would then leave agents behind.
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, line)

    def close(self) -> None:
        """Ends the guardian, which takes milliseconds when no group is listed. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            os.close(self._pipe)
            process.wait()
