"""Metrics count what happens, on an address of their own; logs can be read by machines."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from acpremote.errors import ConfigError, ListenError
from acpremote.options import ServerOptions, TransportOptions

from .deploy.cable import cable
from .e2e.test_resume import bad_network
from .raw import connect, wait_until
from .running import FAST_PYTHON, MAIN, Exposed, command, exposed

ANSWER = [
    *FAST_PYTHON,
    "import sys\nfor line in sys.stdin: print(line.replace('method', 'result'), end='', flush=True)",
]
ASKED = b'{"id":1,"method":"x"}'
ON = ServerOptions(metrics_address="0")


def numbers(server: Exposed) -> dict[str, float]:
    """What the page says, by series."""
    url = server.server.metrics_url
    assert url is not None
    with urllib.request.urlopen(url, timeout=20) as page:
        text = page.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(acpremote_\S+) (\S+)$", text, re.MULTILINE)}


def test_links_agents_frames_and_endings_are_counted() -> None:
    with exposed(ANSWER, server_options=ON) as server:
        with connect(server.port) as client:
            client.send(ASKED)
            client.receive()
            open_now = numbers(server)
        wait_until(lambda: server.links == 0)
        after = numbers(server)
    assert (open_now["acpremote_links"], after["acpremote_links"]) == (1, 0)
    assert after["acpremote_agent_starts_total"] == 1
    assert after['acpremote_frames_total{to="agent"}'] == after['acpremote_frames_total{to="client"}'] == 1
    assert after['acpremote_frame_bytes_total{to="agent"}'] == len(ASKED)
    assert after['acpremote_links_ended_total{ending="lost"}'] == 1
    assert after['acpremote_links_ended_total{ending="stalled"}'] == 0


def test_refusals_are_counted_by_status() -> None:
    with exposed(ANSWER, server_options=ON) as server:
        for path, status in (("/elsewhere", 404), ("/elsewhere", 404), ("/acp/ws", 403)):
            with (
                pytest.raises(AssertionError, match=str(status)),
                connect(server.port, path, headers=(("Origin", "https://evil.example"),)),
            ):
                pass
        found = numbers(server)
    assert found['acpremote_refusals_total{status="404"}'] == 2
    assert found['acpremote_refusals_total{status="403"}'] == 1


def test_round_trips_are_measured() -> None:
    with (
        exposed(ANSWER, server_options=ON, options=TransportOptions(ping_interval=0.05)) as server,
        connect(server.port) as client,
    ):
        client.send(ASKED)
        client.receive()
        opcode = 0
        while opcode != 9:
            opcode, payload = client.receive_frame()
        client.send_frame(10, payload)
        wait_until(lambda: numbers(server)["acpremote_round_trip_seconds_count"] >= 1)


def test_detached_links_and_resumes_are_counted() -> None:
    with (
        exposed(ANSWER, server_options=ON) as server,
        cable(server.port) as line,
        command("mirror", f"ws://127.0.0.1:{line.port}/acp/ws") as mirror,
    ):
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        mirror.stdin.write(ASKED + b"\n")
        mirror.stdin.flush()
        assert json.loads(mirror.stdout.readline())["id"] == 1
        line.cut()
        wait_until(lambda: numbers(server)["acpremote_resumes_total"] == 1, 20)
        found = numbers(server)
        mirror.stdin.close()
        assert mirror.wait(20) == 0
    assert found["acpremote_links"] == 1
    assert found["acpremote_links_detached"] == 0
    assert "acpremote_replayed_frames_total" in found


def test_they_are_off_unless_asked_for_and_then_cost_no_import() -> None:
    code = "import sys\nfrom acpremote_cli.main import main\ntry: main()\nfinally: print('prometheus_client' in sys.modules)"
    for flags, loaded in (([], "False"), (["--metrics", "0"], "True")):
        arguments = ["expose", "--host", "192.0.2.1", "--insecure-no-auth", *flags, "--", "cat"]
        shown = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        assert shown.stdout.strip() == loaded, shown.stderr


TICKING = [
    *FAST_PYTHON,
    """
