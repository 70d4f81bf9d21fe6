"""`session/update` notifications, read into what is shown. Never raises, whatever an agent sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..components.choicelist import ChoiceListProps
from ..components.manifest import ChoiceListComponent, Resolved, define_component_manifest
from ..components.menu import menu_of_choices
from ..components.messages import ComponentMessages, MessagePart, MessageText
from .view import (
    ComponentProblem,
    Diff,
    Listed,
    Plan,
    PlanStep,
    Shown,
    Thought,
    ToolShown,
    UserText,
    Words,
    WordsEnded,
)

__all__ = ["NOT_NOW", "Updates"]

NOT_NOW = "not now"
_LATEST_CALLS = 1_000


@dataclass(slots=True)
class _ToolCall:
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    shown: tuple[object, ...] = ()


class Updates:
    """What an agent tells about a session."""

    def __init__(self) -> None:
        self._messages = ComponentMessages(define_component_manifest([ChoiceListComponent]))
        self._calls: dict[str, _ToolCall] = {}
        self._streaming: type[Words] | type[Thought] | None = None
        self._message_id: str | None = None
        self._plan: Plan | None = None
        self._lists: list[Resolved] = []
        self.mode: str | None = None
        self.title = ""
        self.usage = ""
        self.commands: dict[str, str] = {}

    def take(self, update: object) -> list[Shown]:
        """Reads one update."""
        if not isinstance(update, Mapping):
            return []
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return list(self._agent_chunk(update))
        return [*self.end(keep_thought=kind == "agent_thought_chunk"), *self._other(kind, update)]

    def end(self, *, keep_thought: bool = False) -> list[Shown]:
        """Ends the message that is being streamed: at another kind of update, at the end of the turn."""
        shown = [piece for part in self._messages.end() for piece in self._part(part)]
        if self._streaming is not None and not (keep_thought and self._streaming is Thought):
            shown.append(WordsEnded())
            self._streaming = None
        return shown

    def take_lists(self) -> list[Resolved]:
        """The ChoiceLists that came since the last call, oldest first."""
        lists, self._lists = self._lists, []
        return lists

    def _agent_chunk(self, update: Mapping[str, object]) -> Iterator[Shown]:
        message_id = _text(update.get("messageId")) or None
        if self._streaming is Thought or message_id != self._message_id:
            yield from self.end()
        self._message_id = message_id
        for part in self._messages.agent_text(_content_text(update.get("content")), message_id):
            yield from self._part(part)

    def _part(self, part: MessagePart) -> Iterator[Shown]:
        if isinstance(part, MessageText):
            self._streaming = Words
            yield Words(part.text)
            return
        if self._streaming is not None:
            self._streaming = None
            yield WordsEnded()
        resolution = part.resolution
        if not isinstance(resolution, Resolved):
            yield ComponentProblem(resolution.diagnostic, resolution.fallback)
        elif isinstance(resolution.props, ChoiceListProps):
            self._lists.append(resolution)
            yield Listed(menu_of_choices(resolution.props, cancel=NOT_NOW))

    def _other(self, kind: object, update: Mapping[str, object]) -> Iterator[Shown]:
        match kind:
            case "agent_thought_chunk":
                self._streaming = Thought
                yield Thought(_content_text(update.get("content")))
            case "user_message_chunk":
                yield UserText(_content_text(update.get("content")))
            case "tool_call" | "tool_call_update":
                yield from self._tool_call(update)
            case "plan":
                yield from self._take_plan(update.get("entries"))
            case "current_mode_update":
                self.mode = _text(update.get("currentModeId")) or self.mode
            case "session_info_update":
                self.title = _text(update.get("title")) or self.title
            case "usage_update":
                self.usage = _usage(update)
            case "available_commands_update":
                self.commands = dict(_commands(update.get("availableCommands")))
            case _:
                pass  # a kind of a later version

    def _tool_call(self, update: Mapping[str, object]) -> Iterator[Shown]:
        call_id = _text(update.get("toolCallId"))
        call = self._calls.get(call_id)
        is_new = call is None
        if call is None:
            if len(self._calls) >= _LATEST_CALLS:
                del self._calls[next(iter(self._calls))]
            call = self._calls[call_id] = _ToolCall(title=call_id or "a tool")
        before = call.status
        call.title = _text(update.get("title")) or call.title
        call.kind = _text(update.get("kind")) or call.kind
        call.status = _text(update.get("status")) or call.status
        content = tuple(_tool_content(update.get("content")))
        fresh = tuple(piece for piece in content if piece not in call.shown)
        call.shown = content or call.shown
        if is_new or fresh or call.status != before:
            texts = tuple(piece for piece in fresh if isinstance(piece, str))
            diffs = tuple(piece for piece in fresh if isinstance(piece, Diff))
            yield ToolShown(call.title, call.kind, call.status, is_new, texts, diffs)

    def _take_plan(self, entries: object) -> Iterator[Shown]:
        steps = [
            PlanStep(_text(entry.get("content")), _text(entry.get("status")) or "pending")
            for entry in _mappings(entries)
        ]
        plan = Plan(tuple(steps))
        if plan != self._plan:
            self._plan = plan
            yield plan


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mappings(values: object) -> Iterator[Mapping[str, object]]:
    if isinstance(values, Sequence) and not isinstance(values, str):
        yield from (value for value in values if isinstance(value, Mapping))


def _content_text(content: object) -> str:
    """The text of a content block; other kinds are named in brackets."""
    if not isinstance(content, Mapping):
        return ""
    match content.get("type"):
        case "text":
            return _text(content.get("text"))
        case "resource_link":
            return f"[{_text(content.get('name')) or 'resource'}: {_text(content.get('uri'))}]"
        case "resource":
            resource = content.get("resource")
            inner = resource if isinstance(resource, Mapping) else {}
            return _text(inner.get("text")) or f"[resource: {_text(inner.get('uri'))}]"
        case kind:
            return f"[{_text(kind) or 'content'}: {_text(content.get('mimeType')) or 'not shown here'}]"


def _tool_content(content: object) -> Iterator[str | Diff]:
    for block in _mappings(content):
        match block.get("type"):
            case "content":
                yield _content_text(block.get("content"))
            case "diff":
                before = block.get("oldText")
                path, after = _text(block.get("path")), _text(block.get("newText"))
                yield Diff(path, before if isinstance(before, str) else None, after)
            case "terminal":
                yield f"[terminal {_text(block.get('terminalId'))}]"
            case _:
                pass


def _usage(update: Mapping[str, object]) -> str:
    used, size = update.get("used"), update.get("size")
    if isinstance(used, int) and isinstance(size, int) and used >= 0 and size > 0:
        return f"{min(used * 100 // size, 999)}% of the context used"
    return ""


def _commands(commands: object) -> Iterator[tuple[str, str]]:
    for command in _mappings(commands):
        name = _text(command.get("name"))
        if name and not any(char.isspace() for char in name):
            yield name, _text(command.get("description"))
