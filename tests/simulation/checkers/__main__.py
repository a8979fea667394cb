"""Check a history that was written to a file: ``python -m simulation.checkers FILE``, from tests/.

Ends with exit code 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from simulation.checkers.verdict import failures, summary, verdict
from simulation.checkers.violation import Rules
from simulation.history import History


def main(arguments: list[str] | None = None) -> int:
    """Read, check, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="simulation.checkers", description=__doc__)
    parser.add_argument("file", type=Path, help="JSON lines, as HistoryRecorder writes them")
    parser.add_argument("--idempotent", action="store_true", help="producers were")
    parser.add_argument("--acks-one", action="store_true", help="acknowledgements prove nothing")
    parser.add_argument("--no-final-polls", action="store_true", help="not read to the end")
    options = parser.parse_args(arguments)
    with options.file.open(encoding="utf-8") as stream:
        history = History.from_lines(stream)
    rules = Rules(
        idempotent=options.idempotent,
        acks_all=not options.acks_one,
        final_polls=not options.no_final_polls,
    )
    found = verdict(history, rules)
    print(f"{len(history.ops)} operations: {summary(found)}")
    return 1 if failures(found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
