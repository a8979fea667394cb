"""Charts are SVG that the server makes: lines over time, sparklines and bars. Pure.

Rules: a picture has no style of its own, only classes, and attributes that say what must be seen
without colours; a picture has a ``<title>``, and a chart its figures as a table. What is not known
is a gap, never 0. What was worked out from commits is dashed. A line has at most 300 points, the
highest of those that lie too close together.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Literal

from oncelog_console.history import Point
from oncelog_console.rendering import duration_text, number_text, size_text
from oncelog_console.svg import (
    Picture,
    coordinate,
    draw_line,
    draw_text,
    finished,
    svg_root,
    tell_axis,
)

POINTS_MAX = 300
LINES_MAX = 6
"""A chart has so many lines at most: nobody can tell more apart."""
WIDTH, HEIGHT = 860, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 120, 16, 28
"""Room beside the lines: numbers at the left, names at the right, times below."""
SPARK_WIDTH, SPARK_HEIGHT = 96, 18
BAR_WIDTH, BAR_HEIGHT = 96, 10
TICKS_Y = 5
TICKS_X_MAX = 7
NAME_HEIGHT = 13
DASHES = "5 4"

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
STEPS_MS = (
    1_000, 5_000, 10_000, 30_000, MINUTE_MS, 5 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS,
    HOUR_MS, 2 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS, 7 * DAY_MS,
)  # fmt: skip

Unit = Literal["records", "seconds", "bytes", "records/s", "bytes/s"]


@dataclass(frozen=True, slots=True)
class Line:
    """A chart shows these points of a thing that has a name."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class ChartMark:
    """Something happened at a time."""

    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """It is a row of a chart's table: what each line was at a time; None: not known then."""

    at_ms: int
    values: tuple[str | None, ...]
    from_commits: bool
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """It is a picture, and the same figures as a table."""

    title: str
    picture: Picture
    names: tuple[str, ...]
    figures: tuple[Figures, ...]
    """There are none unless they were asked for."""
    is_empty: bool
    """True: nothing at all is known of this time."""
    has_commits: bool
    """True: something is dashed."""
    left_out: int = 0
    """So many lines are not shown, as there is no room."""


# ------------------------------------------------------------------------------ lines over time


def line_chart(
    title: str,
    lines: Sequence[Line],
    marks: Sequence[ChartMark] = (),
    *,
    since_ms: int,
    until_ms: int,
    unit: Unit = "records",
    with_figures: bool = False,
) -> Chart:
    """Return a chart of lines over the time from ``since_ms`` to ``until_ms``.

    Of more lines than have room those with the highest last values are shown.

    :param with_figures: whether the figures are wanted as a table, too.
    """
    until_ms = max(until_ms, since_ms + 1)
    shown = [
        Line(line.name, _fewer(_between(line.points, since_ms, until_ms), POINTS_MAX))
        for line in _highest(lines)
    ]
    shown = [line for line in shown if line.points]
    happened = sorted(mark for mark in _between_marks(marks, since_ms, until_ms))
    highest = max((point.value for line in shown for point in line.points), default=0.0)
    top, ticks = _scale(highest, whole=unit in ("records", "bytes"))
    plane = _Plane(since_ms, until_ms, top, LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
    root = svg_root("chart", WIDTH, HEIGHT, title)
    root.set("tabindex", "0")
    sides, heights = (plane.left, plane.right), (plane.top, plane.bottom)
    tell_axis(root, (since_ms, until_ms), sides, heights)
    _axes(root, plane, ticks, unit)
    for at_ms, text in happened:
        _mark(root, plane, ChartMark(at_ms, text))
    names = _spread([plane.y(line.points[-1].value) for line in shown], plane)
    for number, (line, name_y) in enumerate(zip(shown, names, strict=True)):
        group = ET.SubElement(root, "g", {"class": f"series series-{number}"})
        ET.SubElement(group, "title").text = line.name
        _data(group, line.points)
        _draw(group, plane, line.points)
        draw_text(group, plane.right + 8, name_y + 4, line.name, "series-name")
    return Chart(
        title,
        finished(root),
        tuple(line.name for line in shown),
        _table(shown, happened, unit) if with_figures else (),
        not shown and not happened,
        any(point.from_commits for line in shown for point in line.points),
        len(lines) - len(_highest(lines)),
    )


def figure_text(value: float, unit: Unit) -> str:
    """Return a figure as people read it, without its unit where the axis or column has it."""
    if unit in ("bytes", "bytes/s"):
        return str(size_text(value)) + ("/s" if unit == "bytes/s" else "")
    if unit == "seconds":
        return str(duration_text(value * 1000))
    return str(number_text(value))


@dataclass(frozen=True, slots=True)
class _Plane:
    """It says where times and values lie in a picture."""

    since_ms: int
    until_ms: int
    top_value: float
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.since_ms) / (self.until_ms - self.since_ms)
        return self.left + self.width * share

    def y(self, value: float) -> float:
        return self.bottom - self.height * value / self.top_value


