"""Text that others wrote, made safe to show in a terminal.

Nothing that reaches a terminal from an agent may move the cursor, change colours, set a title, hide
or reorder other text. Such characters are shown escaped, so that a person sees that they were there.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["one_line", "safe_text"]

_LINE_BREAKS = re.compile(r"\r\n|\r|\u2028|\u2029|\x85|\x0b|\x0c")
_JOINERS = "\u200c\u200d"  # needed to write Persian and to join emoji; they hide nothing
_DANGEROUS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Letters by category, yet shown as blanks: they make two different texts look the same.
_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800"


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_text(text: str) -> str:
    """Shows control, format, bidirectional and lone surrogate characters escaped.

    Line breaks become `\\n` and are kept; tabs become four spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_BREAKS.sub("\n", text).replace("\t", "    ")
    return "".join(char if char == "\n" or _is_harmless(char) else _escape(char) for char in text)


def _is_harmless(char: str) -> bool:
    if char in _BLANK_LETTERS:
        return False
    return unicodedata.category(char) not in _DANGEROUS or char in _JOINERS


def one_line(text: str) -> str:
    """As `safe_text`, with every run of line breaks shown as one space."""
    return re.sub(r"\n+", " ", safe_text(text)).strip()
