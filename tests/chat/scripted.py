"""Both ends of a conversation: an agent that is a table of methods, and a person that is a script."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acpremote.chat.conversation import Conversation
from acpremote.chat.peer import Peer, RequestRefused
from acpremote.chat.view import Shown, TextQuestion, View
from acpremote.components.menu import Chosen, Menu, MenuOutcome, Unchosen
from acpremote.ending import Ending, EndingKind
from acpremote.transport.channel import MemoryChannel, memory_channels

Method = Callable[["ScriptedAgent", Mapping[str, Any]], Awaitable[object]]

SESSION = "s-1"


class ScriptedAgent:
    """An agent whose `session/prompt` runs `turn`; further methods replace the ready-made ones."""

    def __init__(self, turn: Method, **methods: Any) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.cancelled = anyio.Event()
        self._turn = turn
        self._methods = methods
        self.peer: Peer

    async def handle_request(self, method: str, params: object) -> object:
        assert isinstance(params, Mapping)
        self.calls.append((method, params))
        name = method.replace("/", "_")
        if name in self._methods:
            answer = self._methods[name]
            return await answer(self, params) if callable(answer) else answer
        match method:
            case "initialize":
                return {"protocolVersion": 1, "agentInfo": {"name": "scripted"}}
            case "session/new":
                return {"sessionId": SESSION}
            case "session/prompt":
                answer = await self._turn(self, params)
                return {"stopReason": "end_turn"} if answer is None else answer
            case _:
                raise RequestRefused(-32601, "no such method")

    def handle_notification(self, method: str, params: object) -> None:
        assert isinstance(params, Mapping)
        self.calls.append((method, params))
        if method == "session/cancel":
            self.cancelled.set()

    async def update(self, kind: str, session: str = SESSION, **members: Any) -> None:
        update = {"sessionUpdate": kind, **members}
        await self.peer.notify("session/update", {"sessionId": session, "update": update})

    async def say(self, text: str, messageId: str | None = None) -> None:
        more = {} if messageId is None else {"messageId": messageId}
        await self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)


class ScriptedView(View):
    """Enters lines one turn after the other; answers menus and text questions from `answers`, in order.

    An answer is an outcome, a row's label, a text, or a function of the question. When there is none left,
    the question stays open.
    """

    def __init__(self, lines: list[str], answers: list[Any], *, asks_lists: bool = True) -> None:
        self._lines = deque(lines)
        self._answers = deque(answers)
        self._asks_lists = asks_lists
        self.conversation: Conversation | None = None
        self.shown: list[Shown] = []
        self.asked: list[Menu | TextQuestion] = []
        self.waiting = anyio.Event()
        self.prefilled: list[str] = []
        self.copied: list[str] = []
        self.words: Mapping[str, str] = {}
        self.closed_dialogs = 0

    @property
    def asks_lists(self) -> bool:
        return self._asks_lists

    def show(self, shown: Shown) -> None:
        self.shown.append(shown)

    async def lines(self) -> AsyncIterator[str]:
        assert self.conversation is not None
        while self._lines:
            yield self._lines.popleft()
            await self.conversation.wait_idle()

    async def choose(self, menu: Menu) -> MenuOutcome:
        self.asked.append(menu)
        answer = await self._answer(menu)
        if isinstance(answer, str):
            return Chosen(next(row.id for row in menu.rows if row.label == answer))
        assert isinstance(answer, Chosen | Unchosen)
        return answer

    async def ask_text(self, question: TextQuestion) -> str | Unchosen:
        self.asked.append(question)
        while True:
            answer = await self._answer(question)
            if not isinstance(answer, str) or question.check(answer) is None:
                assert isinstance(answer, str | Unchosen)
                return answer

    async def _answer(self, question: object) -> object:
        if not self._answers:
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.closed_dialogs += 1
        answer = self._answers.popleft()
        return answer(question) if callable(answer) else answer

    def prefill(self, text: str) -> None:
        self.prefilled.append(text)

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def set_completions(self, words: Mapping[str, str]) -> None:
        self.words = words

    def of(self, *kinds: type) -> list[Shown]:
        return [shown for shown in self.shown if isinstance(shown, kinds)]


class Talk:
    """A conversation that is running."""

    def __init__(
        self, view: ScriptedView, agent: ScriptedAgent, conversation: Conversation, far: MemoryChannel
    ) -> None:
        self.view = view
        self.agent = agent
        self.conversation = conversation
        self.far = far
        self.ending: Ending | None = None
        self.done = anyio.Event()


@asynccontextmanager
async def talking(view: ScriptedView, agent: ScriptedAgent, **options: Any) -> AsyncIterator[Talk]:
    """Runs a conversation beside the body; `Talk.done` is set when it is over."""
    near, far = memory_channels()
    conversation = Conversation(view, "/nowhere", **options)
    view.conversation = conversation
    talk = Talk(view, agent, conversation, far)
    agent.peer = Peer(far, agent)

    async def converse() -> None:
        talk.ending = await conversation.run(near)
        await near.aclose(Ending(EndingKind.CLIENT_LEFT))
        talk.done.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.peer.run)
            tasks.start_soon(converse)
            yield talk


async def talk_through(view: ScriptedView, agent: ScriptedAgent, **options: Any) -> Ending | None:
    """Runs a conversation to its end."""
    async with talking(view, agent, **options) as talk:
        await talk.done.wait()
    return talk.ending
