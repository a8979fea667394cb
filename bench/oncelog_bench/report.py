"""A benchmark's rows become the table for people and the JSON line for programs.

``ratio`` says how many times better ours is than ``against``: above 1 is better for us, for times
as well as for rates. It is ``None`` where nothing stands beside the row.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

LOWER_IS_BETTER = frozenset(
    {"ms", "s", "%", "MB", "% of a core", "s/M rows", "s/M records", "s/GB"}
)


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A row is one measured figure; ``value`` is the median of the run's repeats."""

    name: str
    value: float
    unit: str
    against: str | None = None
    ratio: float | None = None


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the value below which ``fraction`` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def better_by(ours: float, theirs: float, unit: str) -> float:
    """Return how many times better ``ours`` is than ``theirs`` in ``unit``."""
    if ours <= 0 or theirs <= 0:
        return 0.0
    return theirs / ours if unit in LOWER_IS_BETTER else ours / theirs


class Report:
    """The report takes rows as they come, and echoes them to ``progress`` for whoever watches."""

    def __init__(self, progress: TextIO) -> None:
        self.rows: list[ReportRow] = []
        self._progress = progress

    def add(
        self,
        name: str,
        values: Sequence[float],
        unit: str,
        *,
        against: str | None = None,
        their_value: float | None = None,
    ) -> float:
        """Add the median of ``values``; returns it.

        :param against: the row that it is set beside, with ``their_value`` where units differ.
        """
        value = float(statistics.median(values))
        if their_value is None and against is not None:
            their_value = self.value(against)
        ratio = None if their_value is None else better_by(value, their_value, unit)
        row = ReportRow(name, value, unit, against if ratio is not None else None, ratio)
        self.rows.append(row)
        spread = f"  ({show(min(values))} .. {show(max(values))})" if len(values) > 1 else ""
        print(f"  {name:<66} {show(value):>12} {unit}{spread}", file=self._progress, flush=True)
        return value

    def value(self, name: str) -> float | None:
        """Return the value of the row with this name, or None if it was not measured."""
        return next((row.value for row in self.rows if row.name == name), None)

    def compare(self, name: str, peer: str) -> None:
        """Set ``peer`` (another row) beside the row ``name``, if both were measured."""
        theirs = self.value(peer)
        for index, row in enumerate(self.rows):
            if row.name == name and theirs is not None:
                ratio = better_by(row.value, theirs, row.unit)
                self.rows[index] = ReportRow(row.name, row.value, row.unit, peer, ratio)

    def table(self) -> str:
        """Return all rows as an aligned text table."""
        lines = [f"{'work':<66} {'value':>12} {'unit':<12} {'ratio':>6}  against"]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            figure = f"{show(row.value):>12} {row.unit:<12} {ratio:>6}"
            lines.append(f"{row.name:<66} {figure}  {row.against or ''}")
        return "\n".join(lines)

    def json_line(self) -> str:
        """Return the one last line of JSON that programs read."""
        return json.dumps({"rows": [asdict(row) for row in self.rows]})


def show(value: float) -> str:
    """Return the digits that a person reads: thousands are separated above 1,000."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
