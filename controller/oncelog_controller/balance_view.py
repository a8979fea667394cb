"""The planner's view of a cluster is made here, of the store's state and of brokers' reports. Pure.

What brokers have not reported is not known: bytes count as 0, and disks as large enough. Racks of
brokers that are not registered are not known either.

The cluster's own topics should have as many replicas as the settings say, once so many brokers are
there that do not leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog_controller.balance.snapshot import (
    BalanceSnapshot,
    DiskFigures,
    PlannedBroker,
    PlannedPartition,
    Standing,
)
from oncelog_controller.balance.turns import FULL_LOOK, Turns, Work
from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.config import ControllerConfig
from oncelog_controller.move_plans import WantedMove
from oncelog_controller.state import ClusterPartition, ClusterState
from oncelog_protocol.types import TopicPartition

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assumptions:
    """They are taken for granted in a plan, beyond what the store says."""

    away_is_dead: bool = False
    """Replicas of every broker that is not registered are placed elsewhere."""
    dead: frozenset[int] = frozenset()
    """Those of these brokers are, if they are not registered."""
    leaving: frozenset[int] = frozenset()
    """These brokers are to have no replicas, as if they were being decommissioned."""
    overruling: bool = False
    """A wish that places a replica on a broker that leaves may get another target."""

    def leaves(self, cluster: ClusterState, broker_id: int) -> bool:
        """Return whether a broker is to have no replicas."""
        return broker_id in self.leaving or cluster.retires(broker_id)

    def standing(self, cluster: ClusterState, broker_id: int) -> Standing:
        """Return what may become of the replicas of a broker."""
        if self.leaves(cluster, broker_id):
            return Standing.LEAVING
        if broker_id not in cluster.brokers:
            dead = self.away_is_dead or broker_id in self.dead
            return Standing.DEAD if dead else Standing.HELD
        active = cluster.may_join(broker_id) and broker_id not in cluster.out_of_service
        return Standing.ACTIVE if active else Standing.HELD


AS_IT_IS = Assumptions()


def view_of_cluster(
    cluster: ClusterState,
    wanted: Mapping[TopicPartition, WantedMove],
    reports: BrokerReports,
    config: ControllerConfig,
    assumed: Assumptions = AS_IT_IS,
) -> Work[BalanceSnapshot]:
    """Return what the planner sees.

    The partitions are those that there are at the first step; each is seen as it is when its turn
    comes. Whoever carries a plan out names the replicas that it expects.

    :param wanted: what plans want that are in the store; such a partition counts as one that moves.
    """
    turns = Turns()
    everything = list(cluster.partitions())
    yield
    factors = internal_factors(cluster, config, assumed)
    views: list[PlannedPartition] = []
    named: set[int] = set(cluster.brokers)
    for partition in everything:
        where = placed(cluster, partition, wanted.get(partition.topic_partition), assumed)
        views.append(_view(partition, where, reports, factors.get(partition.topic.name, 0)))
        named.update(partition.replicas)
        if turns.over(FULL_LOOK):
            yield
    brokers = [_broker(broker_id, cluster, reports, assumed) for broker_id in sorted(named)]
    return BalanceSnapshot(
        brokers, views, config.balance_disk_high_percent, config.balance_tolerance_percent
    )


def internal_factors(
    cluster: ClusterState, config: ControllerConfig, assumed: Assumptions = AS_IT_IS
) -> dict[str, int]:
    """Return how many replicas the cluster's own topics should have at least, as far as there are
    brokers for them."""
    there = sum(not assumed.leaves(cluster, broker_id) for broker_id in cluster.brokers)
    return {
        topic: factor for topic, factor in config.internal_topic_factors.items() if factor <= there
    }


def placed(
    cluster: ClusterState,
    partition: ClusterPartition,
    wanted: WantedMove | None,
    assumed: Assumptions,
) -> tuple[Replicas, Replicas]:
    """Return the replicas of a partition, and the target of its move; () for the
    latter: the plan may move it."""
    placement = partition.placement
    target = placement.target if wanted is None else wanted.wish.target
    if assumed.overruling and any(assumed.leaves(cluster, b) for b in target):
        return placement.target or placement.replicas, ()
    return placement.replicas, target


def _broker(
    broker_id: int, cluster: ClusterState, reports: BrokerReports, assumed: Assumptions
) -> PlannedBroker:
    registered = cluster.brokers.get(broker_id)
    told = reports.disks(broker_id) or ()
    disks = [
        DiskFigures(disk.total_bytes, disk.free_bytes)
        for disk in told
        if disk.is_online and disk.total_bytes > 0
    ]
    rack = None if registered is None else registered.rack
    return PlannedBroker(broker_id, assumed.standing(cluster, broker_id), rack, disks)


def _view(
    partition: ClusterPartition,
    placed: tuple[Replicas, Replicas],
    reports: BrokerReports,
    factor: int,
) -> PlannedPartition:
    state, (replicas, target) = partition.state, placed
    topic_id, index, leader = partition.topic.topic_id, partition.index, partition.leader
    holders: Sequence[int] = (leader, *partition.replicas)
    return PlannedPartition(
        topic=partition.topic.name,
        index=index,
        replicas=replicas,
        leader=leader,
        isr=() if state is None else state.isr,
        bytes=max(0, reports.partition_bytes(topic_id, index, holders)),
        bytes_per_s=max(0, reports.rate(topic_id, index, leader)),
        target=target,
        factor=max(factor, len(target or replicas)) if factor else 0,
    )
