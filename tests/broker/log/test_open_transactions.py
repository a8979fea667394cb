"""Undecided transactions agree with a list of all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.open_transactions import (
    NONE_UNDECIDED,
    EndedTransaction,
    OpenTransactions,
)
from support.memory import size_of


def test_a_transaction_is_undecided_until_its_marker_is_committed() -> None:
    transactions = OpenTransactions()
    assert transactions.first_undecided == NONE_UNDECIDED
    transactions.began(10)
    transactions.began(20)
    assert transactions.first_undecided == 10
    transactions.ended(10, 30)
    assert (transactions.first_undecided, transactions.first_open(99)) == (10, 20)
    transactions.committed(30)
    assert transactions.first_undecided == 10, "the marker is at the high watermark, not below"
    transactions.committed(31)
    assert transactions.first_undecided == 20
    transactions.ended(20, 40)
    assert transactions.first_open(99) == 99
    transactions.committed(41)
    assert transactions.first_undecided == NONE_UNDECIDED
    assert transactions.open_count == 0


def test_one_that_ended_later_and_began_earlier_holds_the_others() -> None:
    transactions = OpenTransactions()
    for first in (1, 2, 3):
        transactions.began(first)
    transactions.ended(3, 10)
    transactions.ended(2, 11)
    assert transactions.snapshot() == [EndedTransaction(3, 10), EndedTransaction(2, 11)]
    assert transactions.first_uncommitted_marker() == 10
    transactions.committed(100)
    assert transactions.first_undecided == 1
    assert transactions.first_uncommitted_marker() == NONE_UNDECIDED


def test_a_log_at_rest_keeps_nothing_of_its_transactions() -> None:
    """A broker has thousands of such logs."""
    transactions, fresh = OpenTransactions(), OpenTransactions()
    at_first = size_of(fresh)
    transactions.began(1)
    transactions.ended(1, 5)
    transactions.committed(6)
    transactions.checkpointed(5)
    assert transactions.snapshot() == [EndedTransaction(1, 5)]
    transactions.checkpointed(6)
    assert size_of(transactions) == at_first
    transactions.truncate(3, [])
    assert size_of(transactions) == at_first
    transactions.began(7)
    assert transactions.first_undecided == 7


def test_what_a_snapshot_says_is_taken_over_in_any_order() -> None:
    transactions = OpenTransactions()
    transactions.reset([9, 4], [EndedTransaction(2, 30), EndedTransaction(7, 20)])
    assert transactions.first_undecided == 2
    assert transactions.first_open(99) == 4
    transactions.committed(31)
    assert transactions.first_undecided == 4
    transactions.reset([], [])
    assert transactions.first_undecided == NONE_UNDECIDED


def test_a_start_goes_by_the_high_watermark_that_was_written() -> None:
    """It lags: a snapshot still names what it may not know to be committed."""
    transactions = OpenTransactions()
    transactions.began(1)
    transactions.ended(1, 5)
    transactions.began(6)
    transactions.ended(6, 8)
    transactions.committed(9)
    assert transactions.first_undecided == NONE_UNDECIDED
    assert transactions.snapshot() == [EndedTransaction(1, 5), EndedTransaction(6, 8)]
    transactions.checkpointed(6)
    assert transactions.snapshot() == [EndedTransaction(6, 8)]
    again = OpenTransactions()
    again.reset([], transactions.snapshot())
    assert again.first_undecided == 6
    again.committed(7)
    assert again.first_undecided == 6
    transactions.truncate(8, [6])
    assert transactions.snapshot() == []
    assert transactions.first_undecided == 6


@given(st.lists(st.tuples(st.sampled_from("bec"), st.integers(0, 30)), max_size=60))
def test_the_first_one_is_the_least_of_all_that_are_left(
    steps: list[tuple[str, int]],
) -> None:
    transactions = OpenTransactions()
    opened: list[int] = []
    ended: list[tuple[int, int]] = []
    for end, (step, number) in enumerate(steps):
        if step == "b":
            transactions.began(end)
            opened.append(end)
        elif step == "e" and opened:
            first = opened.pop(number % len(opened))
            transactions.ended(first, end)
            ended.append((first, end))
        elif step == "c":
            mark = max(0, end - number)
            transactions.committed(mark)
            ended = [each for each in ended if each[1] >= mark]
        left = [*opened, *[first for first, _ in ended]]
        assert transactions.first_undecided == min(left, default=NONE_UNDECIDED)
        assert transactions.first_open(end) == min(opened, default=end)