import sys, threading, time
sys.stdin.readline()
threading.Thread(target=lambda: [None for _ in sys.stdin], daemon=True).start()
for n in range(1, 1000):
    print('{"method":"tick","params":%d}' % n, flush=True)
    time.sleep(0.01)
""",
]


def test_frames_that_were_in_flight_when_the_connection_was_cut_are_counted_when_they_are_sent_again() -> (
    None
):
    sent = 'acpremote_frames_total{to="client"}'
    with (
        exposed(TICKING, server_options=ON) as server,
        bad_network(server.port) as (proxy, loop),
        command("mirror", proxy.url) as mirror,
    ):
        assert mirror.stdin is not None
        assert mirror.stdout is not None
        mirror.stdin.write(b'{"method":"go"}\n')
        mirror.stdin.flush()
        heard = [json.loads(mirror.stdout.readline())["params"]]
        before = numbers(server)
        loop.call_soon_threadsafe(proxy.stall)
        stalled = before[sent]
        wait_until(lambda: numbers(server)[sent] > stalled + 10)
        loop.call_soon_threadsafe(proxy.cut)
        wait_until(lambda: numbers(server)["acpremote_resumes_total"] == 1)
        after = numbers(server)
        heard += [json.loads(mirror.stdout.readline())["params"] for _ in range(99)]
    assert before["acpremote_replayed_frames_total"] == 0
    assert after["acpremote_replayed_frames_total"] > 0
    assert heard == list(range(1, 101)), "each once, in order"


def test_an_address_that_cannot_be_used_is_an_error_at_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ListenError, match="for metrics"),
            exposed(["cat"], server_options=ServerOptions(metrics_address=address)),
        ):
            pass
    for address in ("here", "127.0.0.1:", "127.0.0.1:70000"):
        with (
            pytest.raises(ConfigError, match="HOST:PORT"),
            exposed(["cat"], server_options=ServerOptions(metrics_address=address)),
        ):
            pass


def test_without_the_library_the_extra_is_named() -> None:
    code = f"import sys; sys.modules['prometheus_client'] = None\n{MAIN}"
    arguments = ["expose", "--port", "0", "--metrics", "0", "--", "cat"]
    shown = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert shown.returncode == 2
    assert "acpremote[metrics]" in shown.stderr


def test_a_json_log_says_who_came_and_how_it_ended() -> None:
    with command("expose", "--port", "0", "--log-format", "json", "--", *ANSWER) as process:
        assert process.stderr is not None
        listening = json.loads(process.stderr.readline())
        assert listening["level"] == "info"
        with connect(int(listening["address"].split(":")[2].split("/")[0])) as client:
            client.send(ASKED)
            client.receive()
        records: list[dict[str, Any]] = []
        while not records or "ending" not in records[-1]:
            records.append(json.loads(process.stderr.readline()))
        process.terminate()
        rest = process.communicate(timeout=20)[1].splitlines()
    assert records[0]["peer"].startswith("127.0.0.1 port ")
    assert {record["link"] for record in records if "link" in record} == {"1"}
    ended = records[-1]
    assert (ended["ending"], ended["frames_from_client"], ended["frames_from_agent"]) == ("lost", 1, 1)
    assert all(json.loads(line) for line in rest)


def test_a_json_log_has_only_json_when_the_start_fails() -> None:
    with command("expose", "--log-format", "json", "--", "/no/such/command") as process:
        _, err = process.communicate(timeout=40)
    assert process.returncode != 0
    assert [json.loads(line)["level"] for line in err.splitlines()] == ["error"]


def test_a_log_format_that_does_not_exist_is_refused() -> None:
    with command("expose", "--log-format", "xml", "--", "cat") as process:
        _, err = process.communicate(timeout=40)
    assert (process.returncode, b"--log-format" in err) == (2, True)
