"""What an agent writes beside its messages, and the messages that are buried in it.

Agents print banners and log lines to standard output; some set the terminal's title in front of a valid
reply; a few answer with arrays. Only whole messages reach the client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from . import scan
from .envelope import Envelope, InvalidFrame, peek

__all__ = ["describe", "is_utf8", "preview", "salvage", "sift"]

_ESCAPES = re.compile(
    rb"(?:\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and other strings: titles, links
    rb"|\x1b[ -/]*[0-~]"
    rb"|[\x00-\x09\x0b-\x1f\x7f ])+"
)
_OPENERS = frozenset(bytes([byte]) for byte in (*range(0x21), 0x7F, *b"{["))
"""What a line with a message in it can begin with: the message, an array, an escape sequence, blanks."""

PREVIEW_BYTES = 32
_WHERE = "its standard output is for messages, logs belong on standard error"


def is_utf8(frame: bytes) -> bool:
    """Whether the bytes are UTF-8. `isascii` first: it is several times faster and nearly always enough."""
    if frame.isascii():
        return True
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def sift(lines: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Parts lines that may hold a message from those that cannot.

    An agent that prints `y` for ever gives 30,000 lines a read; one look at each is what others can wait for.
    """
    maybe = [line for line in lines if line[:1] in _OPENERS]
    if len(maybe) == len(lines):
        return maybe, []
    return maybe, [line for line in lines if line[:1] not in _OPENERS]


def salvage(line: bytes) -> list[tuple[bytes, Envelope]]:
    """Finds the messages in a line that is not one: behind escape sequences, or as members of an array."""
    escapes = _ESCAPES.match(line)
    if escapes is None and not line.startswith(b"["):
        return []  # the caller has looked at it as it is; agents may write a lot of this
    if escapes is not None:
        line = line[escapes.end() :]
    try:
        candidates: Sequence[bytes | msgspec.Raw] = _members(line) if line.startswith(b"[") else [line]
        found = [(bytes(candidate), peek(bytes(candidate))) for candidate in candidates]
    except (InvalidFrame, ValueError):
        return []
    return [] if any(envelope.is_noise for _, envelope in found) else found


def _members(line: bytes) -> Sequence[bytes | msgspec.Raw]:
    """The members of an array; raises ValueError where it is none."""
    try:
        return _decode_array(line)
    except msgspec.DecodeError:
        if not scan.has_surrogates(line):
            raise
    except RecursionError:
        pass
    return scan.array_members(line)


_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def describe(lines: Sequence[bytes]) -> str:
    """Says what was dropped; `lines` must not be empty."""
    if len(lines) == 1:
        return f"the agent wrote a line that is no message, dropped ({preview(lines[0])}); {_WHERE}"
    first = preview(lines[0])
    return f"the agent wrote {len(lines)} lines that are no messages, dropped (first {first}); {_WHERE}"


def preview(line: bytes) -> str:
    """Shows the start of a line: enough to recognise it, too little to leak content.

    Text is shown as text, with everything escaped that could act on a terminal, and the rest in hexadecimal.
    """
    start, more = line[:PREVIEW_BYTES], "…" if len(line) > PREVIEW_BYTES else ""
    if is_utf8(line):
        text = start.decode(errors="ignore")  # the cut may go through a character
        return f"{len(line)} bytes of text: {text!r}{more}"
    return f"{len(line)} bytes: {start.hex(' ')}{more}"
