"""AlterPartition: leaders ask for another ISR, the controller checks and writes it. Pure.

Checks of one item, in this order ([Z8] [Z9] [Z10] [K22]; KIP-497, 841, 903):

1. topic, id and partition are known             else UNKNOWN_TOPIC_OR_PARTITION
2. the leader epoch is not older                 else FENCED_LEADER_EPOCH; newer: NOT_CONTROLLER
3. the asker leads, members are well formed      else INVALID_REQUEST
4. the wish is the present state                 then success, before any version check [Z9]
5. the partition epoch is the present one        else INVALID_UPDATE_VERSION, with the state
6. every member's broker epoch is the registered one, and nobody joins without one, or who is
   suspected, is about to stop or has a failed replica
                                                 else INELIGIBLE_REPLICA
7. no invariant is broken                        else OPERATION_NOT_ATTEMPTED

Who leaves an ISR that becomes smaller than ``min.insync.replicas`` goes to the ELR (KIP-966),
unless the leader has seen that it lacks committed records.

The answer leaves when the write has succeeded. When its outcome is not known, the whole request is
checked again after the store was read again: rule 4 then tells.
"""

from __future__ import annotations

from oncelog_controller.core import WRITE_PARTITIONS_MAX, Core, chunks
from oncelog_controller.eligibility import Members, with_isr
from oncelog_controller.leadership import Leadership, NewState
from oncelog_controller.state import ClusterPartition, PartitionState
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    OperationNotAttemptedError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)


class IsrRequests:
    """It serves AlterPartition."""

    def __init__(self, core: Core, leadership: Leadership) -> None:
        self._core = core
        self._leadership = leadership

    def alter(self, request_id: int, request: AlterPartitionRequest) -> None:
        """Check every item, write those that hold, answer."""
        broker = self._core.cluster.brokers.get(request.broker_id)
        if broker is not None and request.broker_epoch > broker.broker_epoch:
            # We have yet to hear of its new registration; nothing was done, it may ask again.
            self._core.reply(request_id, AlterPartitionResponse(NotControllerError.code))
            return
        stale = broker is not None and request.broker_epoch < broker.broker_epoch
        if broker is None or self._core.safeguards.is_of_earlier_life(stale):
            self._core.reply(request_id, AlterPartitionResponse(StaleBrokerEpochError.code))
            return
        results: list[AlterPartitionResult] = []
        changes: list[NewState] = []
        changed: set[tuple[str, int]] = set()
        for item in request.partitions:
            result = AlterPartitionResult(item.topic, item.partition)
            results.append(result)
            try:
                if (item.topic, item.partition) in changed:
                    raise InvalidRequestError("the partition is listed twice")
                wanted = self._check(request.broker_id, item)
            except ApiError as error:
                result.error_code = error.code
            else:
                if wanted is not None:
                    changed.add((item.topic, item.partition))
                    changes.append(wanted)
        for chunk in chunks(changes, WRITE_PARTITIONS_MAX):
            self._leadership.write(chunk, install=self._install)
        self._core.when_settled(lambda: self._answer(request_id, results))

    def _check(self, asker: int, item: AlterPartitionItem) -> NewState | None:
        """Return the state to write, or None when it is there already."""
        partition = self._core.cluster.partition(item.topic, item.partition)
        if partition is None or partition.topic.topic_id != item.topic_id:
            raise UnknownTopicOrPartitionError
        state = partition.state
        if state is None:
            raise UnknownTopicOrPartitionError
        if item.leader_epoch < state.leader_epoch:
            raise FencedLeaderEpochError
        if item.leader_epoch > state.leader_epoch:
            raise NotControllerError
        isr = tuple(member.broker_id for member in item.isr)
        if state.leader != asker or asker not in isr or len(set(isr)) != len(isr):
            raise InvalidRequestError
        if not set(isr) <= set(partition.replicas):
            raise InvalidRequestError
        elr = tuple(member for member in state.elr if member not in item.incomplete)
        if set(isr) == set(state.isr) and elr == state.elr:
            return None
        if item.partition_epoch < state.version:
            raise InvalidUpdateVersionError
        if item.partition_epoch > state.version:
            raise NotControllerError
        for member in item.isr:
            self._check_member(partition, state, member)
        before = Members(
            tuple(member for member in state.isr if member not in item.incomplete),
            elr,
            state.last_known_elr,
        )
        ordered = tuple(broker_id for broker_id in partition.replicas if broker_id in isr)
        wanted = self._leadership.checked(
            partition,
            asker,
            state.leader_epoch,
            with_isr(partition.replicas, before, ordered, partition.min_isr),
            joining=[member for member in ordered if member not in state.isr],
            unclean_epoch=state.unclean_epoch,
        )
        if wanted is None:
            raise OperationNotAttemptedError
        return partition, wanted

    def _check_member(
        self, partition: ClusterPartition, state: PartitionState, member: IsrMember
    ) -> None:
        core, cluster = self._core, self._core.cluster
        broker = cluster.brokers.get(member.broker_id)
        joins = member.broker_id not in state.isr
        other_life = broker is None or broker.broker_epoch != member.broker_epoch
        asked = member.broker_epoch >= 0 or joins
        if core.safeguards.is_of_earlier_life(asked and other_life):
            raise IneligibleReplicaError
        if not joins:
            return
        failed = partition.replica_phases.get(member.broker_id) is ReplicaPhase.FAILED
        if failed or not cluster.may_join(member.broker_id):
            raise IneligibleReplicaError

    def _install(self, partition: ClusterPartition, state: PartitionState) -> None:
        partition.take(state)
        self._core.order_metadata(partition)
        preferred = partition.replicas[0]
        if preferred in state.isr and preferred != state.leader:
            self._leadership.plan_rebalance()

    def _answer(self, request_id: int, results: list[AlterPartitionResult]) -> None:
        for result in results:
            if result.error_code not in (NO_ERROR, InvalidUpdateVersionError.code):
                continue
            partition = self._core.cluster.partition(result.topic, result.partition)
            if partition is None or partition.state is None:
                continue
            state = partition.state
            result.leader = state.leader
            result.leader_epoch = state.leader_epoch
            result.isr = list(state.isr)
            result.elr = list(state.elr)
            result.partition_epoch = state.version
        self._core.reply(request_id, AlterPartitionResponse(NO_ERROR, results))
