"""It is found here whether the disks of brokers would hold what is to move to them. Pure.

Rules
-----
* A broker has as much room as its log directories had free, by its last report, less what moves
  have yet to bring. What leaves it is not counted before it is gone: a copy ends before anything is
  deleted.
* What is not known refuses nothing: a broker that has told no sizes is taken to have room. So is
  one whose directories share a file system, which is then counted for each. A copy that finds no
  room in spite of this is held up, says so, and goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.state import ClusterPartition


class MoveRoom:
    """It keeps count of what is yet to be copied to each broker."""

    def __init__(self, reports: BrokerReports, opened: Iterable[ClusterPartition]) -> None:
        """:param opened: partitions that move; what they have yet to copy is taken."""
        self._reports = reports
        self._taken_bytes: dict[int, int] = {}
        for partition in opened:
            placement, state = partition.placement, partition.state
            isr = () if state is None else state.isr
            self._take(partition, set(placement.target).difference(placement.origin, isr))

    def take(self, partition: ClusterPartition, target: Collection[int]) -> None:
        """Reserve what a move to ``target`` would copy."""
        self._take(partition, set(target).difference(partition.replicas))

    def lack(self, partition: ClusterPartition, target: Collection[int]) -> str:
        """Return why the disks of a broker would not hold its copy, as a person is told; "": they
        would, or that is not known."""
        for broker_id in sorted(set(target).difference(partition.replicas)):
            free = self._free(broker_id)
            if free is None:
                continue
            size = self._left(partition, broker_id)
            total, largest = sum(free), max(free, default=0)
            room = max(0, min(largest, total - self._taken_bytes.get(broker_id, 0)))
            if size > room:
                return (
                    f"{partition.topic_partition} has {size} bytes, and the disks of broker "
                    f"{broker_id} have room for {room} beside what else moves there"
                )
        return ""

    def _take(self, partition: ClusterPartition, added: Iterable[int]) -> None:
        for broker_id in added:
            taken = self._taken_bytes.get(broker_id, 0)
            self._taken_bytes[broker_id] = taken + self._left(partition, broker_id)

    def _left(self, partition: ClusterPartition, broker_id: int) -> int:
        """Return what a broker lacks of a partition; 0: nothing, or that is not known."""
        topic_id, index, reports = partition.topic.topic_id, partition.index, self._reports
        size = reports.partition_bytes(topic_id, index, (partition.leader,))
        return max(0, size - max(0, reports.replica_bytes(topic_id, index, broker_id)))

    def _free(self, broker_id: int) -> list[int] | None:
        """Return the free bytes of a broker's directories; None: they are not all known."""
        told = self._reports.disks(broker_id)
        online = [disk.free_bytes for disk in told or () if disk.is_online]
        return online if online and min(online) >= 0 else None
