"""The doctor's findings about real endpoints: ours, bare ones, broken ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.sync.server import ServerConnection, serve

from acpremote.doctor import Finding, Verdict, examine
from acpremote.ending import ExitStatus
from acpremote.errors import AcpRemoteError, ConfigError
from acpremote.options import ClientOptions, ServerOptions, TransportOptions

from .authorities import PrivateAuthority
from .running import FAST_PYTHON, command, exposed

TOKEN = "t0ken-of-this-test"
AGENT = [
    *FAST_PYTHON,
    """
import json, sys
for line in sys.stdin:
    info = {"name": "stub", "version": "7"}
    result = {"protocolVersion": 1, "agentInfo": info}
    print(json.dumps({"id": json.loads(line)["id"], "result": result}), flush=True)
""",
]
DEAD = [*FAST_PYTHON, "import sys; sys.stdin.readline(); sys.exit(3)"]


def look(
    url: str, *, ask_agent: bool = False, **client: Any
) -> tuple[dict[str, Finding], AcpRemoteError | None]:
    options = TransportOptions(open_timeout=10, close_timeout=2)
    findings, failure = anyio.run(
        partial(examine, url, ClientOptions(**client), options, ask_agent=ask_agent)
    )
    return {finding.subject: finding for finding in findings}, failure


def test_our_own_endpoint_is_well() -> None:
    options = ServerOptions(bearer_token=TOKEN)
    with exposed(AGENT, server_options=options) as server:
        seen, failure = look(server.url, ask_agent=True, bearer_token=TOKEN)
        assert failure is None
        assert {finding.verdict for finding in seen.values()} <= {Verdict.GOOD, Verdict.NOTE}
        assert "ms" in seen["round trip"].found
        assert "/acp/ws" in seen["metadata"].found
        assert seen["directory"].found == str(Path.cwd())
        assert seen["health"].found == "ok at /healthz"
        assert "ours is accepted" in seen["access"].found
        assert seen["agent"].found == "stub 7, ACP version 1"


def test_a_look_starts_no_agent() -> None:
    with exposed(["true"]) as server:
        seen, failure = look(server.url)
        assert failure is None
        assert "agent" not in seen
        assert seen["access"].found == "no token is asked for, on this machine"


def test_an_agent_that_dies_is_named() -> None:
    with exposed(DEAD) as server:
        seen, failure = look(server.url, ask_agent=True)
        assert failure is not None
        assert failure.exit_status is ExitStatus.AGENT_FAILED
        assert seen["agent"].verdict is Verdict.PROBLEM
        assert list(seen)[-1] == "agent"  # everything else was looked at


ANSWERS = {
    '{"id": 0, "error": {"code": -32603, "message": "no key"}}': "initialize failed: ",
    '{"id": 0, "result": []}': "initialize failed: ",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_agent_that_does_not_initialize_has_failed(answer: str) -> None:
    with exposed([*FAST_PYTHON, f"input(); print('{answer}'); input()"]) as server:
        seen, failure = look(server.url, ask_agent=True)
        assert failure is not None
        assert failure.exit_status is ExitStatus.AGENT_FAILED
        assert seen["agent"].found.startswith(ANSWERS[answer])


@pytest.mark.parametrize("info", ["null", '"a name"', "{}"])
def test_an_agent_without_a_name_is_well(info: str) -> None:
    answer = f'{{"id": 0, "result": {{"protocolVersion": 1, "agentInfo": {info}}}}}'
    with exposed([*FAST_PYTHON, f"input(); print('{answer}'); input()"]) as server:
        seen, failure = look(server.url, ask_agent=True)
        assert (failure, seen["agent"].found) == (None, "unnamed, ACP version 1")


@pytest.mark.parametrize("client", [{}, {"bearer_token": "old"}])
def test_a_missing_or_old_token_is_named_and_the_rest_still_examined(client: dict[str, Any]) -> None:
    with exposed(AGENT, server_options=ServerOptions(bearer_token=TOKEN)) as server:
        seen, failure = look(server.url, **client)
        assert failure is not None
        assert failure.exit_status is ExitStatus.REFUSED
        assert "401" in seen["connection"].found
        assert seen["access"].found == "a token is required"
        assert seen["health"].verdict is Verdict.GOOD


def test_a_wrong_path_is_named() -> None:
    with exposed(AGENT) as server:
        seen, failure = look(server.url.replace("/acp/", "/other/"))
        assert failure is not None
        assert "404" in seen["connection"].found
        assert "404" in seen["metadata"].found


def test_nobody_there_is_named() -> None:
    with exposed(AGENT) as server:
        url = server.url
    seen, failure = look(url)
    assert failure is not None
    assert failure.exit_status is ExitStatus.CANNOT_CONNECT
    assert seen["connection"].advice
    assert list(seen) == ["connection"]


def test_a_certificate_that_ends_soon_is_a_problem(tmp_path: Path) -> None:
    authority = PrivateAuthority(tmp_path)
    issued = authority.issue("localhost")  # for one day
    options = ServerOptions(tls_certificate=issued.certificate, tls_key=issued.key)
    with exposed(AGENT, server_options=options) as server:
        seen, failure = look(server.url.replace("127.0.0.1", "localhost"), ca_file=authority.file)
        assert failure is None
        assert seen["encryption"].found.startswith("TLSv1.3")
        assert seen["certificate"].verdict is Verdict.PROBLEM
        assert "renew" in seen["certificate"].advice


def test_a_certificate_that_is_not_accepted_says_what_to_do(tmp_path: Path) -> None:
    issued = PrivateAuthority(tmp_path).issue("localhost")
    options = ServerOptions(tls_certificate=issued.certificate, tls_key=issued.key)
    with exposed(AGENT, server_options=options) as server:
        seen, failure = look(server.url)
        assert failure is not None
        assert "--ca-file" in seen["connection"].found


@contextmanager
def bare_server() -> Iterator[int]:
    """A WebSocket server that knows nothing of ACP, metadata or health."""

    def read(socket: ServerConnection) -> None:
        for _ in socket:
            pass

    with serve(read, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
    thread.join()


def test_a_bare_websocket_server_is_no_problem_but_lacks_things() -> None:
    with bare_server() as port:
        seen, failure = look(f"ws://127.0.0.1:{port}/x")
        assert failure is None
        assert seen["subprotocol"].found.startswith("none")
        assert seen["resume"].verdict is Verdict.NOTE
        assert seen["metadata"].found.startswith("none")
        assert seen["round trip"].verdict is Verdict.GOOD


def test_a_wrong_address_is_the_users_fault() -> None:
    with pytest.raises(ConfigError):
        look("ftp://x")


class TestCommand:
    def test_it_prints_one_line_a_finding_and_exits_0(self) -> None:
        with exposed(AGENT) as server, command("doctor", server.url, "--agent") as process:
            out, err = process.communicate(timeout=40)
            assert (process.returncode, err) == (0, b"")
            lines = [line.split()[:2] for line in out.decode().splitlines()]
            assert ["ok", "connection"] in lines
            assert ["ok", "agent"] in lines

    def test_it_exits_5_when_the_agent_fails(self) -> None:
        with exposed(DEAD) as server, command("doctor", server.url, "--agent") as process:
            out, err = process.communicate(timeout=40)
            assert (process.returncode, err) == (5, b"")
            assert b"exited with status 3" in out

    @pytest.mark.parametrize(("flags", "status"), [([], 4), (["--token-env", "NOT_SET"], 2)])
    def test_it_exits_with_the_table_of_statuses(self, flags: list[str], status: int) -> None:
        options = ServerOptions(bearer_token=TOKEN)
        with (
            exposed(AGENT, server_options=options) as server,
            command("doctor", server.url, *flags) as process,
        ):
            process.communicate(timeout=40)
            assert process.returncode == status
