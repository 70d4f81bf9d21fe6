"""The benchmark keeps working: every part of it, at tiny sizes. Nothing here judges a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import report
from tests.bench.competitors import Competitor, Shape, all_competitors, running
from tests.bench.growth import GROWTHS, growth_table, journal_table
from tests.bench.processes import BenchError, Load, cpu_seconds, relay_processes
from tests.bench.rounds import Results, run_rounds
from tests.bench.tools import Tools, compile_programs, default_cache
from tests.bench.workloads import LATENCY, RATE, WORKLOADS, Effort

TINY = Effort(seconds=0.01, links=2, most_links=4, stall_bytes=1_000_000, stall_seconds=0.05)
TOOLS = Tools(Path(os.environ.get("ACPREMOTE_TEST_TOOLS") or default_cache()))
OWN = {"bare pipe", "line per send"}
"""Competitors that need nothing of others."""


@pytest.fixture(scope="module")
def tools() -> Tools:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler (cc) for the agent and the load client")
    compile_programs(TOOLS)
    return TOOLS


def named(tools: Tools, name: str) -> Competitor:
    found = next(each for each in all_competitors(tools) if each.name == name)
    if found.missing():
        pytest.skip(f"not installed: {', '.join(found.missing())} (python -m tests.bench --install)")
    return found


def competitor_names(names: set[str]) -> list[str]:
    return [each.name for each in all_competitors(TOOLS) if each.name in names]


FOREIGN = {each.name for each in all_competitors(TOOLS) if not each.name.startswith("ours")} - OWN


def does_every_workload(competitor: Competitor) -> None:
    results = run_rounds([competitor], WORKLOADS, 1, TINY, lambda _: None)
    assert results.failures == {}
    for workload in WORKLOADS:
        if competitor.shape in workload.shapes:
            for metric in workload.metrics:
                assert len(results.of(workload.name, metric.name, competitor.name)) == 1


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_workload_runs_without_anything_installed(tools: Tools, name: str) -> None:
    does_every_workload(named(tools, name))


@pytest.mark.interop
@pytest.mark.parametrize("name", competitor_names(FOREIGN))
def test_every_workload_runs_against_an_installed_competitor(tools: Tools, name: str) -> None:
    does_every_workload(named(tools, name))


def test_the_load_client_counts_every_message(tools: Tools) -> None:
    with running(named(tools, "line per send")) as relay, relay.load() as load:
        assert load.ask("open 2").messages == 4
        assert load.ask("turns 200 3").messages == 6
        assert load.ask("turns 70000 1").messages == 2
        assert load.ask("flood 100 50").messages == 102
        assert load.ask("packed 200 700").messages == 1402
        assert load.ask("sink 100 2000").messages == 2
        assert load.ask("hold 5").messages == 1
        assert load.ask("stall 100 10").messages == 0
        assert load.ask("drain 11").messages == 11
        assert load.ask("close").messages == 0


def test_what_a_relay_costs_is_counted_without_agent_and_load_client(tools: Tools) -> None:
    with running(named(tools, "line per send")) as relay, relay.load() as load:
        load.ask("open 1")
        assert relay_processes([*relay.roots, load.pid]) == list(relay.roots)
        before = cpu_seconds(relay.roots)
        load.ask("turns 200 50")
        assert cpu_seconds(relay.roots) > before


def test_a_load_client_that_is_refused_says_so(tools: Tools) -> None:
    with Load([str(tools.load), "tcp", "127.0.0.1", "1"]) as load, pytest.raises(BenchError, match="refused"):
        load.ask("open 1")


def test_a_relay_that_does_not_start_is_named_with_its_last_words(tools: Tools) -> None:
    broken = Competitor("broken", Shape.DIRECT, (), ("sh", "-c", "echo no such flag >&2; exit 2"), ())
    results = run_rounds([broken, named(tools, "bare pipe")], WORKLOADS[:1], 1, TINY, lambda _: None)
    assert "no such flag" in results.failures["start", "broken"]
    assert results.of(WORKLOADS[0].name, LATENCY.name, "bare pipe")
    assert any(line.startswith("failed: broken") for line in report.table(results))


def test_growth_is_measured_at_each_value(tools: Tools) -> None:
    for growth in GROWTHS:
        tiny = replace(growth, values=(1, 3))
        _title, _head, row = growth_table(tiny, [named(tools, "bare pipe")], 1)
        assert len(row.split()) == len(["bare", "pipe", *tiny.values])


def test_growth_of_a_journal_is_measured_from_empty_to_nearly_full() -> None:
    _title, head, row = journal_table(1, (0, 100_000))
    assert head.split() == ["0", "100,000"]
    assert len(row.split()) == len(["ours:", "journal", *head.split()])


def results_of(**values: list[float]) -> Results:
    names = {"ours": "ours: expose", "peer": "peer: expose"}
    competitors = [Competitor(name, Shape.DIRECT, (), (), ()) for name in names.values()]
    workload = next(each for each in WORKLOADS if each.name == "flood 100 B")
    found = {(workload.name, RATE.name, names[key]): value for key, value in values.items()}
    return Results(competitors, [workload], found)


def test_a_ratio_is_taken_within_each_round() -> None:
    results = results_of(ours=[10.0, 100.0, 40.0], peer=[5.0, 50.0, 10.0])
    assert results.ratio("flood 100 B", RATE.name, "ours: expose", "peer: expose") == 2.0


@pytest.mark.parametrize(("ours", "verdict"), [(10.0, "met"), (9.9, "MISSED")])
def test_targets_are_judged_by_their_bound(ours: float, verdict: str) -> None:
    (line,) = report.targets(results_of(ours=[ours], peer=[5.0]))
    assert line.startswith(verdict)


def test_a_target_without_numbers_is_not_judged() -> None:
    assert list(report.targets(results_of(ours=[1.0]))) == []


def test_the_command_prints_a_table_and_what_it_left_out(tools: Tools, tmp_path: Path) -> None:
    asked = "--no-install --rounds 1 --seconds 0.01 --only=200 --against=pipe --against=peer".split()
    command = [sys.executable, "-m", "tests.bench", *asked, "--cache", str(tmp_path)]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert "round trip 200 B, round trip (stock client)" in run.stdout
    assert "left out: peer: expose: not installed: acpremote" in run.stdout


def test_a_run_that_is_terminated_leaves_nothing_running(tools: Tools) -> None:
    asked = "--no-install --rounds 1000 --seconds 0.01 --only=200 --against=line".split()
    command = [sys.executable, "-m", "tests.bench", *asked, "--cache", str(tools.cache)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        while b"round 2" not in run.stderr.readline():
            assert run.poll() is None
        relays = [pid for pid in relay_processes([run.pid]) if pid != run.pid]
        assert relays
        run.terminate()
        run.wait()
    assert not [pid for pid in relays if Path(f"/proc/{pid}").exists()]
