"""Whatever arrives in whatever chunks: updates are handled once, in order, before the answers behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
from acp import helpers, schema
from hypothesis import given, settings
from hypothesis import strategies as st

from acpremote.sdk import RemoteAgent

from ..sdk.raw_agent import RawAgent, ended, text

SESSIONS = ["a", "b"]

# What the agent does, one after the other: an update, a request of a permission, or the end of a turn.
STEPS = st.lists(
    st.tuples(st.sampled_from(["update"] * 4 + ["ask", "end"]), st.sampled_from(SESSIONS)), max_size=25
)
PAUSES = st.lists(st.integers(0, 3), min_size=1, max_size=7)
CUTS = st.sets(st.integers(0, 30))


class Client:
    """Takes a number of turns of the event loop for every update, and asks the agent back for some."""

    def __init__(self, pauses: list[int], calls_back: bool, agent: Callable[[], RemoteAgent]) -> None:
        self.pauses = pauses
        self.calls_back = calls_back
        self.agent = agent
        self.started: dict[str, list[int]] = {session: [] for session in SESSIONS}
        self.handled: dict[str, list[int]] = {session: [] for session in SESSIONS}
        self.asked: list[tuple[str, list[int]]] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        number = int(update.content.text)
        self.started[session_id].append(number)
        for _turn in range(self.pauses[number % len(self.pauses)]):
            await asyncio.sleep(0)
        if self.calls_back and number % 5 == 0:
            await self.agent().ext_method("back", {"number": number})
        self.handled[session_id].append(number)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((session_id, list(self.started[session_id])))
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))


def messages_of(
    steps: list[tuple[str, str]], prompts: dict[str, dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, list[int]], list[tuple[str, list[int]]]]:
    """The agent's messages; the updates before each end of a turn, and before each request."""
    messages: list[dict[str, Any]] = []
    so_far: dict[str, list[int]] = {session: [] for session in SESSIONS}
    before_end: dict[str, list[int]] = {}
    before_asking: list[tuple[str, list[int]]] = []
    for number, (what, session) in enumerate([*steps, *[("end", each) for each in SESSIONS]]):
        if what == "update":
            messages.append(text(number, session))
            so_far[session].append(number)
        elif what == "ask":
            params = {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": []}
            messages.append({"id": number, "method": "session/request_permission", "params": params})
            before_asking.append((session, list(so_far[session])))
        elif session not in before_end:
            before_end[session] = list(so_far[session])
            messages.append(ended(prompts[session]))
    return messages, before_end, before_asking


async def run_turns(
    steps: list[tuple[str, str]], pauses: list[int], cuts: set[int], calls_back: bool
) -> None:
    raw = RawAgent()
    agent = RemoteAgent(raw.join, window=1 << 20)
    client = Client(pauses, calls_back, lambda: agent)
    agent.on_connect(client)  # type: ignore[arg-type]  # it has what is asked for here
    at_return: dict[str, list[int]] = {}

    async def prompt(session: str) -> None:
        await agent.prompt(session, [helpers.text_block("go")])
        at_return[session] = list(client.handled[session])

    async def answer_back() -> None:
        while True:
            message = await raw.next()
            if message.get("method") == "_back":
                await raw.write({"id": message["id"], "result": {}})

    with anyio.fail_after(20):
        async with agent, anyio.create_task_group() as outer:
            prompts: dict[str, dict[str, Any]] = {}
            async with anyio.create_task_group() as turns:
                for session in SESSIONS:
                    turns.start_soon(prompt, session)
                    prompts[session] = await raw.next("session/prompt")
                outer.start_soon(answer_back)
                messages, before_end, before_asking = messages_of(steps, prompts)
                batch: list[dict[str, Any]] = []
                for index, message in enumerate(messages):
                    batch.append(message)
                    if index in cuts:
                        await raw.write(*batch)
                        batch = []
                        await asyncio.sleep(0)
                await raw.write(*batch)
            while sum(map(len, client.handled.values())) < sum(what == "update" for what, _ in steps):
                await asyncio.sleep(0)
            while len(client.asked) < len(before_asking):
                await asyncio.sleep(0)
            outer.cancel_scope.cancel()
    for session in SESSIONS:
        updates = [number for number, step in enumerate(steps) if step == ("update", session)]
        assert client.started[session] == updates, "every update once, in order"
        assert set(before_end[session]) <= set(at_return[session]), "handled before the turn was over"
        if not before_asking:
            assert client.handled[session] == updates, "one after the other"
    for (session, started), (_, before) in zip(sorted(client.asked), sorted(before_asking), strict=True):
        assert set(before) <= set(started), f"started before {session} was asked"


@settings(max_examples=60)
@given(STEPS, PAUSES, CUTS, st.booleans())
def test_updates_are_handled_once_in_order_and_before_what_comes_after_them(
    steps: list[tuple[str, str]], pauses: list[int], cuts: set[int], calls_back: bool
) -> None:
    asyncio.run(run_turns(steps, pauses, cuts, calls_back))
