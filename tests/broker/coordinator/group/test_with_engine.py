"""Groups have the real engine: parked callers, a coordinator that moves, commits that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.group.shard import GroupShard
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages.groups import (
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    MemberAssignment,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.clock import ManualClock
from support.coordinators import MemoryPartition, MemoryWriter
from support.group_world import Answer
from support.room_settings import group_settings
from support.waiting import eventually

TOPIC = "__consumer_offsets"


class Broker:
    """It is one broker that coordinates the only partition, or not."""

    def __init__(self, tasks: Tasks) -> None:
        self.writer = MemoryWriter()
        self.engine: CoordinatorEngine[GroupShard] = CoordinatorEngine(
            name="groups",
            topic=TOPIC,
            writer=self.writer,
            make_shard=partial(
                GroupShard,
                config=group_settings(group_initial_rebalance_delay_ms=1),
                clock=ManualClock(),
                entropy=SeededEntropy(1),
            ),
            tasks=tasks,
            commit_timeout_ms=60_000,
        )
        self.engine.set_partition_count(1)
        self.groups = GroupCoordinator(self.engine)

    @property
    def partition(self) -> MemoryPartition:
        return self.writer.partition(TopicPartition(TOPIC, 0))

    async def elected(self, epoch: int) -> None:
        self.partition.leader_epoch = epoch
        self.engine.elected(0, epoch)
        await eventually(lambda: self.engine.refusal("g") == 0)

    def join(self, member_id: str, instance: str | None = None) -> Answer:
        answer = Answer()
        protocols = [GroupProtocol("range", b"")]
        request = JoinGroupRequest("g", 30_000, 30_000, member_id, instance, "consumer", protocols)
        self.groups.join("c", "h", request, answer)
        return answer

    def sync(self, member_id: str, generation: int) -> Answer:
        answer = Answer()
        given = [MemberAssignment(member_id, b"mine")]
        self.groups.sync(
            SyncGroupRequest("g", generation, member_id, None, None, None, given), answer
        )
        return answer

    def heartbeat(self, member_id: str, generation: int) -> int:
        answer = Answer()
        self.groups.heartbeat(HeartbeatRequest("g", generation, member_id, None), answer)
        return answer.code

    def commit(self, offset: int) -> Answer:
        answer = Answer()
        topics = [OffsetCommitTopic("t", [OffsetCommitPartition(0, offset)])]
        self.groups.commit(OffsetCommitRequest("g", -1, "", None, topics), answer)
        return answer

    def fetch(self) -> Answer:
        answer = Answer()
        self.groups.fetch_offsets(OffsetFetchRequest("g", None), answer)
        return answer

    async def member(self) -> str:
        """Join the only member of a stable group."""
        parked = self.join("", "i")
        await eventually(lambda: not parked.waits)
        member_id: str = parked.value.member_id
        assert self.sync(member_id, 1).value.assignment == b"mine"
        return member_id


@asynccontextmanager
async def broker() -> AsyncIterator[Broker]:
    tasks = Tasks("test")
    made = Broker(tasks)
    try:
        await made.elected(1)
        yield made
    finally:
        made.engine.close()
        await tasks.close()


async def test_a_member_outlives_its_coordinator() -> None:
    async with broker() as coordinator:
        member_id = await coordinator.member()
        coordinator.engine.resigned(0, 2)
        assert coordinator.heartbeat(member_id, 1) == NotCoordinatorError.code
        coordinator.writer.gate = asyncio.Event()
        coordinator.engine.elected(0, 3)
        assert coordinator.heartbeat(member_id, 1) == CoordinatorLoadInProgressError.code
        coordinator.writer.gate.set()
        await eventually(lambda: coordinator.engine.refusal("g") == 0)
        assert coordinator.heartbeat(member_id, 1) == 0
        assert coordinator.sync(member_id, 1).value.assignment == b"mine"


async def test_whoever_is_parked_hears_that_the_coordinator_has_moved() -> None:
    async with broker() as coordinator:
        await coordinator.member()
        first = coordinator.join("").value.member_id
        parked = coordinator.join(first)
        assert parked.waits
        coordinator.engine.resigned(0, 2)
        assert parked.code == NotCoordinatorError.code


async def test_assignments_that_were_not_committed_when_the_coordinator_moved() -> None:
    async with broker() as coordinator:
        parked = coordinator.join("", "i")
        await eventually(lambda: not parked.waits)
        coordinator.writer.auto_commit = False
        syncing = coordinator.sync(parked.value.member_id, 1)
        coordinator.engine.resigned(0, 2)
        assert syncing.code in (CoordinatorNotAvailableError.code, NotCoordinatorError.code)


async def test_offsets_are_told_once_they_cannot_be_lost() -> None:
    async with broker() as coordinator:
        assert coordinator.commit(1).code == 0
        coordinator.writer.auto_commit = False
        committing, fetching = coordinator.commit(2), coordinator.fetch()
        assert committing.waits
        assert fetching.waits
        coordinator.partition.commit()
        assert committing.code == 0
        assert fetching.value.topics[0].partitions[0].offset == 2


async def test_a_commit_of_which_nothing_was_heard_may_have_happened() -> None:
    async with broker() as coordinator:
        coordinator.writer.auto_commit = False
        committing = coordinator.commit(2)
        coordinator.engine.resigned(0, 2)
        assert committing.code == RequestTimedOutError.code


# ---- offsets in transactions


def pend(coordinator: Broker, offset: int, verify: Any = None, epoch: int = 0) -> Answer:
    answer = Answer()
    topics = [TxnOffsetCommitTopic("t", [TxnOffsetCommitPartition(0, offset)])]
    coordinator.groups.commit_in_txn(
        TxnOffsetCommitRequest("tx", 7, epoch, "g", topics),
        verify or (lambda _tp, callback: callback(0)),
        answer,
    )
    return answer


def end(coordinator: Broker, epoch: int = 1, *, commit: bool = True) -> list[int]:
    heard: list[int] = []
    coordinator.groups.end_transaction(0, 7, epoch, commit, heard.append)
    return heard


async def test_a_marker_is_done_when_its_offsets_can_be_read_and_not_be_lost() -> None:
    async with broker() as coordinator:
        assert pend(coordinator, 5).code == 0
        coordinator.writer.auto_commit = False
        ending = end(coordinator)
        assert ending == []
        coordinator.partition.commit()
        assert ending == [0]
        coordinator.writer.auto_commit = True
        assert coordinator.fetch().value.topics[0].partitions[0].offset == 5


async def test_a_marker_asked_for_again_waits_for_the_first_one() -> None:
    async with broker() as coordinator:
        pend(coordinator, 5)
        coordinator.writer.auto_commit = False
        first, again = end(coordinator), end(coordinator)
        assert (first, again) == ([], [])
        coordinator.partition.commit()
        assert (first, again) == ([0], [0])


async def test_a_deposed_coordinator_does_not_say_that_nothing_is_pending() -> None:
    """Its successor has offsets of the transaction that it does not know: a marker that it took
    for done would never be written there."""
    async with broker() as coordinator:
        coordinator.writer.auto_commit = False
        ending = end(coordinator)
        assert ending == []
        coordinator.engine.resigned(0, 2)
        assert ending == [RequestTimedOutError.code]
        assert end(coordinator) == [NotCoordinatorError.code]


async def test_what_is_pending_is_known_to_the_next_coordinator() -> None:
    async with broker() as coordinator:
        pend(coordinator, 5)
        coordinator.engine.resigned(0, 2)
        await coordinator.elected(3)
        assert coordinator.fetch().value.topics[0].partitions[0].error_code == (
            UnstableOffsetCommitError.code
        )
        assert end(coordinator) == [0]
        coordinator.engine.resigned(0, 4)
        await coordinator.elected(5)
        assert coordinator.fetch().value.topics[0].partitions[0].offset == 5


async def test_a_guard_of_an_earlier_leadership_is_void() -> None:
    async with broker() as coordinator:
        asked: list[Any] = []
        late = pend(coordinator, 5, lambda _tp, callback: asked.append(callback))
        coordinator.engine.resigned(0, 2)
        await coordinator.elected(3)
        asked[0](0)
        assert late.code == ConcurrentTransactionsError.code
        assert coordinator.fetch().value.topics == []


async def test_pending_offsets_are_acknowledged_when_they_cannot_be_lost() -> None:
    async with broker() as coordinator:
        coordinator.writer.auto_commit = False
        committing = pend(coordinator, 5)
        assert committing.waits
        coordinator.partition.commit()
        assert committing.code == 0


@pytest.mark.parametrize("stable", [True, False])
async def test_a_member_is_told_stable_offsets_by_who_can_commit(stable: bool) -> None:
    async with broker() as coordinator:
        member_id = await coordinator.member()
        coordinator.writer.auto_commit = False
        answer = Answer()
        request = OffsetFetchRequest("g", None, stable, member_id, 1)
        coordinator.groups.fetch_offsets(request, answer)
        assert answer.waits == stable
        coordinator.partition.commit()
        assert answer.code == 0


async def test_that_offsets_are_not_stable_is_said_at_once() -> None:
    async with broker() as coordinator:
        member_id = await coordinator.member()
        answer = Answer()
        coordinator.groups.commit_in_txn(
            TxnOffsetCommitRequest(
                "tx",
                7,
                0,
                "g",
                [TxnOffsetCommitTopic("t", [TxnOffsetCommitPartition(0, 5)])],
                1,
                member_id,
            ),
            lambda _tp, callback: callback(0),
            answer,
        )
        assert answer.code == 0
        coordinator.writer.auto_commit = False
        records = len(coordinator.partition.records)
        told = Answer()
        coordinator.groups.fetch_offsets(OffsetFetchRequest("g", None, True, member_id, 1), told)
        assert told.value.topics[0].partitions[0].error_code == UnstableOffsetCommitError.code
        assert len(coordinator.partition.records) == records
