"""Recordings: verbatim, private, bounded, redacted where asked for, and readable."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.ending import Ending, EndingKind
from acpremote.errors import ConfigError
from acpremote.options import MIB, ServerOptions
from acpremote.recording import PARTS, Entry, Recordings, read_recording, redact

from .raw import connect, wait_until
from .running import FAST_PYTHON, command, exposed

ANSWER = """
import json, sys
for line in sys.stdin:
    print("this is noise")
    print('{"result": [1E400, "caf\\\\u00e9"], "id": %s}' % json.dumps(json.loads(line)["id"]), flush=True)
"""
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"a":1,"a":-0,"token":"s3cret"}}'
ANSWERED = b'{"result": [1E400, "caf\\u00e9"], "id": 1}'
DONE = Ending(EndingKind.CLIENT_LEFT, "the client has gone")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("secret"), inner),
)


def recorded(directory: Path, **options: object) -> Path:
    """The recording of one turn over a real server."""
    chosen = ServerOptions(record_dir=directory, **options)  # type: ignore[arg-type]
    with exposed([*FAST_PYTHON, ANSWER], server_options=chosen) as server:
        with connect(server.port) as client:
            client.send(ASKED)
            assert client.receive() == ANSWERED
        wait_until(lambda: server.links == 0)
    [file] = directory.iterdir()
    return file


def written(recordings: Recordings) -> None:
    """Waits until everything is written that was recorded so far."""
    is_written = threading.Event()
    recordings.writer.put(0, is_written.set)
    assert is_written.wait(20)


def hanging(recordings: Recordings) -> threading.Event:
    """Lets the disk hang until the event is set."""
    disk = threading.Event()

    def hang() -> None:
        disk.wait()

    recordings.writer.put(0, hang)
    return disk


def entries_of(file: Path) -> list[Entry]:
    return list(read_recording(file.read_bytes().splitlines(keepends=True)))


def printed(*arguments: str) -> tuple[int, str, str]:
    with command("show", *arguments) as process:
        out, err = process.communicate(timeout=40)
        return process.returncode, out.decode(), err.decode()


class TestRecording:
    def test_it_holds_every_frame_verbatim_and_how_it_ended(self, tmp_path: Path) -> None:
        entries = entries_of(recorded(tmp_path / "r"))
        assert [entry.frame for entry in entries] == [None, ASKED, ANSWERED, None]
        assert [entry.members.get("to") for entry in entries] == [None, "agent", "client", None]
        assert str(entries[0].members["peer"]).startswith("127.0.0.1 port ")
        assert entries[-1].members["ending"] == "lost"
        assert entries == sorted(entries, key=lambda entry: entry.time)

    def test_only_its_owner_can_read_it(self, tmp_path: Path) -> None:
        file = recorded(tmp_path / "deep" / "r")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_named_members_are_left_out_and_the_rest_stays(self, tmp_path: Path) -> None:
        text = recorded(tmp_path / "r", record_redact=["token"]).read_bytes()
        assert b"s3cret" not in text
        assert ASKED.replace(b'"s3cret"', b'"[redacted]"') in text

    def test_a_connection_that_says_nothing_leaves_no_file(self, tmp_path: Path) -> None:
        with exposed(["cat"], server_options=ServerOptions(record_dir=tmp_path)) as server:
            with connect(server.port):
                wait_until(lambda: server.links == 1)
            wait_until(lambda: server.links == 0)
        assert not list(tmp_path.iterdir())

    def test_a_directory_that_cannot_be_made_is_refused_at_start(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with command("expose", "--port", "0", "--record", str(tmp_path / "file"), "--", "cat") as process:
            _, err = process.communicate(timeout=40)
        assert (process.returncode, b"cannot record to" in err) == (2, True)

    def test_all_files_together_stay_within_the_limit_and_the_newest_are_kept(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_bytes(bytes(MIB))  # not ours: neither counted nor deleted
        recordings = Recordings(tmp_path, limit=MIB)
        frame = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * 20_000 + b'"}'
        for link in range(5):
            recorder = recordings.record(str(link), "a test")
            for _ in range(30):
                recorder.sent("client", frame, 1)
                written(recordings)
                os.utime(recorder.path, ns=(link, link))
            recorder.ended(DONE)
            written(recordings)
            os.utime(recorder.path, ns=(link, link))
        recordings.finish()
        files = sorted(tmp_path.glob("*.jsonl"))
        assert sum(file.stat().st_size for file in files) <= MIB
        assert all(file.stat().st_size <= MIB // PARTS for file in files)
        assert {file.name.split("-")[2].split(".")[0] for file in files} == {"3", "4"}
        assert (tmp_path / "notes.txt").exists()

    def test_when_it_cannot_be_written_the_link_goes_on(self, tmp_path: Path) -> None:
        directory = tmp_path / "r"
        with exposed([*FAST_PYTHON, ANSWER], server_options=ServerOptions(record_dir=directory)) as server:
            directory.rmdir()
            with connect(server.port) as client:
                client.send(ASKED)
                assert client.receive() == ANSWERED


UPDATES = 20_000
FLOOD = f"""
import sys
sys.stdin.readline()
for n in range({UPDATES}): sys.stdout.write('{{"method":"u","params":%d}}\\n' % n)
sys.stdout.flush()
sys.stdin.readline()
"""


class TestTheDisk:
    """What it cannot take is left out and counted; no link ever waits for it."""

    def test_a_flood_is_recorded_whole_and_in_order(self, tmp_path: Path) -> None:
        options = ServerOptions(record_dir=tmp_path / "r")
        with exposed([*FAST_PYTHON, FLOOD], server_options=options) as server, connect(server.port) as client:
            client.send(b'{"method":"go"}')
            heard = [client.receive() for _ in range(UPDATES)]
            client.close()
        [file] = (tmp_path / "r").iterdir()
        assert [entry.frame for entry in entries_of(file) if entry.members.get("to") == "client"] == heard

    @pytest.mark.parametrize("goes_on", [True, False], ids=["and the link goes on", "and the link ends"])
    def test_what_it_is_too_slow_for_is_counted(
        self, tmp_path: Path, goes_on: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        recordings = Recordings(tmp_path, limit=MIB, queue_bytes=10_000)
        recorder = recordings.record("7", "a test")
        recorder.sent("agent", ASKED, 1)
        written(recordings)
        disk = hanging(recordings)
        frames = [b'{"method":"u","params":[%d,"%b"]}' % (n, b"x" * 1000) for n in range(50)]
        for frame in frames:
            recorder.sent("client", frame + b"\n" + frame, 2)
        disk.set()
        written(recordings)
        if goes_on:
            recorder.sent("client", b'{"method":"last"}', 1)
        recorder.ended(DONE)
        recordings.finish()
        entries = entries_of(recorder.path)
        kept = [entry.frame for entry in entries if entry.members.get("to") == "client"]
        [left_out] = [entry.members["left_out"] for entry in entries if "left_out" in entry.members]
        assert 0 < len(kept) < 20
        assert len(kept) - goes_on + int(str(left_out)) == 2 * len(frames)
        assert (
            kept[: len(kept) - goes_on]
            == [frame for frame in frames for _ in range(2)][: len(kept) - goes_on]
        )
        assert entries[-1].members["ending"] == "client_left"
        assert caplog.text.count("its recording has gaps") == 1
        assert f"{left_out} frames were left out" in printed(str(recorder.path))[1]

    def test_a_frame_over_the_bound_is_recorded_if_nothing_else_waits(self, tmp_path: Path) -> None:
        recordings = Recordings(tmp_path, limit=MIB, queue_bytes=10)
        recorder = recordings.record("7", "a test")
        recorder.sent("agent", ASKED, 1)
        recorder.ended(DONE)
        recordings.finish()
        assert entries_of(recorder.path)[1].frame == ASKED

    def test_a_disk_that_hangs_holds_the_end_of_the_server_only_for_a_moment(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        recordings = Recordings(tmp_path, limit=MIB)
        disk = hanging(recordings)
        recorder = recordings.record("7", "a test")
        recorder.sent("agent", ASKED, 1)
        recorder.ended(DONE)
        recordings.writer.finish(timeout=0.01)
        assert "lack their ends" in caplog.text
        disk.set()
        wait_until(lambda: not [each for each in threading.enumerate() if "recordings" in each.name])


class TestRedaction:
    @pytest.mark.parametrize(
        ("frame", "expected"),
        [
            (b'{"k": {"a": [1, "}"], "b": {}} , "z":1}', b'{"k": "[redacted]" , "z":1}'),
            (b'[{"k":[[[]]]},{"k" : -1e5}]', b'[{"k":"[redacted]"},{"k" : "[redacted]"}]'),
            (b'{"\\u006b":true,"a":"k"}', b'{"\\u006b":"[redacted]","a":"k"}'),
            (b'["k","x",{"x":"\\"k\\":1"}]', b'["k","x",{"x":"\\"k\\":1"}]'),
            (b'{"k":"a\\"b","k":1}', b'{"k":"[redacted]","k":"[redacted]"}'),
        ],
    )
    def test_a_value_of_any_kind_is_replaced_and_nothing_else(self, frame: bytes, expected: bytes) -> None:
        assert redact(frame, {"k"}) == expected

    @given(values)
    def test_what_is_left_is_what_a_parser_would_leave(self, value: object) -> None:
        def without(value: object) -> object:
            if isinstance(value, dict):
                return {
                    name: "[redacted]" if name == "secret" else without(each) for name, each in value.items()
                }
            return [without(each) for each in value] if isinstance(value, list) else value

        for ascii_only in (True, False):
            frame = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
            assert json.loads(redact(frame, {"secret"})) == without(value)

    def test_deep_nesting_costs_no_recursion(self) -> None:
        deep = b"[" * 100_000 + b"]" * 100_000
        assert (
            redact(b'{"k":' + deep + b',"l":' + deep + b"}", {"k"}) == b'{"k":"[redacted]","l":' + deep + b"}"
        )


class TestShow:
    def test_it_says_who_when_what_and_how_long_it_took(self, tmp_path: Path) -> None:
        status, out, _ = printed(str(recorded(tmp_path / "r")))
        first, asked, answered, last = out.splitlines()
        assert status == 0
        assert "link 1 of 127.0.0.1 port" in first
        assert "client → agent  session/prompt [1]" in asked
        assert "client ← agent  session/prompt [1] answered after " in answered
        assert answered.split("after ")[1].split(":")[0].endswith(" ms")
        assert "ended (lost)" in last

    def test_it_shows_the_frames_themselves_on_request(self, tmp_path: Path) -> None:
        _, out, _ = printed("--frames", str(recorded(tmp_path / "r")))
        assert ASKED.decode() in out
        assert ANSWERED.decode() in out

    def test_it_names_what_was_never_answered(self, tmp_path: Path) -> None:
        recordings = Recordings(tmp_path, limit=MIB)
        recorder = recordings.record("7", "a test")
        recorder.sent("agent", ASKED, 1)
        recorder.ended(Ending(EndingKind.LOST, "gone"))
        recordings.finish()
        assert "without an answer: session/prompt" in printed(str(recorder.path))[1]

    def test_no_character_of_a_recording_steers_the_terminal(self, tmp_path: Path) -> None:
        recordings = Recordings(tmp_path, limit=MIB)
        recorder = recordings.record("7", "a \x1b[2J test")
        hostile = (
            '{"method":"\\u001b]0;x\\u0007","params":{"text":"\\u202e\\u001b[31m"},"x":"\u009b1m"}'.encode()
        )
        recorder.sent(
            "client", b"\n".join([hostile, b'{"id":"\x1b[1m","method":"\\u001b"}', b"[" * 100_000]), 3
        )
        recorder.ended(DONE)
        recordings.finish()
        for flags in ([], ["--frames"]):
            status, out, _ = printed(*flags, str(recorder.path))
            assert status == 0
            assert all(character.isprintable() for character in out.replace("\n", ""))

    def test_a_recording_that_is_still_written_is_shown_as_far_as_it_goes(self, tmp_path: Path) -> None:
        file = recorded(tmp_path / "r")
        cut = tmp_path / "cut"
        cut.write_bytes(file.read_bytes()[:-3])
        assert len(printed(str(cut))[1].splitlines()) == 3

    def test_what_is_no_recording_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "other").write_text('{"a":1}\n')
        assert printed(str(tmp_path / "other"))[0] == 2
        assert printed(str(tmp_path / "missing"))[0] == 2


def test_options_of_a_recording_are_checked() -> None:
    for options in ({"record_limit": 1}, {"record_redact": "token"}, {"record_redact": ["token"]}):
        with pytest.raises(ConfigError):
            ServerOptions(**options)
