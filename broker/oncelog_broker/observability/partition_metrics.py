"""These metrics tell of replication and of single partitions, in one walk over all replicas.

The walk takes turns. Every partition counts in the sums of its broker. Series of their own have
those of so many topics as hold ``metrics_partitions_max`` partitions, each topic whole, the first
by name; the others are summed as topic "(other)". Which ones these are changes only when topics
come or go.
"""

from __future__ import annotations

from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.catalogue import Metric
from oncelog_broker.observability.page import MetricsPage, label_values
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.traffic import OTHERS


async def collect_partitions(broker: Broker, page: MetricsPage) -> None:
    """Add the sums of the broker and the series of shown partitions to ``page``."""
    replicas = broker.replicas
    partitions = replicas.partitions()
    shown = _shown(broker.config, partitions)
    await page.turn()
    totals = _Totals()
    others: dict[Metric, int] = {}
    for partition in partitions:
        totals.add(partition)
        tp = partition.topic_partition
        if tp.topic in shown:
            labels = label_values(*tp)
            for metric, value in _values(partition):
                page.add_at(metric, labels, value)
        else:
            for metric, value in _values(partition):
                others[metric] = others.get(metric, 0) + value
        await page.turn()
    for metric, value in others.items():
        page.add(metric, value, OTHERS, "")
    totals.show(page)
    page.add(c.LEADERSHIPS, replicas.leaderships_taken)
    page.add(c.ISR_SHRINKS, replicas.isr_sender.shrinks)
    page.add(c.ISR_EXPANDS, replicas.isr_sender.expands)
    await _traffic(broker, page)


def _shown(config: BrokerConfig, partitions: list[Partition]) -> frozenset[str]:
    """Return the topics whose partitions have series of their own. ``partitions`` come by
    topic."""
    sizes: dict[str, int] = {}
    for partition in partitions:
        topic = partition.topic_partition.topic
        sizes[topic] = sizes.get(topic, 0) + 1
    room = config.metrics_partitions_max
    shown: list[str] = []
    for topic, size in sizes.items():
        if size <= room and len(shown) < config.metrics_topics_max:
            room -= size
            shown.append(topic)
    return frozenset(shown)


async def _traffic(broker: Broker, page: MetricsPage) -> None:
    traffic = broker.replicas.traffic
    for topic, counted in traffic.by_topic():
        labels = label_values(topic)
        page.add_at(c.TOPIC_BYTES_IN, labels, counted.bytes_in)
        page.add_at(c.TOPIC_MESSAGES_IN, labels, counted.messages_in)
        page.add_at(c.TOPIC_BYTES_OUT, labels, counted.bytes_out)
        await page.turn()
    total = traffic.total()
    page.add(c.REPLICATION_BYTES_IN, total.replicated_in)
    page.add(c.REPLICATION_BYTES_OUT, total.replicated_out)
    paces = broker.replicas.paces
    for direction, pace in (("in", paces.fetched), ("out", paces.sent)):
        page.add(c.CATCH_UP_BYTES, pace.carried_bytes, direction)
        page.add(c.CATCH_UP_PACE, int(pace.bytes_per_second), direction)


def _values(partition: Partition) -> list[tuple[Metric, int]]:
    """Return the values that are shown for one partition; a leader has more of them."""
    log, leader = partition.log, partition.leader
    values = [
        (c.PARTITION_LOG_END, log.log_end_offset),
        (c.PARTITION_SIZE, log.size_bytes),
    ]
    if leader is not None:
        high_watermark = partition.high_watermark
        preferred = bool(partition.replicas) and partition.replicas[0] == partition.broker_id
        state = log.producers.state
        values += [
            (c.PARTITION_START, log.log_start_offset),
            (c.PARTITION_END, high_watermark),
            (c.PARTITION_UNSTABLE, high_watermark - partition.last_stable_offset),
            (c.PARTITION_REPLICAS, len(leader.replicas)),
            (c.PARTITION_ISR, len(leader.isr)),
            (c.PARTITION_PREFERRED, int(preferred)),
            (c.PARTITION_PRODUCERS, len(state.producers)),
            (c.PARTITION_OPEN_TXNS, state.transactions.open_count),
        ]
    return values


class _Totals:
    """It sums what the broker has over all of its partitions."""

    def __init__(self) -> None:
        self.partitions = self.leaders = self.failed = self.damaged = 0
        self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.records_lost = 0
        self.follower_lag: dict[int, int] = {}

    def add(self, partition: Partition) -> None:
        """Count one partition more."""
        self.partitions += 1
        self.failed += partition.failed
        self.records_lost += partition.committed_records_truncated
        self.damaged += partition.repair.needed
        leader = partition.leader
        if leader is not None:
            self._add_led(leader, partition.min_isr, partition.log.log_end_offset)

    def _add_led(self, leader: LeaderRole, min_isr: int, end: int) -> None:
        self.leaders += 1
        in_sync, replicas = len(leader.isr), len(leader.originals)
        self.under_replicated += not set(leader.originals) <= set(leader.isr)
        self.under_min_isr += not leader.has_min_isr(min_isr)
        self.at_min_isr += in_sync == min_isr < replicas
        for follower_id, follower in leader.followers.items():
            lag = max(end - max(follower.durable_offset, 0), 0)
            self.follower_lag[follower_id] = max(self.follower_lag.get(follower_id, 0), lag)

    def show(self, page: MetricsPage) -> None:
        """Add the sums to ``page``."""
        page.add(c.PARTITIONS, self.partitions)
        page.add(c.LEADERS, self.leaders)
        page.add(c.UNDER_REPLICATED, self.under_replicated)
        page.add(c.UNDER_MIN_ISR, self.under_min_isr)
        page.add(c.AT_MIN_ISR, self.at_min_isr)
        page.add(c.FAILED_REPLICAS, self.failed)
        page.add(c.DAMAGED_LOGS, self.damaged)
        page.add(c.RECORDS_LOST, self.records_lost)
        for follower_id in sorted(self.follower_lag):
            page.add(c.FOLLOWER_LAG, self.follower_lag[follower_id], follower_id)
