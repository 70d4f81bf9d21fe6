"""A mirror and an expose load only what they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

NEVER = {"acp", "pydantic", "rich", "prompt_toolkit", "cryptography", "pickle", "json", "logging.handlers"}
MIRROR = {
    "http.cookiejar",
    *(f"acpremote.{name}" for name in ("metadata", "server", "tls", "transport.fetch")),
}
EXPOSE = {"html", "urllib.request", "websockets.asyncio.client"} | {
    f"acpremote.{name}" for name in ("client", "metadata", "recording", "tls", "transport.dial")
}


@pytest.mark.parametrize(
    ("arguments", "said", "needless"),
    [
        (["mirror", "--no-reconnect", "ws://127.0.0.1:1/acp/ws"], "cannot connect", MIRROR),
        (["expose", "--host", "192.0.2.1", "--insecure-no-auth", "--", "cat"], "cannot listen", EXPOSE),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], said: str, needless: set[str]) -> None:
    code = (
        "import sys\nfrom acpremote_cli.main import main\n"
        "try: main()\nfinally: print(*sys.modules, sep='\\n')"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert said in shown.stderr
    assert shown.returncode == 3
    loaded = set(shown.stdout.split())
    assert "acpremote" in loaded
    assert not loaded & (NEVER | needless)


def test_the_version_is_told() -> None:
    code = "from acpremote_cli.main import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("acpremote 0.")
