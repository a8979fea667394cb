"""AlterPartitionReassignments and ListPartitionReassignments are served here. Pure (KIP-455).

Rules
-----
* Each partition of a request is checked by itself, and what is refused keeps no other from moving.
  Nothing is begun for one that is refused, and its error says what would be taken.
* The later wish wins: a partition that moves gets another end [M10]. To cancel is to wish that it
  has the replicas which it had before [M9].
* What the disks of a broker would not hold beside what is on its way there already is refused, as
  far as brokers have told.
* The cluster's own topics move as others do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oncelog_controller import features, request_checks
from oncelog_controller.broker_reports import BrokerReports, CopyProgress
from oncelog_controller.core import STEP_PARTITIONS, Core, Steps
from oncelog_controller.events import RequestReceived
from oncelog_controller.move_executor import MoveExecutor, is_begun
from oncelog_controller.move_nodes import MoveWish, PlanHead
from oncelog_controller.move_plans import MovePlans
from oncelog_controller.move_room import MoveRoom
from oncelog_controller.moves import Moves
from oncelog_controller.moving import Obstacle
from oncelog_controller.order_sizes import OrderSizes
from oncelog_controller.replies import refusal
from oncelog_controller.state import ClusterPartition, ClusterState
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    IneligibleReplicaError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NoReassignmentInProgressError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import moves as wire

Replicas = tuple[int, ...]

LOOKED_AT_ONCE = 2000
"""Wishes of which it is looked in one turn whether they have begun: some 5 ms."""


class MoveRequests:
    """It serves what is asked of moves."""

    def __init__(
        self,
        core: Core,
        moves: Moves,
        plans: MovePlans,
        executor: MoveExecutor,
        reports: BrokerReports,
    ) -> None:
        self._core = core
        self._moves = moves
        self._plans = plans
        self._executor = executor
        self._reports = reports

    def alter(
        self, event: RequestReceived, request: wire.AlterPartitionReassignmentsRequest
    ) -> Steps[None]:
        """Take the wish that partitions get other replicas, or that this is cancelled. It is
        answered when the plan is in the store."""
        core = self._core
        try:
            self._check(request)
        except ApiError as error:
            core.reply(event.request_id, refusal(request, error.code, str(error)))
            return
        response = wire.AlterPartitionReassignmentsResponse()
        wishes: list[MoveWish] = []
        twice = request_checks.check_once(_names(request))
        sizes = yield from OrderSizes.counted(core.cluster)
        room = yield from self._room(request)
        for number, item in enumerate(request.items):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            result = wire.ReassignmentResult(item.topic, item.partition)
            response.items.append(result)
            try:
                request_checks.refuse_twice(f"{item.topic}-{item.partition}", twice)
                partition = known_partition(core.cluster, item.topic, item.partition)
                target = self._target(partition, item, request)
                if lack := room.lack(partition, target):
                    raise PolicyViolationError(f"{lack}: name another broker, or make room there")
                sizes.take_move(partition, target)
            except ApiError as error:
                result.error_code, result.error_message = error.code, str(error)
                continue
            room.take(partition, target)
            self._estimate(result, partition, target)
            topic = partition.topic
            wishes.append(MoveWish(topic.name, topic.topic_id, partition.index, target))
        if wishes and not request.validate_only:
            response.plan_id = yield from self._take(event, request, wishes)
        core.reply_when_settled(event.request_id, response)

    def _room(self, request: wire.AlterPartitionReassignmentsRequest) -> Steps[MoveRoom]:
        """Return the room beside what moves or is to move, but for what is asked for anew."""
        room = MoveRoom(self._reports, self._moves.open.values())
        anew = {(item.topic, item.partition) for item in request.items}
        for number, (name, wanted) in enumerate(list(self._plans.wanted.items())):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            partition = self._core.cluster.partition(*name)
            if name in anew or partition is None or is_begun(partition, wanted):
                continue
            room.take(partition, wanted.wish.target)
        return room

    def _estimate(
        self, result: wire.ReassignmentResult, partition: ClusterPartition, target: Replicas
    ) -> None:
        """Say how much is to be copied for a move, and how long one copy takes."""
        if set(target) <= set(partition.replicas):
            result.bytes_to_copy = result.seconds = 0
            return
        result.bytes_to_copy = left = self._copies(partition, target).bytes_left
        added = [b for b in target if b not in partition.replicas]
        each = left if left < 0 else left // len(added)
        result.seconds = self._reports.seconds_to_copy(each, added, self._core.now)

    def _take(
        self,
        event: RequestReceived,
        request: wire.AlterPartitionReassignmentsRequest,
        wishes: Sequence[MoveWish],
    ) -> Steps[str]:
        head = PlanHead(
            self._plans.next_id(),
            event.asker,
            request.reason,
            event.now_ms,
            not request.allow_replication_factor_change,
            now=request.now,
        )
        yield from self._plans.add(head, wishes)
        self._executor.look_again()
        return head.plan_id

    def _check(self, request: wire.AlterPartitionReassignmentsRequest) -> None:
        """:raises ApiError: the request is refused as a whole."""
        count, most = len(request.items), limits.MOVES_OF_REQUEST_MAX
        if count > most:
            raise InvalidRequestError(
                f"{count} partitions: a request may name {most}; send the others in another one"
            )
        size, longest = len(request.reason), limits.MOVE_REASON_CHARS_MAX
        if size > longest:
            raise InvalidRequestError(f"the reason has {size} characters: it may have {longest}")
        features.require_moves(self._core.cluster)

    def _target(
        self,
        partition: ClusterPartition,
        item: wire.ReassignedPartition,
        request: wire.AlterPartitionReassignmentsRequest,
    ) -> Replicas:
        """Return the replicas that a partition is to have. :raises ApiError: it may not."""
        is_wanted = partition.topic_partition in self._plans.wanted
        return checked_target(
            self._core.cluster,
            partition,
            item,
            may_resize=request.allow_replication_factor_change,
            may_cancel=is_wanted or bool(partition.placement.origin),
        )

    # ---- listing

    def describe(
        self, event: RequestReceived, request: wire.ListPartitionReassignmentsRequest
    ) -> Steps[None]:
        """Tell what is wanted, what moves, and who has yet to delete what it has."""
        core, plans = self._core, self._plans
        topics = None if request.topics is None else set(request.topics)
        queued: dict[str, int] = {}
        for number, (name, wanted) in enumerate(list(plans.wanted.items())):
            if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                yield
            partition = core.cluster.partition(*name)
            if partition is None or not is_begun(partition, wanted):
                plan_id = wanted.plan.plan_id
                queued[plan_id] = queued.get(plan_id, 0) + 1
        response = wire.ListPartitionReassignmentsResponse(
            plans=[
                wire.MovePlan(
                    head.plan_id, head.by, head.reason, head.since_ms, queued.get(head.plan_id, 0)
                )
                for head in plans.heads
            ]
        )
        names = {*plans.wanted, *self._moves.open, *core.leavers.names}
        for number, name in enumerate(sorted(names)):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            partition = core.cluster.partition(*name)
            if partition is None or (topics is not None and name.topic not in topics):
                continue
            if name in plans.wanted or name in self._moves.open or self._is_awaited(partition):
                response.partitions.append(self._described(partition))
        core.reply(event.request_id, response)

    def _is_awaited(self, partition: ClusterPartition) -> bool:
        """Return whether somebody has yet to delete data of whom that may be expected: not a broker
        that was decommissioned and is gone."""
        cluster = self._core.cluster
        leaving = partition.placement.leaving
        return any(b in cluster.brokers or not cluster.retires(b) for b in leaving)

    def _described(self, partition: ClusterPartition) -> wire.PartitionMove:
        placement, wanted = partition.placement, self._plans.wanted.get(partition.topic_partition)
        move = wire.PartitionMove(
            *partition.topic_partition,
            placement.move,
            list(placement.replicas),
            list(placement.originals),
            list(placement.target),
            list(placement.leaving),
            wire.LEAVING,
        )
        if wanted is not None:
            move.since_ms = wanted.plan.since_ms
        if placement.origin:
            self._describe_open(move, partition)
        elif wanted is not None:
            move.plan_id, move.target = wanted.plan.plan_id, list(wanted.wish.target)
            move.phase = wire.QUEUED
            move.reason = self._executor.waits_for(partition.topic_partition)
        return move

    def _describe_open(self, move: wire.PartitionMove, partition: ClusterPartition) -> None:
        placement = partition.placement
        move.reason = self._executor.hindrance(partition)
        if self._executor.is_stalled(partition.topic_partition):
            move.phase = wire.STALLED
        elif placement.target == placement.origin:
            move.phase = wire.TURNING_BACK
        elif self._moves.obstacle(partition) is Obstacle.COPYING:
            move.phase = wire.COPYING
        elif self._moves.warms(partition):
            move.phase = wire.WARMING
            move.reason = f"broker {partition.next_leader} reads it before it leads"
        else:
            move.phase = wire.IN_SYNC
        copies = self._copies(partition, placement.target)
        move.bytes_total, move.bytes_done = copies.bytes_total, copies.bytes_done
        move.bytes_per_s = copies.bytes_per_s

    def _copies(self, partition: ClusterPartition, target: Replicas) -> CopyProgress:
        """Return how far those of ``target`` are that the partition did not have before, or that
        are not in sync where it turns back to what it had."""
        state, originals = partition.state, partition.placement.originals
        isr = () if state is None else state.isr
        added = [b for b in target if b not in originals or set(target) == set(originals)]
        topic_id = partition.topic.topic_id
        return self._reports.progress(topic_id, partition.index, partition.leader, added, isr)


def known_partition(cluster: ClusterState, topic: str, index: int) -> ClusterPartition:
    """Return a partition. :raises UnknownTopicOrPartitionError: it does not exist."""
    found = cluster.partition(topic, index)
    if found is not None:
        return found
    known = cluster.topics.get(topic)
    if known is None:
        raise UnknownTopicOrPartitionError(
            f"topic {topic[: limits.TOPIC_CHARS_MAX]!r} does not exist; list the topics"
        )
    count = len(known.partitions)
    raise UnknownTopicOrPartitionError(
        f"topic {topic!r} has no partition {index}: name one from 0 to {count - 1}"
    )


def checked_target(
    cluster: ClusterState,
    partition: ClusterPartition,
    item: wire.ReassignedPartition,
    *,
    may_resize: bool,
    may_cancel: bool,
) -> Replicas:
    """Return the replicas that a partition is to have.

    :param may_resize: they may be more or fewer than it had before it moved.
    :param may_cancel: it moves, or is about to.
    :raises InvalidUpdateVersionError: it has other replicas than the asker expects.
    :raises NoReassignmentInProgressError: there is nothing to cancel.
    :raises InvalidReplicaAssignmentError, InvalidReplicationFactorError: there can be no such
        replicas.
    :raises IneligibleReplicaError: a broker is being decommissioned, and is given no more [M22].
    """
    placement, name = partition.placement, partition.topic_partition
    if item.expected_replicas is not None and tuple(item.expected_replicas) != placement.replicas:
        raise InvalidUpdateVersionError(
            f"{name} has the replicas {_ids(placement.replicas)}, not "
            f"{_ids(item.expected_replicas)}; nothing was done for it: decide anew"
        )
    if item.target is None:
        if not may_cancel:
            raise NoReassignmentInProgressError(
                f"{name} does not move, so there is nothing to cancel; list what moves"
            )
        return placement.originals
    target = tuple(item.target)
    if not target:
        raise InvalidReplicaAssignmentError(f"{name} would have no replica: name a broker")
    if len(set(target)) != len(target):
        raise InvalidReplicaAssignmentError(
            f"{name} would have two replicas on one broker: name each broker once, not "
            f"{_ids(target)}"
        )
    retiring = [b for b in target if cluster.retires(b) and b not in placement.replicas]
    if retiring:
        raise IneligibleReplicaError(
            f"{name} cannot move to {_ids(retiring)}, which is being decommissioned: make it active"
            " again, or name another broker"
        )
    unknown = [b for b in target if b not in cluster.brokers and b not in placement.replicas]
    if unknown:
        raise InvalidReplicaAssignmentError(
            f"{name} cannot move to {_ids(unknown)}, not registered; brokers that are: "
            f"{_ids(sorted(cluster.brokers))}"
        )
    factor = len(placement.originals)
    if len(target) != factor and not may_resize:
        raise InvalidReplicationFactorError(
            f"{name} has {factor} replicas and would have {len(target)}: name {factor} brokers, "
            "or allow that the replication factor changes"
        )
    return target


def _names(request: wire.AlterPartitionReassignmentsRequest) -> list[str]:
    return [f"{item.topic}-{item.partition}" for item in request.items]


def _ids(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