def _highest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that have room, in the order in which they were given."""
    if len(lines) <= LINES_MAX:
        return list(lines)
    ends = [line.points[-1].value if line.points else -1.0 for line in lines]
    first = sorted(range(len(lines)), key=lambda number: (-ends[number], number))[:LINES_MAX]
    return [lines[number] for number in sorted(first)]


def _between(points: Sequence[Point], since_ms: int, until_ms: int) -> list[Point]:
    found = [point for point in points if since_ms <= point.at_ms <= until_ms]
    if found:
        found[0] = found[0]._replace(joined=False)
    return found


def _between_marks(
    marks: Sequence[ChartMark], since_ms: int, until_ms: int
) -> list[tuple[int, str]]:
    return [(mark.at_ms, mark.text) for mark in marks if since_ms <= mark.at_ms <= until_ms]


def _fewer(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many points: the highest of each stretch of time, and the last."""
    if len(points) <= most:
        return list(points)
    first_ms, span_ms = points[0].at_ms, points[-1].at_ms - points[0].at_ms
    kept: list[Point] = []
    stretch = -1
    for point in points:
        here = (point.at_ms - first_ms) * (most - 1) // max(span_ms, 1)
        if here != stretch:
            kept.append(point)
            stretch = here
        else:
            best = max(kept[-1], point, key=lambda each: each.value)
            kept[-1] = best._replace(joined=kept[-1].joined and point.joined)
    return kept


def _scale(highest: float, *, whole: bool) -> tuple[float, list[float]]:
    """Return the top of the axis and the values that stand at it: round ones, from 0 on.

    :param whole: there are no halves of what is counted.
    """
    if highest <= 0:
        return 1.0, [0.0]
    magnitude = 1.0
    while magnitude * 10 <= highest:
        magnitude *= 10
    while magnitude > highest:
        magnitude /= 10
    step = next(
        size * magnitude for size in (0.2, 0.5, 1, 2) if size * magnitude * TICKS_Y >= highest
    )
    if whole:
        step = max(step, 1.0)
    count = 1
    while step * count < highest:
        count += 1
    return step * count, [step * number for number in range(count + 1)]


def time_ticks(since_ms: int, until_ms: int) -> list[tuple[int, str]]:
    """Return round times for an axis, each with its text (UTC)."""
    span_ms = until_ms - since_ms
    step_ms = next((step for step in STEPS_MS if span_ms / step <= TICKS_X_MAX), STEPS_MS[-1])
    first_ms = -(-since_ms // step_ms) * step_ms
    times = list(range(first_ms, until_ms + 1, step_ms))[: TICKS_X_MAX + 1]
    return [(at_ms, _clock(at_ms, step_ms)) for at_ms in times]


def _clock(at_ms: int, step_ms: int) -> str:
    form = "%H:%M:%S" if step_ms < MINUTE_MS else "%H:%M" if step_ms < DAY_MS else "%m-%d"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)


