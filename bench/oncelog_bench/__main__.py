"""``python -m oncelog_bench`` measures, prints the table, and ends with JSON if asked.

Usually called as ``oncelog bench``, ``make bench`` or ``make bench-peers``.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from oncelog.history_events import json_lines
from oncelog_bench import loop, suite
from oncelog_bench.report import Report

GROUPS = (
    "produce",
    "consume",
    "latency",
    "failover",
    "idle",
    "command",
    "testing",
    "offsets",
    "rebalance",
    "load",
    "compaction",
    "transactions",
    "security",
    "console",
    "moves",
)


LOOP, SCALE = "loop", "scale"
ALONE = {
    LOOP: "it measures turns, and is no row of the table",
    SCALE: "it measures a controller without brokers, and is no row of the table",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="oncelog bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON line on stdout")
    parser.add_argument("--quick", action="store_true", help="small work, one repeat: does it run?")
    parser.add_argument(
        "--only",
        action="append",
        choices=(*GROUPS, suite.PROGRAMS, *ALONE),
        default=[],
        help="one group",
    )
    parser.add_argument("--peers", action="store_true", help="Apache Kafka beside, in one run")
    parser.add_argument("--repeats", type=int, help="runs a figure (the median is shown)")
    parser.add_argument("--warm-seconds", type=float, help="warm-up of Kafka's JVMs")
    parser.add_argument("--history", metavar="FILE", help="record the failover group's clients")
    options = parser.parse_args(arguments)
    for name, why in ALONE.items():
        if name in options.only:
            if options.only != [name]:
                parser.error(f"--only {name} goes alone: {why}")
            return loop.run(quick=options.quick, scale=name == SCALE)
    if suite.PROGRAMS in options.only and not options.peers:
        parser.error(f"--only {suite.PROGRAMS} needs --peers: Apache Kafka runs beside")
    scale = suite.QUICK if options.quick else suite.FULL
    if options.repeats:
        groups = replace(scale.groups, repeats=options.repeats)
        transactions = replace(scale.transactions, repeats=options.repeats)
        security = replace(scale.security, repeats=options.repeats)
        console = replace(scale.console, repeats=options.repeats)
        moves = replace(scale.moves, repeats=options.repeats)
        scale = replace(
            scale,
            repeats=options.repeats,
            groups=groups,
            transactions=transactions,
            security=security,
            console=console,
            moves=moves,
        )
    report = Report(sys.stderr if options.json else sys.stdout)
    if options.peers:
        from oncelog_bench.peers import suite as peers

        warm_seconds = options.warm_seconds
        if warm_seconds is None:
            warm_seconds = 5.0 if options.quick else 300.0
        peers.run(report, scale, frozenset(options.only), warm_seconds=warm_seconds)
    with open(options.history or os.devnull, "w", encoding="utf-8") as lines:
        history = json_lines(lines) if options.history else None
        suite.run(report, scale, frozenset(options.only), history=history)
    if options.peers:
        peers.compare(report)
    print(report.table(), file=sys.stderr if options.json else sys.stdout)
    if options.json or options.peers:
        print(report.json_line())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
