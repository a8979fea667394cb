"""The moves of a cluster are known beside its other facts, or the reason why they are not. Pure.

While a partition moves, its original replicas count: those that are being added are not yet meant
to be in sync, and nothing is wrong with the partition because of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncelog_cli.group_offsets import Partition

if TYPE_CHECKING:
    from oncelog.admin.reassignments import PartitionReassignment
    from oncelog.admin.results import PartitionDescription


@dataclass(frozen=True, slots=True)
class KnownMoves:
    """It is what moves, by topic and number of the partition; or why nobody knows."""

    by_partition: Mapping[Partition, PartitionReassignment] | None = field(default_factory=dict)
    """It is None when the moves are not known."""
    reason: str = ""
    """It says why they are not known."""

    def of(self, topic: str, partition: int) -> PartitionReassignment | None:
        """Return the open move of a partition; None: there is none, or nobody knows."""
        found = (self.by_partition or {}).get((topic, partition))
        return found if found is not None and found.is_open else None

    def originals(self, topic: str, item: PartitionDescription) -> Sequence[int]:
        """Return the replicas of a partition that ought to be in sync.

        They are those from before its move, if it moves.
        """
        move = self.of(topic, item.partition)
        return item.replicas if move is None else move.origin

    def lacks_replicas(self, topic: str, item: PartitionDescription) -> bool:
        """Return whether one of these is not in the ISR."""
        return not set(item.isr).issuperset(self.originals(topic, item))

    @property
    def stalled(self) -> list[PartitionReassignment]:
        """Return the moves that are stalled; there are none when nobody knows."""
        from oncelog.admin.reassignments import STALLED

        return [each for each in (self.by_partition or {}).values() if each.phase == STALLED]
