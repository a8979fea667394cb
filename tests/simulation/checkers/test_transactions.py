"""Checkers of transactions find what is open in the end, and read what values say."""

from __future__ import annotations

import pytest

from simulation.checkers import transactions_are_decided
from simulation.checkers.copies_match_inputs import copied, copy_of
from simulation.checkers.money_is_conserved import amount_of, booking_of
from simulation.checkers.transactions_are_decided import Open
from simulation.checkers.verdict import verdict
from simulation.checkers.violation import Rules
from simulation.stories import story

UNCOMMITTED = Rules(read_committed=False)
X, Y = ("x", 0), ("y", 0)

OPEN = Open(7, 0, 5)


@pytest.mark.parametrize("partitions", [{X: [OPEN]}, {X: [], Y: [OPEN, Open(8, 3, 9)]}])
def test_what_is_open_in_the_end_is_found(partitions: dict[tuple[str, int], list[Open]]) -> None:
    found = transactions_are_decided.check(partitions, Rules())
    assert [violation.anomaly for violation in found] == ["A28"]
    assert "producer 7 epoch 0 since offset 5" in str(found[0])
    assert verdict(story("p1 send x a !"), Rules(), undecided=partitions) == found


@pytest.mark.parametrize(
    ("partitions", "rules"),
    [({X: [], Y: []}, Rules()), ({X: [OPEN]}, Rules(loss_permitted=True))],
)
def test_what_is_decided_is_accepted(
    partitions: dict[tuple[str, int], list[Open]], rules: Rules
) -> None:
    assert transactions_are_decided.check(partitions, rules) == []


def test_at_read_uncommitted_nothing_is_promised() -> None:
    text = """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 aborted bank:1
        c1 poll x a=-5@0
        """
    assert verdict(story(text), UNCOMMITTED) == []


def test_values_say_what_they_are() -> None:
    value = copy_of(b"o/1/copier/3", "g1", ("t", 2), 17)
    assert copied(value) == ("g1", ("t", 2), 17)
    assert copied(b"o/1/copier/3/") is None
    assert amount_of(booking_of(b"b/0/bank/4", -12) + b"....") == -12
    assert amount_of(b"b/0/bank/4") is None
