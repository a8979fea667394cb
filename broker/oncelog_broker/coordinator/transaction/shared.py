"""An id of shared transactions turns a request into its next state, or refuses it. Pure.

A shared transaction is bound to an ordinal and a tag by the first writer that joins with them. Its
writers have a producer id each, at epoch 0; their markers carry epoch 1. Rules:

- a tag at or below the last committed one is refused as committed, whoever comes with it: first of
  all checks, so that what is done again is not done twice;
- a greater ordinal takes the id over: an open transaction is aborted first;
- an ordinal that has ended, or was never bound and is smaller, is over: nobody joins it, only what
  was decided is said again;
- one PREPARE holds the winners and the last committed tag: both count, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oncelog_broker.coordinator.transaction.ordinary import Now, ProducerIdAndEpoch
from oncelog_broker.coordinator.transaction.records import SavedShared, SavedWriter
from oncelog_broker.coordinator.transaction.states import (
    RULES,
    Act,
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

WRITER_EPOCH = 0
MARKER_EPOCH = 1
"""The epoch is always 1, since such a producer id has one transaction."""


class JoinedTxn(NamedTuple):
    """``state`` and ``writer`` are new if not None. If ``producer_id`` is -1, the open transaction
    is aborted first: see again when that is complete."""

    producer_id: int
    state: SavedShared | None = None
    writer: SavedWriter | None = None


class Ended(NamedTuple):
    """``states`` are the new ones, in order. With ``goes_on`` they end another transaction: see
    again."""

    committed: bool
    already: bool
    states: tuple[SavedShared, ...] = ()
    goes_on: bool = False


def check_ordinal(old: SavedShared, new: SavedShared) -> None:
    """Check that ordinals and committed tags do not go back.

    :raises IllegalTxnTransitionError: they do.
    """
    if (new.ordinal, new.last_committed_tag) < (old.ordinal, old.last_committed_tag) or (
        new.last_committed_tag < old.last_committed_tag
    ):
        raise IllegalTxnTransitionError(f"{new} after {old}")


def check_tag(saved: SavedShared | None, tag: int) -> None:
    """Refuse a tag that is committed already.

    :raises TransactionAlreadyCommittedError: it is at or below the last committed one.
    """
    if saved is not None and tag <= saved.last_committed_tag:
        raise TransactionAlreadyCommittedError(f"tag {saved.last_committed_tag} is committed")


def join(
    saved: SavedShared | None,
    names: Mapping[str, int],
    ordinal: int,
    tag: int,
    writer: str,
    timeout_ms: int,
    now: Now,
    *,
    writer_count_max: int,
) -> JoinedTxn:
    """Let a writer join, who may bind the ordinal. ``names`` are producer ids of the writers by
    name.

    :raises ApiError: those of ``JoinTxnResponse``.
    :raises StillEndingError, ProducerIdNeededError: not now.
    """
    check_tag(saved, tag)
    if saved is not None and ordinal <= saved.ordinal:
        _check_open(saved, ordinal, tag)
        if writer in names:
            return JoinedTxn(names[writer])
        if len(names) >= writer_count_max:
            raise PolicyViolationError(f"a shared transaction has at most {writer_count_max}")
        return JoinedTxn(now.new_producer_id(), None, SavedWriter(ordinal, writer))
    if saved is not None:
        act = RULES[saved.state].add
        if act is Act.WAIT:
            raise StillEndingError
        if act is Act.ADD:
            return JoinedTxn(-1, saved.prepared(False, Ending.FENCE, (), now.now_ms))
    bound = _bound(saved, ordinal, tag, timeout_ms, now.now_ms)
    return JoinedTxn(now.new_producer_id(), bound, SavedWriter(ordinal, writer))


def _check_open(saved: SavedShared, ordinal: int, tag: int) -> None:
    if ordinal < saved.ordinal:
        raise ProducerFencedError(f"ordinal {saved.ordinal} has taken the id over")
    if saved.state is not TxnState.ONGOING:
        raise ProducerFencedError("the transaction has ended")
    if tag != saved.tag:
        raise InvalidTxnStateError(f"ordinal {ordinal} is bound to tag {saved.tag}")


def _bound(
    saved: SavedShared | None, ordinal: int, tag: int, timeout_ms: int, now_ms: int
) -> SavedShared:
    return SavedShared(
        TxnState.ONGOING,
        ordinal,
        tag,
        timeout_ms,
        start_ms=now_ms,
        changed_ms=now_ms,
        last_committed_tag=-1 if saved is None else saved.last_committed_tag,
        last_committed_ordinal=-1 if saved is None else saved.last_committed_ordinal,
    )


def add(
    saved: SavedShared,
    writers: Mapping[int, SavedWriter],
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    *,
    verify_only: bool,
    partition_count_max: int,
) -> SavedWriter | None:
    """Return the writer with these partitions as well; None means that it has them already.

    :raises ApiError: those of ``AddPartitionsResult``.
    """
    writer = writers.get(producer.producer_id)
    if writer is None or saved.state is not TxnState.ONGOING or producer.epoch != WRITER_EPOCH:
        raise ProducerFencedError("the transaction that this writer joined has ended")
    known = frozenset(writer.partitions)
    missing = [tp for tp in dict.fromkeys(partitions) if tp not in known]
    if not missing:
        return None
    if verify_only:
        raise TransactionAbortableError("the partition is not in the transaction")
    if len(writer.partitions) + len(missing) > partition_count_max:
        raise PolicyViolationError(f"a writer has at most {partition_count_max} partitions")
    return writer.grown(tuple(missing))


def end(
    saved: SavedShared | None,
    writers: Mapping[int, SavedWriter],
    ordinal: int,
    tag: int,
    commit: bool,
    winners: Sequence[int],
    now_ms: int,
) -> Ended:
    """Carry out EndSharedTxn. An ordinal that no writer has bound can be aborted: none will then.

    :raises ApiError: those of ``EndSharedTxnResponse``.
    :raises StillEndingError: not now.
    """
    if saved is None or ordinal > saved.ordinal:
        return _end_of_unbound(saved, ordinal, tag, commit, winners, now_ms)
    if (ordinal, tag) == (saved.last_committed_ordinal, saved.last_committed_tag):
        return Ended(True, True)
    if ordinal < saved.ordinal:
        raise ProducerFencedError(f"ordinal {saved.ordinal} has taken the id over")
    if tag != saved.tag:
        raise InvalidTxnStateError(f"ordinal {ordinal} is bound to tag {saved.tag}")
    if saved.state is not TxnState.ONGOING:
        if commit:
            raise ProducerFencedError("the transaction was aborted")
        return Ended(False, True)
    strangers = [winner for winner in winners if winner not in writers]
    if commit and strangers:
        raise InvalidRequestError(f"no writers of this transaction: {strangers[:8]}")
    chosen = tuple(sorted(set(winners))) if commit else ()
    state = saved.prepared(commit, Ending.CLIENT, chosen, now_ms)
    return Ended(commit, False, (state,))


def _end_of_unbound(
    saved: SavedShared | None,
    ordinal: int,
    tag: int,
    commit: bool,
    winners: Sequence[int],
    now_ms: int,
) -> Ended:
    if commit:
        if saved is not None and tag <= saved.last_committed_tag and not winners:
            # Every writer was told that the tag is committed, and has written nothing.
            return Ended(True, True)
        raise InvalidTxnStateError("nobody has joined the transaction")
    if saved is not None:
        act = RULES[saved.state].add
        if act is Act.WAIT:
            raise StillEndingError
        if act is Act.ADD:
            state = saved.prepared(False, Ending.FENCE, (), now_ms)
            return Ended(False, False, (state,), goes_on=True)
    bound = _bound(saved, ordinal, tag, 0, now_ms)
    state = bound.prepared(False, Ending.CLIENT, (), now_ms)
    return Ended(False, False, (state, state.completed(now_ms)))


def may_be_forgotten(saved: SavedShared) -> bool:
    """Return whether an idle id holds nothing that a later request could ask for: nothing was
    committed under it, or its last tag is the greatest that there is. Any other last tag is kept
    for good."""
    return saved.last_committed_tag in (-1, LAST_TAG)
