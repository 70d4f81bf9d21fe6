"""The scanner agrees with the standard library on what is JSON, and keeps the bytes of what it splits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.core import scan

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def is_json(data: bytes) -> bool:
    try:
        scan.object_members(data)
    except scan.NotAnObject:
        return True
    except ValueError:
        return False
    return True


def strict(data: bytes) -> bool:
    try:
        json.loads(data, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError:
        return False
    return True


@given(JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_json_value_is_accepted(value: object, indent: int | str | None, ascii_only: bool) -> None:
    assert is_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode())


@given(st.lists(st.sampled_from(list('[]{},:" 0-1e.') + ["true", "null", '"a"', "\\u00e9", "x"]), max_size=9))
def test_it_agrees_with_the_standard_library(tokens: list[str]) -> None:
    text = "".join(tokens).encode()
    assert is_json(text) == strict(text)


@given(st.lists(JSON, max_size=6))
def test_an_array_is_split_into_its_members(values: list[object]) -> None:
    assert [json.loads(member) for member in scan.array_members(json.dumps(values).encode())] == values


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=6))
def test_an_object_gives_its_members_in_order(value: dict[str, object]) -> None:
    data = json.dumps(value, indent=1).encode()
    members = [
        (scan.unescape(key), json.loads(data[start:end])) for key, start, end in scan.object_members(data)
    ]
    assert members == list(value.items())


def test_member_bytes_are_kept_as_written() -> None:
    assert scan.array_members(b'[ {"a" : 1e2} ,"\\/" ,[ ] ]') == [b'{"a" : 1e2}', b'"\\/"', b"[ ]"]
    data = b'{"a":1,"a": [1, 2] , "b":{}}'
    assert [data[start:end] for _, start, end in scan.object_members(data)] == [b"1", b"[1, 2]", b"{}"]


def test_depth_is_not_limited() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert scan.object_members(b'{"x":' + deep + b"}") == [(b'"x"', 5, 200_005)]


def test_surrogate_escapes_are_decoded_in_pairs_and_kept_alone() -> None:
    assert scan.unescape(rb'"\ud83d\ude00\ud83d\/\n\"\\u0041"') == '\U0001f600\ud83d/\n"\\u0041'


@pytest.mark.parametrize("data", [b"[1]", b"1", b'"x"', b"null"])
def test_other_values_are_not_objects(data: bytes) -> None:
    with pytest.raises(scan.NotAnObject):
        scan.object_members(data)
    if data != b"[1]":
        with pytest.raises(ValueError, match="array"):
            scan.array_members(data)
