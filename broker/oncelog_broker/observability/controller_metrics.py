"""These metrics tell of the cluster as its controller knows it; other brokers show zeros."""

from __future__ import annotations

from oncelog_broker.app import Broker
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.page import MetricsPage
from oncelog_controller.store import SessionState
from oncelog_protocol.types import NO_LEADER


async def collect_controller(broker: Broker, page: MetricsPage) -> None:
    """Add the controller's counts to ``page``; they are zeros unless this broker is the
    controller."""
    runner = broker.runner
    # One that has lost contact does not act until it has it again.
    connected = broker.metadata_store.state is SessionState.CONNECTED
    page.add(c.ACTIVE_CONTROLLER, runner.is_active and connected)
    page.add(c.LEADER_CHANGES, runner.stats.leader_changes)
    page.add(c.UNCLEAN_ELECTIONS, runner.stats.unclean_elections)
    page.add(c.CONTROLLER_TERMS, runner.stats.terms)
    queued = stalled = 0
    offline = imbalanced = partitions = topics = brokers = missing = moving = 0
    term = runner.term
    if term is not None:
        cluster, executor = term.machine.cluster, term.machine.executor
        queued, stalled = executor.queued_count, executor.stalled_count
        assigned: set[int] = set()
        topics, brokers = len(cluster.topics), len(cluster.brokers)
        for name in sorted(cluster.topics):
            # Between turns topics may come and go.
            topic = cluster.topics.get(name)
            for partition in [] if topic is None else topic.partitions:
                partitions += 1
                leader = partition.leader
                offline += leader == NO_LEADER
                imbalanced += leader not in (NO_LEADER, *partition.replicas[:1])
                moving += bool(partition.placement.origin)
                assigned.update(partition.replicas)
            await page.turn()
        missing = len(assigned - cluster.brokers.keys())
    page.add(c.OFFLINE_PARTITIONS, offline)
    page.add(c.IMBALANCED_PARTITIONS, imbalanced)
    page.add(c.REASSIGNING_PARTITIONS, moving)
    page.add(c.QUEUED_MOVES, queued)
    page.add(c.STALLED_MOVES, stalled)
    page.add(c.CLUSTER_TOPICS, topics)
    page.add(c.CLUSTER_PARTITIONS, partitions)
    page.add(c.CLUSTER_BROKERS, brokers)
    page.add(c.MISSING_BROKERS, missing)
