"""Events are drawn on lanes over time: controller, brokers, topics; and what was missed. Pure.

Rules: a mark has the letter of its kind, and one that warns or tells of an error another shape. The
picture never says more than the table: its marks are the rows. What must have happened and was not
told is drawn as a gap: leader epochs of a partition grow by one, so a number that is left out is a
change that nobody here has seen.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oncelog_cli.documents.events import partition_of, topic_of
from oncelog_console.chart import time_ticks
from oncelog_console.svg import (
    Picture,
    coordinate,
    draw_line,
    draw_text,
    finished,
    svg_root,
    tell_axis,
    titled_group,
)

Row = Mapping[str, Any]

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "leader": (
        "L",
        (
            "leader_began",
            "leader_changed",
            "leader_without_room",
            "leaders_preferred",
            "partitions_without_replica",
            "unclean_election",
        ),
    ),
    "isr": ("I", ("isr_changed", "members_lost_data")),
    "controller": (
        "C",
        (
            "controller_changed",
            "controller_deposed",
            "controller_elected",
            "controller_resigned",
        ),
    ),
    "broker": (
        "B",
        (
            "broker_cleared",
            "broker_failed",
            "broker_registered",
            "broker_registers_again",
            "broker_serves",
            "broker_settings_changed",
            "broker_shuts_down",
            "broker_stopped",
            "broker_suspected",
            "brokers_changed",
            "clients_refused",
            "clients_served_again",
            "clock_leapt",
            "controlled_shutdown_incomplete",
            "data_may_be_missing",
            "session_expired",
            "setting_changed",
            "stop_requested",
            "zookeeper_connected",
            "zookeeper_disconnected",
        ),
    ),
    "disk": (
        "D",
        (
            "log_damaged",
            "log_dir_full",
            "log_dir_has_room",
            "log_dir_offline",
            "replica_damaged",
            "replica_whole_again",
        ),
    ),
    "replica": (
        "R",
        (
            "committed_records_truncated",
            "follower_began_anew",
            "follower_lost_records",
            "follower_truncated",
        ),
    ),
    "topic": ("T", ("topic_created", "topic_deleted", "topic_grew")),
    "group": (
        "G",
        (
            "coordinator_load_failed",
            "coordinator_loaded",
            "coordinator_resigned",
            "group_generation_began",
        ),
    ),
    "transaction": ("X", ("transaction_aborted_by_hand", "transaction_timed_out")),
}
"""A kind has a letter, and the names of its events."""
OTHER = "other"
"""Events of a broker of a newer release may have names that are not known here."""
KIND_OF = {name: kind for kind, (_, names) in KINDS.items() for name in names}
EPOCH_EVENTS = ("leader_began", "leader_changed")
"""These name the leader epoch that a partition has from then on."""

TOPICS_MAX = 8
"""So many topics have a lane; the others share one."""
WIDTH = 1_000
LEFT, RIGHT, TOP = 150, 16, 4
LANE_HEIGHT = 34
AXIS_HEIGHT = 22
MARK = 7
LABEL_GAP = 130
"""A mark has its words beside it when the next one is so far away."""
TOGETHER = 10
"""Marks of one kind that lie closer than this are one mark with a number."""
LISTED_MAX = 6


def kind_of(name: str) -> str:
    """Return the kind of the events of a name."""
    return KIND_OF.get(name, OTHER)


def letter_of(name: str) -> str:
    """Return the letter that marks of such events have."""
    kind = KINDS.get(kind_of(name))
    return "?" if kind is None else kind[0]


def names_of(kinds: Iterable[str]) -> list[str]:
    """Return the names of the events of these kinds."""
    return [name for kind in kinds for name in KINDS[kind][1]]


def words_of(row: Row) -> str:
    """Return the fields of an event in words."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in row["fields"].items()
    )


# ------------------------------------------------------------------------------ what was missed


@dataclass(frozen=True, slots=True)
class Gap:
    """These leader epochs of a partition have begun, and no event tells of it."""

    partition: str
    epochs: tuple[int, ...]
    after_ms: int
    before_ms: int
    """They began between the two times."""

    @property
    def text(self) -> str:
        """Return what was missed, in words."""
        numbers = self.epochs
        if len(numbers) == 1:
            return f"epoch {numbers[0]} of {self.partition} was not seen"
        which = f"{numbers[0]} and {numbers[1]}" if len(numbers) == 2 else ""
        which = which or f"{numbers[0]} to {numbers[-1]}"
        return f"epochs {which} of {self.partition} were not seen"


