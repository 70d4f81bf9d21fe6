"""Agents of other makers, driven directly and through `expose` and `mirror`: the same frames, byte for byte."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.interop.tools import NODE, NODE_PACKAGES, needs_node
from tests.running import MAIN, exposed

pytestmark = pytest.mark.interop

TYPESCRIPT_AGENT = [NODE, str(NODE_PACKAGES / "acp-sdk-1" / "dist" / "examples" / "agent.js")]
PYDANTIC_AGENT = [sys.executable, str(Path(__file__).parent / "scripts" / "pydantic_agent.py")]

AGENTS = [
    pytest.param(TYPESCRIPT_AGENT, id="TypeScript SDK", marks=needs_node),
    pytest.param(PYDANTIC_AGENT, id="pydantic-acp"),
]


@dataclass
class Turn:
    """A client's side of one whole prompt turn: the lines it wrote and the lines it read."""

    process: subprocess.Popen[bytes]
    wrote: list[bytes] = field(default_factory=list)
    read: list[bytes] = field(default_factory=list)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.wrote.append(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())
        self.process.stdin.write(self.wrote[-1] + b"\n")
        self.process.stdin.flush()

    def call(self, number: int, method: str, params: object) -> Any:
        """Sends a request, allows what the agent asks permission for, and returns the result."""
        assert self.process.stdout is not None
        self.send({"id": number, "method": method, "params": params})
        for line in self.process.stdout:
            self.read.append(line.rstrip(b"\n"))
            message = json.loads(line)
            if message.get("method") == "session/request_permission":
                option = message["params"]["options"][0]["optionId"]
                outcome = {"outcome": "selected", "optionId": option}
                self.send({"id": message["id"], "result": {"outcome": outcome}})
            elif message.get("id") == number and "method" not in message:
                return message["result"]
        raise AssertionError(f"no reply to {method}")


def take_turn(command: list[str], cwd: Path) -> Turn:
    """One whole turn with a permission request; the command must then leave with status 0."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        turn = Turn(process)
        turn.call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = turn.call(1, "session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
        prompt = [{"type": "text", "text": "gö \u2028 \U0001f600"}]
        reply = turn.call(2, "session/prompt", {"sessionId": session, "prompt": prompt})
        assert reply["stopReason"] == "end_turn"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0
    assert any(b"session/request_permission" in line for line in turn.read)
    return turn


def without_chance(frames: list[bytes]) -> list[bytes]:
    """Random ids and times replaced by their order of appearance."""
    seen: dict[bytes, bytes] = {}

    def name(match: re.Match[bytes]) -> bytes:
        return seen.setdefault(match[0], b"chance-%d" % len(seen))

    return [re.sub(rb"\b[0-9a-f]{32}\b|\d{4}-\d\d-\d\dT[0-9:.+]+", name, frame) for frame in frames]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_whole_turn_is_the_same_directly_and_through_the_relay(agent: list[str], tmp_path: Path) -> None:
    inbox, outbox = tmp_path / "in", tmp_path / "out"
    recorded = f"tee {inbox} | {shlex.join(agent)} | tee {outbox}"
    with exposed(["sh", "-c", recorded], terminate_timeout=5) as server:
        relayed = take_turn([sys.executable, "-c", MAIN, "mirror", server.url], tmp_path)
    assert b"".join(line + b"\n" for line in relayed.wrote) == inbox.read_bytes()
    assert b"".join(line + b"\n" for line in relayed.read) == outbox.read_bytes()
    direct = take_turn(agent, tmp_path)
    assert without_chance(relayed.wrote) == without_chance(direct.wrote)
    assert without_chance(relayed.read) == without_chance(direct.read)
