"""One prompt turn, driven through programs of different makers, and what has to come of it.

The agent at the other end, whoever made it, streams what it was told, asks for a permission, and says
what the answer was; so a turn needs requests, notifications and responses in both directions.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
AGENT = [sys.executable, str(SCRIPTS / "agent.py")]
ACPREMOTE = [sys.executable, "-m", "acpremote_cli.main"]

PROMPT = 'héllo "😀"\t\u2028'
LONG_PROMPT = PROMPT + "é" * 100_000
"""Under the 1 MiB that several stock clients accept, also in the escaped form that some of them write."""
TIMEOUT = 40


@dataclass
class Turn:
    """What a client saw of a turn."""

    text: str = ""
    asked: int = 0
    stop_reason: str | None = None

    @classmethod
    def expected(cls, prompt: str = PROMPT) -> Turn:
        return cls(f"You said: {prompt} \u2028 permission yes", 1, "end_turn")

    @classmethod
    def printed(cls, output: str) -> Turn:
        """Reads what the TypeScript client prints."""
        seen = json.loads(output)
        return cls(seen["text"], seen["asked"], seen.get("stopReason"))


@contextlib.contextmanager
def started(
    argv: Sequence[str], pattern: str, *, env: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a server until the block is left; gives it and what `pattern` finds in its output."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
    )
    said: list[str] = []
    found: list[str] = []
    decided = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:  # on and on, so that a talkative server does not block
            said.append(line)
            match = re.search(pattern, line)
            if match and not found:
                found.append(match[0])
                decided.set()
        decided.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert decided.wait(TIMEOUT)
        assert found, "".join(said)
        yield process, found[0]
    finally:
        process.terminate()
        try:
            process.wait(15)
        finally:
            process.kill()
            process.wait()
            reader.join(15)
            assert process.stdout is not None
            process.stdout.close()


def exposed(*flags: str, env: Mapping[str, str] | None = None) -> Any:
    """Our `expose` with the stub agent; gives its process and its URL."""
    argv = [*ACPREMOTE, "expose", "--port", "0", *flags, "--", *AGENT]
    return started(argv, r"wss?://\S+", env=env)


class Stdio:
    """A client that speaks to a program on its standard input and output, without any library."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self.turn = Turn()
        self._next_id = 0

    def _write(self, **message: object) -> None:
        self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
        self._stdin.flush()

    def request(self, method: str, **params: object) -> dict[str, Any]:
        """Sends a request, serves what the agent sends, and returns the result."""
        own, self._next_id = self._next_id, self._next_id + 1
        self._write(id=own, method=method, params=params)
        for line in self._stdout:
            message = json.loads(line)
            if "method" in message:
                self._serve(message)
            elif message.get("id") == own:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError(f"the program ended before it answered {method}")

    def _serve(self, message: dict[str, Any]) -> None:
        params = message["params"]
        match message["method"]:
            case "session/update" if params["update"]["sessionUpdate"] == "agent_message_chunk":
                self.turn.text += params["update"]["content"]["text"]
            case "session/request_permission":
                self.turn.asked += 1
                outcome = {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
                self._write(id=message["id"], result={"outcome": outcome})


def turn_over_stdio(
    argv: Sequence[str], prompt: str = PROMPT, *, env: Mapping[str, str] | None = None
) -> Turn:
    """Runs an agent, or a mirror of one, through a turn as an editor would, and lets it end by itself."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    ) as process:
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        try:
            client = Stdio(process)
            client.request("initialize", protocolVersion=1, clientCapabilities={})
            session = client.request("session/new", cwd="/", mcpServers=[])["sessionId"]
            content = [{"type": "text", "text": prompt}]
            client.turn.stop_reason = client.request("session/prompt", sessionId=session, prompt=content)[
                "stopReason"
            ]
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait() == 0
        finally:
            timer.cancel()
            process.kill()
    return client.turn
