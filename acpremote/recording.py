"""Recordings: what passed over each link, in files of JSON lines that only their owner can read.

    20261130T113100Z-4711-1.000.jsonl
    {"time":"2026-11-30T11:31:00.123456Z","link":"1","peer":"127.0.0.1 port 50000"}
    {"time":"2026-11-30T11:31:00.223456Z","to":"agent","frame":{"jsonrpc":"2.0","id":0, …}}
    {"time":"2026-11-30T11:31:05.323456Z","note":"the connection was lost; …"}
    {"time":"2026-11-30T11:31:09.323456Z","ending":"client_left","reason":"the client has gone"}

A frame stands last in its line and is written as it was sent, byte for byte, unless members of it are to be
redacted. What is recorded is what the relay sends: noise is not, answers that the relay made itself are. A
line with `note` says that the client's connection was lost or came back, one with `left_out` how many frames
are missing there.

A disk may be slow or hang, and redacting 50 kB takes as long as relaying a hundred frames, so a thread does
both: links give their frames to a queue and go on. What would not fit into the queue is left out and
counted. Lines go into the system's cache as soon as they are written, so that a relay that is killed loses
what was queued in its last milliseconds and nothing else; when writing fails, the recording ends, the log
says so, and the link goes on.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from .ending import Ending
from .errors import ConfigError

__all__ = ["Entry", "Recorder", "Recordings", "read_recording", "redact"]

logger = logging.getLogger(__name__)

PARTS = 16
"""A recording goes on in another file when one holds this part of what all of them may."""

QUEUE_BYTES = 32 * 1024 * 1024
"""Bytes that may wait for the disk, of all links of a server together."""

_JOB_BYTES = 256
"""Bytes that whatever waits takes beside its frames."""

FINISH_TIMEOUT = 1.0
"""Seconds that the disk has, when the server has ended, to take what is queued."""

_NAME = re.compile(r"\d{8}T\d{6}Z-\d+-[\w-]+\.\d{3,}\.jsonl")
_FRAME = b',"frame":'
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]+')
_REDACTED = b'"[redacted]"'


class Recordings:
    """All recordings of one server, in one directory that no other server writes to."""

    def __init__(
        self,
        directory: Path,
        *,
        limit: int,
        redacted: Collection[str] = (),
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        """`limit`: bytes of all files together; the oldest are deleted. `redacted`: names of members.

        Raises:
            ConfigError: the directory cannot be made or written to.
        """
        self.directory = directory
        self._limit = limit
        self.part_size = limit // PARTS
        self.redacted = frozenset(redacted)
        self._open: set[Path] = set()
        self.writer = _Writer(queue_bytes)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot record to {directory}: {error.strerror}") from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(f"cannot record to {directory}: it cannot be written to")

    def record(self, link_id: str, peer: str) -> Recorder:
        """Begins the recording of one link."""
        return Recorder(self, link_id, peer)

    def finish(self) -> None:
        """Waits for a moment until everything is written, and ends the thread that writes."""
        self.writer.finish()

    def open(self, name: str) -> tuple[Path, BinaryIO]:
        """Makes a file, after room was made for it."""
        self._make_room()
        path = self.directory / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        stream = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._open.add(path)
        return path, stream

    def close(self, path: Path, stream: BinaryIO) -> None:
        """Closes a file; from now on it may be deleted to make room."""
        self._open.discard(path)
        stream.close()

    def _make_room(self) -> None:
        sizes: list[tuple[float, Path, int]] = []
        for path in self.directory.iterdir():
            if _NAME.fullmatch(path.name):
                status = path.stat()
                sizes.append((status.st_mtime, path, status.st_size))
        excess = sum(size for _, _, size in sizes) + self.part_size - self._limit
        for _, path, size in sorted(sizes):
            if excess <= 0:
                return
            if path not in self._open:
                path.unlink(missing_ok=True)
                excess -= size


class _Writer:
    """A thread that does one job after another, and a queue bounded in bytes in front of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, size: int, job: Callable[[], None], *, always: bool = False) -> bool:
        """Queues a job; False if there is no room for its bytes."""
        with self._lock:
            if self._size and self._size + size > self._limit and not always:
                return False
            self._size += size
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="acpremote recordings", daemon=True)
            self._thread.start()
        self._jobs.put((size, job))
        return True

    def _run(self) -> None:
        while self._thread is not None:
            size, job = self._jobs.get()
            try:
                job()
            except Exception:
                logger.exception("a recording failed")
            with self._lock:
                self._size -= size

    def _end(self) -> None:
        self._thread = None

    def finish(self, timeout: float = FINISH_TIMEOUT) -> None:
        """Waits until everything queued is done, and ends the thread."""
        thread = self._thread
        if thread is None:
            return
        self.put(0, self._end, always=True)
        thread.join(timeout)
        if thread.is_alive():
            logger.error("the recordings lack their ends: the disk took nothing for %g s", timeout)


