"""[I27]: no leader keeps writes waiting for its disk while another replica has them on its own

A leader whose round of syncs takes too long must give way as soon as a follower that may lead holds
all of it: the broker is to see that by itself, however it goes on from there. So the time counts in
which it could have, and did not.
"""

from __future__ import annotations

from oncelog_broker.app import Broker
from oncelog_broker.replication.partition import Partition
from oncelog_broker.server.giving_way import LOOK_S
from oncelog_protocol.types import TopicPartition
from simulation.cluster import SimCluster
from simulation.loop import Process
from simulation.store_view import InvariantViolation

PATIENCE_S = 2 * LOOK_S + 0.5
"""The broker looks once a second."""


class StallInvariants:
    """It watches the leaders of a cluster."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, TopicPartition], float] = {}

    def check(self, cluster: SimCluster, now: float) -> None:
        """Look at every leader; ``now`` is simulated time. :raises InvariantViolation: [I27]."""
        stuck = {
            (broker_id, partition.topic_partition): now
            for broker_id, broker in cluster.brokers.items()
            if (process := _looking(cluster, broker_id, broker)) is not None
            for partition in process.run(_that_could_move, broker)
        }
        self._since = {key: self._since.get(key, now) for key in stuck}
        for (broker_id, name), since in self._since.items():
            if now - since > PATIENCE_S:
                raise InvariantViolation(
                    "I27",
                    f"{name}: broker {broker_id} leads, its disk does not answer, and"
                    f" {now - since:.1f} s ago a follower held everything",
                )


def _looking(cluster: SimCluster, broker_id: int, broker: Broker) -> Process | None:
    """Return the broker's process, if it turns its loop and asks nobody about a full disk
    meanwhile.

    What has happened there for how long is a question of its own clock, which may be slow.
    """
    process = cluster.process(broker_id)
    if process is None or process.paused or broker_id not in cluster.serving:
        return None
    return None if any(log_dir.full for log_dir in broker.logs.dirs) else process


def _that_could_move(broker: Broker) -> list[Partition]:
    now = broker.replicas.now()
    stalled = {
        log_dir: since
        for log_dir in broker.logs.dirs
        if log_dir.online and (since := log_dir.flusher.stalled_since) is not None
    }
    return [
        partition
        for partition in (broker.replicas.partitions() if stalled else [])
        if (leader := partition.leader) is not None
        and not leader.gives_way
        and (log := partition.log).log_dir in stalled
        and leader.ahead(log.synced_offset, log.log_end_offset, stalled[log.log_dir], now)
    ]
