"""Bytes in are bytes out, in both directions, through `expose` and through `expose` and `mirror`."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from acpremote.options import TransportOptions
from tests.raw import BINARY, TEXT, connect, masked, wait_until
from tests.running import FAST_PYTHON, command, exposed

MIB = 1024 * 1024
SIZES = [65_535, 65_536, 65_537, 1_048_577, 10 * MIB]
DEEP = b'{"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def frame_of(size: int) -> bytes:
    head, tail = b'{"method":"x","params":"', b'"}'
    return head + b"y" * (size - len(head) - len(tail)) + tail


VERBATIM = {
    "exponent": b'{"method":"x","params":[1e2,1E400,-0,0.1000000000000000055]}',
    "escapes": rb'{"method":"x","params":"\/ \ud83d \u00e9 \ud83d\ude00"}',
    "long integer": b'{"method":"x","params":' + b"7" * 5000 + b"}",
    "duplicate keys": b'{"method":"x","a":1,"a":2,"params":{"b":1,"b":2}}',
    "spacing": b'{ "method" :\t"x" , "params" : [ ] }  ',
    "deep": DEEP,
    "null params": b'{"method":"x","params":null}',
    "absent params": b'{"method":"x"}',
    "null result": b'{"id":77,"result":null}',
    "separators": '{"method":"x","params":"\u2028 \u2029 \u0085 \u00e9 \U0001f600"}'.encode(),
    "unknown": b'{"x":1,"jsonrpc":"9.9","method":"_vendor/\\u0061","_meta":{"z":null}}',
}


@pytest.mark.parametrize("size", SIZES)
def test_frames_of_any_size_pass_in_both_directions(size: int) -> None:
    frame = frame_of(size)
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(frame)
        assert client.receive() == frame


@pytest.mark.parametrize("frame", VERBATIM.values(), ids=VERBATIM.keys())
def test_frames_pass_unchanged_through_expose(frame: bytes) -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(frame)
        assert client.receive() == frame


def test_frames_pass_unchanged_through_expose_and_mirror() -> None:
    frames = [*VERBATIM.values(), *map(frame_of, SIZES)]
    with exposed(["cat"]) as server, command("mirror", server.url) as mirror:
        writer = threading.Thread(target=feed, args=(mirror, frames))
        writer.start()
        assert mirror.stdout is not None
        for frame in frames:
            assert mirror.stdout.readline() == frame + b"\n"
        writer.join()
        shown, said = mirror.communicate(timeout=10)
    assert (shown, said, mirror.returncode) == (b"", b"", 0)


def feed(process: subprocess.Popen[bytes], frames: list[bytes]) -> None:
    assert process.stdin is not None
    for frame in frames:
        process.stdin.write(frame + b"\n")
    process.stdin.flush()


def test_a_line_whose_end_comes_late_is_one_frame() -> None:
    body = frame_of(MIB + 1)
    agent = f"import sys,time; w=sys.stdout.buffer; input(); w.write({body[:50]!r}+b'y'*{len(body) - 52}+b'\"}}'); "
    agent += "w.flush(); time.sleep(0.1); w.write(b'\\n'); w.flush(); sys.stdin.read()"
    with exposed([*FAST_PYTHON, agent]) as server, connect(server.port) as client:
        client.send(b'{"method":"go"}')
        assert client.receive() == body


def test_characters_cut_at_every_byte_survive() -> None:
    frame = '{"method":"x","params":"\u00e9\u2028\U0001f600\u0085"}'.encode()
    agent = "import os; input()\nfor b in %r: os.write(1, bytes([b]))\nos.read(0, 1)" % (
        frame + b"\r\n" + frame + b"\n"
    )
    with exposed([*FAST_PYTHON, agent]) as server, connect(server.port) as client:
        client.send(b'{"method":"go"}')
        assert [client.receive(), client.receive()] == [frame, frame]


def test_a_fragmented_message_is_one_frame() -> None:
    frame = '{"method":"x","params":"\U0001f600"}'.encode()
    with exposed(["cat"]) as server, connect(server.port) as client:
        pieces = [frame[:25], frame[25:26], frame[26:]]
        client.sock.sendall(
            masked(TEXT, pieces[0], fin=False) + masked(0, pieces[1], fin=False) + masked(0, pieces[2])
        )
        assert client.receive() == frame


@pytest.mark.parametrize("gap", [b"", b"\n", b" \r\n "])
def test_two_messages_in_one_frame_are_refused(gap: bytes) -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(b'{"id":1,"method":"a"}' + gap + b'{"id":2,"method":"b"}', b'{"method":"c"}')
        assert client.receive_json()["error"]["code"] == -32700
        assert client.receive() == b'{"method":"c"}'


def test_a_pretty_printed_request_reaches_the_agent_as_one_line() -> None:
    message = {"method": "x", "params": {"a": [1, {"b": "\n"}]}}
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(json.dumps(message, indent=2).replace("\n", "\r\n").encode())
        line = client.receive()
    assert json.loads(line) == message
    assert not set(line) & set(b"\r\n")


@pytest.mark.parametrize(
    ("sent", "code"),
    [(b"hello", -32700), (b'{"id":1', -32700), (b"[]", -32600), (b'[{"id":1,"method":"x"}]', -32600)]
    + [
        (b"42", -32600),
        (b'{"id":1}', -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"id":1,"method":5}', -32600),
    ],
)
def test_what_is_no_message_is_answered_and_never_reaches_the_agent(sent: bytes, code: int) -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(sent, b'{"method":"after"}')
        answer = client.receive_json()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        assert client.receive() == b'{"method":"after"}'


def test_invalid_utf8_from_a_client_closes_1007_and_reaps_the_agent() -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(b'{"method":"x"}')
        client.receive()
        client.send(b'{"method":"\xff"}')
        assert client.rest()[1].code == 1007
        wait_until(lambda: server.links == 0)


def test_bad_utf8_from_the_agent_costs_its_line_only(caplog: pytest.LogCaptureFixture) -> None:
    agent = r"""printf '{"method":"a"}\n{"method":"b\377"}\n{"method":"\\ud83d"}\n'; cat"""
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        client.send(b'{"method":"go"}')
        assert [client.receive() for _ in range(3)] == [
            b'{"method":"a"}',
            rb'{"method":"\ud83d"}',
            b'{"method":"go"}',
        ]
    assert "not UTF-8" in caplog.text
    assert "7b 22 6d" in caplog.text


@pytest.mark.parametrize("loop", [True, False], ids=["uvloop", "asyncio"])
def test_a_line_over_the_limit_ends_the_link_after_what_came_before(loop: bool) -> None:
    agent = 'printf \'{"method":"before"}\\n\'; head -c 3000 /dev/zero | tr \'\\0\' x; printf \'\\n{"method":"after"}\\n\'; cat'
    options = TransportOptions(max_size=2048)
    with (
        exposed(["sh", "-c", agent], options=options, uses_uvloop=loop) as server,
        connect(server.port) as client,
    ):
        client.send(b'{"id":1,"method":"go"}')
        frames, closed = client.rest()
        assert frames[0] == b'{"method":"before"}'
        assert json.loads(frames[1])["id"] == 1
        assert len(frames) == 2
        assert closed.code == 1009
        assert "the agent" in closed.reason
        assert "2048" in closed.reason
        wait_until(lambda: server.links == 0)


def test_a_message_over_the_limit_from_a_client_closes_1009() -> None:
    with exposed(["cat"], options=TransportOptions(max_size=2048)) as server, connect(server.port) as client:
        client.send(b'{"method":"before"}', frame_of(2049))
        frames, closed = client.rest()
        assert closed.code == 1009
        assert frames in ([], [b'{"method":"before"}'])
        wait_until(lambda: server.links == 0)


def test_1009_is_final_for_a_mirror() -> None:
    with (
        exposed(["cat"], options=TransportOptions(max_size=2048)) as server,
        command("mirror", server.url) as mirror,
    ):
        _, said = mirror.communicate(frame_of(5000) + b"\n", timeout=20)
    assert mirror.returncode == 6
    assert b"2048" in said


def test_a_mirror_refuses_a_line_over_its_own_limit() -> None:
    with (
        exposed(["cat"]) as server,
        command("mirror", "--max-message-size", "2048", server.url) as mirror,
    ):
        shown, said = mirror.communicate(b'{"method":"a"}\n' + frame_of(5000) + b"\n", timeout=20)
    assert mirror.returncode == 6
    assert b"the client wrote a line of more than 2048 bytes" in said
    assert shown in (b"", b'{"method":"a"}\n')


def test_binary_messages_count_when_they_are_json() -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send_frame(BINARY, b"\x00\xff junk")
        client.send_frame(BINARY, b"junk")
        client.send_frame(BINARY, b"")
        client.send_frame(BINARY, b'{"method":"x"}\n')
        assert client.receive() == b'{"method":"x"}'


def test_an_unterminated_last_line_counts_when_it_is_complete() -> None:
    agent = 'read x; for i in $(seq 500); do echo \'{"method":"n"}\'; done; printf \'{"method":"last"}\''
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        client.send(b'{"method":"go"}')
        frames, closed = client.rest()
    assert frames == [b'{"method":"n"}'] * 500 + [b'{"method":"last"}']
    assert closed.code == 1000


def test_an_unterminated_last_line_that_is_cut_is_dropped() -> None:
    with exposed(["sh", "-c", 'read x; printf \'{"method":"la\'']) as server, connect(server.port) as client:
        client.send(b'{"method":"go"}')
        assert client.rest()[0] == []
