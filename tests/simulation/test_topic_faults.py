"""Readers of a topic that was made again are judged: two that skipped, two that did not."""

from __future__ import annotations

from simulation.topic_faults import FORMER, NEW, skips

BEFORE = [(FORMER, offset) for offset in range(6)]


def new(*offsets: int) -> list[tuple[bytes, int]]:
    return [(NEW, offset) for offset in offsets]


def test_who_goes_on_at_the_position_of_before_skips() -> None:
    assert "offset 6 of the new topic, and never 0" in skips([*BEFORE, *new(6, 7)])


def test_a_gap_in_the_middle_is_a_skip() -> None:
    assert "offset 3 of the new topic, and never 2" in skips([*BEFORE, *new(0, 1, 3)])


def test_reading_again_is_no_skip() -> None:
    assert skips([*BEFORE, *new(0, 1, 2, 0, 1, 2, 3)]) == ""


def test_who_was_handed_nothing_of_it_has_skipped_nothing() -> None:
    assert skips(BEFORE) == ""
