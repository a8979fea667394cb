"""Dates and times are read from text as Spark's casts read them, and zones by Java's names. Pure.

Rules
-----
* Moments are microseconds since 1970 UTC, days are days since then: Spark's years reach further
  than Python's. The calendar is Gregorian all the way.
* A time without a zone counts in the zone that is given. In the hour that does not exist it is
  moved forward, in the hour that exists twice it is the first one: as in Java.
* Stricter than Spark: a time without a date is none (Spark takes the day on which it is read).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

SECOND = 1_000_000
"""A second in microseconds."""
DAY = 86_400
"""A day in seconds."""
TRIMMED = "".join(map(chr, range(33))) + "\x7f"
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
GREGORIAN_SINCE = -141_427
"""1582-10-15, as days since 1970."""

TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.][^\x00]*)?)?)?)?)?)?"
)
DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
DAYS = re.compile(r"[+-]?[0-9]{1,10}")
OFFSET = re.compile(r"([+-])(?:([0-9])|([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?)", re.ASCII)
REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
PREFIX = re.compile(r"(?:UTC|GMT|UT)(?=[+-])")

SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
"""The short ids of ``java.time.ZoneId``."""


class NoMoment(ValueError):
    """The text is no date, or no time."""


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo:
    """Return a zone by one of Spark's names: a region, an offset, UTC, a short name.

    :raises NoMoment: there is none of this name, or this machine's database does not know it.
    """
    text = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1)
    text = re.sub(r"([+-])([0-9]{2}):([0-9])$", r"\1\2:0\3", text)
    text = SHORT_IDS.get(text, text)
    if text in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc  # noqa: UP017
    bare = PREFIX.sub("", text)
    if bare[:1] in ("+", "-"):
        return timezone(timedelta(seconds=_offset(bare)))
    if not REGION.fullmatch(text):
        raise NoMoment(f"{name!r} is no time zone")
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise NoMoment(f"{name!r} is no time zone that this machine knows") from error


def _offset(text: str) -> int:
    found = OFFSET.fullmatch(text)
    if found is None:
        raise NoMoment(f"{text!r} is no offset from UTC")
    hours = int(found[2] or found[3])
    minutes, seconds = int(found[4] or 0), int(found[5] or 0)
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        raise NoMoment(f"{text!r} is no offset from UTC")
    return -total if found[1] == "-" else total


def parse_timestamp(text: str, zone: tzinfo | None) -> int:
    """Parse a time into microseconds since 1970 UTC.

    :param zone: of a text without one; None: of a time that has no zone, and must name none.
    :raises NoMoment: it is none.
    """
    try:
        return _timestamp(text, zone)
    except NoMoment:
        if zone is None or "GMT" not in text:
            raise
        return _timestamp(text.replace("GMT", ""), zone)  # what Spark 1 wrote


def _timestamp(text: str, zone: tzinfo | None) -> int:
    found = TIMESTAMP.fullmatch(text.strip(TRIMMED))
    if found is None:
        raise NoMoment(f"{_short(text)} is no TIMESTAMP")
    sign, year, month, day, hour, minute, second, fraction, named = found.groups()
    local = days_of(int(sign + year), int(month or 1), int(day or 1)) * DAY
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise NoMoment(f"{_short(text)} is no TIMESTAMP")
    local += clock[0] * 3600 + clock[1] * 60 + clock[2]
    if named is not None:
        if zone is None:
            raise NoMoment(f"{_short(text)} has a zone")
        zone = find_zone(named.strip(TRIMMED))
    if zone is not None:
        local -= offset_at(local, zone)
    micros = local * SECOND + int((fraction or "").ljust(6, "0")[:6])
    if not LONG_MIN <= micros <= LONG_MAX:
        raise NoMoment(f"{_short(text)} is beyond what a TIMESTAMP holds")
    return micros


def offset_at(local_s: int, zone: tzinfo) -> int:
    """Return the seconds that ``zone`` is ahead of UTC at a local time, in seconds since 1970."""
    days, seconds = divmod(local_s, DAY)
    year, month, day = date_of(days)
    if not 1 <= year <= 9999:
        # The rules of the first and of the last years hold beyond them; leap years come round.
        year = (9600 if year > 9999 else 400) + year % 400
    moment = datetime(year, month, day) + timedelta(seconds=seconds)
    offset = moment.replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def parse_date(text: str) -> int:
    """Parse a date into days since 1970-01-01.

    :raises NoMoment: it is no date, nor a number of days.
    """
    for candidate in (text, text.replace("GMT", "")):
        try:
            return _date(candidate)
        except NoMoment:
            pass
    if DAYS.fullmatch(text) and GREGORIAN_SINCE <= int(text) < 2**31:
        return int(text)
    raise NoMoment(f"{_short(text)} is no DATE")


def _date(text: str) -> int:
    found = DATE.fullmatch(text.strip(TRIMMED))
    if found is None:
        raise NoMoment(f"{_short(text)} is no DATE")
    days = days_of(int(found[1] + found[2]), int(found[3] or 1), int(found[4] or 1))
    if not -(2**31) <= days < 2**31:
        raise NoMoment(f"{_short(text)} is beyond what a DATE holds")
    return days


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the Gregorian calendar, also outside of Python's years.

    :raises NoMoment: there is no such day.
    """
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        raise NoMoment(f"there is no {year:04}-{month:02}-{day:02}")
    before = year - 1
    since_year_one = before * 365 + before // 4 - before // 100 + before // 400
    return since_year_one + sum(lengths[: month - 1]) + day - 719_163


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    cycles, rest = divmod(days + 719_162, 146_097)
    # Python's calendar has the same four hundred years.
    day = datetime(2001, 1, 1) + timedelta(days=rest)
    return day.year - 2001 + 1 + cycles * 400, day.month, day.day


def _short(text: str) -> str:
    return f"{text!r:.60}"
