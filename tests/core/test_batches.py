"""A batch is judged in one go; that must never show."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.core.batch import Batch, join
from acpremote.core.envelope import peek, peek_all
from acpremote.core.policy import PASS, Policies, Policy
from acpremote.core.relay import Command, Note, Relay, Send
from acpremote.core.side import Side
from acpremote.core.unstable import UnstableGate

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"n":%d}}'

FRAMES = [
    UPDATE % 1,
    UPDATE % 2,
    b'{"method":"session/update","params":{}, "id":1}',
    b'{"id":1,"method":"session/update"}',
    b'{"id":1,"result":{}}',
    b'{"result":{},"id":"1"}',
    b'{"method":"session\\/update"}',
    b'{"method":"elicitation/create","id":2}',
    b'{"method":"elicitation/complete"}',
    b'{"method":"elicitation\\/complete"}',
    b'{"method":7}',
    b'{"method":"a","method":"session/update"}',
    b'{"jsonrpc":"2.0"}',
    b'{"level":"info"}',
    b"{}",
    '{"method":"session/update","params":"\u2028ü"}'.encode(),
    b'{"method":"session/update","params":"\xff"}',
    b'{"method":"session/update","params":"\\ud83d"}',
    b'{"method":"session/update","params":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'[{"method":"session/update"},{"id":3,"method":"x"}]',
    b'\x1b]0;title\x07{"method":"session/update"}',
    b'{"method":"a"}{"method":"b"}',
    b'{"method":"a"}\n{"method":"b"}',
    b'{"method":"a"},{"method":"b"}',
    b'{"method":"a","params":',
    b'{"x":1}}',
    b'{"x":[{}',
    b'{"x":[{}]}',
    b'{"x":"}',
    b'{"}',
    b"banner",
    b"42",
    b'{"method":"session/update"',
    b"   ",
    b"",
]

BATCHES = st.one_of(
    st.lists(st.sampled_from(FRAMES), min_size=1, max_size=12),
    st.lists(st.sampled_from(FRAMES), max_size=3).flatmap(
        lambda odd: st.permutations([*odd, UPDATE % 1, UPDATE % 2, UPDATE % 3, UPDATE % 4])
    ),
)


def parts(commands: list[Command], side: Side) -> tuple[list[bytes], list[bytes], Counter[str]]:
    """What goes on, what goes back, what is told: how many lines were dropped, and everything else."""
    sends = [command for command in commands if isinstance(command, Send)]
    return (
        [frame for send in sends if send.side is side.other for frame in send.frames],
        [frame for send in sends if send.side is side for frame in send.frames],
        told([command.text for command in commands if isinstance(command, Note)]),
    )


def told(notes: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for note in notes:
        dropped = re.match(r"the agent wrote (a|\d+) lines? that", note)
        if dropped is None:
            counts[note] += 1
        else:
            counts["dropped"] += 1 if dropped[1] == "a" else int(dropped[1])
    return counts


def relay(policy: Policy) -> Relay:
    relay = Relay(policy=policy)
    relay.frames_received(Side.CLIENT, [b'{"id":1,"method":"session/prompt"}'])
    return relay


@given(BATCHES, st.sampled_from(Side), st.booleans())
def test_a_batch_gives_what_its_frames_give_one_by_one(
    frames: list[bytes], side: Side, is_gated: bool
) -> None:
    whole, single = (relay(Policies(UnstableGate()) if is_gated else PASS) for _ in range(2))
    one_by_one = [command for frame in frames for command in single.frames_received(side, [frame])]
    assert parts(whole.frames_received(side, frames), side) == parts(one_by_one, side)
    assert whole.open_requests == single.open_requests


@given(BATCHES)
def test_frames_are_read_together_as_each_is_read_alone(frames: list[bytes]) -> None:
    together = peek_all(Batch.of(frames))
    if together is not None:
        assert together == [peek(frame) for frame in frames]


@pytest.mark.parametrize("odd", [b"", b"   ", b"banner", b'{"method":"\xff"}', b'{"a":"\\ud83d"}'])
def test_a_frame_that_needs_a_closer_look_is_never_read_together(odd: bytes) -> None:
    plain = [UPDATE % n for n in range(4)]
    assert peek_all(Batch.of(plain)) is not None
    assert peek_all(Batch.of([*plain, odd, *plain])) is None


def test_what_passes_is_the_same_object() -> None:
    frames = [UPDATE % n for n in range(100)]
    (command,) = Relay().frames_received(Side.AGENT, frames)
    assert isinstance(command, Send)
    assert all(sent is frame for sent, frame in zip(command.frames, frames, strict=True))


def test_a_batch_is_a_sequence_of_its_frames() -> None:
    batch = Batch(b"{}\n[1]\n")
    assert batch == [b"{}", b"[1]", b""] == batch.frames
    assert batch == Batch.of([b"{}", b"[1]", b""])
    assert batch != b"{}"
    assert batch != 1
    assert (len(batch), batch[1], batch[1:]) == (3, b"[1]", [b"[1]", b""])
    assert repr(batch) == "Batch(3 frames, 7 bytes)"
    assert Batch.of(batch) is batch


@given(BATCHES, BATCHES)
def test_batches_that_are_joined_hold_the_frames_of_both(one: list[bytes], other: list[bytes]) -> None:
    batches = [Batch(b"\n".join(frames)) for frames in (one, other)]
    assert join(batches) == [*batches[0], *batches[1]]


@given(
    st.lists(st.sampled_from([b"{}", b"x", b"", b"{}\r", b"{" + b"x" * 2000 + b"}"]), min_size=1, max_size=9)
)
def test_a_batch_is_plain_if_each_of_its_frames_is_in_braces(frames: list[bytes]) -> None:
    batch = Batch(b"\n".join(frames))
    assert batch.lines == len(frames)
    assert batch.is_plain == all(frame.startswith(b"{") and frame.endswith(b"}") for frame in frames)


@given(st.lists(st.sampled_from([b"{}", b"", b"{" + b"x" * 2000 + b"}"]), min_size=1, max_size=9))
def test_the_views_of_a_batch_are_its_frames(frames: list[bytes]) -> None:
    assert [bytes(view) for view in Batch(b"\n".join(frames)).views()] == frames
    assert list(Batch.of(frames).views()) == frames
