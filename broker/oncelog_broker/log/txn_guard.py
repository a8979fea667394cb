"""The guard under which the first batch of a transaction enters a log (KIP-890, K13).

It is taken before the coordinator is asked, and says at the append whether what the coordinator
said can still be true of this log. No list of guards is kept: a guard remembers how the log was,
and finds out what has happened since. It is void for good when

- a marker of its producer is in the log that was not there then: the transaction may be the one
  that has ended. Offsets tell them apart, so that two transactions cannot be taken for each other;
- its producer has a newer epoch here, or was forgotten with a marker newer than the guard;
- the log was cut, or the replica has begun or ended to lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_protocol.records.batch import BatchHeader

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog


class TxnGuard:
    """Of one producer epoch in one log."""

    __slots__ = ("_cuts", "_end_offset", "_log", "_reigns", "producer_epoch", "producer_id")

    def __init__(self, log: PartitionLog, producer_id: int, producer_epoch: int) -> None:
        self._log = log
        self._end_offset = log.log_end_offset
        self._cuts = log.cuts
        self._reigns = log.producers.reigns
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    @property
    def valid(self) -> bool:
        """Whether what was asked under it still counts."""
        log, producers = self._log, self._log.producers
        if log.cuts != self._cuts or producers.reigns != self._reigns:
            return False
        if producers.state.forgotten_marker >= self._end_offset:
            return False
        entry = producers.state.producers.get(self.producer_id)
        return entry is None or (
            entry.marker_offset < self._end_offset and entry.epoch <= self.producer_epoch
        )

    def covers(self, header: BatchHeader) -> bool:
        """Whether a batch may be appended under it."""
        return (
            header.producer_id == self.producer_id
            and header.producer_epoch == self.producer_epoch
            and self.valid
        )
