"""How cost grows: with the size of a frame, the number of links, of open requests, and what a journal keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import process_time

from acpremote.core.journal import Outbox
from tests.bench.competitors import Competitor, Relay, Shape, running
from tests.bench.processes import BenchError, cpu_seconds

SIZES = (1_000, 16_000, 256_000, 4_000_000, 64_000_000)
LINKS = (1, 10, 100, 500)
OPEN_REQUESTS = (1, 100, 10_000, 99_000)
KEPT = (0, 64 * 1024, 1024 * 1024, 15 * 1024 * 1024)
"""Bytes that a journal keeps; the last is nearly the whole window."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A cost at growing values of one quantity; `flat` names what should not change."""

    name: str
    flat: str
    values: tuple[int, ...]
    cost: Callable[[Relay, int], float]
    shapes: frozenset[Shape] = frozenset({Shape.DIRECT, Shape.CHAIN})


def _per_kilobyte(relay: Relay, size: int) -> float:
    count = max(2, min(2000, 20_000_000 // size))
    with relay.load() as load:
        load.ask("open 1")
        load.ask(f"turns {size} 1")
        return load.ask(f"turns {size} {count}").median * 1e6 / (size / 1000)


def _per_round_trip(relay: Relay, links: int) -> float:
    with relay.load() as load:
        load.ask(f"open {links}")
        roots = (*relay.roots, load.pid)
        count = max(4, 4000 // links)
        load.ask("turns 200 2")
        before = cpu_seconds(roots)
        load.ask(f"turns 200 {count}")
        return (cpu_seconds(roots) - before) * 1e6 / (count * links)


def _with_open_requests(relay: Relay, requests: int) -> float:
    with relay.load() as load:
        load.ask("open 1")
        load.ask(f"hold {requests}")
        load.ask("turns 200 100")
        roots = (*relay.roots, load.pid)
        before = cpu_seconds(roots)
        load.ask("turns 200 2000")
        return (cpu_seconds(roots) - before) * 1e6 / 2000


GROWTHS = [
    Growth("growth: size of a frame, bytes", "µs of round trip per kB", SIZES, _per_kilobyte),
    Growth(
        "growth: links",
        "µs of processor time per round trip",
        LINKS,
        _per_round_trip,
        frozenset({Shape.DIRECT}),
    ),
    Growth(
        "growth: open requests", "µs of processor time per round trip", OPEN_REQUESTS, _with_open_requests
    ),
]


def growth_table(growth: Growth, competitors: list[Competitor], rounds: int) -> Iterator[str]:
    """One line per competitor: the cost at each value. A failure is named in its place."""
    yield f"{growth.name}: {growth.flat}"
    yield f"  {'':26}" + "".join(f"{value:>14,}" for value in growth.values)
    for competitor in (each for each in competitors if each.shape in growth.shapes):
        try:
            with running(competitor) as relay:
                costs = [[growth.cost(relay, value) for value in growth.values] for _ in range(rounds)]
        except BenchError as error:
            yield f"  {competitor.name:26}failed: {error}"
            continue
        yield f"  {competitor.name:26}" + "".join(
            f"{median(each):>14.4g}" for each in zip(*costs, strict=True)
        )


def journal_cost(kept: int, turns: int = 20_000) -> float:
    """Microseconds of one frame's way through a journal that keeps so many bytes of other small frames."""
    frame = b'{"jsonrpc":"2.0","method":"session/update","params":{"text":"%b"}}' % (b"x" * 40)
    outbox = Outbox(window=16 * 1024 * 1024, max_size=1024 * 1024)
    while outbox.size < kept:
        outbox.queue([frame])
        outbox.take(1024 * 1024)
    before = process_time()
    for number in range(1, turns + 1):
        outbox.queue([frame])
        outbox.take(1024 * 1024)
        outbox.acknowledge(number)
    return (process_time() - before) * 1e6 / turns


def journal_table(rounds: int, values: tuple[int, ...] = KEPT) -> Iterator[str]:
    """The journal alone, full against empty: no socket and no agent is in the way."""
    yield "growth: bytes that a journal keeps: µs of processor time for a frame queued, sent and acknowledged"
    yield f"  {'':26}" + "".join(f"{value:>14,}" for value in values)
    costs = [[journal_cost(value) for value in values] for _ in range(rounds)]
    yield f"  {'ours: journal':26}" + "".join(f"{median(each):>14.4g}" for each in zip(*costs, strict=True))
