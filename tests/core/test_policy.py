"""What the policies edit, answer and drop; and that every other byte stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.core.envelope import peek
from acpremote.core.ownership import OwnershipHint, RemoteOwnership
from acpremote.core.policy import PASS, MethodSet, Policies, Policy, Verdict
from acpremote.core.relay import Note, Relay, Send
from acpremote.core.side import Side
from acpremote.core.unstable import UnstableGate

CWD = '/srv/wörk"space'
SESSION_METHODS = ["session/new", "session/load", "session/resume", "session/fork", "session/list"]
JUDGED = ["elicitation/create", "elicitation/complete", "initialize", *SESSION_METHODS]


def judge(policy: Policy, side: Side, frame: bytes) -> Verdict:
    envelope = peek(frame)
    return policy.judge(side, frame, envelope) if policy.concerns(bytes(envelope.method)) else Verdict(frame)


def from_client(frame: bytes, cwd: str | None = CWD) -> Verdict:
    return judge(RemoteOwnership(cwd), Side.CLIENT, frame)


def answer(verdict: Verdict) -> tuple[object, int, object]:
    assert verdict.forward is None
    assert verdict.answer is not None
    message = json.loads(verdict.answer)
    return message["id"], message["error"]["code"], message["error"].get("data")


# --- spellings of a method


def spellings(name: str) -> st.SearchStrategy[bytes]:
    """Every way JSON lets an encoder write a name."""

    def spell(choices: list[int]) -> bytes:
        forms: list[Callable[[str], str]] = [str, lambda c: f"\\u{ord(c):04x}", lambda c: f"\\u{ord(c):04X}"]
        text = "".join(
            "\\/" if char == "/" and choice == 3 else forms[choice % 3](char)
            for char, choice in zip(name, choices, strict=True)
        )
        return f'"{text}"'.encode()

    return st.lists(st.integers(0, 3), min_size=len(name), max_size=len(name)).map(spell)


@given(st.sampled_from(JUDGED).flatmap(spellings))
def test_a_method_is_found_in_every_spelling(raw: bytes) -> None:
    assert raw in MethodSet(*JUDGED)


@given(st.text().filter(lambda name: name not in JUDGED), st.booleans())
def test_no_other_method_is_found(name: str, ascii_only: bool) -> None:
    assert json.dumps(name, ensure_ascii=ascii_only).encode() not in MethodSet(*JUDGED)


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"5", b'["\\"]', b'"\\ud83d"', b'"' + b"\\u0065" * 10**6 + b'"']
)
def test_what_is_no_name_at_all_is_in_no_set(raw: bytes) -> None:
    assert raw not in MethodSet(*JUDGED)
    assert b'"x"' not in MethodSet()


# --- the unstable gate


def test_an_elicitation_request_is_answered_as_by_a_client_without_the_route_and_noted_once() -> None:
    gate = UnstableGate()
    first = judge(gate, Side.AGENT, b'{"id":"a\\/b","method":"elicitation\\/create","params":{}}')
    assert answer(first) == ("a/b", -32601, {"method": "elicitation/create"})
    assert b'"id":"a\\/b"' in (first.answer or b"")
    assert "--unstable-protocol" in (first.note or "")
    second = judge(gate, Side.AGENT, b'{"jsonrpc":"2.0","id":0,"method":"elicitation/create"}')
    assert answer(second)[:2] == (0, -32601)
    assert second.note is None


@pytest.mark.parametrize("method", ["elicitation/complete", "elicitation/create"])
def test_an_elicitation_notification_is_dropped(method: str) -> None:
    assert judge(UnstableGate(), Side.AGENT, json.dumps({"method": method}).encode()) == Verdict(None)


def test_an_elicitation_completion_with_an_id_is_answered() -> None:
    verdict = judge(UnstableGate(), Side.AGENT, b'{"id":1,"method":"elicitation/complete"}')
    assert answer(verdict) == (1, -32601, {"method": "elicitation/complete"})


def test_the_gate_lets_the_client_and_other_methods_pass() -> None:
    for side, method in [(Side.CLIENT, "elicitation/create"), (Side.AGENT, "session/update")]:
        frame = json.dumps({"id": 1, "method": method}).encode()
        assert judge(UnstableGate(), side, frame) == Verdict(frame)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":1,"id":2,"method":"elicitation/create"}',
        b'{"id":2,"method":"session/update","meth\\u006fd":"elicitation/create"}',
    ],
)
def test_the_gate_refuses_duplicate_keys(frame: bytes) -> None:
    assert answer(judge(UnstableGate(), Side.AGENT, frame))[:2] == (2, -32600)


# --- host ownership


def initialize(capabilities: str, more: str = "") -> bytes:
    return (
        '{"method": "initialize", "id":0.0,\t"params":{"protocolVersion":1e0, "clientCapabilities":'
        + capabilities
        + more
        + "}}"
    ).encode()


@pytest.mark.parametrize(
    ("given_capabilities", "expected"),
    [
        ("{}", "{}"),
        ("null", "null"),
        ('{"terminal":true}', '{"terminal":false}'),
        ('{"terminal": false ,"x":1E400}', '{"terminal": false ,"x":1E400}'),
        ('{"fs":null,"terminal":null}', '{"fs":null,"terminal":false}'),
        ('{"fs":{}}', '{"fs":{}}'),
        (
            '{"f\\u0073":{"readTextFile" :true,"writeTextFile":false, "watch":{"a":[1]},"_meta":{"k":true}}}',
            '{"f\\u0073":{"readTextFile" :false,"writeTextFile":false, "watch":false,"_meta":{"k":true}}}',
        ),
        (
            '{"elicitation":{"form":{}, "url":{}},"unknown":[true,true],"terminal":true,'
            '"_meta":{"terminal":true}}',
            '{"elicitation":{"form":{}, "url":{}},"unknown":[true,true],"terminal":false,'
            '"_meta":{"terminal":true}}',
        ),
    ],
)
def test_file_and_terminal_capabilities_become_false_and_nothing_else(
    given_capabilities: str, expected: str
) -> None:
    assert from_client(initialize(given_capabilities)) == Verdict(initialize(expected))


@pytest.mark.parametrize("method", SESSION_METHODS)
def test_the_working_directory_of_a_session_becomes_the_servers(method: str) -> None:
    frame = (
        f'{{"jsonrpc":"2.0","id":7,"params":{{ "_meta":{{"cwd":"/m"}},"cwd" : "/home\\/me" ,"x":[]}},'
        f'"method":"{method}"}}'
    )
    verdict = from_client(frame.encode())
    assert verdict == Verdict(frame.replace('"/home\\/me"', '"/srv/wörk\\"space"').encode())
    assert json.loads(verdict.forward or b"")["params"]["cwd"] == CWD


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":1,"method":"initialize"}',
        b'{"id":1,"method":"initialize","params":null}',
        b'{"id":1,"method":"session/list","params":{}}',
        b'{"id":1,"method":"session/list","params":{"cwd":null}}',
        b'{"id":1,"method":"session/new","params":{"cwd":5}}',
        b'{"id":1,"method":"session/new","params":{"cwd":"/srv/w\xc3\xb6rk\\"space"}}',
        b'{"id":1,"method":"session/prompt","params":{"cwd":"/x","terminal":true}}',
        b'{"id":1,"method":"session/delete","params":[]}',
    ],
)
def test_a_frame_without_anything_to_replace_stays_as_it_is(frame: bytes) -> None:
    verdict = from_client(frame)
    assert verdict == Verdict(frame)


def test_what_the_agent_sends_is_not_judged() -> None:
    frame = b'{"id":1,"method":"session/new","params":{"cwd":"/agent","cwd":"/agent"}}'
    assert judge(RemoteOwnership(CWD), Side.AGENT, frame) == Verdict(frame)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":1,"method":"session/new","params":{"cwd":"/a","cwd":"/b"}}',
        b'{"id":1,"method":"session/new","params":{"cwd":"/a","c\\u0077d":"/b"}}',
        b'{"id":1,"method":"session/new","params":{"cwd":"/a"},"params":{}}',
        b'{"id":1,"method":"session/prompt","method":"session/new","params":{"cwd":"/a"}}',
        b'{"id":9,"id":1,"method":"session/new","params":{"cwd":"/a"}}',
        initialize('{},"clientCapabilities":{"terminal":true}').replace(b"0.0", b"1"),
        initialize('{"terminal":false,"terminal":true}').replace(b"0.0", b"1"),
        initialize('{"fs":{},"fs":{"readTextFile":true}}').replace(b"0.0", b"1"),
        initialize('{"fs":{"a":false,"a":true}}').replace(b"0.0", b"1"),
    ],
)
def test_duplicate_keys_where_it_matters_are_refused(frame: bytes) -> None:
    assert answer(from_client(frame)) == (1, -32600, None)


def test_duplicate_keys_elsewhere_pass() -> None:
    frame = b'{"id":1,"method":"session/new","params":{"cwd":"/a","x":1,"x":2,"y":[{"cwd":1,"cwd":2}]}}'
    assert from_client(frame, "/b").forward == frame.replace(b'"/a"', b'"/b"')


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":1,"method":"session/new","params":["/a"]}',
        b'{"id":1,"method":"initialize","params":{"clientCapabilities":[]}}',
        b'{"id":1,"method":"initialize","params":{"clientCapabilities":{"fs":true}}}',
    ],
)
def test_values_of_the_wrong_type_where_it_matters_are_refused_as_invalid_params(frame: bytes) -> None:
    assert answer(from_client(frame)) == (1, -32602, None)


def test_a_refused_notification_is_dropped_with_a_note() -> None:
    verdict = from_client(b'{"method":"session/new","params":{"cwd":"/a","cwd":"/b"}}')
    assert (verdict.forward, verdict.answer) == (None, None)
    assert "session/new" in (verdict.note or "")


def test_a_server_that_does_not_tell_its_directory_is_noted_once_and_capabilities_still_go() -> None:
    policy = RemoteOwnership(None)
    assert judge(policy, Side.CLIENT, initialize('{"terminal":true}')) == Verdict(
        initialize('{"terminal":false}')
    )
    frame = b'{"id":1,"method":"session/new","params":{"cwd":"/a"}}'
    first, second = judge(policy, Side.CLIENT, frame), judge(policy, Side.CLIENT, frame)
    assert (first.forward, second) == (frame, Verdict(frame))
    assert "does not tell its directory" in (first.note or "")


# --- the hint


def test_the_hint_is_one_line_whatever_the_directory_is_called() -> None:
    frame = b'{"id":1,"method":"session/new","params":{"cwd":"/a\\nb\\u001b[31m\\ud800"}}'
    note = judge(OwnershipHint("/srv"), Side.CLIENT, frame).note
    assert note is not None
    assert r"'/a\nb\x1b[31m\ud800'" in note


def test_another_directory_than_the_servers_is_hinted_at_once() -> None:
    hint = OwnershipHint("/srv")
    same = b'{"id":1,"method":"session/new","params":{"cwd":"\\/srv"}}'
    other = b'{"id":1,"method":"session/new","params":{"cwd":"/home"}}'
    assert judge(hint, Side.CLIENT, same) == Verdict(same)
    assert judge(hint, Side.AGENT, other) == Verdict(other)
    verdict = judge(hint, Side.CLIENT, other)
    assert verdict.forward == other
    assert verdict.note is not None
    assert verdict.note.startswith(
        "the client wants to work in '/home', but the agent was started in '/srv': "
    )
    assert "--host-ownership remote" in verdict.note
    assert not hint.concerns(b'"session/new"')


@pytest.mark.parametrize(
    "params", ["null", "{}", "[]", '{"cwd":null}', '{"cwd":"/a","cwd":"/b"}', '"/a"', '{"cwd":{}}']
)
def test_the_hint_never_stops_a_frame(params: str) -> None:
    frame = f'{{"id":1,"method":"session/new","params":{params}}}'.encode()
    assert judge(OwnershipHint("/srv"), Side.CLIENT, frame) == Verdict(frame)


# --- several at once, and in the relay


def test_several_policies_judge_in_a_row() -> None:
    policies = Policies(UnstableGate(), RemoteOwnership("/srv"), OwnershipHint("/else"))
    assert policies.concerns(b'"elicitation/create"')
    assert not policies.concerns(b'"session/update"')
    verdict = judge(
        policies, Side.CLIENT, b'{"id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}'
    )
    assert verdict.forward == b'{"id":1,"method":"session/new","params":{"cwd":"/srv","mcpServers":[]}}'
    assert "/else" in (verdict.note or "")
    refused = judge(policies, Side.CLIENT, b'{"id":1,"method":"session/new","params":{"cwd":1,"cwd":2}}')
    assert answer(refused) == (1, -32600, None)
    assert refused.note is None
    frame = b'{"id":1,"method":"session/update"}'
    assert judge(PASS, Side.AGENT, frame) == Verdict(frame)
    assert PASS.judge(Side.AGENT, frame, peek(frame)) == Verdict(frame)


def test_the_relay_answers_in_the_mirrors_name_and_keeps_the_rest_of_the_batch() -> None:
    relay = Relay(policy=UnstableGate())
    update, other = b'{"method":"session/update"}', b'{"id":3,"method":"fs/read_text_file"}'
    commands = relay.frames_received(Side.AGENT, [update, b'{"id":2,"method":"elicitation/create"}', other])
    assert commands[0] == Send(Side.CLIENT, [update, other])
    assert [type(command) for command in commands] == [Send, Note, Send]
    last = commands[2]
    assert isinstance(last, Send)
    assert last.side is Side.AGENT
    assert json.loads(last.frames[0])["error"]["code"] == -32601


def test_methods_without_end_are_not_all_remembered() -> None:
    policies = Policies(UnstableGate())
    for number in range(2000):
        assert not policies.concerns(f'"method/{number}"'.encode())
    assert not policies.concerns(b'"' + b"x" * 10_000 + b'"')
    assert policies.concerns(b'"elicitation/create"')
    assert policies.concerns(b'"elicitation\\/create"')
    assert len(policies._remembered) <= 256


# --- properties

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "cwd": st.text(max_size=12) | JSON,
        "clientCapabilities": st.fixed_dictionaries(
            {},
            optional={
                "terminal": st.booleans() | JSON,
                "fs": st.none() | st.dictionaries(st.text(max_size=5) | st.just("readTextFile"), JSON),
                "elicitation": JSON,
            },
        )
        | st.none(),
        "_meta": JSON,
        "other": JSON,
    },
)


def expected(method: str, params: dict[str, object]) -> dict[str, object]:
    """What the policy promises, said about values instead of bytes."""
    wanted = dict(params)
    if method != "initialize":
        return {**wanted, "cwd": CWD} if isinstance(params.get("cwd"), str) else wanted
    capabilities = params.get("clientCapabilities")
    if isinstance(capabilities, dict):
        changed = dict(capabilities)
        if "terminal" in changed:
            changed["terminal"] = False
        if isinstance(changed.get("fs"), dict):
            changed["fs"] = {key: value if key == "_meta" else False for key, value in changed["fs"].items()}
        wanted["clientCapabilities"] = changed
    return wanted


@given(
    st.sampled_from(["initialize", *SESSION_METHODS]),
    PARAMS,
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)
def test_only_the_named_values_change(
    method: str, params: dict[str, object], indent: int | str | None, ascii_only: bool
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    frame = json.dumps(message, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    forward = from_client(frame).forward
    assert forward is not None
    assert json.loads(forward) == {**message, "params": expected(method, params)}
    assert from_client(forward).forward == forward, "a second time changes nothing"
    assert (forward == frame) == (expected(method, params) == params)


@given(st.text(max_size=30), st.text(max_size=30), JSON, JSON)
def test_around_a_replaced_directory_every_byte_is_the_old_one(
    before: str, after: str, first: object, last: object
) -> None:
    head = json.dumps({"id": 1, "method": "session/new", "a": first, "b": before})[:-1]
    tail = json.dumps({"mcpServers": last, "z": after}, indent=1)[1:]
    frame = f'{head}, "params" :{{"cwd":  "/old" ,{tail}}}'.encode()
    assert from_client(frame).forward == f'{head}, "params" :{{"cwd":  "/srv/wörk\\"space" ,{tail}}}'.encode()


@given(st.sampled_from(list(Side)), st.text(max_size=20), JSON)
def test_a_frame_of_another_method_is_the_same_object_afterwards(
    side: Side, method: str, params: object
) -> None:
    frame = json.dumps({"id": 1, "method": method, "params": params}).encode()
    relay = Relay(policy=Policies(UnstableGate(), RemoteOwnership(CWD)))
    commands = relay.frames_received(side, [frame])
    if method not in JUDGED:
        (command,) = commands
        assert isinstance(command, Send)
        assert command.frames[0] is frame


@given(st.sampled_from(JUDGED), st.binary(max_size=40), st.sampled_from(list(Side)))
def test_nothing_undocumented_is_raised(method: str, junk: bytes, side: Side) -> None:
    frame = b'{"id":1,"method":"%b","params":{"cwd":"%b"}}' % (method.encode(), junk)
    Relay(policy=Policies(UnstableGate(), RemoteOwnership(CWD), OwnershipHint(CWD))).frames_received(
        side, [frame]
    )
