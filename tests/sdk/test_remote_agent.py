"""What a remote agent does when calls are cancelled, links are lost, and messages are odd."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, RequestError, helpers

from acpremote import ChannelClosed, ConnectError, EndingKind, LocalProtocolError
from acpremote.ending import Ending
from acpremote.sdk import RemoteAgent
from acpremote.sdk.message import decode, encode
from acpremote.transport.channel import Channel

from .full_client import FullClient
from .raw_agent import LOST, RawAgent, ended, remote_agent, result, text

pytestmark = pytest.mark.anyio

HELLO: list[Any] = [helpers.text_block("hello")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run_into(errors: list[BaseException], call: Callable[[], Awaitable[object]]) -> None:
    try:
        await call()
    except Exception as error:
        errors.append(error)


# --- the interface


def test_it_is_an_agent_of_the_sdk_and_opens_nothing_by_itself() -> None:
    raw = RawAgent()
    agent: Agent = RemoteAgent(raw.join, window=1)
    assert raw.connections == 0
    for name in vars(Agent):
        if not name.startswith("_"):
            assert callable(getattr(agent, name))


# --- cancelling


async def test_a_cancelled_prompt_sends_session_cancel_once_and_frees_the_session() -> None:
    client = FullClient()
    async with remote_agent(client) as (agent, raw):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "s-1", HELLO)
            first = await raw.next("session/prompt")
            tasks.cancel_scope.cancel()
        cancel = await raw.next("session/cancel")
        assert cancel["params"] == {"sessionId": "s-1"}
        assert "id" not in cancel
        await raw.write(text("winding down"), ended(first, "cancelled"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "s-1", HELLO)
            await raw.write(ended(await raw.next("session/prompt")))
        assert raw.unread == []
        assert client.texts == ["winding down"]


async def test_a_turn_that_was_cancelled_before_is_not_cancelled_again() -> None:
    async with remote_agent() as (agent, raw):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "s-1", HELLO)
            await raw.next("session/prompt")
            await agent.cancel("s-1")
            await raw.next("session/cancel")
            tasks.cancel_scope.cancel()
        tasks_done = anyio.create_task_group()
        async with tasks_done:
            tasks_done.start_soon(agent.ext_method, "after", {})
            await raw.write(result(await raw.next("_after"), {}))


async def test_cancelling_another_call_says_nothing_to_the_agent() -> None:
    async with remote_agent() as (agent, raw):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.new_session, "/work")
            await raw.next("session/new")
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.ext_method, "after", {})
            await raw.write(result(await raw.next("_after"), {}))


# --- losing the link


async def test_a_lost_link_raises_in_every_pending_call_and_in_later_ones() -> None:
    async with remote_agent() as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            for call in (
                functools.partial(agent.prompt, "s-1", HELLO),
                functools.partial(agent.prompt, "s-2", HELLO),
                functools.partial(agent.new_session, "/work"),
                functools.partial(agent.ext_method, "x", {}),
            ):
                tasks.start_soon(run_into, errors, call)
            for _ in range(4):
                await raw.next()
            raw.cut()
        await run_into(errors, lambda: agent.list_sessions())
        await run_into(errors, lambda: agent.cancel("s-1"))
        assert len(errors) == 6
        for error in errors:
            assert isinstance(error, ChannelClosed)
            assert error.ending == LOST
            assert isinstance(error, RequestError)
            assert error.data == {"ending": "lost", "status": None}
            assert isinstance(error, ConnectionError)
            assert str(error) == "no answer will come: the cable was cut"
        assert raw.connections == 1


async def test_what_a_relay_answers_for_a_dead_agent_is_told_as_its_ending() -> None:
    async with remote_agent() as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.prompt, "s-1", HELLO))
            request = await raw.next("session/prompt")
            await raw.write(
                {
                    "id": request["id"],
                    "error": {
                        "code": -32050,
                        "message": "no answer will come: the agent ended with exit status 3",
                        "data": {"ending": "agent_failed", "status": 3},
                    },
                }
            )
        (error,) = errors
        assert isinstance(error, ChannelClosed)
        assert error.ending == Ending(EndingKind.AGENT_FAILED, "the agent ended with exit status 3", 3)


@pytest.mark.parametrize("code", [-32000, -32050])
@pytest.mark.parametrize("data", [None, {}, {"ending": "no such"}, {"ending": []}, [1], "text"])
async def test_an_agents_own_errors_stay_what_they_are(data: object, code: int) -> None:
    async with remote_agent() as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.authenticate, "key"))
            request = await raw.next()
            error = {"code": code, "message": "Authentication required", "data": data}
            await raw.write({"id": request["id"], "error": error})
        assert isinstance(errors[0], RequestError)
        assert not isinstance(errors[0], ChannelClosed)
        assert (errors[0].code, errors[0].data) == (code, data)


async def test_an_endpoint_that_cannot_be_reached_raises_in_every_call_and_is_tried_again() -> None:
    raw = RawAgent()
    tries = 0

    async def join(channel: Channel, on_open: Callable[[], None]) -> Ending:
        nonlocal tries
        tries += 1
        if tries == 1:
            await anyio.sleep(0.01)
            raise ConnectError("nobody there")
        return await raw.join(channel, on_open)

    async with RemoteAgent(join, window=1 << 20) as agent:
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.new_session, "/work"))
            tasks.start_soon(run_into, errors, functools.partial(agent.prompt, "s-1", HELLO))
        assert [str(error) for error in errors] == ["nobody there"] * 2
        assert all(isinstance(error, ConnectError) for error in errors)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.ext_method, "x", {})
            await raw.write(result(await raw.next("_x"), {}))
    assert tries == 2


# --- closing and using it again


async def test_closing_says_goodbye_and_raises_in_calls_in_progress() -> None:
    async with remote_agent() as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.prompt, "s-1", HELLO))
            await raw.next("session/prompt")
            await agent.close()
            await agent.close()
        assert isinstance(errors[0], ChannelClosed)
        assert raw.endings == ["the client has gone"]
        with pytest.raises(LocalProtocolError, match="was closed"):
            await agent.prompt("s-1", HELLO)


async def test_what_was_sent_before_closing_is_delivered() -> None:
    async with remote_agent() as (agent, raw):
        await agent.ext_notification("last", {"n": 1})
        await agent.close()
        assert await raw.next("_last")


async def test_an_update_handler_may_close_the_agent() -> None:
    class Closing(FullClient):
        async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
            await agent.close()

    async with remote_agent(Closing()) as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.prompt, "s-1", HELLO))
            await raw.next("session/prompt")
            await raw.write(text(1))
        assert isinstance(errors[0], ChannelClosed)


async def test_closing_does_not_wait_for_a_handler_that_never_ends() -> None:
    class Stuck(FullClient):
        async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
            self.note("text", "started")
            await anyio.sleep_forever()

    client = Stuck()
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:
        errors: list[BaseException] = []
        tasks.start_soon(run_into, errors, functools.partial(agent.prompt, "s-1", HELLO))
        await raw.next("session/prompt")
        await raw.write(text(1))
        while not client.texts:
            await anyio.sleep(0)
        await agent.close()


async def test_another_client_gets_a_connection_of_its_own() -> None:
    first, second = FullClient(), FullClient()
    async with remote_agent(first) as (agent, raw):
        for number, client in enumerate((first, second)):
            agent.on_connect(cast(Client, client))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.prompt, "s-1", HELLO)
                while raw.connections <= number:
                    await anyio.sleep(0)
                await raw.write(text(number), ended(await raw.next("session/prompt")))
        assert (first.texts, second.texts) == (["0"], ["1"])
        assert raw.connections == 2
        while raw.endings != ["the client has gone"]:
            await anyio.sleep(0)


async def test_after_a_lost_link_another_client_begins_anew() -> None:
    async with remote_agent(FullClient()) as (agent, raw):
        await agent.ext_notification("x", {})
        await raw.next("_x")
        raw.cut()
        with pytest.raises(ChannelClosed):
            await agent.ext_method("y", {})
        agent.on_connect(cast(Client, FullClient()))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.ext_method, "z", {})
            while raw.connections < 2:
                await anyio.sleep(0)
            await raw.write(result(await raw.next("_z"), {}))


# --- without a client, and odd messages


async def test_without_a_client_requests_are_refused_and_updates_dropped() -> None:
    async with remote_agent() as (agent, raw), anyio.create_task_group() as tasks:
        tasks.start_soon(agent.prompt, "s-1", HELLO)
        request = await raw.next()
        ask = {"id": 5, "method": "fs/read_text_file", "params": {"sessionId": "s-1", "path": "/x"}}
        await raw.write(text(1), ask, {"id": 6, "method": "no/such"}, {"id": 7, "method": ["x"]})
        answers = [await raw.next() for _ in range(3)]
        assert {answer["id"]: answer["error"]["code"] for answer in answers} == {
            5: -32601,
            6: -32601,
            7: -32603,
        }
        await raw.write(ended(request))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b'{"id":%d,"result":null,"error":{"code":-5,"message":"m","data":[null]}}', (-5, "m", [None])),
        (b'{"id":%d,"error":"text"}', (-32603, "text", None)),
        (b'{"id":%d.0,"error":{}}', (-32603, "Error", None)),
        (b'{"id":%d,"result":' + b"9" * 5000 + b"}", (-32603, None, None)),
        (b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":%d}', (-32603, None, None)),
    ],
)
async def test_a_strange_error_still_raises(
    response: bytes, expected: tuple[int, str | None, object]
) -> None:
    async with remote_agent() as (agent, raw):
        errors: list[BaseException] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_into, errors, functools.partial(agent.ext_method, "x", {}))
            await raw.write(response.replace(b"%d", b"%d" % (await raw.next())["id"]))
        (error,) = errors
        assert isinstance(error, RequestError)
        code, message, data = expected
        assert (error.code, error.data) == (code, data)
        assert str(error) == message or (message is None and "cannot read" in str(error))


async def test_what_answers_nothing_is_dropped_and_the_link_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    junk: list[bytes] = [
        b"",
        b"5",
        b"[]",
        b"{",
        b'{"id":999,"result":1}',
        b'{"id":[],"result":1}',
        b'{"id":{},"error":{"code":1}}',
        b'{"id":null,"error":{"code":1}}',
        b'{"method":null,"id":3}',
        b'{"jsonrpc":"2.0"}',
        b'{"method":"_x","params":' + b"9" * 5000 + b"}",
    ]
    async with remote_agent(FullClient()) as (agent, raw), anyio.create_task_group() as tasks:
        tasks.start_soon(agent.ext_method, "x", {})
        request = await raw.next()
        await raw.write(*junk, result(request, {}))
    assert caplog.text.count("dropped") == len(junk)


async def test_a_request_that_python_cannot_read_is_refused() -> None:
    async with remote_agent(FullClient()) as (agent, raw):
        await agent.ext_notification("hello", {})
        await raw.next()
        await raw.write(b'{"id":1,"method":"fs/read_text_file","params":{"line":' + b"9" * 5000 + b"}}")
        answer = await raw.next()
        assert (answer["id"], answer["error"]["code"]) == (1, -32602)


@pytest.mark.parametrize("value", ["\ud83d", 2**80, -(2**70), 1.5, "ü\U0001f680", None, {"a": [True]}])
def test_every_value_that_python_reads_is_written_again(value: object) -> None:
    frame = encode({"jsonrpc": "2.0", "id": 1, "result": value})
    assert b"\n" not in frame
    assert decode(frame) == {"jsonrpc": "2.0", "id": 1, "result": value}
