"""Which set-ups are refused, which are warned about, and what becomes of the options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acpremote.core.access import Rules
from acpremote.core.authority import BoundTo
from acpremote.core.setup import bound_to, make_rules, wants_peer_check, warnings
from acpremote.errors import ConfigError
from acpremote.options import ServerOptions


def rules(**options: Any) -> Rules:
    return make_rules(ServerOptions(**options), link=True, console=lambda path: False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "machine.lan", "127.0.0.1.example"])
def test_beyond_loopback_a_token_is_needed(host: str) -> None:
    with pytest.raises(ConfigError, match="--insecure-no-auth"):
        rules(host=host)
    assert rules(host=host, bearer_token="t").token == b"t"
    assert rules(host=host, insecure_no_auth=True).token is None


@pytest.mark.parametrize(
    "place", [{"host": "127.0.0.1"}, {"host": "localhost"}, {"host": "::1"}, {"unix_path": "/s"}]
)
def test_on_this_machine_it_is_not(place: dict[str, str]) -> None:
    assert rules(**place).token is None


@pytest.mark.parametrize(
    ("options", "checked"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"bearer_token": "t"}, False),
        ({"insecure_no_auth": True}, False),
        ({"unix_path": "/s"}, False),
        ({"host": "0.0.0.0", "insecure_no_auth": True}, False),
    ],
)
def test_without_a_token_on_loopback_the_peer_is_checked(options: dict[str, Any], checked: bool) -> None:
    assert wants_peer_check(ServerOptions(**options)) is checked


@pytest.mark.parametrize(
    ("options", "can_tell", "said"),
    [
        ({}, True, []),
        ({}, False, ["every user of this machine"]),
        ({"unix_path": "/s"}, False, []),
        ({"insecure_no_auth": True}, True, ["every user of this machine"]),
        ({"insecure_no_auth": True, "host": "0.0.0.0"}, True, ["everybody who can reach"]),
        ({"bearer_token": "t", "host": "0.0.0.0"}, True, ["unencrypted"]),
        ({"bearer_token": "t", "host": "0.0.0.0", "tls_self_signed": True}, True, []),
        ({"bearer_token": "t", "query_token": True}, True, ["query"]),
    ],
)
def test_what_the_owner_is_told(options: dict[str, Any], can_tell: bool, said: list[str]) -> None:
    told = list(warnings(ServerOptions(**options), can_tell_users=can_tell))
    assert len(told) == len(said)
    assert all(word in sentence for word, sentence in zip(said, told, strict=True))


def test_the_options_become_rules() -> None:
    made = rules(
        mount_path="/agents/",
        bearer_token="t",
        query_token=True,
        tls_self_signed=True,
        allowed_hosts=["Agents.Example:443"],
        allowed_origins=["https://App.Example"],
    )
    assert made == replace(
        Rules(),
        mount_path="/agents",
        token=b"t",
        query_token=True,
        tls=True,
        bound_to=BoundTo.of("127.0.0.1"),
        allowed_hosts=frozenset({"agents.example"}),
        allowed_origins=frozenset({"https://app.example:443"}),
        console=made.console,
    )
    assert rules(mount_path="/").websocket_path == "/ws"


@pytest.mark.parametrize("origin", ["null", "*", "app.example", "https://app.example/x", ""])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="web origin"):
        rules(allowed_origins=[origin])


@pytest.mark.parametrize("host", ["*", "https://x", "a/b", ""])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="host to allow"):
        rules(allowed_hosts=[host])


def test_a_server_answers_to_the_addresses_that_its_name_stands_for() -> None:
    options = ServerOptions(host="machine.lan", bearer_token="t")
    assert bound_to(options, "10.0.0.7") == BoundTo(("machine.lan", "10.0.0.7"))
    assert bound_to(ServerOptions(unix_path="/s"), "ignored") == BoundTo()


@pytest.mark.parametrize("token", ["", " ", "a b", "a\n", "tökén"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="bearer_token") as refusal:
        ServerOptions(bearer_token=token)
    assert not token.strip() or token not in str(refusal.value)


@pytest.mark.parametrize(
    "options",
    [
        {"tls_key": "k"},
        {"tls_certificate": "c", "tls_self_signed": True},
        {"query_token": True},
        {"unix_path": "/s", "tls_self_signed": True},
    ],
)
def test_contradictions_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServerOptions(**options)
