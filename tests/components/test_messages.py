"""Frames in agent messages: any chunking gives the same parts, and only whole messages are components."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.components import Resolved, Unresolved
from acpremote.components.display import one_line, safe_text
from acpremote.components.messages import (
    ComponentMessages,
    MessageComponent,
    MessagePart,
    MessageText,
    find_component,
)

from .samples import MANIFEST, frame, props

FRAME = json.dumps(frame())


def feed(chunks: list[str], limit: int = 1000) -> list[MessagePart]:
    messages = ComponentMessages(MANIFEST, limit=limit)
    parts = [part for chunk in chunks for part in messages.agent_text(chunk)]
    return [*parts, *messages.end()]


def told(parts: list[MessagePart]) -> list[str]:
    """Joins neighbouring text; names components by their outcome."""
    shown: list[str] = []
    for part in parts:
        if isinstance(part, MessageComponent):
            shown.append(f"<{part.resolution.ok}>")
        elif shown and not shown[-1].startswith("<"):
            shown[-1] += part.text
        else:
            shown.append(part.text)
    return shown


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(st.integers(0, 500)))
def test_any_chunking_of_a_frame_gives_one_component_at_the_messages_end(places: list[int]) -> None:
    chunks = cut(FRAME, places)
    messages = ComponentMessages(MANIFEST)
    assert [part for chunk in chunks for part in messages.agent_text(chunk)] == []
    (part,) = messages.end()
    assert isinstance(part, MessageComponent)
    assert isinstance(part.resolution, Resolved)
    assert messages.end() == []


TEXTS = (
    st.text()
    | st.text(alphabet='{}"\n :a\\', max_size=20)
    | st.sampled_from([FRAME, FRAME + "x", "x" + FRAME])
)


@given(TEXTS, st.lists(st.integers(0, 500)))
def test_any_chunking_of_any_message_tells_the_same(text: str, places: list[int]) -> None:
    assert told(feed(cut(text, places))) == told(feed([text] if text else []))


@given(TEXTS, st.lists(st.integers(0, 500)), st.integers(1, 50))
def test_no_text_is_lost_or_doubled_whatever_the_limit(text: str, places: list[int], limit: int) -> None:
    shown = told(feed(cut(text, places), limit))
    assert shown == ["<True>"] or "".join(shown) == text


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (f"\n {FRAME}\n", True),
        (json.dumps(frame(componentKey="star-map")), False),
        (json.dumps(frame(props=props(later=1))), False),
        (json.dumps(frame(type="select")), False),
        (json.dumps({"protocol": "agentskit.chat.component"}), False),
        ('{"protocol": "other"}', None),
        ("{}", None),
        ('{"a": 1}', None),
        ('{"a": 1', None),
        (f"Look: {FRAME}", None),
        (f"```json\n{FRAME}\n```", None),
        (f"{FRAME} and so on", None),
        (f"{FRAME}{FRAME}", None),
        (f"[{FRAME}]", None),
        ("{" * 100_000, None),
        ('{"a":' * 100_000, None),
        ('{"protocol": NaN}', None),
    ],
)
def test_only_a_message_that_is_a_frame_as_a_whole_is_one(text: str, outcome: bool | None) -> None:
    found = find_component(text, MANIFEST)
    assert (found.ok if found else None) is outcome
    (part,) = feed([text], 10**6)
    if outcome is None:
        assert part == MessageText(text)
    else:
        assert isinstance(part, MessageComponent)


def test_an_undeclared_component_keeps_its_fallback() -> None:
    found = find_component(json.dumps(frame(componentKey="star-map")), MANIFEST)
    assert isinstance(found, Unresolved)
    assert found.fallback is not None


def test_text_streams_at_once_and_also_what_can_no_longer_be_an_object() -> None:
    messages = ComponentMessages(MANIFEST)
    assert messages.agent_text("Hello") == [MessageText("Hello")]
    assert messages.agent_text('{"a') == [MessageText('{"a')]
    assert messages.end() == []
    assert messages.agent_text("{") == []
    assert messages.agent_text(" x") == [MessageText("{ x")]


def test_another_message_id_ends_the_message_before_it() -> None:
    messages = ComponentMessages(MANIFEST)
    assert messages.agent_text(FRAME, "m-1") == []
    parts = messages.agent_text(FRAME, "m-2")
    assert isinstance(parts[0], MessageComponent)
    assert isinstance(messages.end()[0], MessageComponent)
    assert messages.agent_text("text", "m-3") == [MessageText("text")]
    assert messages.agent_text(FRAME, "m-4") == []


def test_what_is_held_is_bounded_and_then_streams() -> None:
    messages = ComponentMessages(MANIFEST, limit=100)
    assert messages.agent_text('{"' + "a" * 98) == []
    assert messages.agent_text("b") == [MessageText('{"' + "a" * 98 + "b")]
    assert messages.agent_text("c") == [MessageText("c")]


def test_leading_blanks_are_waited_for_only_so_long() -> None:
    messages = ComponentMessages(MANIFEST)
    parts = [part for _ in range(2000) for part in messages.agent_text(" ")]
    assert len(parts) > 900  # from some point on each chunk passes at once
    assert told(parts) == [" " * 2000]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J\x07\x00\x7f", "\\x9b2J\\x07\\x00\\x7f"),
        ("a\u202eb\u2066c\u200fd", "a\\u202eb\\u2066c\\u200fd"),
        ("zero\u200bwidth\ufeff\u00ad", "zero\\u200bwidth\\ufeff\\xad"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("lone\ud83d", "lone\\ud83d"),
        ("a\r\nb\rc\u2028d\x0be", "a\nb\nc\nd\ne"),
        ("\t|", "    |"),
        ("é 漢字 \N{GRINNING FACE}", "é 漢字 \N{GRINNING FACE}"),
        ("\u200d", "\u200d"),
        ("\u3164", "\\u3164"),
    ],
)
def test_nothing_that_acts_on_a_terminal_is_shown_live(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text())
def test_safe_text_holds_no_control_characters(text: str) -> None:
    assert not [char for char in safe_text(text) if ord(char) < 32 and char != "\n"]
    assert "\n" not in one_line(text)
    safe_text(text).encode()  # it can be written
