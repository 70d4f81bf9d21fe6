"""A typed question over real sockets and processes, with the route's flag and the client's capability in all
four combinations: they are independent, and only both together let the question through.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, cast

import anyio
import pytest
from acp import Agent, Client, RequestError, helpers, schema, spawn_agent_process

import acpremote
from acpremote import AcpSessionContext, ElicitationChoice
from acpremote.demo import DemoAgent

from ..recording_client import FORMS, NOTHING, RecordingClient, pick
from ..talking import connected

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


DEMO = [sys.executable, "-m", "acpremote.demo"]
ACPREMOTE = [sys.executable, "-m", "acpremote_cli.main"]
ACPKIT = [sys.executable, "-m", "acpremote_cli.acpkit"]


@pytest.fixture(scope="module")
def exposed() -> Iterator[str]:
    """The address of `acpremote expose -- DEMO`."""
    server = subprocess.Popen(
        [*ACPREMOTE, "expose", "--port", "0", "--", *DEMO], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        found = re.search(r"listening on (ws://\S+)", server.stderr.readline())
        assert found
        yield found[1]
    finally:
        server.terminate()
        server.stderr.close()
        server.wait(10)


class Route(Protocol):
    """Opens the near end of a route for a client."""

    def __call__(
        self, address: str, client: RecordingClient, *, flag: bool
    ) -> AbstractAsyncContextManager[Agent]: ...


@asynccontextmanager
async def through(command: list[str], client: RecordingClient, *, flag: bool) -> AsyncIterator[Agent]:
    """The near end as a process that an editor would start."""
    spawned = spawn_agent_process(
        cast(Client, client),
        *command,
        *(["--unstable-protocol"] if flag else []),
        env=os.environ,
        use_unstable_protocol=True,
    )
    async with spawned as (agent, _):
        yield cast(Agent, agent)


def exposed_and_mirror(
    address: str, client: RecordingClient, *, flag: bool
) -> AbstractAsyncContextManager[Agent]:
    return through([*ACPREMOTE, "mirror", address], client, flag=flag)


def demo_agent(_: Client) -> Agent:
    return cast(Agent, DemoAgent())


def far_demo_agents(seen: list[DemoAgent]) -> Callable[[Client], Agent]:
    """A factory that keeps what it makes."""

    def make(_: Client) -> Agent:
        seen.append(DemoAgent())
        return cast(Agent, seen[-1])

    return make


@asynccontextmanager
async def served_and_acpkit_run(address: str, client: RecordingClient, *, flag: bool) -> AsyncIterator[Agent]:
    """An agent of this process, and near it the other command that is a mirror."""
    async with (
        await acpremote.serve_acp(demo_agent) as server,
        through([*ACPKIT, "run", "--addr", server.address], client, flag=flag) as agent,
    ):
        yield agent


@asynccontextmanager
async def served_and_connect_acp(
    address: str, client: RecordingClient, *, flag: bool
) -> AsyncIterator[Agent]:
    """An agent of this process, and near it a program that shows it as its own on a stream."""
    options = acpremote.TransportOptions(use_unstable_protocol=flag)
    async with await acpremote.serve_acp(demo_agent) as server:
        remote = acpremote.connect_acp(server.address, options=options)
        async with connected(cast(Agent, remote), client) as agent:
            yield agent
        await remote.close()


@asynccontextmanager
async def served_and_remote_agent(
    address: str, client: RecordingClient, *, flag: bool
) -> AsyncIterator[Agent]:
    """An agent of this process, and a program that is itself the client."""
    options = acpremote.TransportOptions(use_unstable_protocol=flag)
    async with (
        await acpremote.serve_acp(demo_agent) as server,
        acpremote.connect_remote_agent(cast(Client, client), server.address, options=options) as agent,
    ):
        yield cast(Agent, agent)


async def ask(agent: Agent, capabilities: schema.ClientCapabilities) -> None:
    with anyio.fail_after(30):
        await agent.initialize(1, client_capabilities=capabilities)
        session = await agent.new_session(cwd="/nowhere")
        await agent.prompt(session.session_id, [helpers.text_block("choice")])


@pytest.mark.parametrize(
    "route", [exposed_and_mirror, served_and_acpkit_run, served_and_connect_acp, served_and_remote_agent]
)
class TestTheFourCombinations:
    async def test_flag_and_capability_let_the_question_through(self, exposed: str, route: Route) -> None:
        client = RecordingClient(pick("Production"))
        async with route(exposed, client, flag=True) as agent:
            await ask(agent, FORMS)
        assert client.messages == ["You picked Target.PRODUCTION."]
        ((message, mode),) = client.asked
        assert message == "Choose a deployment target"
        assert isinstance(mode, schema.ElicitationFormSessionMode)
        (asked,) = (mode.requested_schema.properties or {}).values()
        assert isinstance(asked, schema.ElicitationStringPropertySchema)
        preview, production = asked.one_of or []
        assert asked.default == preview.const
        assert production.description == "Deploy to production."
        assert production.field_meta == {"acpkit.dev/choice-description": "Deploy to production."}

    async def test_the_capability_alone_meets_a_missing_route(self, exposed: str, route: Route) -> None:
        client = RecordingClient(pick("Production"))
        async with route(exposed, client, flag=False) as agent:
            await ask(agent, FORMS)
        assert client.asked == []
        (message,) = client.messages
        assert "-32601" in message

    @pytest.mark.parametrize("flag", [True, False])
    async def test_without_the_capability_the_fallback_answers(
        self, exposed: str, route: Route, flag: bool
    ) -> None:
        client = RecordingClient(pick("Production"))
        async with route(exposed, client, flag=flag) as agent:
            await ask(agent, NOTHING)
        assert client.asked == []
        assert client.messages[-1] == "You picked Target.PREVIEW."


ELICITATION: list[dict[str, object] | None] = [None, {}, {"form": {}}, {"url": {}}, {"form": {}, "url": {}}]


@pytest.mark.parametrize("flag", [True, False])
async def test_the_agent_sees_exactly_the_modes_that_the_client_offered(flag: bool) -> None:
    agents: list[DemoAgent] = []
    options = acpremote.TransportOptions(use_unstable_protocol=flag)
    async with await acpremote.serve_acp(far_demo_agents(agents)) as server:
        async with exposed_and_mirror(server.address, RecordingClient(), flag=flag) as agent:
            for offered in ELICITATION:  # a client may initialize again
                capabilities = schema.ClientCapabilities.model_validate({"elicitation": offered})
                await agent.initialize(1, client_capabilities=capabilities)
                assert agents[-1].capabilities == capabilities
        for offered in ELICITATION:
            capabilities = schema.ClientCapabilities.model_validate({"elicitation": offered})
            client = cast(Client, RecordingClient())
            async with acpremote.connect_remote_agent(client, server.address, options=options) as remote:
                await remote.initialize(1, client_capabilities=capabilities)
                assert agents[-1].capabilities == capabilities


async def test_a_client_that_leaves_never_accepts_an_open_question() -> None:
    outcomes: list[object] = []
    asking = anyio.Event()
    ended = anyio.Event()

    class Asking(DemoAgent):
        async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
            assert self.client is not None
            user = AcpSessionContext(session_id=session_id, client=self.client, client_capabilities=FORMS)
            try:
                outcomes.append(await user.ask_choice("Now?", [ElicitationChoice(value=1, label="Yes")]))
            except BaseException as error:
                outcomes.append(error)
                raise
            finally:
                ended.set()
            return schema.PromptResponse(stop_reason="end_turn")

    class Silent(RecordingClient):
        async def create_elicitation(self, *_: Any, **__: Any) -> Any:
            asking.set()
            await anyio.sleep_forever()

    async def prompt(remote: Agent, session_id: str) -> None:
        with pytest.raises(ConnectionError):
            await remote.prompt(session_id, [helpers.text_block("choice")])

    options = acpremote.TransportOptions(use_unstable_protocol=True)
    async with await acpremote.serve_acp(lambda _: cast(Agent, Asking())) as server:
        remote = acpremote.connect_remote_agent(cast(Client, Silent()), server.address, options=options)
        async with anyio.create_task_group() as tasks:
            await remote.initialize(1, client_capabilities=FORMS)
            session = await remote.new_session(cwd="/nowhere")
            tasks.start_soon(prompt, cast(Agent, remote), session.session_id)
            with anyio.fail_after(20):
                await asking.wait()
                await remote.close()
                await ended.wait()
    (outcome,) = outcomes
    assert isinstance(outcome, asyncio.CancelledError | ConnectionError | RequestError)
