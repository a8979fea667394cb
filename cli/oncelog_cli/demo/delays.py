"""The pipeline demo's result is judged against totals that are computed straight from the file.
Pure but for reading.

What the pipeline makes with Spark is made here once more with nothing but the standard library:
flights and delays of a carrier, or an airport, on a day (UTC, by the scheduled hour). Every window
must come exactly once and with the same numbers: one record that was lost, doubled or dropped as
late anywhere on the way changes one of them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

LATE_MINUTES = 15
KINDS = {"carrier": "carrier", "airport": "origin"}
"""Kind of window to the flight's field."""
CLOSING_TIME = "2014-03-01T00:00:00Z"
"""Far behind the last flight: a record of then closes every window."""


class Window(NamedTuple):
    """A total is about one window."""

    kind: str
    name: str
    day: str


@dataclass(slots=True)
class Total:
    """A total has the numbers of one window; without any arrival its delays are None, as in SQL."""

    flights: int = 0
    departed: int = 0
    late: int = 0
    departure_delay: int | None = None
    arrival_delay: int | None = None
    arrival_delay_max: int | None = None
    arrived: int = 0

    def add(self, flight: Mapping[str, Any]) -> None:
        """Add one flight."""
        self.flights += 1
        departure, arrival = flight["dep_delay"], flight["arr_delay"]
        if departure is not None:
            self.departed += 1
            self.late += departure > LATE_MINUTES
            self.departure_delay = (self.departure_delay or 0) + departure
        if arrival is not None:
            self.arrived += 1
            self.arrival_delay = (self.arrival_delay or 0) + arrival
            highest = self.arrival_delay_max
            self.arrival_delay_max = arrival if highest is None else max(highest, arrival)

    def as_dict(self) -> dict[str, object]:
        """Return the total as the pipeline writes it."""
        mean = None if self.arrival_delay is None else self.arrival_delay / self.arrived
        return {
            **{k: v for k, v in asdict(self).items() if k != "arrived"},
            "arrival_delay_mean": mean,
        }


def ground_truth(flights: Iterable[Mapping[str, Any]]) -> dict[Window, dict[str, object]]:
    """Compute the totals of every window."""
    totals: dict[Window, Total] = {}
    for flight in flights:
        day = flight["time_hour"][:10]
        for kind, field in KINDS.items():
            totals.setdefault(Window(kind, flight[field], day), Total()).add(flight)
    return {window: total.as_dict() for window, total in totals.items()}


def rows_of_file(path: Path, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the flights as the file has them, without the code that makes records of them."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for row in itertools.islice(rows, limit):
            delays = {name: row[name] for name in ("dep_delay", "arr_delay")}
            yield row | {k: int(v) if v not in ("", "NA") else None for k, v in delays.items()}


def in_time_order(values: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return records in the order in which they would have come, by scheduled hour: (key, value).

    The key is the flight's name, which spreads every day over all partitions.
    """
    found = []
    for value in values:
        flight = json.loads(value)
        key = f"{flight['carrier']}{flight['flight']}".encode()
        found.append((flight["time_hour"], key, value))
    found.sort(key=lambda record: record[0])  # stable: within an hour as in the file
    return [(key, value) for _, key, value in found]


@dataclass(frozen=True, slots=True)
class PipelineVerdict:
    """The verdict is the demo's last line; ``ok`` means that every window came once and right."""

    flights: int
    counted_by_carrier: int
    counted_by_airport: int
    windows: int
    read: int
    missing: int
    doubled: int
    wrong: int
    unexpected: int
    late_rows: int
    batches: int
    drivers_killed: int
    brokers_killed: int
    lag: int | None
    seconds: float
    ok: bool

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, for JSON."""
        return asdict(self)


class Judge:
    """The judge compares totals, as they are read, with the truth."""

    def __init__(self, truth: Mapping[Window, Mapping[str, object]]) -> None:
        self.truth = truth
        self._times: Counter[Window] = Counter()
        self._counted: Counter[str] = Counter()
        self.wrong = 0
        self.unexpected = 0

    @property
    def windows(self) -> int:
        """Return how many different windows of the truth have come."""
        return len(self._times)

    def on_read(self, value: bytes) -> None:
        """Judge one record of the totals' topic."""
        total = json.loads(value)
        window = Window(str(total.get("kind")), str(total.get("name")), str(total.get("day")))
        expected = self.truth.get(window)
        if expected is None:
            self.unexpected += 1
            return
        self._times[window] += 1
        self._counted[window.kind] += total.get("flights") or 0
        # What is None in the row is not in its JSON.
        if any(total.get(field) != value for field, value in expected.items()):
            self.wrong += 1

    def verdict(
        self,
        *,
        flights: int,
        late_rows: int,
        batches: int,
        drivers_killed: int,
        brokers_killed: int,
        lag: int | None,
        seconds: float,
    ) -> PipelineVerdict:
        """Judge what was read; the numbers given are what the story knows."""
        read = sum(self._times.values())
        missing = len(self.truth) - len(self._times)
        doubled = read - len(self._times)
        counted = [self._counted[kind] for kind in ("carrier", "airport")]
        return PipelineVerdict(
            flights=flights,
            counted_by_carrier=counted[0],
            counted_by_airport=counted[1],
            windows=len(self.truth),
            read=read,
            missing=missing,
            doubled=doubled,
            wrong=self.wrong,
            unexpected=self.unexpected,
            late_rows=late_rows,
            batches=batches,
            drivers_killed=drivers_killed,
            brokers_killed=brokers_killed,
            lag=lag,
            seconds=round(seconds, 1),
            ok=missing == doubled == self.wrong == self.unexpected == late_rows == 0
            and counted == [flights, flights]
            and lag == 0,
        )
