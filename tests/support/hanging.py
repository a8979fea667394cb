"""A transaction that hangs is put into a log by hand: no coordinator has ever heard of it."""

from __future__ import annotations

from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, TopicPartition
from support.cluster import Cluster

__all__ = ["LONG_AGO_MS", "hang"]

LONG_AGO_MS = 1_700_000_000_000


def hang(cluster: Cluster, topic: str, partition: int, *values: bytes, producer_id: int) -> None:
    """Let a producer have a transaction open in a partition, with records written long ago."""
    tp = TopicPartition(topic, partition)
    replicas = cluster.brokers[cluster.leader(topic, partition)].replicas
    replica = replicas.partition(tp)
    batch = encode_batch(
        list(values),
        timestamps=LONG_AGO_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    guard = replica.log.producers.take_guard(producer_id, 0)
    replica.append_as_leader(memoryview(batch), Acks.ALL, replicas.now(), guard)
