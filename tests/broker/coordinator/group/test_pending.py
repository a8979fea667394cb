"""Offsets in open transactions have guards and meet markers, without a shard."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group import pending as pending_module
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.pending import PendingOffsets, TxnOffsetsGuard, superseded
from oncelog_broker.coordinator.group.records import (
    OffsetFact,
    OffsetRecord,
    PendingFact,
    PendingOffset,
    decode_record,
)
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord
from oncelog_protocol.errors import (
    InvalidProducerEpochError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition

TP = TopicPartition("t", 0)
PID = 70
UNSTABLE = UnstableOffsetCommitError.code


def item(epoch: int = 3, offset: int = 10) -> PendingOffset:
    return PendingOffset(epoch, offset, 0, "", 1_000)


class Shelf:
    """It is groups and the index, without a shard around them."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.pending = PendingOffsets(4)

    def put(self, pid: int, item: PendingOffset, group: str = "g", tp: TopicPartition = TP) -> None:
        self.pending.put(self.groups.setdefault(group, Group(group, 0)), tp, pid, item)

    def end(
        self, pid: int, epoch: int, commit: bool = True, *, number: int = NO_TXN_NUMBER
    ) -> bool:
        records, complete = self.pending.end(self.groups, pid, epoch, commit, 5_000, number)
        for record in records:
            self.replay(record)
        return complete

    def replay(self, record: CoordinatorRecord) -> None:
        if record == BARRIER:
            return
        fact = decode_record(record)
        if isinstance(fact, OffsetFact):
            assert fact.committed is not None
            self.groups[fact.group].offsets[fact.topic_partition] = fact.committed
        elif isinstance(fact, PendingFact):
            group = self.groups[fact.group]
            self.pending.take(group, fact.topic_partition, fact.producer_id)

    def offsets(self, group: str = "g") -> dict[TopicPartition, int]:
        return {tp: c.offset for tp, c in self.groups[group].offsets.items()}


# ---- the index


def test_what_is_taken_back_leaves_nothing() -> None:
    shelf = Shelf()
    shelf.put(PID, item())
    shelf.put(PID, item(offset=11))
    group = shelf.groups["g"]
    assert group.pending_offsets == {TP: {PID: item(offset=11)}}
    shelf.pending.take(group, TP, PID)
    shelf.pending.take(group, TP, PID)
    assert group.is_nothing
    assert shelf.pending.open_transactions() == []
    assert shelf.pending.needs_guard(PID, 3)


def test_open_transactions_are_told_by_producer() -> None:
    shelf = Shelf()
    shelf.put(9, item(1))
    shelf.put(8, item(2))
    shelf.put(8, PendingOffset(2, 1, 0, "", 4_000), group="h")
    assert shelf.pending.open_transactions() == [(8, 2, 4_000), (9, 1, 1_000)]


# ---- guards


def test_the_first_offset_of_a_transaction_needs_a_guard() -> None:
    shelf = Shelf()
    assert shelf.pending.needs_guard(PID, 3)
    shelf.put(PID, item(3))
    assert not shelf.pending.needs_guard(PID, 3)
    assert shelf.pending.needs_guard(PID, 4)
    assert shelf.pending.needs_guard(PID + 1, 3)


def test_a_marker_voids_the_guards_of_its_producer_though_nothing_is_pending() -> None:
    shelf = Shelf()
    mine, other = shelf.pending.take_guard(PID), shelf.pending.take_guard(PID + 1)
    assert mine.partition == 4
    assert shelf.end(PID, 4, commit=False)
    again = shelf.pending.take_guard(PID)
    assert again is not mine
    assert [guard.valid for guard in (mine, other, again)] == [False, True, True]


def test_guards_that_are_released_or_void_are_forgotten() -> None:
    pending = PendingOffsets(0)
    one, two = pending.take_guard(PID), pending.take_guard(PID)
    one.release()
    assert [guard.valid for guard in (one, two)] == [False, True]
    two.release()
    two.release()
    assert not pending._guards
    three = pending.take_guard(PID)
    pending.void_guards()
    assert not three.valid
    assert not pending._guards


def test_an_older_epoch_than_what_is_pending() -> None:
    shelf = Shelf()
    shelf.put(PID, item(3))
    shelf.pending.check_epoch(PID, 3)
    shelf.pending.check_epoch(PID, 4)
    shelf.pending.check_epoch(PID + 1, 0)
    with pytest.raises(InvalidProducerEpochError):
        shelf.pending.check_epoch(PID, 2)


# ---- markers


def test_commit_writes_the_offsets_of_all_groups() -> None:
    shelf = Shelf()
    shelf.put(PID, item(offset=10))
    shelf.put(PID, PendingOffset(3, 20, 5, "note", 1_000), group="h", tp=TopicPartition("u", 1))
    assert shelf.end(PID, 4)
    assert shelf.offsets("g") == {TP: 10}
    assert shelf.groups["h"].offsets == {TopicPartition("u", 1): OffsetRecord(20, 5, "note", 5_000)}
    assert not shelf.groups["g"].pending_offsets
    assert not shelf.groups["h"].pending_offsets


