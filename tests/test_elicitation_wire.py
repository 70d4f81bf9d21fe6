"""Typed elicitation between real SDK connections over a real socket, and against a raw hostile client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from acp import Agent, Client, RequestError, connect_to_agent
from acp.core import AgentSideConnection
from acp.schema import (
    AcceptElicitationResponse,
    ClientCapabilities,
    ElicitationFormSessionMode,
    ElicitationMode,
    ElicitationStringPropertySchema,
)

from acpremote.elicitation import (
    AcpSessionContext,
    ChoiceElicitationAccepted,
    ElicitationChoice,
    ElicitationUnsupportedError,
    InvalidElicitationResponseError,
)

from .talking import streams_of

pytestmark = pytest.mark.anyio

FORMS = ClientCapabilities.model_validate({"elicitation": {"form": {}}})
CHOICES = [
    ElicitationChoice(value=1, label="One"),
    ElicitationChoice(value=2, label="Two", description="The second."),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def agent_and_peer(
    capabilities: ClientCapabilities,
) -> AsyncIterator[tuple[AcpSessionContext, Streams]]:
    """A session context on a real agent connection, and the raw streams of its client."""
    ours, theirs = socket.socketpair()
    agent = cast(Agent, object())  # this agent is never asked for anything
    async with (
        streams_of(theirs) as peer,
        streams_of(ours) as (reader, writer),
        AgentSideConnection(agent, writer, reader) as connection,
    ):
        yield (
            AcpSessionContext(session_id="s-1", client=connection, client_capabilities=capabilities),
            peer,
        )


class LastOption:
    """A real SDK client that picks the last option of a form."""

    def __init__(self) -> None:
        self.property: ElicitationStringPropertySchema | None = None

    async def create_elicitation(
        self, message: str, mode: ElicitationMode, **_: Any
    ) -> AcceptElicitationResponse:
        assert isinstance(mode, ElicitationFormSessionMode)
        ((name, asked),) = (mode.requested_schema.properties or {}).items()
        assert isinstance(asked, ElicitationStringPropertySchema)
        self.property = asked
        token = (asked.one_of or [])[-1].const
        return AcceptElicitationResponse(action="accept", content={name: token})


async def ask_sdk_client(*, flag: bool, capability: bool) -> tuple[object, LastOption]:
    client = LastOption()
    offered = FORMS if capability else ClientCapabilities()
    async with (
        agent_and_peer(offered) as (session, (reader, writer)),
        connect_to_agent(cast(Client, client), writer, reader, use_unstable_protocol=flag),
    ):
        return await session.ask_choice("Which?", CHOICES), client


async def test_with_flag_and_capability_a_real_client_picks_a_value() -> None:
    result, client = await ask_sdk_client(flag=True, capability=True)
    assert result == ChoiceElicitationAccepted(2)
    assert client.property is not None
    one, two = client.property.one_of or []
    assert (one.title, one.description, one.field_meta) == ("One", None, None)
    assert (two.title, two.description) == ("Two", "The second.")
    assert two.field_meta == {"acpkit.dev/choice-description": "The second."}


@pytest.mark.filterwarnings("ignore:.*unstable protocol:UserWarning")
async def test_with_the_capability_alone_the_route_is_missing() -> None:
    with pytest.raises(RequestError) as caught:
        await ask_sdk_client(flag=False, capability=True)
    assert caught.value.code == -32601


@pytest.mark.parametrize("flag", [True, False])
async def test_without_the_capability_nothing_is_asked(flag: bool) -> None:
    with pytest.raises(ElicitationUnsupportedError):
        await ask_sdk_client(flag=flag, capability=False)


@asynccontextmanager
async def raw_client(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> AsyncIterator[AcpSessionContext]:
    """A session of a client that answers one request with whatever members `reply` makes of its params."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        body = {"jsonrpc": "2.0", "id": request["id"], **reply(request["params"])}
        writer.write(json.dumps(body).encode() + b"\n")

    async with agent_and_peer(FORMS) as (session, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(answer, *peer)
        yield session


async def test_the_request_on_the_wire_is_a_standard_form_elicitation() -> None:
    seen: list[dict[str, Any]] = []

    def reply(params: dict[str, Any]) -> dict[str, Any]:
        seen.append(params)
        token = params["requestedSchema"]["properties"]["choice"]["oneOf"][0]["const"]
        return {"result": {"action": "accept", "content": {"choice": token}}}

    async with raw_client(reply) as session:
        assert await session.ask_choice("Which?", CHOICES) == ChoiceElicitationAccepted(1)
    (params,) = seen
    schema = params["requestedSchema"]
    tokens = [option.pop("const") for option in schema["properties"]["choice"]["oneOf"]]
    assert len(set(tokens)) == 2
    schema.pop("type", None)  # the SDK leaves out what is the schema's default
    description = {"description": "The second.", "_meta": {"acpkit.dev/choice-description": "The second."}}
    options = [{"title": "One"}, {"title": "Two", **description}]
    assert params == {
        "sessionId": "s-1",
        "mode": "form",
        "message": "Which?",
        "requestedSchema": {
            "required": ["choice"],
            "properties": {"choice": {"type": "string", "oneOf": options}},
        },
    }


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "accept",
        {},
        {"action": None},
        {"action": "accept"},
        {"action": "accept", "content": None},
        {"action": "accept", "content": "choice"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {"choice": 0}},
        {"action": "accept", "content": {"choice": "One"}},
        {"action": "Accept", "content": {}},
        {"action": "_snooze", "until": "tomorrow"},
        {"outcome": {"outcome": "selected", "optionId": "One"}},
    ],
)
async def test_a_hostile_answer_is_an_error_and_never_a_choice(result: object) -> None:
    async with raw_client(lambda _: {"result": result}) as session:
        with pytest.raises(InvalidElicitationResponseError) as caught:
            await session.ask_choice("Which?", CHOICES)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("code", [-32601, -32602, -32800, 17])
async def test_a_json_rpc_error_is_raised_with_its_code_and_data(code: int) -> None:
    error = {"code": code, "message": "no", "data": {"why": 1}}
    async with raw_client(lambda _: {"error": error}) as session:
        with pytest.raises(RequestError) as caught:
            await session.ask_choice("Which?", CHOICES)
    assert (caught.value.code, str(caught.value), caught.value.data) == (code, "no", {"why": 1})


async def test_a_client_that_leaves_ends_the_question_with_an_error() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    async with agent_and_peer(FORMS) as (session, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(leave, *peer)
        with pytest.raises(ConnectionError):
            await session.ask_choice("Which?", CHOICES)


async def test_two_questions_at_once_get_their_own_answers() -> None:
    answers: dict[str, object] = {}

    async def ask(session: AcpSessionContext, question: str) -> None:
        answers[question] = await session.ask_choice(question, CHOICES)

    async with agent_and_peer(FORMS) as (session, (reader, writer)), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, session, "0")
        tasks.start_soon(ask, session, "1")
        requests = [json.loads(await reader.readline()) for _ in range(2)]
        for request in reversed(requests):  # answered in the other order: the n-th question gets option n
            params = request["params"]
            option = params["requestedSchema"]["properties"]["choice"]["oneOf"][int(params["message"])]
            result = {"action": "accept", "content": {"choice": option["const"]}}
            body = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            writer.write(json.dumps(body).encode() + b"\n")
    assert answers == {"0": ChoiceElicitationAccepted(1), "1": ChoiceElicitationAccepted(2)}
