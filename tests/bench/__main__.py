"""`python -m tests.bench`: speed, measured side by side in one interleaved run."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests.bench import report
from tests.bench.competitors import Competitor, all_competitors
from tests.bench.growth import GROWTHS, Growth, growth_table, journal_table
from tests.bench.rounds import run_rounds
from tests.bench.tools import Tools, compile_packages, compile_programs, default_cache, install
from tests.bench.workloads import WORKLOADS, Effort, Workload

QUICK = Effort(seconds=0.2, links=20, stall_bytes=64_000_000, stall_seconds=1.0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds to take medians of (5; with --quick 3)")
    parser.add_argument("--quick", action="store_true", help="a rough answer in a few minutes")
    parser.add_argument("--seconds", type=float, help="length of one measurement (1.0; with --quick 0.2)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="workloads with this in their name; repeatable",
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="TEXT", help="competitors with this in their name"
    )
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="where programs are kept (%(default)s)"
    )
    parser.add_argument("--no-install", action="store_true", help="leave out what is not installed")
    parser.add_argument("--install", action="store_true", help="build and install what is missing, and stop")
    parser.add_argument("--list", action="store_true", help="print the names of workloads and competitors")
    return parser.parse_args()


Named = TypeVar("Named", Workload, Growth)


def chosen(everything: list[Named], only: list[str]) -> list[Named]:
    return [each for each in everything if not only or any(text in each.name for text in only)]


def chosen_competitors(tools: Tools, against: list[str]) -> tuple[list[Competitor], list[str]]:
    """Those that can run, and a line for each that cannot."""
    wanted = [
        each for each in all_competitors(tools) if not against or any(text in each.name for text in against)
    ]
    left_out = [
        f"left out: {each.name}: not installed: {', '.join(each.missing())}"
        for each in wanted
        if each.missing()
    ]
    return [each for each in wanted if not each.missing()], left_out


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that nothing is left running
    options = parsed()
    tools = Tools(options.cache.absolute())
    if options.list:
        print(
            *(each.name for each in WORKLOADS), "", *(each.name for each in all_competitors(tools)), sep="\n"
        )
        return
    compile_programs(tools)
    compile_packages()
    if not options.no_install:
        install(tools)
    if options.install:
        return
    base = QUICK if options.quick else Effort()
    effort = replace(base, seconds=options.seconds or base.seconds)
    competitors, left_out = chosen_competitors(tools, options.against)
    for line in left_out:
        say(line)
    rounds = options.rounds or (3 if options.quick else 5)
    results = run_rounds(competitors, chosen(WORKLOADS, options.only), rounds, effort, say)
    print(f"{os.cpu_count()} processors, Python {platform.python_version()}, Linux {platform.release()}")
    print(*report.table(results), "", *report.targets(results), *left_out, sep="\n")
    ours = [each for each in competitors if each.name.startswith("ours")]
    for growth in chosen(GROWTHS, options.only):
        say(growth.name)
        print(*growth_table(growth, ours or competitors[:1], min(rounds, 3)), sep="\n")
    if not options.only or any(word in "growth: journal" for word in options.only):
        print(*journal_table(min(rounds, 3)), sep="\n")


if __name__ == "__main__":
    main()
