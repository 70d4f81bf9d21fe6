"""What a conversation shows, in words and lines that both views share. Everything in it is safe to print."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from acpremote.chat.view import (
    Asked,
    ComponentProblem,
    Diff,
    Listed,
    Notice,
    Plan,
    Problem,
    Shown,
    ToolShown,
    TurnEnded,
    TurnStarted,
    UserText,
)
from acpremote.components.display import one_line, safe_text
from acpremote.components.frames import format_fallback
from acpremote.components.menu import Menu, MenuState

__all__ = ["Line", "lines_of", "plan_lines"]

MOST_LINES = 40
"""Lines of a tool's text or of a diff that are shown."""

LARGEST_DIFF = 200_000
"""Characters of a file up to which a diff is worked out; `difflib` is slow on large ones."""

_TOOL_MARKS = {"pending": "○", "in_progress": "●", "completed": "✓", "failed": "✗"}
_PLAN_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_REASONS = {
    "cancelled": "The turn was cancelled.",
    "max_tokens": "The agent ran out of tokens.",
    "max_turn_requests": "The agent made as many requests as it may in one turn.",
    "refusal": "The agent refused to go on.",
    "error": "The turn failed.",
}

Line = tuple[str, str]
"""A style (a name of `chat_terminal.STYLES`, or nothing) and a line of safe text."""


def lines_of(shown: Shown) -> Iterator[Line]:
    """The lines of everything but streamed words and thoughts, plans and status."""
    match shown:
        case UserText(text) | TurnStarted(text):
            yield from _marked("user", "› ", text)
        case ToolShown():
            yield from _tool(shown)
        case Listed(menu):
            yield from _list(menu)
        case ComponentProblem(diagnostic, fallback):
            if fallback is not None:
                yield from _marked("", "", format_fallback(fallback))
            yield "dim", f"  {diagnostic.message} ({diagnostic.code})"
        case Asked(question, answer):
            yield "asked", f"  {one_line(question)} → {one_line(answer)}"
        case Notice(text):
            yield from _marked("notice", "  ", text)
        case Problem(text):
            yield from _marked("problem", "! ", text)
        case TurnEnded(reason) if reason != "end_turn":
            yield "notice", f"  {_REASONS.get(reason, f'The turn ended: {one_line(reason)}.')}"
        case _:
            return


def _list(menu: Menu) -> Iterator[Line]:
    for line in MenuState(menu).lines():
        text = f" {line.text[1:]}" if line.style == "highlighted" else line.text  # nothing is chosen yet
        if line.style != "hint":
            yield "list", f"  {text}"


def plan_lines(plan: Plan) -> list[str]:
    """A plan, one step a line."""
    return [f"{_PLAN_MARKS.get(step.status, '[ ]')} {one_line(step.text)}" for step in plan.steps]


def _marked(style: str, mark: str, text: str) -> Iterator[Line]:
    for number, line in enumerate(safe_text(text).split("\n")):
        yield style, f"{mark if number == 0 else ' ' * len(mark)}{line}"


def _tool(shown: ToolShown) -> Iterator[Line]:
    mark = _TOOL_MARKS.get(shown.status, "·")
    failed = " failed" if shown.status == "failed" else ""
    kind = "" if shown.kind in ("other", "") else f" ({one_line(shown.kind)})"
    yield ("problem" if failed else "tool"), f"{mark} {one_line(shown.title)}{kind}{failed}"
    for diff in shown.diffs:
        yield from _diff(diff)
    for text in shown.texts:
        yield from _shortened(
            [("dim", line) for line in safe_text(text).strip("\n").split("\n") if text.strip()]
        )


def _diff(diff: Diff) -> Iterator[Line]:
    before = diff.before or ""
    yield "dim", f"  {one_line(diff.path)}{' (new)' if diff.before is None else ''}"
    if len(before) + len(diff.after) > LARGEST_DIFF:
        yield "dim", f"  (a large change: {len(before)} to {len(diff.after)} characters)"
        return
    pieces = difflib.unified_diff(before.splitlines(), diff.after.splitlines(), lineterm="", n=2)
    styles = {"+": "added", "-": "removed", "@": "dim"}
    kept = [piece for piece in pieces if not piece.startswith(("+++", "---"))]
    yield from _shortened([(styles.get(piece[:1], ""), _one_row(piece)) for piece in kept])


def _one_row(text: str) -> str:
    """One line of safe text that keeps its indentation."""
    return safe_text(text).replace("\n", " ")


def _shortened(lines: list[Line]) -> Iterator[Line]:
    for style, line in lines[:MOST_LINES]:
        yield style, f"  {line}"
    if len(lines) > MOST_LINES:
        yield "dim", f"  … {len(lines) - MOST_LINES} more lines"
