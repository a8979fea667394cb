"""These tests check the pipeline demo's truth and its judge."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from oncelog_cli.demo.delays import Judge, Window, ground_truth, in_time_order, rows_of_file

FLIGHTS: list[dict[str, object]] = [
    {"carrier": "UA", "origin": "EWR", "dep_delay": 16, "arr_delay": 10},
    {"carrier": "UA", "origin": "JFK", "dep_delay": 15, "arr_delay": -20},
    {"carrier": "AA", "origin": "JFK", "dep_delay": None, "arr_delay": None},
]
DAY = "2013-01-01"
TRUTH = ground_truth({**flight, "time_hour": f"{DAY}T10:00:00Z"} for flight in FLIGHTS)
KNOWN: dict[str, Any] = {
    "flights": 3,
    "late_rows": 0,
    "batches": 2,
    "drivers_killed": 1,
    "brokers_killed": 1,
    "lag": 0,
    "seconds": 1.23,
}


def total(window: Window, **changes: object) -> bytes:
    """Return what the pipeline writes, without the fields that are None."""
    fields = {**window._asdict(), **TRUTH[window], **changes}
    return json.dumps({k: v for k, v in fields.items() if v is not None}).encode()


def judged(*values: bytes) -> Judge:
    judge = Judge(TRUTH)
    for value in values:
        judge.on_read(value)
    return judge


def test_totals_of_a_day() -> None:
    assert set(TRUTH) == {
        Window("carrier", "UA", DAY),
        Window("carrier", "AA", DAY),
        Window("airport", "EWR", DAY),
        Window("airport", "JFK", DAY),
    }
    assert TRUTH[Window("carrier", "UA", DAY)] == {
        "flights": 2,
        "departed": 2,
        "late": 1,
        "departure_delay": 31,
        "arrival_delay": -10,
        "arrival_delay_max": 10,
        "arrival_delay_mean": -5.0,
    }
    cancelled = TRUTH[Window("carrier", "AA", DAY)]
    assert (cancelled["flights"], cancelled["departed"]) == (1, 0)
    assert cancelled["arrival_delay_max"] is cancelled["arrival_delay_mean"] is None


def test_all_right() -> None:
    verdict = judged(*map(total, TRUTH)).verdict(**KNOWN)
    assert verdict.ok
    assert (verdict.counted_by_carrier, verdict.counted_by_airport) == (3, 3)
    assert (verdict.windows, verdict.read, verdict.seconds) == (4, 4, 1.2)


def test_what_can_be_wrong() -> None:
    every = [total(window) for window in TRUTH]
    missing = judged(*every[1:]).verdict(**KNOWN)
    assert (missing.missing, missing.ok) == (1, False)
    doubled = judged(*every, every[0]).verdict(**KNOWN)
    assert (doubled.doubled, doubled.missing, doubled.ok) == (1, 0, False)
    wrong = judged(*every[1:], total(next(iter(TRUTH)), late=99)).verdict(**KNOWN)
    assert (wrong.wrong, wrong.missing, wrong.ok) == (1, 0, False)
    strange = judged(*every, b'{"kind": "carrier"}').verdict(**KNOWN)
    assert (strange.unexpected, strange.ok) == (1, False)
    for change in ({"lag": 1}, {"lag": None}, {"late_rows": 1}, {"flights": 4}):
        known = {**KNOWN, **change}
        assert not judged(*every).verdict(**known).ok


def test_rows_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.zip"
    text = io.StringIO()
    text.write('"","carrier","origin","dep_delay","arr_delay","time_hour"\n')
    text.write(f"1,UA,EWR,-3,NA,{DAY}T10:00:00Z\n2,AA,JFK,,7,{DAY}T11:00:00Z\n")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text.getvalue())
    first, second = rows_of_file(path)
    assert (first["carrier"], first["dep_delay"], first["arr_delay"]) == ("UA", -3, None)
    assert (second["dep_delay"], second["arr_delay"]) == (None, 7)
    assert len(list(rows_of_file(path, limit=1))) == 1


def test_records_come_in_the_order_of_their_time() -> None:
    def value(hour: int, number: int) -> bytes:
        flight = {"carrier": "UA", "flight": number, "time_hour": f"{DAY}T{hour:02}:00:00Z"}
        return json.dumps(flight).encode()

    values = [value(11, 1), value(10, 2), value(11, 3), value(10, 4)]
    ordered = in_time_order(values)
    assert [key for key, _ in ordered] == [b"UA2", b"UA4", b"UA1", b"UA3"]
    assert ordered[0][1] == values[1]