def gaps_in(rows: Iterable[Row]) -> list[Gap]:
    """Return what was missed between the epochs that events tell of.

    :param rows: events of all brokers, of whatever name, in order of time.
    """
    seen: dict[str, dict[int, int]] = {}
    ended: list[tuple[str, dict[int, int]]] = []
    for row in rows:
        if row["name"] == "topic_created":
            again = [each for each in seen if each.rpartition("-")[0] == topic_of(row)]
            ended += [(partition, seen.pop(partition)) for partition in again]
        partition, epoch = partition_of(row), row["fields"].get("leader_epoch")
        if row["name"] in EPOCH_EVENTS and partition is not None and isinstance(epoch, int):
            seen.setdefault(partition, {}).setdefault(epoch, row["timestamp_ms"])
    found = [
        Gap(partition, tuple(range(one + 1, other)), times[one], max(times[one], times[other]))
        for partition, times in [*ended, *seen.items()]
        for one, other in pairwise(sorted(times))
        if other > one + 1
    ]
    return sorted(found, key=lambda gap: (gap.after_ms, gap.partition))


def forgotten_by(rows: Iterable[Row]) -> dict[int, int]:
    """Return how many events of their lives brokers have forgotten, by broker."""
    first: dict[int, int] = {}
    for row in rows:
        broker, sequence = row["broker_id"], row["sequence"]
        first[broker] = min(first.get(broker, sequence), sequence)
    return {broker: sequence for broker, sequence in sorted(first.items()) if sequence}


# ------------------------------------------------------------------------------ the picture


@dataclass(frozen=True, slots=True)
class _Axis:
    """It says where a time lies."""

    since_ms: int
    until_ms: int

    def x(self, at_ms: int) -> float:
        share = (at_ms - self.since_ms) / (self.until_ms - self.since_ms)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def lanes_of(rows: Sequence[Row], brokers: Collection[int]) -> list[tuple[str, list[Row]]]:
    """Return the lanes from above: controller, brokers, topics with most events first."""
    counted = Counter(topic for row in rows if (topic := topic_of(row)) is not None)
    ranked = sorted(counted, key=lambda topic: (-counted[topic], topic))
    own = set(ranked[:TOPICS_MAX])
    lanes: dict[str, list[Row]] = {"controller": []}
    lanes |= {f"broker {n}": [] for n in sorted({*brokers, *(row["broker_id"] for row in rows)})}
    lanes |= {topic_lane(topic): [] for topic in ranked[:TOPICS_MAX]}
    if len(ranked) > TOPICS_MAX:
        lanes["other topics"] = []
    for row in rows:
        topic = topic_of(row)
        if topic is not None:
            lanes[topic_lane(topic) if topic in own else "other topics"].append(row)
        elif kind_of(row["name"]) == "controller":
            lanes["controller"].append(row)
        else:
            lanes[f"broker {row['broker_id']}"].append(row)
    return list(lanes.items())


def topic_lane(topic: str) -> str:
    """Return the name of a topic's lane."""
    return f"topic {topic}"


def lanes_picture(
    rows: Sequence[Row],
    gaps: Sequence[Gap],
    brokers: Collection[int],
    *,
    since_ms: int,
    until_ms: int,
) -> Picture:
    """Return events on their lanes, from ``since_ms`` to ``until_ms``.

    :param rows: they are in order of time.
    :param brokers: they have a lane each, also when nothing has happened there.
    """
    axis = _Axis(since_ms, max(until_ms, since_ms + 1))
    lanes = lanes_of(rows, brokers)
    height = TOP + len(lanes) * LANE_HEIGHT + AXIS_HEIGHT
    root = svg_root("lanes", WIDTH, height, f"{len(rows):,} events on {len(lanes)} lanes")
    for number, (name, held) in enumerate(lanes):
        middle = TOP + number * LANE_HEIGHT + LANE_HEIGHT / 2
        _lane_name(root, middle, name)
        draw_line(root, (LEFT, middle), (WIDTH - RIGHT, middle), "lane")
        for gap in gaps:
            if topic_lane(gap.partition.rpartition("-")[0]) == name:
                _draw_gap(root, axis, middle, gap)
        _draw_marks(root, axis, middle, held)
    bottom = TOP + len(lanes) * LANE_HEIGHT
    tell_axis(root, (axis.since_ms, axis.until_ms), (LEFT, WIDTH - RIGHT), (TOP, bottom))
    for at_ms, clock in time_ticks(axis.since_ms, axis.until_ms):
        draw_line(root, (axis.x(at_ms), TOP), (axis.x(at_ms), bottom), "grid")
        label = draw_text(root, axis.x(at_ms), bottom + 15, clock, "tick", anchor="middle")
        label.set("data-ms", str(at_ms))
    return finished(root)


