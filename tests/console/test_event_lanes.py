"""Events stand on their lanes, and what was missed between them is drawn as a gap."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from oncelog_broker.server.event_history import EVENT_NAMES
from oncelog_console.event_lanes import (
    KIND_OF,
    KINDS,
    TOPICS_MAX,
    WIDTH,
    Gap,
    forgotten_by,
    gaps_in,
    kind_of,
    lanes_of,
    lanes_picture,
    letter_of,
    names_of,
    words_of,
)
from oncelog_console.svg import Picture
from support.event_rows import event


def test_every_event_that_brokers_keep_has_a_kind() -> None:
    assert set(KIND_OF) == set(EVENT_NAMES)
    letters = [letter for letter, _ in KINDS.values()]
    assert len(set(letters)) == len(letters)
    assert (kind_of("isr_changed"), letter_of("isr_changed")) == ("isr", "I")
    assert (kind_of("of_a_later_release"), letter_of("of_a_later_release")) == ("other", "?")
    assert names_of(["isr", "topic"])[-1] == "topic_grew"


def test_fields_in_words() -> None:
    row = event("isr_changed", partition="t-0", after=[1, 2], error="disk")
    assert words_of(row) == "partition=t-0 after=[1, 2] error=disk"


# ---- what was missed


def began(at_ms: int, epoch: Any, partition: str = "orders-3", **given: Any) -> dict[str, Any]:
    return event("leader_began", at_ms, partition=partition, leader_epoch=epoch, **given)


def test_epochs_that_are_left_out_were_not_seen() -> None:
    rows = [began(10, 3), began(20, 6), began(30, 7), began(40, 9)]
    assert [gap.text for gap in gaps_in(rows)] == [
        "epochs 4 and 5 of orders-3 were not seen",
        "epoch 8 of orders-3 was not seen",
    ]
    assert (gaps_in(rows)[0].after_ms, gaps_in(rows)[0].before_ms) == (10, 20)
    assert gaps_in([began(1, 1), began(2, 9)])[0].text == "epochs 2 to 8 of orders-3 were not seen"


@pytest.mark.parametrize(
    "rows",
    [
        [began(1, 4)],
        [began(1, 4), began(2, 5), began(3, 5, broker_id=2)],
        [began(1, 6), began(2, 5)],  # clocks of brokers differ
        [began(1, 4), began(2, 9, "orders-4")],
        [began(1, 4), event("follower_truncated", 2, partition="orders-3", leader_epoch=9)],
        [began(1, 4), began(2, "9")],
        [began(1, 9), event("topic_created", 2, topic="orders"), began(3, 0)],
    ],
)
def test_what_is_no_gap(rows: list[dict[str, Any]]) -> None:
    assert gaps_in(rows) == []


def test_a_topic_that_was_made_again_begins_anew() -> None:
    rows = [
        began(1, 2),
        began(2, 4),
        event("topic_created", 3, topic="orders"),
        began(4, 0),
        began(5, 2),
    ]
    assert [gap.epochs for gap in gaps_in(rows)] == [(3,), (1,)]


def test_brokers_forget_their_oldest_events() -> None:
    rows = [event("x", sequence=7), event("x", sequence=9), event("x", broker_id=2, sequence=0)]
    assert forgotten_by(rows) == {1: 7}
    assert forgotten_by([]) == {}


# ---- lanes


def test_lanes_from_above() -> None:
    rows = [
        event("controller_elected"),
        event("broker_serves", broker_id=2),
        event("isr_changed", partition="b-1"),
        event("isr_changed", partition="b-0"),
        event("topic_created", topic="a"),
    ]
    lanes = lanes_of(rows, [1, 2, 3])
    assert [(name, len(held)) for name, held in lanes] == [
        ("controller", 1),
        ("broker 1", 0),
        ("broker 2", 1),
        ("broker 3", 0),
        ("topic b", 2),
        ("topic a", 1),
    ]


def test_topics_with_few_events_share_a_lane() -> None:
    rows = [event("topic_created", topic=f"t{n:02}") for n in range(TOPICS_MAX + 3)]
    lanes = dict(lanes_of(rows, []))
    assert len(lanes["other topics"]) == 3
    assert len([name for name in lanes if name.startswith("topic ")]) == TOPICS_MAX


def draw(
    rows: list[dict[str, Any]], *gaps: Gap, since_ms: int = 0, until_ms: int = 10_000
) -> ET.Element:
    picture: Picture = lanes_picture(rows, gaps, [1], since_ms=since_ms, until_ms=until_ms)
    return ET.fromstring(str(picture))


def titles(root: ET.Element, kind: str) -> list[str]:
    groups = [each for each in root.iter("g") if kind in each.get("class", "").split()]
    return [each.findtext("title") or "" for each in groups]


def test_marks_have_letters_shapes_and_words() -> None:
    root = draw(
        [
            event("isr_changed", 1_000, partition="t-0", after=[1]),
            event("log_dir_offline", 5_000, level="error", log_dir="/data"),
        ]
    )
    assert titles(root, "event") == [
        "log_dir_offline log_dir=/data",
        "isr_changed partition=t-0 after=[1]",
    ]
    assert titles(root, "bad") == ["log_dir_offline log_dir=/data"]
    assert len(list(root.iter("polygon"))) == 1
    letters = [each.text for each in root.iter("text") if each.get("class") == "letter"]
    assert letters == ["D", "I"]
    words = [each.text for each in root.iter("text") if each.get("class") == "label"]
    assert "isr_changed" in words


def test_marks_of_one_kind_that_lie_together_are_one() -> None:
    rows = [event("isr_changed", 1_000 + n, partition="t-0") for n in range(9)]
    rows.append(event("leader_began", 1_010, partition="t-0", leader_epoch=1))
    root = draw(rows)
    isr, leader = titles(root, "event")
    assert isr.endswith("and 3 more")
    assert leader.startswith("leader_began")
    assert "9" in [each.text for each in root.iter("text")], "there is no room for words"


def test_marks_of_several_names_are_named_by_their_kind() -> None:
    began, changed = event("leader_began", 1_000), event("leader_changed", 1_001)
    words = [each.text for each in draw([began, changed]).iter("text")]
    assert "2 × leader" in words
    assert "2 × leader_began" in [each.text for each in draw([began, began]).iter("text")]


def test_a_gap_is_drawn_on_the_lane_of_its_topic() -> None:
    gap = Gap("t-0", (4, 5), 1_000, 6_000)
    root = draw([event("topic_created", 500, topic="t")], gap)
    assert titles(root, "gap") == ["epochs 4 and 5 of t-0 were not seen"]
    (line,) = [each for each in root.iter("line") if each.get("class") == "gap"]
    assert line.get("stroke-dasharray") is not None
    assert float(line.get("x1", "")) < float(line.get("x2", "")) <= WIDTH
    assert titles(draw([], gap), "gap") == []


def test_everything_lies_within_the_picture() -> None:
    rows = [event("isr_changed", at_ms, partition="t-0") for at_ms in (0, 5, 50_000)]
    root = draw(rows, since_ms=1_000, until_ms=1_000)
    for each in root.iter("circle"):
        assert 0 <= float(each.get("cx", "")) <= WIDTH


def test_scripts_know_the_times_of_the_picture() -> None:
    root = draw([event("topic_created", 1_500, topic="t")], since_ms=1_000, until_ms=4_000)
    assert (root.get("data-since"), root.get("data-until")) == ("1000", "4000")
    (mark,) = root.iter("circle")
    left, right = float(root.get("data-left", "")), float(root.get("data-right", ""))
    assert abs(float(mark.get("cx", "")) - (left + (right - left) / 6)) < 1


def test_names_cannot_become_markup() -> None:
    text = str(
        lanes_picture([event("topic_created", 1, topic="<script>")], (), [], since_ms=0, until_ms=2)
    )
    assert "<script>" not in text
