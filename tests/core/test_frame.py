"""Any chunking of the same bytes gives the same frames."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.core.batch import split_lines
from acpremote.core.frame import LineSplitter, as_line

STREAM = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"{}", b" ", "\u2028".encode(), b"\xc2\x85", b"\xff", b"ab"])
)


def split(chunks: list[bytes], max_size: int = 1000) -> tuple[list[bytes], bool]:
    splitter = LineSplitter(max_size)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk) or ()]
    return [*frames, *(splitter.finish() or ())], splitter.overflowed


@given(STREAM.map(b"".join), st.lists(st.integers(0, 40)), st.sampled_from([2, 5, 1000]))
def test_any_chunking_gives_the_same_frames(stream: bytes, cuts: list[int], max_size: int) -> None:
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert (
        split(chunks, max_size)
        == split([stream], max_size)
        == split([bytes([byte]) for byte in stream], max_size)
    )


@given(st.lists(st.sampled_from([0, 1, 100, 1023, 1024, 1025, 5000])))
def test_long_and_short_lines_are_split_alike(lengths: list[int]) -> None:
    chunk = b"\n".join(b"x" * length for length in lengths)
    assert split_lines(chunk) == chunk.split(b"\n")


@given(STREAM.map(b"".join))
def test_frames_are_the_lines_of_the_stream(stream: bytes) -> None:
    lines = [line.removesuffix(b"\r") for line in stream.split(b"\n")]
    assert split([stream])[0] == [line for line in lines if line.strip(b" \t\r")]


def test_a_byte_order_mark_is_dropped_once() -> None:
    assert split([b"\xef\xbb", b"\xbf{}\n\xef\xbb\xbf{}\n"])[0] == [b"{}", b"\xef\xbb\xbf{}"]
    assert split([b"\xef\xbb\xbf" + b"x" * 10 + b"\r\n"], 10) == ([b"x" * 10], False)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1_048_577])
def test_a_line_of_the_limit_passes_and_a_longer_one_does_not(size: int, ending: bytes) -> None:
    exact = [b"{}\n", b"x" * size + ending]
    assert split(exact, size) == ([b"{}", b"x" * size], False)
    assert split([b"{}\n", b"x", b"x" * size + ending + b"{}\n"], size) == ([b"{}"], True)


def test_nothing_comes_after_a_line_that_is_too_long() -> None:
    splitter = LineSplitter(4)
    assert splitter.feed(b"ok\n12345\nok\n") == [b"ok"]
    assert splitter.overflowed
    assert splitter.feed(b"ok\n") is None
    assert splitter.finish() is None


def test_raw_line_breaks_in_a_message_become_spaces() -> None:
    assert as_line(b'{\r\n  "a": 1\n}') == b'{    "a": 1 }'
    untouched = b'{"a":"\\n"}'
    assert as_line(untouched) is untouched
