"""The demo agent, driven by a real SDK client over a real socket; once as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from acp import Client, RequestError, helpers, schema, spawn_agent_process

from acpremote.components import (
    ChoiceListComponent,
    DiagnosticCode,
    Resolved,
    Unresolved,
    define_component_manifest,
    resolve_component_frame,
)
from acpremote.demo import SHOWS

from .recording_client import FORMS, NOTHING, RecordingClient, accept, decline, pick
from .talking import talking_to_demo

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("text", ["", "  ", "what can you do", "?!"])
async def test_an_empty_or_unknown_prompt_gets_a_tour_with_a_typed_question(text: str) -> None:
    client = RecordingClient(pick("Production"))
    async with talking_to_demo(client) as demo:
        assert await demo.say(text) == "end_turn"
    assert [message for message, _ in client.asked] == ["Choose a deployment target"]
    assert "You picked Target.PRODUCTION." in client.messages
    assert [entry.status for entry in client.seen("plan")[-1].entries] == ["completed"] * 3


async def test_words_in_a_sentence_choose_what_is_shown_in_their_order() -> None:
    client = RecordingClient(pick("Preview"))
    async with talking_to_demo(client) as demo:
        await demo.say("First a choice, then the /PLAN and the choice again.")
    kinds = dict.fromkeys(update.session_update for update in client.updates)
    assert list(kinds) == ["available_commands_update", "agent_message_chunk", "plan"]
    assert client.messages == ["You picked Target.PREVIEW."]


async def test_help_and_the_command_list_name_every_word() -> None:
    client = RecordingClient()
    async with talking_to_demo(client) as demo:
        await demo.say("help")
    (message,) = client.messages
    (commands,) = client.seen("available_commands_update")
    assert [command.name for command in commands.available_commands] == list(SHOWS)
    assert all(f"- {word}: " in message for word in SHOWS)


async def test_text_arrives_in_pieces() -> None:
    client = RecordingClient()
    async with talking_to_demo(client) as demo:
        await demo.say("help")
    assert len(client.seen("agent_message_chunk")) > 20


async def test_declining_the_choice_is_said() -> None:
    client = RecordingClient(decline)
    async with talking_to_demo(client) as demo:
        await demo.say("choice")
    assert client.messages == ["You declined the question."]


async def test_a_client_without_forms_gets_the_fallback() -> None:
    client = RecordingClient()
    async with talking_to_demo(client, NOTHING) as demo:
        assert await demo.say("choice") == "end_turn"
    assert client.asked == []
    assert client.messages[-1] == "You picked Target.PREVIEW."


@pytest.mark.parametrize("word", ["form", "url"])
async def test_what_the_client_does_not_support_is_said_and_not_sent(word: str) -> None:
    client = RecordingClient()
    async with talking_to_demo(client, NOTHING) as demo:
        assert await demo.say(word) == "end_turn"
    assert client.asked == []
    assert f"did not advertise {word} elicitation" in client.messages[0]


@pytest.mark.filterwarnings("ignore:.*unstable protocol:UserWarning")
async def test_a_missing_receiving_route_is_said_with_the_option_that_helps() -> None:
    client = RecordingClient()
    async with talking_to_demo(client, unstable=False) as demo:
        assert await demo.say("choice") == "end_turn"
    (message,) = client.messages
    assert "-32601" in message
    assert "--unstable-protocol" in message


async def test_a_malformed_answer_is_said() -> None:
    client = RecordingClient(accept({"choice": "Preview"}))
    async with talking_to_demo(client) as demo:
        assert await demo.say("choice") == "end_turn"
    assert client.messages[0].startswith("That did not work")


async def test_the_form_has_every_kind_of_field_and_its_answer_is_shown() -> None:
    client = RecordingClient(accept({"name": "Ada", "copies": 2, "gift": True, "extras": ["card"]}))
    async with talking_to_demo(client) as demo:
        await demo.say("form")
    ((_, mode),) = client.asked
    assert isinstance(mode, schema.ElicitationFormSessionMode)
    fields = (mode.requested_schema.properties or {}).values()
    assert {each.type for each in fields} == {"string", "integer", "number", "boolean", "array"}
    assert client.messages == ['You filled in:\n- name: "Ada"\n- copies: 2\n- gift: true\n- extras: ["card"]']


async def test_a_url_elicitation_is_completed_after_it_was_accepted() -> None:
    client = RecordingClient(accept())
    async with talking_to_demo(client) as demo:
        await demo.say("url")
        client.answer = decline
        await demo.say("url")
    (_, accepted), (_, declined) = client.asked
    assert isinstance(accepted, schema.ElicitationUrlSessionMode)
    assert str(accepted.url).startswith("https://example.org/")
    assert isinstance(declined, schema.ElicitationUrlSessionMode)
    assert client.completed == [accepted.elicitation_id]


@pytest.mark.parametrize(
    ("mode", "option", "asked", "status"),
    [
        ("ask", "once", 2, "completed"),
        ("ask", "always", 1, "completed"),
        ("ask", "no", 2, "failed"),
        ("ask", "unheard-of", 2, "failed"),
        ("ask", None, 2, "failed"),
        ("auto", None, 0, "completed"),
        ("read", "always", 0, "failed"),
    ],
)
async def test_a_tool_runs_as_mode_and_permission_say(
    mode: str, option: str | None, asked: int, status: str
) -> None:
    client = RecordingClient(option=option)
    async with talking_to_demo(client) as demo:
        await demo.agent.set_session_mode(demo.session_id, mode)
        await demo.say("tool")
        await demo.say("permission")
    assert len(client.permissions) == asked
    assert len(client.seen("tool_call")) == 2
    assert client.seen("tool_call_update")[-1].status == status
    assert client.seen("current_mode_update")[0].current_mode_id == mode
    assert not Path("/nowhere").exists()


async def test_components_are_two_good_lists_an_undeclared_key_and_a_broken_list() -> None:
    client = RecordingClient()
    manifest = define_component_manifest([ChoiceListComponent])
    async with talking_to_demo(client) as demo:
        await demo.say("component")
    good, copy, undeclared, broken = [resolve_component_frame(text, manifest) for text in client.messages]
    assert isinstance(good, Resolved)
    assert isinstance(copy, Resolved)
    assert "copy-text" in client.messages[1]
    assert isinstance(undeclared, Unresolved)
    assert isinstance(broken, Unresolved)
    codes = [undeclared.diagnostic.code, broken.diagnostic.code]
    assert codes == [DiagnosticCode.UNKNOWN, DiagnosticCode.INVALID_PROPS]


async def test_cancel_ends_a_long_turn_at_once() -> None:
    client = RecordingClient()
    async with talking_to_demo(client) as demo, anyio.create_task_group() as tasks:

        async def cancel_when_it_runs() -> None:
            while not client.messages:
                client.updated.clear()
                await client.updated.wait()
            await demo.agent.cancel(demo.session_id)

        tasks.start_soon(cancel_when_it_runs)
        assert await demo.say("slow") == "cancelled"
        assert await demo.say("plan") == "end_turn"


async def test_cancel_ends_an_open_question_and_the_session_goes_on() -> None:
    class Silent(RecordingClient):
        async def create_elicitation(self, *args: Any, **kwargs: Any) -> Any:
            self.was_asked.set()
            await anyio.sleep_forever()

    client = Silent()
    async with talking_to_demo(client) as demo, anyio.create_task_group() as tasks:

        async def cancel_when_asked() -> None:
            await client.was_asked.wait()
            await demo.agent.cancel(demo.session_id)

        tasks.start_soon(cancel_when_asked)
        assert await demo.say("choice") == "cancelled"
        assert await demo.say("plan") == "end_turn"


async def test_a_second_prompt_during_a_turn_is_refused() -> None:
    client = RecordingClient()
    async with talking_to_demo(client) as demo, anyio.create_task_group() as tasks:
        tasks.start_soon(demo.say, "slow")
        await client.updated.wait()
        with pytest.raises(RequestError) as caught:
            await demo.say("plan")
        assert caught.value.code == -32600
        await demo.agent.cancel(demo.session_id)


async def test_a_loaded_session_replays_what_it_showed() -> None:
    client = RecordingClient(pick("Preview"))
    async with talking_to_demo(client) as demo:
        await demo.say("choice and plan")
        before, client.updates = client.updates, []
        loaded = await demo.agent.load_session("/elsewhere", demo.session_id)
        listed = await demo.agent.list_sessions()
        none = await demo.agent.list_sessions(cwd="/nowhere")
    assert loaded is not None
    assert loaded.modes is not None
    assert loaded.modes.current_mode_id == "ask"
    user, *rest = client.updates
    assert user.content.text == "choice and plan"
    assert rest == before
    ((info),) = listed.sessions
    assert (info.session_id, info.cwd, info.title) == (demo.session_id, "/elsewhere", "choice and plan")
    assert none.sessions == []


async def test_unknown_sessions_and_modes_are_invalid_params() -> None:
    async with talking_to_demo(RecordingClient()) as demo:
        for wrong in (
            demo.agent.prompt("s-none", [helpers.text_block("plan")]),
            demo.agent.load_session("/", "s-none"),
            demo.agent.set_session_mode(demo.session_id, "yolo"),
        ):
            with pytest.raises(RequestError) as caught:
                await wrong
            assert caught.value.code == -32602
        await demo.agent.cancel("s-none")


async def test_the_agent_runs_as_a_process_on_stdio() -> None:
    client = RecordingClient(pick("Production"))
    command = [sys.executable, "-m", "acpremote.demo"]
    spawned = spawn_agent_process(cast(Client, client), *command, env=os.environ, use_unstable_protocol=True)
    async with (
        spawned as (
            agent,
            child,
        )
    ):
        started = await agent.initialize(1, client_capabilities=FORMS)
        session = await agent.new_session(cwd="/nowhere")
        await agent.prompt(session.session_id, [helpers.text_block("choice")])
    assert started.agent_info is not None
    assert started.agent_info.name == "acpremote-demo"
    assert client.messages == ["You picked Target.PRODUCTION."]
    assert child.returncode == 0


def test_standard_input_that_is_no_pipe_is_a_clear_error() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "acpremote.demo"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert ran.returncode != 0
    assert "acpremote expose -- acpremote demo --agent" in ran.stderr.splitlines()[-1]
