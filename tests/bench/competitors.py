"""The relays that are compared: what to start, and how a load client reaches them.

Shapes are compared only with themselves: DIRECT is a stock client, one relay, the agent; CHAIN has a near
half on the client's stdio as well; PYTHON has an ACP SDK on both ends.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.processes import Load, free_port, server
from tests.bench.tools import HERE, Tools

LOCALHOST = "127.0.0.1"


class Shape(enum.Enum):
    """What a relay stands between."""

    DIRECT = "stock client"
    CHAIN = "stdio to stdio"
    PYTHON = "Python ends"


@dataclass(frozen=True, slots=True)
class Competitor:
    """One relay. `{port}` in its commands is the port that it listens on."""

    name: str
    shape: Shape
    needs: tuple[Path, ...]
    far: tuple[str, ...]
    """Command of the listening half; empty for none."""
    near: tuple[str, ...]
    """Command of the load client."""

    def missing(self) -> list[str]:
        """Names of what would have to be installed."""
        return [path.name for path in self.needs if not path.exists()]


@dataclass(frozen=True, slots=True)
class Relay:
    """A competitor that runs."""

    competitor: Competitor
    near: tuple[str, ...]
    roots: tuple[int, ...]
    """Process ids of its listening half."""

    def load(self) -> Load:
        """A new load client that talks to it."""
        return Load(self.near)


@contextmanager
def running(competitor: Competitor) -> Iterator[Relay]:
    """Runs a competitor's listening half."""
    port = free_port()
    far = [part.replace("{port}", str(port)) for part in competitor.far]
    near = tuple(part.replace("{port}", str(port)) for part in competitor.near)
    with ExitStack() as stack:
        roots = (stack.enter_context(server(far, port)).pid,) if far else ()
        yield Relay(competitor, near, roots)


def all_competitors(tools: Tools) -> list[Competitor]:
    """Every competitor, installed or not; ours are called `ours: …`."""
    agent, load, ends = str(tools.agent), str(tools.load), str(HERE / "python_ends.py")
    websocket = (load, "ws", LOCALHOST, "{port}")
    socat_far = (
        str(tools.socat),
        "TCP-LISTEN:{port},bind=127.0.0.1,backlog=1024,fork,nodelay",
        f"EXEC:{agent}",
    )
    socat_near = (str(tools.socat), "-", "TCP:127.0.0.1:{port},nodelay")

    def direct(name: str, needs: Path, *far: str, path: str = "/") -> Competitor:
        return Competitor(name, Shape.DIRECT, (needs,), far, (*websocket, path))

    def expose(program: Path) -> tuple[str, ...]:
        return (str(program), "expose", "--host", LOCALHOST, "--port", "{port}", "--", agent)

    def chain(name: str, program: Path) -> Competitor:
        url = f"ws://{LOCALHOST}:{{port}}/acp/ws"
        near = (load, "exec", str(program), "mirror", url)
        return Competitor(name, Shape.CHAIN, (program,), expose(program), near)

    def python(name: str, interpreter: Path) -> Competitor:
        far = (str(interpreter), ends, "server", "{port}")
        return Competitor(
            name, Shape.PYTHON, (interpreter,), far, (str(interpreter), ends, "client", "{port}")
        )

    own, peer = tools.own_acpremote, tools.peer_acpremote
    return [
        direct("ours: expose", own, *expose(own), path="/acp/ws"),
        Competitor("bare pipe", Shape.DIRECT, (tools.agent,), (), (load, "exec", agent)),
        Competitor("socat", Shape.DIRECT, (tools.socat,), socat_far, (load, "tcp", LOCALHOST, "{port}")),
        direct(
            "websocketd",
            tools.websocketd,
            *(
                str(tools.websocketd),
                "--address",
                LOCALHOST,
                "--port",
                "{port}",
                "--loglevel",
                "error",
                agent,
            ),
        ),
        direct(
            "stdio-to-ws", tools.stdio_to_ws, str(tools.stdio_to_ws), "--quiet", "--port", "{port}", agent
        ),
        direct(
            "line per send",
            tools.own_python,
            *(str(tools.own_python), str(HERE / "baseline.py"), "{port}", agent),
        ),
        direct("peer: expose", peer, *expose(peer), path="/acp/ws"),
        chain("ours: mirror + expose", own),
        Competitor("socat + socat", Shape.CHAIN, (tools.socat,), socat_far, (load, "exec", *socat_near)),
        chain("peer: mirror + expose", peer),
        python("ours: serve + connect", tools.own_python),
        python("peer: serve + connect", tools.peer_python),
    ]