def _lane_name(root: ET.Element, middle: float, name: str) -> None:
    group = titled_group(root, "lane-name", name)
    shown = name if len(name) <= 21 else name[:20] + "…"
    draw_text(group, LEFT - 12, middle + 4, shown, "label", anchor="end")


def _draw_gap(root: ET.Element, axis: _Axis, middle: float, gap: Gap) -> None:
    group = titled_group(root, "gap", gap.text)
    left, right = axis.x(gap.after_ms), axis.x(gap.before_ms)
    right = max(right, left + 2)
    draw_line(group, (left, middle), (right, middle), "gap").set("stroke-dasharray", "3 3")
    if right - left > 30:
        draw_text(group, (left + right) / 2, middle + 14, "?", "label", anchor="middle")


def _draw_marks(root: ET.Element, axis: _Axis, middle: float, rows: Sequence[Row]) -> None:
    """Draw the marks of one lane; those of one kind that lie together are one."""
    groups: list[list[Row]] = []
    for row in rows:
        last = groups[-1] if groups else None
        near = last is not None and axis.x(row["timestamp_ms"]) - axis.x(
            last[0]["timestamp_ms"]
        ) < (TOGETHER)
        if last is not None and near and _look(row) == _look(last[-1]):
            last.append(row)
        else:
            groups.append([row])
    places = [axis.x(group[0]["timestamp_ms"]) for group in groups]
    for number, (x, group) in enumerate(zip(places, groups, strict=True)):
        after = places[number + 1] if number + 1 < len(places) else WIDTH
        _draw_mark(root, x, middle, group, with_words=after - x >= LABEL_GAP)


def _look(row: Row) -> tuple[str, bool]:
    return letter_of(row["name"]), is_bad(row)


def is_bad(row: Row) -> bool:
    """Return whether an event warns, or tells of an error."""
    return bool(row["level"] in ("warning", "error", "critical"))


def _draw_mark(
    root: ET.Element, x: float, middle: float, rows: Sequence[Row], *, with_words: bool
) -> None:
    bad = is_bad(rows[0])
    told = [f"{row['name']} {words_of(row)}".strip() for row in rows[:LISTED_MAX]]
    told += [f"and {len(rows) - LISTED_MAX} more"] if len(rows) > LISTED_MAX else []
    group = titled_group(root, "event bad" if bad else "event", "\n".join(told))
    group.set("data-ms", str(rows[0]["timestamp_ms"]))
    if bad:
        corners = (
            (x - MARK - 1, middle + MARK),
            (x + MARK + 1, middle + MARK),
            (x, middle - MARK - 3),
        )
        points = " ".join(f"{coordinate(a)},{coordinate(b)}" for a, b in corners)
        ET.SubElement(group, "polygon", {"class": "event-mark", "points": points})
    else:
        place = {"cx": coordinate(x), "cy": coordinate(middle), "r": str(MARK)}
        ET.SubElement(group, "circle", {"class": "event-mark", **place})
    draw_text(group, x, middle + 4, letter_of(rows[0]["name"]), "letter", anchor="middle")
    names = {row["name"] for row in rows}
    words = rows[0]["name"] if len(names) == 1 else kind_of(rows[0]["name"])
    words = words if len(rows) == 1 else f"{len(rows)} × {words}"
    if with_words:
        draw_text(group, x + MARK + 2, middle - 5, words[:24], "label")
    elif len(rows) > 1:
        draw_text(group, x + MARK + 1, middle - 4, str(len(rows)), "label")
