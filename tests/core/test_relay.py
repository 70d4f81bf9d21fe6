"""Dialogues with the relay: events in, commands out."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acpremote.core.envelope import Envelope, peek
from acpremote.core.policy import Verdict
from acpremote.core.relay import Command, Drain, Finish, Note, Relay, Send
from acpremote.core.requests import MAX_OPEN_REQUESTS
from acpremote.core.side import Side
from acpremote.ending import Ending, EndingKind

CLIENT, AGENT = Side.CLIENT, Side.AGENT
ASK = b'{"id":1,"method":"x"}'
REPLY = b'{"id":1,"result":0}'
TELL = b'{"method":"n"}'
DONE = Ending(EndingKind.DONE, "the agent exited with status 0", 0)
FAILED = Ending(EndingKind.AGENT_FAILED, "the agent exited with status 3", 3)
LEFT = Ending(EndingKind.CLIENT_LEFT, "closed")


def errors_in(commands: list[Command], side: Side) -> list[Any]:
    """The error responses that are sent to `side`."""
    sent = [
        frame
        for command in commands
        if isinstance(command, Send) and command.side is side
        for frame in command.frames
    ]
    return [json.loads(frame) for frame in sent if b'"error"' in frame]


def finish_of(commands: list[Command]) -> Ending:
    assert isinstance(commands[-1], Finish)
    assert sum(isinstance(command, Finish) for command in commands) == 1
    return commands[-1].ending


def test_a_batch_is_passed_on_as_it_is() -> None:
    relay = Relay()
    frames = [TELL, ASK, b' {"method" : "y"} ']
    assert relay.frames_received(CLIENT, frames) == [Send(AGENT, frames)]
    assert relay.frames_received(AGENT, [REPLY, TELL]) == [Send(CLIENT, [REPLY, TELL])]
    assert relay.frames == {CLIENT: 3, AGENT: 2}
    assert relay.open_requests == 0


def test_a_client_that_leaves_with_nothing_open_finishes() -> None:
    assert Relay().side_closed(CLIENT, LEFT) == [Finish(LEFT)]


def test_a_client_that_leaves_answers_the_agents_questions() -> None:
    relay = Relay()
    relay.frames_received(AGENT, [b'{"id":7,"method":"session/request_permission"}'])
    commands = relay.side_closed(CLIENT, LEFT)
    (error,) = errors_in(commands, AGENT)
    assert error["id"] == 7
    assert finish_of(commands) == LEFT


def test_an_agent_that_ends_answers_the_clients_requests() -> None:
    relay = Relay()
    relay.frames_received(CLIENT, [ASK, b'{"id":"a","method":"y"}'])
    commands = relay.side_closed(AGENT, FAILED)
    assert [error["id"] for error in errors_in(commands, CLIENT)] == [1, "a"]
    assert all("status 3" in error["error"]["message"] for error in errors_in(commands, CLIENT))
    assert all(
        error["error"]["data"] == {"ending": "agent_failed", "status": 3}
        for error in errors_in(commands, CLIENT)
    )
    assert finish_of(commands) == FAILED


@pytest.mark.parametrize("count", [1, 2])
def test_an_agent_that_ends_in_order_with_requests_open_has_failed(count: int) -> None:
    relay = Relay()
    relay.frames_received(CLIENT, [b'{"id":%d,"method":"x"}' % number for number in range(count)])
    ending = finish_of(relay.side_closed(AGENT, DONE))
    assert ending.kind is EndingKind.UNANSWERED
    assert f"{count} request" in ending.reason
    assert "status 0" in ending.reason


def test_ids_used_twice_are_settled_one_by_one() -> None:
    relay = Relay()
    relay.frames_received(CLIENT, [ASK, ASK])
    relay.frames_received(AGENT, [REPLY])
    assert relay.open_requests == 1
    relay.frames_received(AGENT, [REPLY, REPLY])
    assert relay.open_requests == 0


def test_a_draining_link_waits_for_the_replies() -> None:
    relay = Relay(drains=True)
    relay.frames_received(CLIENT, [ASK])
    relay.frames_received(AGENT, [b'{"id":5,"method":"ask"}'])
    commands = relay.side_closed(CLIENT, LEFT)
    assert errors_in(commands, AGENT)[0]["id"] == 5
    assert commands[-1] == Drain()
    assert relay.side_closed(CLIENT, LEFT) == []
    asked = relay.frames_received(AGENT, [TELL, b'{"id":6,"method":"ask"}'])
    assert asked[0] == Send(CLIENT, [TELL])
    assert errors_in(asked, AGENT)[0]["id"] == 6
    answered = relay.frames_received(AGENT, [REPLY])
    assert answered[0] == Send(CLIENT, [REPLY])
    assert finish_of(answered).kind is EndingKind.DONE


def test_a_draining_link_with_nothing_open_finishes_at_once() -> None:
    assert Relay(drains=True).side_closed(CLIENT, LEFT) == [Finish(LEFT)]


def test_a_drain_that_takes_too_long_is_unanswered() -> None:
    relay = Relay(drains=True)
    relay.frames_received(CLIENT, [ASK])
    relay.side_closed(CLIENT, LEFT)
    commands = relay.stopped(LEFT)
    assert finish_of(commands).kind is EndingKind.UNANSWERED
    assert errors_in(commands, CLIENT)[0]["id"] == 1


def test_an_agent_that_ends_while_draining_finishes() -> None:
    relay = Relay(drains=True)
    relay.frames_received(CLIENT, [ASK])
    relay.side_closed(CLIENT, LEFT)
    assert finish_of(relay.side_closed(AGENT, FAILED)) == FAILED


def test_a_stop_answers_both_sides() -> None:
    relay = Relay()
    relay.frames_received(CLIENT, [ASK])
    relay.frames_received(AGENT, [b'{"id":9,"method":"ask"}'])
    shutdown = Ending(EndingKind.SHUTDOWN, "shutting down")
    commands = relay.stopped(shutdown)
    assert errors_in(commands, CLIENT)[0]["id"] == 1
    assert errors_in(commands, AGENT)[0]["id"] == 9
    assert finish_of(commands) == shutdown


def test_what_an_agent_never_got_is_answered_at_once() -> None:
    relay = Relay()
    frames = [TELL, ASK, REPLY]
    relay.frames_received(CLIENT, frames)
    lost = Ending(EndingKind.LOST, "the agent closed its input")
    commands = relay.undeliverable(AGENT, frames, lost)
    assert [error["id"] for error in errors_in(commands, CLIENT)] == [1]
    assert relay.open_requests == 0
    assert relay.undeliverable(AGENT, [TELL], lost) == []


def test_a_stalled_agent_and_an_unreachable_client_finish_the_link() -> None:
    stalled = Ending(EndingKind.STALLED, "the agent stopped reading")
    assert finish_of(Relay().undeliverable(AGENT, [TELL], stalled)) == stalled
    assert finish_of(Relay().undeliverable(CLIENT, [TELL], LEFT)) == LEFT


def test_nothing_follows_a_finish() -> None:
    relay = Relay()
    relay.side_closed(CLIENT, LEFT)
    assert relay.frames_received(AGENT, [TELL]) == []
    assert relay.side_closed(AGENT, FAILED) == []
    assert relay.stopped(LEFT) == []
    assert relay.undeliverable(CLIENT, [TELL], LEFT) == []


@pytest.mark.parametrize(
    ("frame", "code"),
    [(b"x", -32700), (b"\xff", -32700), (b"[]", -32600), (b"{}", -32600), (b'{"method":1}', -32600)],
)
def test_a_client_is_told_what_is_no_message(frame: bytes, code: int) -> None:
    commands = Relay().frames_received(CLIENT, [frame, TELL])
    assert commands[0] == Send(AGENT, [TELL])
    assert errors_in(commands, CLIENT)[0]["error"]["code"] == code
    assert errors_in(commands, CLIENT)[0]["id"] is None


@pytest.mark.parametrize(
    "line", [b"hello", b"[]x", b"42", b'{"level":1}', b'[{"method":"x"},{"level":1}]', b"[1]"]
)
def test_an_agents_noise_is_dropped_with_a_note_where_it_belongs(line: bytes) -> None:
    (note,) = Relay().frames_received(AGENT, [line])
    assert isinstance(note, Note)
    assert "logs belong on standard error" in note.text
    assert f"({len(line)} bytes of text: {line.decode()!r})" in note.text


def test_what_an_agent_writes_that_is_no_text_is_noted_in_hexadecimal() -> None:
    (note,) = Relay().frames_received(AGENT, [b"log\xff"])
    assert isinstance(note, Note)
    assert "(4 bytes: 6c 6f 67 ff)" in note.text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"x" * 31 + "\u20ac and the rest is secret".encode(), f"'{'x' * 31}'…"),
        (b"\x1b[31mred\x1b[0m\x07", r"'\x1b[31mred\x1b[0m\x07'"),
        ("\u202e".encode(), r"'\u202e'"),
    ],
)
def test_a_note_shows_the_start_of_a_line_only_and_nothing_that_acts(line: bytes, shown: str) -> None:
    (note,) = Relay().frames_received(AGENT, [line])
    assert isinstance(note, Note)
    assert f"bytes of text: {shown})" in note.text
    assert "secret" not in note.text


def test_an_agents_message_is_found_behind_escape_sequences_and_in_arrays() -> None:
    relay = Relay()
    line = b"\x1b]0;title\x1b\\\x1b[2K " + TELL
    assert relay.frames_received(AGENT, [line, b'[ {"method":"a"} , {"id":1,"method":"b"}]']) == [
        Send(CLIENT, [TELL, b'{"method":"a"}', b'{"id":1,"method":"b"}'])
    ]
    assert errors_in(relay.side_closed(CLIENT, LEFT), AGENT)[0]["id"] == 1


def test_an_agents_odd_message_is_passed_on() -> None:
    frame = b'{"jsonrpc":"2.0","id":4}'
    assert Relay().frames_received(AGENT, [frame]) == [Send(CLIENT, [frame])]


def test_open_requests_have_a_limit() -> None:
    relay = Relay()
    relay.frames_received(CLIENT, [b'{"id":%d,"method":"x"}' % number for number in range(MAX_OPEN_REQUESTS)])
    commands = relay.frames_received(CLIENT, [b'{"id":"more","method":"x"}', TELL])
    assert commands[0] == Send(AGENT, [TELL])
    assert errors_in(commands, CLIENT)[0]["id"] == "more"


def test_open_requests_count_whatever_their_ids_are() -> None:
    relay = Relay()
    asked = relay.frames_received(CLIENT, [ASK] * (MAX_OPEN_REQUESTS + 2))
    assert relay.open_requests == MAX_OPEN_REQUESTS
    assert len(errors_in(asked, CLIENT)) == 2
    relay.frames_received(AGENT, [REPLY] * 2)
    assert relay.frames_received(CLIENT, [ASK, ASK]) == [Send(AGENT, [ASK, ASK])]
    assert len(errors_in(relay.side_closed(AGENT, DONE), CLIENT)) == MAX_OPEN_REQUESTS


def test_the_ids_of_open_requests_have_a_limit_together() -> None:
    relay = Relay()
    large = [b'{"id":"%d%s","method":"x"}' % (number, b"i" * 1_000_000) for number in range(20)]
    refused = errors_in(relay.frames_received(CLIENT, large), CLIENT)
    assert len(refused) + relay.open_requests == 20
    assert 0 < len(refused) < 8
    relay.frames_received(AGENT, [large[0].replace(b'"method":"x"', b'"result":0')])
    assert relay.frames_received(CLIENT, [large[-1]]) == [Send(AGENT, [large[-1]])]


def test_ids_with_the_same_hash_are_no_way_to_make_the_table_slow() -> None:
    keys = {peek(b'{"id":%d,"method":"x"}' % (number * sys.hash_info.modulus)).key for number in range(9, 99)}
    assert len({hash(key) for key in keys}) > 80


class Refuse:
    """A policy for tests."""

    def concerns(self, raw_method: bytes) -> bool:
        return raw_method != b'"n"'

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        match envelope.method_name:
            case "edit":
                return Verdict(frame.replace(b"edit", b"EDIT"))
            case "drop":
                return Verdict(None, note="dropped")
            case _:
                return Verdict(None, answer=b'{"id":1,"error":{}}')


def test_a_policy_edits_drops_and_answers() -> None:
    relay = Relay(policy=Refuse())
    commands = relay.frames_received(CLIENT, [b'{"method":"edit"}', b'{"method":"drop"}', ASK, TELL])
    assert commands == [
        Send(AGENT, [b'{"method":"EDIT"}', TELL]),
        Note("dropped"),
        Send(CLIENT, [b'{"id":1,"error":{}}']),
    ]
    assert relay.open_requests == 0


IDS = st.sampled_from([b"0", b"1", b'"a"', b'"\\u0061"', b"-1", b"null"])
ENDINGS = st.sampled_from(
    [DONE, FAILED, LEFT, Ending(EndingKind.STALLED, "stalled"), Ending(EndingKind.SHUTDOWN)]
)


class EveryRequestIsAnswered(RuleBasedStateMachine):
    """Whatever happens in whatever order: a request that was passed on is answered once, or its side is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.relay = Relay(drains=True)
        self.owed = {CLIENT: 0, AGENT: 0}
        self.finished = False
        self.client_left = False

    def take(self, commands: list[Command], answering: Side | None = None) -> None:
        assert not (self.finished and commands)
        for command in commands:
            assert not self.finished, "nothing follows a finish"
            if isinstance(command, Send):
                for frame in command.frames:
                    is_reply = b"result" in frame or b"error" in frame
                    if is_reply and answering is not command.side:
                        self.owed[command.side] -= 1
            self.finished = isinstance(command, Finish)
        if self.finished:
            assert self.owed == {CLIENT: 0, AGENT: 0}

    @rule(side=st.sampled_from(Side), ids=st.lists(IDS, min_size=1, max_size=4))
    def ask(self, side: Side, ids: list[bytes]) -> None:
        if self.finished or (side is CLIENT and self.client_left):
            return
        self.owed[side] += len(ids)
        self.take(self.relay.frames_received(side, [b'{"id":%b,"method":"x"}' % each for each in ids]))

    @rule(side=st.sampled_from(Side), each=IDS)
    def answer(self, side: Side, each: bytes) -> None:
        if self.finished or (side is CLIENT and self.client_left):
            return
        before = len(self.relay._open[side.other]._raw_ids.get(Envelope(id=_raw(each)).key, ()))
        self.owed[side.other] -= min(before, 1)
        self.take(self.relay.frames_received(side, [b'{"id":%b,"result":0}' % each]), answering=side.other)

    @rule(ending=ENDINGS)
    def agent_ends(self, ending: Ending) -> None:
        self.take(self.relay.side_closed(AGENT, ending))

    @rule(ending=ENDINGS)
    def client_leaves(self, ending: Ending) -> None:
        self.client_left = True
        self.take(self.relay.side_closed(CLIENT, ending))

    @rule(ending=ENDINGS)
    def stop(self, ending: Ending) -> None:
        self.take(self.relay.stopped(ending))

    @rule(each=IDS, ending=ENDINGS)
    @precondition(lambda self: not self.finished)
    def not_delivered(self, each: bytes, ending: Ending) -> None:
        frame = b'{"id":%b,"method":"x"}' % each
        if not self.client_left:
            self.owed[CLIENT] += 1
            self.take(self.relay.frames_received(CLIENT, [frame]))
            self.take(self.relay.undeliverable(AGENT, [frame], ending))

    @invariant()
    def the_table_holds_what_is_owed(self) -> None:
        if not self.finished:
            for side in Side:
                assert sum(map(len, self.relay._open[side]._raw_ids.values())) == self.owed[side]


def _raw(text: bytes) -> Any:
    return msgspec.Raw(text)


EveryRequestIsAnswered.TestCase.settings = settings(deadline=None)
test_every_request_is_answered = EveryRequestIsAnswered.TestCase


def test_a_relay_is_idle_while_nobody_waits() -> None:
    relay, seen = Relay(), []
    for side, frame in ((CLIENT, TELL), (AGENT, ASK), (CLIENT, REPLY)):
        relay.frames_received(side, [frame])
        seen.append(relay.is_idle)
    assert seen == [True, False, True]
