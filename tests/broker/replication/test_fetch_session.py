"""The leader's end of a session: names stay open, news wakes, idle partitions cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_broker.replication.catch_up import LOOK_AGAIN_S, Pace
from oncelog_broker.replication.fetch_session import FollowerSession
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_broker.replication.progress import UNKNOWN_OFFSET
from oncelog_broker.replication.purgatory import Deadlines
from oncelog_broker.replication.safeguards import SAFE
from oncelog_broker.replication.traffic import TopicTraffic
from oncelog_protocol import schema
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from oncelog_protocol.messages.fetch import (
    NOT_KNOWN,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from oncelog_protocol.messages.replication import AlterPartitionResult, LeaderAndIsrPartition
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, FetchLane, TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from support.replicas import batch_of, make_logs, topic_config
from support.room_settings import replica_settings
from support.waiting import eventually

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Leader:
    """It is a broker that leads some partitions in epoch 0, and one follower's session."""

    def __init__(self, *tps: TopicPartition, pace: Pace | None = None) -> None:
        self.logs = make_logs(MemoryFiles("/d"))
        self.partitions: dict[TopicPartition, Partition] = {}
        self.deadlines = Deadlines()
        for tp in tps or (A0,):
            self.partitions[tp] = Partition(
                tp,
                self.logs.create(tp, "id", topic_config()),
                broker_id=1,
                high_watermark=0,
                owner=self,
                safeguards=SAFE,
                traffic=TopicTraffic(),
            )
            self.lead(tp, 0)
        self.logs.dirs[0].flusher.sync_now()
        self.looked_up = 0
        self.session = FollowerSession(
            2, lookup=self.lookup, deadlines=self.deadlines, now=self.now, pace=pace
        )
        self.answers: list[tuple[FetchResponse, bytes]] = []
        self.session_epoch = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def lookup(self, tp: TopicPartition) -> Partition:
        self.looked_up += 1
        if tp not in self.partitions:
            raise UnknownTopicOrPartitionError
        return self.partitions[tp]

    def lead(
        self, tp: TopicPartition, epoch: int, leader: int = 1, isr: Sequence[int] = (1, 2)
    ) -> None:
        order = LeaderAndIsrPartition(
            tp.topic, "id", tp.partition, leader, epoch, [*isr], epoch, [1, 2], False
        )
        assert self.partitions[tp].apply_leader_and_isr(order, self.now) == 0

    def isr_change_wanted(self, partition: Partition) -> None:
        pass

    def refetch_wanted(self, partition: Partition) -> None:
        raise AssertionError("no log is damaged here")

    def follower_synced(self, partition: Partition) -> None:
        pass

    def replica_broke_down(self, partition: Partition) -> None:
        raise AssertionError(f"{partition} broke down")

    def append(self, tp: TopicPartition, value: bytes = b"v") -> None:
        self.partitions[tp].append_as_leader(batch_of(value), Acks.LEADER, self.now)

    def fetch(
        self,
        *names: tuple[TopicPartition, int],
        epoch: int = 0,
        last: int = -1,
        max_wait_ms: int = 10_000,
        max_bytes: int = 1 << 20,
        forget: Sequence[TopicPartition] = (),
        topic_id: str = "id",
        lane: int = FetchLane.MAIN.value,
    ) -> None:
        topics: dict[str, FetchTopic] = {}
        for tp, offset in names:
            topics.setdefault(tp.topic, FetchTopic(tp.topic, [], topic_id)).partitions.append(
                FetchPartition(tp.partition, offset, 1 << 20, epoch, last, 0)
            )
        request = FetchRequest(
            2,
            200,
            max_wait_ms,
            1,
            max_bytes,
            0,
            self.session_epoch,
            list(topics.values()),
            [ForgottenTopic(tp.topic, [tp.partition]) for tp in forget],
            lane,
        )
        self.session.handle(request, self._respond, self.now)
        self.session_epoch += 1

    def _respond(self, message: Any, payload: Sequence[Any] = ()) -> None:
        data = b"".join(payload)
        assert schema.span_fault(message, len(data)) == ""
        self.answers.append((message, data))

    def one(self, number: int = -1) -> FetchPartitionResponse:
        """Return the only partition of an answer."""
        (topic,) = self.answers[number][0].topics
        (answer,) = topic.partitions
        return answer


