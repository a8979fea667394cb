"""A broker may have as many replicas as one order can list. Pure.

The first order of a controller to a broker lists all its replicas, for what it does not list is
stray. It must fit one frame, or that broker would never hear of anything again. What would make it
larger is refused when it is asked for, with a quarter of the frame to spare for what else is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_controller.state import ClusterState
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.limits import HEAD_BYTES_MAX

ORDER_BYTES_MAX = HEAD_BYTES_MAX * 3 // 4
"""The bound on the entries of all replicas of one broker."""
_ENTRY_BYTES = 77
"""The bytes of a partition without its topic's name and its brokers: topic id, epochs, heads of
lists, and three that say that it does not move."""
_REPLICA_BYTES = 10
"""A broker is listed twice: as a replica, and as what kind of member it is."""


def entry_bytes(topic: str, replication_factor: int) -> int:
    """At most so many bytes does a partition take in an order."""
    return _ENTRY_BYTES + len(topic) + _REPLICA_BYTES * replication_factor


class OrderSizes:
    """It counts the bytes that the orders of all replicas take, by broker. It goes over all
    partitions once."""

    def __init__(self, cluster: ClusterState) -> None:
        self._bytes: dict[int, int] = {}
        for topic in cluster.topics.values():
            self._add(topic.name, [partition.replicas for partition in topic.partitions])

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
        sizes = self._bytes
        for replicas in assignment:
            size = entry_bytes(topic, len(replicas))
            for broker_id in replicas:
                sizes[broker_id] = sizes.get(broker_id, 0) + size
