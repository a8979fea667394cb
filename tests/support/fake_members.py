"""Groups of a fake cluster have members: a coordinator does its work, without time-outs of its own.

A member that a test wants gone is thrown out by ``expel``. A rebalance ends when every member has
joined; a member that is silent for good holds it up until it is expelled. Requests are kept by the
fake cluster, so tests count there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.consumer_protocol import decode_assignment
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    MemberIdRequiredError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages import groups as wire
from oncelog_protocol.messages.transactions import TxnOffsetCommitRequest
from oncelog_protocol.types import TopicPartition
from support.fake_cluster import FakeCluster
from support.fake_handlers import Handlers

__all__ = ["FakeCoordinator", "GroupCluster", "JoinedGroup"]


@dataclass
class FakeMember:
    """The coordinator sees this of one member."""

    metadata: bytes
    instance_id: str | None = None
    joined: bool = False


@dataclass
class JoinedGroup:
    """It is one group."""

    state: str = "Empty"
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    members: dict[str, FakeMember] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    """Member ids that were given out and have not joined."""
    assignments: dict[str, bytes] = field(default_factory=dict)
    offsets: dict[TopicPartition, wire.OffsetCommitPartition] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, str] = field(default_factory=dict)
    """The topics of the offsets, as who committed them said."""
    reasons: list[str | None] = field(default_factory=list)
    """The reasons that joins gave, in order."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def announce(self) -> None:
        """Whoever waits looks again."""
        event, self.changed = self.changed, asyncio.Event()
        event.set()

    def prepare(self) -> None:
        """A rebalance begins."""
        self.state = "PreparingRebalance" if self.members else "Empty"
        for member in self.members.values():
            member.joined = False
        self.announce()

    def expel(self, member_id: str) -> None:
        """The session of a member is over."""
        self.members.pop(member_id)
        if self.state != "PreparingRebalance":
            self.prepare()
        self.complete_if_possible()

    def complete_if_possible(self) -> None:
        """Everybody has joined: the next generation."""
        members = self.members
        if self.state != "PreparingRebalance" or not all(m.joined for m in members.values()):
            return
        if not members:
            self.state = "Empty"
            return
        self.state = "CompletingRebalance"
        self.generation += 1
        if self.leader not in members:
            self.leader = next(iter(members))
        self.assignments = {}
        self.announce()

    def owners(self) -> dict[TopicPartition, str]:
        """Return who was given what in this generation."""
        return {
            tp: member_id
            for member_id, share in self.assignments.items()
            for tp in decode_assignment(share).partitions
        }