async def test_data_is_answered_at_once() -> None:
    leader = Leader()
    leader.append(A0)
    leader.fetch((A0, 0))
    assert leader.one().records.length == len(leader.answers[0][1]) > 0


async def test_a_follower_that_does_not_understand_a_batch_is_told() -> None:
    leader = Leader()
    kafkas = memoryview(encode_batch([b"v"], timestamps=0, magic=KAFKA_MAGIC))
    leader.partitions[A0].append_as_leader(kafkas, Acks.LEADER, leader.now, magic=KAFKA_MAGIC)
    leader.fetch((A0, 0))
    assert leader.one().error_code == UnsupportedVersionError.code
    assert not leader.answers[-1][1]


async def test_without_news_it_is_parked_until_an_append_and_answered_once_for_many() -> None:
    leader = Leader(A0, A1, B0)
    leader.fetch((A0, 0), (A1, 0), (B0, 0))
    assert leader.answers == []
    leader.append(B0)
    leader.append(A1)
    leader.append(B0)
    assert leader.answers == []  # not before this iteration of the loop is over
    await asyncio.sleep(0)
    assert len(leader.answers) == 1
    topics = leader.answers[0][0].topics
    assert [(t.topic, [p.partition for p in t.partitions]) for t in topics] == [
        ("b", [0]),
        ("a", [1]),
    ]


async def test_it_is_answered_empty_at_the_deadline() -> None:
    leader = Leader()
    leader.fetch((A0, 0), max_wait_ms=10)
    await eventually(lambda: leader.answers)
    assert leader.answers[0][0].topics == []
    assert len(leader.deadlines) == 0


async def test_a_name_is_served_once_until_it_is_named_again() -> None:
    leader = Leader()
    leader.append(A0)
    leader.fetch((A0, 0))
    leader.append(A0)
    leader.fetch(max_wait_ms=0)
    assert leader.answers[1][0].topics == []
    leader.fetch((A0, 1), last=0)
    assert leader.one().records.length > 0


async def test_a_name_stays_open_over_empty_answers() -> None:
    leader = Leader()
    leader.fetch((A0, 0), max_wait_ms=0)
    leader.fetch(max_wait_ms=10_000)
    leader.append(A0)
    await asyncio.sleep(0)
    assert leader.one().records.length > 0


async def test_a_second_fetch_completes_the_parked_one_before_it_is_read() -> None:
    leader = Leader(A0, A1)
    leader.fetch((A0, 0))
    leader.append(A1)
    leader.fetch((A1, 0))
    assert len(leader.answers) == 2
    assert leader.answers[0][0].topics == []
    assert leader.one(1).partition == 1


async def test_high_watermarks_ride_along_and_wake_nobody() -> None:
    leader = Leader(A0, A1)
    leader.append(A0)
    leader.fetch((A0, 0), (A1, 0))
    leader.logs.dirs[0].flusher.sync_now()
    leader.fetch((A0, 1), last=0)  # the follower has it: committed
    assert leader.partitions[A0].high_watermark == 1
    await asyncio.sleep(0)
    assert len(leader.answers) == 1
    leader.append(A1)
    await asyncio.sleep(0)
    (topic,) = leader.answers[1][0].topics
    assert [(p.partition, p.high_watermark, p.records.length > 0) for p in topic.partitions] == [
        (1, 0, True),
        (0, 1, False),
    ]
    leader.fetch((A1, 1), last=0, max_wait_ms=0)
    assert leader.answers[2][0].topics == []  # told once


