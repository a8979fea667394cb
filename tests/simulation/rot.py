"""Rot may strike only some places in a cluster, and all of it must be mended.

The bounds are those of ``atlas``; what is committed and who may be elected is taken from the
running cluster and from the store.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from oncelog_broker.log.segment import LOG_SUFFIX
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy
from simulation.atlas import FaultAtlas, Rot
from simulation.cluster import SimCluster
from simulation.invariants import Invariants

__all__ = ["Rots"]


class Rots:
    """It has those of one cluster."""

    def __init__(self, cluster: SimCluster, invariants: Invariants) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self.atlas = FaultAtlas(
            cluster.disks,
            committed=self._committed,
            eligible=self._eligible,
            trusted=self._trusted,
            compacts=lambda name: _topic_partition(name).topic in invariants.store.compacting,
        )

    def strike(self, chance: Entropy, broker_id: int, *, tails_too: bool) -> Rot | None:
        """Let one bit of a broker's disk flip, somewhere where that may be; None if it may not.

        With ``min_insync_replicas=1`` it may strike nowhere: a broker that has not found it yet
        may become the whole ISR, and what it then commits nobody else has.

        :param tails_too: also where a log is newer than its checkpoints: only while no machine
            loses power.
        """
        if self._cluster.knobs.min_insync_replicas < 2:
            return None
        rot = self.atlas.rot(
            chance,
            broker=broker_id,
            logs_only=chance.random() < 0.6,
            synced_only=not tails_too,
        )
        if rot is None:
            return None
        self._cluster.loop.trace(f"rot {rot}")
        if rot.path.endswith(LOG_SUFFIX):
            self._note(rot)
        return rot

    def _note(self, rot: Rot) -> None:
        """Indexes and checkpoints can be made anew and nobody needs to know."""
        batch = rot.batch
        content = self._cluster.disks[rot.broker].durable_bytes(rot.path)
        now = bytes(content[batch.start : batch.stop])
        was = bytearray(now)
        was[rot.offset - batch.start] ^= rot.mask
        name = _topic_partition(rot.path.split("/")[-2])
        self._invariants.note_rot(rot.broker, name, rot.path, batch.start, bytes(was), now)

    def mended(self) -> bool:
        """Return whether every replica is as whole as it has to be: [A30] asks for the rest."""
        cluster = self._cluster
        if not cluster.settled():
            return False
        for broker in cluster.brokers.values():
            for partition in broker.replicas.partitions():
                if partition.log.damage or partition.refetching or partition.repair.corruption:
                    return False
                if len(self._vouched(partition.topic_partition)[0]) < len(partition.replicas):
                    return False
        return not self.atlas.unsound()

    def _vouched(self, name: TopicPartition) -> tuple[list[int], list[int]]:
        data = self._cluster.partition_state(*name)
        state = {} if data is None else json.loads(data)
        return state.get("isr", []), state.get("elr", [])

    def _committed(self, partition: str) -> int:
        """The invariants look every now and then; leaders may have moved on since."""
        name = _topic_partition(partition)
        shown = [replica.high_watermark for _, replica in self._replicas(name)]
        return max(self._invariants.high_watermark(*name), *shown, 0)

    def _eligible(self, partition: str) -> Collection[int]:
        name = _topic_partition(partition)
        refuse = [
            broker_id
            for broker_id, replica in self._replicas(name)
            if replica.refetching or replica.log.damage or replica.failed
        ]
        isr, elr = self._vouched(name)
        return [broker_id for broker_id in (*isr, *elr) if broker_id not in refuse]

    def _trusted(self, partition: str) -> dict[int, bool]:
        """Members of ISR and ELR must have all; others must not have what would pass for sound when
        they come back: those of them that know that theirs does not hold are not let in."""
        name = _topic_partition(partition)
        members = [broker_id for ids in self._vouched(name) for broker_id in ids]
        aware = [broker_id for broker_id, replica in self._replicas(name) if replica.repair.needed]
        return {
            broker_id: broker_id in members
            for broker_id in self._cluster.ids
            if broker_id in members or broker_id not in aware
        }

    def _replicas(self, name: TopicPartition) -> list[tuple[int, Partition]]:
        return [
            (broker_id, partition)
            for broker_id, broker in self._cluster.brokers.items()
            for partition in broker.replicas.partitions()
            if partition.topic_partition == name
        ]


def _topic_partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
