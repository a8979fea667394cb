"""A replica that finds damage in its own log drops it and fetches it again when it may. Pure.

A damaged log is not mended in place: the replica drops it and fetches all of it from the leader.
Until it has, it refuses to lead and is no member of the ISR [D2]. Rules:

* Dropping a log gives up what still holds of it. So a leader makes room only while another member
  is known to hold everything committed. A follower names its damaged log as an empty one; the
  leader has it leave ISR and ELR first and sends nothing before; with the first data the log is
  dropped. So a replica that is elected without having heard of it has its log yet.
* While there is nobody, the replica goes on as it is and serves what holds: known corruption
  (``corruption``) is looked at again whenever roles, the ISR or its followers have changed.
* While it lacks something it takes no LeaderAndIsr that names it in the ISR: the controller hears
  that, and takes it out. Leader and ISR would count a copy that is none, and a leader that was
  elected just now does not know enough to tell.
* It is whole again when it has synced what its leader knows to be committed, or all that the
  damaged log held: a new leader may know less for a while. The mark on disk (``log.refetch``)
  outlives a restart. It is also whole when it was let into the ISR again by a leader of an epoch in
  which it had named nothing before it dropped the log, so that none of its names was of the damaged
  one.
* A log that was declared damaged and not dropped yet is as good as any other that has corruption:
  called upon to lead, the replica leads.
* Damage is told once, until the log has been dropped.
"""

from __future__ import annotations

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.refetch import ALL_OFFSETS
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


class Repair:
    """One replica knows here how damaged its log is, and whether it is whole again."""

    __slots__ = ("_heard", "_log", "_outside", "_whole_at", "corruption", "refetching")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._whole_at = ALL_OFFSETS
        self._heard = 0
        """A leader told this high watermark last."""
        self._outside: str | None = None
        """With this damage, or with "" if its log was dropped, it took a LeaderAndIsr of a new
        epoch that named it neither in the ISR nor in the ELR; None means that it took none such."""
        self.refetching = log.refetch_until >= 0
        """It tells whether a damaged log is being fetched again: it may not lead until it holds
        again what is committed."""
        self.corruption = ""
        """This is known not to hold, though the log goes on behind it."""

    @property
    def needed(self) -> bool:
        """Return whether corruption was found, and the log is not whole again yet."""
        return bool(self._log.damage or self.corruption or self.refetching)

    def found(self, what: str) -> bool:
        """Note that something synced does not hold; return whether that is news."""
        if self._log.damage or self.corruption:
            return False
        logger.error("replica_damaged", path=self._log.directory, error=what)
        self.corruption = what
        return True

    def give_up(self, leader: LeaderRole | None, leader_id: int, now: float | None) -> bool:
        """Declare the log damaged if corruption is known, and another replica can lead or leads.

        From then on it takes no writes and waits to be dropped. Return whether it was declared.
        ``now`` is loop time, None when it is not known.
        """
        if not self.corruption or self._log.damage:
            return False
        if leader is not None:
            possible = leader.has_successor(now)
        else:
            possible = leader_id != NO_BROKER
        if possible:
            self._log.declare_damaged(self.corruption)
        return possible

    def withdraw(self) -> None:
        """Take the declaration back, as the log was not dropped and the replica is called upon to
        lead: nobody else can, and it lacks no more than what is corrupt."""
        if self.corruption and self._log.damage == self.corruption:
            self._log.withdraw_damage()

    def may_take(self, state: LeaderAndIsrPartition, broker_id: int, leader_epoch: int) -> bool:
        """Return False for a LeaderAndIsr that still lists this incomplete replica in ISR or ELR,
        unless its log is whole again. ``leader_epoch`` is the one that this broker is in."""
        log = self._log
        damage = log.damage or self.corruption
        if not (self.refetching or damage):
            return True
        if broker_id not in state.isr:
            if broker_id not in state.elr and state.leader_epoch > leader_epoch:
                self._outside = damage
            return True
        if self._outside is not None and not damage and self._log.log_end_offset >= self._heard:
            return self._let_in()  # the last is for unclean elections: they choose from outside
        if state.leader == broker_id:
            return True
        logger.warning("replica_not_whole", partition=log.topic_partition)
        return False

    def _let_in(self) -> bool:
        try:
            self._is_whole()
        except StorageError:
            return False
        return True

    def begins(self) -> None:
        """Note that the damaged log is about to be dropped."""
        self.refetching = True
        # Damage that was found since: the leader has heard names of that log in this epoch.
        self._outside = "" if self._outside == self._log.damage else None

    def dropped(self) -> None:
        """Note that the log begins anew, from the leader."""
        self.corruption, self._whole_at = "", ALL_OFFSETS

    def heard(self, high_watermark: int, leader_epoch: int) -> None:
        """Note the high watermark that the leader has told. It raises StorageError."""
        if self.refetching:
            log = self._log
            self._heard = high_watermark
            self._whole_at = high_watermark
            if log.epochs.epoch_at(high_watermark - 1) != leader_epoch:
                # It may be behind what is committed until it has passed the start of its epoch.
                self._whole_at = max(high_watermark, log.refetch_until)
            self.synced()

    def synced(self) -> None:
        """Note that the log may be durable further on. It raises StorageError."""
        log = self._log
        if self.refetching and not log.damage and log.recovery_point >= self._whole_at:
            self._is_whole()

    def _is_whole(self) -> None:
        logger.info("replica_whole_again", partition=self._log.topic_partition)
        self._log.refetched()
        self.refetching = False
