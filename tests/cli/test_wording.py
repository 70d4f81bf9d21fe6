"""What is wrong with a flag is said with the flag's name; what is wrong in Python with the field's."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import pytest
import typer.main

from acpremote.errors import ConfigError, OptionError
from acpremote.options import ClientOptions, CommandOptions, ServerOptions, TransportOptions
from acpremote_cli.main import _SETTINGS, _app
from acpremote_cli.wording import explain, flag_of

from ..test_options import WRONG

WITHOUT_FLAG = {"TransportOptions.connect_timeout", "TransportOptions.close_timeout"}
"""Fields that no command sets."""


def flags() -> set[str]:
    """Every flag of every command."""
    group: Any = typer.main.get_command(_app(list(_SETTINGS)))
    return {
        name
        for command in group.commands.values()
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
    }


def fields() -> list[str]:
    kinds = (TransportOptions, ServerOptions, ClientOptions, CommandOptions)
    return [f"{kind.__name__}.{field.name}" for kind in kinds for field in dataclasses.fields(kind)]


def test_every_field_is_called_as_a_flag_that_there_is() -> None:
    known = flags() | {"the token", "COMMAND"}
    unknown = {option for option in fields() if flag_of(option) not in known}
    assert unknown == WITHOUT_FLAG


@pytest.mark.parametrize(("kind", "given", "allowed"), WRONG)
def test_no_error_of_an_option_names_python_on_the_command_line(
    kind: Any, given: dict[str, Any], allowed: str
) -> None:
    with pytest.raises(OptionError) as caught:
        kind(**given)
    said = explain(caught.value)
    assert "Options" not in said
    assert said.endswith(str(caught.value).partition(" ")[2])


def test_other_errors_are_left_as_they_are() -> None:
    assert explain(ConfigError("ServerOptions is mentioned")) == "ServerOptions is mentioned"


def failing(*words: str, **variables: str) -> str:
    """Runs a command that has to fail as wrong usage, and returns what it said, in one line."""
    environment = {**os.environ, "COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb", **variables}
    program = "from acpremote_cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        env=environment,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert "Traceback" not in run.stderr
    return " ".join(run.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("expose --port 70000 -- cat", "acpremote: --port is 70000; allowed: a whole number from 0 to 65535"),
        ("expose --terminate-timeout -1 -- cat", "acpremote: --terminate-timeout is -1.0; allowed: a number"),
        ("expose --max-message-size 1 -- cat", "acpremote: --max-message-size is 1; allowed: "),
        ("expose --env =1 -- cat", "acpremote: --env is "),
        ("mirror --grace -1 ws://localhost", "acpremote: --grace is -1.0; allowed: a number of seconds"),
        ("chat --max-message-size 1 -- cat", "acpremote: --max-message-size is 1; allowed: "),
        ("expose --compression gzip -- cat", "'gzip' is not one of 'deflate'"),
        ("expose --stderr-mode both -- cat", "'both' is not one of 'inherit', 'discard'"),
        ("expose --log-level loud -- cat", "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        ("expose --log-format xml -- cat", "'xml' is not one of 'text', 'json'"),
        (
            "mirror --host-ownership mine ws://localhost",
            "'mine' is not one of 'client_passthrough', 'remote'",
        ),
        ("expose --prot 1 -- cat", "No such option: --prot"),
    ],
)
def test_a_wrong_flag_is_named_with_what_is_allowed(words: str, said: str) -> None:
    assert said in failing(*words.split())


def test_a_value_from_a_variable_is_named_with_the_variable() -> None:
    said = failing("expose", "--", "cat", ACPREMOTE_MAX_CONNECTIONS="0")
    assert said.startswith("acpremote: --max-connections (or ACPREMOTE_MAX_CONNECTIONS) is 0; allowed: ")


@pytest.mark.parametrize("command", ["expose", "chat"])
@pytest.mark.parametrize("own", ["--cwd /", "--cwd=/"])
def test_an_option_of_ours_behind_a_foreign_command_is_not_given_to_it_without_a_word(
    command: str, own: str
) -> None:
    said = failing(command, "cat", *own.split())
    assert said.startswith(f"acpremote: --cwd can be for acpremote {command} or for cat: put -- before")


def test_options_that_are_not_ours_need_no_dashes_before_the_command() -> None:
    said = failing("expose", "no-such-agent", "--foo", "--port-forward")
    assert said == "acpremote: command not found, or not executable: no-such-agent"


def test_behind_the_dashes_every_option_is_the_commands() -> None:
    said = failing("expose", "--", "no-such-agent", "--port", "0")
    assert said == "acpremote: command not found, or not executable: no-such-agent"


def test_after_an_address_options_are_the_chats() -> None:
    assert "--max-message-size is 1; allowed" in failing("chat", "ws://localhost", "--max-message-size", "1")
    assert failing("chat", "ws://localhost", "more").startswith("acpremote: after an address no command")
