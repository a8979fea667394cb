"""Kafka moves a partition here (KIP-455), as ``oncelog_bench.moves`` has ours moved.

The work is the same: a partition of one replica, records of 1 KB, no throttle. Kafka tells that a
move is over before the old broker has deleted its files; ours is over after that.
"""

from __future__ import annotations

import time
from typing import Any

from oncelog_bench.cpu import cpu_seconds
from oncelog_bench.moves import RECORD_BYTES
from oncelog_bench.peers import kafka_clients as clients
from oncelog_bench.peers.kafka_cluster import KafkaCluster

MOVE_TIMEOUT_S = 600.0


class KafkaMoves:
    """It moves partition 0 of topics from broker to broker. ``with``: its connections are closed
    in the end."""

    def __init__(self, cluster: KafkaCluster) -> None:
        from kafka.admin import KafkaAdminClient

        self._cluster = cluster
        self._admin: Any = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def __enter__(self) -> KafkaMoves:
        return self

    def __exit__(self, *exc: object) -> None:
        self._admin.close()

    def make_topic(self, name: str) -> None:
        """Create a topic of one partition that is on broker 1 alone."""
        from kafka.admin import NewTopic

        topic = NewTopic(name, replica_assignments={0: [1]})
        self._admin.create_topics([topic], timeout_ms=20_000)
        time.sleep(1.5)

    def moved(self, topic: str, target: list[int], *, look_s: float) -> float:
        """Move; return the seconds from the request until Kafka lists nothing of it any more.

        :raises RuntimeError: it was refused, or is not over in time.
        """
        from kafka import TopicPartition

        tp = TopicPartition(topic, 0)
        began = time.perf_counter()
        outcome = self._admin.alter_partition_reassignments({tp: target})
        if outcome.get(tp) is not None:
            raise RuntimeError(f"Kafka does not move {topic}: {outcome[tp]}")
        while time.perf_counter() - began < MOVE_TIMEOUT_S:
            if not self._admin.list_partition_reassignments([tp]):
                return time.perf_counter() - began
            time.sleep(look_s)
        raise RuntimeError(f"Kafka has not moved {topic} in {MOVE_TIMEOUT_S:g} s")

    def empty_ms(self, topic: str, *, count: int) -> list[float]:
        """Return how long it takes each time that an empty partition goes to another broker."""
        return [
            self.moved(topic, [2 if number % 2 == 0 else 1], look_s=0.002) * 1000
            for number in range(count)
        ]

    def fill(self, topic: str, size: int, *, batch_bytes: int) -> None:
        """Write so many bytes of records of 1 KB to a topic."""
        clients.confluent_produce(
            self._cluster.bootstrap,
            topic,
            size=RECORD_BYTES,
            count=size // RECORD_BYTES,
            acks="1",
            batch_bytes=batch_bytes,
        )

    def copied(self, topic: str, size: int) -> tuple[float, float]:
        """Give the one replica a second one, and take it away again.

        Return the MB a second of the copy, and the CPU seconds of all brokers for each GB.
        """
        pids = self._cluster.pids
        before = cpu_seconds(pids)
        seconds = self.moved(topic, [1, 2], look_s=0.02)
        spent = cpu_seconds(pids) - before
        self.moved(topic, [1], look_s=0.02)
        return size / 1e6 / seconds, spent / (size / 1e9)
