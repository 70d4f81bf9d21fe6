"""What an agent sends about its turn: nothing raises, and everything shown comes from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.chat.updates import Updates
from acpremote.chat.view import Diff, Plan, PlanStep, Shown, ToolShown, UserText, Words, WordsEnded

from ..components.test_frames import JSON


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def shown(*updates: object) -> list[Shown]:
    state = Updates()
    return [each for update in updates for each in state.take(update)] + state.end()


def tool(**members: object) -> dict[str, object]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c-1", **members}


def test_a_tool_call_is_told_when_it_begins_and_when_it_changes() -> None:
    diff = {"type": "diff", "path": "/a", "newText": "b"}
    calls = shown(
        tool(sessionUpdate="tool_call", title="Edit", kind="edit", status="pending"),
        tool(content=[diff]),
        tool(content=[diff]),
        tool(status="in_progress"),
        tool(status="in_progress", title=None),
        tool(status="completed", content=[diff, {"type": "content", "content": text("ok")}]),
    )
    assert calls == [
        ToolShown("Edit", "edit", "pending", True),
        ToolShown("Edit", "edit", "pending", False, (), (Diff("/a", None, "b"),)),
        ToolShown("Edit", "edit", "in_progress", False),
        ToolShown("Edit", "edit", "completed", False, ("ok",), ()),
    ]


def test_an_update_of_an_unknown_call_is_shown_as_a_new_one() -> None:
    assert shown(tool(status="failed")) == [ToolShown("c-1", "other", "failed", True)]


def test_a_plan_is_shown_when_it_changes() -> None:
    plan = {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "pending"}, "strange"]}
    assert shown(plan, plan) == [Plan((PlanStep("a", "pending"),))]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text("hi"), "hi"),
        ({"type": "image", "mimeType": "image/png", "data": "…"}, "[image: image/png]"),
        ({"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}, "[a.py: file:///a.py]"),
        ({"type": "resource", "resource": {"uri": "x:1", "text": "inner"}}, "inner"),
        ({"type": "resource", "resource": {"uri": "x:1"}}, "[resource: x:1]"),
        ({"type": "later"}, "[later: not shown here]"),
        (None, ""),
    ],
)
def test_content_that_is_not_text_is_named(content: object, words: str) -> None:
    assert shown({"sessionUpdate": "user_message_chunk", "content": content}) == [UserText(words)]


def test_the_edges_of_a_session_are_kept() -> None:
    state = Updates()
    commands = [{"name": "web"}, {"name": "a b"}, 5]
    for update in (
        {"sessionUpdate": "current_mode_update", "currentModeId": "go"},
        {"sessionUpdate": "session_info_update", "title": "A title"},
        {"sessionUpdate": "usage_update", "used": 25, "size": 100},
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
    ):
        assert state.take(update) == []
    assert (state.mode, state.title, state.usage) == ("go", "A title", "25% of the context used")
    assert state.commands == {"web": ""}


KINDS = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "current_mode_update",
        "session_info_update",
        "usage_update",
        "available_commands_update",
        "later",
    ]
)
MEMBERS = [
    "messageId",
    "toolCallId",
    "title",
    "kind",
    "status",
    "entries",
    "used",
    "size",
    "availableCommands",
]
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": KINDS},
    optional={
        "content": JSON | st.builds(text, st.text()),
        **dict.fromkeys(
            ["messageId", "toolCallId", "title", "kind", "status", "entries", "used", "size"], JSON
        ),
        "availableCommands": JSON,
    },
)


@given(st.lists(UPDATES | JSON, max_size=12))
def test_no_update_raises(updates: list[object]) -> None:
    shown(*updates)


@given(st.lists(st.text() | st.sampled_from(["{", '"', "}", " "])))
def test_no_word_is_lost_between_chunks_and_screen(chunks: list[str]) -> None:
    seen = shown(*({"sessionUpdate": "agent_message_chunk", "content": text(chunk)} for chunk in chunks))
    assert "".join(each.text for each in seen if isinstance(each, Words)) == "".join(chunks)
    assert all(isinstance(each, Words | WordsEnded) for each in seen)