async def test_a_follower_that_is_new_to_an_idle_partition_hears_what_is_committed() -> None:
    """It is told once a session and leader epoch; after a restart it has what its disk says."""
    leader = Leader()
    leader.append(A0)
    leader.fetch((A0, 0))
    leader.logs.dirs[0].flusher.sync_now()
    leader.fetch((A0, 1), last=0, max_wait_ms=0)
    assert leader.one().high_watermark == 1
    again = FollowerSession(2, lookup=leader.lookup, deadlines=leader.deadlines, now=leader.now)
    leader.session, leader.session_epoch = again, 0
    leader.fetch((A0, 1), last=0)
    assert len(leader.answers) == 2  # it is worth no answer of its own
    leader.fetch(max_wait_ms=0)
    assert leader.one(2).high_watermark == 1
    assert leader.answers[3][0].topics == []
    leader.lead(A0, 1)
    leader.fetch((A0, 1), epoch=1, last=0, max_wait_ms=0)
    assert leader.one().high_watermark == 1


async def test_who_names_again_before_an_answer_hears_again_what_is_committed() -> None:
    """A follower that has registered again names everything: it drops the answer under way."""
    leader = Leader()
    leader.append(A0)
    leader.fetch((A0, 0))
    leader.logs.dirs[0].flusher.sync_now()
    leader.fetch((A0, 1), last=0)
    leader.fetch((A0, 1), last=0)  # the former answer is dropped when it comes
    assert leader.one(1).high_watermark == 1
    leader.fetch(max_wait_ms=0)
    assert leader.one(2).high_watermark == 1
    assert leader.answers[3][0].topics == []


async def test_a_high_watermark_that_moves_between_answer_and_name_is_told_later() -> None:
    """The name that follows finds no data, and nobody may write here for days."""
    leader = Leader(A0, A1)
    partition = leader.partitions[A0]
    leader.append(A0)
    leader.fetch((A0, 0), (A1, 0))
    leader.logs.dirs[0].flusher.sync_now()
    leader.fetch()
    assert partition.leader is not None
    assert partition.leader.propose_leave([2])
    item = partition.isr_item()
    assert item is not None
    result = AlterPartitionResult("a", 0, 0, 1, 0, [1], 1)
    partition.isr_answered(item, result, leader.now)
    assert partition.high_watermark == 1
    leader.append(A1)
    await asyncio.sleep(0)
    assert leader.one().partition == 1, "of the other nothing is open that could be answered"
    leader.fetch((A0, 1), last=0, max_wait_ms=0)
    assert leader.one().high_watermark == 1


async def test_epochs_are_fenced_when_named_and_when_they_change() -> None:
    """KAFKA-9338: the session remembers in which epoch a partition was named."""
    leader = Leader()
    leader.fetch((A0, 0), epoch=1)
    assert leader.one().error_code == UnknownLeaderEpochError.code
    leader.fetch((A0, 0))
    leader.lead(A0, 1)
    await asyncio.sleep(0)
    assert leader.one().error_code == FencedLeaderEpochError.code
    leader.fetch((A0, 0))
    assert leader.one().error_code == FencedLeaderEpochError.code
    leader.fetch((A0, 0), epoch=1)
    assert len(leader.answers) == 3


async def test_a_replica_of_a_former_topic_of_the_name_counts_for_nothing() -> None:
    """[K25]: the leader epochs of a topic that was made anew begin again and fence nobody."""
    leader = Leader()
    leader.append(A0)
    leader.fetch((A0, 1), topic_id="of the deleted one")
    assert leader.one().error_code == InconsistentTopicIdError.code
    role = leader.partitions[A0].leader_role()
    assert role.followers[2].durable_offset == UNKNOWN_OFFSET
    leader.fetch((A0, 1))
    assert role.followers[2].durable_offset == 1


async def test_divergence_comes_without_offsets() -> None:
    leader = Leader()
    leader.append(A0)
    leader.lead(A0, 1)
    leader.append(A0)
    leader.fetch((A0, 2), epoch=1, last=0)
    answer = leader.one()
    assert answer.diverging is not None
    assert (answer.diverging.leader_epoch, answer.diverging.end_offset) == (0, 1)
    assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)
    assert leader.answers[0][1] == b""


