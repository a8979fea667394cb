"""``python -m oncelog_testing.turns`` runs every operation, and ends with one JSON line.

``--scale`` measures a controller of a very large cluster instead, and ``--plan`` the planner."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from oncelog_testing.turns import controllers, operations, planning, scale
from oncelog_testing.turns.meter import BOUND_MS, TurnMeter, measured

QUICK = operations.Size(200, 2**24, 2_000, 1_000, 10)
WORKS = (
    operations.many_partitions,
    operations.one_large_log,
    operations.waiting_readers,
    controllers.new_controller,
)


def main(arguments: list[str] | None = None) -> int:
    """Measure; returns 1 when a turn was too long, else 0."""
    parser = argparse.ArgumentParser(prog="oncelog_testing.turns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small worlds: does it run?")
    parser.add_argument("--scale", action="store_true", help="a controller of 100,000 partitions")
    parser.add_argument("--plan", action="store_true", help="a plan for 10,000 partitions")
    options = parser.parse_args(arguments)
    if options.plan:
        return measure_plan(planning.QUICK if options.quick else planning.FULL)
    if options.scale:
        return measure_scale(scale.QUICK if options.quick else scale.FULL)
    size = QUICK if options.quick else operations.Size()
    logging.disable(logging.CRITICAL)
    longest_ms: dict[str, float] = {}
    for work in WORKS:
        with tempfile.TemporaryDirectory(prefix="oncelog-turns-") as home:
            meter = TurnMeter()
            measured(meter, work(meter, Path(home), size))
        for name, milliseconds in meter.longest_ms.items():
            sys.stderr.write(f"{milliseconds:9.1f} ms  {name}\n")
        longest_ms.update(meter.longest_ms)
    over = [name for name, longest in longest_ms.items() if longest > BOUND_MS]
    sys.stdout.write(json.dumps({"operations": longest_ms, "over_50_ms": over}) + "\n")
    return 1 if over else 0


def measure_scale(size: operations.Size) -> int:
    """Measure a controller of a cluster of this size; returns 1 when a turn was too long, else
    0."""
    logging.disable(logging.CRITICAL)
    figures, meter = scale.ControllerFigures(), TurnMeter()
    measured(meter, scale.full_size(figures, meter, size))
    sys.stderr.write(f"{'turn':>9} {'in all':>9} {'to brokers':>12} {'nodes':>8}\n")
    for name, cost in figures.costs.items():
        row = f"{cost.longest_turn_ms:6.1f} ms {cost.cpu_s:7.2f} s {cost.sent_bytes:12,}"
        sys.stderr.write(f"{row} {cost.written_nodes:8,}  {name}\n")
    sys.stderr.write(f"memory: {figures.memory_bytes / 2**20:,.0f} MiB\n")
    over = [name for name, cost in figures.costs.items() if cost.longest_turn_ms > BOUND_MS]
    document = {"partitions": size.controlled, "brokers": size.brokers, **figures.document()}
    sys.stdout.write(json.dumps({**document, "over_50_ms": over}) + "\n")
    return 1 if over else 0


def measure_plan(size: planning.PlanSize) -> int:
    """Measure a plan for a cluster of this size, and return 0. Whoever asks judges its turns."""
    sys.stdout.write(json.dumps({**asdict(size), **asdict(planning.planned(size))}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
