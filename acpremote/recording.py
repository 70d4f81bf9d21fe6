"""Recordings: what passed over each link, in files of JSON lines that only their owner can read.

    20261130T113100Z-4711-1.000.jsonl
    {"time":"2026-11-30T11:31:00.123456Z","link":"1","peer":"127.0.0.1 port 50000"}
    {"time":"2026-11-30T11:31:00.223456Z","to":"agent","frame":{"jsonrpc":"2.0","id":0, …}}
    {"time":"2026-11-30T11:31:09.323456Z","ending":"client_left","reason":"the client has gone"}

A frame stands last in its line and is written as it was sent, byte for byte, unless members of it are to be
redacted. What is recorded is what the relay sends: noise is not, answers that the relay made itself are.
Lines are written at once, into the system's cache; when that fails, the recording ends, the log says so, and
the link goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from .ending import Ending
from .errors import ConfigError

__all__ = ["Entry", "Recorder", "Recordings", "read_recording", "redact"]

logger = logging.getLogger(__name__)

PARTS = 16
"""A recording goes on in another file when one holds this part of what all of them may."""

_NAME = re.compile(r"\d{8}T\d{6}Z-\d+-[\w-]+\.\d{3,}\.jsonl")
_FRAME = b',"frame":'
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+')
_REDACTED = b'"[redacted]"'


class Recordings:
    """All recordings of one server, in one directory that no other server writes to."""

    def __init__(self, directory: Path, *, limit: int, redacted: Collection[str] = ()) -> None:
        """`limit`: bytes of all files together; the oldest are deleted. `redacted`: names of members.

        Raises:
            ConfigError: the directory cannot be made or written to.
        """
        self.directory = directory
        self._limit = limit
        self.part_size = limit // PARTS
        self.redacted = frozenset(redacted)
        self._open: set[Path] = set()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot record to {directory}: {error.strerror}") from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(f"cannot record to {directory}: it cannot be written to")

    def record(self, link_id: str, peer: str) -> Recorder:
        """Begins the recording of one link."""
        return Recorder(self, link_id, peer)

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


class Recorder:
    """Records one link."""

    def __init__(self, recordings: Recordings, link_id: str, peer: str) -> None:
        self._recordings = recordings
        self._link_id = link_id
        self._stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}-{link_id}"
        self._head = {"time": _now(), "link": link_id, "peer": peer}
        self._part = 0
        self._size = 0
        self._file: tuple[Path, BinaryIO] | None = None
        self._failed = False

    @property
    def path(self) -> Path:
        """The file that is or was written last."""
        return self._recordings.directory / f"{self._stem}.{max(0, self._part - 1):03}.jsonl"

    def sent(self, side: str, frames: Iterable[bytes]) -> None:
        """Records frames that are on their way to `side`."""
        redacted = self._recordings.redacted
        head = f'{{"time":"{_now()}","to":"{side}"'.encode() + _FRAME
        lines = [head + (redact(frame, redacted) if redacted else frame) + b"}\n" for frame in frames]
        self._write(lines)

    def ended(self, ending: Ending) -> None:
        """Ends the recording with why the link ended. A link that never carried a frame leaves no file."""
        if self._file is None:
            return
        self._write([_line(ending=ending.kind.value, reason=ending.reason, status=ending.status)])
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
        self._file[1].write(_line(**self._head, part=self._part or None))
        self._part, self._size = self._part + 1, 0

    def _close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            self._recordings.close(*file)
        except OSError as error:  # what was buffered could not be written
            logger.error("link %s: its recording lacks the end: %s", self._link_id, error.strerror or error)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _line(**members: object) -> bytes:
    document = {"time": _now()} | {name: value for name, value in members.items() if value is not None}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def redact(frame: bytes, names: Collection[str]) -> bytes:
    """Replaces the value of every member with one of these names, at any depth; the rest stays as it is."""
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
