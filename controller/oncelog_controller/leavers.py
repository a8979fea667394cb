"""Brokers that are no replicas any more, and may still have data, are found here. Pure.

The states of partitions say who leaves [M8]. Here it is found by broker, so that nobody goes over
all partitions for one of them; and it is known since which leader epoch each one leaves, so that an
answer to an older order is told from one to a newer [M7].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog_controller.state import ClusterPartition
from oncelog_protocol.types import TopicPartition


class Leavers:
    """It is an index of ``leaving`` in the states of all partitions."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, dict[int, int]] = {}
        """The leader epoch since which each broker leaves at the latest."""
        self._left_by: dict[int, dict[TopicPartition, ClusterPartition]] = {}

    def read(self, partitions: Iterable[ClusterPartition]) -> None:
        """Begin anew with what the states say. Orders are given anew as well, so that the present
        leader epochs count."""
        self._since.clear()
        self._left_by.clear()
        for partition in partitions:
            if partition.placement.leaving:
                self.note(partition)

    def note(self, partition: ClusterPartition) -> None:
        """Take in who leaves a partition, by its present state."""
        assert partition.state is not None
        epoch, name = partition.state.leader_epoch, partition.topic_partition
        known = self._since.get(name, {})
        self.forget(name)
        since = {b: known.get(b, epoch) for b in partition.placement.leaving}
        if since:
            self._since[name] = since
        for broker_id in since:
            self._left_by.setdefault(broker_id, {})[name] = partition

    def forget(self, name: TopicPartition) -> None:
        """Drop a partition that is no more."""
        for broker_id in self._since.pop(name, {}):
            del self._left_by[broker_id][name]

    @property
    def names(self) -> Collection[TopicPartition]:
        """Return the partitions that somebody leaves."""
        return self._since.keys()

    def left_by(self, broker_id: int) -> list[ClusterPartition]:
        """Return the partitions that a broker leaves, by topic and number."""
        found = self._left_by.get(broker_id, {})
        return [found[name] for name in sorted(found)]

    def since(self, name: TopicPartition, broker_id: int) -> int | None:
        """Return the leader epoch since which a broker leaves a partition; None: it does not. An
        order to delete of an older one was for an earlier time at which it had left."""
        return self._since.get(name, {}).get(broker_id)
