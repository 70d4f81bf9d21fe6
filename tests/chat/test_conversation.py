"""Conversations as dialogues: a scripted agent, a scripted person, and what each gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from acpremote.chat.peer import AgentError, RequestRefused
from acpremote.chat.view import (
    Asked,
    ComponentProblem,
    Listed,
    Notice,
    Problem,
    Status,
    Thought,
    ToolShown,
    TurnEnded,
    UserText,
    Words,
    WordsEnded,
)
from acpremote.components import Choice, ChoiceSubmissions, SelectionEvent, choice_list_frame
from acpremote.components.menu import Menu, Unchosen
from acpremote.components.submission import RESERVED_PREFIX
from acpremote.ending import Ending, EndingKind
from acpremote.errors import AgentStartError

from ..components.samples import choice, frame, props
from .scripted import SESSION, ScriptedAgent, ScriptedView, talk_through, talking

pytestmark = pytest.mark.anyio

PERMISSION = {
    "sessionId": SESSION,
    "toolCall": {"toolCallId": "c-1", "title": "Write it", "kind": "edit"},
    "options": [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ],
}
SINGLE = {
    "sessionId": SESSION,
    "mode": "form",
    "message": "Where?",
    "requestedSchema": {
        "properties": {"zone": {"type": "string", "enum": ["eu", "us"], "default": "us"}},
        "required": ["zone"],
    },
}


def asking(method: str, params: Mapping[str, Any], answers: list[object]) -> ScriptedAgent:
    """An agent that asks one question in a turn and keeps the answer."""

    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        try:
            answers.append(await agent.peer.request(method, params))
        except AgentError as error:
            answers.append(error.code)

    return ScriptedAgent(turn)


async def nothing(_agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
    pass


async def test_a_turn_streams_words_and_ends() -> None:
    async def turn(agent: ScriptedAgent, params: Mapping[str, Any]) -> object:
        assert params == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "hello"}]}
        await agent.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
        await agent.say("Hi ", messageId="m-1")
        await agent.say("there.", messageId="m-1")
        await agent.say("Next.", messageId="m-2")
        await agent.update("agent_message_chunk", "other-session", content={"type": "text", "text": "no"})
        return {"stopReason": "max_tokens"}

    view, agent = ScriptedView(["hello", "  "], []), ScriptedAgent(turn)
    assert await talk_through(view, agent) is None
    assert view.of(Words, WordsEnded, Thought, TurnEnded) == [
        Thought("hm"),
        WordsEnded(),
        Words("Hi "),
        Words("there."),
        WordsEnded(),
        Words("Next."),
        WordsEnded(),
        TurnEnded("max_tokens"),
    ]
    methods = [method for method, _ in agent.calls]
    assert methods == ["initialize", "session/new", "session/prompt"]
    assert agent.calls[0][1]["clientCapabilities"]["elicitation"] == {"form": {}, "url": {}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Allow", {"outcome": {"outcome": "selected", "optionId": "yes"}}),
        ("Reject", {"outcome": {"outcome": "selected", "optionId": "no"}}),
        (Unchosen.CANCELLED, {"outcome": {"outcome": "selected", "optionId": "no"}}),
    ],
)
async def test_a_permission_is_answered_and_a_no_is_a_reject_option(answer: object, expected: object) -> None:
    answers: list[object] = []
    view = ScriptedView(["go"], [answer])
    await talk_through(view, asking("session/request_permission", PERMISSION, answers))
    assert answers == [expected]
    assert ToolShown("Write it", "edit", "pending", True) in view.shown


async def test_without_a_reject_option_there_is_no_way_to_say_no_but_to_cancel_the_turn() -> None:
    answers: list[object] = []
    allow_only = {**PERMISSION, "options": PERMISSION["options"][:1]}  # type: ignore[index]
    view = ScriptedView(["go"], ["Allow"])
    await talk_through(view, asking("session/request_permission", allow_only, answers))
    (menu,) = view.asked
    assert isinstance(menu, Menu)
    assert menu.cancel is None


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("session/request_permission", PERMISSION, {"outcome": {"outcome": "cancelled"}}),
        ("elicitation/create", SINGLE, {"action": "cancel"}),
    ],
)
async def test_cancelling_the_turn_answers_what_is_open_after_telling_the_agent(
    method: str, params: Mapping[str, Any], expected: object
) -> None:
    answers: list[object] = []
    view = ScriptedView(["go"], [])
    async with talking(view, asking(method, params, answers)) as talk:
        await view.waiting.wait()
        assert talk.conversation.interrupt()
        assert not talk.conversation.interrupt()  # only once a turn
        await talk.done.wait()
    assert answers == [expected]
    assert [name for name, _ in talk.agent.calls][-1] == "session/cancel"
    assert view.closed_dialogs == 1


async def test_an_agent_that_ends_its_turn_with_a_question_open_gets_it_cancelled() -> None:
    answers: list[object] = []
    answered = anyio.Event()

    async def turn(agent: ScriptedAgent, params: Mapping[str, Any]) -> None:
        async def ask() -> None:
            answers.append(await agent.peer.request("session/request_permission", PERMISSION))
            answered.set()

        if params["prompt"][0]["text"] == "go":
            tasks.start_soon(ask)
            await view.waiting.wait()
        else:
            await answered.wait()

    view = ScriptedView(["go", "wait for the answer"], [])
    async with anyio.create_task_group() as tasks:
        await talk_through(view, ScriptedAgent(turn))
    assert answers == [{"outcome": {"outcome": "cancelled"}}]


async def test_a_withdrawn_question_closes_and_is_answered_with_the_code_for_that() -> None:
    answers: list[object] = []

    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        async def ask() -> None:
            try:
                await agent.peer.request("elicitation/create", SINGLE)
            except AgentError as error:
                answers.append(error.code)

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await view.waiting.wait()
            await agent.peer.notify("$/cancel_request", {"requestId": 1})

    view = ScriptedView(["go"], [])
    await talk_through(view, ScriptedAgent(turn))
    assert (answers, view.closed_dialogs) == ([-32800], 1)


async def test_questions_are_asked_one_at_a_time_in_their_order() -> None:
    answers: list[object] = []

    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        async def ask(message: str) -> None:
            answers.append(await agent.peer.request("elicitation/create", {**SINGLE, "message": message}))

        async with anyio.create_task_group() as asking:
            for message in ("First?", "Second?"):
                asking.start_soon(ask, message)

    def check(menu: Menu) -> str:
        assert len(view.asked) == len(seen) + 1  # the one before is answered and gone
        seen.append(menu.prompt)
        return "us" if menu.prompt == "First?" else "eu"

    seen: list[str] = []
    view = ScriptedView(["go"], [check, check])
    await talk_through(view, ScriptedAgent(turn))
    assert answers == [
        {"action": "accept", "content": {"zone": "us"}},
        {"action": "accept", "content": {"zone": "eu"}},
    ]
    assert seen == ["First?", "Second?"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("us", {"action": "accept", "content": {"zone": "us"}}),
        (Unchosen.DECLINED, {"action": "decline"}),
        (Unchosen.CANCELLED, {"action": "cancel"}),
    ],
)
async def test_a_single_choice_is_a_list_with_its_default_highlighted(
    answer: object, expected: object
) -> None:
    answers: list[object] = []
    view = ScriptedView(["go"], [answer])
    await talk_through(view, asking("elicitation/create", SINGLE, answers))
    (menu,) = view.asked
    assert isinstance(menu, Menu)
    assert (menu.highlighted, menu.skip, menu.decline) == ("o2", None, "decline")
    assert answers == [expected]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("elicitation/create", {"mode": "form"}, -32602),
        ("elicitation/create", None, -32602),
        ("session/request_permission", {"sessionId": SESSION}, -32602),
        ("session/request_permission", {**PERMISSION, "sessionId": "other"}, -32602),
        ("fs/read_text_file", {"sessionId": SESSION, "path": "/etc/passwd"}, -32601),
        ("terminal/create", {}, -32601),
        ("_vendor/anything", {}, -32601),
    ],
)
async def test_what_is_malformed_or_unknown_is_refused_and_nobody_is_asked(
    method: str, params: Any, code: int
) -> None:
    answers: list[object] = []
    view = ScriptedView(["go"], [])
    await talk_through(view, asking(method, params, answers))
    assert (answers, view.asked) == ([code], [])


async def test_an_address_is_shown_whole_and_opened_only_after_consent() -> None:
    url = "https://user@example.org/sign-in?state=1"
    params = {"sessionId": SESSION, "mode": "url", "message": "Sign in", "url": url, "elicitationId": "e-1"}
    opened: list[str] = []

    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        for _ in range(3):
            answers.append(await agent.peer.request("elicitation/create", params))
        await agent.peer.notify("elicitation/complete", {"elicitationId": "e-1"})

    def consent(menu: Menu) -> str:
        assert opened == []
        assert {f"Address: {url}", "Host: example.org"} < set(menu.prompt.split("\n"))
        return "Open it in the browser"

    answers: list[object] = []
    view = ScriptedView(["go"], [Unchosen.DECLINED, consent, "I open it myself"])

    def open_url(address: str) -> bool:
        opened.append(address)
        return False

    await talk_through(view, ScriptedAgent(turn), open_url=open_url)
    assert answers == [{"action": "decline"}, {"action": "accept"}, {"action": "accept"}]
    assert opened == [url]
    assert Notice(f"No browser could be started. The address is {url}") in view.shown
    assert Notice("The agent says that example.org is done.") in view.shown


def saying(*frames: object) -> ScriptedAgent:
    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        for number, each in enumerate(frames):
            text = json.dumps(each)
            for start in range(0, len(text), 50):
                await agent.say(text[start : start + 50], messageId=f"m-{number}")

    modes = {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "go", "name": "Go"}],
    }
    return ScriptedAgent(turn, session_new={"sessionId": SESSION, "modes": modes}, session_set_mode={})


async def test_component_frames_are_asked_after_the_turn_and_reported_to_the_host() -> None:
    events: list[SelectionEvent] = []
    view = ScriptedView(["go"], ["main"])
    await talk_through(view, saying(frame()), on_component_select=events.append)
    assert events == [SelectionEvent("choice-list", "pick-branch:m-17", "trunk")]
    kinds = [type(shown) for shown in view.shown if isinstance(shown, Listed | TurnEnded | Asked)]
    assert kinds == [Listed, TurnEnded, Asked]
    assert view.prefilled == ["main"]
    assert not view.of(Words)  # the JSON itself is not shown


async def test_what_was_chosen_is_sent_by_the_person_and_never_by_itself() -> None:
    view = ScriptedView(["go"], ["main", "main"])
    agent = saying(frame(), frame(instanceId="other"))
    await talk_through(view, agent)
    assert [name for name, _ in agent.calls].count("session/prompt") == 1
    assert view.prefilled == ["main main"]  # after the last list, so that no key sends the first


async def test_undeclared_and_invalid_frames_show_their_fallback_and_why() -> None:
    view = ScriptedView(["go"], [])
    await talk_through(view, saying(frame(componentKey="star-map"), frame(props=[]), frame(version=2)))
    problems = [
        (str(shown.diagnostic.code), shown.fallback is not None)
        for shown in view.shown
        if isinstance(shown, ComponentProblem)
    ]
    assert problems == [
        ("COMPONENT_UNKNOWN", True),
        ("COMPONENT_INVALID_PROPS", True),
        ("COMPONENT_UNSUPPORTED_VERSION", False),
    ]
    assert view.asked == []


async def test_a_frame_in_user_or_tool_text_is_never_a_component() -> None:
    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        text = {"type": "text", "text": json.dumps(frame())}
        await agent.update("user_message_chunk", content=text)
        content = [{"type": "content", "content": text}]
        await agent.update("tool_call", toolCallId="c-1", title="t", content=content)
        await agent.update("agent_thought_chunk", content=text)

    view = ScriptedView(["go"], [])
    await talk_through(view, ScriptedAgent(turn))
    assert view.asked == []
    assert view.of(Listed, ComponentProblem) == []
    assert view.of(UserText)


def proposing(name: str, given: object) -> dict[str, object]:
    return frame(props=props(choice(id="a", label="Do it", action={"name": name, "input": given})))


async def test_an_action_runs_only_after_the_person_saw_its_input_and_said_yes() -> None:
    def confirm(menu: Menu) -> str:
        assert view.copied == []
        assert '"text": "secret plan"' in menu.prompt
        return "Yes, do it"

    view = ScriptedView(["go"], ["Do it", confirm])
    await talk_through(view, saying(proposing("copy-text", {"text": "secret plan"})))
    assert view.copied == ["secret plan"]
    assert Notice("Copy text to the clipboard: done.") in view.shown
    assert view.prefilled == []


@pytest.mark.parametrize("answer", ["No", Unchosen.CANCELLED])
async def test_an_action_that_the_person_refuses_does_not_run(answer: object) -> None:
    view = ScriptedView(["go"], ["Do it", answer])
    await talk_through(view, saying(proposing("copy-text", {"text": "x"})))
    assert view.copied == []
    assert Notice("Copy text to the clipboard: not done.") in view.shown


@pytest.mark.parametrize(
    ("name", "given"),
    [("rm.rf", {}), ("copy-text", {"text": 5}), ("copy-text", {"text": "x", "then": "y"}), ("set-mode", {})],
)
async def test_an_unknown_action_or_input_is_refused_without_asking(name: str, given: object) -> None:
    view = ScriptedView(["go"], ["Do it"])
    await talk_through(view, saying(proposing(name, given)))
    assert len(view.asked) == 1
    assert len(view.of(Problem)) == 1


async def test_an_action_can_change_the_mode_and_an_unknown_mode_is_told() -> None:
    view = ScriptedView(["go", "go"], ["Do it", "Yes, do it", Unchosen.CANCELLED])
    agent = saying(proposing("set-mode", {"modeId": "go"}))
    await talk_through(view, agent)
    assert ("session/set_mode", {"sessionId": SESSION, "modeId": "go"}) in agent.calls
    view = ScriptedView(["go"], ["Do it", "Yes, do it"])
    await talk_through(view, saying(proposing("set-mode", {"modeId": "root"})))
    assert any("no mode root" in shown.text for shown in view.shown if isinstance(shown, Problem))


async def test_the_hosts_own_list_sends_the_text_that_the_host_keeps() -> None:
    lists = ChoiceSubmissions()
    own = choice_list_frame(f"{RESERVED_PREFIX}1", "Which?", [Choice("a", "Apples"), Choice("b", "Bears")])
    lists.remember(SESSION, own, {"a": "tell me about apples", "b": "tell me about bears"})
    prompts: list[object] = []

    async def turn(agent: ScriptedAgent, params: Mapping[str, Any]) -> None:
        prompts.append(params["prompt"][0]["text"])
        if len(prompts) == 1:
            await agent.say(own.encode())

    view = ScriptedView(["go", "/help"], ["Bears"])
    async with talking(view, ScriptedAgent(turn), choice_submission=lists.resolve) as talk:
        await talk.done.wait()
    assert prompts in (["go"], ["go", "tell me about bears"])  # the script's end may come before it


async def test_lists_are_reached_by_choose_where_they_are_not_asked() -> None:
    events: list[SelectionEvent] = []
    lines = ["/choose", "go", "/choose 7", "/choose 1", "/choose 1"]
    view = ScriptedView(lines, [], asks_lists=False)
    await talk_through(view, saying(frame()), on_component_select=events.append)
    assert [event.choice_id for event in events] == ["trunk"]
    assert view.prefilled == ["main"]
    assert view.of(Problem) == [Problem("There is no number 7: 1 to 1.")]


async def test_modes_are_chosen_by_id_or_from_a_list() -> None:
    view = ScriptedView(["/mode go", "/mode", "/mode root"], ["Ask"])
    agent = saying()
    await talk_through(view, agent)
    wanted = [params["modeId"] for name, params in agent.calls if name == "session/set_mode"]
    assert wanted == ["go", "ask"]
    assert view.of(Status)[-1] == Status("scripted", "Ask")
    assert view.of(Problem) == [Problem("There is no mode root; there are ask, go.")]


async def test_sessions_are_listed_loaded_and_replayed() -> None:
    async def load(agent: ScriptedAgent, params: Mapping[str, Any]) -> object:
        assert params["sessionId"] == "old"
        await agent.update("user_message_chunk", "old", content={"type": "text", "text": "before"})
        await agent.say("answer", messageId="m")  # of the session that is open: not ours any more
        return {}

    initialized = {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}},
    }
    listed = {"sessions": [{"sessionId": "old", "title": "Old one"}, {"sessionId": SESSION}, {"bad": 1}]}
    view = ScriptedView(["/load", "hi"], ["Old one"])
    agent = ScriptedAgent(nothing, initialize=initialized, session_list=listed, session_load=load)
    await talk_through(view, agent)
    assert view.of(UserText) == [UserText("before")]
    assert not view.of(Words)
    assert agent.calls[-1][1]["sessionId"] == "old"


async def test_what_an_agent_cannot_do_is_said() -> None:
    view = ScriptedView(["/load", "/mode", "/nonsense", "/cancel"], [])
    await talk_through(view, ScriptedAgent(nothing))
    said = [shown.text for shown in view.shown if isinstance(shown, Notice | Problem)][1:]
    assert said == [
        "This agent cannot load sessions.",
        "This agent has no modes.",
        "There is no command /nonsense; /help lists them.",
        "No turn is running.",
    ]


async def test_an_agents_own_commands_travel_as_prompts() -> None:
    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        commands = [{"name": "web", "description": "Search"}, {"name": "quit", "description": "Not ours"}]
        await agent.update("available_commands_update", availableCommands=commands)

    view = ScriptedView(["hi", "/web acp", "/quit"], [])
    agent = ScriptedAgent(turn)
    assert await talk_through(view, agent) is None
    prompts = [params["prompt"][0]["text"] for name, params in agent.calls if name == "session/prompt"]
    assert prompts == ["hi", "/web acp"]
    assert view.words["web"] == "Search"
    assert view.words["quit"] == "leave"


async def test_logging_in_is_asked_for_and_the_request_repeated() -> None:
    tries: list[object] = []

    async def new(agent: ScriptedAgent, _params: Mapping[str, Any]) -> object:
        tries.append(1)
        if ("authenticate", {"methodId": "key"}) not in agent.calls:
            raise RequestRefused(-32000, "Authentication required")
        return {"sessionId": SESSION}

    initialized = {"protocolVersion": 1, "authMethods": [{"id": "key", "name": "A key"}]}
    view = ScriptedView(["hi"], ["A key"])
    agent = ScriptedAgent(nothing, initialize=initialized, session_new=new, authenticate={})
    assert await talk_through(view, agent) is None
    assert len(tries) == 2


@pytest.mark.parametrize(
    "methods",
    [
        {"initialize": {"protocolVersion": 2}},
        {"initialize": {}},
        {"initialize": []},
        {"session_new": {}},
        {"session_new": "text"},
    ],
)
async def test_an_agent_that_cannot_be_talked_to_is_a_clear_error(methods: dict[str, Any]) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await talk_through(ScriptedView([], []), ScriptedAgent(nothing, **methods))
    assert caught.group_contains(AgentStartError)


async def test_an_error_ends_the_turn_and_not_the_conversation() -> None:
    async def turn(agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        await agent.say("Half a sen")
        raise RequestRefused(-32603, "out of credit")

    view = ScriptedView(["one", "two"], [])
    assert await talk_through(view, ScriptedAgent(turn)) is None
    assert view.of(Problem, TurnEnded) == [Problem("out of credit"), TurnEnded("error")] * 2


async def test_an_agent_that_goes_away_ends_the_conversation_with_the_reason() -> None:
    ending = Ending(EndingKind.AGENT_FAILED, "the agent exited with status 3", 3)

    async def turn(_agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        await talk.far.aclose(ending)

    view = ScriptedView(["go"], [])
    async with talking(view, ScriptedAgent(turn)) as talk:
        await talk.done.wait()
    assert talk.ending == ending


async def test_a_line_entered_in_a_turn_goes_back_to_the_person() -> None:
    class Impatient(ScriptedView):
        async def lines(self) -> Any:
            yield "go"
            yield "more"
            yield "/mode"
            release.set()
            assert self.conversation is not None
            await self.conversation.wait_idle()

    async def turn(_agent: ScriptedAgent, _params: Mapping[str, Any]) -> None:
        await release.wait()

    release = anyio.Event()
    view, agent = Impatient([], []), ScriptedAgent(turn)
    await talk_through(view, agent)
    assert view.prefilled == ["more"]
    assert [name for name, _ in agent.calls].count("session/prompt") == 1