def _axes(root: ET.Element, plane: _Plane, ticks: Sequence[float], unit: Unit) -> None:
    axes = ET.SubElement(root, "g", {"class": "axes"})
    for value in ticks:
        y = plane.y(value)
        draw_line(axes, (plane.left, y), (plane.right, y), "grid")
        draw_text(axes, plane.left - 8, y + 4, figure_text(value, unit), "tick", anchor="end")
    for at_ms, clock in time_ticks(plane.since_ms, plane.until_ms):
        x = plane.x(at_ms)
        draw_line(axes, (x, plane.bottom), (x, plane.bottom + 4), "tick-line")
        label = draw_text(axes, x, plane.bottom + 18, clock, "tick", anchor="middle")
        label.set("data-ms", str(at_ms))
    draw_text(axes, plane.right + 24, plane.bottom + 18, "UTC", "tick zone")
    draw_text(axes, plane.left, plane.top - 5, unit, "tick unit")


def _mark(root: ET.Element, plane: _Plane, mark: ChartMark) -> None:
    x = plane.x(mark.at_ms)
    group = ET.SubElement(root, "g", {"class": "mark", "data-ms": str(mark.at_ms)})
    ET.SubElement(group, "title").text = mark.text
    draw_line(group, (x, plane.top), (x, plane.bottom), "mark-line").set("stroke-dasharray", "1 3")
    corners = ((x - 4, plane.top - 8), (x + 4, plane.top - 8), (x, plane.top))
    points = " ".join(f"{coordinate(at_x)},{coordinate(at_y)}" for at_x, at_y in corners)
    ET.SubElement(group, "polygon", {"class": "mark-head", "points": points})


def _draw(group: ET.Element, plane: _Plane, points: Sequence[Point]) -> None:
    """Draw each unbroken run of points as one path, and a point alone as a dot."""
    for run in _runs(points):
        dashed = run[-1].from_commits or run[0].from_commits
        name = "line from-commits" if dashed else "line"
        places = [(plane.x(point.at_ms), plane.y(point.value)) for point in run]
        if len(places) == 1:
            ((x, y),) = places
            ET.SubElement(
                group, "circle", {"class": name, "cx": coordinate(x), "cy": coordinate(y), "r": "2"}
            )
            continue
        path = "M" + " L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in places)
        drawn = ET.SubElement(group, "path", {"class": name, "d": path, "fill": "none"})
        if dashed:
            drawn.set("stroke-dasharray", DASHES)


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points as runs that are drawn in one go: a gap ends a run, and so does the change
    from what was worked out to what was seen, which is drawn dashed."""
    runs: list[list[Point]] = []
    for number, point in enumerate(points):
        if number == 0 or not point.joined:
            runs.append([point])
        elif points[number - 1].from_commits and not point.from_commits:
            runs[-1].append(point)
            runs.append([point])
        else:
            runs[-1].append(point)
    return runs


def _data(group: ET.Element, points: Sequence[Point]) -> None:
    """Give the figures to whatever reads them off the picture."""
    group.set("data-times", " ".join(str(point.at_ms) for point in points))
    group.set("data-values", " ".join(_figure(point.value) for point in points))
    group.set("data-joined", " ".join("1" if point.joined else "0" for point in points))


def _figure(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _spread(wanted: Sequence[float], plane: _Plane) -> list[float]:
    """Return heights for the names of lines, near those wanted and not over each other."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    found = list(wanted)
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + NAME_HEIGHT)
    if order:
        over = found[order[-1]] - plane.bottom
        if over > 0:
            limit = plane.bottom
            for number in reversed(order):
                found[number] = min(found[number], limit)
                limit = found[number] - NAME_HEIGHT
    return found


