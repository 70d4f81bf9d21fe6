"""Markdown from an agent as terminal text: block by block while it streams, and inert.

What arrives is made safe before it is parsed and again after, because Markdown can spell characters in ways
of its own (`&#x202e;`). Links are shown and never made clickable.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment, Segments

from acpremote.components.display import safe_text

__all__ = ["BlockStream", "Painter"]

LONGEST_BLOCK = 16 * 1024
"""Characters after which a block is shown though it has not ended."""

_FENCE = re.compile(r" {0,3}(```+|~~~+)")


class BlockStream:
    """Cuts streamed Markdown into blocks: a blank line outside a code fence ends one, and so does length."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest = ""
        self._size = 0
        self._opening = ""
        """The line that opened the code fence we are in."""

    def feed(self, text: str) -> list[str]:
        """Takes a piece of text and returns the blocks that it completed."""
        *lines, self._rest = (self._rest + text).split("\n")
        blocks = [self._take(line) for line in lines]
        if self._size + len(self._rest) > LONGEST_BLOCK:
            blocks += [self._cut(), self._rest]
            self._rest = ""
        return [block for block in blocks if block.strip()]

    @property
    def tail(self) -> str:
        """What is not yet a block."""
        return "\n".join([*self._lines, self._rest])

    def finish(self) -> str:
        """Ends the text and returns its last block, which may be empty."""
        block = self.tail
        self._lines, self._rest, self._size, self._opening = [], "", 0, ""
        return block

    def _take(self, line: str) -> str:
        self._lines.append(line)
        self._size += len(line) + 1
        fence = _FENCE.match(line)
        if self._opening:
            if fence and _closes(line.strip(), self._opening.strip()):
                self._opening = ""
                return self._cut()
        elif fence:
            self._opening = line
        elif not line.strip():
            return self._cut()
        return self._cut() if self._size > LONGEST_BLOCK else ""

    def _cut(self) -> str:
        block = "\n".join(self._lines)
        self._lines = [self._opening] if self._opening else []  # code goes on as code
        self._size = 0
        return block


def _closes(line: str, opening: str) -> bool:
    mark = opening[0]
    return not line.strip(mark) and len(line) >= len(opening) - len(opening.lstrip(mark))


class Painter:
    """Renders to text with colours, or without."""

    def __init__(self, *, has_colors: bool) -> None:
        self._has_colors = has_colors

    def markdown(self, text: str, width: int) -> str:
        """Renders a block of an agent's Markdown."""
        return self.paint(Markdown(safe_text(text), hyperlinks=False, code_theme="ansi_dark"), width)

    def paint(self, renderable: RenderableType, width: int) -> str:
        """Renders anything of rich; its text is made safe, whatever it holds."""
        output = io.StringIO()
        console = Console(
            file=output,
            width=max(width, 20),
            force_terminal=True,
            color_system="standard" if self._has_colors else None,
            no_color=not self._has_colors,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        console.print(Segments(_inert(console.render(renderable))), end="")
        return output.getvalue()


def _inert(segments: Iterable[Segment]) -> Iterable[Segment]:
    for segment in segments:
        if segment.control is None:
            yield Segment(safe_text(segment.text), segment.style)
