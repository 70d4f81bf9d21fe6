"""JSON-RPC over a channel: order, answers, ids of every spelling, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acpremote.chat.peer import AgentError, Peer, RequestRefused
from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed
from acpremote.transport.channel import MemoryChannel, memory_channels

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []
        self.started = anyio.Event()

    async def handle_request(self, method: str, params: object) -> object:
        self.seen.append((method, params))
        match method:
            case "echo":
                return params
            case "wait":
                self.started.set()
                await anyio.sleep_forever()
        raise RequestRefused(-32601, "no such method")

    def handle_notification(self, method: str, params: object) -> None:
        self.seen.append((method, params))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Peer, MemoryChannel, Recorder]]:
    near, far = memory_channels()
    recorder = Recorder()
    peer = Peer(near, recorder)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            yield peer, far, recorder
            tasks.cancel_scope.cancel()


async def received(far: MemoryChannel) -> list[Any]:
    return [json.loads(frame) for frame in await far.receive()]


async def test_a_request_gets_its_own_answer_whatever_the_order() -> None:
    results: dict[str, object] = {}
    async with connected() as (peer, far, _):

        async def ask(name: str) -> None:
            results[name] = await peer.request(name, {})

        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(ask, name)
            sent: list[Any] = []
            while len(sent) < 2:
                sent += await received(far)
            for message in reversed(sent):
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": message["method"] * 2}
                await far.send([json.dumps(answer).encode()])
    assert results == {"a": "aa", "b": "bb"}


@pytest.mark.parametrize(
    "raw_id", [b"0", b'""', b'"a\\/b"', b"-1", b"1.0", b'"\\ud83d"', b"12345678901234567890"]
)
async def test_a_request_is_answered_under_the_id_as_it_was_spelled(raw_id: bytes) -> None:
    async with connected() as (_, far, _):
        await far.send([b'{"id":%b,"method":"echo","params":{"x":"\\ud83d"},"jsonrpc":"2.0"}' % raw_id])
        (frame,) = await far.receive()
    assert frame.startswith(b'{"jsonrpc":"2.0","id":%b,"result":' % raw_id)


async def test_an_unknown_request_is_refused_and_an_unknown_notification_is_not_answered() -> None:
    async with connected() as (_, far, recorder):
        await far.send([b'{"jsonrpc":"2.0","method":"later"}', b'{"jsonrpc":"2.0","id":1,"method":"later"}'])
        (answer,) = await received(far)
    assert (answer["id"], answer["error"]["code"]) == (1, -32601)
    assert recorder.seen == [("later", None), ("later", None)]


@pytest.mark.parametrize("member", ["requestId", "id"])
async def test_a_cancelled_request_is_answered_once(member: str) -> None:
    async with connected() as (_, far, recorder):
        await far.send([b'{"jsonrpc":"2.0","id":"x","method":"wait"}'])
        await recorder.started.wait()
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {member: "x"}}
        await far.send([json.dumps(cancel).encode()] * 2)
        (answer,) = await received(far)
    assert (answer["id"], answer["error"]["code"]) == ("x", -32800)


UNREADABLE = [b"[" * 100_000 + b"]" * 100_000, b"9" * 5000]


@pytest.mark.parametrize("value", UNREADABLE)
async def test_what_is_beyond_python_is_an_error_and_no_end(value: bytes) -> None:
    async with connected() as (peer, far, recorder):
        await far.send([b'{"jsonrpc":"2.0","id":7,"method":"echo","params":%b}' % value])
        (answer,) = await received(far)
        assert (answer["id"], answer["error"]["code"]) == (7, -32603)
        await far.send([b'{"jsonrpc":"2.0","method":"lost","params":%b}' % value])

        async def respond() -> None:
            (message,) = await received(far)
            await far.send([b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], value)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(respond)
            with pytest.raises(AgentError):
                await peer.request("a", {})
    assert recorder.seen == []


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":99,"result":1}',
        b'{"jsonrpc":"2.0","id":"1","result":1}',
        b'{"jsonrpc":"2.0","id":true,"result":1}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}',
        b'{"jsonrpc":"2.0","id":[1],"result":1}',
        b'{"jsonrpc":"2.0","method":5}',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":[]}',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{"a":1}}}',
        b"not json",
        b"[]",
        b"{}",
    ],
)
async def test_strange_frames_change_nothing(frame: bytes) -> None:
    async with connected() as (_, far, _):
        await far.send([frame, b'{"jsonrpc":"2.0","id":1,"method":"echo","params":"still here"}'])
        (answer,) = await received(far)
    assert answer["result"] == "still here"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            {"code": -32603, "message": "broken", "data": {"details": "disk full"}},
            -32603,
            "broken: disk full",
        ),
        ({"code": -32603, "message": "broken", "data": "why"}, -32603, "broken: why"),
        ({"code": "x", "message": 5}, -32603, "the agent answered with an error"),
        ("text", -32603, "the agent answered with an error"),
        (None, -32603, "the agent answered with an error"),
    ],
)
async def test_an_error_of_any_shape_is_an_error(error: object, code: int, text: str) -> None:
    async with connected() as (peer, far, _):

        async def respond() -> None:
            (message,) = await received(far)
            await far.send([json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(respond)
            with pytest.raises(AgentError) as caught:
                await peer.request("a", {})
    assert (caught.value.code, str(caught.value)) == (code, text)


async def test_when_the_channel_ends_everybody_is_told_why() -> None:
    ending = Ending(EndingKind.AGENT_FAILED, "the agent exited with status 3", 3)
    async with connected() as (peer, far, recorder):
        await far.send([b'{"jsonrpc":"2.0","id":1,"method":"wait"}'])
        await recorder.started.wait()

        async def end() -> None:
            await far.receive()
            await far.aclose(ending)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            with pytest.raises(ChannelClosed) as caught:
                await peer.request("a", {})
        assert caught.value.ending == ending
        for call in (peer.request, peer.notify):
            with pytest.raises(ChannelClosed):
                await call("a", {})
