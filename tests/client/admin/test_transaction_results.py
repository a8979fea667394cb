"""Results about transactions: lists that may lack some say so."""

from __future__ import annotations

import pytest

from oncelog.admin.results import AdminError
from oncelog.admin.transaction_results import (
    OPEN_STATES,
    TRANSACTION_STATES,
    HangingTransaction,
    HangingTransactions,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from oncelog.errors import RequestTimedOutError, UnknownTopicOrPartitionError
from oncelog_protocol.types import TopicPartition

ONE = TransactionListing("a", "Empty", 1, False, 1)
HANGS = HangingTransaction(TopicPartition("t", 0), ProducerDescription(1, 0, 0, 5, None, 7))


def test_lists_are_sequences_that_name_who_did_not_answer() -> None:
    whole = TransactionListings([ONE, ONE])
    assert (len(whole), whole[0], whole[1:], list(whole)) == (2, ONE, (ONE,), [ONE, ONE])
    assert whole.raise_for_errors() is whole
    late = RequestTimedOutError("late")
    partly = TransactionListings([ONE], {2: late})
    assert "late" in repr(partly)
    with pytest.raises(RequestTimedOutError):
        partly.raise_for_errors()
    with pytest.raises(AdminError):
        TransactionListings([], {1: late, 2: late}).raise_for_errors()


def test_a_silent_coordinator_matters_only_where_something_may_hang() -> None:
    late = RequestTimedOutError("late")
    sure = HangingTransactions([HANGS], {2: late})
    assert sure.raise_for_errors() is sure
    with pytest.raises(RequestTimedOutError):
        HangingTransactions([], {2: late}, undecided=[HANGS]).raise_for_errors()
    with pytest.raises(UnknownTopicOrPartitionError):
        HangingTransactions([], errors=[UnknownTopicOrPartitionError()]).raise_for_errors()
    assert HANGS.start_offset == 7


def test_open_is_what_a_coordinator_still_works_on() -> None:
    for state in TRANSACTION_STATES:
        assert TransactionDescription("a", state=state).is_open == (state in OPEN_STATES)
    assert set(OPEN_STATES) < set(TRANSACTION_STATES)
