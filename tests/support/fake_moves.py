"""The fake cluster moves partitions as far as a test says: what was asked for is begun at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog_protocol.errors import (
    ApiError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidUpdateVersionError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import moves as wire
from oncelog_protocol.messages.balance import BalanceRequest, BalanceResponse
from oncelog_protocol.types import TopicPartition

__all__ = ["FakeMoves"]


@dataclass
class FakeMoves:
    """A test puts moves into ``open``, and has ``finish`` end them."""

    brokers: list[int]
    open: dict[TopicPartition, wire.PartitionMove] = field(default_factory=dict)
    settled: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """The replicas of partitions that do not move; others are at all brokers."""
    plans: dict[str, wire.MovePlan] = field(default_factory=dict)
    balance: BalanceResponse = field(default_factory=BalanceResponse)
    """The controller's answer to whoever asks for a plan."""
    asked_for: list[BalanceRequest] = field(default_factory=list)
    bytes_to_copy: int = wire.NOT_KNOWN
    """So much the replica that is added to a partition lacks."""
    seconds: int = wire.NOT_KNOWN

    def replicas(self, tp: TopicPartition) -> list[int]:
        """Return who has a partition now."""
        if tp in self.open:
            return list(self.open[tp].replicas)
        return self._origin(tp)

    def isr(self, tp: TopicPartition) -> list[int]:
        """Return who is in sync: all but those that are added."""
        return self._origin(tp)

    def finish(self, tp: TopicPartition) -> None:
        """End the move of a partition."""
        move = self.open.pop(tp)
        self.settled[tp] = list(move.target)
        if not any(each.plan_id == move.plan_id for each in self.open.values()):
            self.plans.pop(move.plan_id, None)

    def altered(
        self, known: set[TopicPartition], request: wire.AlterPartitionReassignmentsRequest
    ) -> wire.AlterPartitionReassignmentsResponse:
        """Return the controller's answer; ``known`` are the partitions that there are."""
        plan_id = f"plan-{len(self.plans) + 1}"
        results, kept = [], 0
        for item in request.items:
            tp = TopicPartition(item.topic, item.partition)
            result = wire.ReassignmentResult(item.topic, item.partition)
            results.append(result)
            try:
                if tp not in known:
                    raise UnknownTopicOrPartitionError
                target = self._target(tp, item, request)
            except ApiError as error:
                result.error_code, result.error_message = error.code, str(error)
                continue
            added = [broker for broker in target if broker not in self.replicas(tp)]
            if self.bytes_to_copy != wire.NOT_KNOWN:
                result.bytes_to_copy = self.bytes_to_copy * len(added)
            result.seconds = self.seconds
            if not request.validate_only and target != self.replicas(tp):
                self._begin(tp, target, plan_id, request.reason)
                kept += 1
        if kept:
            self.plans[plan_id] = wire.MovePlan(plan_id, "User:ANONYMOUS", request.reason, 1000, 0)
        return wire.AlterPartitionReassignmentsResponse(
            plan_id=plan_id if kept else "", items=results
        )

    def listed(
        self, request: wire.ListPartitionReassignmentsRequest
    ) -> wire.ListPartitionReassignmentsResponse:
        """Return the controller's answer."""
        return wire.ListPartitionReassignmentsResponse(
            plans=list(self.plans.values()),
            partitions=[
                self.open[tp]
                for tp in sorted(self.open)
                if request.topics is None or tp.topic in request.topics
            ],
        )

    def _origin(self, tp: TopicPartition) -> list[int]:
        if tp in self.open and self.open[tp].origin:
            return list(self.open[tp].origin)
        return list(self.settled.get(tp, self.brokers))

    def _target(
        self,
        tp: TopicPartition,
        item: wire.ReassignedPartition,
        request: wire.AlterPartitionReassignmentsRequest,
    ) -> list[int]:
        if item.expected_replicas not in (None, self.replicas(tp)):
            raise InvalidUpdateVersionError("the replicas are others")
        if item.target is None:
            if tp not in self.open:
                raise NoReassignmentInProgressError
            return self._origin(tp)
        away = [broker for broker in item.target if broker not in self.brokers]
        if away:
            raise InvalidReplicaAssignmentError(f"{tp} cannot move to {away[0]}, not registered")
        grows = len(item.target) != len(self._origin(tp))
        if grows and not request.allow_replication_factor_change:
            raise InvalidReplicationFactorError("the replication factor would change")
        return list(item.target)

    def _begin(self, tp: TopicPartition, target: list[int], plan_id: str, reason: str) -> None:
        origin = self._origin(tp)
        there = self.replicas(tp)
        replicas = [*there, *(broker for broker in target if broker not in there)]
        phase = wire.TURNING_BACK if target == origin else wire.COPYING
        self.open[tp] = wire.PartitionMove(
            *tp, plan_id, replicas, origin, target, [], phase, since_ms=1000, reason=reason
        )
