"""`acpkit` and `acpremote serve`, as child processes under real SDK clients."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from acp import Client, helpers, spawn_agent_process

from acpremote import TransportOptions, connect_remote_agent

from ..sdk.conversation import CAPABILITIES, converse
from ..sdk.full_client import FullClient

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
ACPKIT = [sys.executable, "-m", "acpremote_cli.acpkit"]
ACPREMOTE = [sys.executable, "-m", "acpremote_cli.main"]
AGENT = "tests.sdk.scripted_agent:ScriptedAgent"

CHATTY = """
import sys
from tests.sdk.scripted_agent import ScriptedAgent

print("a banner on standard output")

class Chatty(ScriptedAgent):
    async def do_print(self, session_id):
        print("in the middle of a turn")
        sys.stdout.flush()
        await self.say(session_id, "printed")
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def spawned(client: FullClient, *command: str, env: dict[str, str] | None = None) -> AsyncIterator[Any]:
    async with spawn_agent_process(
        cast(Client, client),
        *command,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
        use_unstable_protocol=True,
    ) as (agent, _):
        with anyio.fail_after(45):
            yield agent


@contextmanager
def serving(*arguments: str, command: Sequence[str] = ACPREMOTE) -> Iterator[str]:
    """Runs a `serve` command on a free port and gives its address; it must end well on SIGTERM."""
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"^acpremote: listening on (ws://\S+)$", line):
                break
        assert found
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        process.stderr.close()
        assert process.wait(15) == 0, rest
        assert "Traceback" not in rest


def finished(*command: str, env: dict[str, str] | None = None, given: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


async def turn(agent: Any, client: FullClient, text: str) -> list[str]:
    """One whole turn from the beginning; what the agent said, chunks put together."""
    await agent.initialize(1, CAPABILITIES)
    session = await agent.new_session("/tmp")
    client.log.clear()
    await agent.prompt(session.session_id, [helpers.text_block(text)])
    return client.texts


# --- run


async def test_run_is_the_agent_on_standard_input_and_output() -> None:
    direct, ran = FullClient(), FullClient()
    async with spawned(direct, sys.executable, "-m", "tests.sdk.scripted_agent") as agent:
        expected = await converse(agent, direct)
    async with spawned(ran, *ACPKIT, "run", AGENT) as agent:
        assert await converse(agent, ran) == expected


async def test_what_an_agents_module_prints_does_not_get_between_the_frames(tmp_path: Path) -> None:
    (tmp_path / "chatty_agent.py").write_text(CHATTY)
    given = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {
            "id": 1,
            "method": "session/prompt",
            "params": {"sessionId": "s-1", "prompt": [{"type": "text", "text": "print"}]},
        },
    ]
    status, out, err = finished(
        *ACPKIT,
        "run",
        "chatty_agent:Chatty",
        "-p",
        str(tmp_path),
        env={"PYTHONPATH": str(ROOT)},
        given="".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in given),
    )
    messages = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [message.get("id") for message in messages if "method" not in message] == [0, 1]
    assert "a banner on standard output" in err
    assert "in the middle of a turn" in err


def test_run_without_input_ends_in_order() -> None:
    assert finished(*ACPKIT, "run", AGENT) == (0, "", "")


async def test_run_addr_is_the_remote_agent_with_flag_and_token() -> None:
    client, plain = FullClient(), FullClient()
    os.environ["ACPKIT_TEST_TOKEN"] = "s3cret"
    try:
        with serving(AGENT, "--token-env", "ACPKIT_TEST_TOKEN", command=ACPKIT) as address:
            remote = ["run", "--addr", address, "--token-env", "ACPKIT_TEST_TOKEN"]
            async with spawned(client, *ACPKIT, *remote, "--unstable-protocol") as agent:
                await turn(agent, client, "elicit")
            async with spawned(plain, *ACPKIT, *remote) as agent:
                assert await turn(agent, plain, "elicit") == [
                    str((-32601, "Method not found", {"method": "elicitation/create"}))
                ]
            status, out, err = finished(*ACPKIT, "run", "--addr", address)
    finally:
        del os.environ["ACPKIT_TEST_TOKEN"]
    assert [method for method, *_ in client.log] == ["elicitation", "text", "completed"]
    assert (status, out) == (4, "")
    assert "401" in err


@pytest.mark.parametrize("arguments", [[], [AGENT, "--addr", "ws://localhost:1"]])
def test_run_wants_either_a_target_or_an_address(arguments: list[str]) -> None:
    status, out, err = finished(*ACPKIT, "run", *arguments)
    assert (status, out, err) == (2, "", "acpremote: give either TARGET or --addr\n")


# --- serve


async def test_serve_makes_an_agent_for_every_connection() -> None:
    with serving(AGENT) as address:
        for _ in range(2):
            client = FullClient()
            async with connect_remote_agent(cast(Client, client), address) as agent:
                assert await turn(agent, client, "count 3") == ["0", "1", "2"]
                assert (await agent.ext_method("thing", {}))["notes"] == []
                await agent.ext_notification("noted", {})


