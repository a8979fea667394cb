"""Records deleted by request are gone for good: the log start moves up at every in-sync replica.

Rules
-----
* Only committed records go, and only where the topic's policy lets records go at all. Deleting is a
  write: it needs ``min.insync.replicas``, as one with acks=all does.
* The leader moves its log start at once, and nobody reads below it any more. It is *promised* when
  the start is on the disk of the leader and of every member of the maximal ISR: whoever leads next,
  after whatever crash, begins there too. (Kafka answers when it is in their memory, and writes it
  down within a minute: after a crash deleted records may be back.)
* A follower names the start that its disk holds, and names itself again when its disk holds the
  leader's. A follower that does not hold the start that a leader has promised, or began with, does
  not join the ISR.
* Segments that lie wholly below the start go with the next round of retention.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.purgatory import DelayedOperation, OffsetCallback, OffsetPurgatory
from oncelog_protocol.errors import (
    NotEnoughReplicasError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)

ALL_COMMITTED = -1
"""It stands for the high watermark, in place of an offset."""


class Replica(Protocol):
    """Records of such a replica are deleted; ``Partition`` is one."""

    log: PartitionLog
    leader: LeaderRole | None
    high_watermark: int
    failed: bool

    def leader_role(self) -> LeaderRole:
        """Return ``leader``; raise NotLeaderOrFollowerError or StorageError without one."""
        ...

    def log_start_moved(self) -> None:
        """Tell readers that the log begins further up."""
        ...

    def fetch_anew(self) -> None:
        """Have this follower tell its leader where it stands."""
        ...


class RecordDeletion:
    """It keeps the log starts of one replica: as a leader who waits for them, as a follower what it
    says."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.delayed = OffsetPurgatory()
        """Callers wait here for a low watermark."""
        self.named_start = 0
        """This follower has told its leader this start last."""

    # ---- leader

    def delete_below(self, offset: int) -> int:
        """Give up the records below ``offset``; return what is to be waited for.

        :raises OffsetOutOfRangeError: negative, or not committed.
        :raises PolicyViolationError: the topic is compacted, and its records stay.
        :raises NotEnoughReplicasError: nothing was deleted.
        :raises NotLeaderOrFollowerError, StorageError: see ``Partition.leader_role``.
        """
        replica = self._replica
        leader, log = replica.leader_role(), replica.log
        if log.damage or not log.log_dir.online:
            log.refuse()
        if not log.config.deletes_old:
            raise PolicyViolationError("cleanup_policy without delete: records stay")
        min_isr = log.config.min_insync_replicas
        if not leader.has_min_isr(min_isr):
            raise NotEnoughReplicasError(f"isr {leader.isr}, at least {min_isr} needed")
        wanted = replica.high_watermark if offset == ALL_COMMITTED else offset
        if not 0 <= wanted <= replica.high_watermark:
            raise OffsetOutOfRangeError(
                f"offset {offset}, records are committed up to {replica.high_watermark}"
            )
        if log.advance_log_start(wanted):
            replica.log_start_moved()
        leader.deleted_below(wanted)
        return wanted

    def when_deleted(self, offset: int, callback: OffsetCallback) -> DelayedOperation | None:
        """Call back once no replica that may lead has anything below ``offset``: with 0, or with
        NOT_LEADER_OR_FOLLOWER or STORAGE_ERROR. Return None when it was called at once."""
        if self.low_watermark() >= offset:
            callback(0)
            return None
        operation = self.delayed.watch(offset, callback)
        self._write_down()
        return operation

    def low_watermark(self) -> int:
        """Return the offset below which no replica that may lead will ever show anything again; -1
        if it is not known."""
        leader, log = self._replica.leader, self._replica.log
        if leader is None or not leader.has_min_isr(log.config.min_insync_replicas):
            return -1
        return leader.lowest_start(log.log_dir.starts.durable(log))

    def check(self) -> None:
        """Look at the low watermark again: a disk, a follower, or the ISR has changed."""
        if self.delayed:
            self.delayed.reach(self.low_watermark())

    def _write_down(self) -> None:
        log = self._replica.log
        starts = log.log_dir.starts
        if starts.durable(log) < log.log_start_offset:
            starts.when_durable(log, self._written)

    def _written(self) -> None:
        """Go on after a checkpoint; this is never called from inside of an answer of the leader."""
        replica = self._replica
        if replica.failed:
            return
        if replica.leader is not None:
            self.check()
            if not self.delayed:
                return
        elif replica.log.log_dir.starts.durable(replica.log) > self.named_start:
            replica.fetch_anew()
        self._write_down()

    # ---- follower

    def position_start(self) -> int:
        """Return the log start that the next fetch names."""
        log = self._replica.log
        self.named_start = log.log_dir.starts.durable(log)
        return self.named_start

    def follow(self) -> None:
        """Name the log start to the leader when our disk holds it, if it is above what was
        named."""
        log = self._replica.log
        if log.log_start_offset > self.named_start:
            log.log_dir.starts.when_durable(log, self._written)
