"""Served agents and remote ones over real sockets, with real SDK clients."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, RequestError, helpers, schema

from acpremote import (
    ChannelClosed,
    ConfigError,
    ConnectError,
    ConnectRefused,
    EndingKind,
    RemoteClientConnection,
    Server,
    TransportOptions,
    connect_acp,
    connect_remote_agent,
    serve_acp,
)

from .conversation import CAPABILITIES
from .full_client import FullClient
from .scripted_agent import ScriptedAgent

pytestmark = pytest.mark.anyio

UNSTABLE = TransportOptions(use_unstable_protocol=True)
ONCE = TransportOptions(reconnect=False)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
async def nothing_is_left_running() -> AsyncIterator[None]:
    yield
    with anyio.fail_after(5):
        while [each for each in threading.enumerate() if each.name == "acpremote agents"]:
            await anyio.sleep(0.01)
        while others := [
            task for task in asyncio.all_tasks() if (task.get_name() or "").startswith(("acp.", "acpremote"))
        ]:
            await asyncio.wait(others)


def say(text: str) -> list[Any]:
    return [helpers.text_block(text)]


class Fleet:
    """Makes the agents of a server and remembers them."""

    def __init__(self) -> None:
        self.agents: list[ScriptedAgent] = []

    def __call__(self, connection: Client) -> Agent:
        self.agents.append(ScriptedAgent())
        return cast(Agent, self.agents[-1])


@asynccontextmanager
async def connected(
    client: FullClient, options: TransportOptions | None = None, **serve: Any
) -> AsyncIterator[tuple[RemoteClientConnection, ScriptedAgent, Server]]:
    fleet = Fleet()
    with anyio.fail_after(30):
        async with (
            await serve_acp(fleet, **{"options": options, **serve}) as server,
            connect_remote_agent(cast(Client, client), server.address, options=options) as agent,
        ):
            await agent.initialize(1, CAPABILITIES)
            yield agent, fleet.agents[0], server


# --- routes and capabilities


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("capability", [True, False])
async def test_the_route_and_the_capability_are_independent(flag: bool, capability: bool) -> None:
    """The agent is told what the client announced; whether it can ask is decided by the flag alone."""
    announced = {"elicitation": {"form": {}}, "terminal": True} if capability else {"terminal": True}
    client, fleet = FullClient(), Fleet()
    options = TransportOptions(use_unstable_protocol=flag)
    with anyio.fail_after(30):
        async with (
            await serve_acp(fleet) as server,
            connect_remote_agent(cast(Client, client), server.address, options=options) as agent,
        ):
            told = await agent.initialize(1, schema.ClientCapabilities.model_validate(announced))
            await agent.prompt("s-1", say("elicit"))
    assert told.field_meta is not None
    assert told.field_meta["capabilities"] == announced | {"auth": {}}  # the SDK's default
    asked = [method for method, *_ in client.log if method in ("elicitation", "completed")]
    if flag:
        assert asked == ["elicitation", "completed"]
        assert client.texts == [str({"content": {"name": "Ada"}, "action": "accept"})]
    else:
        assert asked == []
        assert client.texts == [str((-32601, "Method not found", {"method": "elicitation/create"}))]


async def test_a_refused_question_is_hinted_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(FullClient()) as (agent, _, _):
        for _ in range(3):
            await agent.prompt("s-1", say("elicit"))
    assert caplog.text.count("use_unstable_protocol=True") == 1


# --- order and size


async def test_a_thousand_updates_are_handled_in_order_by_a_slow_handler_when_prompt_returns() -> None:
    client = FullClient(delay=0)
    async with connected(client) as (agent, _, _):
        await agent.prompt("s-1", say("count 1000"))
        assert client.texts == [str(number) for number in range(1000)]


async def test_ten_megabytes_travel_in_both_directions() -> None:
    async with connected(FullClient()) as (agent, _, _):
        text = "é" * (5 << 20)
        assert (await agent.ext_method("big", {"text": text}))["params"] == {"text": text}


# --- cancelling


async def test_cancelling_prompt_cancels_the_turn_of_the_agent_and_frees_the_session() -> None:
    client = FullClient()
    async with connected(client) as (agent, served, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "s-1", say("wait"))
            await served.prompted.wait()
            tasks.cancel_scope.cancel()
        await served.unwound.wait()
        assert (await agent.prompt("s-1", say("count 1"))).stop_reason == "end_turn"
        assert served.cancels == 1


async def test_cancel_ends_the_turn_with_the_reason_that_the_agent_gives() -> None:
    async with connected(FullClient()) as (agent, served, _), anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await served.prompted.wait()
            await agent.cancel("s-1")

        tasks.start_soon(cancel)
        assert (await agent.prompt("s-1", say("wait"))).stop_reason == "cancelled"
    assert served.cancels == 1


# --- losing each other


async def test_a_server_that_stops_raises_in_every_pending_call_and_says_why() -> None:
    async with connected(FullClient(), ONCE) as (agent, served, server):
        errors: list[ChannelClosed] = []

        async def prompt(session: str) -> None:
            with pytest.raises(ChannelClosed) as caught:
                await agent.prompt(session, say("wait"))
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt, "s-1")
            tasks.start_soon(prompt, "s-2")
            await served.prompted.wait()
            server.close()
        with pytest.raises(ChannelClosed):
            await agent.list_sessions()
        assert [error.ending.kind for error in errors] == [EndingKind.SHUTDOWN] * 2
        await served.unwound.wait()


async def test_a_client_that_leaves_cancels_what_the_agent_does_for_it() -> None:
    async with connected(FullClient()) as (agent, served, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_prompt_until_closed, agent, "wait")
            await served.prompted.wait()
            await agent.close()
            await served.unwound.wait()
        while server.link_count:
            await anyio.sleep(0.01)


async def test_an_endpoint_that_refuses_or_is_not_there_raises_at_the_first_call() -> None:
    agent = connect_acp("ws://127.0.0.1:1/acp/ws", options=ONCE)
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        await agent.initialize(1)
    async with await serve_acp(Fleet(), bearer_token="s3cret") as server:
        with pytest.raises(ConnectRefused, match="401") as caught:
            await connect_remote_agent(cast(Client, FullClient()), server.address)
        assert caught.value.status == 401
        async with connect_remote_agent(
            cast(Client, FullClient()), server.address, bearer_token="s3cret"
        ) as remote:
            assert (await remote.initialize(1)).protocol_version == 1


# --- what is served


async def test_a_factory_makes_an_agent_for_every_link_and_an_agent_is_shared() -> None:
    shared = ScriptedAgent()
    for agent, expected in ((Fleet(), [0, 0]), (cast(Agent, shared), [0, 1]), (ScriptedAgent, [0, 0])):
        async with await serve_acp(cast(Any, agent)) as server:
            seen = []
            for _ in range(2):
                async with connect_remote_agent(cast(Client, FullClient()), server.address) as remote:
                    seen.append(len((await remote.ext_method("thing", {}))["notes"]))
                    await remote.ext_notification("note", {})
                    await remote.ext_method("thing", {})
            assert seen == expected


@pytest.mark.parametrize("agent", [5, "text", object(), None])
async def test_what_is_no_agent_is_refused_before_anything_listens(agent: Any) -> None:
    with pytest.raises(ConfigError, match="no ACP agent"):
        await serve_acp(agent)


@pytest.mark.parametrize("own_thread", [False, True])
async def test_a_factory_that_fails_is_told_to_its_client_and_to_the_log(
    own_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Client) -> Agent:
        raise RuntimeError("no model is configured")

    async with await serve_acp(fail, own_thread=own_thread) as server:
        for _ in range(2):
            remote = connect_acp(server.address, options=ONCE)
            with pytest.raises(ChannelClosed, match="no model is configured") as caught:
                await remote.initialize(1)
            assert caught.value.ending.kind is EndingKind.AGENT_FAILED
            await remote.close()
    assert "Traceback" in caplog.text


async def test_a_factory_that_returns_no_agent_is_told() -> None:
    async with (
        await serve_acp(cast(Any, lambda connection: 5)) as server,
        connect_acp(server.address, options=ONCE) as remote,
    ):
        with pytest.raises(ChannelClosed, match="returned a int, which is no ACP agent"):
            await remote.initialize(1)


async def test_errors_of_the_agent_keep_code_message_and_data() -> None:
    async with connected(FullClient()) as (agent, _, _):
        with pytest.raises(RequestError, match="told to") as caught:
            await agent.prompt("s-1", say("fail"))
        assert (caught.value.code, caught.value.data) == (-32050, {"why": [1, {"deep": None}]})


# --- host ownership


async def test_with_host_ownership_remote_the_agent_gets_its_own_machines_directory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = TransportOptions(host_ownership="remote", use_unstable_protocol=True)
    client, fleet = FullClient(), Fleet()
    with anyio.fail_after(30):
        async with (
            await serve_acp(fleet, cwd="/srv/agent", bearer_token="s3cret") as server,
            connect_remote_agent(
                cast(Client, client), server.address, options=options, bearer_token="s3cret"
            ) as agent,
        ):
            told = await agent.initialize(1, CAPABILITIES)
            made = await agent.new_session("/home/me", field_meta_stays=True)
            found = await agent.list_sessions("/home/me")
            everything = await agent.list_sessions()
    assert told.field_meta is not None
    assert told.field_meta["capabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "auth": {},
        "elicitation": {"form": {}},
        "_meta": {"of": "capabilities"},
        "terminal": False,
    }
    assert made.field_meta is not None
    assert made.field_meta["cwd"] == "/srv/agent"
    assert [found.sessions[0].cwd, everything.sessions[0].cwd] == ["/srv/agent", "/all"]
    assert "does not tell its directory" not in caplog.text


async def test_without_it_the_agent_gets_what_the_client_said() -> None:
    async with connected(FullClient(), cwd="/srv/agent") as (agent, _, _):
        made = await agent.new_session("/home/me")
        assert made.field_meta is not None
        assert made.field_meta["cwd"] == "/home/me"


# --- code that blocks


async def test_code_that_blocks_in_its_own_thread_stops_no_pings_no_handshakes_and_no_shutdown() -> None:
    fast = TransportOptions(ping_interval=0.1, ping_timeout=0.1)
    client = FullClient()
    async with connected(client, fast, own_thread=True) as (agent, served, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.prompt, "s-1", say("block 1.2"))
            while not served.prompted.is_set():
                await anyio.sleep(0.01)
            began = time.monotonic()
            async with connect_remote_agent(cast(Client, FullClient()), server.address):
                assert time.monotonic() - began < 1, "another client was let in meanwhile"
        assert (await agent.prompt("s-1", say("count 1"))).stop_reason == "end_turn"
        async with anyio.create_task_group() as tasks:
            served.prompted = anyio.Event()
            tasks.start_soon(_prompt_until_closed, agent, "block 1.5")
            while not served.prompted.is_set():
                await anyio.sleep(0.01)
            with anyio.fail_after(8):
                await server.aclose()


async def _prompt_until_closed(agent: RemoteClientConnection, text: str) -> None:
    with pytest.raises(ChannelClosed):
        await agent.prompt("s-1", say(text))


async def test_code_that_blocks_the_servers_loop_shorter_than_the_ping_timeout_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    patient = TransportOptions(ping_interval=0.5, ping_timeout=2)
    async with connected(FullClient(), patient) as (agent, _, _):
        await agent.prompt("s-1", say("block 1"))
        assert (await agent.prompt("s-1", say("count 1"))).stop_reason == "end_turn"
    assert "ping" not in caplog.text