class Recorder:
    """Records one link. What the link calls returns at once; the rest runs in the thread that writes."""

    def __init__(self, recordings: Recordings, link_id: str, peer: str) -> None:
        self._recordings = recordings
        self._link_id = link_id
        self._stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}-{link_id}"
        self._head = {"link": link_id, "peer": peer}
        self._began = time.time()
        self._part = 0
        self._size = 0
        self._file: tuple[Path, BinaryIO] | None = None
        self._failed = False
        self._left_out = 0
        self._has_said_so = False

    @property
    def path(self) -> Path:
        """The file that is or was written last."""
        return self._recordings.directory / f"{self._stem}.{max(0, self._part - 1):03}.jsonl"

    # -- called by the link -----------------------------------------------------------------------------

    def sent(self, side: str, lines: bytes, count: int) -> None:
        """Records frames, joined by LF, that are on their way to `side`."""
        if self._failed:
            return
        job = partial(self._record, time.time(), side, lines, self._left_out)
        size = _JOB_BYTES + len(lines)
        if self._recordings.writer.put(size, job):
            self._left_out = 0
            return
        self._left_out += count
        if not self._has_said_so:
            self._has_said_so = True
            logger.warning("link %s: its recording has gaps: the disk is slower than the link", self._link_id)

    def noted(self, text: str) -> None:
        """Records that the client's connection was lost or came back."""
        self._recordings.writer.put(_JOB_BYTES, partial(self._tell, time.time(), {"note": text}), always=True)

    def ended(self, ending: Ending) -> None:
        """Ends the recording with why the link ended. A link that never carried a frame leaves no file."""
        job = partial(self._end, time.time(), ending, self._left_out)
        self._recordings.writer.put(_JOB_BYTES, job, always=True)

    # -- in the thread ----------------------------------------------------------------------------------

    def _record(self, now: float, side: str, lines: bytes, left_out: int) -> None:
        redacted = self._recordings.redacted
        stamp = _stamp(now)
        if left_out:
            self._tell(now, {"left_out": left_out})
        head = f'{{"time":"{stamp}","to":"{side}"'.encode() + _FRAME
        frames = lines.split(b"\n")
        self._write([head + (redact(frame, redacted) if redacted else frame) + b"}\n" for frame in frames])

    def _tell(self, now: float, members: Mapping[str, object]) -> None:
        if self._file is not None:
            self._write([_line(now, members)])

    def _end(self, now: float, ending: Ending, left_out: int) -> None:
        if left_out:
            self._tell(now, {"left_out": left_out})
        told = {"ending": ending.kind.value, "reason": ending.reason, "status": ending.status}
        self._tell(now, told)
        self._close()

    def _write(self, lines: Sequence[bytes]) -> None:
        if self._failed:
            return
        try:
            for line in lines:
                if self._file is None or (self._size and self._size + len(line) > self._recordings.part_size):
                    self._open_part()
                assert self._file is not None
                self._file[1].write(line)
                self._size += len(line)
            if self._file is not None:
                self._file[1].flush()
        except OSError as error:
            self._failed = True
            logger.error("link %s: its recording ends here: %s", self._link_id, error.strerror or error)
            self._close()

    def _open_part(self) -> None:
        self._close()
        self._file = self._recordings.open(f"{self._stem}.{self._part:03}.jsonl")
        self._file[1].write(_line(self._began, {**self._head, "part": self._part or None}))
        self._part, self._size = self._part + 1, 0

    def _close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            self._recordings.close(*file)
        except OSError as error:  # what was buffered could not be written
            logger.error("link %s: its recording lacks the end: %s", self._link_id, error.strerror or error)


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _line(now: float, members: Mapping[str, object]) -> bytes:
    document = {"time": _stamp(now)} | {name: value for name, value in members.items() if value is not None}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def redact(frame: bytes, names: Collection[str]) -> bytes:
    """Replaces the value of every member with one of these names, at any depth; the rest stays as it is."""
    if b"\\" not in frame and not any(name.encode("utf-8", "surrogatepass") in frame for name in names):
        return frame
    pieces: list[bytes] = []
    done = 0
    tokens = _TOKEN.finditer(frame)
    string: bytes | None = None
    for token in tokens:
        text = token.group()
        if text == b":" and string is not None and _text_of(string) in names:
            start, end = _skip_value(tokens)
            pieces += [frame[done:start], _REDACTED]
            done = end
        string = text if text.startswith(b'"') else None
    return b"".join([*pieces, frame[done:]])


def _text_of(string: bytes) -> str:
    if b"\\" not in string:
        return string[1:-1].decode("utf-8", "replace")
    try:
        return str(json.loads(string))
    except ValueError:
        return ""


def _skip_value(tokens: Iterator[re.Match[bytes]]) -> tuple[int, int]:
    """Start and end of the value that the next token begins."""
    start, end, depth = None, 0, 0
    for token in tokens:
        text, end = token.group(), token.end()
        start = token.start() if start is None else start
        depth += (text in (b"{", b"[")) - (text in (b"}", b"]"))
        if depth <= 0:
            break
    return end if start is None else start, end


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a recording: its own members, and the frame if it has one."""

    time: datetime
    members: dict[str, object]
    frame: bytes | None


def read_recording(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Reads a recording; a last line that was cut off is left out.

    Raises:
        ConfigError: this is not a recording.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"}\n"):
            return
        head, mark, frame = line.partition(_FRAME)
        try:
            members = json.loads(head + b"}" if mark else head)
            time = datetime.fromisoformat(members["time"])
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"line {number} is not a line of a recording") from None
        yield Entry(time, members, frame[:-2] if mark else None)
