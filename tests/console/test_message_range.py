"""Addresses of messages say which records are shown: the same ones later, and to others."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.offset_range import Base, RangePoint, parse_range
from oncelog_cli.where.words import WhereError
from oncelog_console.message_range import (
    NEWEST,
    PLACES_MAX,
    Places,
    RangeError,
    WantedRecords,
    wanted_of,
)
from support.command_words import parsed

NOON_MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""

points = st.one_of(
    st.just(RangePoint(Base.START)),
    st.integers(1, 10**9).map(lambda n: RangePoint(Base.END, -n)),
    st.integers(0, 2**63 - 1).map(lambda n: RangePoint(Base.ZERO, n)),
    st.integers(0, 253_402_300_799_999).map(lambda ms: RangePoint(Base.TIME, ms)),
)
places = st.dictionaries(st.integers(0, 9), st.integers(0, 2**63 - 1), min_size=1).map(
    lambda found: Places(tuple(sorted(found.items())))
)
ends = points.filter(lambda point: point.base in (Base.ZERO, Base.TIME)) | places


def is_forward(wanted: WantedRecords) -> bool:
    """Return whether the end is not before the start, which no address says."""
    start, end = wanted.start, wanted.end
    return not (
        isinstance(end, RangePoint) and start.base is end.base and end.number < start.number
    )


wanteds = st.builds(
    WantedRecords,
    st.just("t"),
    st.frozensets(st.integers(0, 2**31 - 1), max_size=3).map(lambda p: tuple(sorted(p))),
    points,
    st.none() | ends,
    st.text().map(str.strip),
    st.integers(1, 500),
    st.sampled_from(["committed", "all"]),
).filter(is_forward)


@given(wanteds)
def test_an_address_says_all(wanted: WantedRecords) -> None:
    query = dict(parse_qsl(wanted.query(), keep_blank_values=True))
    assert wanted_of("t", query, 0) == wanted


@given(wanteds)
def test_its_command_is_one(wanted: WantedRecords) -> None:
    said = parsed(wanted.command())
    assert (said["path"], *said["topics"]) == ("consume", "t")
    assert said.get("where", "") == wanted.where
    span = parse_range(said["offset"], 0)
    assert span.start == wanted.start
    if isinstance(wanted.end, RangePoint):
        assert span.end == wanted.end


def test_without_parameters_the_newest_records_are_wanted() -> None:
    assert wanted_of("t", {}, NOON_MS) == WantedRecords("t", (), NEWEST, None, "", 50, "committed")


def test_an_absolute_address_has_an_end_and_no_now() -> None:
    wanted = wanted_of("t", {"where": "timestamp > now - 5m and value.now == 'now'"}, NOON_MS)
    fixed = wanted.absolute(NOON_MS, {1: 20, 0: 10})
    assert fixed.end == Places(((0, 10), (1, 20)))
    assert fixed.where == 'timestamp > 2026-01-31T11:55:00.000Z and value.now == "now"'
    assert fixed.absolute(NOON_MS + 1, {0: 11}) == fixed
    assert fixed.end_in(1) == RangePoint(Base.ZERO, 20)
    kept = wanted_of("t", {"where": "value == 'now'", "to": "offset:7"}, NOON_MS)
    assert kept.absolute(NOON_MS, {0: 10}) == kept
    many = wanted_of("t", {}, NOON_MS).absolute(NOON_MS, dict.fromkeys(range(PLACES_MAX + 1), 1))
    assert many.end == RangePoint(Base.TIME, NOON_MS)
    with pytest.raises(WhereError):
        wanted_of("t", {"where": "value ="}, NOON_MS).absolute(NOON_MS, {})


def test_what_lies_beside_a_page() -> None:
    newest = WantedRecords("t", end=Places(((0, 9), (1, 9))), rows=2)
    older = newest.beside([(0, 8, 70), (0, 7, 60)])
    assert older == replace(newest, end=Places(((0, 7), (1, 9))))
    assert newest.beside([(0, 8, 70)]) is None, "there is nothing more"
    first = WantedRecords("t", start=RangePoint(Base.START), rows=1)
    assert first.beside([(0, 3, 70)]) == replace(first, start=RangePoint(Base.TIME, 70))
    one = replace(first, partitions=(0,))
    assert one.beside([(0, 3, 70)]) == replace(one, start=RangePoint(Base.ZERO, 4))
    assert first.with_more() == replace(first, rows=2)
    assert replace(first, rows=500).with_more() is None


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("", "consume t --offset -50:end --json"),
        ("to=offsets:0=7,1=9", "consume t --offset -50:end --json"),
        ("to=offsets:1=9", "consume t --partition 1 --offset -50:9 --json"),
        (
            "p=3,0&from=newest:10&to=time:2026-01-31T12:00:00Z&isolation=all",
            "consume t --partition 0 --partition 3 --offset -10:@2026-01-31T12:00:00.000Z"
            " --isolation-level read_uncommitted --json",
        ),
        (
            "from=beginning&to=offset:9&n=5&where=key is null",
            "consume t --offset start:9 --where|key is null|--number 5 --json",
        ),
        (
            "from=time:2026-01-31T12:00:00Z&to=time:1769860800001",
            "consume t --offset @2026-01-31T12:00:00.000Z:@2026-01-31T12:00:00.001Z"
            " --number 50 --json",
        ),
    ],
)
def test_the_command_that_prints_the_same(query: str, command: str) -> None:
    wanted = wanted_of("t", dict(parse_qsl(query)), 0)
    head, _, rest = command.partition("|")
    where, _, tail = rest.partition("|")
    words = (*head.split(), *([where] if where else []), *tail.split())
    assert wanted.command() == words


def test_records_of_coordinators_are_decoded() -> None:
    assert "--decode" in wanted_of("__consumer_offsets", {}, 0).command()


@pytest.mark.parametrize(
    "query",
    [
        {"from": "newest:0"},
        {"from": "newest:"},
        {"from": "soon"},
        {"from": "offset:-1"},
        {"from": f"offset:{2**63}"},
        {"from": "time:99999-01-01"},
        {"to": "beginning"},
        {"to": "newest:5"},
        {"to": "offsets:"},
        {"to": "offsets:1"},
        {"to": "offsets:" + ",".join(f"{n}=1" for n in range(PLACES_MAX + 1))},
        {"p": "1,x"},
        {"p": "-1"},
        {"n": "0"},
        {"n": "501"},
        {"n": "٣"},
        {"from": "offset:5", "to": "offset:4"},
        {"isolation": "none"},
    ],
)
def test_what_means_nothing_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(RangeError, match=next(iter(query))):
        wanted_of("t", query, 0)
