"""The follower's machine names partitions, takes answers, and leaves others alone."""

from __future__ import annotations

import errno

import pytest

from oncelog_broker.log import producer_snapshots
from oncelog_broker.log.clean_state import FROM_SCRATCH
from oncelog_broker.log.compaction import hole
from oncelog_broker.replication.follower import TRUNCATIONS_PER_TURN, FollowerMachine, FollowState
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.safeguards import SAFE
from oncelog_broker.replication.traffic import TopicTraffic
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    InvalidFetchSessionEpochError,
    OffsetOutOfRangeError,
)
from oncelog_protocol.messages.fetch import (
    EpochEnd,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.records.batch import stamp
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.replicas import NOW_MS, batch_of, make_logs, topic_config
from support.room_settings import replica_settings
from support.waiting import eventually

CONFIG = replica_settings(replica_fetch_backoff_ms=20, replica_fetch_backoff_max_ms=50)


class Follower:
    """Partitions of one topic follow broker 1, and the machine is under test."""

    def __init__(self, count: int = 1) -> None:
        self.files = MemoryFiles("/d")
        self.logs = make_logs(self.files, 2)
        self.failed: list[Partition] = []
        self.machine = FollowerMachine(
            2, CONFIG, broker_epoch=lambda: 77, on_log_failure=self.failed.append
        )
        self.partitions = [self._partition(number) for number in range(count)]
        self.sync()

    def _partition(self, number: int) -> Partition:
        tp = TopicPartition("t", number)
        partition = Partition(
            tp,
            self.logs.create(tp, "id", topic_config()),
            broker_id=2,
            high_watermark=0,
            owner=self,
            safeguards=SAFE,
            traffic=TopicTraffic(),
        )
        self.order(partition, 3)
        return partition

    def order(self, partition: Partition, epoch: int) -> None:
        tp = partition.topic_partition
        order = LeaderAndIsrPartition("t", "id", tp.partition, 1, epoch, [1, 2], 0, [1, 2], False)
        assert partition.apply_leader_and_isr(order, 0.0) == 0

    def isr_change_wanted(self, partition: Partition) -> None:
        raise AssertionError("a follower proposes nothing")

    def refetch_wanted(self, partition: Partition) -> None:
        raise AssertionError("no log is damaged here")

    def follower_synced(self, partition: Partition) -> None:
        self.machine.synced(partition.topic_partition)

    def replica_broke_down(self, partition: Partition) -> None:
        raise AssertionError(f"{partition} broke down")

    def sync(self) -> None:
        self.logs.dirs[0].flusher.sync_now()

    def follow(self) -> FetchRequest:
        for partition in self.partitions:
            self.machine.add(partition)
        return self.machine.next_request(0.0)

    def state(self, number: int = 0) -> FollowState | None:
        return self.machine.state_of(TopicPartition("t", number))

    def answer(
        self, *answers: FetchPartitionResponse, payload: bytes = b"", now: float = 0.0
    ) -> None:
        topics = [FetchTopicResponse("t", list(answers))] if answers else []
        self.machine.take(FetchResponse(0, topics), memoryview(bytearray(payload)), now)


def data(base: int = 0, count: int = 1, epoch: int = 3) -> bytes:
    return bytes(
        encode_batch([b"v"] * count, timestamps=NOW_MS, base_offset=base, leader_epoch=epoch)
    )


def records(
    payload: bytes, partition: int = 0, *, watermark: int = 0, start: int = 0
) -> FetchPartitionResponse:
    return FetchPartitionResponse(partition, 0, watermark, watermark, start, Span(0, len(payload)))


def named(request: FetchRequest) -> list[FetchPartition]:
    return [item for topic in request.topics for item in topic.partitions]


def test_the_first_request_names_everything() -> None:
    follower = Follower(3)
    request = follower.follow()
    assert (request.replica_id, request.broker_epoch, request.session_epoch) == (2, 77, 0)
    assert [n.partition for n in named(request)] == [0, 1, 2]
    first = named(request)[0]
    assert (first.fetch_offset, first.leader_epoch, first.last_fetched_epoch) == (0, 3, -1)
    assert follower.state() is FollowState.OPEN
    assert named(follower.machine.next_request(0.0)) == []


def test_appended_records_are_named_again_only_after_the_sync() -> None:
    follower = Follower()
    follower.follow()
    follower.answer(records(data(count=2), watermark=1), payload=data(count=2))
    assert follower.state() is FollowState.SYNCING
    assert follower.machine.syncing == 1
    assert not follower.machine.wants_to_send(patient=True)
    assert follower.machine.wants_to_send(patient=False)
    assert follower.partitions[0].high_watermark == 1
    follower.sync()
    assert follower.state() is FollowState.NAMEABLE
    assert follower.machine.wants_to_send(patient=True)
    request = follower.machine.next_request(0.0)
    assert request.session_epoch == 1
    assert (named(request)[0].fetch_offset, named(request)[0].last_fetched_epoch) == (2, 3)


def test_others_are_fetched_while_some_wait_for_the_disk() -> None:
    follower = Follower(2)
    follower.follow()
    follower.answer(records(data()), payload=data())
    assert follower.state(0) is FollowState.SYNCING
    assert follower.state(1) is FollowState.OPEN
    assert named(follower.machine.next_request(0.0)) == []


def test_an_answer_without_records_leaves_the_name_open() -> None:
    """KAFKA-15510: it only brings a high watermark."""
    follower = Follower()
    follower.follow()
    follower.answer(records(data(count=3)), payload=data(count=3))
    follower.sync()
    follower.machine.next_request(0.0)
    follower.answer(FetchPartitionResponse(0, 0, 2, 2, 0))
    assert follower.partitions[0].high_watermark == 2
    assert follower.state() is FollowState.OPEN
    assert named(follower.machine.next_request(0.0)) == []


def test_divergence_cuts_and_uses_nothing_else_of_the_answer() -> None:
    """KAFKA-14704 was this bug."""
    follower = Follower()
    follower.follow()
    payload = data(0, 2, epoch=1) + data(2, 2, epoch=2)
    follower.answer(records(payload, watermark=1), payload=payload)
    follower.sync()
    follower.machine.next_request(0.0)
    follower.answer(FetchPartitionResponse(0, 0, 99, 99, 3, diverging=EpochEnd(1, 2)))
    partition = follower.partitions[0]
    assert partition.log.log_end_offset == 2
    assert (partition.high_watermark, partition.log.log_start_offset) == (1, 0)
    follower.sync()
    assert named(follower.machine.next_request(0.0))[0].last_fetched_epoch == 1


@pytest.mark.parametrize(
    ("diverging", "end"),
    [
        (EpochEnd(2, 5), 5),  # both know the epoch: to the lower of the two ends
        (EpochEnd(2, 9), 6),
        (EpochEnd(1, 3), 3),
        (EpochEnd(0, 1), 1),
        (EpochEnd(3, 7), 6),  # we do not know epoch 3: to the end of our largest below
        (EpochEnd(4, 8), 8),
        (EpochEnd(4, 99), 8),
    ],
)
def test_where_to_cut(diverging: EpochEnd, end: int) -> None:
    """It is KIP-279. Our log has epoch 0 from 0, 1 from 2, 2 from 4, 4 from 6, and ends at 8."""
    follower = Follower()
    follower.follow()
    payload = b"".join(data(base, 1, epoch) for base, epoch in enumerate([0, 0, 1, 1, 2, 2, 4, 4]))
    follower.answer(records(payload), payload=payload)
    follower.partitions[0].truncate_to_divergence(diverging)
    assert follower.partitions[0].log.log_end_offset == end


def test_answers_of_another_epoch_or_connection_are_dropped() -> None:
    """KAFKA-13207 was this bug."""
    follower = Follower()
    follower.follow()
    partition = follower.partitions[0]
    follower.order(partition, 4)
    follower.answer(records(data()), payload=data())
    assert partition.log.log_end_offset == 0
    follower.machine.add(partition)
    follower.machine.next_request(0.0)
    follower.answer(records(data()), payload=data())
    assert partition.log.log_end_offset == 1


def test_an_answer_to_an_older_request_is_not_for_a_newer_name() -> None:
    follower = Follower()
    follower.follow()  # request 0
    partition = follower.partitions[0]
    follower.order(partition, 4)
    follower.machine.add(partition)
    request = follower.machine.next_request(0.0)  # request 1 names it in epoch 4
    assert named(request)[0].leader_epoch == 4
    follower.answer(records(data()), payload=data())  # answers request 0
    assert partition.log.log_end_offset == 0
    follower.answer(records(data()), payload=data())  # answers request 1
    assert partition.log.log_end_offset == 1


def test_out_of_range_begins_anew_at_the_leaders_start() -> None:
    follower = Follower()
    follower.follow()
    follower.answer(records(data(count=3)), payload=data(count=3))
    follower.sync()
    follower.machine.next_request(0.0)
    follower.answer(FetchPartitionResponse(0, OffsetOutOfRangeError.code, log_start_offset=50))
    partition = follower.partitions[0]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (50, 50)
    assert partition.high_watermark == 50
    follower.sync()
    assert named(follower.machine.next_request(0.0))[0].fetch_offset == 50


def test_a_compacted_log_that_was_away_for_too_long_is_fetched_from_scratch() -> None:
    """Else it would never hear of tombstones that have gone, and bring deleted keys back."""
    day_ms = 86_400_000
    for away_ms, compacted, restarts in (
        (day_ms + 1, hole(1, 9, 3, NOW_MS), True),
        (day_ms, hole(1, 9, 3, NOW_MS), False),
        (day_ms + 1, data(base=1, count=8), False),
    ):
        follower = Follower()
        log = follower.partitions[0].log
        log.reconfigure(topic_config(cleanup_policy="compact"))
        follower.follow()
        follower.answer(records(data(), watermark=9), payload=data())
        assert log.clean.in_step_ms == FROM_SCRATCH
        follower.sync()
        follower.machine.next_request(0.0)
        log.clean.in_step_ms = -1  # as after a restart
        clock = log.log_dir.clock
        assert isinstance(clock, ManualClock)
        clock.advance(away_ms)
        follower.answer(records(bytes(compacted), watermark=9), payload=bytes(compacted))
        assert log.log_end_offset == (0 if restarts else 9)
        follower.sync()
        assert named(follower.machine.next_request(0.0))[0].fetch_offset == log.log_end_offset
        if restarts:
            assert log.clean.in_step_ms == FROM_SCRATCH
            payload = bytes(hole(0, 1, 3, NOW_MS)) + bytes(compacted)
            follower.answer(records(payload, watermark=9), payload=payload)
            assert log.log_end_offset == 9
        assert log.clean.in_step_ms == clock.now_ms()


def test_errors_wait_longer_and_longer_and_success_forgives() -> None:
    follower = Follower()
    follower.follow()
    now = 10.0
    delays = []
    for _ in range(4):
        follower.answer(FetchPartitionResponse(0, FencedLeaderEpochError.code), now=now)
        assert follower.state() is FollowState.DELAYED
        due = follower.machine.retry_due(now)
        assert due is not None
        delays.append(round(due - now, 3))
        now = due
        assert follower.machine.retry_due(now) is None
        assert follower.state() is FollowState.NAMEABLE
        follower.machine.next_request(now)
    assert delays == [0.02, 0.04, 0.05, 0.05]
    follower.answer(records(data()), payload=data(), now=now)
    follower.sync()
    follower.machine.next_request(now)
    follower.answer(FetchPartitionResponse(0, FencedLeaderEpochError.code), now=now)
    assert follower.machine.retry_due(now) == pytest.approx(now + 0.02)


@pytest.mark.parametrize(
    "payload",
    [
        data()[:-1] + b"\x00",  # CRC
        data(base=5),  # a gap
        data()[:30],  # a partial batch is no batch
    ],
)
def test_what_cannot_be_appended_is_not_and_is_asked_for_again(payload: bytes) -> None:
    follower = Follower()
    follower.follow()
    follower.answer(records(payload), payload=payload)
    assert follower.partitions[0].log.log_end_offset == 0
    assert follower.state() in (FollowState.DELAYED, FollowState.NAMEABLE)
    assert follower.failed == []


def test_a_dead_directory_ends_it_and_a_full_disk_does_not() -> None:
    follower = Follower()
    follower.follow()
    follower.files.set_free_bytes(0)
    follower.answer(records(data()), payload=data())
    assert follower.state() is FollowState.DELAYED
    follower.files.heal()
    follower.machine.retry_due(100.0)
    follower.machine.next_request(100.0)
    follower.files.fail("append", "/d", error=errno.EIO)
    follower.answer(records(data()), payload=data())
    assert follower.failed == follower.partitions
    assert follower.state() is None


def test_a_refused_fetch_ends_the_session() -> None:
    follower = Follower()
    follower.follow()
    with pytest.raises(InvalidFetchSessionEpochError):
        follower.machine.take(
            FetchResponse(InvalidFetchSessionEpochError.code), memoryview(b""), 0.0
        )
    follower.machine.reconnect()
    request = follower.machine.next_request(0.0)
    assert request.session_epoch == 0
    assert len(named(request)) == 1


def test_removed_partitions_are_forgotten_with_the_next_fetch() -> None:
    follower = Follower(2)
    follower.follow()
    follower.machine.remove(TopicPartition("t", 0))
    assert TopicPartition("t", 0) not in follower.machine
    assert follower.machine.wants_to_send(patient=True)
    request = follower.machine.next_request(0.0)
    assert [(f.topic, f.partitions) for f in request.forgotten] == [("t", [0])]
    follower.machine.add(follower.partitions[0])
    assert follower.machine.next_request(0.0).forgotten == []


def test_everything_is_named_again_when_asked_for() -> None:
    follower = Follower(2)
    follower.follow()
    assert not follower.machine.wants_to_send(patient=True)
    follower.machine.name_again()
    assert follower.machine.wants_to_send(patient=True)
    request = follower.machine.next_request(0.0)
    assert [(n.partition, n.fetch_offset) for n in named(request)] == [(0, 0), (1, 0)]
    follower.answer(records(data()), payload=data())  # of the older names
    assert follower.partitions[0].log.log_end_offset == 0
    follower.answer(records(data()), payload=data())
    assert follower.partitions[0].log.log_end_offset == 1


def test_at_most_two_fetches_are_under_way() -> None:
    follower = Follower(3)
    for partition in follower.partitions[:2]:
        follower.machine.add(partition)
        assert follower.machine.wants_to_send(patient=True)
        follower.machine.next_request(0.0)
    follower.machine.add(follower.partitions[2])
    assert follower.machine.in_flight == 2
    assert not follower.machine.wants_to_send(patient=True)
    follower.answer()
    assert follower.machine.wants_to_send(patient=True)


def test_nothing_is_asked_for_when_nothing_is_followed() -> None:
    follower = Follower()
    assert not follower.machine.wants_to_send(patient=False)
    assert len(follower.machine) == 0


def diverged(follower: Follower) -> list[int]:
    """Return which partitions have been cut to nothing."""
    logs = [partition.log for partition in follower.partitions]
    return [number for number, log in enumerate(logs) if log.log_end_offset == 0]


def test_of_many_that_diverge_some_are_cut_at_a_time() -> None:
    count = 2 * TRUNCATIONS_PER_TURN + 4
    follower = Follower(count)
    follower.follow()
    follower.answer(*[records(data(), number) for number in range(count)], payload=data())
    follower.sync()
    follower.machine.next_request(0.0)
    cuts = [FetchPartitionResponse(n, diverging=EpochEnd(-1, 0)) for n in range(count)]
    follower.answer(*cuts)
    machine = follower.machine
    assert diverged(follower) == list(range(TRUNCATIONS_PER_TURN))
    assert follower.state(TRUNCATIONS_PER_TURN) is FollowState.TRUNCATING
    assert machine.truncating
    # One is led by somebody else now, one is no longer followed, one was named anew.
    named_anew, moved, dropped = range(TRUNCATIONS_PER_TURN, TRUNCATIONS_PER_TURN + 3)
    follower.order(follower.partitions[moved], 4)
    machine.remove(TopicPartition("t", dropped))
    machine.add(follower.partitions[named_anew])
    machine.truncate_some(0.0)
    assert diverged(follower) == [*range(TRUNCATIONS_PER_TURN), dropped + 1]
    machine.truncate_some(0.0)
    assert not follower.machine.truncating
    assert diverged(follower) == [*range(TRUNCATIONS_PER_TURN), *range(dropped + 1, count)]
    follower.sync()
    assert follower.state(count - 1) is FollowState.NAMEABLE


def test_a_broken_connection_ends_cutting() -> None:
    count = TRUNCATIONS_PER_TURN + 1
    follower = Follower(count)
    follower.follow()
    follower.answer(*[records(data(), number) for number in range(count)], payload=data())
    follower.sync()
    follower.machine.next_request(0.0)
    follower.answer(*[FetchPartitionResponse(n, diverging=EpochEnd(-1, 0)) for n in range(count)])
    follower.machine.reconnect()
    assert not follower.machine.truncating
    assert diverged(follower) == list(range(TRUNCATIONS_PER_TURN))


async def test_a_position_is_named_only_when_the_producers_before_it_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their sequences are read again in later turns, and what comes next is checked by them."""
    monkeypatch.setattr(producer_snapshots, "BATCHES_PER_STEP", 5)
    follower = Follower()
    log = follower.partitions[0].log
    for sequence in range(30):
        batch = batch_of(b"v", producer=(7, 1, sequence))
        stamp(batch, 0, sequence, 1)
        log.append_as_follower(batch)
    follower.sync()
    follower.follow()
    follower.answer(FetchPartitionResponse(0, diverging=EpochEnd(1, 20)))
    follower.sync()
    assert log.log_end_offset == log.synced_offset == 20
    assert follower.state() is FollowState.SYNCING
    await eventually(lambda: follower.state() is FollowState.NAMEABLE)
    assert not log.producers.is_reading
    assert log.producers.state.producers[7].last_sequence == 19
