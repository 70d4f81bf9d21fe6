"""What a server is given as an option can be given in a variable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.raw import connect
from tests.running import FAST_PYTHON, command

TOKEN = "t0ken-of-this-test"
TELLS_ENVIRONMENT = """
import json, os, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "result": dict(os.environ)}), flush=True)
"""


def agent_environment(
    variables: dict[str, str], *flags: str, headers: tuple[tuple[str, str], ...] = ()
) -> dict[str, str]:
    """What an agent finds in its environment, behind a server that was told everything by variables."""
    variables = {"ACPREMOTE_PORT": "0", **variables}
    with command("expose", *flags, "--", *FAST_PYTHON, TELLS_ENVIRONMENT, env=variables) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert "listening on ws://" in line, line
        port, path = re.findall(r":(\d+)(/\S+)", line)[0]
        with connect(int(port), path=path, headers=headers) as client:
            client.send(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
            result: dict[str, str] = json.loads(client.receive())["result"]
            return result


def shown(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    with command(
        *arguments, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", **(env or {})}
    ) as process:
        out, err = process.communicate(timeout=40)
        return process.returncode, (out + err).decode()


class TestVariables:
    def test_options_of_every_kind_are_taken_from_variables(self) -> None:
        agent = agent_environment(
            {
                "ACPREMOTE_MOUNT_PATH": "/agents/one",
                "ACPREMOTE_ENV": "FIRST=1 SECOND=2",
                "ACPREMOTE_CONSOLE": "false",
                "ACPREMOTE_GRACE": "0",
                "ACPREMOTE_MAX_CONNECTIONS": "3",
            }
        )
        assert (agent["FIRST"], agent["SECOND"]) == ("1", "2")

    def test_a_flag_counts_more_than_its_variable(self) -> None:
        agent_environment({"ACPREMOTE_MAX_MESSAGE_SIZE": "1"}, "--max-message-size", "2000")

    def test_a_value_that_is_not_allowed_is_refused_as_it_is_on_the_command_line(self) -> None:
        for variables in ({"ACPREMOTE_MAX_CONNECTIONS": "0"}, {"ACPREMOTE_PORT": "many"}):
            status, text = shown("expose", "--", "cat", env=variables)
            assert status == 2
            assert next(iter(variables.values())) in text

    @pytest.mark.parametrize("name", ["expose", "serve"])
    def test_every_option_of_a_server_names_its_variable_in_the_help(self, name: str) -> None:
        _, text = shown(name, "--help")
        options = set(re.findall(r"^\W*--([a-z-]+)", text, re.MULTILINE)) - {"help"}
        assert len(options) > 20
        named = set(re.findall(r"ACPREMOTE_([A-Z_]+)", text))
        assert {option.replace("-", "_").upper() for option in options} <= named

    def test_a_client_reads_none_of_them(self) -> None:
        assert "ACPREMOTE_" not in shown("mirror", "--help")[1]


class TestToken:
    def test_it_may_stand_in_a_variable_of_ours_and_does_not_reach_the_agent(self) -> None:
        agent = agent_environment(
            {"ACPREMOTE_TOKEN": TOKEN, "ANTHROPIC_API_KEY": "the agent's own"},
            headers=(("Authorization", f"Bearer {TOKEN}"),),
        )
        assert TOKEN not in json.dumps(agent)
        assert agent["ANTHROPIC_API_KEY"] == "the agent's own"

    def test_it_is_asked_for(self) -> None:
        with pytest.raises(AssertionError, match="401"):
            agent_environment({"ACPREMOTE_TOKEN": TOKEN})

    def test_one_that_is_not_used_does_not_reach_the_agent_either(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("another")
        agent = agent_environment(
            {"ACPREMOTE_TOKEN": TOKEN, "ACPREMOTE_TOKEN_FILE": str(file)},
            headers=(("Authorization", "Bearer another"),),
        )
        assert TOKEN not in json.dumps(agent)

    def test_an_empty_one_is_an_error_and_not_an_open_door(self) -> None:
        status, text = shown("expose", "--", "cat", env={"ACPREMOTE_TOKEN": " "})
        assert status == 2
        assert "ACPREMOTE_TOKEN holds no token" in text
