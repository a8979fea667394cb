"""Who leads what, over the whole cluster: applies elections to partitions and writes them. Pure.

Owns the moves of leadership: after brokers come and go, at suspicion and its end, for a controlled
shutdown, back to preferred replicas, and on request. Decisions come from ``election``; here they
become conditional writes, in batches, and orders once they are written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from oncelog_controller import election, znodes
from oncelog_controller.core import WRITE_PARTITIONS_MAX, Core, chunks, move
from oncelog_controller.election import Candidates, Decision
from oncelog_controller.state import Partition, PartitionState, check_invariants
from oncelog_controller.store import Create, Op, SetData
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.errors import (
    NO_ERROR,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

Change = tuple[Partition, Decision]
NOBODY: frozenset[int] = frozenset()


class Leadership:
    """Elections and what follows from them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.rebalance_at: float | None = None
        """When leaderships go back to preferred replicas (loop's clock); None: not planned."""

    # ---- reconsidering

    def reconsider(
        self,
        partitions: Iterable[Partition],
        restarted: Callable[[Partition], frozenset[int]] = lambda _: NOBODY,
    ) -> int:
        """Bring partitions in line with who is there; returns how many are written."""
        loads = self._core.cluster.leader_counts()
        changes: list[Change] = []
        for partition in partitions:
            decision = self._decide(partition, loads, restarted(partition))
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
        self.change(changes)
        return len(changes)

    def _decide(
        self, partition: Partition, loads: dict[int, int], restarted: frozenset[int]
    ) -> Decision | None:
        candidates = self.candidates(partition, loads, restarted)
        if partition.state is None:
            return election.elect_first(partition.replicas, candidates)
        settings = partition.topic.settings
        decision = election.elect(
            partition.replicas,
            partition.state,
            candidates,
            min_isr=settings.min_insync_replicas,
            unclean=settings.unclean_leader_election_enable,
        )
        if decision is not None and decision.unclean:
            logger.warning(
                "unclean election of %s: leader %d from outside ISR %s; records may be lost",
                partition.topic_partition,
                decision.leader,
                list(partition.state.isr),
            )
        return decision

    def candidates(
        self,
        partition: Partition,
        loads: dict[int, int] | None = None,
        restarted: frozenset[int] = NOBODY,
    ) -> Candidates:
        """The brokers of the partition as an election sees them."""
        cluster = self._core.cluster
        working = frozenset(
            broker_id
            for broker_id in partition.replicas
            if broker_id in cluster.brokers
            and partition.replica_phases.get(broker_id) is not ReplicaPhase.FAILED
        )
        return Candidates(
            registered=working,
            suspected=frozenset(cluster.suspected),
            shutting_down=frozenset(cluster.shutting_down),
            restarted=restarted,
            loads={} if loads is None else loads,
        )

    # ---- writing

    def change(self, changes: Sequence[Change]) -> None:
        """Write new states, the leader epoch grown by one each, and order them once written."""
        for chunk in chunks(changes, WRITE_PARTITIONS_MAX):
            ops: list[Op] = []
            states: list[tuple[Partition, PartitionState]] = []
            for partition, decision in chunk:
                state = self.successor(partition, decision)
                states.append((partition, state))
                ops += state_ops(partition, state)
            self._core.write(ops, self._applier(states))

    def first_state(self, partition: Partition) -> PartitionState | None:
        """The first state of a new partition, None while none of its brokers is able."""
        decision = election.elect_first(partition.replicas, self.candidates(partition))
        return None if decision is None else self.successor(partition, decision)

    def successor(self, partition: Partition, decision: Decision) -> PartitionState:
        """The state that follows from ``decision``. :raises InvariantError: if it may not exist."""
        check_invariants(partition, decision.leader, decision.isr)
        state = partition.state
        return PartitionState(
            leader=decision.leader,
            leader_epoch=0 if state is None else state.leader_epoch + 1,
            isr=decision.isr,
            controller_epoch=self._core.cluster.controller_epoch,
            version=0 if state is None else state.version + 1,
        )

    def _applier(self, states: list[tuple[Partition, PartitionState]]) -> Callable[[], None]:
        def applied() -> None:
            for partition, state in states:
                self.install(partition, state)

        return applied

    def install(self, partition: Partition, state: PartitionState) -> None:
        """The state is in the store now: take it in and tell the brokers."""
        is_new = partition.state is None
        before = partition.leader
        partition.state = state
        move(partition, state.leader, before)
        self._core.order_partition(partition, is_new=is_new)
        if not is_new and before != state.leader:
            logger.info(
                "%s: leader %d -> %d in epoch %d, ISR %s",
                partition.topic_partition,
                before,
                state.leader,
                state.leader_epoch,
                list(state.isr),
            )

    # ---- preferred leaders

    def plan_rebalance(self) -> None:
        """Give leaderships back soon; a plan that is earlier stands."""
        config = self._core.config
        if not config.auto_leader_rebalance_enable:
            return
        soon = self._core.now + config.leader_rebalance_delay_ms / 1000
        if self.rebalance_at is None or self.rebalance_at > soon:
            self.rebalance_at = soon

    def rebalance(self) -> None:
        """Give every preferred replica that is able and in sync its leadership back."""
        config = self._core.config
        self.rebalance_at = self._core.now + config.leader_imbalance_check_interval_ms / 1000
        changes: list[Change] = []
        for partition in self._core.cluster.partitions():
            if partition.state is None:
                continue
            decision = election.elect_preferred(
                partition.replicas, partition.state, self.candidates(partition)
            )
            if decision is not None:
                changes.append((partition, decision))
        if changes:
            logger.info("%d leaderships go back to their preferred replicas", len(changes))
        self.change(changes)

    # ---- requests

    def controlled_shutdown(self, request_id: int, request: ControlledShutdownRequest) -> None:
        """Move leaderships off a broker that is about to stop, then take it out of ISRs."""
        cluster, broker_id = self._core.cluster, request.broker_id
        broker = cluster.brokers.get(broker_id)
        if broker is None or request.broker_epoch < broker.broker_epoch:
            code = StaleBrokerEpochError.code
            self._core.reply(request_id, ControlledShutdownResponse(code))
            return
        cluster.shutting_down.add(broker_id)
        loads = cluster.leader_counts()
        changes: list[Change] = []
        for partition in cluster.partitions():
            if partition.state is None or broker_id not in partition.replicas:
                continue
            decision = election.elect_for_shutdown(
                partition.replicas,
                partition.state,
                self.candidates(partition, loads),
                broker_id,
            )
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
        logger.info("broker %d shuts down: %d partitions change", broker_id, len(changes))
        self.change(changes)
        self._core.when_settled(
            lambda: self._core.reply(
                request_id, ControlledShutdownResponse(NO_ERROR, self._still_led(broker_id))
            )
        )

    def _still_led(self, broker_id: int) -> int:
        return sum(
            1
            for partition in self._core.cluster.partitions()
            if partition.leader == broker_id and len(partition.replicas) > 1
        )

    def elect_leaders(self, request_id: int, request: admin.ElectLeadersRequest) -> None:
        """Preferred or unclean elections on request."""
        results: list[admin.ElectionResult] = []
        changes: list[Change] = []
        seen: set[TopicPartition] = set()
        loads = self._core.cluster.leader_counts()
        for partition, target in self._targets(request):
            result = admin.ElectionResult(target.topic, target.partition)
            if partition is None or partition.state is None:
                result.error_code = UnknownTopicOrPartitionError.code
                results.append(result)
                continue
            candidates = self.candidates(partition, loads)
            if request.unclean:
                decision = election.elect_unclean(partition.replicas, partition.state, candidates)
                needless = partition.leader >= 0
            else:
                decision = election.elect_preferred(partition.replicas, partition.state, candidates)
                needless = partition.leader == partition.replicas[0]
            if partition.topic_partition in seen:
                decision, needless = None, True
            seen.add(partition.topic_partition)
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
            elif needless:
                if request.partitions is None:
                    continue
                result.error_code = ElectionNotNeededError.code
            else:
                result.error_code = EligibleLeadersNotAvailableError.code
            results.append(result)
        self.change(changes)
        self._core.when_settled(
            lambda: self._core.reply(request_id, admin.ElectLeadersResponse(NO_ERROR, results))
        )

    def _targets(
        self, request: admin.ElectLeadersRequest
    ) -> list[tuple[Partition | None, admin.ElectionTarget]]:
        cluster = self._core.cluster
        if request.partitions is None:
            return [
                (partition, admin.ElectionTarget(*partition.topic_partition))
                for partition in cluster.partitions()
            ]
        return [
            (cluster.partition(target.topic, target.partition), target)
            for target in request.partitions
        ]


def state_ops(partition: Partition, state: PartitionState) -> list[Op]:
    """The operations that put ``state`` in the place of the partition's present one."""
    name, index = partition.topic.name, partition.index
    data = znodes.encode_state(state)
    if partition.state is None:
        made: list[Op] = [Create(znodes.state_path(name, index), data)]
        return made if partition.bare else [Create(znodes.partition_path(name, index), b""), *made]
    return [SetData(znodes.state_path(name, index), data, partition.state.version)]


def _count(loads: dict[int, int], partition: Partition, decision: Decision) -> None:
    for broker_id, step in ((partition.leader, -1), (decision.leader, 1)):
        if broker_id in loads:
            loads[broker_id] += step