NO_FACTORY = "json:loads: the agent could not be made: TypeError: the JSON object must be"


@pytest.mark.parametrize(
    ("command", "target", "message"),
    [
        ([*ACPREMOTE, "serve"], "no_such_module_here:agent", "there is no module 'no_such_module_here'"),
        ([*ACPREMOTE, "serve"], "tests.sdk.scripted_agent:FORM", "dict is no ACP agent"),
        ([*ACPKIT, "run"], "tests.sdk.scripted_agent:Agnt", "has no 'Agnt'; did you mean Agent"),
        ([*ACPKIT, "run"], "tests.sdk.scripted_agent:FORM", "dict is no ACP agent"),
        ([*ACPREMOTE, "serve"], "os:getcwd", "what was called returned a str, which is no ACP agent"),
        ([*ACPREMOTE, "serve"], "json:loads", NO_FACTORY),
        ([*ACPKIT, "serve"], "json:loads", NO_FACTORY),
        ([*ACPKIT, "run"], "json:loads", NO_FACTORY),
        ([*ACPKIT, "launch"], "json:loads", NO_FACTORY),
    ],
)
def test_what_cannot_be_served_is_one_line_and_status_2(
    command: list[str], target: str, message: str
) -> None:
    status, out, err = finished(*command, target)
    assert (status, out) == (2, "")
    assert err.startswith("acpremote: ")
    assert message in err
    assert err.count("\n") == 1


# --- agents of frameworks

PYDANTIC = """
from pydantic_ai import Agent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

async def answer(messages, info):
    yield "hello "
    yield "from pydantic"

agent = Agent(FunctionModel(stream_function=answer), name="greeter")
"""

LANGGRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

def answer(state):
    return {"messages": [AIMessage("hello from langgraph")]}

graph = StateGraph(MessagesState)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
agent = graph.compile()
"""


@pytest.mark.parametrize(("source", "name"), [(PYDANTIC, "pydantic"), (LANGGRAPH, "langgraph")])
async def test_an_agent_of_a_framework_is_adapted_for_every_connection(
    source: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}_target.py").write_text(source)
    with serving(f"{name}_target:agent", "-p", str(tmp_path)) as address:
        for _ in range(2):
            client = FullClient()
            async with connect_remote_agent(
                cast(Client, client), address, options=TransportOptions(use_unstable_protocol=True)
            ) as agent:
                with anyio.fail_after(40):
                    said = "".join(await turn(agent, client, "hi"))
                assert f"hello from {name}" in said


@pytest.mark.parametrize(
    ("source", "what", "adapter", "extra"),
    [
        (PYDANTIC, "a Pydantic AI agent", "pydantic_acp", "pydantic"),
        (LANGGRAPH, "a LangGraph agent", "langchain_acp", "langchain"),
    ],
)
def test_a_missing_adapter_is_named_with_the_command_that_installs_it(
    source: str, what: str, adapter: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / "framework_target.py").write_text(source)
    program = f"import sys; sys.modules['{adapter}'] = None; from acpremote_cli.acpkit import main; main()"
    status, _, err = finished(
        sys.executable, "-c", program, "run", "framework_target:agent", "-p", str(tmp_path)
    )
    assert status == 2
    assert err == (
        f"acpremote: framework_target:agent is {what}, which needs the package {adapter}: "
        f"pip install 'acpremote[{extra}]'\n"
    )


# --- launch

TOAD = """#!{python}
import json, sys
json.dump(sys.argv[1:], open({file!r}, "w"))
"""


@pytest.fixture
def toad(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A stand-in for the terminal client that writes down how it was started."""
    told = tmp_path / "told.json"
    program = tmp_path / "bin" / "toad"
    program.parent.mkdir()
    program.write_text(TOAD.format(python=sys.executable, file=str(told)))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}, told


async def test_launch_opens_toad_on_a_command_that_runs_the_target(
    toad: tuple[dict[str, str], Path],
) -> None:
    env, told = toad
    assert finished(*ACPKIT, "launch", AGENT, "-p", str(ROOT), env=env) == (0, "", "")
    verb, command, project = json.loads(told.read_text())
    assert (verb, project) == ("acp", ".")
    client = FullClient()
    async with spawned(client, *shlex.split(command)) as agent:
        assert await turn(agent, client, "count 2") == ["0", "1"]


def test_launch_opens_toad_on_a_command_as_it_is(toad: tuple[dict[str, str], Path]) -> None:
    env, told = toad
    command = "my-agent --say 'two words' $HOME"
    assert finished(*ACPKIT, "launch", "-c", command, env=env) == (0, "", "")
    assert json.loads(told.read_text()) == ["acp", command, "."]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["launch"], "give either TARGET or -c COMMAND"),
        (["launch", AGENT, "-c", "x"], "give either TARGET or -c COMMAND"),
        (["launch", "no_such_module_here:agent"], "there is no module 'no_such_module_here'"),
        (["launch", "-c", "x"], "uv tool install -U batrachian-toad"),
    ],
)
def test_what_cannot_be_launched_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    status, _, err = finished(*ACPKIT, *arguments, env={"PATH": "/nowhere"})
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