def _table(
    lines: Sequence[Line], marks: Sequence[tuple[int, str]], unit: Unit
) -> tuple[Figures, ...]:
    """Return what is drawn as rows, the newest first."""
    said: dict[int, list[str]] = {}
    for at_ms, text in marks:
        said.setdefault(at_ms, []).append(text)
    rows: list[Figures] = []
    times = {*said, *(point.at_ms for line in lines for point in line.points)}
    for at_ms in sorted(times, reverse=True):
        found = [_at(line.points, at_ms) for line in lines]
        rows.append(
            Figures(
                at_ms,
                tuple(None if point is None else figure_text(point.value, unit) for point in found),
                any(point is not None and point.from_commits for point in found),
                tuple(said.get(at_ms, ())),
            )
        )
    return tuple(rows)


def _at(points: Sequence[Point], at_ms: int) -> Point | None:
    """Return where a line is at a time, between its points as well; None: in a gap."""
    number = bisect_left(points, at_ms, key=lambda point: point.at_ms)
    if number == len(points):
        return None
    after = points[number]
    if after.at_ms == at_ms:
        return after
    if number == 0 or not after.joined:
        return None
    before = points[number - 1]
    share = (at_ms - before.at_ms) / (after.at_ms - before.at_ms)
    value = before.value + share * (after.value - before.value)
    return Point(at_ms, value, from_commits=before.from_commits)


# ------------------------------------------------------------------------------ small pictures


def sparkline(title: str, points: Sequence[Point], *, since_ms: int, until_ms: int) -> Picture:
    """Return a small line without axes; its ``<title>`` says what it shows."""
    root = svg_root("sparkline", SPARK_WIDTH, SPARK_HEIGHT, title)
    shown = _fewer(_between(points, since_ms, until_ms), SPARK_WIDTH)
    highest = max((point.value for point in shown), default=0.0) or 1.0
    span = max(until_ms, since_ms + 1)
    plane = _Plane(since_ms, span, highest, 1, 2, SPARK_WIDTH - 2, SPARK_HEIGHT - 4)
    _draw(root, plane, shown)
    return finished(root)


def trend_line(title: str, values: Sequence[float]) -> Picture:
    """Return a small line of values that were seen at equal distances, the oldest first.

    Lists have hundreds of them, so that it is written as text, for speed.
    """
    text = escape(title)
    highest = max(values, default=0.0) or 1.0
    step = (SPARK_WIDTH - 2) / max(len(values) - 1, 1)
    height = (SPARK_HEIGHT - 4) / highest
    bottom = SPARK_HEIGHT - 2
    path = " L".join(f"{1 + n * step:.1f} {bottom - v * height:.1f}" for n, v in enumerate(values))
    line = f'<path class="line" d="M{path}" fill="none"/>' if len(values) > 1 else ""
    return Picture(
        f'<svg class="sparkline" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}"'
        f' height="{SPARK_HEIGHT}" role="img" aria-label="{text}"><title>{text}</title>{line}</svg>'
    )


def bar(title: str, share: float | None, *, warn_from: float | None = None) -> Picture:
    """Return a bar that is filled by ``share``, of 0 to 1; None: not known, and hatched.

    :param warn_from: from this share on it looks like a warning, and its title says so.
    """
    name, text = "bar", title
    if share is None:
        name += " unknown"
    elif share > 1:
        name, text = "bar over", f"{title} (over)"
    elif warn_from is not None and share >= warn_from:
        name, text = "bar warn", f"{title} (warning)"
    root = svg_root(name, BAR_WIDTH, BAR_HEIGHT, text)
    edge = {
        "x": "0.5",
        "y": "0.5",
        "width": coordinate(BAR_WIDTH - 1),
        "height": coordinate(BAR_HEIGHT - 1),
    }
    ET.SubElement(root, "rect", {"class": "bar-all", **edge, "fill": "none"})
    if share is None:
        y = coordinate(BAR_HEIGHT / 2)
        line = ET.SubElement(root, "path", {"class": "bar-unknown", "d": f"M1 {y} L95 {y}"})
        line.set("stroke-dasharray", "2 4")
    elif share > 0:
        width = coordinate(min(share, 1.0) * (BAR_WIDTH - 1))
        ET.SubElement(root, "rect", {**edge, "class": "bar-part", "width": width})
    return finished(root)