class FakeCoordinator:
    """It has the groups of a cluster; one broker coordinates all of them."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id: int | None = broker_id
        """None: there is none at the moment."""
        self.groups: dict[str, JoinedGroup] = {}
        self.pending: Callable[[str, TopicPartition], bool] = lambda group_id, tp: False
        """Whether a transaction holds an offset."""
        self._count = 0

    def group(self, group_id: str = "g") -> JoinedGroup:
        """Return one group, and make it if need be."""
        return self.groups.setdefault(group_id, JoinedGroup())

    def find(self, request: wire.FindCoordinatorRequest) -> Any:
        if self.broker_id is None:
            return wire.FindCoordinatorResponse(CoordinatorNotAvailableError.code)
        return wire.FindCoordinatorResponse(0, None, self.broker_id)

    def _fence(self, broker: int, group: JoinedGroup, request: Any) -> int:
        if broker != self.broker_id:
            return NotCoordinatorError.code
        member = group.members.get(request.member_id)
        instance = getattr(request, "group_instance_id", None)
        if member is None:
            taken = instance is not None and any(
                each.instance_id == instance for each in group.members.values()
            )
            return FencedInstanceIdError.code if taken else UnknownMemberIdError.code
        if request.generation_id != group.generation:
            return IllegalGenerationError.code
        return 0

    async def join(self, broker: int, request: wire.JoinGroupRequest) -> Any:
        if broker != self.broker_id:
            return wire.JoinGroupResponse(NotCoordinatorError.code)
        group = self.group(request.group_id)
        group.reasons.append(request.reason)
        member_id = request.member_id
        instance = request.group_instance_id
        if not member_id:
            self._count += 1
            member_id = f"member-{self._count}"
            if instance is None:
                group.pending.append(member_id)
                return wire.JoinGroupResponse(MemberIdRequiredError.code, member_id=member_id)
            for known, member in list(group.members.items()):
                if member.instance_id == instance:
                    del group.members[known]
        elif member_id not in group.members and member_id not in group.pending:
            return wire.JoinGroupResponse(UnknownMemberIdError.code)
        if group.state != "PreparingRebalance":
            group.prepare()
        metadata = request.protocols[0].metadata
        group.protocol = request.protocols[0].name
        group.members[member_id] = FakeMember(metadata, instance, True)
        group.state = "PreparingRebalance"
        generation = group.generation
        group.complete_if_possible()
        while group.generation == generation:
            if member_id not in group.members:
                return wire.JoinGroupResponse(UnknownMemberIdError.code)
            await group.changed.wait()
        told = []
        if member_id == group.leader:
            told = [
                wire.JoinGroupMember(each, member.instance_id, member.metadata)
                for each, member in group.members.items()
            ]
        return wire.JoinGroupResponse(
            0,
            None,
            group.generation,
            "consumer",
            group.protocol,
            group.leader,
            False,
            member_id,
            told,
        )

    async def sync(self, broker: int, request: wire.SyncGroupRequest) -> Any:
        group = self.group(request.group_id)
        code = self._fence(broker, group, request)
        if code == 0 and group.state == "PreparingRebalance":
            code = RebalanceInProgressError.code
        if code:
            return wire.SyncGroupResponse(code)
        generation = group.generation
        if request.member_id == group.leader and group.state == "CompletingRebalance":
            group.assignments = {each.member_id: each.assignment for each in request.assignments}
            group.state = "Stable"
            group.announce()
        while group.state == "CompletingRebalance" and group.generation == generation:
            await group.changed.wait()
        if group.state != "Stable" or group.generation != generation:
            return wire.SyncGroupResponse(RebalanceInProgressError.code)
        share = group.assignments.get(request.member_id, b"")
        return wire.SyncGroupResponse(0, None, "consumer", group.protocol, share)

    def heartbeat(self, broker: int, request: wire.HeartbeatRequest) -> Any:
        group = self.group(request.group_id)
        code = self._fence(broker, group, request)
        if code == 0 and group.state == "PreparingRebalance":
            code = RebalanceInProgressError.code
        return wire.HeartbeatResponse(code)

    def leave(self, broker: int, request: wire.LeaveGroupRequest) -> Any:
        if broker != self.broker_id:
            return wire.LeaveGroupResponse(NotCoordinatorError.code)
        group = self.group(request.group_id)
        answers = []
        for member in request.members:
            known = member.member_id in group.members
            if known:
                group.expel(member.member_id)
            answers.append(
                wire.LeavingMemberResponse(
                    member.member_id, None, 0 if known else UnknownMemberIdError.code
                )
            )
        return wire.LeaveGroupResponse(0, None, answers)

    def commit(self, broker: int, request: wire.OffsetCommitRequest) -> Any:
        group = self.group(request.group_id)
        if broker != self.broker_id:
            return wire.OffsetCommitResponse(NotCoordinatorError.code)
        code = 0
        if request.generation_id >= 0 or group.members:
            code = self._fence(broker, group, request)
            if code == 0 and group.state == "CompletingRebalance":
                code = RebalanceInProgressError.code
        if code:
            return wire.OffsetCommitResponse(code)
        answers = []
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                tp = TopicPartition(topic.topic, item.partition)
                group.offsets[tp], group.topic_ids[tp] = item, topic.topic_id
                items.append(wire.OffsetCommitPartitionResponse(item.partition))
            answers.append(wire.OffsetCommitTopicResponse(topic.topic, items))
        return wire.OffsetCommitResponse(0, None, answers)

    def fence_offsets(self, request: TxnOffsetCommitRequest) -> int:
        """Return whether the offsets of a transaction are those of a member."""
        group = self.group(request.group_id)
        if request.generation_id >= 0 or group.members:
            return self._fence(self.broker_id or 0, group, request)
        return 0

    def committed(self, group_id: str, tp: TopicPartition, item: Any) -> None:
        """A transaction has committed an offset."""
        self.group(group_id).offsets[tp] = wire.OffsetCommitPartition(
            item.partition, item.offset, item.leader_epoch, item.metadata
        )

    def fetch(self, broker: int, request: wire.OffsetFetchRequest) -> Any:
        group = self.group(request.group_id)
        if broker != self.broker_id:
            return wire.OffsetFetchResponse(NotCoordinatorError.code)
        code = self._fence(broker, group, request) if request.member_id else 0
        if code:
            return wire.OffsetFetchResponse(code)
        answers = []
        for topic in request.topics or []:
            items = []
            for number in topic.partitions:
                item = group.offsets.get(TopicPartition(topic.topic, number))
                answer = wire.OffsetFetchPartitionResponse(number)
                if self.pending(request.group_id, TopicPartition(topic.topic, number)):
                    answer.error_code = UnstableOffsetCommitError.code
                    items.append(answer)
                    continue
                if item is not None:
                    answer.offset, answer.leader_epoch = item.offset, item.leader_epoch
                    answer.metadata = item.metadata
                    tp = TopicPartition(topic.topic, number)
                    answer.topic_id = group.topic_ids.get(tp, "")
                items.append(answer)
            answers.append(wire.OffsetFetchTopicResponse(topic.topic, items))
        return wire.OffsetFetchResponse(0, None, answers)


class GroupCluster(FakeCluster):
    """Its groups work; ``coordinator`` has them."""

    def __init__(self, broker_count: int = 1) -> None:
        super().__init__(broker_count)
        self.coordinator = FakeCoordinator(next(iter(self.brokers)))
        self.coordinator.pending = self.transactions.pending
        self.transactions.fence = self.coordinator.fence_offsets
        self.transactions.on_committed = self.coordinator.committed
        for broker_id, broker in self.brokers.items():
            broker._handlers = _Handlers(self, broker_id)

    async def __aenter__(self) -> GroupCluster:
        await super().__aenter__()
        return self

    def group(self, group_id: str = "g") -> JoinedGroup:
        """Return one group, and make it if need be."""
        return self.coordinator.group(group_id)


class _Handlers(Handlers):
    def __init__(self, cluster: GroupCluster, broker_id: int) -> None:
        super().__init__(cluster, broker_id)
        self._groups = cluster.coordinator

    async def handle(self, request: Any, payload: memoryview) -> tuple[Any, list[bytes]]:
        groups, broker = self._groups, self._broker_id
        match request:
            case wire.FindCoordinatorRequest(key_type=wire.COORDINATOR_GROUP):
                return groups.find(request), []
            case wire.JoinGroupRequest():
                return await groups.join(broker, request), []
            case wire.SyncGroupRequest():
                return await groups.sync(broker, request), []
            case wire.HeartbeatRequest():
                return groups.heartbeat(broker, request), []
            case wire.LeaveGroupRequest():
                return groups.leave(broker, request), []
            case wire.OffsetCommitRequest():
                return groups.commit(broker, request), []
            case wire.OffsetFetchRequest():
                return groups.fetch(broker, request), []
        return await super().handle(request, payload)
