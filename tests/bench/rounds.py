"""Interleaves: in every round each competitor does each workload once, so that noise hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from tests.bench.competitors import Competitor, Relay, running
from tests.bench.processes import BenchError
from tests.bench.workloads import Effort, Metric, Workload, measure


@dataclass(slots=True)
class Results:
    """Numbers by workload, metric, competitor and round; and why there is none."""

    competitors: list[Competitor]
    workloads: list[Workload]
    values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, workload: str, metric: str, competitor: str) -> list[float]:
        return self.values.get((workload, metric, competitor), [])

    def median(self, workload: str, metric: str, competitor: str) -> float | None:
        found = self.of(workload, metric, competitor)
        return median(found) if found else None

    def ratio(self, workload: str, metric: str, competitor: str, other: str) -> float | None:
        """The first's number divided by the second's: taken within each round, then the median."""
        pairs = list(
            zip(self.of(workload, metric, competitor), self.of(workload, metric, other), strict=False)
        )
        ratios = [first / second for first, second in pairs if second]
        return median(ratios) if ratios else None


def run_rounds(
    competitors: Sequence[Competitor],
    workloads: Sequence[Workload],
    rounds: int,
    effort: Effort,
    say: Callable[[str], None],
) -> Results:
    """Runs everything; a failure costs one competitor one workload and is named in the results."""
    results = Results(list(competitors), list(workloads))
    with ExitStack() as stack:
        relays: dict[str, Relay] = {}
        for competitor in competitors:
            try:
                relays[competitor.name] = stack.enter_context(running(competitor))
            except BenchError as error:
                results.failures["start", competitor.name] = str(error)
        for number in range(rounds):
            for workload in workloads:
                say(f"round {number + 1} of {rounds}: {workload.name}")
                for relay in _rotated(list(relays.values()), number):
                    _measure_once(results, workload, relay, effort)
    return results


def _measure_once(results: Results, workload: Workload, relay: Relay, effort: Effort) -> None:
    name = relay.competitor.name
    if relay.competitor.shape not in workload.shapes or (workload.name, name) in results.failures:
        return
    try:
        found = measure(workload, relay, effort)
    except BenchError as error:
        results.failures[workload.name, name] = str(error)
        for metric in workload.metrics:
            results.values.pop((workload.name, metric.name, name), None)
        return
    for metric in workload.metrics:
        results.values.setdefault((workload.name, metric.name, name), []).append(found[metric.name])


def _rotated(relays: list[Relay], by: int) -> list[Relay]:
    by %= len(relays) or 1
    return relays[by:] + relays[:by]


def better(metric: Metric, ratio: float) -> float:
    """A ratio of ours to another's, turned so that more than one means that ours is better."""
    return ratio if metric.more_is_better or not ratio else 1 / ratio
