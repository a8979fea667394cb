"""Pictures of a log say in words, letters and edges what is drawn, not by colours alone."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from oncelog_console.log_pictures import (
    WIDTH,
    axis_picture,
    batch_title,
    batches_picture,
    is_aborted,
    is_thinned,
    letter_of,
)
from oncelog_console.svg import Picture
from support.log_documents import batch, log_document, segment


def titles(picture: Picture) -> list[str]:
    return [each.text or "" for each in ET.fromstring(str(picture)).iter("title")]


def texts(picture: Picture) -> list[str]:
    return [each.text or "" for each in ET.fromstring(str(picture)).iter("text")]


def test_an_axis_with_segments_epochs_and_what_was_aborted() -> None:
    document = log_document(
        epochs=[
            {"leader_epoch": 1, "start_offset": 0},
            {"leader_epoch": 4, "start_offset": 15},
        ],
        aborted=[{"producer_id": 7, "first_offset": 3, "marker_offset": 6}],
    )
    assert titles(axis_picture(document, 10)) == [
        "the log of orders-3 at broker 1, 0 to 20",
        "segment 0 to 10, 1,000 B",
        "segment 10 to 20, 1,000 B, active, shown below",
        "leader epoch 1 from 0",
        "leader epoch 4 from 15",
        "aborted by producer 7: 3 to 6",
    ]
    assert "LSO 18" in texts(axis_picture(document))
    assert "HW = synced = end 20" in texts(axis_picture(document)), "each place once"


def test_an_axis_lies_within_its_picture() -> None:
    document = log_document(
        log_start_offset=4, segments=[segment(n, n + 10) for n in range(0, 5_000, 10)]
    )
    for picture in (axis_picture(document), axis_picture(log_document(segments=[]))):
        for box in ET.fromstring(str(picture)).iter("rect"):
            left, width = float(box.get("x", "")), float(box.get("width", ""))
            assert 0 <= left <= left + width <= WIDTH


def test_an_empty_log() -> None:
    document = log_document(
        segments=[segment(0, 0)],
        epochs=[],
        last_stable_offset=0,
        high_watermark=0,
        synced_offset=0,
        log_end_offset=0,
    )
    assert "start = LSO = HW = synced = end 0" in texts(axis_picture(document))
    assert titles(batches_picture(document)) == ["no batches"]


def test_boxes_have_letters_hatches_and_ticks() -> None:
    in_txn = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    document = log_document(
        batches=[
            batch(0, 4),
            batch(4, 2, **in_txn, leader_epoch=2),
            batch(6, 1, **in_txn, marker="abort", leader_epoch=2),
            batch(7, 1, **in_txn, marker="commit", leader_epoch=2),
            batch(8, 3, record_count=1, leader_epoch=2),
        ],
        aborted=[{"producer_id": 7, "first_offset": 4, "marker_offset": 6}],
        index=[{"offset": 4, "position": 400, "max_timestamp_before_ms": 1}],
        found={"offset": 5, "batch_base_offset": 4},
    )
    picture = batches_picture(document)
    root = ET.fromstring(str(picture))
    assert [each.text for each in root.iter("text") if each.get("class") == "letter"] == [
        "T",
        "A",
        "C",
    ]
    boxes = [box for box in root.iter("rect") if "batch" in box.get("class", "")]
    assert [box.get("fill") is not None for box in boxes] == [False, True, True, False, False]
    assert boxes[4].get("stroke-dasharray") is not None
    assert float(boxes[0].get("width", "")) > float(boxes[1].get("width", ""))
    ticks = [each for each in root.iter("line") if each.get("class") == "index-tick"]
    assert len(ticks) == 1
    assert "▼ 5" in texts(picture)
    assert "epoch 1" in texts(picture)
    assert len(boxes) == len(titles(picture)) - 1


def test_many_boxes_go_on_in_the_next_line() -> None:
    document = log_document(batches=[batch(2 * n) for n in range(100)])
    boxes = [
        box
        for box in ET.fromstring(str(batches_picture(document))).iter("rect")
        if "batch" in box.get("class", "")
    ]
    assert len(boxes) == 100
    assert max(float(box.get("x", "")) + float(box.get("width", "")) for box in boxes) <= WIDTH
    assert len({box.get("y") for box in boxes}) > 3


@pytest.mark.parametrize(
    ("given", "letter"),
    [
        ({}, ""),
        ({"transactional": True}, "T"),
        ({"transactional": True, "marker": "commit"}, "C"),
        ({"transactional": True, "marker": "abort"}, "A"),
        ({"transactional": True, "marker": "unknown"}, "?"),
    ],
)
def test_letters(given: dict[str, Any], letter: str) -> None:
    assert letter_of(batch(0, **given)) == letter


def test_only_records_of_the_same_producer_are_aborted() -> None:
    rows = [{"producer_id": 7, "first_offset": 4, "marker_offset": 6}]
    assert is_aborted(batch(4, producer_id=7, transactional=True), rows)
    assert not is_aborted(batch(4, producer_id=8, transactional=True), rows)
    assert not is_aborted(batch(7, producer_id=7, transactional=True), rows)
    assert not is_aborted(batch(4, producer_id=7), rows)


def test_a_batch_in_words() -> None:
    assert batch_title(batch(1_000), False) == "offset 1,000 to 1,001: 2 records, 200 B, epoch 1"
    told = batch(5, 3, record_count=1, codec="zstd", producer_id=7, transactional=True)
    assert is_thinned(told)
    assert batch_title(told, True) == (
        "offset 5 to 7: 1 records, 300 B, epoch 1, zstd, compacted: 1 of 3 left, producer 7,"
        " in a transaction, aborted"
    )
    assert batch_title(batch(5, 1, marker="abort"), False).startswith("offset 5: abort marker")
