"""``python -m oncelog_testing.turns`` runs every operation, and ends with one JSON line."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path

from oncelog_testing.turns import controllers, operations
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
    options = parser.parse_args(arguments)
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


if __name__ == "__main__":
    raise SystemExit(main())
