"""The mirror's policies on the bytes of real links: what they edit, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from tests.running import FAST_PYTHON, command, exposed

FRAMES = [
    b'{"method": "initialize","params":{ "clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":'
    b'false},"terminal":true,"elicitation":{"form":{}},"x":1E400}}}',
    b'{"params":{"cwd" : "/home\\/me","mcpServers":[],"cwd2":"\\ud83d"},"method":"session\\/new"}',
    b'{"method":"session/prompt","params":{"cwd":"/home/me","terminal":true, "a":1.0, "a":1.00}}',
]
ASKS = """
import json, sys
sys.stdin.readline()
print('{"jsonrpc":"2.0","id":"q","method":"elicitation\\\\u002fcreate","params":{"message":"?"}}', flush=True)
print('{"jsonrpc":"2.0","method":"elicitation/complete","params":{}}', flush=True)
print(json.dumps({"method": "told", "params": json.loads(sys.stdin.readline())}), flush=True)
sys.stdin.read()
"""


class Mirror:
    """A mirror as a child process, line by line."""

    def __init__(self, url: str, *flags: str) -> None:
        self._running = command("mirror", url, *flags)

    def __enter__(self) -> Self:
        self._process = self._running.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._running.__exit__(*error)

    def write(self, *frames: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(frame + b"\n" for frame in frames))
        self._process.stdin.flush()

    def read(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip(b"\n")

    def leave(self) -> bytes:
        """Closes the input; the mirror must end well. Returns what it wrote to its standard error."""
        out, err = self._process.communicate(timeout=15)
        assert (out, self._process.returncode) == (b"", 0), err
        return bytes(err)


def through_mirror(url: str, *flags: str) -> list[bytes]:
    """What an echoing agent sends back through a mirror."""
    with Mirror(url, *flags) as mirror:
        mirror.write(*FRAMES)
        lines = [mirror.read() for _ in FRAMES]
        mirror.leave()
        return lines


def test_without_flags_every_byte_passes() -> None:
    with exposed(["cat"]) as server:
        assert through_mirror(server.url) == FRAMES
        assert through_mirror(server.url, "--host-ownership", "client_passthrough") == FRAMES


def test_host_ownership_remote_replaces_the_named_values_and_no_other_byte(tmp_path: Path) -> None:
    with exposed(["cat"], cwd=tmp_path) as server:
        told = through_mirror(server.url, "--host-ownership", "remote")
    cwd = json.dumps(str(tmp_path)).encode()
    assert told == [
        FRAMES[0]
        .replace(b'"readTextFile":true', b'"readTextFile":false')
        .replace(b'"terminal":true', b'"terminal":false'),
        FRAMES[1].replace(b'"/home\\/me"', cwd),
        FRAMES[2],
    ]


def test_a_server_without_metadata_is_said_so_and_capabilities_are_still_taken_away() -> None:
    with exposed(["cat"]) as server:
        url = server.url.removesuffix("/ws")
        server.loop.call_soon_threadsafe(lambda: setattr(server.server.doorkeeper, "remote_cwd", None))
        with Mirror(url, "--host-ownership", "remote") as mirror:
            mirror.write(FRAMES[1])
            assert mirror.read() == FRAMES[1]
            assert b"does not tell its directory" in mirror.leave()


def test_a_wrong_owner_is_a_usage_error() -> None:
    with command("mirror", "ws://localhost:1", "--host-ownership", "nobody") as mirror:
        _, err = mirror.communicate(timeout=15)
        assert mirror.returncode == 2
        assert b"'--host-ownership'" in err


def test_with_the_flag_a_question_of_the_agent_passes_unchanged() -> None:
    with exposed([*FAST_PYTHON, ASKS]) as server, Mirror(server.url, "--unstable-protocol") as mirror:
        mirror.write(b'{"method":"hello"}')
        assert b'"method":"elicitation\\u002fcreate"' in mirror.read()
        assert json.loads(mirror.read())["method"] == "elicitation/complete"
        answer = b'{"jsonrpc":"2.0","id":"q","result":{"action":"decline"}}'
        mirror.write(answer)
        assert json.loads(mirror.read()) == {"method": "told", "params": json.loads(answer)}
        assert mirror.leave() == b""


def test_without_it_the_mirror_answers_method_not_found_and_hints_once() -> None:
    with exposed([*FAST_PYTHON, ASKS]) as server, Mirror(server.url) as mirror:
        mirror.write(b'{"method":"hello"}')
        told = json.loads(mirror.read())
        assert told["params"]["id"] == "q"
        assert told["params"]["error"]["code"] == -32601
        assert mirror.leave().count(b"--unstable-protocol") == 1
