"""Bytes to frames: byte 0x0A ends a frame and nothing else does.

Any chunking of the same bytes gives the same frames. U+2028, U+0085 and lone CR never split; CRLF is
accepted; blank lines are skipped; one byte-order mark at the start is dropped. Whether a frame is JSON is
not this module's business: `relay.py` judges.
"""

from __future__ import annotations

from .batch import Batch

__all__ = ["LineSplitter", "as_line"]

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r"


class LineSplitter:
    """Cuts a byte stream into frames.

    Memory stays below `max_size` plus one chunk. A longer line sets `overflowed`: the frames completed
    before it were returned, and nothing is returned afterwards.
    """

    def __init__(self, max_size: int) -> None:
        """`max_size`: longest frame in bytes, without its line ending."""
        self.overflowed = False
        self._max_size = max_size
        self._pieces: list[bytes] = []
        self._size = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> Batch | None:
        """Takes the next bytes and returns the frames they complete, if any."""
        if self.overflowed:
            return None
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return None
        if self._pieces:
            lines = b"".join((*self._pieces, memoryview(chunk)[:end]))
            self._pieces.clear()
            self._size = 0
        else:
            lines = chunk[:end]
        batch = self._cut(lines)
        if not self.overflowed:
            self._keep(chunk[end + 1 :])
        return batch

    def finish(self) -> Batch | None:
        """Returns the unterminated last line, if any. Whether it is complete is seen by parsing it."""
        if self.overflowed or not self._pieces:
            return None
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return self._cut(line)

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        # One byte more than a frame is allowed: the CR of a CRLF whose LF has not arrived.
        if self._size > self._max_size + 1 + len(_BOM) * self._at_start:
            self._overflow()

    def _overflow(self) -> None:
        self.overflowed = True
        self._pieces.clear()

    def _cut(self, data: bytes) -> Batch | None:
        if self._at_start:
            self._at_start = False
            data = data.removeprefix(_BOM)
        batch = Batch(data)
        if batch.is_plain and len(data) <= self._max_size:
            return batch
        return self._clean(batch.frames)

    def _clean(self, lines: list[bytes]) -> Batch | None:
        """Leaves out what is no frame: the CR of a CRLF, blank lines, all from a line that is too long."""
        frames: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if len(line) > self._max_size:
                self._overflow()
                break
            if line.strip(_BLANK):
                frames.append(line)
        return Batch.of(frames) if frames else None


def as_line(frame: bytes) -> bytes:
    """Makes one line of a frame that came as a WebSocket message.

    Raw CR and LF can only be insignificant whitespace there (RFC 8259 section 7 forbids them inside strings),
    so each becomes a space.
    """
    if b"\n" in frame or b"\r" in frame:
        return frame.translate(_TO_SPACES)
    return frame


_TO_SPACES = bytes(0x20 if byte in b"\r\n" else byte for byte in range(256))