async def test_errors_of_one_partition_leave_the_others_alone() -> None:
    leader = Leader(A0)
    leader.append(A0)
    leader.fetch((TopicPartition("x", 0), 0), (A0, 0))
    codes = {t.topic: p.error_code for t in leader.answers[0][0].topics for p in t.partitions}
    assert codes == {"x": UnknownTopicOrPartitionError.code, "a": 0}


async def test_what_does_not_fit_comes_first_next_time() -> None:
    leader = Leader(A0, A1, B0)
    for tp in (A0, A1, B0):
        leader.append(tp, b"v" * 1000)
    leader.fetch((A0, 0), (A1, 0), (B0, 0), max_bytes=1)
    assert leader.one().partition == 0
    leader.fetch(max_bytes=1)
    assert leader.one().partition == 1
    leader.fetch(max_bytes=1)
    assert leader.answers[2][0].topics[0].topic == "b"


async def test_forgotten_partitions_bring_no_news() -> None:
    leader = Leader(A0, A1)
    leader.fetch((A0, 0), (A1, 0), max_wait_ms=0)
    leader.fetch(forget=[A0])
    leader.append(A0)
    await asyncio.sleep(0)
    assert len(leader.answers) == 1
    assert len(leader.session) == 1


async def test_session_epochs_must_follow() -> None:
    leader = Leader()
    leader.fetch((A0, 0), max_wait_ms=0)
    leader.session_epoch = 5
    with pytest.raises(InvalidFetchSessionEpochError):
        leader.fetch()
    leader.session_epoch = 1
    with pytest.raises(InvalidRequestError):
        leader.fetch(max_wait_ms=-1)
    with pytest.raises(InvalidRequestError):
        leader.fetch(lane=2)


async def test_closing_leaves_nothing_behind() -> None:
    leader = Leader()
    leader.fetch((A0, 0))
    leader.append(A0)
    leader.session.close()
    await asyncio.sleep(0)
    leader.append(A0)
    await asyncio.sleep(0)
    assert leader.answers == []
    assert len(leader.deadlines) == 0
    assert leader.partitions[A0]._readers == {}


async def test_ending_answers_what_is_parked() -> None:
    leader = Leader()
    leader.fetch((A0, 0))
    leader.session.end()
    assert len(leader.answers) == 1


async def test_a_stream_is_gathered_and_a_trickle_is_not() -> None:
    leader = Leader()
    leader.append(A0, b"v" * 20_000)
    leader.fetch((A0, 0))
    assert len(leader.answers) == 1
    leader.append(A0, b"v" * 20_000)
    leader.fetch((A0, 1), last=0)
    assert len(leader.answers) == 1  # the producer is about to send more
    leader.append(A0, b"v" * 20_000)
    await eventually(lambda: len(leader.answers) == 2)
    assert leader.one().records.length > 40_000
    leader.append(A0, b"v")
    leader.fetch((A0, 3), last=0)
    await eventually(lambda: len(leader.answers) == 3)
    leader.append(A0, b"v")
    leader.fetch((A0, 4), last=0)
    assert len(leader.answers) == 4  # the last answer was small


async def test_closing_ends_gathering() -> None:
    leader = Leader()
    leader.append(A0, b"v" * 20_000)
    leader.fetch((A0, 0))
    leader.append(A0)
    leader.fetch((A0, 1), last=0)
    leader.session.close()
    await asyncio.sleep(0.005)
    assert len(leader.answers) == 1


async def test_two_thousand_idle_partitions_cost_nothing_per_fetch() -> None:
    tps = [TopicPartition("a", number) for number in range(2000)]
    leader = Leader(*tps)
    leader.fetch(*[(tp, 0) for tp in tps], max_wait_ms=0)
    leader.looked_up = 0
    for _ in range(5):
        leader.append(tps[1234])
        leader.fetch(max_wait_ms=0)
    assert leader.looked_up == 0
    assert [len(message.topics) for message, _ in leader.answers[1:]] == [1, 0, 0, 0, 0]


# ------------------------------------------------------------------------------ the catch-up lane

CATCH_UP = FetchLane.CATCH_UP.value


