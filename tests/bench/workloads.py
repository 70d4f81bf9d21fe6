"""What is measured of every relay. Each workload makes one measurement: its metrics by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.competitors import Competitor, Relay, Shape, running
from tests.bench.processes import BenchError, Load, cpu_seconds, memory_kb, peak_kb, reset_peak

ENOUGH = 0.5
"""Part of the wanted time that a measurement has to last."""

STALL_BYTES = 256_000_000

Measurement = dict[str, float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a measurement does."""

    seconds: float = 1.0
    """Wanted length of one measurement; counts are chosen for it."""
    links: int = 100
    """Links that are opened to measure the memory of one."""
    most_links: int = 500
    stall_bytes: int = STALL_BYTES
    stall_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a measurement."""

    name: str
    unit: str
    more_is_better: bool = False


RATE = Metric("rate", "/s", more_is_better=True)
LATENCY = Metric("round trip", "µs")
CPU = Metric("cpu", "µs/frame")
FIRST_REPLY = Metric("first reply", "ms")
OPEN = Metric("open", "ms/link")
IDLE = Metric("idle", "kB/link")
PEAK = Metric("peak", "kB/link")
STALL = Metric("stalled", "kB")


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of work. `measure` gets a running relay, or starts its own if `own_process`."""

    name: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Relay, Effort], Measurement]
    shapes: frozenset[Shape] = frozenset(Shape)


class Meter:
    """Repeats a command on open links, for about as long as wanted, and counts what the relay spent on it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        """Repetitions by competitor and command, kept so that rounds do equal work."""

    def measure(self, relay: Relay, load: Load, work: str, effort: Effort, links: int = 1) -> Measurement:
        key = (relay.competitor.name, f"{work} {links}")
        roots = (*relay.roots, load.pid)
        count = self._counts.get(key, 1)
        while True:
            before = cpu_seconds(roots)
            answer = load.ask(f"{work} {count}")
            spent = cpu_seconds(roots) - before
            if answer.seconds >= ENOUGH * effort.seconds:
                break
            # By small steps: one hiccup in a short run says nothing about a long one.
            count = max(count + 1, min(4 * count, round(count * effort.seconds / answer.seconds)))
        self._counts[key] = count
        return {
            RATE.name: count * links / answer.seconds,
            LATENCY.name: answer.median * 1e6,
            CPU.name: spent * 1e6 / (count * links),
        }


_meter = Meter()


def _work(work: str) -> Callable[[Relay, Effort], Measurement]:
    def measure(relay: Relay, effort: Effort) -> Measurement:
        with relay.load() as load:
            load.ask("open 1")
            load.ask(f"{work} 1")
            return _meter.measure(relay, load, work, effort)

    return measure


def _links(count: int) -> Callable[[Relay, Effort], Measurement]:
    def measure(relay: Relay, effort: Effort) -> Measurement:
        with relay.load() as load:
            links = min(count, effort.most_links)
            opened = load.ask(f"open {links}").seconds
            found = _meter.measure(relay, load, "turns 200", effort, links)
            load.ask("close")
        return {RATE.name: found[RATE.name], CPU.name: found[CPU.name], OPEN.name: opened * 1e3 / links}

    return measure


def _start(relay: Relay, _effort: Effort) -> Measurement:
    """From starting the half that the user waits for (the near one of a chain) to the first reply."""
    if relay.competitor.shape is Shape.DIRECT:
        return {FIRST_REPLY.name: _start_far(relay.competitor) * 1e3}
    began = time.perf_counter()
    with relay.load() as load:
        load.ask("open 1")
        return {FIRST_REPLY.name: (time.perf_counter() - began) * 1e3}


def _start_far(competitor: Competitor) -> float:
    began = time.perf_counter()
    with running(competitor) as relay, relay.load() as load:
        load.ask("open 1")
        return time.perf_counter() - began


def _memory(relay: Relay, effort: Effort) -> Measurement:
    """Of a relay of its own: what each open link costs while idle, and at most while all are flooded."""
    with running(relay.competitor) as fresh, fresh.load() as load:
        load.ask(f"open {effort.links}")  # the first ones also pay for what all share
        roots = (*fresh.roots, load.pid)
        before = memory_kb(roots)
        load.ask(f"open {effort.links}")
        idle = (memory_kb(roots) - before) / effort.links
        reset_peak(roots)
        load.ask("flood 50000 20")
        peak = (peak_kb(roots) - before) / (2 * effort.links)
    return {IDLE.name: idle, PEAK.name: peak}


def _stall(relay: Relay, effort: Effort) -> Measurement:
    """Of a relay of its own: the most that it grows while a client asks for much and reads nothing."""
    with running(relay.competitor) as fresh, fresh.load() as load:
        load.ask("open 1")
        roots = (*fresh.roots, load.pid)
        before = memory_kb(roots)
        load.ask(f"stall 50000 {effort.stall_bytes // 50_000}")
        until = time.monotonic() + effort.stall_seconds
        most = 0
        while time.monotonic() < until:
            time.sleep(effort.stall_seconds / 20)
            most = max(most, memory_kb(roots))
        load.ask(f"drain {effort.stall_bytes // 50_000 + 1}")
    return {STALL.name: float(most - before)}


_WITHOUT_PYTHON = frozenset({Shape.DIRECT, Shape.CHAIN})
_DIRECT = frozenset({Shape.DIRECT})

WORKLOADS = [
    Workload("round trip 200 B", (LATENCY, CPU), _work("turns 200")),
    Workload("round trip 64 kB", (LATENCY, CPU), _work("turns 64000")),
    Workload("round trip 1 MB", (LATENCY, CPU), _work("turns 1000000")),
    Workload("flood 100 B", (RATE, CPU), _work("flood 100"), _WITHOUT_PYTHON),
    Workload("packed 100 B", (RATE, CPU), _work("packed 100"), _WITHOUT_PYTHON),
    Workload("flood 160 B chunks", (RATE, CPU), _work("flood 160")),
    Workload("flood 50 kB", (RATE, CPU), _work("flood 50000")),
    Workload("sink 100 B", (RATE, CPU), _work("sink 100"), _WITHOUT_PYTHON),
    Workload("1 link", (RATE, CPU, OPEN), _links(1), _DIRECT),
    Workload("10 links", (RATE, CPU, OPEN), _links(10), _DIRECT),
    Workload("100 links", (RATE, CPU, OPEN), _links(100), _DIRECT),
    Workload("500 links", (RATE, CPU, OPEN), _links(500), _DIRECT),
    Workload("start", (FIRST_REPLY,), _start),
    Workload("memory", (IDLE, PEAK), _memory, _DIRECT),
    Workload("stalled reader", (STALL,), _stall, _WITHOUT_PYTHON),
]
"""In the order of the table. `sink` is the client writing to the agent, `packed` an agent that writes 64 KiB
at a time; a link's memory is without its agent."""


def measure(workload: Workload, relay: Relay, effort: Effort) -> Measurement:
    """Makes one measurement.

    Raises:
        BenchError: the relay cannot do this.
    """
    try:
        return workload.measure(relay, effort)
    except OSError as error:
        raise BenchError(str(error)) from error
