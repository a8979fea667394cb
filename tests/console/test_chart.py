"""Charts are read as text: lines, gaps, what is dashed, marks, axes, and the figures as a table."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from oncelog_console.chart import (
    DASHES,
    LINES_MAX,
    POINTS_MAX,
    Chart,
    ChartMark,
    Line,
    bar,
    figure_text,
    line_chart,
    sparkline,
    trend_line,
)
from oncelog_console.history import Point
from oncelog_console.svg import Picture

NOON = 1_790_078_400_000  # 2026-09-22T12:00:00Z
MINUTE = 60_000


def points(*values: float, step_ms: int = MINUTE) -> list[Point]:
    return [Point(NOON + number * step_ms, value) for number, value in enumerate(values)]


def chart_of(*lines: Line, marks: tuple[ChartMark, ...] = (), minutes: int = 10) -> Chart:
    until_ms = NOON + minutes * MINUTE
    return line_chart(
        "Lag of billing", lines, marks, since_ms=NOON, until_ms=until_ms, with_figures=True
    )


def root_of(picture: Picture) -> ET.Element:
    return ET.fromstring(str(picture))


def texts(picture: Picture, name: str) -> list[str]:
    found = root_of(picture).iter("text")
    return [each.text or "" for each in found if name in each.get("class", "").split()]


def drawn(picture: Picture) -> list[ET.Element]:
    """Return paths and dots of the lines."""
    return [each for each in root_of(picture).iter() if "line" in each.get("class", "").split()]


def places(path: ET.Element) -> list[tuple[float, float]]:
    numbers = re.findall(r"[\d.]+", path.get("d", ""))
    return [(float(x), float(y)) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


# ------------------------------------------------------------------------------ lines


def test_a_line_goes_through_its_points_on_round_axes() -> None:
    chart = chart_of(Line("orders-3", points(0, 480, 960)))
    (path,) = drawn(chart.picture)
    (x0, y0), (x1, y1), (x2, y2) = places(path)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y1, "more is higher"
    assert texts(chart.picture, "tick")[:6] == ["0", "200", "400", "600", "800", "1,000"]
    clocks = [text for text in texts(chart.picture, "tick") if ":" in text]
    assert clocks == ["12:00", "12:05", "12:10"]
    assert "UTC" in texts(chart.picture, "zone")
    assert texts(chart.picture, "unit") == ["records"]
    assert texts(chart.picture, "series-name") == ["orders-3"]


def test_the_picture_has_titles_and_is_told_as_an_image() -> None:
    root = root_of(chart_of(Line("orders-3", points(1, 2))).picture)
    assert (root.tag, root.get("role"), root.get("aria-label")) == ("svg", "img", "Lag of billing")
    assert [each.text for each in root.iter("title")] == ["Lag of billing", "orders-3"]


def test_a_gap_is_neither_joined_nor_drawn_as_nothing() -> None:
    gone = [Point(NOON, 5), Point(NOON + MINUTE, 5), Point(NOON + 9 * MINUTE, 5, joined=False)]
    first, alone = drawn(chart_of(Line("t-0", gone)).picture)
    assert (first.tag, len(places(first))) == ("path", 2)
    assert alone.tag == "circle"
    assert {y for _, y in places(first)} == {float(alone.get("cy", ""))}


def test_what_was_worked_out_from_commits_is_dashed_up_to_what_was_seen() -> None:
    past = [Point(NOON + n * MINUTE, 5, n > 0, from_commits=True) for n in range(3)]
    chart = chart_of(Line("t-0", [*past, *points(0, 0, 0, 6, 7)[3:]]))
    dashed, solid = drawn(chart.picture)
    assert (dashed.get("stroke-dasharray"), solid.get("stroke-dasharray")) == (DASHES, None)
    assert (len(places(dashed)), len(places(solid))) == (4, 2)
    assert places(dashed)[-1] == places(solid)[0]
    assert chart.has_commits
    assert [row.from_commits for row in chart.figures] == [False, False, True, True, True]


def test_rebalances_are_marks_with_words() -> None:
    marks = (ChartMark(NOON + MINUTE, "generation 7, 3 members"), ChartMark(NOON - 1, "before"))
    chart = chart_of(Line("t-0", points(1, 2)), marks=marks)
    found = [each for each in root_of(chart.picture).iter("g") if each.get("class") == "mark"]
    assert [each.findtext("title") for each in found] == ["generation 7, 3 members"]
    assert [row.marks for row in chart.figures] == [("generation 7, 3 members",), ()]


def test_the_table_has_the_figures_newest_first_and_says_what_is_not_known() -> None:
    other = [Point(NOON + MINUTE, 12_000)]
    chart = chart_of(Line("t-0", points(1, 2)), Line("t-1", other))
    assert chart.names == ("t-0", "t-1")
    assert [(row.at_ms, row.values) for row in chart.figures] == [
        (NOON + MINUTE, ("2", "12,000")),
        (NOON, ("1", None)),
    ]


def test_the_table_has_what_is_drawn_between_points_and_nothing_in_gaps() -> None:
    joined = [Point(NOON, 4), Point(NOON + 2 * MINUTE, 8)]
    apart = [Point(NOON, 4), Point(NOON + 2 * MINUTE, 8, joined=False)]
    chart = chart_of(Line("t-0", points(1, 1, 1)), Line("t-1", joined), Line("t-2", apart))
    assert [row.values for row in chart.figures] == [
        ("1", "8", "8"),
        ("1", "6", None),
        ("1", "4", "4"),
    ]


def test_the_figures_stand_in_the_picture_for_whoever_points_at_them() -> None:
    gone = [*points(1, 2.5), Point(NOON + 5 * MINUTE, 98_331, joined=False)]
    root = root_of(chart_of(Line("t-0", gone)).picture)
    (group,) = [each for each in root.iter("g") if "series" in each.get("class", "").split()]
    assert group.get("data-times") == f"{NOON} {NOON + MINUTE} {NOON + 5 * MINUTE}"
    assert group.get("data-values") == "1 2.5 98331"
    assert group.get("data-joined") == "0 1 0"
    assert root.get("tabindex") == "0", "the keyboard reaches it"
    assert (root.get("data-since"), root.get("data-until")) == (str(NOON), str(NOON + 10 * MINUTE))


def test_a_line_has_at_most_300_points_and_keeps_its_peak() -> None:
    values = [float(number % 10) for number in range(2_000)]
    values[777] = 5_000.0
    chart = chart_of(Line("t-0", points(*values, step_ms=250)))
    (path,) = drawn(chart.picture)
    assert len(places(path)) <= POINTS_MAX
    assert len(chart.figures) <= POINTS_MAX
    assert "5,000" in [row.values[0] for row in chart.figures]


def test_only_the_lines_that_are_furthest_behind_have_room() -> None:
    lines = [Line(f"t-{number}", points(number, number)) for number in range(20)]
    chart = chart_of(*lines)
    assert chart.names == tuple(f"t-{number}" for number in range(20 - LINES_MAX, 20))
    assert chart.left_out == 20 - LINES_MAX


def test_names_of_lines_do_not_lie_over_each_other() -> None:
    lines = [Line(f"t-{number}", points(3, 3)) for number in range(LINES_MAX)]
    heights = sorted(
        float(each.get("y", ""))
        for each in root_of(chart_of(*lines).picture).iter("text")
        if each.get("class") == "series-name"
    )
    assert all(below - above >= 12 for above, below in pairwise(heights))


def test_what_lies_outside_of_the_time_is_not_shown() -> None:
    chart = chart_of(Line("t-0", points(1, 2, 3, 4)), minutes=1)
    assert [row.at_ms for row in chart.figures] == [NOON + MINUTE, NOON]
    assert chart_of(Line("t-0", [])).is_empty


def test_names_are_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    chart = line_chart(
        evil,
        [Line(evil, points(1, 2))],
        [ChartMark(NOON, evil)],
        since_ms=NOON,
        until_ms=NOON + MINUTE,
    )
    for picture in (chart.picture, sparkline(evil, points(1), since_ms=0, until_ms=NOON)):
        assert "<script" not in str(picture)
        assert evil in [each.text for each in root_of(picture).iter("title")]
    assert evil in texts(chart.picture, "series-name")


def test_no_picture_has_a_style_of_its_own() -> None:
    chart = chart_of(Line("t-0", points(1, 2)), marks=(ChartMark(NOON, "x"),))
    for picture in (chart.picture, bar("disk", 0.5), bar("disk", None)):
        assert not [each for each in root_of(picture).iter() if each.get("style")]
        assert "<style" not in str(picture)


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, ["0"]),
        (1, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (7, ["0", "2", "4", "6", "8"]),
        (98_331, ["0", "20,000", "40,000", "60,000", "80,000", "100,000"]),
    ],
)
def test_counted_things_have_whole_ticks(highest: int, ticks: list[str]) -> None:
    chart = chart_of(Line("t-0", points(highest, highest)))
    shown = texts(chart.picture, "tick")
    assert shown[: len(ticks) + 1][: len(ticks)] == ticks
    assert ":" in shown[len(ticks)]


def test_figures_of_each_unit() -> None:
    assert figure_text(98_331, "records") == "98,331"
    assert figure_text(2.5, "records/s") == "2.5"
    assert figure_text(1536, "bytes/s") == "1.5 KiB/s"
    assert figure_text(90, "seconds") == "1 min 30 s"
    assert figure_text(2.5, "seconds") == "2.5 s"


# ------------------------------------------------------------------------------ small pictures


def test_a_sparkline_has_a_line_with_gaps_and_a_title() -> None:
    gone = [
        *points(1, 2),
        Point(NOON + 5 * MINUTE, 2, joined=False),
        *points(0, 0, 0, 0, 0, 0, 3)[6:],
    ]
    picture = sparkline("growing", gone, since_ms=NOON, until_ms=NOON + 10 * MINUTE)
    assert len(drawn(picture)) == 2
    assert root_of(picture).findtext("title") == "growing"
    assert drawn(sparkline("not known", [], since_ms=NOON, until_ms=NOON)) == []


def test_a_trend_has_values_at_equal_distances() -> None:
    picture = trend_line("rate of <b>", (0, 5, 10, 5))
    (path,) = drawn(picture)
    found = places(path)
    assert [y for _, y in found] == [16, 9, 2, 9]
    assert {round(b[0] - a[0]) for a, b in pairwise(found)} == {31}
    assert root_of(picture).findtext("title") == "rate of <b>"
    for few in ((), (3.0,)):
        assert drawn(trend_line("not known yet", few)) == []
    assert [y for _, y in places(drawn(trend_line("nothing", (0, 0)))[0])] == [16, 16]


def test_a_bar_is_filled_by_its_share() -> None:
    def part(picture: Picture) -> float | None:
        found = [each for each in root_of(picture).iter("rect") if each.get("class") == "bar-part"]
        return float(found[0].get("width", "")) if found else None

    assert part(bar("x", 0)) is None
    half, full = part(bar("x", 0.5)), part(bar("x", 1))
    assert half is not None
    assert full is not None
    assert full == 2 * half
    assert part(bar("x", 3)) == full


def test_a_bar_says_in_words_what_is_wrong_and_what_is_not_known() -> None:
    def told(picture: Picture) -> tuple[str | None, str | None]:
        root = root_of(picture)
        return root.get("class"), root.findtext("title")

    assert told(bar("61 % free", 0.39, warn_from=0.9)) == ("bar", "61 % free")
    assert told(bar("8 % free", 0.92, warn_from=0.9)) == ("bar warn", "8 % free (warning)")
    assert told(bar("70 s of 60 s", 1.2)) == ("bar over", "70 s of 60 s (over)")
    assert told(bar("not known", None)) == ("bar unknown", "not known")
    unknown = root_of(bar("not known", None))
    assert unknown.find("path") is not None, "it does not look empty"
