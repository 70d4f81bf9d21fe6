"""The tables: ratios first, then medians; and the targets, met or missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.competitors import Shape
from tests.bench.rounds import Results, better
from tests.bench.workloads import CPU, FIRST_REPLY, IDLE, LATENCY, RATE, Metric, Workload

OURS = {
    Shape.DIRECT: "ours: expose",
    Shape.CHAIN: "ours: mirror + expose",
    Shape.PYTHON: "ours: serve + connect",
}
PEER = {Shape.DIRECT: "peer: expose", Shape.CHAIN: "peer: mirror + expose"}
SOCAT = {Shape.DIRECT: "socat", Shape.CHAIN: "socat + socat"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio of ours to another's has to be; without another, what our number has to be."""

    workload: str
    metric: Metric
    shape: Shape
    other: str | None
    bound: float
    at_least: bool = True

    def __str__(self) -> str:
        other = f" / {self.other}" if self.other else ""
        return f"{self.workload}, {self.metric.name}: {OURS[self.shape]}{other}"

    def measured(self, results: Results) -> float | None:
        ours = OURS[self.shape]
        if self.other is None:
            return results.median(self.workload, self.metric.name, ours)
        return results.ratio(self.workload, self.metric.name, ours, self.other)

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


TARGETS = [
    Target("flood 100 B", RATE, Shape.CHAIN, PEER[Shape.CHAIN], 60),
    Target("flood 160 B chunks", RATE, Shape.CHAIN, PEER[Shape.CHAIN], 60),
    Target("flood 100 B", RATE, Shape.CHAIN, SOCAT[Shape.CHAIN], 0.5),
    Target("flood 100 B", RATE, Shape.CHAIN, SOCAT[Shape.DIRECT], 0.5),
    Target("flood 50 kB", RATE, Shape.CHAIN, PEER[Shape.CHAIN], 5),
    Target("flood 50 kB", RATE, Shape.CHAIN, SOCAT[Shape.CHAIN], 0.8),
    Target("flood 50 kB", RATE, Shape.CHAIN, SOCAT[Shape.DIRECT], 0.8),
    Target("round trip 200 B", LATENCY, Shape.CHAIN, SOCAT[Shape.CHAIN], 1.6, at_least=False),
    Target("round trip 200 B", LATENCY, Shape.CHAIN, PEER[Shape.CHAIN], 0.5, at_least=False),
    Target("flood 100 B", RATE, Shape.DIRECT, PEER[Shape.DIRECT], 2),
    Target("flood 50 kB", RATE, Shape.DIRECT, PEER[Shape.DIRECT], 2),
    Target("flood 100 B", RATE, Shape.DIRECT, "websocketd", 1),
    Target("flood 50 kB", RATE, Shape.DIRECT, "websocketd", 1.5),
    Target("start", FIRST_REPLY, Shape.CHAIN, PEER[Shape.CHAIN], 1 / 3, at_least=False),
    Target("memory", IDLE, Shape.DIRECT, None, 80, at_least=False),
]
"""The last one is in kB; cost per link from 1 to 500 links is in the rows of the table and in `growth`."""


def number(value: float) -> str:
    """Three significant digits, in full."""
    if value >= 1000:
        return f"{round(value, 2 - len(str(int(value))) + 1):,.0f}"
    return f"{value:.3g}"


def table(results: Results) -> Iterator[str]:
    """One block per workload. `ours is` says how many times better our number is than this row's."""
    yield f"{'':28}{'ours is':>9}  {'median':>20}  {'lowest … highest':>26}"
    for workload in results.workloads:
        for shape in Shape:
            if shape in workload.shapes:
                for metric in workload.metrics:
                    yield from _block(results, workload, metric, shape)
    yield from (f"failed: {name}, {workload}: {why}" for (workload, name), why in results.failures.items())


def _block(results: Results, workload: Workload, metric: Metric, shape: Shape) -> Iterator[str]:
    names = [each.name for each in results.competitors if each.shape is shape]
    found = {name: results.of(workload.name, metric.name, name) for name in names}
    if not any(found.values()) or (metric is CPU and not any(map(sum, found.values()))):
        return
    yield f"{workload.name}, {metric.name} ({shape.value})"
    for name, values in found.items():
        if values and not (metric is CPU and not any(values)):
            ratio = results.ratio(workload.name, metric.name, OURS[shape], name)
            text = f"{better(metric, ratio):.2f}x" if ratio else "-"
            middle = results.median(workload.name, metric.name, name) or 0.0
            spread = f"{number(min(values))} … {number(max(values))}"
            yield f"  {name:26}{text:>9}  {number(middle) + ' ' + metric.unit:>20}  {spread:>26}"


def targets(results: Results) -> Iterator[str]:
    """Every target that this run can judge."""
    for target in TARGETS:
        value = target.measured(results)
        if value is not None:
            verdict = "met" if target.is_met(value) else "MISSED"
            sign = "≥" if target.at_least else "≤"
            yield f"{verdict:8}{value:8.2f} {sign} {target.bound:<8.3g}{target}"
