"""An ordinary transactional id turns a request into its next states, or refuses it. Pure.

The epoch of a producer is that of its next transaction (KIP-890): every end raises it, and the
markers carry the raised one, so that nothing late of one transaction can touch another. Rules:

- only the present (producer id, epoch) may add and end; whoever names another pair is told why not;
- the end of a transaction is repeated as long as none has begun since and nobody took the id over:
  asked the same, the answer is the same; asked for a commit of what the coordinator aborted in the
  meantime, the producer is told to abort, and asked to abort it is told its next pair;
- an abort without a transaction raises the epoch too: batches of which nothing was heard may yet
  arrive, and must not count as the next transaction's;
- a producer that names itself in InitPid is served if it is the present one, also if its last
  transaction was ended behind its back by a time-out; a newer instance fences it;
- epoch 32,767 is for markers alone: at 32,766 the next pair is a new producer id at epoch 0.

Clients of Kafka from before KIP-890 keep their epoch over transactions, so theirs end *by number*:

- a transaction is of that kind if such a client begins it, which says so by adding partitions
  itself: newer ones never do. What InitPid was asked in tells nothing, for both kinds ask alike. A
  transaction is added to and ended in its own kind alone, and an epoch that has had numbers has no
  other transactions;
- the epoch stays at the end that the client asks for; the markers have the number of the
  transaction under it. A newer instance and the time-out raise the epoch, and numbers begin anew;
- the next one does not begin before all markers of the last are written [N111];
- leaders add no partition to it, they only ask whether the client did [N112];
- a repeated end is answered like the first until the next transaction begins. One that comes later
  than that ends the next: such clients cannot say which one they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from oncelog_broker.coordinator.transaction.records import SavedTransaction
from oncelog_broker.coordinator.transaction.states import (
    RULES,
    Act,
    Ending,
    IllegalTxnTransitionError,
    StillEndingError,
    TxnState,
)
from oncelog_protocol.errors import (
    ApiError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    OncelogError,
    PolicyViolationError,
    ProducerFencedError,
    TransactionAbortableError,
)
from oncelog_protocol.types import TopicPartition

PRODUCER_EPOCH_MAX = 32_766
"""A producer writes under no later epoch; one more is for the markers of that one."""


class ProducerIdAndEpoch(NamedTuple):
    """It is a producer id and epoch."""

    producer_id: int
    epoch: int


class ProducerIdNeededError(OncelogError):
    """An operation cannot do without a new producer id, and was given none."""


class Now(NamedTuple):
    """It carries what an operation gets from outside: the time, and maybe a producer id."""

    now_ms: int
    fresh_id: int | None
    """It is a producer id that nobody had, if one was fetched."""

    def new_producer_id(self) -> int:
        """Return the producer id that was fetched.

        :raises ProducerIdNeededError: none was fetched.
        """
        if self.fresh_id is None:
            raise ProducerIdNeededError
        return self.fresh_id


class Step(NamedTuple):
    """A step holds the next states, in order, or none. With ``goes_on`` the request is not answered
    by them; it is carried out again when the last of them is complete."""

    states: tuple[SavedTransaction, ...] = ()
    goes_on: bool = False


def present(saved: SavedTransaction) -> ProducerIdAndEpoch:
    """Return the pair of the open or the next transaction."""
    return ProducerIdAndEpoch(saved.producer_id, saved.producer_epoch)


def check_producer(old: SavedTransaction, new: SavedTransaction) -> None:
    """Check that no two instances ever hold the same pair [I16]: epochs rise, and an InitPid gives
    a new one.

    :raises IllegalTxnTransitionError: they do not.
    """
    before, after = present(old), present(new)
    if after.producer_id == before.producer_id and after.epoch < before.epoch:
        raise IllegalTxnTransitionError(f"producer {tuple(after)} after {tuple(before)}")
    if new.state is TxnState.EMPTY and after == before:
        raise IllegalTxnTransitionError(f"producer {tuple(after)} is given twice")


# ---- InitPid


def init(
    saved: SavedTransaction | None, named: ProducerIdAndEpoch, timeout_ms: int, now: Now
) -> Step:
    """Carry out InitPid of a producer that names itself as ``named``, or names nobody (-1).

    :raises ProducerFencedError: there is a newer instance.
    :raises StillEndingError, ProducerIdNeededError: not now.
    """
    names_itself = named.producer_id >= 0
    if saved is None:
        # One that names itself was idle for so long that it was forgotten.
        new = SavedTransaction(
            TxnState.EMPTY, now.new_producer_id(), 0, timeout_ms, changed_ms=now.now_ms
        )
        return Step((new,))
    if names_itself:
        if _is_repeated_init(saved, named):
            return Step()
        if named != present(saved) and not _may_go_on(saved, named):
            raise ProducerFencedError(f"the present producer is {tuple(present(saved))}")
    act = RULES[saved.state].init
    if act is Act.WAIT:
        raise StillEndingError
    if act is Act.PREPARE:
        ending = Ending.REINIT if names_itself else Ending.FENCE
        return Step((prepared(saved, False, ending, now),), goes_on=True)
    producer = _next(present(saved), now)
    return Step(
        (
            SavedTransaction(
                TxnState.EMPTY,
                *producer,
                timeout_ms,
                changed_ms=now.now_ms,
                init_id=named.producer_id,
                init_epoch=named.epoch if names_itself else -1,
            ),
        )
    )


def _is_repeated_init(saved: SavedTransaction, named: ProducerIdAndEpoch) -> bool:
    """Return whether the producer asks again for what it was given, for the answer was lost
    (KIP-360)."""
    return saved.state is TxnState.EMPTY and named == (saved.init_id, saved.init_epoch)


def _may_go_on(saved: SavedTransaction, named: ProducerIdAndEpoch) -> bool:
    """Return whether ``named`` was the present one until its transaction was ended, and nobody else
    has taken the id since."""
    return _has_ended(saved, named) and saved.ending is not Ending.FENCE


# ---- AddPartitionsToTxn


def add(
    saved: SavedTransaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    *,
    verify_only: bool,
    partition_count_max: int,
    now_ms: int,
    by_number: bool = False,
    refused: Callable[[Sequence[TopicPartition]], Sequence[TopicPartition]] = list,
) -> Step:
    """Add partitions to the transaction of ``producer``, which they may begin.

    :param by_number: it ends by number.
    :param refused: of the partitions that are not in it, those for which ``verify_only`` says no.

    :raises ApiError: those of ``AddPartitionsResult``.
    :raises StillEndingError: not now.
    """
    saved = _of_producer(saved, producer)
    if producer != present(saved):
        late = _was_last(saved, producer) and saved.ending is not Ending.FENCE
        if late and not by_number:
            # By itself, before this batch of it came, or by the time-out: no reason to give up.
            raise TransactionAbortableError("the transaction has ended")
        raise _stranger(saved, producer)
    is_open = saved.state is TxnState.ONGOING
    known = frozenset(saved.partitions) if is_open else frozenset()
    missing = [tp for tp in dict.fromkeys(partitions) if tp not in known]
    if verify_only:
        if refused(missing):  # all of them, when none is open
            raise TransactionAbortableError("the partition is not in the transaction")
        return Step()
    act = RULES[saved.state].add
    if act is Act.WAIT:
        raise StillEndingError
    if (saved.number > 0) != by_number and (is_open or saved.number):
        raise InvalidTxnStateError("the transactions of this epoch end in another way")
    if not missing:
        return Step()
    together = (*(saved.partitions if is_open else ()), *missing)
    if len(together) > partition_count_max:
        raise PolicyViolationError(f"a transaction has at most {partition_count_max} partitions")
    if act is Act.ADD:
        return Step((saved.grown(together, now_ms),))
    return Step((saved.begun(together, now_ms, by_number=by_number),))


# ---- ends


def end(
    saved: SavedTransaction | None,
    producer: ProducerIdAndEpoch,
    commit: bool,
    now: Now,
) -> Step:
    """Carry out EndTxn: the step is PREPARE of the open transaction, or nothing for a repeat. The
    answer is the present pair afterwards.

    :raises ApiError: those of ``EndTxnResponse``.
    :raises StillEndingError, ProducerIdNeededError: not now.
    """
    saved = _of_producer(saved, producer)
    if producer != present(saved):
        if not _has_ended(saved, producer):
            raise _stranger(saved, producer)
        return _repeated_end(saved, commit)
    if saved.state is TxnState.ONGOING and saved.number:
        raise InvalidTxnStateError("the open transaction ends by number")
    rules = RULES[saved.state]
    act = rules.commit if commit else rules.abort
    if act is Act.WAIT:
        raise StillEndingError
    if act is Act.REFUSE:
        raise InvalidTxnStateError(f"in {saved.state.label} there is nothing to commit")
    ended = prepared(saved, commit, Ending.CLIENT, now)
    if act is Act.PREPARE:
        return Step((ended,))
    return Step((ended, ended.completed(now.now_ms)))


def end_by_number(
    saved: SavedTransaction | None, producer: ProducerIdAndEpoch, commit: bool, now_ms: int
) -> Step:
    """Carry out EndTxn of a transaction that ends by number, as :func:`end` does of others.

    :raises ApiError: those of ``EndTxnResponse``.
    """
    saved = _of_producer(saved, producer)
    if producer != present(saved):
        raise _stranger(saved, producer)
    if not saved.number:
        raise InvalidTxnStateError(f"in {saved.state.label} nothing ends by number")
    if saved.state is TxnState.ONGOING:
        return Step((saved.prepared_by_number(commit, now_ms),))
    if commit != saved.state.is_committed:
        raise InvalidTxnStateError(f"it has ended: {saved.state.label}")
    return Step()


def _repeated_end(saved: SavedTransaction, commit: bool) -> Step:
    if saved.ending is Ending.FENCE:
        raise ProducerFencedError("a newer instance has aborted the transaction")
    if commit == saved.state.is_committed:
        return Step()
    if commit and saved.ending is Ending.TIMEOUT:
        raise TransactionAbortableError("its time was over: the coordinator has aborted it")
    raise InvalidTxnStateError(f"it has ended: {saved.state.label}")


def timed_out(saved: SavedTransaction, now: Now) -> SavedTransaction:
    """Return PrepareAbort of an open transaction whose time is over.

    :raises ProducerIdNeededError: not now.
    """
    return prepared(saved, False, Ending.TIMEOUT, now)


def prepared(saved: SavedTransaction, commit: bool, ending: Ending, now: Now) -> SavedTransaction:
    """Return how the transaction ends: the epoch of its markers, and the next pair.

    :raises ProducerIdNeededError: not without a fresh producer id.
    """
    producer = present(saved)
    return saved.prepared(commit, ending, _next(producer, now), producer.epoch + 1, now.now_ms)


# ---- who asks


def _next(producer: ProducerIdAndEpoch, now: Now) -> ProducerIdAndEpoch:
    if producer.epoch < PRODUCER_EPOCH_MAX:
        return ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
    return ProducerIdAndEpoch(now.new_producer_id(), 0)


def _has_ended(saved: SavedTransaction, producer: ProducerIdAndEpoch) -> bool:
    """Return whether the last transaction was that of ``producer``, and none has begun since."""
    ended = saved.state.is_prepared or saved.state.is_complete
    return ended and _was_last(saved, producer)


def _was_last(saved: SavedTransaction, producer: ProducerIdAndEpoch) -> bool:
    """Return whether the last transaction that has ended was that of ``producer``, and raised the
    epoch."""
    if saved.number:
        return False
    following = (producer.producer_id, producer.epoch + 1)
    return following == (saved.marker_id, saved.marker_epoch)


def _of_producer(saved: SavedTransaction | None, producer: ProducerIdAndEpoch) -> SavedTransaction:
    if saved is None:
        raise InvalidProducerIdMappingError("the transactional id is not known")
    ids = (saved.producer_id, saved.marker_id)
    if producer.producer_id not in ids or producer.producer_id < 0:
        raise InvalidProducerIdMappingError(
            f"producer id {producer.producer_id}, the present one is {saved.producer_id}"
        )
    return saved


def _stranger(saved: SavedTransaction, producer: ProducerIdAndEpoch) -> ApiError:
    return ProducerFencedError(
        f"epoch {producer.epoch} of producer {producer.producer_id}, the present producer is "
        f"{tuple(present(saved))}"
    )
