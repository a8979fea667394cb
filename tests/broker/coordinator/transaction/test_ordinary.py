"""Each request meets each state under the rules of ordinary transactions."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.transaction.ordinary import (
    PRODUCER_EPOCH_MAX,
    Now,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
    add,
    check_producer,
    end,
    init,
    present,
    timed_out,
)
from oncelog_broker.coordinator.transaction.records import SavedTransaction
from oncelog_broker.coordinator.transaction.states import (
    Ending,
    IllegalTxnTransitionError,
    StillEndingError,
    TxnState,
)
from oncelog_protocol.errors import (
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    PolicyViolationError,
    ProducerFencedError,
    TransactionAbortableError,
)
from oncelog_protocol.types import TopicPartition
from unsafe.coordinators import without

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW = Now(5_000, None)
NOBODY = ProducerIdAndEpoch(-1, -1)
EMPTY = SavedTransaction(TxnState.EMPTY, 7, 3, 60_000)
OPEN = EMPTY._replace(state=TxnState.ONGOING, start_ms=1_000, partitions=(A0,))


BEGUN = OPEN._replace(producer_epoch=4, marker_id=7, marker_epoch=4)


def ended(commit: bool = True, ending: Ending = Ending.CLIENT) -> SavedTransaction:
    """Return the PREPARE of ``OPEN``."""
    return OPEN._replace(
        state=TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT,
        producer_epoch=4,
        marker_id=7,
        marker_epoch=4,
        ending=ending,
    )


def complete(commit: bool = True, ending: Ending = Ending.CLIENT) -> SavedTransaction:
    return ended(commit, ending).completed(5_000)


def added(
    saved: SavedTransaction | None, producer: ProducerIdAndEpoch, *partitions: TopicPartition
) -> object:
    step = add(saved, producer, partitions, verify_only=False, partition_count_max=2, now_ms=5_000)
    return step.states


def verified(
    saved: SavedTransaction, producer: ProducerIdAndEpoch, *partitions: TopicPartition
) -> None:
    step = add(saved, producer, partitions, verify_only=True, partition_count_max=2, now_ms=5_000)
    assert step.states == ()


# ---- InitPid


def test_an_unknown_id_gets_a_producer_id() -> None:
    with pytest.raises(ProducerIdNeededError):
        init(None, NOBODY, 60_000, NOW)
    for named in (NOBODY, ProducerIdAndEpoch(3, 3)):
        (new,) = init(None, named, 60_000, Now(5_000, 9)).states
        assert (new.state, present(new)) == (TxnState.EMPTY, (9, 0))


@pytest.mark.parametrize("saved", [EMPTY, complete()._replace(producer_epoch=3), complete(False)])
def test_at_rest_the_epoch_rises(saved: SavedTransaction) -> None:
    (new,) = init(saved, NOBODY, 1_000, NOW).states
    assert present(new) == (7, saved.producer_epoch + 1)
    assert (new.state, new.timeout_ms, new.marker_id) == (TxnState.EMPTY, 1_000, -1)
    check_producer(saved, new)


def test_an_open_transaction_is_aborted_first() -> None:
    for named, ending in ((NOBODY, Ending.FENCE), (ProducerIdAndEpoch(7, 3), Ending.REINIT)):
        step = init(OPEN, named, 1_000, NOW)
        assert step.goes_on
        assert step.states == (ended(False, ending)._replace(changed_ms=5_000),)


@pytest.mark.parametrize("commit", [True, False])
def test_what_is_being_ended_is_waited_for(commit: bool) -> None:
    for named in (NOBODY, ProducerIdAndEpoch(7, 3), ProducerIdAndEpoch(7, 4)):
        with pytest.raises(StillEndingError):
            init(ended(commit), named, 1_000, NOW)


@pytest.mark.parametrize(
    ("saved", "epoch", "served"),
    [
        (EMPTY, 3, True),
        (EMPTY, 2, False),
        (EMPTY, 4, False),
        (OPEN, 3, True),
        (OPEN, 2, False),
        (complete(), 4, True),
        (complete(), 3, True),
        (complete(), 2, False),
        (complete(False, Ending.TIMEOUT), 3, True),
        (complete(False, Ending.REINIT), 3, True),
        (complete(False, Ending.FENCE), 3, False),
        (ended(False, Ending.FENCE), 3, False),
    ],
)
def test_who_names_itself_is_served_or_fenced(
    saved: SavedTransaction, epoch: int, served: bool
) -> None:
    if served:
        assert init(saved, ProducerIdAndEpoch(7, epoch), 1_000, NOW).states
    else:
        with pytest.raises(ProducerFencedError):
            init(saved, ProducerIdAndEpoch(7, epoch), 1_000, NOW)


def test_a_repeated_init_gives_the_same_until_something_happens() -> None:
    (once,) = init(EMPTY, ProducerIdAndEpoch(7, 3), 1_000, NOW).states
    assert init(once, ProducerIdAndEpoch(7, 3), 1_000, NOW).states == ()
    (taken,) = init(once, NOBODY, 1_000, NOW).states
    begun = once._replace(state=TxnState.ONGOING, init_id=-1, init_epoch=-1)
    for later in (taken, begun):
        with pytest.raises(ProducerFencedError):
            init(later, ProducerIdAndEpoch(7, 3), 1_000, NOW)


def test_used_up_epochs() -> None:
    last = EMPTY._replace(producer_epoch=PRODUCER_EPOCH_MAX)
    with pytest.raises(ProducerIdNeededError):
        init(last, NOBODY, 1_000, NOW)
    (new,) = init(last, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), 1_000, Now(0, 9)).states
    assert present(new) == (9, 0)
    assert init(new, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), 1_000, NOW).states == ()


# ---- AddPartitionsToTxn


def test_the_first_partition_begins_a_transaction() -> None:
    once = EMPTY._replace(init_id=7, init_epoch=2)
    for saved in (once, complete(), complete(False)):
        step = add(
            saved,
            present(saved),
            [A0, A0],
            verify_only=False,
            partition_count_max=2,
            now_ms=5_000,
        )
        (begun,) = step.states
        assert (begun.state, begun.partitions) == (TxnState.ONGOING, (A0,))
        assert (begun.start_ms, begun.init_id) == (5_000, -1)


def test_an_open_transaction_grows_and_knows_what_it_has() -> None:
    assert added(OPEN, ProducerIdAndEpoch(7, 3), A0, A1) == (
        OPEN._replace(partitions=(A0, A1), changed_ms=5_000),
    )
    assert added(OPEN, ProducerIdAndEpoch(7, 3), A0) == ()
    with pytest.raises(PolicyViolationError):
        added(OPEN, ProducerIdAndEpoch(7, 3), A1, TopicPartition("b", 0))


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    with pytest.raises(StillEndingError):
        added(ended(), ProducerIdAndEpoch(7, 4), A0)


@pytest.mark.parametrize(
    ("saved", "producer", "error"),
    [
        (None, ProducerIdAndEpoch(7, 3), InvalidProducerIdMappingError),
        (EMPTY, ProducerIdAndEpoch(8, 3), InvalidProducerIdMappingError),
        (EMPTY, ProducerIdAndEpoch(-1, -2), InvalidProducerIdMappingError),
        (EMPTY, ProducerIdAndEpoch(7, 2), ProducerFencedError),
        (EMPTY, ProducerIdAndEpoch(7, 4), ProducerFencedError),
        (OPEN, ProducerIdAndEpoch(7, 2), ProducerFencedError),
        (ended(), ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (complete(False), ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (complete(False, Ending.REINIT), ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (BEGUN, ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (BEGUN, ProducerIdAndEpoch(7, 2), ProducerFencedError),
        (ended(False, Ending.FENCE), ProducerIdAndEpoch(7, 3), ProducerFencedError),
        (ended(False, Ending.TIMEOUT), ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (complete(False, Ending.TIMEOUT), ProducerIdAndEpoch(7, 3), TransactionAbortableError),
        (complete(False, Ending.TIMEOUT), ProducerIdAndEpoch(7, 2), ProducerFencedError),
    ],
)
def test_who_may_not_add(
    saved: SavedTransaction | None, producer: ProducerIdAndEpoch, error: type[Exception]
) -> None:
    with pytest.raises(error):
        added(saved, producer, A0)


def test_verification_adds_nothing_and_waits_for_nothing() -> None:
    verified(OPEN, ProducerIdAndEpoch(7, 3), A0)
    for saved in (OPEN, EMPTY, ended(), complete()):
        with pytest.raises(TransactionAbortableError):
            verified(saved, present(saved), A1)


# ---- EndTxn


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_ends_and_the_epoch_rises(commit: bool) -> None:
    (new,) = end(OPEN, ProducerIdAndEpoch(7, 3), commit, NOW).states
    assert new == ended(commit)._replace(changed_ms=5_000)


def test_an_abort_of_nothing_raises_the_epoch_and_a_commit_of_nothing_is_refused() -> None:
    for saved in (EMPTY, complete(), complete(False, Ending.TIMEOUT)):
        producer = present(saved)
        prepared, done = end(saved, producer, False, NOW).states
        assert (prepared.state, done.state) == (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)
        assert present(done) == (7, producer.epoch + 1)
        assert end(done, producer, False, NOW).states == ()
        with pytest.raises(InvalidTxnStateError):
            end(saved, producer, True, NOW)


def test_the_end_of_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    for commit in (True, False):
        with pytest.raises(StillEndingError):
            end(ended(), ProducerIdAndEpoch(7, 4), commit, NOW)


YES = None
MATRIX = [
    # how it ended, by whom, commit asked again, abort asked again
    (True, Ending.CLIENT, YES, InvalidTxnStateError),
    (False, Ending.CLIENT, InvalidTxnStateError, YES),
    (False, Ending.TIMEOUT, TransactionAbortableError, YES),
    (False, Ending.FENCE, ProducerFencedError, ProducerFencedError),
    (False, Ending.REINIT, InvalidTxnStateError, YES),
]


@pytest.mark.parametrize(("committed", "ending", "commit_again", "abort_again"), MATRIX)
def test_the_retry_matrix(
    committed: bool,
    ending: Ending,
    commit_again: type[Exception] | None,
    abort_again: type[Exception] | None,
) -> None:
    for saved in (ended(committed, ending), complete(committed, ending)):
        for commit, error in ((True, commit_again), (False, abort_again)):
            if error is None:
                assert end(saved, ProducerIdAndEpoch(7, 3), commit, NOW).states == ()
            else:
                with pytest.raises(error):
                    end(saved, ProducerIdAndEpoch(7, 3), commit, NOW)


def test_an_end_of_long_ago_is_fenced() -> None:
    begun = OPEN._replace(producer_epoch=4, marker_id=7, marker_epoch=4)
    for saved in (begun, ended(), complete()):
        for epoch in (0, 1, 2):
            with pytest.raises(ProducerFencedError):
                end(saved, ProducerIdAndEpoch(7, epoch), False, NOW)
    with pytest.raises(ProducerFencedError):
        end(begun, ProducerIdAndEpoch(7, 3), True, NOW)
    for unknown in (None, EMPTY):
        with pytest.raises(InvalidProducerIdMappingError):
            end(unknown, ProducerIdAndEpoch(8, 3), True, NOW)


def test_used_up_epochs_at_the_end_of_a_transaction() -> None:
    last = OPEN._replace(producer_epoch=PRODUCER_EPOCH_MAX)
    with pytest.raises(ProducerIdNeededError):
        end(last, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), True, NOW)
    (new,) = end(last, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), True, Now(0, 9)).states
    assert present(new) == (9, 0)
    assert (new.marker_id, new.marker_epoch) == (7, PRODUCER_EPOCH_MAX + 1)
    assert end(new, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), True, NOW).states == ()
    begun = new.completed(0)._replace(state=TxnState.ONGOING)
    with pytest.raises(ProducerFencedError):
        end(begun, ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX), True, NOW)
    with pytest.raises(ProducerIdNeededError):
        timed_out(last, NOW)


def test_without_the_rule_epochs_stay() -> None:
    unsafe = without("bump_epoch_per_txn")
    (new,) = unsafe.end(OPEN, ProducerIdAndEpoch(7, 3), True, NOW).states
    assert present(new) == (7, 3)
    assert new.marker_epoch == 3
    done = new.completed(0)
    assert unsafe.end(done, ProducerIdAndEpoch(7, 3), True, NOW).states == ()


# ---- the rest


def test_the_coordinator_ends_what_takes_too_long() -> None:
    assert timed_out(OPEN, NOW) == ended(False, Ending.TIMEOUT)._replace(changed_ms=5_000)


def test_nothing_is_left_of_a_transaction_that_is_complete() -> None:
    for commit, state in ((True, TxnState.COMPLETE_COMMIT), (False, TxnState.COMPLETE_ABORT)):
        done = ended(commit).completed(9_000)
        assert (done.state, done.start_ms, done.partitions) == (state, -1, ())
        assert present(done) == (7, 4)


def test_no_pair_is_given_twice() -> None:
    check_producer(EMPTY, OPEN)
    with pytest.raises(IllegalTxnTransitionError, match="twice"):
        check_producer(complete(), EMPTY._replace(producer_epoch=4))
    with pytest.raises(IllegalTxnTransitionError, match="after"):
        check_producer(EMPTY, OPEN._replace(producer_epoch=2))
