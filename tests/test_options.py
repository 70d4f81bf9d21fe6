"""A wrong option is refused when the object is made, by a message that names field, value and what is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import pytest

from acpremote import ClientOptions, CommandOptions, ConfigError, ServerOptions, TransportOptions, connect_acp

NAN, INFINITE = float("nan"), float("inf")

Row = tuple[Any, dict[str, Any], str]


def rows(kind: Any, names: str, values: Sequence[Any], allowed: str, **others: Any) -> list[Row]:
    """Every value for every field."""
    return [(kind, {**others, name: value}, allowed) for name in names.split() for value in values]


SECONDS, WHOLE, TEXT, TEXTS = "a number of seconds", "a whole number", "a string", "a sequence of strings"
OWNERS = "'client_passthrough', 'remote'"
LS = {"command": ["ls"]}
WRONG: list[Row] = [
    *rows(TransportOptions, "max_size", [0, -1, 1023, 2**31, 1e6, "1", True], WHOLE),
    *rows(TransportOptions, "window", [0, 65535, 2**31, None], WHOLE),
    *rows(
        TransportOptions,
        "open_timeout close_timeout stall_timeout",
        [0, -1, NAN, INFINITE, "10", None, True],
        SECONDS,
    ),
    *rows(
        TransportOptions,
        "ping_interval ping_timeout grace connect_timeout drain_timeout",
        [-0.1, NAN, INFINITE, 1e12, "1", None],
        SECONDS,
    ),
    *rows(TransportOptions, "compression", ["gzip", "", True], "None, 'deflate'"),
    *rows(TransportOptions, "host_ownership", ["client", "REMOTE", None, []], OWNERS),
    *rows(TransportOptions, "use_unstable_protocol reconnect", [0, 1, "yes", None], "True, False"),
    *rows(ServerOptions, "port", [-1, 65536, "80", None], "a whole number from 0 to 65535"),
    *rows(ServerOptions, "mount_path", ["", "acp", "/a?b", "/a b"], "a path that begins with /"),
    *rows(ServerOptions, "host mount_path unix_path", [5, b"x"], TEXT),
    *rows(ServerOptions, "allowed_hosts allowed_origins", ["a.example", None, [1], 5], TEXTS),
    *rows(ServerOptions, "max_connections max_handshakes", [0, -1, None], "a whole number from 1"),
    *rows(ServerOptions, "shutdown_timeout", [0, "8"], SECONDS),
    *rows(ServerOptions, "console query_token insecure_no_auth tls_self_signed", [1, None], "True, False"),
    *rows(ClientOptions, "insecure", [1, None], "True, False"),
    *rows(ClientOptions, "tls_pin", [5, b"x"], "a string or None"),
    *rows(CommandOptions, "command", [(), [], "ls -l", b"ls", [1], ["a\0"], None, 5], "words"),
    *rows(CommandOptions, "cwd", [5, []], "a path or None", **LS),
    *rows(CommandOptions, "stderr_mode", ["both", None], "'inherit', 'discard'", **LS),
    *rows(CommandOptions, "terminate_timeout", [-1, "2"], SECONDS, **LS),
    *rows(CommandOptions, "env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}], "names without", **LS),
]


@pytest.mark.parametrize(("kind", "given", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_its_field_and_what_is_allowed(
    kind: Any, given: dict[str, Any], allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**given)
    name, value = list(given.items())[-1]
    message = str(caught.value)
    assert message.startswith(f"{kind.__name__}.{name} is ")
    assert allowed in message.partition("; allowed: ")[2]
    assert repr(value) in message or name == "env"


@pytest.mark.parametrize("kind", [ServerOptions, ClientOptions])
@pytest.mark.parametrize("token", ["", "two words", "umläut", "line\nbreak", b"s3cret", 5])
def test_a_token_that_cannot_be_sent_is_refused_and_never_shown(kind: Any, token: Any) -> None:
    with pytest.raises(ConfigError, match=r"Options\.bearer_token") as caught:
        kind(bearer_token=token)
    assert not token or str(token) not in str(caught.value)


@pytest.mark.parametrize("headers", [{"X": "1"}, "X: 1", [("X",)], [("X", 1)], [5], None, 5])
def test_headers_that_are_no_pairs_are_refused_without_their_values(headers: Any) -> None:
    with pytest.raises(ConfigError, match=r"ClientOptions\.headers") as caught:
        ClientOptions(headers=headers)
    assert "1" not in str(caught.value)


@pytest.mark.parametrize("env", [{"A": 1}, {1: "A"}, [("A", "1")], None])
def test_an_environment_of_something_else_than_strings_is_refused(env: Any) -> None:
    with pytest.raises(ConfigError, match=r"CommandOptions\.env"):
        CommandOptions(command=["x"], env=env)


@pytest.mark.parametrize("headers", [None, (), {"X-A": "1"}, [("X-A", "1")]])
def test_the_short_form_takes_headers_as_pairs_or_as_a_mapping(headers: Any) -> None:
    connect_acp("ws://localhost:1", headers=headers)


@pytest.mark.parametrize("headers", [{"X A": "1"}, [("X-A", "1\n2")], {"Host": "x"}])
def test_the_short_form_checks_headers_like_the_long_one(headers: Any) -> None:
    with pytest.raises(ConfigError):
        connect_acp("ws://localhost:1", headers=headers)


def test_the_defaults_are_the_documented_ones() -> None:
    mib = 1024 * 1024
    options = TransportOptions()
    assert (options.max_size, options.window, options.grace) == (64 * mib, 16 * mib, 3600)
    assert (options.open_timeout, options.close_timeout, options.stall_timeout) == (10, 10, 60)
    assert (options.ping_interval, options.ping_timeout) == (20, 20)
    assert (options.compression, options.host_ownership) == (None, "client_passthrough")
    assert options.use_unstable_protocol is False


@pytest.mark.parametrize("options", [TransportOptions(), ServerOptions(), ClientOptions()])
def test_options_cannot_be_changed_and_take_names_only(options: Any) -> None:
    field = dataclasses.fields(options)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, field, 1)
    with pytest.raises(TypeError):
        cast(Any, type(options))(1)


def test_secrets_are_in_no_repr() -> None:
    shown = repr(ServerOptions(bearer_token="s3cret")) + repr(
        ClientOptions(bearer_token="s3cret", headers=[("X-Key", "s3cret")])
    )
    assert "s3cret" not in shown
