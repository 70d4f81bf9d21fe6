"""`serve_acp` and `connect_acp` as two programs: `server PORT` and `client PORT`.

Run by path under any interpreter whose `acpremote` has these names, so it imports nothing else of ours. The
client obeys the commands of `load.c` that make sense here: open, turns, flood.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from statistics import median
from typing import Any

from acp import PROTOCOL_VERSION, text_block, update_agent_message_text
from acp.schema import InitializeResponse, NewSessionResponse, PromptResponse

import acpremote

CHUNK_OVERHEAD = 155
"""Bytes of a message chunk around its text."""


class BenchAgent:
    """Takes the same orders as `agent.c`."""

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="s")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        word, *numbers = prompt[0].text.split(" ", 2)
        if word == "flood":
            count, size = map(int, numbers)
            update = update_agent_message_text("x" * max(0, size - CHUNK_OVERHEAD))
            for _n in range(count):
                await self._client.session_update(session_id, update)
            return PromptResponse(stop_reason="end_turn")
        return PromptResponse(stop_reason="end_turn", field_meta={"pad": prompt[0].text})


class Counter:
    """A client that counts updates."""

    updates = 0

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates += 1


class Client:
    """Performs commands on one connection."""

    def __init__(self, url: str) -> None:
        self._counter = Counter()
        connect: Any = acpremote.connect_acp
        self._agent = connect(url)
        self._agent.on_connect(self._counter)

    async def perform(self, word: str, *numbers: int) -> tuple[int, list[float]]:
        if word == "open":
            await self._agent.initialize(protocol_version=PROTOCOL_VERSION)
            await self._agent.new_session(cwd="/", mcp_servers=[])
            return 2, []
        size, count = numbers
        if word == "turns":
            return count, [await self._turn("echo " + "x" * size) for _ in range(count)]
        before = self._counter.updates
        seconds = await self._turn(f"flood {count} {size}")
        if self._counter.updates - before != count:
            raise SystemExit(f"{self._counter.updates - before} of {count} updates arrived before the answer")
        return count, [seconds]

    async def _turn(self, text: str) -> float:
        began = time.perf_counter()
        await self._agent.prompt(session_id="s", prompt=[text_block(text)])
        return time.perf_counter() - began


async def client(port: int) -> None:
    connection = Client(f"ws://127.0.0.1:{port}/acp/ws")
    while command := await asyncio.to_thread(sys.stdin.readline):
        word, *numbers = command.split()
        began = time.perf_counter()
        messages, times = await connection.perform(word, *map(int, numbers))
        seconds = time.perf_counter() - began
        report = {"seconds": seconds, "messages": messages, "bytes": 0, "median": median(times or [0.0])}
        print(json.dumps(report), flush=True)


async def server(port: int) -> None:
    serve: Any = acpremote.serve_acp
    handle = await serve(BenchAgent(), host="127.0.0.1", port=port)
    await handle.serve_forever()


if __name__ == "__main__":
    asyncio.run({"server": server, "client": client}[sys.argv[1]](int(sys.argv[2])))
