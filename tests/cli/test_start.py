"""A mirror and an expose load only what they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"acp", "pydantic", "rich", "prompt_toolkit", "cryptography"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mirror", "--no-reconnect", "ws://127.0.0.1:1/acp/ws"], "cannot connect"),
        (["expose", "--host", "192.0.2.1", "--insecure-no-auth", "--", "cat"], "cannot listen"),
    ],
)
def test_a_command_loads_neither_the_sdk_nor_what_draws(arguments: list[str], said: str) -> None:
    code = (
        "import sys\nfrom acpremote_cli.main import main\n"
        "try: main()\nfinally: print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert said in shown.stderr
    assert shown.returncode == 3
    loaded = set(shown.stdout.replace("'", "").strip("[]\n").split(", "))
    assert "acpremote" in loaded
    assert not loaded & HEAVY


def test_the_version_is_told() -> None:
    code = "from acpremote_cli.main import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("acpremote 0.")
