"""The demo's input is read as the package ships it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from oncelog_cli.demo import FLIGHT_COUNT, flights


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv.zip"
    text = (
        "year,month,day,dep_time,dep_delay,carrier,tailnum,time_hour\n"
        "2013,1,1,517.0,2.0,UA,N14228,2013-01-01T10:00:00Z\n"
        "2013,1,1,NA,,AA,,2013-01-01T10:00:00Z\n"
    )
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("flights.csv", text)
    return path


def test_rows_become_numbered_json_keyed_by_carrier(archive: Path) -> None:
    first, second = flights.read_flights(archive)
    assert (first.row, first.key) == (0, b"UA")
    assert json.loads(first.value) == {
        "row": 0,
        "year": 2013,
        "month": 1,
        "day": 1,
        "dep_time": 517,
        "dep_delay": 2,
        "carrier": "UA",
        "tailnum": "N14228",
        "time_hour": "2013-01-01T10:00:00Z",
    }
    assert flights.row_of(second.value) == 1
    assert json.loads(second.value)["dep_time"] is None


def test_limit_cuts_the_file(archive: Path) -> None:
    assert len(list(flights.read_flights(archive, limit=1))) == 1


def test_the_installed_package_holds_every_flight() -> None:
    path = flights.flights_path()
    rows = [flight.row for flight in flights.read_flights(path)]
    assert len(rows) == FLIGHT_COUNT
    assert rows[-1] == FLIGHT_COUNT - 1
