"""Our `mirror` completes a turn with servers of other makers."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from .tools import NODE, NODE_PACKAGES, PEER, PYTHON, needs_node, needs_python_tools
from .turns import ACPREMOTE, AGENT, PROMPT, SCRIPTS, Turn, started, turn_over_stdio

pytestmark = pytest.mark.interop

TOKEN = "interop-token"


def mirrored(url: str, *flags: str, env: dict[str, str] | None = None, prompt: str = PROMPT) -> Turn:
    return turn_over_stdio([*ACPREMOTE, "mirror", *flags, url], prompt, env=env)


class TestPeer:
    """The `expose` of the published acpremote 1.10.0."""

    def expose(self, *flags: str, **env: str) -> Any:
        return started([str(PEER), "expose", "--port", "0", *flags, "--", *AGENT], r"ws://\S+", env=env)

    @needs_python_tools
    def test_a_turn(self) -> None:
        with self.expose() as (_, url):
            assert mirrored(url) == Turn.expected()

    @needs_python_tools
    def test_a_turn_with_a_token(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(f"{TOKEN}\n")
        with self.expose("--token-env", "INTEROP_TOKEN", INTEROP_TOKEN=TOKEN) as (_, url):
            assert mirrored(url, "--token-file", str(file)) == Turn.expected()
            with pytest.raises(EOFError):
                mirrored(url)


class TestTypeScript:
    """A server made with the TypeScript SDK."""

    @needs_node
    @pytest.mark.parametrize("sdk", ["acp-sdk-1", "acp-sdk-2"])
    def test_a_turn(self, sdk: str) -> None:
        server = [NODE, str(SCRIPTS / "server.mjs"), sdk]
        with started(server, r"ws://\S+", env={"NODE_PACKAGES": str(NODE_PACKAGES)}) as (_, url):
            assert mirrored(url) == Turn.expected()


class TestPython:
    """A server made with the Python SDK, under uvicorn."""

    @needs_python_tools
    def test_a_turn(self) -> None:
        with started([str(PYTHON), str(SCRIPTS / "server.py")], r"ws://\S+") as (_, url):
            assert mirrored(url) == Turn.expected()


class TestStdioToWs:
    """npm's `stdio-to-ws`, which knows nothing of ACP."""

    @needs_node
    def test_a_turn(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        program = str(NODE_PACKAGES / "stdio-to-ws" / "dist" / "main.js")
        with started([NODE, program, "--port", str(port), shlex.join(AGENT)], "listening on port"):
            assert mirrored(f"ws://127.0.0.1:{port}/any") == Turn.expected()