def a_pace(most: int) -> tuple[Pace, ReplicaConfig]:
    """Return a pace that grants so many bytes a second, and its settings."""
    settings = replica_settings(replica_catch_up_max_bytes_per_second=most)
    pace = Pace(settings)
    pace.start(asyncio.get_running_loop())
    return pace, settings


async def test_what_is_left_is_told_on_the_catch_up_lane_only() -> None:
    leader = Leader(A0, A1)
    leader.lead(A0, 1, isr=[1])
    for tp in (A0, A1):
        for _ in range(3):
            leader.append(tp)
    leader.logs.dirs[0].flusher.sync_now()  # committed, so nobody may join who lacks it
    size = leader.partitions[A0].log.size_bytes
    leader.fetch((A0, 0), epoch=1, max_bytes=size // 3)
    assert leader.one().bytes_left == NOT_KNOWN
    leader.fetch((A0, 0), epoch=1, max_bytes=size // 3, lane=CATCH_UP)
    assert leader.one().records.length == size // 3
    assert leader.one().bytes_left == 2 * size // 3
    leader.fetch((A1, 0), max_bytes=size // 3, lane=CATCH_UP)
    assert leader.one().records.length == size // 3
    assert leader.one().bytes_left == 0, "a member belongs on the main lane, however far it is"


async def test_who_lacks_nothing_hears_so_at_once_on_the_catch_up_lane() -> None:
    """It may be in the ISR by now, and its place is on the main lane."""
    pace, _ = a_pace(1)
    leader = Leader(pace=pace)
    leader.fetch((A0, 0), lane=CATCH_UP)
    assert (leader.one().records.length, leader.one().bytes_left) == (0, 0)
    leader.fetch(lane=CATCH_UP)
    assert len(leader.answers) == 1, "it is told once"


async def test_a_leader_holds_back_what_its_pace_does_not_allow() -> None:
    pace, settings = a_pace(1)
    leader = Leader(A0, A1, pace=pace)
    for tp in (A0, A1):
        leader.lead(tp, 1, isr=[1])
        leader.append(tp, b"v" * 1_000)
    leader.logs.dirs[0].flusher.sync_now()  # committed, so nobody may join who lacks it
    leader.fetch((A0, 0), (A1, 0), epoch=1, max_wait_ms=20, lane=CATCH_UP)
    assert leader.answers == []
    await eventually(lambda: leader.answers)
    assert leader.answers[0][0].topics == [], "its time is over"
    leader.fetch(max_wait_ms=10_000, lane=CATCH_UP)
    leader.append(A0)
    leader.partitions[A1].fail()
    settings.replica_catch_up_max_bytes_per_second = 0
    await eventually(lambda: len(leader.answers) == 2)
    (topic,) = leader.answers[1][0].topics
    assert [(p.partition, bool(p.error_code)) for p in topic.partitions] == [(0, False), (1, True)]
    assert pace.carried_bytes == len(leader.answers[1][1]) > 1_000
    leader.session.close()
    pace.close()


async def test_members_wait_for_no_pace_and_spend_nothing_of_it() -> None:
    pace, _ = a_pace(1)
    leader = Leader(A0, A1, pace=pace)
    leader.lead(A1, 1, isr=[1])
    for tp in (A1, A0):
        leader.append(tp)
    leader.logs.dirs[0].flusher.sync_now()
    leader.fetch((A1, 0), epoch=1, lane=CATCH_UP)
    leader.fetch((A0, 0), lane=CATCH_UP)
    assert leader.one().records.length > 0
    assert leader.answers[-1][0].topics[0].partitions[0].partition == 0
    assert pace.carried_bytes == leader.one().records.length
    assert pace.ready_at(leader.now) - leader.now < LOOK_AGAIN_S, "no debt was made"
    leader.session.close()
    pace.close()


async def test_the_main_lane_knows_no_pace() -> None:
    pace, _ = a_pace(1)
    leader = Leader(pace=pace)
    leader.lead(A0, 1, isr=[1])
    leader.append(A0)
    leader.fetch((A0, 0), epoch=1)
    assert leader.one().records.length > 0
    assert pace.carried_bytes == 0