def test_abort_drops_them() -> None:
    shelf = Shelf()
    shelf.put(PID, item())
    assert shelf.end(PID, 4, commit=False)
    assert shelf.groups["g"].is_nothing


def test_a_repeated_marker_shows_that_it_is_the_coordinator_that_says_so() -> None:
    shelf = Shelf()
    shelf.put(PID, item())
    assert shelf.end(PID, 4)
    assert shelf.pending.end(shelf.groups, PID, 4, True, 0) == ([BARRIER], True)
    assert shelf.offsets() == {TP: 10}


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_late_marker_does_not_end_the_next_transaction(epoch: int) -> None:
    shelf = Shelf()
    shelf.put(PID, item(3))
    with pytest.raises(InvalidProducerEpochError):
        shelf.end(PID, epoch)
    assert shelf.groups["g"].pending_offsets == {TP: {PID: item(3)}}


def test_a_marker_ends_only_what_is_older() -> None:
    shelf = Shelf()
    other = TopicPartition("t", 1)
    shelf.put(PID, item(3))
    shelf.put(PID, item(5, 50), tp=other)
    assert shelf.end(PID, 4)
    assert shelf.offsets() == {TP: 10}
    assert shelf.groups["g"].pending_offsets == {other: {PID: item(5, 50)}}


def test_numbers_tell_transactions_of_one_epoch_apart() -> None:
    shelf = Shelf()
    shelf.put(PID, item(3)._replace(number=2))
    for late in (1, NO_TXN_NUMBER):
        with pytest.raises(InvalidProducerEpochError):
            shelf.end(PID, 3, number=late)
    assert shelf.pending.number(PID, 3) == 2
    assert shelf.end(PID, 3, number=2)
    assert shelf.offsets() == {TP: 10}
    assert shelf.pending.number(PID, 3) == 0
    assert shelf.end(PID, 3, number=2), "a repeat"


def test_fencing_ends_what_has_a_number() -> None:
    shelf = Shelf()
    shelf.put(PID, item(3)._replace(number=2))
    assert shelf.end(PID, 4, commit=False)
    assert shelf.offsets() == {}
    assert not shelf.groups["g"].pending_offsets


def test_nothing_of_its_epoch_comes_between_two_pieces_of_a_marker_with_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_module, "MARKER_BYTES_MAX", 10)
    shelf = Shelf()
    for partition in range(3):
        shelf.put(PID, item(3)._replace(number=2), tp=TopicPartition("t", partition))
    assert not shelf.end(PID, 3, number=2)
    with pytest.raises(InvalidProducerEpochError):
        shelf.pending.check_epoch(PID, 3)
    while not shelf.end(PID, 3, number=2):
        pass
    shelf.pending.check_epoch(PID, 3)


def test_a_large_transaction_is_ended_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "MARKER_BYTES_MAX", 200)
    shelf = Shelf()
    for partition in range(20):
        shelf.put(PID, item(3, partition), tp=TopicPartition("t", partition))
    assert not shelf.end(PID, 4)
    assert 0 < len(shelf.offsets()) < 20
    # It is decided: nothing may be added between the pieces.
    with pytest.raises(InvalidProducerEpochError):
        shelf.pending.check_epoch(PID, 3)
    shelf.pending.check_epoch(PID, 4)
    while not shelf.end(PID, 4):
        pass
    assert shelf.offsets() == {TopicPartition("t", n): n for n in range(20)}
    assert not shelf.groups["g"].pending_offsets
    shelf.pending.check_epoch(PID, 3)


def test_a_later_offset_supersedes_those_that_were_pending_before() -> None:
    shelf = Shelf()
    shelf.put(1, item(0, 10))
    shelf.put(2, item(0, 20))
    shelf.put(3, item(0, 30))
    shelf.put(1, item(0, 11))  # The last one now.
    assert shelf.end(3, 1)
    assert shelf.offsets() == {TP: 30}
    assert list(shelf.groups["g"].pending_offsets[TP]) == [1]
    assert shelf.end(2, 1)
    assert shelf.offsets() == {TP: 30}
    assert shelf.end(1, 1)
    assert shelf.offsets() == {TP: 11}


def test_nothing_is_superseded_where_nothing_is_pending() -> None:
    assert not list(superseded(None, TP))
    assert not list(superseded(Group("g", 0), TP))


def test_a_guard_is_unique() -> None:
    pending = PendingOffsets(0)
    guards: list[TxnOffsetsGuard] = [pending.take_guard(PID) for _ in range(3)]
    assert len({id(guard) for guard in guards}) == 3
