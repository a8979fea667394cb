"""The grammar of --offset has a meaning on each partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.offset_range import (
    Base,
    HeldOffsets,
    OffsetRange,
    RangePoint,
    parse_range,
    resolve_end,
    resolve_start,
    span_of,
)

NOW_MS = 1_800_000_000_000
HELD = HeldOffsets(100, 200)
START, END = RangePoint(Base.START), RangePoint(Base.END)


def at(number: int) -> RangePoint:
    return RangePoint(Base.ZERO, number)


def ago(ms: int) -> RangePoint:
    """Return the point that is so long before now."""
    return RangePoint(Base.TIME, NOW_MS - ms)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("start", OffsetRange(START)),
        ("earliest", OffsetRange(START)),
        ("end", OffsetRange(END)),
        ("35", OffsetRange(at(35))),
        ("35:", OffsetRange(at(35))),
        ("35:40", OffsetRange(at(35), at(40))),
        (":40", OffsetRange(START, at(40))),
        (":end", OffsetRange(START, END)),
        (":", OffsetRange(START)),
        ("+5", OffsetRange(RangePoint(Base.START, 5))),
        ("-5", OffsetRange(RangePoint(Base.END, -5))),
        ("-5:latest", OffsetRange(RangePoint(Base.END, -5), END)),
        ("100:+10", OffsetRange(at(100), RangePoint(Base.START, 10))),
        (":-1", OffsetRange(START, RangePoint(Base.END, -1))),
        ("@1770000000000", OffsetRange(RangePoint(Base.TIME, 1_770_000_000_000))),
        ("@1770000000", OffsetRange(RangePoint(Base.TIME, 1_770_000_000_000))),
        ("@-1h", OffsetRange(ago(3_600_000))),
        ("@1h", OffsetRange(ago(3_600_000))),
        ("@-1d2h3m4s5ms", OffsetRange(ago(93_784_005))),
        ("@-90m:@-30m", OffsetRange(ago(5_400_000), ago(1_800_000))),
        ("@-1h:+1000", OffsetRange(ago(3_600_000), RangePoint(Base.START, 1000))),
        ("@2026-01-31", OffsetRange(RangePoint(Base.TIME, 1_769_817_600_000))),
        ("@2026-01-31T10:30:00Z", OffsetRange(RangePoint(Base.TIME, 1_769_855_400_000))),
        ("@2026-01-31T10:30", OffsetRange(RangePoint(Base.TIME, 1_769_855_400_000))),
        (
            "@2026-01-31T11:30:00+01:00:end",
            OffsetRange(RangePoint(Base.TIME, 1_769_855_400_000), END),
        ),
        (
            "@2026-01-31T10:30:00Z:@2026-01-31T10:30:01Z",
            OffsetRange(
                RangePoint(Base.TIME, 1_769_855_400_000), RangePoint(Base.TIME, 1_769_855_401_000)
            ),
        ),
        ("@-9999999d", OffsetRange(RangePoint(Base.TIME, 0))),
    ],
)
def test_ranges(text: str, wanted: OffsetRange) -> None:
    assert parse_range(text, NOW_MS) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.5",
        "--1",
        "1:2:3",
        "@",
        "@-",
        "@yesterday",
        "@-1x",
        "9" * 20,
        "٣",
        "1:x",
        "40:35",
    ],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="range|end is before"):
        parse_range(text, NOW_MS)


@given(st.text(alphabet="0123456789:@+-dhmsT.Zendart ", max_size=24))
def test_any_text_is_a_range_or_a_value_error(text: str) -> None:
    try:
        parse_range(text, NOW_MS)
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("point", "found", "offset"),
    [
        (at(150), None, 150),
        (at(5), None, 100),  # retention took it
        (at(300), None, 300),  # is waited for
        (START, None, 100),
        (RangePoint(Base.START, 7), None, 107),
        (END, None, 200),
        (RangePoint(Base.END, -10), None, 190),
        (RangePoint(Base.END, -1000), None, 100),
        (RangePoint(Base.TIME, 1), 160, 160),
        (RangePoint(Base.TIME, 1), None, 200),
    ],
)
def test_starts(point: RangePoint, found: int | None, offset: int) -> None:
    assert resolve_start(point, HELD, found) == offset


@pytest.mark.parametrize(
    ("point", "found", "offset"),
    [
        (at(160), None, 160),
        (RangePoint(Base.START, 10), None, 160),
        (END, None, 200),
        (RangePoint(Base.END, -10), None, 190),
        (RangePoint(Base.TIME, 1), 180, 180),
        (RangePoint(Base.TIME, 1), None, 200),
    ],
)
def test_ends(point: RangePoint, found: int | None, offset: int) -> None:
    assert resolve_end(point, 150, HELD, found) == offset


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", (100, None)),
        ("-10:end", (190, 200)),
        ("-10:-5", (190, 195)),
        ("120:+5", (120, 125)),
        ("-10:180", (170, 180)),
        ("-10:105", (100, 105)),
        ("-10:50", (100, 50)),
        ("-10:300", (190, 300)),
        ("-10:@-1h", (140, 150)),
        ("@-2h:@-1h", (130, 150)),
    ],
)
def test_a_range_in_one_partition(text: str, span: tuple[int, int | None]) -> None:
    wanted = parse_range(text, NOW_MS)
    assert span_of(wanted, HELD, found_start=130, found_end=150) == span


def test_before_an_end_that_is_a_time_without_records_yet() -> None:
    wanted = parse_range("-10:@-1h", NOW_MS)
    assert span_of(wanted, HELD, found_start=None, found_end=None) == (190, 200)
