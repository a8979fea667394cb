"""Groups over the real engine: parked callers, a coordinator that moves, commits that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.group.shard import GroupShard
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
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
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.clock import ManualClock
from support.coordinators import MemoryPartition, MemoryWriter
from support.group_world import Answer
from support.waiting import eventually

pytestmark = pytest.mark.asyncio

TOPIC = "__consumer_offsets"


class Broker:
    """One broker that coordinates the only partition, or not."""

    def __init__(self, tasks: Tasks) -> None:
        self.writer = MemoryWriter()
        self.engine: CoordinatorEngine[GroupShard] = CoordinatorEngine(
            name="groups",
            topic=TOPIC,
            writer=self.writer,
            make_shard=partial(
                GroupShard,
                config=GroupConfig(group_initial_rebalance_delay_ms=1),
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
        """The only member of a stable group."""
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
