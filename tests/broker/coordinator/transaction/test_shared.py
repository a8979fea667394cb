"""These tests check the rules of shared transactions."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.transaction.ordinary import (
    Now,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
)
from oncelog_broker.coordinator.transaction.records import SavedShared, SavedWriter
from oncelog_broker.coordinator.transaction.shared import (
    Ended,
    JoinedTxn,
    add,
    check_ordinal,
    end,
    join,
    may_be_forgotten,
)
from oncelog_broker.coordinator.transaction.states import (
    Ending,
    IllegalTxnTransitionError,
    StillEndingError,
    TxnState,
)
from oncelog_protocol.errors import (
    InvalidRequestError,
    InvalidTxnStateError,
    PolicyViolationError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.messages.shared_transactions import LAST_TAG
from oncelog_protocol.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
OPEN = SavedShared(
    TxnState.ONGOING, 5, 10, 60_000, 1_000, 1_000, last_committed_tag=9, last_committed_ordinal=4
)
WRITERS = {21: SavedWriter(5, "v", (A0,)), 22: SavedWriter(5, "w", (A0, A1))}
NAMES = {"v": 21, "w": 22}
COMMITTED = OPEN._replace(
    state=TxnState.PREPARE_COMMIT,
    changed_ms=5_000,
    last_committed_tag=10,
    last_committed_ordinal=5,
    winners=(22,),
)
ABORTED = OPEN._replace(state=TxnState.PREPARE_ABORT, changed_ms=5_000)


def joined(
    saved: SavedShared | None, ordinal: int, tag: int, writer: str = "n", fresh: int | None = 30
) -> JoinedTxn:
    now = Now(5_000, fresh)
    names = NAMES if saved is not None else {}
    return join(saved, names, ordinal, tag, writer, 60_000, now, writer_count_max=3)


def ended(
    saved: SavedShared | None, ordinal: int, tag: int, winners: list[int] | None = None
) -> Ended:
    return end(saved, WRITERS, ordinal, tag, winners is not None, winners or [], 5_000)


def test_ordinals_and_tags_do_not_go_back() -> None:
    check_ordinal(OPEN, COMMITTED)
    for wrong in (
        OPEN._replace(ordinal=4),
        OPEN._replace(last_committed_tag=8),
        OPEN._replace(ordinal=6, last_committed_tag=8),
    ):
        with pytest.raises(IllegalTxnTransitionError):
            check_ordinal(OPEN, wrong)


# ---- joining


def test_the_first_writer_binds_ordinal_and_tag() -> None:
    found = joined(None, 5, 10)
    assert found.producer_id == 30
    assert found.writer == SavedWriter(5, "n")
    assert found.state == OPEN._replace(
        start_ms=5_000, changed_ms=5_000, last_committed_tag=-1, last_committed_ordinal=-1
    )
    with pytest.raises(ProducerIdNeededError):
        joined(None, 5, 10, fresh=None)


def test_more_writers_and_those_who_ask_again() -> None:
    assert joined(OPEN, 5, 10) == JoinedTxn(30, None, SavedWriter(5, "n"))
    assert joined(OPEN, 5, 10, "w", fresh=None) == JoinedTxn(22)
    with pytest.raises(PolicyViolationError):
        join(OPEN, NAMES, 5, 10, "n", 1, Now(0, 30), writer_count_max=2)


@pytest.mark.parametrize(
    ("saved", "ordinal", "tag", "error"),
    [
        (OPEN, 5, 9, TransactionAlreadyCommittedError),
        (OPEN, 4, 8, TransactionAlreadyCommittedError),
        (OPEN, 6, 9, TransactionAlreadyCommittedError),
        (OPEN, 4, 10, ProducerFencedError),
        (OPEN, 5, 11, InvalidTxnStateError),
        (COMMITTED, 5, 10, TransactionAlreadyCommittedError),
        (COMMITTED, 6, 10, TransactionAlreadyCommittedError),
        (COMMITTED, 5, 11, ProducerFencedError),
        (COMMITTED, 6, 11, StillEndingError),
        (ABORTED, 5, 10, ProducerFencedError),
        (ABORTED, 6, 10, StillEndingError),
        (ABORTED.completed(0), 5, 10, ProducerFencedError),
        (COMMITTED.completed(0), 5, 10, TransactionAlreadyCommittedError),
    ],
)
def test_who_may_not_join(
    saved: SavedShared, ordinal: int, tag: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        joined(saved, ordinal, tag)


def test_a_newer_ordinal_ends_an_open_transaction_and_follows_a_complete_one() -> None:
    assert joined(OPEN, 6, 10) == JoinedTxn(-1, ABORTED._replace(ending=Ending.FENCE))
    for saved, last_tag, last_ordinal in (
        (ABORTED.completed(0), 9, 4),
        (COMMITTED.completed(0), 10, 5),
    ):
        found = joined(saved, 6, 11)
        assert found.state == SavedShared(
            TxnState.ONGOING, 6, 11, 60_000, 5_000, 5_000, last_tag, last_ordinal
        )


# ---- adding


def test_a_writer_gets_its_partitions() -> None:
    def adding(
        saved: SavedShared,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        verify: bool = False,
    ) -> SavedWriter | None:
        return add(saved, WRITERS, producer, partitions, verify_only=verify, partition_count_max=2)

    assert adding(OPEN, ProducerIdAndEpoch(21, 0), A0) is None
    assert adding(OPEN, ProducerIdAndEpoch(21, 0), A0, A1, A1) == SavedWriter(5, "v", (A0, A1))
    assert adding(OPEN, ProducerIdAndEpoch(22, 0), A1, verify=True) is None
    with pytest.raises(TransactionAbortableError):
        adding(OPEN, ProducerIdAndEpoch(21, 0), A1, verify=True)
    with pytest.raises(PolicyViolationError):
        adding(OPEN, ProducerIdAndEpoch(22, 0), TopicPartition("b", 0))
    for saved, producer in (
        (OPEN, ProducerIdAndEpoch(21, 1)),
        (OPEN, ProducerIdAndEpoch(23, 0)),
        (COMMITTED, ProducerIdAndEpoch(22, 0)),
        (ABORTED, ProducerIdAndEpoch(22, 0)),
    ):
        with pytest.raises(ProducerFencedError):
            adding(saved, producer, A0)


# ---- ending


def test_a_commit_names_its_winners() -> None:
    assert ended(OPEN, 5, 10, [22, 22]) == Ended(True, False, (COMMITTED,))
    nobody = ended(OPEN, 5, 10, [])
    assert nobody.states == (COMMITTED._replace(winners=()),)
    with pytest.raises(InvalidRequestError):
        ended(OPEN, 5, 10, [22, 23])


def test_an_abort_needs_no_winners() -> None:
    assert ended(OPEN, 5, 10) == Ended(False, False, (ABORTED,))


@pytest.mark.parametrize("is_complete", [False, True])
def test_what_was_decided_is_said_again(is_complete: bool) -> None:
    committed = COMMITTED.completed(0) if is_complete else COMMITTED
    aborted = ABORTED.completed(0) if is_complete else ABORTED
    assert ended(committed, 5, 10, [22]) == Ended(True, True)
    assert ended(committed, 5, 10) == Ended(True, True)
    assert ended(aborted, 5, 10) == Ended(False, True)
    with pytest.raises(ProducerFencedError):
        ended(aborted, 5, 10, [22])
    with pytest.raises(InvalidTxnStateError):
        ended(aborted, 5, 11)


def test_a_commit_is_remembered_when_the_next_ordinal_is_bound() -> None:
    assert ended(OPEN, 4, 9, []) == Ended(True, True)
    with pytest.raises(ProducerFencedError):
        ended(OPEN, 3, 9)
    with pytest.raises(ProducerFencedError):
        ended(OPEN, 3, 9, [])


def test_an_ordinal_that_nobody_has_joined() -> None:
    for saved in (None, OPEN, COMMITTED.completed(0)):
        with pytest.raises(InvalidTxnStateError):
            ended(saved, 6, 11, [])
    assert ended(OPEN, 6, 9, []) == Ended(True, True)
    with pytest.raises(InvalidTxnStateError):
        ended(OPEN, 6, 9, [22])
    with pytest.raises(StillEndingError):
        ended(COMMITTED, 6, 11)
    first = ended(OPEN, 6, 11)
    assert (first.goes_on, first.states) == (True, (ABORTED._replace(ending=Ending.FENCE),))
    prepared, done = ended(COMMITTED.completed(0), 6, 11).states
    assert (prepared.state, done.state) == (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)
    assert (done.ordinal, done.last_committed_tag) == (6, 10)
    with pytest.raises(ProducerFencedError):
        joined(done, 6, 11)


def test_nothing_but_the_tag_is_left_of_what_is_complete() -> None:
    done = COMMITTED.completed(9_000)
    assert (done.state, done.winners, done.start_ms) == (TxnState.COMPLETE_COMMIT, (), -1)
    assert done.last_committed_tag == 10


def test_only_what_tells_nothing_any_more_may_be_forgotten() -> None:
    assert not may_be_forgotten(COMMITTED)
    assert not may_be_forgotten(ABORTED)
    assert may_be_forgotten(ABORTED._replace(last_committed_tag=-1, last_committed_ordinal=-1))
    assert may_be_forgotten(COMMITTED._replace(tag=LAST_TAG, last_committed_tag=LAST_TAG))
