"""Batches of transactions are verified once, in order, under a guard, and never too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.transactions import verified_appends
from oncelog_broker.transactions.verified_appends import TxnBatch, VerifiedAppends
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidTxnStateError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
)
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Verifier

TP = TopicPartition("t", 0)


class Guard:
    def __init__(self, by_number: bool = False) -> None:
        self.valid = True
        self.by_number = by_number


class World:
    """It has one partition, as its own log and replica manager, and what was appended."""

    def __init__(self) -> None:
        self.verifier = Verifier()
        self.appends = VerifiedAppends(cast(ReplicaManager, self), self.verifier)
        self.open: set[tuple[int, int]] = set()
        self.guards: list[Guard] = []
        self.appended: list[tuple[int, Any]] = []
        """(sequence, guard) in order."""
        self.refused: list[tuple[int, int]] = []
        """(sequence, error code) in order."""
        self.led = True
        self.on_append: Callable[[int], None] = lambda sequence: None
        self.log = self
        self.producers = self

    # -- as ReplicaManager, Partition, log and its producers

    def partition(self, topic_partition: TopicPartition) -> World:
        if topic_partition != TP:
            raise NotLeaderOrFollowerError("elsewhere")
        return self

    def leader_role(self) -> None:
        if not self.led:
            raise NotLeaderOrFollowerError("not here")

    def needs_guard(self, header: BatchHeader) -> bool:
        return (header.producer_id, header.producer_epoch) not in self.open

    def take_guard(
        self, producer_id: int, producer_epoch: int, *, by_number: bool = False
    ) -> Guard:
        self.guards.append(Guard(by_number))
        return self.guards[-1]

    # -- as the handler

    def submit(
        self,
        sequence: int,
        *,
        pid: int = 7,
        epoch: int = 1,
        where: TopicPartition = TP,
        gone: Callable[[], bool] = lambda: False,
        by_number: bool = False,
    ) -> bytearray:
        batch = encode_batch(
            [b"v"],
            timestamps=1,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )

        def append(view: memoryview, guard: Any) -> None:
            header = parse_header(view)
            assert header.base_sequence == sequence
            if self.needs_guard(header):
                assert guard is not None
                assert guard.valid
            self.open.add((pid, epoch))
            self.appended.append((sequence, guard))
            self.on_append(sequence)

        def refuse(error: ApiError) -> None:
            self.refused.append((sequence, error.code))

        self.appends.submit(
            TxnBatch(
                "a",
                where,
                memoryview(batch),
                append=append,
                refuse=refuse,
                is_gone=gone,
                by_number=by_number,
            )
        )
        return batch


def test_the_first_is_verified_and_no_other() -> None:
    world = World()
    for sequence in range(3):
        world.submit(sequence)
    assert world.verifier.asked == [("a", 7, 1, TP)]
    assert world.appended == [(0, world.guards[0]), (1, None), (2, None)]
    world.submit(0, epoch=2)
    assert world.verifier.asked[1:] == [("a", 7, 2, TP)]
    assert world.guards[1] is not world.guards[0], "each of its own"
    assert world.appends.pending_bytes == 0


def test_one_that_ends_by_number_is_asked_for_and_guarded_as_such() -> None:
    world = World()
    world.verifier.adds = False
    world.submit(5, by_number=True)
    ((sequence, guard),) = world.appended
    assert (sequence, guard.by_number) == (5, True)
    world.submit(0, pid=8)
    assert world.refused, "only those of this kind may be asked for"


def test_those_behind_wait_in_order_and_have_copies() -> None:
    world = World()
    world.verifier.holds = True
    buffers = [world.submit(sequence) for sequence in range(4)]
    assert world.appended == []
    assert world.appends.pending_bytes == sum(map(len, buffers))
    for buffer in buffers:
        buffer[:] = bytes(len(buffer))  # the receive buffer is used again
    world.verifier.held.pop()(0)
    assert [sequence for sequence, _ in world.appended] == [0, 1, 2, 3]
    assert len(world.verifier.asked) == 1
    assert world.appends.pending_bytes == 0


def test_other_producers_do_not_wait() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.open.add((8, 1))
    world.submit(5, pid=8)
    assert world.appended == [(5, None)]


def test_who_comes_while_the_first_is_appended_is_behind() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.submit(1)

    def one_more(sequence: int) -> None:
        if sequence == 0:
            world.submit(2)

    world.on_append = one_more
    world.verifier.held.pop()(0)
    assert [sequence for sequence, _ in world.appended] == [0, 1, 2]


def test_a_refusal_is_for_all_that_wait() -> None:
    world = World()
    world.verifier.holds = True
    for sequence in range(3):
        world.submit(sequence)
    world.verifier.held.pop()(ProducerFencedError.code)
    assert world.appended == []
    assert world.refused == [(sequence, ProducerFencedError.code) for sequence in range(3)]
    assert world.appends.pending_bytes == 0
    world.submit(0)
    assert len(world.verifier.asked) == 2, "the next one asks again"


def test_a_late_batch_of_an_old_transaction_does_not_condemn_the_next() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0, epoch=1)
    world.submit(0, epoch=2)
    world.submit(1, epoch=2)
    world.verifier.held.pop()(ProducerFencedError.code)
    assert world.refused == [(0, ProducerFencedError.code)]
    assert world.verifier.asked[1:] == [("a", 7, 2, TP)]
    world.verifier.held.pop()(0)
    assert world.appended == [(0, world.guards[1]), (1, None)]
    assert world.appends.pending_bytes == 0


def test_the_next_transaction_in_the_queue_is_verified_itself() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.submit(1)
    world.submit(0, epoch=2)
    world.submit(1, epoch=2)
    world.verifier.held.pop()(0)
    assert [sequence for sequence, _ in world.appended] == [0, 1]
    assert world.verifier.asked[1] == ("a", 7, 2, TP)
    world.verifier.held.pop()(0)
    assert world.appended[2:] == [(0, world.guards[1]), (1, None)]


def test_a_void_guard_asks_anew() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.guards[0].valid = False
    world.verifier.held.pop()(0)
    assert world.appended == []
    assert len(world.verifier.asked) == 2
    world.verifier.held.pop()(0)
    assert world.appended == [(0, world.guards[1])]


def test_guards_that_are_always_void() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    for _ in range(verified_appends.GUARDS_MAX):
        world.guards[-1].valid = False
        world.verifier.held.pop()(0)
    assert world.refused == [(0, InvalidTxnStateError.code)]
    assert len(world.guards) == len(world.verifier.asked) + 1
    assert world.verifier.held == []


def test_the_leadership_is_gone() -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.submit(1)
    world.guards[0].valid = world.led = False
    world.verifier.held.pop()(0)
    code = NotLeaderOrFollowerError.code
    assert world.refused == [(0, code), (1, code)]
    with pytest.raises(NotLeaderOrFollowerError):
        world.submit(2)
    with pytest.raises(NotLeaderOrFollowerError):
        world.submit(0, where=TopicPartition("t", 1))


def test_the_connection_is_gone() -> None:
    world = World()
    world.verifier.holds = True
    closed = False
    world.submit(0, gone=lambda: closed)
    world.submit(0)
    closed = True
    world.verifier.held.pop()(0)
    assert (world.appended, world.refused) == ([], [])
    world.verifier.held.pop()(0)
    assert world.appended == [(0, world.guards[1])], "sent again over another one"


def test_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.verifier.holds = True
    size = len(world.submit(0))
    monkeypatch.setattr(verified_appends, "PENDING_BYTES_MAX", 2 * size)
    world.submit(1)
    with pytest.raises(ConcurrentTransactionsError):
        world.submit(2)
    world.verifier.held.pop()(0)
    world.submit(2)
    assert [sequence for sequence, _ in world.appended] == [0, 1, 2]


def test_no_batch_at_all() -> None:
    world = World()

    def never(*_: Any) -> None:
        raise AssertionError

    for junk in (b"", b"x" * 100):
        with pytest.raises(CorruptBatchError):
            world.appends.submit(
                TxnBatch(
                    "a", TP, memoryview(junk), append=never, refuse=never, is_gone=lambda: False
                )
            )


def test_a_bug_in_one_does_not_stop_those_behind(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.verifier.holds = True
    world.submit(0)
    world.submit(1)

    def fail(sequence: int) -> None:
        if sequence == 0:
            raise RuntimeError("a bug")

    world.on_append = fail
    world.verifier.held.pop()(0)
    assert [sequence for sequence, _ in world.appended] == [0, 1]
    assert "a bug" in caplog.text
