"""A broker may have as many replicas as one order can list. Pure.

The first order of a controller to a broker lists all its replicas, for what it does not list is
stray. It must fit one frame, or that broker would never hear of anything again. What would make it
larger is refused when it is asked for, with a quarter of the frame to spare for what else is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_controller.core import Steps
from oncelog_controller.state import ClusterPartition, ClusterState
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.limits import HEAD_BYTES_MAX

ORDER_BYTES_MAX = HEAD_BYTES_MAX * 3 // 4
"""The bound on the entries of all replicas of one broker."""
_ENTRY_BYTES = 77
"""The bytes of a partition without its topic's name and its brokers: topic id, epochs, heads of
lists, and three that say that it does not move."""
_MOVE_BYTES = 8
"""The bytes more of one that moves: the longer heads of two lists, and who gets ready to lead."""
_MOVING_BYTES = 5
"""The bytes of a broker that a move begins with, or ends with."""
COUNTED_AT_ONCE = 2000
"""Partitions that are counted in one turn of the loop: some 5 ms."""
_REPLICA_BYTES = 10
"""A broker is listed twice: as a replica, and as what kind of member it is."""


def entry_bytes(topic: str, replication_factor: int, moving: int = 0) -> int:
    """At most so many bytes does a partition take in an order. ``moving`` counts the replicas
    before its move and those after it; 0: it does not move."""
    standing = _ENTRY_BYTES + len(topic) + _REPLICA_BYTES * replication_factor
    return standing + (_MOVE_BYTES + _MOVING_BYTES * moving if moving else 0)


class OrderSizes:
    """It counts the bytes that the orders of all replicas take, by broker. It goes over all
    partitions once."""

    def __init__(self, cluster: ClusterState | None = None) -> None:
        """Count the partitions of ``cluster``; None: there are none."""
        self._bytes: dict[int, int] = {}
        for partition in () if cluster is None else cluster.partitions():
            self._count_known(partition)

    @classmethod
    def counted(cls, cluster: ClusterState) -> Steps[OrderSizes]:
        """Count the partitions of a cluster some at a time; those that come and go meanwhile may
        be counted or not."""
        sizes = cls()
        for number, partition in enumerate(list(cluster.partitions())):
            if number % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
                yield
            sizes._count_known(partition)
        return sizes

    def _count_known(self, partition: ClusterPartition) -> None:
        placement = partition.placement
        moving = len(placement.origin) + len(placement.target)
        self._count(partition.topic.name, partition.replicas, moving)

    def take_move(self, partition: ClusterPartition, target: Sequence[int]) -> None:
        """Count a move that begins, or gets another end.

        :raises PolicyViolationError: a broker would have too many; nothing was counted.
        """
        origin = partition.placement.originals
        added = [b for b in target if b not in partition.replicas]
        replicas = len(partition.replicas) + len(added)
        size = entry_bytes(partition.topic.name, replicas, len(origin) + len(target))
        for broker_id in added:
            if self._bytes.get(broker_id, 0) + size > ORDER_BYTES_MAX:
                raise PolicyViolationError(
                    f"too many partitions: the order that lists all replicas of broker {broker_id}"
                    f" would take more than the {ORDER_BYTES_MAX} bytes that can be sent; take"
                    " other brokers"
                )
        for broker_id in added:
            self._bytes[broker_id] = self._bytes.get(broker_id, 0) + size

    def take(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Count new partitions.

        :raises PolicyViolationError: a broker would have too many; nothing was counted.
        """
        taken = dict(self._bytes)
        self._add(topic, assignment)
        for broker_id, size in sorted(self._bytes.items()):
            if size > ORDER_BYTES_MAX and size > taken.get(broker_id, 0):
                self._bytes = taken
                fit = ORDER_BYTES_MAX // entry_bytes(topic, len(assignment[0]))
                raise PolicyViolationError(
                    f"too many partitions: the order that lists all replicas of broker {broker_id}"
                    f" would take {size} bytes, at most {ORDER_BYTES_MAX} can be sent; with names"
                    f" of this length a broker may have {fit} replicas"
                )

    def _add(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        for replicas in assignment:
            self._count(topic, replicas)

    def _count(self, topic: str, replicas: Sequence[int], moving: int = 0) -> None:
        size = entry_bytes(topic, len(replicas), moving)
        for broker_id in replicas:
            self._bytes[broker_id] = self._bytes.get(broker_id, 0) + size
