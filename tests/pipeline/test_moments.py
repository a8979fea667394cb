"""Text gives dates, times and zones; ``spark/test_from_json.py`` asks Spark whether it is so."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.moments import (
    NoMoment,
    date_of,
    days_of,
    find_zone,
    parse_date,
    parse_timestamp,
)

UTC = timezone.utc  # noqa: UP017
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(year: int, month: int, day: int, *clock: int) -> int:
    """Return that time; the clock adds hours, minutes, seconds and microseconds."""
    names = ("hours", "minutes", "seconds", "microseconds")
    since = datetime(year, month, day, tzinfo=UTC) - EPOCH
    since += timedelta(**dict(zip(names, clock, strict=False)))
    return since // timedelta(microseconds=1)


@given(st.dates())
def test_days_are_pythons(day: date) -> None:
    number = (day - date(1970, 1, 1)).days
    assert days_of(day.year, day.month, day.day) == number
    assert date_of(number) == (day.year, day.month, day.day)


@given(st.integers(-(10**8), 10**8))
def test_days_beyond_pythons_years(number: int) -> None:
    assert days_of(*date_of(number)) == number


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "+05:30"]),
)
def test_times_are_pythons(moment: datetime, name: str) -> None:
    zone = find_zone(name)
    offset = moment.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    expected = (moment - offset - EPOCH.replace(tzinfo=None)) // timedelta(microseconds=1)
    assert parse_timestamp(moment.isoformat(), zone) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", micros(2024, 1, 1)),
        ("2024-2", micros(2024, 2, 1)),
        (" 2024-02-29\n", micros(2024, 2, 29)),
        ("2024-02-29T1", micros(2024, 2, 29, 1)),
        ("2024-02-29 1:2:3.", micros(2024, 2, 29, 1, 2, 3)),
        ("2024-02-29 01:02:03.1234569", micros(2024, 2, 29, 1, 2, 3, 123456)),
        ("2024-02-29 12:00:00Z", micros(2024, 2, 29, 12)),
        ("2024-02-29 12:00:00 +2", micros(2024, 2, 29, 10)),
        ("2024-02-29 12:00:00+0230", micros(2024, 2, 29, 9, 30)),
        ("2024-02-29 12:00:00+1:2", micros(2024, 2, 29, 10, 58)),
        ("2024-02-29 12:00:00.5 PST", micros(2024, 2, 29, 20, 0, 0, 500_000)),
        ("2024-02-29 12:00:00 UTC-3", micros(2024, 2, 29, 15)),
        ("2024-02-29GMT 12:00:00", micros(2024, 2, 29, 12)),
        ("+12024-01-01", days_of(12024, 1, 1) * 86_400_000_000),
        ("-0001-01-01", days_of(-1, 1, 1) * 86_400_000_000),
    ],
)
def test_timestamps(text: str, expected: int) -> None:
    assert parse_timestamp(text, UTC) == expected


@pytest.mark.parametrize(
    "text",
    ["", "24-01-01", "20240229", "2023-02-29", "2024-00-01", "2024-02-29T", "2024-02-29 24:00:00",
     "2024-02-29 12:00Z", "2024-02-29 12:00:00z", "2024-02-29 12:00:00+19:00", "12:00:00", "T12:00",
     "2024-02-29 12:00:00,5", "2024-02-29 12:00:00 Nowhere/Land", "300000-01-01", "1234567-01-01",
     "٢٠٢٤-01-01", "2024-02-29 12:00:00 -00:60"],
)  # fmt: skip
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises(NoMoment):
        parse_timestamp(text, UTC)


def test_a_time_without_a_zone_names_none() -> None:
    assert parse_timestamp("2024-02-29 12:00:00", None) == micros(2024, 2, 29, 12)
    with pytest.raises(NoMoment):
        parse_timestamp("2024-02-29 12:00:00Z", None)


def test_hours_that_are_skipped_and_hours_that_come_twice() -> None:
    berlin = find_zone("Europe/Berlin")
    assert parse_timestamp("2024-03-31 02:30:00", berlin) == micros(2024, 3, 31, 1, 30)
    assert parse_timestamp("2024-10-27 02:30:00", berlin) == micros(2024, 10, 27, 0, 30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29", date(2024, 2, 29)),
        ("2024-02-29T23:59:60 whatever", date(2024, 2, 29)),
        ("2024-2-9 ", date(2024, 2, 9)),
        (" 2024 ", date(2024, 1, 1)),
        ("365", date(1971, 1, 1)),
        ("-1", date(1969, 12, 31)),
    ],
)
def test_dates(text: str, expected: date) -> None:
    assert parse_date(text) == (expected - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    "text", ["", "soon", "2023-02-29", "2024-13-01", "29.02.2024", "99999999999", "2024-02-29Z"]
)
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(NoMoment):
        parse_date(text)


def test_zones() -> None:
    assert find_zone("Z") is find_zone("GMT") is UTC
    assert find_zone("+02:00:30").utcoffset(None) == timedelta(hours=2, seconds=30)
    assert str(find_zone("IST")) == "Asia/Kolkata"
    for wrong in ("", "z", "Mars/Crater", "+25", "../etc/passwd"):
        with pytest.raises(NoMoment):
            find_zone(wrong)
