"""`acpremote show`: prints a recording for people: who, when, what, and how long it took."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from acpremote.ending import ExitStatus
from acpremote.errors import ConfigError
from acpremote.recording import Entry, read_recording

from .run import fail

__all__ = ["show"]

_WIDTH = 100
_TEXTS = ("text", "content", "title", "message", "prompt", "stopReason", "path", "cwd", "uri")
"""Members that say most about a frame, the most telling first."""


_NONE = msgspec.Raw(b"")


class _Frame(msgspec.Struct):
    id: msgspec.Raw = _NONE
    method: str | None = None
    params: msgspec.Raw = _NONE
    result: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Parts of one recording, in order.")],
    *,
    frames: Annotated[
        bool, typer.Option("--frames", help="Print the frames themselves, as they were sent.")
    ] = False,
) -> None:
    """Print what --record has recorded: when, who to whom, what, and how long an answer took."""
    try:
        with ExitStack() as stack:
            for line in _Telling(whole=frames).lines(_entries(files, stack)):
                print(line)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # `| head` has seen enough
            sys.stdout = None  # the interpreter would flush it once more
            raise typer.Exit(ExitStatus.OK) from None
        raise fail(f"cannot read {error.filename}: {error.strerror}", ExitStatus.USAGE) from None
    except ConfigError as error:
        raise fail(str(error), ExitStatus.USAGE) from None


def _entries(files: list[Path], stack: ExitStack) -> Iterator[Entry]:
    for file in files:
        try:
            yield from read_recording(stack.enter_context(file.open("rb")))
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None


class _Telling:
    """Remembers when the recording began and which requests wait for their answers."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._began: datetime | None = None
        self._asked: dict[tuple[object, bytes], tuple[str, datetime]] = {}

    def lines(self, entries: Iterator[Entry]) -> Iterator[str]:
        for entry in entries:
            if entry.members.get("part") and self._began:
                continue  # the head of a later part says nothing new
            self._began = self._began or entry.time
            after = (entry.time - self._began).total_seconds()
            yield f"{after:+10.3f} s  {self._line(entry)}"

    def _line(self, entry: Entry) -> str:
        members = entry.members
        if entry.frame is not None:
            arrow = "client → agent" if members.get("to") == "agent" else "client ← agent"
            shown = _printable(entry.frame.decode("utf-8", "replace"))
            return f"{arrow}  {shown if self._whole else self._summary(entry, entry.frame)}"
        if "ending" in members:
            waiting = [method for method, _ in self._asked.values()]
            left = f"; without an answer: {', '.join(waiting)}" if waiting else ""
            return f"ended ({_text(members['ending'])}): {_text(members.get('reason'))}{left}"
        if "left_out" in members:
            return f"{_text(members['left_out'])} frames were left out: the disk was slower than the link"
        if "note" in members:
            return _text(members["note"])
        part = f", part {members['part']}" if members.get("part") else ""
        who = f"link {_text(members.get('link'))} of {_text(members.get('peer'))}"
        return f"{who}, {entry.time:%Y-%m-%d %H:%M:%S} UTC{part}"

    def _summary(self, entry: Entry, raw: bytes) -> str:
        try:
            frame = msgspec.json.decode(raw, type=_Frame)
        except (msgspec.DecodeError, RecursionError):
            return _cut(_printable(raw.decode("utf-8", "replace")))
        to = entry.members.get("to")
        if frame.method is not None:
            name = _printable(frame.method)
            if not bytes(frame.id):
                return _joined(name, _essence(frame.params))
            self._asked[to, bytes(frame.id)] = (name, entry.time)
            return _joined(f"{name} [{_id(frame.id)}]", _essence(frame.params))
        return self._answer(entry, frame, "agent" if to == "client" else "client")

    def _answer(self, entry: Entry, frame: _Frame, asked_of: str) -> str:
        method, asked = self._asked.pop((asked_of, bytes(frame.id)), ("?", None))
        took = "" if asked is None else f" after {(entry.time - asked).total_seconds() * 1000:,.0f} ms"
        if bytes(frame.error):
            return _joined(f"{method} [{_id(frame.id)}] FAILED{took}", _essence(frame.error))
        return _joined(f"{method} [{_id(frame.id)}] answered{took}", _essence(frame.result))


def _id(raw: msgspec.Raw) -> str:
    return _cut(_printable(bytes(raw).decode("utf-8", "replace")))


def _joined(what: str, essence: str) -> str:
    return f"{what}: {_cut(essence)}" if essence else what


def _essence(raw: msgspec.Raw) -> str:
    """What a person wants to see of parameters or a result: the kind of update and the first telling text."""
    try:
        value = json.loads(bytes(raw) or b"null")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return "" if value is None else _text(value)
    update = value.get("update")
    if isinstance(update, dict):
        return _joined(_text(update.get("sessionUpdate")), _telling(update, 0))
    return _telling(value, 0)


def _telling(value: object, depth: int) -> str:
    if depth > 8:
        return ""
    if isinstance(value, list):
        return next((text for item in value if (text := _telling(item, depth + 1))), "")
    if not isinstance(value, dict):
        return ""
    for name in _TEXTS:
        found = value.get(name)
        text = _text(found) if isinstance(found, str) else _telling(found, depth + 1)
        if text:
            return text
    return ""


def _text(value: object) -> str:
    return _printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _printable(text: str) -> str:
    """A recording holds what strangers wrote: no character of it may steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)
