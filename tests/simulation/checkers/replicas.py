"""Replicas' logs are data, for the checkers that compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_protocol.records.batch import iter_headers
from simulation.history import Key


class Entry(NamedTuple):
    """It is one batch of a log."""

    offset: int
    """The first record's."""
    next_offset: int
    leader_epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Replicas:
    """All replicas of one partition, at rest."""

    high_watermark: int
    logs: Mapping[int, Sequence[Entry]]
    """Logs by broker, in the order of the log; not necessarily from 0 on."""
    epoch_starts: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """The epochs that brokers remember: (leader epoch, its first offset); empty: not asked."""
    compacts: bool = False
    """Each broker may have taken old records away; ``newest_values_kept`` looks at the rest."""

    def committed(self) -> dict[int, list[Entry]]:
        """Return the batches below the high watermark, by broker, in the order of broker ids."""
        return {
            broker: [entry for entry in log if entry.next_offset <= self.high_watermark]
            for broker, log in sorted(self.logs.items())
        }


AllReplicas = Mapping[Key, Replicas]


def entries_of(data: bytes) -> list[Entry]:
    """Return the batches in the bytes of a log.

    :raises CorruptBatchError: the bytes are not whole batches.
    """
    return [
        Entry(
            header.base_offset,
            header.next_offset,
            header.leader_epoch,
            data[position : position + header.size_bytes],
        )
        for position, header in iter_headers(data)
    ]
