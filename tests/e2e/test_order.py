"""Ids, order and cancellation."""

from __future__ import annotations

import json
import time

import pytest

from acpremote.core.envelope import REQUEST_LOST
from acpremote.core.requests import MAX_OPEN_REQUESTS
from tests.raw import connect
from tests.running import FAST_PYTHON, exposed

SLOW_ECHO = """
import sys, json
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        print(json.dumps({"id": message["id"], "result": message.get("params")}), flush=True)
"""


def test_two_clients_with_the_same_ids_get_only_their_own_replies() -> None:
    with (
        exposed([*FAST_PYTHON, SLOW_ECHO]) as server,
        connect(server.port) as one,
        connect(server.port) as other,
    ):
        for number in range(20):
            one.send_json({"id": number, "method": "x", "params": ["one", number]})
            other.send_json({"id": number, "method": "x", "params": ["other", number]})
        assert [one.receive_json()["result"] for _ in range(20)] == [["one", number] for number in range(20)]
        assert [other.receive_json()["result"] for _ in range(20)] == [
            ["other", number] for number in range(20)
        ]


@pytest.mark.parametrize("spelled", ["0", '""', '"0"', "-7", '"a\\/b"', "1e2", "null"])
def test_an_id_is_echoed_as_it_was_spelled_when_the_agent_dies(spelled: str) -> None:
    with exposed(["sh", "-c", "read x; exit 3"]) as server, connect(server.port) as client:
        client.send(b'{"id":%b,"method":"x"}' % spelled.encode())
        answer = client.receive()
    assert b'"id":%b,' % spelled.encode() in answer
    assert b"status 3" in answer


def test_a_reply_that_spells_the_id_differently_settles_it() -> None:
    agent = r"""read x; printf '{"id":"a/b","result":0}\n'; exit 0"""
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        client.send(rb'{"id":"a\/b","method":"x"}')
        frames, closed = client.rest()
    assert frames == [b'{"id":"a/b","result":0}']
    assert closed.code == 1000


def test_an_agents_request_with_the_id_of_a_pending_request_is_another_request() -> None:
    agent = (
        r"""read x; printf '{"id":0,"method":"ask"}\n'; read y; printf '{"id":0,"result":"done"}\n'; cat"""
    )
    with exposed(["sh", "-c", agent]) as server, connect(server.port) as client:
        client.send(b'{"id":0,"method":"x"}')
        assert client.receive_json() == {"id": 0, "method": "ask"}
        client.send(b'{"id":0,"result":"answer"}')
        assert client.receive_json() == {"id": 0, "result": "done"}


def test_a_thousand_updates_and_the_response_arrive_in_order() -> None:
    agent = r"""
import os
os.read(0, 1000)
lines = [b'{"method":"session/update","params":%d}' % number for number in range(1000)]
os.write(1, b"\n".join([*lines, b'{"id":1,"result":{}}', b""]))
os.read(0, 1)
"""
    with exposed([*FAST_PYTHON, agent]) as server, connect(server.port) as client:
        client.send(b'{"id":1,"method":"session/prompt"}')
        assert [client.receive_json()["params"] for _ in range(1000)] == list(range(1000))
        assert client.receive_json() == {"id": 1, "result": {}}


def test_prompt_and_cancel_in_one_segment_both_arrive_at_once() -> None:
    frames = [
        b'{"id":1,"method":"session/prompt"}',
        b'{"method":"session/cancel"}',
        b'{"method":"$/cancel_request"}',
    ]
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(b'{"method":"warm"}')
        client.receive()
        began = time.monotonic()
        client.send(*frames)
        assert [client.receive() for _ in frames] == frames
        assert time.monotonic() - began < 5


def test_something_that_looks_like_a_response_is_never_answered() -> None:
    with exposed(["cat"]) as server, connect(server.port) as client:
        client.send(b'{"id":99,"result":1}', b'{"result":1}', b'{"id":5,"error":null}', b'{"method":"after"}')
        assert client.receive() == b'{"id":99,"result":1}'
        assert client.receive() == b'{"result":1}'
        assert client.receive() == b'{"id":5,"error":null}'
        assert client.receive() == b'{"method":"after"}'


def test_errors_pass_with_their_data() -> None:
    frame = b'{"id":1,"error":{"code":-32000,"message":"x","data":{"deep":[1e2]}}}'
    with (
        exposed(["sh", "-c", f"read x; echo '{frame.decode()}'; cat"]) as server,
        connect(server.port) as client,
    ):
        client.send(b'{"id":1,"method":"x"}')
        assert client.receive() == frame


def test_too_many_open_requests_are_refused_one_by_one() -> None:
    """The agent gets the first hundred thousand, and only those."""
    agent = """
import os, sys
count = sum(1 for _ in zip(range(LIMIT), sys.stdin))
os.write(1, b'{"method":"n","params":%d}\\n' % count)
sys.stdin.read()
""".replace("LIMIT", str(MAX_OPEN_REQUESTS))
    with exposed([*FAST_PYTHON, agent]) as server, connect(server.port) as client:
        frames = [b'{"id":%d,"method":"x"}' % number for number in range(MAX_OPEN_REQUESTS + 2)]
        for start in range(0, len(frames), 10_000):
            client.send(*frames[start : start + 10_000])
        answers = [json.loads(client.receive()) for _ in range(3)]
    refused = [answer for answer in answers if "id" in answer]
    assert [answer["id"] for answer in refused] == [MAX_OPEN_REQUESTS, MAX_OPEN_REQUESTS + 1]
    assert all(answer["error"]["code"] == REQUEST_LOST for answer in refused)
    assert {"method": "n", "params": MAX_OPEN_REQUESTS} in answers
