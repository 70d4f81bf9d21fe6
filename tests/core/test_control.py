"""Control messages say what they mean, and nothing absurd is believed."""

from __future__ import annotations

import json

import pytest

from acpremote.core.control import Ack, Control, End, Hello, Refused, Welcome, encode, parse
from acpremote.ending import Ending, EndingKind
from acpremote.errors import RemoteProtocolError

MESSAGES: list[Control] = [
    Hello(window=1024, max_size=4096),
    Hello(window=1024, max_size=4096, link="l", secret="s", received=7, attempt=2),
    Welcome(link="l", secret="s", window=1024, max_size=4096, grace=3600, remote_cwd="/srv"),
    Welcome(link="l", received=2**53 - 1, window=1024, max_size=4096, grace=0.5),
    Refused(reason="no such link"),
    Ack(n=0),
    End(kind="agent_failed", status=-9, reason="ended by signal 9"),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_arrives_as_it_was_meant(message: Control) -> None:
    assert parse(encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_a_json_object_with_a_type(message: Control) -> None:
    assert json.loads(encode(message))["type"] == type(message).__name__.lower()


@pytest.mark.parametrize("message", MESSAGES)
def test_no_secret_is_shown(message: Control) -> None:
    assert repr(message) == f"<{type(message).__name__.lower()}>"


@pytest.mark.parametrize("data", [b'{"type":"later","n":[1]}', b'{"n":-1,"type":"acks"}', b'{"type":""}'])
def test_unknown_types_are_ignored(data: bytes) -> None:
    assert parse(data) is None


def test_unknown_fields_are_ignored() -> None:
    assert parse(b'{"type":"ack","n":3,"later":{"n":-1}}') == Ack(n=3)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ack",
        b"[]",
        b"{}",
        b'{"type":1}',
        b'{"type":"ack"}',
        b'{"type":"ack","n":-1}',
        b'{"type":"ack","n":9007199254740992}',
        b'{"type":"ack","n":1e400}',
        b'{"type":"ack","n":1.5}',
        b'{"type":"ack","n":"1"}',
        b'{"type":"ack","n":true}',
        b'{"type":"ack","n":' + b"9" * 5000 + b"}",
        b'{"type":"hello"}',
        b'{"type":"hello","window":0,"max_size":4096}',
        b'{"type":"hello","window":4096,"max_size":4096,"received":-1}',
        b'{"type":"hello","window":4096,"max_size":4096,"link":7}',
        b'{"type":"hello","window":4096,"max_size":4096,"link":"' + b"x" * 300 + b'"}',
        b'{"type":"welcome","link":"x","window":4096,"max_size":4096,"grace":-1}',
        b'{"type":"end","kind":null}',
        b'{"type":"ack","n":1' + b" " * 70_000 + b"}",
        b'{"type":"ack","n":1,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b'{"type":"ack\xff","n":1}',
    ],
)
def test_what_makes_no_sense_breaks_the_rules(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse(data)


@pytest.mark.parametrize("kind", EndingKind)
def test_every_ending_survives_the_journey(kind: EndingKind) -> None:
    ending = Ending(kind, 'the agent said "no"', 3)
    message = parse(encode(End.from_ending(ending)))
    assert isinstance(message, End)
    assert message.ending == ending


def test_an_ending_from_a_later_version_is_a_lost_link() -> None:
    assert End(kind="exploded", reason="why").ending == Ending(EndingKind.LOST, "why")
