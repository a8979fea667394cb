"""A leader keeps here what it knows and decides in one leader epoch. Pure.

The object is made anew for each leader epoch, so that nothing learnt in an older one can count
[K5].

* The high watermark is the least synced offset of the leader and of every member of the *maximal*
  ISR. It moves up only, and stands while the committed ISR is smaller than ``min.insync.replicas``
  or there is an ELR: the controller may count with another setting than this broker [K18].
* A follower may join when it has fetched in this epoch, holds the high watermark and the start of
  this epoch (KAFKA-7128), and has given up what was deleted by request (``record_deletion``). It
  leaves when it lags for too long, and at once when it turns up without committed records: its disk
  has lost them, and it must not be elected [I4].
* A leader that resumes an epoch after a restart trusts no follower's tail (``resumed_divergence``).
* One ISR change at a time is asked of the controller (see ``isr``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oncelog_broker.replication.invariants import (
    InvariantError,
    check_isr,
    check_stable,
    check_watermark,
)
from oncelog_broker.replication.isr import NO_BROKER_EPOCH, IsrState, isr_members
from oncelog_broker.replication.progress import (
    NEVER_S,
    UNKNOWN_OFFSET,
    Contact,
    FollowerProgress,
)
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_protocol.errors import (
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    OperationNotAttemptedError,
    StaleBrokerEpochError,
)
from oncelog_protocol.messages.fetch import EpochEnd
from oncelog_protocol.messages.replication import AlterPartitionItem, AlterPartitionResult
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

REJOIN_DELAY_S = 1.0
"""After the controller found a follower ineligible it is not proposed for this long."""

CONTACT_S_MAX = 5.0
"""A follower that was not heard of for longer is not proposed on the strength of an old name."""

_REFUSALS = frozenset(
    (IneligibleReplicaError.code, OperationNotAttemptedError.code, InvalidRequestError.code)
)
"""These answers say that the change was not made and will not be."""


class LeaderRole:
    """It is one partition led in one leader epoch. Times are loop time in seconds."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        leader_epoch: int,
        *,
        epoch_start_offset: int,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        replicas: Sequence[int],
        origin: Sequence[int] | None = None,
        isr: Sequence[int],
        partition_epoch: int,
        now: float,
        safeguards: Safeguards,
        resumes: bool = False,
        elr: Sequence[int] = (),
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.replicas = tuple(replicas)
        self.originals = safeguards.originals(origin or (), replicas)
        """These replicas the partition has without its move, if it moves: those that the move adds
        count neither for ``min.insync.replicas`` nor as missing (KIP-352, [M4])."""
        self.state = IsrState(tuple(sorted(isr)), partition_epoch, elr=tuple(sorted(elr)))
        self.followers = {
            replica: FollowerProgress(
                replica, in_sync=replica in isr, leader_end=epoch_start_offset, now=now
            )
            for replica in sorted(replicas)
            if replica != broker_id
        }
        self.gives_way = False
        """It tells whether another replica is to lead, though this one could go on."""
        self._safeguards = safeguards
        self._lacking: dict[int, None] = {}
        """These followers have shown that they lack what is committed."""
        self._counted: list[FollowerProgress] = []
        self._at_end: list[FollowerProgress] = []
        self.watermark = high_watermark
        """This leader has reached this high watermark; see ``invariants``."""
        self.start_needed = log_start_offset
        """No replica may lead whose log begins below this offset: deleted records would be back."""
        self.stable_offset = 0
        """It is the last stable offset when that was looked at last; see ``invariants``."""
        self._refused: dict[int, tuple[int, float]] = {}
        self._left: dict[int, float] = {}
        """For each follower that had to leave the ISR, it is the time when it had last been heard
        of."""
        self._unproven = set(self.followers) if resumes else set()
        """These followers may hold a tail of this epoch's former life; see
        ``resumed_divergence``."""
        self._recount()

    @property
    def isr(self) -> tuple[int, ...]:
        """Return the committed ISR."""
        return self.state.committed

    def has_min_isr(self, min_isr: int) -> bool:
        """Return whether the committed ISR is large enough; a topic with fewer replicas needs just
        as many as it has. With an ELR it is not: then the controller takes it for too small."""
        state = self.state
        return not state.elr and len(state.committed) >= min(min_isr, len(self.originals))

    def spares(self, replica_id: int) -> bool:
        """Return whether a follower is never held back, as the ISR or the ELR may count on it
        [N104]."""
        counted = replica_id in self.state.maximal or replica_id in self.state.elr
        return self._safeguards.is_spared(counted)

    def give_way(self) -> None:
        """Let another replica lead: the controller hears so when it asks for the order again."""
        self.gives_way = True

    def stay(self) -> None:
        """Lead as before: the reason to give way is over, and nobody else leads yet."""
        self.gives_way = False

    def has_successor(self, now: float | None) -> bool:
        """Return whether another replica is known to hold everything committed and may be
        elected."""
        return bool(self.successors(now))

    def successors(self, now: float | None) -> list[int]:
        """Return the replicas that are known to hold everything committed and may be elected:
        members that stay, and those of the ELR that were heard of lately (``now`` is loop time)."""
        staying = self.state.committed
        if self.state.proposal is not None:
            staying = tuple(b for b in self.state.proposal.broker_ids if b in staying)
        return [
            member
            for member, follower in self.followers.items()
            if follower.durable_offset >= self.watermark
            and (
                member in staying
                or (
                    member in self.state.elr
                    and now is not None
                    and now - follower.contact.at_s < CONTACT_S_MAX
                )
            )
        ]

    def ahead(self, synced: int, end: int, since: float, now: float) -> list[int]:
        """Return the successors that hold more than this broker's disk, which ends at ``synced``,
        and all that the log, which ends at ``end``, held at ``since`` (loop time)."""
        return [
            member
            for member in self.successors(now)
            if self.followers[member].durable_offset > synced
            and self.followers[member].held(end, since)
        ]

    # ---- offsets

    def high_watermark(self, current: int, leader_offset: int, min_isr: int) -> int:
        """Return where the high watermark is now; the leader itself holds all below
        ``leader_offset``."""
        if self._safeguards.holds(not self.has_min_isr(min_isr)):
            return current
        lowest = leader_offset
        for follower in self._counted:
            if follower.durable_offset < lowest:
                lowest = follower.durable_offset
        return max(current, lowest)

    def advance(self, high_watermark: int, log_end: int) -> None:
        """Move the high watermark up.

        :raises InvariantError: it would move back, or past the log end.
        """
        if not self.watermark <= high_watermark <= log_end:
            raise InvariantError(f"high watermark {self.watermark} was to become {high_watermark}")
        self.watermark = high_watermark

    def deleted_below(self, offset: int) -> None:
        """Note that records below ``offset`` were deleted: no replica may lead whose log begins
        below it."""
        self.start_needed = max(self.start_needed, offset)

    def lowest_start(self, leader_start: int) -> int:
        """Return the least log start that the disks of the leader and of the maximal ISR hold; -1
        if one of them has not said it yet. ``leader_start`` is the leader's own."""
        return min([leader_start, *(follower.log_start_offset for follower in self._counted)])

    def appended(self, leader_end: int, now: float) -> None:
        """Note for followers at the log end that the leader's log has grown."""
        if self._at_end:
            for follower in self._at_end:
                follower.left_behind(leader_end, now)
            self._at_end.clear()

    def fetched(
        self,
        replica_id: int,
        durable_offset: int,
        *,
        broker_epoch: int,
        log_start_offset: int,
        leader_end: int,
        contact: Contact,
        now: float,
    ) -> None:
        """Count a follower's fetch of this leader epoch, whose log is a prefix of ours.

        :raises StaleBrokerEpochError: the follower has restarted since it sent it.
        """
        follower = self.followers[replica_id]
        if self._safeguards.is_of_earlier_life(broker_epoch < follower.broker_epoch):
            # Delayed bytes of the follower's earlier life: that disk may have been wiped since.
            raise StaleBrokerEpochError(
                f"broker epoch {broker_epoch}, seen {follower.broker_epoch}"
            )
        follower.fetched(
            durable_offset,
            broker_epoch=broker_epoch,
            log_start_offset=log_start_offset,
            leader_end=leader_end,
            contact=contact,
            now=now,
        )
        if durable_offset >= leader_end and follower not in self._at_end:
            self._at_end.append(follower)

    def resumed_divergence(
        self, replica_id: int, fetch_offset: int, *, empty: bool = False
    ) -> EpochEnd | None:
        """Return where a follower must truncate although its epochs match ours, or None.

        A broker that restarts may be told to go on leading in the *same* epoch. Had it lost an
        unsynced tail by power cut, followers may hold that tail, and it would pass for ours once
        our log has grown past it. So a follower's first fetch of this life may not lie beyond where
        this life began. Nothing that is lost so was committed: our synced offset never passed it.
        An ``empty`` log has no tail to distrust, wherever it begins.
        """
        if replica_id not in self._unproven:
            return None
        if self._safeguards.truncates(not empty and fetch_offset > self.epoch_start_offset):
            return EpochEnd(self.leader_epoch, self.epoch_start_offset)
        self._unproven.discard(replica_id)
        return None

    # ---- changes of the ISR

    def propose_change(self, leader_end: int, now: float, lag_s_max: float) -> bool:
        """Propose to remove followers that have not kept up, or else to add one that has. Return
        whether there is something to ask for."""
        lagging = self.lagging(leader_end, now, lag_s_max)
        if lagging and self.propose_leave(lagging):
            logger.warning(
                "followers_lag",
                partition=self.topic_partition,
                followers=lagging,
                high_watermark=self.watermark,
                log_end_offset=leader_end,
            )
            return True
        return self.propose_any_join(self.watermark, now)

    def propose_leave_of_incomplete(self, replica_id: int, offset: int) -> bool:
        """Propose to remove a follower that stands at ``offset`` and so lacks what is committed.
        Return whether there is something to ask for."""
        if not self.propose_leave([replica_id]):
            return False
        logger.log(
            # Otherwise it may just have been empty before.
            logging.ERROR if offset < self.watermark else logging.INFO,
            "follower_lost_records",
            partition=self.topic_partition,
            broker_id=replica_id,
            offset=offset,
            high_watermark=self.watermark,
        )
        return True

    def propose_join(self, replica_id: int, high_watermark: int, now: float) -> bool:
        """Propose to add a follower if it may join; return whether a proposal was made."""
        state = self.state
        if state.proposal is not None or replica_id in state.committed:
            return False
        follower = self.followers[replica_id]
        needed = self._safeguards.join_offset(self.epoch_start_offset)
        if follower.durable_offset < max(high_watermark, needed):
            return False
        if self._safeguards.lacks_deletion(follower.log_start_offset < self.start_needed):
            return False
        refused_epoch, not_before_s = self._refused.get(replica_id, (NO_BROKER_EPOCH, now))
        if follower.broker_epoch == refused_epoch and now < not_before_s:
            return False
        self._propose((*state.committed, replica_id))
        return True

    def propose_any_join(self, high_watermark: int, now: float) -> bool:
        """Propose the first follower that may join and is alive; return whether there was one.

        A follower at the log end of an idle partition does not name it again, so the reason that
        kept it from being proposed at its last name (another change, a refusal) must be looked at
        again. A follower that had to leave must have been heard of since, or it would come and go.
        """
        return any(
            now - follower.contact.at_s < CONTACT_S_MAX
            and follower.contact.at_s > self._left.get(follower.replica_id, NEVER_S)
            and self.propose_join(follower.replica_id, high_watermark, now)
            for follower in self.followers.values()
        )

    def propose_leave(self, replicas: Sequence[int]) -> bool:
        """Propose an ISR, and an ELR, without ``replicas``; return whether a proposal was made. A
        replica that is in the ELR alone and leaves it lacks records, and is named so in the
        request."""
        state = self.state
        remaining = [member for member in state.committed if member not in replicas]
        leaving = len(remaining) < len(state.committed) or any(r in state.elr for r in replicas)
        if state.proposal is not None or not leaving:
            return False
        for replica in replicas:
            if replica in self.followers:
                self._left[replica] = self.followers[replica].contact.at_s
        self._propose(remaining)
        return True

    def must_leave(self, replica_id: int, fetch_offset: int, *, empty: bool) -> bool:
        """Return whether a follower that stands there lacks what is committed while ISR or ELR, as
        they are or may be, name it. It is sent nothing before it has left: until nobody counts on
        it, it keeps what it may still have of a damaged log. A new leader may not know what is
        committed; an ``empty`` log tells enough."""
        lacks = fetch_offset < self.watermark or (empty and fetch_offset < self.epoch_start_offset)
        if lacks:
            self._lacking[replica_id] = None
        else:
            self._lacking.pop(replica_id, None)
        return lacks and replica_id in (*self.state.maximal, *self.state.elr)

    def lagging(self, leader_end: int, now: float, lag_s_max: float) -> list[int]:
        """Return the members of the committed ISR that have not kept up."""
        return [
            member
            for member in self.state.committed
            if member != self.broker_id
            and (
                member not in self.followers
                or self.followers[member].lags(leader_end, now, lag_s_max)
            )
        ]

    def item(self, topic_id: str) -> AlterPartitionItem | None:
        """Return the proposal as a request, or None when there is none."""
        proposal = self.state.proposal
        if proposal is None:
            return None
        # Not to become eligible: the controller would take whoever leaves for complete.
        incomplete = [
            replica_id
            for replica_id, follower in self.followers.items()
            if (
                UNKNOWN_OFFSET < follower.durable_offset < self.watermark
                or replica_id in self._lacking
            )
            and replica_id not in proposal.broker_ids
        ]
        return AlterPartitionItem(
            self.topic_partition.topic,
            topic_id,
            self.topic_partition.partition,
            self.leader_epoch,
            self.state.partition_epoch,
            isr_members(proposal),
            incomplete,
        )

    def answered(self, result: AlterPartitionResult, now: float) -> None:
        """Apply the controller's answer to the proposal.

        Codes that say neither *done* nor *never* (another controller, a lost race with a topic
        deletion) leave it pending; it will be asked for again.
        """
        before, proposal = self.isr, self.state.proposal
        code = result.error_code
        same_epoch = (
            result.leader_epoch == self.leader_epoch
            and result.partition_epoch >= self.state.partition_epoch
        )
        if code == 0 and same_epoch:
            self.state = self.state.success(result.isr, result.partition_epoch, result.elr)
        elif code == InvalidUpdateVersionError.code and same_epoch:
            self.state = self.state.superseded(result.isr, result.partition_epoch, result.elr)
        elif code in _REFUSALS:
            if code == IneligibleReplicaError.code and proposal is not None:
                for replica in proposal.broker_ids:
                    if replica not in self.state.committed and replica in self.followers:
                        # Only this life of it: a broker that stops is refused, and soon back.
                        epoch = self.followers[replica].broker_epoch
                        self._refused[replica] = (epoch, now + REJOIN_DELAY_S)
            self.state = self.state.refused()
        else:
            # Includes FENCED_LEADER_EPOCH and a newer epoch in the answer: we are deposed, and the
            # order that says so is under way. Until it is here the maximal ISR stands [Z10].
            self.state = self.state.retry()
        self._recount()
        if self.isr != before:
            version = self.state.partition_epoch
            logger.info(
                "isr_changed",
                partition=self.topic_partition,
                before=before,
                after=self.isr,
                partition_epoch=version,
            )

    def unanswered(self) -> None:
        """Note that the request was lost, or its answer was."""
        self.state = self.state.unknown()

    def _propose(self, broker_ids: Sequence[int]) -> None:
        self.state = self.state.propose(
            (
                broker_id,
                NO_BROKER_EPOCH
                if broker_id == self.broker_id or broker_id not in self.followers
                else self.followers[broker_id].broker_epoch,
            )
            for broker_id in broker_ids
        )
        self._recount()

    def check_invariants(self, high_watermark: int, stable_offset: int) -> None:
        """Check what must hold of a leader whose replica says these offsets of itself.

        :raises InvariantError: an offset has moved back, or the ISR contradicts itself.
        """
        check_watermark(self.watermark, high_watermark)
        check_stable(self.stable_offset, stable_offset, high_watermark)
        self.stable_offset = stable_offset
        state = self.state
        check_isr(
            self.broker_id,
            committed=state.committed,
            maximal=state.maximal,
            counted=[follower.replica_id for follower in self._counted],
            pending=state.proposal is not None,
        )

    def _recount(self) -> None:
        """Find the members that the high watermark waits for."""
        members = self._safeguards.counted(self.state)
        self._counted = [
            self.followers.get(member)
            or FollowerProgress(member, in_sync=False, leader_end=0, now=0)
            for member in members
            if member != self.broker_id
        ]
