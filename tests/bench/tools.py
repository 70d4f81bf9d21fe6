"""What the benchmark needs besides itself: two C programs, and other people's relays.

Owns the cache directory, and builds and installs into it. Measures nothing. Read `competitors.py` next.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parents[1]
PEER = "acpremote==1.10.0"
STDIO_TO_WS = "stdio-to-ws@0.2.0"


def default_cache() -> Path:
    """Where programs are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "acpremote-bench"


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of every program that a measurement may start; they need not exist."""

    cache: Path

    @property
    def agent(self) -> Path:
        return self.cache / "bench-agent"

    @property
    def load(self) -> Path:
        return self.cache / "bench-load"

    @property
    def own_python(self) -> Path:
        return Path(sys.executable)

    @property
    def own_acpremote(self) -> Path:
        return self.own_python.parent / "acpremote"

    @property
    def peer_python(self) -> Path:
        return self.cache / "peer" / "bin" / "python"

    @property
    def peer_acpremote(self) -> Path:
        return self.cache / "peer" / "bin" / "acpremote"

    @property
    def stdio_to_ws(self) -> Path:
        return self.cache / "node_modules" / ".bin" / "stdio-to-ws"

    @property
    def socat(self) -> Path:
        return Path(shutil.which("socat") or "/usr/bin/socat")

    @property
    def websocketd(self) -> Path:
        return Path(shutil.which("websocketd") or "/usr/bin/websocketd")


def compile_programs(tools: Tools) -> None:
    """Compiles the agent and the load client where their sources are newer."""
    tools.cache.mkdir(parents=True, exist_ok=True)
    for source, program in ((HERE / "agent.c", tools.agent), (HERE / "load.c", tools.load)):
        if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
            continue
        fresh = program.with_suffix(f".{os.getpid()}")
        _run("cc", "-O2", "-o", str(fresh), str(source))
        fresh.replace(program)


def compile_packages() -> None:
    """Compiles our packages to bytecode, as an installer does with the competitors'.

    Where `PYTHONDONTWRITEBYTECODE` is set, an editable install would be compiled anew at every start.
    """
    _run(sys.executable, "-m", "compileall", "-q", str(SOURCES / "acpremote"), str(SOURCES / "cli"))


def install(tools: Tools) -> None:
    """Gets the competitors that are missing, from PyPI, npm and (for root on Debian) apt."""
    if not tools.peer_acpremote.exists():
        _run(sys.executable, "-m", "venv", str(tools.cache / "peer"))
        _run(str(tools.peer_python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", PEER)
    if not tools.stdio_to_ws.exists() and shutil.which("npm"):
        _run(
            "npm", "--prefix", str(tools.cache), "install", "--silent", "--no-audit", "--no-fund", STDIO_TO_WS
        )
    wanted = [program.name for program in (tools.socat, tools.websocketd) if not program.exists()]
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        _run("apt-get", "update", "-qq", "-o", "DPkg::Lock::Timeout=300")
        _run("apt-get", "install", "-y", "-qq", "-o", "DPkg::Lock::Timeout=300", *wanted)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)
