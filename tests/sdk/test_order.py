"""A call on a remote agent returns when what was read before its answer has been handled, and never hangs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from acp import helpers, schema

from acpremote.sdk import RemoteAgent

from .full_client import FullClient
from .raw_agent import RawAgent, ended, remote_agent, result, text

pytestmark = pytest.mark.anyio

HELLO: list[Any] = [helpers.text_block("hello")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class HookedClient(FullClient):
    """Runs a hook in the handler of each update before it writes down that it was handled."""

    def __init__(self, hook: Callable[[str], Awaitable[None]]) -> None:
        super().__init__()
        self.hook = hook
        self.started: list[str] = []

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.started.append(update.content.text)
        await self.hook(update.content.text)
        await super().session_update(session_id, update, **meta)


async def answering(
    raw: RawAgent, method: str, *before: dict[str, Any] | bytes, value: object = None
) -> None:
    """Answers the next request; messages and the answer are written in one batch."""
    request = await raw.next(method)
    await raw.write(*before, result(request, value))


CALLS: list[tuple[str, object, Callable[[RemoteAgent], Awaitable[object]]]] = [
    ("session/prompt", {"stopReason": "end_turn"}, lambda agent: agent.prompt("s-1", HELLO)),
    ("session/load", {}, lambda agent: agent.load_session("/work", "s-1")),
    ("session/resume", {}, lambda agent: agent.resume_session("s-1", "/work")),
    ("session/new", {"sessionId": "s-1"}, lambda agent: agent.new_session("/work")),
    ("session/list", {"sessions": []}, lambda agent: agent.list_sessions()),
    ("_anything", {}, lambda agent: agent.ext_method("anything", {})),
]


@pytest.mark.parametrize(("method", "value", "call"), CALLS, ids=[method for method, _, _ in CALLS])
async def test_a_thousand_updates_before_an_answer_are_handled_in_order_before_the_call_returns(
    method: str, value: object, call: Callable[[RemoteAgent], Awaitable[object]]
) -> None:
    async def uneven(number: str) -> None:
        for _ in range(int(number) % 3):
            await anyio.sleep(0)

    client = HookedClient(uneven)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:
        updates = [text(number) for number in range(1000)]
        tasks.start_soon(functools.partial(answering, raw, method, *updates, value=value))
        await call(agent)
        assert client.texts == [str(number) for number in range(1000)]


async def test_an_error_waits_for_the_updates_before_it_too() -> None:
    client = FullClient(delay=0.01)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def fail() -> None:
            request = await raw.next("session/prompt")
            await raw.write(text(1), {"id": request["id"], "error": {"code": -32050, "message": "no"}})

        tasks.start_soon(fail)
        with pytest.raises(Exception, match="no"):
            await agent.prompt("s-1", HELLO)
        assert client.texts == ["1"]


async def test_updates_after_an_answer_are_handled_all_the_same() -> None:
    client = FullClient()
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def answer() -> None:
            await raw.write(ended(await raw.next()), text("late"))

        tasks.start_soon(answer)
        await agent.prompt("s-1", HELLO)
        while not client.texts:
            await anyio.sleep(0)


async def test_a_request_inside_the_turn_is_not_held_back_and_finds_the_updates_before_it_started() -> None:
    """The first update is handled only when the permission is asked for: waiting for it would be for ever."""
    asked = anyio.Event()

    async def until_asked(number: str) -> None:
        if number == "1":
            await asked.wait()

    class Client(HookedClient):
        async def request_permission(
            self, session_id: str, tool_call: Any, options: list[Any], **meta: Any
        ) -> schema.RequestPermissionResponse:
            self.note("started by now", *self.started)
            asked.set()
            return await super().request_permission(session_id, tool_call, options, **meta)

    client = Client(until_asked)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def turn() -> None:
            request = await raw.next("session/prompt")
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            params = {"sessionId": "s-1", "toolCall": {"toolCallId": "t"}, "options": options}
            ask = {"id": 0, "method": "session/request_permission", "params": params}
            await raw.write(text(1), text(2), text(3), ask)
            answer = await raw.next()
            assert answer["id"] == 0
            assert answer["result"]["outcome"]["optionId"] == "yes"
            await raw.write(text(4), ended(request))

        tasks.start_soon(turn)
        await agent.prompt("s-1", HELLO)
        assert sorted(client.texts) == ["1", "2", "3", "4"]
        assert ("started by now", "1", "2", "3") in client.log


async def test_a_call_made_by_an_update_handler_is_answered() -> None:
    async def ask(number: str) -> None:
        if number == "1":
            assert await agent.ext_method("inside", {}) == {"n": 1}

    client = HookedClient(ask)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def turn() -> None:
            request = await raw.next("session/prompt")
            await raw.write(text(1), text(2))
            inside = await raw.next("_inside")
            await raw.write(text(3), result(inside, {"n": 1}), ended(request))

        tasks.start_soon(turn)
        await agent.prompt("s-1", HELLO)
        assert client.texts == ["1", "2", "3"]


async def test_a_turn_started_by_an_update_handler_has_its_own_order() -> None:
    async def orchestrate(name: str) -> None:
        if name == "start child":
            await agent.prompt("child", HELLO)
            client.note("text", "child returned")

    client = HookedClient(orchestrate)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def turns() -> None:
            parent = await raw.next("session/prompt")
            await raw.write(text("start child"))
            child = await raw.next("session/prompt")
            await raw.write(text("c1", "child"), text("c2", "child"), ended(child), ended(parent))

        tasks.start_soon(turns)
        await agent.prompt("s-1", HELLO)
        assert client.texts == ["c1", "c2", "child returned", "start child"]


async def test_handlers_that_wait_for_each_others_sessions_do_not_wait_for_ever() -> None:
    both = anyio.Event()

    async def cross(name: str) -> None:
        if len(client.started) == 2:
            both.set()
        await both.wait()
        await agent.ext_method("from", {"name": name})

    client = HookedClient(cross)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

        async def turn() -> None:
            request = await raw.next("session/prompt")
            await raw.write(text("a", "a"), text("b", "b"))
            for _ in range(2):
                await raw.write(result(await raw.next("_from"), {}))
            await raw.write(ended(request))

        tasks.start_soon(turn)
        await agent.prompt("a", HELLO)
    assert sorted(client.texts) == ["a", "b"]


async def test_a_task_that_outlives_its_handler_waits_like_any_other() -> None:
    async with anyio.create_task_group() as outer:
        returned: list[list[str]] = []

        async def follow_up() -> None:
            await handled.wait()
            await agent.prompt("s-1", HELLO)
            returned.append(client.texts)

        async def spawn(name: str) -> None:
            if name == "first":
                outer.start_soon(follow_up)

        handled = anyio.Event()
        client = HookedClient(spawn)
        async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:

            async def turns() -> None:
                await raw.write(text("first"), ended(await raw.next()))
                request = await raw.next()
                client.delay = 0.01
                await raw.write(text("second"), ended(request))

            tasks.start_soon(turns)
            await agent.prompt("s-1", HELLO)
            handled.set()
            while not returned:
                await anyio.sleep(0.001)
        assert returned == [["first", "second"]]


async def test_a_slow_session_holds_back_no_other() -> None:
    never = anyio.Event()

    async def slow(name: str) -> None:
        if name == "slow":
            await never.wait()

    client = HookedClient(slow)
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:
        tasks.start_soon(
            functools.partial(
                answering,
                raw,
                "session/prompt",
                text("slow", "other"),
                text("mine"),
                value={"stopReason": "end_turn"},
            )
        )
        await agent.prompt("s-1", HELLO)
        assert client.texts == ["mine"]
        never.set()


async def test_an_update_that_cannot_be_handled_is_logged_and_holds_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(number: str) -> None:
        if number == "1":
            raise RuntimeError("the client's own fault")

    client = HookedClient(fail)
    unknown = {"method": "session/update", "params": {"sessionId": "s-1", "update": {"sessionUpdate": "new"}}}
    async with remote_agent(client) as (agent, raw), anyio.create_task_group() as tasks:
        before = (text(1), unknown, {"method": "no/such"}, {"method": "_x", "params": 5}, text(2))
        tasks.start_soon(
            functools.partial(answering, raw, "session/prompt", *before, value={"stopReason": "end_turn"})
        )
        await agent.prompt("s-1", HELLO)
    assert client.texts == ["2"]
    assert ("notice", "x", {}) in client.log
    assert caplog.text.count("notification failed") == 3
    assert "the client's own fault" in caplog.text


async def test_reading_pauses_while_handlers_lag_behind() -> None:
    free = anyio.Event()

    async def wait(number: str) -> None:
        await free.wait()

    client = HookedClient(wait)
    async with remote_agent(client, window=10_000) as (agent, raw), anyio.create_task_group() as tasks:
        waiting = anyio.Event()

        async def flood() -> None:
            request = await raw.next("session/prompt")
            with anyio.move_on_after(0.3):
                for _ in range(100):
                    await raw.write(*[text("x" * 1000) for _ in range(40)])
                pytest.fail("a client that handles nothing took four megabytes")
            waiting.set()
            free.set()
            await raw.write(ended(request))

        tasks.start_soon(flood)
        await agent.prompt("s-1", HELLO)
        assert len(client.texts) >= 40


async def test_reading_goes_on_while_a_handler_waits_for_an_answer() -> None:
    async def ask(name: str) -> None:
        if name == "first":
            await agent.ext_method("inside", {})

    client = HookedClient(ask)
    async with remote_agent(client, window=1000) as (agent, raw), anyio.create_task_group() as tasks:

        async def turn() -> None:
            request = await raw.next("session/prompt")
            await raw.write(text("first"))
            inside = await raw.next("_inside")
            for _ in range(50):
                await raw.write(*[text("x" * 1000) for _ in range(40)])
            await raw.write(result(inside, {}), ended(request))

        tasks.start_soon(turn)
        await agent.prompt("s-1", HELLO)
        assert len(client.texts) == 2001
