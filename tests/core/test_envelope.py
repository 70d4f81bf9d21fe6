"""Frames are recognised from outside, however they are spelled."""

from __future__ import annotations

import json

import pytest

from acpremote.core.envelope import (
    INVALID_REQUEST,
    PARSE_ERROR,
    InvalidFrame,
    Kind,
    error_frame,
    is_json,
    peek,
)
from acpremote.core.noise import salvage
from acpremote.core.scan import MAX_TOKENS

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', Kind.REQUEST),
        (b'{"params":{"a":1e400},"method":"x","id":null}', Kind.REQUEST),
        (b' { "method" : "session/cancel" } ', Kind.NOTIFICATION),
        (b'{"id":0,"result":null}', Kind.RESPONSE),
        (b'{"id":"","error":{"code":1,"message":""}}', Kind.RESPONSE),
        (b'{"id":1,"result":"\\ud83d"}', Kind.RESPONSE),
        (b'{"method":"x","params":' + DEEP + b"}", Kind.NOTIFICATION),
        (b'{"jsonrpc":"2.0"}', None),
        (b'{"level":"info","id":1}', None),
    ],
)
def test_the_kind_is_seen(frame: bytes, kind: Kind | None) -> None:
    assert peek(frame).kind is kind


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", PARSE_ERROR),
        (b"hello", PARSE_ERROR),
        (b"[1", PARSE_ERROR),
        (b'{"id":1}{"id":2}', PARSE_ERROR),
        (b'{"id":1} {"id":2}', PARSE_ERROR),
        (b'{"id":01}', PARSE_ERROR),
        (b"42", INVALID_REQUEST),
        (b'"ready"', INVALID_REQUEST),
        (b"[]", INVALID_REQUEST),
        (DEEP, INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_refused_with_the_fitting_code(frame: bytes, code: int) -> None:
    with pytest.raises(InvalidFrame) as caught:
        peek(frame)
    assert caught.value.code == code


def test_ids_are_equal_however_they_are_spelled() -> None:
    assert peek(rb'{"id":"a\/b"}').key == peek(b'{"id":"a/b"}').key == "a/b"
    assert peek(b'{"id":"0"}').key != peek(b'{"id":0}').key
    assert peek(b'{"id":-7}').key == -7
    digits = b"1" * 5000
    assert peek(b'{"id":' + digits + b"}").key is not None
    assert peek(b'{"id":[1]}').key == b"[1]"


def test_methods_are_decoded() -> None:
    assert peek(rb'{"method":"elicitation\/create"}').method_name == "elicitation/create"
    assert peek(rb'{"method":"\u0065x"}').method_name == "ex"
    assert peek(b'{"method":5}').method_name is None
    assert peek(b'{"id":5}').method_name is None


def test_only_objects_without_any_member_of_a_message_are_noise() -> None:
    assert peek(b'{"level":"info","id":1}').is_noise
    assert not peek(b'{"jsonrpc":"2.0"}').is_noise
    assert not peek(b'{"result":1}').is_noise


def test_an_error_frame_echoes_the_id_as_it_was_spelled() -> None:
    frame = error_frame(rb'"a\/b"', PARSE_ERROR, 'no "JSON"', {"k": [1]})
    assert rb'"id":"a\/b"' in frame
    assert json.loads(frame)["error"] == {"code": PARSE_ERROR, "message": 'no "JSON"', "data": {"k": [1]}}
    assert "data" not in json.loads(error_frame(b"null", PARSE_ERROR, "x"))["error"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", True),
        (b" [1] ", True),
        (b"7", True),
        (DEEP, True),
        (b"", False),
        (b"{} {}", False),
        (b"nul", False),
    ],
)
def test_json_is_told_from_other_bytes(data: bytes, expected: bool) -> None:
    assert is_json(data) is expected


def test_wide_frames_are_judged_whole_whatever_the_decoder_refuses_in_them() -> None:
    """The slow scanner, which gives up in time, is not what judges them."""
    wide = b"0," * MAX_TOKENS + b"0"
    lone = b'{"id":"a","method":"x","params":["\\ud83d",' + wide + b"]}"
    assert peek(lone).key == "a"
    for frame, code in ((lone[:-1], PARSE_ERROR), (b"[" + wide + b"]", INVALID_REQUEST), (lone, None)):
        assert is_json(frame) == (code is not PARSE_ERROR)
    assert salvage(b'[{"method":"x","params":[' + wide + b"]}]")


def test_what_is_too_deep_and_too_long_is_given_up() -> None:
    for frame in (
        b'{"method":"x","params":' + b"[" * MAX_TOKENS + b"]" * MAX_TOKENS + b"}",
        b"[" * MAX_TOKENS,
    ):
        with pytest.raises(InvalidFrame, match="too deep and too long"):
            peek(frame)
        assert not salvage(frame)


@pytest.mark.parametrize(
    "escape", ["\\ud83d", "\\\\ud83d", "\\ud83d\\ude00", "\\uDC00\\ud800", "\\\\\\ud83d"]
)
@pytest.mark.parametrize(
    "form", ['{"id":"%s","method":"x"}', '{"id":1,"method":"%s"}', '{"%s":1,"result":0}']
)
def test_surrogates_stay_as_they_were_written(escape: str, form: str) -> None:
    frame = (form % escape).encode()
    envelope = peek(frame)
    for raw in (envelope.id, envelope.method):
        assert bytes(raw) in frame
    assert salvage(b"[" + frame + b"]")[0][0] == frame
    with pytest.raises(InvalidFrame):
        peek(frame[:-1])
