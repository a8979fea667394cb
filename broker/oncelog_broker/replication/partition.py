"""A replica leads or follows, fenced by leader epochs. Pure: time comes in.

Rules
-----
* A role changes only by a LeaderAndIsr of the controller with a higher leader epoch [Z4], and
  wholly or not at all: what can fail (the epoch history) is done first, and a failure leaves the
  old epoch, so that the controller's retry does it again [Z13].
* A new leader writes (epoch, log end) into its epoch history before it serves (KAFKA-7415).
* Every fetch names the leader epoch it means; another one is refused [K5]. The log is truncated
  only where the leader says that it diverges, never at the replica's own high watermark [K3] [K6].
* ``log start <= last stable offset <= high watermark <= log end`` [I1]. A leader's high watermark
  and last stable offset only rise within its epoch. The latter stops at the first transaction whose
  marker is not committed [I15]; it moves with the high watermark. A replica that finds this or
  another invariant broken goes out of service (``invariants``).
* Readers are told of news (``PartitionReader``), they do not poll. Delayed produces hear of their
  offset, or of the end of the role in which they came.
* A follower's log is truncated where the common part with its leader's ends (KIP-279), also when
  that is its end: an epoch without records must go (KAFKA-10706). The high watermark goes along;
  records truncated below it were committed, and are counted as lost. Producers and transactions are
  known again as of the new end before either moves [B13]: ``PartitionLog`` sees to that.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_broker.log.key_check import KeyCheck
from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.log_producers import TxnGuard
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.divergence import common_end, divergence
from oncelog_broker.replication.invariants import InvariantError, check_offsets
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.ports import Buffer, FetchPosition, PartitionReader
from oncelog_broker.replication.progress import Contact
from oncelog_broker.replication.purgatory import DelayedOperation, OffsetCallback, OffsetPurgatory
from oncelog_broker.replication.record_deletion import RecordDeletion
from oncelog_broker.replication.repair import Repair
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_broker.replication.traffic import TopicTraffic
from oncelog_protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownLeaderEpochError,
)
from oncelog_protocol.messages.fetch import AbortedTransaction, EpochEnd
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResult,
    LeaderAndIsrPartition,
)
from oncelog_protocol.records.batch import MAGIC
from oncelog_protocol.types import (
    NO_BROKER,
    NO_EPOCH,
    NO_TXN_NUMBER,
    Acks,
    IsolationLevel,
    TopicPartition,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

NOT_TOLD = -1
"""It stands for an offset that the leader has not told yet."""


class PartitionOwner(Protocol):
    """A partition tells it about what the partition cannot do itself."""

    def isr_change_wanted(self, partition: Partition) -> None:
        """Send the partition's proposal to the controller."""
        ...

    def follower_synced(self, partition: Partition) -> None:
        """Go on with a follower whose log has become durable further on."""
        ...

    def refetch_wanted(self, partition: Partition) -> None:
        """Tell the leader of a follower whose log is damaged, or begins elsewhere."""
        ...

    def replica_broke_down(self, partition: Partition) -> None:
        """Have the controller told, when it asks, of a replica that contradicted itself and is out
        of service, or that leads and is damaged."""
        ...


class Partition:
    """It is one replica. All times are loop time in seconds."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log: PartitionLog,
        *,
        broker_id: int,
        high_watermark: int,
        owner: PartitionOwner,
        safeguards: Safeguards,
        traffic: TopicTraffic,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = log.topic_id
        self.log = log
        self.broker_id = broker_id
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.moves = False
        """It tells whether the partition moves, by the order that gave the role."""
        self.next_leader = NO_BROKER
        """The controller means to have that replica lead soon; -1: none."""
        self.leader_high_watermark = NOT_TOLD
        """The leader that is followed told it last; -1: it has not yet."""
        self.consumed_bytes = 0
        """Consumers were sent so much since the replica was made."""
        self.counted = False
        """It tells whether the order that made this a follower had it in the ISR or the ELR."""
        self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        self.leader: LeaderRole | None = None
        self.failed = False
        """It tells whether the replica is out of service: its directory failed, it broke down, or
        it was stopped."""
        self.traffic = traffic
        self.repair = Repair(log)
        self.deletion = RecordDeletion(self)
        self.committed_records_truncated = 0
        """A leader had this replica truncate so many records below the high watermark: they are
        lost, after an unclean election, or else by a defect."""
        self._owner = owner
        self.safeguards = safeguards
        self._delayed_until_committed = OffsetPurgatory()
        self._delayed_until_synced = OffsetPurgatory()
        self._readers: dict[PartitionReader, None] = {}
        log.producers.committed(self.high_watermark)
        log.tell_synced_to(self._on_synced)

    # ---- state

    @property
    def is_leader(self) -> bool:
        """Return whether this replica leads in its leader epoch."""
        return self.leader is not None

    @property
    def refetching(self) -> bool:
        """Return whether a damaged log is being fetched again: it may not lead meanwhile [D2]."""
        return self.repair.refetching

    @property
    def is_next_leader(self) -> bool:
        """Return whether this replica follows, and is to lead soon."""
        return self.next_leader == self.broker_id and self.leader is None and not self.failed

    @property
    def isr(self) -> tuple[int, ...]:
        """Return the committed ISR as the leader knows it; it is empty at a follower."""
        return self.leader.isr if self.leader is not None else ()

    @property
    def partition_epoch(self) -> int:
        """Return the version of the partition's state as the leader knows it; -1 at a follower."""
        return self.leader.state.partition_epoch if self.leader is not None else -1

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which all is committed and every transaction decided."""
        high_watermark, first = self.high_watermark, self.log.producers.first_undecided
        if first >= high_watermark:
            return high_watermark
        return max(self.safeguards.last_stable(high_watermark, first), self.log.log_start_offset)

    @property
    def min_isr(self) -> int:
        """Return min.insync.replicas of the topic."""
        return self.log.config.min_insync_replicas

    def leader_role(self) -> LeaderRole:
        """Return the leader's knowledge.

        :raises StorageError: the replica is out of service.
        :raises NotLeaderOrFollowerError: another broker leads, or none.
        """
        if self.failed:
            raise StorageError(f"{self.topic_partition}: the replica is out of service")
        leader = self.leader
        if leader is None:
            raise NotLeaderOrFollowerError(
                f"{self.topic_partition}: led by {self.leader_id} in epoch {self.leader_epoch}"
            )
        return leader

    def check_epoch(self, leader_epoch: int) -> LeaderRole:
        """Fence a reader by the leader epoch it knows; -1 passes (consumers that know none).

        :raises FencedLeaderEpochError: it knows an older one.
        :raises UnknownLeaderEpochError: it knows a newer one.
        """
        leader = self.leader_role()
        if self.safeguards.fences(leader_epoch not in (self.leader_epoch, NO_EPOCH)):
            if leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"epoch {leader_epoch}, now {self.leader_epoch}")
            raise UnknownLeaderEpochError(f"epoch {leader_epoch}, here {self.leader_epoch}")
        return leader

    # ---- LeaderAndIsr

    def apply_leader_and_isr(self, state: LeaderAndIsrPartition, now: float) -> int:
        """Take the role in ``state``; return an error code, 0 when that is our role now."""
        if state.leader_epoch == self.leader_epoch:
            self.next_leader = state.next_leader  # it changes no role, so it has no epoch
        code = self.safeguards.without_change(self._answer_at_once(state))
        if code is not None:
            return code
        try:
            if state.leader == self.broker_id:
                self._lead(state, now)
            else:
                self._follow(state)
        except InvariantError as error:
            self.break_down(error)
            return StorageError.code
        except (StorageError, OSError) as error:
            logger.error("role_not_changed", partition=self.topic_partition, error=error)
            return StorageError.code
        except (FencedLeaderEpochError, ValueError) as error:
            logger.error("role_of_older_epoch", partition=self.topic_partition, error=error)
            return FencedLeaderEpochError.code
        self.log.producers.void_guards()
        for reader in list(self._readers):
            reader.role_changed()
        self.check_invariants()
        self._repair(now)
        return StorageError.code if self.failed else 0

    def _answer_at_once(self, state: LeaderAndIsrPartition) -> int | None:
        """Return the answer to an order that changes no role; None: the role is to be taken."""
        if state.leader_epoch < self.leader_epoch:
            return FencedLeaderEpochError.code
        if self.failed or not self.repair.may_take(state, self.broker_id, self.leader_epoch):
            return StorageError.code
        if state.leader_epoch > self.leader_epoch:
            return None
        leader = self.leader
        return StorageError.code if leader and (leader.gives_way or self.log.damage) else 0

    def _lead(self, state: LeaderAndIsrPartition, now: float) -> None:
        log = self.log
        self.repair.withdraw()
        if self.refetching or log.needs_refetch:
            raise StorageError("the log is damaged and must be fetched again first")
        epoch_start = log.log_end_offset
        # The first LeaderAndIsr of this life: the epoch may have begun in an earlier one, of which
        # a power cut can have left nothing in the log, so the log cannot be asked.
        resumes = self.leader_epoch == NO_EPOCH
        log.assign_epoch(state.leader_epoch, epoch_start)
        self.leader = LeaderRole(
            self.topic_partition,
            self.broker_id,
            state.leader_epoch,
            epoch_start_offset=epoch_start,
            log_start_offset=log.log_start_offset,
            high_watermark=self.high_watermark,
            replicas=state.replicas,
            origin=state.origin,
            isr=state.isr,
            elr=state.elr,
            partition_epoch=state.partition_epoch,
            resumes=resumes,
            now=now,
            safeguards=self.safeguards,
        )
        self.safeguards.leads(self)
        self.leader_id, self.leader_epoch = self.broker_id, state.leader_epoch
        self._take_placement(state)
        logger.info(
            "leader_began",
            partition=self.topic_partition,
            leader_epoch=self.leader_epoch,
            offset=epoch_start,
            isr=state.isr,
        )
        self._advance_high_watermark()

    def _follow(self, state: LeaderAndIsrPartition) -> None:
        self.safeguards.follows(self)
        was_leader = self.leader is not None
        self.leader = None
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch
        self._take_placement(state)
        self.counted = self.broker_id in state.isr or self.broker_id in state.elr
        logger.info(
            "follower_began",
            partition=self.topic_partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
        )
        if was_leader:
            self._fail_waiters(NotLeaderOrFollowerError.code)

    def _take_placement(self, state: LeaderAndIsrPartition) -> None:
        self.replicas = tuple(state.replicas)
        self.moves = state.origin is not None
        self.next_leader = state.next_leader
        self.leader_high_watermark = NOT_TOLD

    def fail(self, error_code: int = StorageError.code) -> None:
        """Take the replica out of service; everybody who waits hears ``error_code``."""
        if self.failed:
            return
        self.failed = True
        self.leader = None
        self.log.producers.void_guards()
        self._fail_waiters(error_code)
        for reader in list(self._readers):
            reader.role_changed()

    def break_down(self, error: InvariantError) -> None:
        """Go out of service: nothing that a replica says after a contradiction is to be trusted."""
        if self.failed:
            return
        logger.critical("replica_invariant_broken", replica=self, error=error)
        self.fail()
        self._owner.replica_broke_down(self)

    def check_invariants(self) -> None:
        """Look at everything that must hold; break down if it does not."""
        if self.failed:
            return
        log, leader = self.log, self.leader
        try:
            check_offsets(log.log_start_offset, self.high_watermark, log.log_end_offset)
            log.epochs.check()
            if leader is not None:
                leader.check_invariants(self.high_watermark, self.last_stable_offset)
        except InvariantError as error:
            self.break_down(error)

    def stop(self) -> None:
        """Stop a replica that is no longer this broker's; callers that wait must ask elsewhere."""
        self.fail(NotLeaderOrFollowerError.code)
        self.log.tell_synced_to(None)

    # ---- leader: writing

    def append_as_leader(
        self,
        batch: memoryview,
        acks: int,
        now: float,
        guard: TxnGuard | None = None,
        user: str | None = None,
        magic: int = MAGIC,
        keys: KeyCheck | None = None,
    ) -> LogAppend:
        """Append one client batch; a repeat is answered as the first one, and waited for like it.
        ``guard`` comes with a transaction's first batch; see ``LogProducers.needs_guard``.
        ``user`` is the principal of the client, None where it is not known. ``magic`` is that of
        the format in which the client writes. ``keys`` is the check of its keys, if it was begun.

        :raises NotLeaderOrFollowerError: see :meth:`leader_role`.
        :raises NotEnoughReplicasError: nothing was appended, as ``acks`` is all and the ISR small.
        :raises ApiError: what the log refuses; StorageError when its directory fails.
        """
        leader = self._writing_role(acks)
        try:
            append = self.log.append_as_leader(batch, self.leader_epoch, guard, user, magic, keys)
        except InvariantError as error:
            self.break_down(error)
            raise
        return append if append.repeated else self._appended(leader, append, now)

    def append_marker(
        self,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        now: float,
        number: int = NO_TXN_NUMBER,
    ) -> LogAppend:
        """Append a coordinator's marker, with acks=all. ``repeated``: that was done already, and is
        committed when the append's last offset is.

        Raises as :meth:`append_as_leader`, and what ``ProducerState.check_marker`` raises.
        """
        leader = self._writing_role(Acks.ALL)
        try:
            append = self.log.append_marker(
                commit, producer_id, producer_epoch, coordinator_epoch, self.leader_epoch, number
            )
        except InvariantError as error:
            self.break_down(error)
            raise
        return append if append.repeated else self._appended(leader, append, now)

    def _writing_role(self, acks: int) -> LeaderRole:
        leader = self.leader_role()
        if acks == Acks.ALL:
            min_isr = self.log.config.min_insync_replicas
            if not leader.has_min_isr(min_isr):
                raise NotEnoughReplicasError(f"isr {leader.isr}, at least {min_isr} needed")
        return leader

    def _appended(self, leader: LeaderRole, append: LogAppend, now: float) -> LogAppend:
        log = self.log
        leader.appended(log.log_end_offset, now)
        for reader in self._readers:
            reader.data_ready()
        if self._counts_up_to() >= log.log_end_offset:
            self._on_synced(log.synced_offset)
        return append

    def when_committed(self, offset: int, callback: OffsetCallback) -> DelayedOperation | None:
        """Call back once the high watermark is at or past ``offset`` (an append's last offset + 1).

        The callback gets 0, or NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND or
        STORAGE_ERROR when that cannot be waited for any longer. Return None when it was called at
        once.
        """
        if self.high_watermark >= offset:
            callback(0)
            return None
        return self._delayed_until_committed.watch(offset, callback)

    def when_synced(self, offset: int, callback: OffsetCallback) -> DelayedOperation | None:
        """Call back once this replica's own disk holds everything below ``offset``."""
        if self._counts_up_to() >= offset:
            callback(0)
            return None
        return self._delayed_until_synced.watch(offset, callback)

    def _counts_up_to(self) -> int:
        log = self.log
        return self.safeguards.leader_counts(log.synced_offset, log.log_end_offset)

    # ---- leader: followers

    def record_follower_fetch(
        self,
        replica_id: int,
        position: FetchPosition,
        *,
        broker_epoch: int,
        contact: Contact,
        now: float,
    ) -> EpochEnd | None:
        """Count a follower's fetch. Everything below its fetch offset is synced there.

        Return where its log diverges from ours, or None; only then has it been counted.

        :raises FencedLeaderEpochError, UnknownLeaderEpochError, NotLeaderOrFollowerError:
        :raises OffsetOutOfRangeError: below our log start, or of unknown history.
        :raises IneligibleReplicaError: it lacks committed records and has yet to leave ISR and ELR.
        """
        leader = self.check_epoch(position.leader_epoch)
        if replica_id not in leader.followers:
            raise NotLeaderOrFollowerError(f"broker {replica_id} has no replica of this partition")
        empty = position.last_fetched_epoch == NO_EPOCH
        lacking = leader.must_leave(replica_id, position.fetch_offset, empty=empty)
        diverging = None if lacking else self.divergence(position)
        if diverging is None:
            diverging = leader.resumed_divergence(replica_id, position.fetch_offset, empty=empty)
        if self.safeguards.counts_nothing(diverging is not None):
            return diverging
        log = self.log
        offset = position.fetch_offset
        if self.safeguards.truncates(offset > log.log_end_offset):
            raise OffsetOutOfRangeError(f"offset {offset}, log ends at {log.log_end_offset}")
        leader.fetched(
            replica_id,
            offset,
            broker_epoch=broker_epoch,
            log_start_offset=position.log_start_offset,
            leader_end=log.log_end_offset,
            contact=contact,
            now=now,
        )
        if lacking:
            if leader.propose_leave_of_incomplete(replica_id, offset):
                self._owner.isr_change_wanted(self)
            raise IneligibleReplicaError("first leave the ISR, then fetch what is missing")
        if replica_id in leader.isr or leader.state.proposal is not None:
            self._advance_high_watermark()
        elif leader.propose_join(replica_id, self.high_watermark, now):
            self._owner.isr_change_wanted(self)
        self.deletion.check()
        return diverging

    def divergence(self, position: FetchPosition) -> EpochEnd | None:
        """Return where the fetcher's log and ours part; None if it is a prefix of ours (KIP-595).

        :raises OffsetOutOfRangeError: it is below our log start, which goes before divergence
            (KAFKA-12996), or we know nothing of its epoch.
        """
        if position.fetch_offset < self.log.log_start_offset:
            raise OffsetOutOfRangeError(
                f"offset {position.fetch_offset}, log starts at {self.log.log_start_offset}"
            )
        return divergence(self.log, position) if self.safeguards.truncates(True) else None

    def read_for_follower(self, offset: int, max_bytes: int) -> Buffer:
        """Return whole batches from ``offset`` to the log end."""
        log = self.log
        if offset >= log.log_end_offset:
            return b""
        return self._read(offset, max_bytes, log.log_end_offset)

    def corruption_found(self, error: Exception | str) -> None:
        """Note that synced data does not hold. Another complete replica shall lead; this one then
        follows, fetching everything anew [D2]. While there is none it goes on with what holds."""
        if not self.failed and self.repair.found(str(error)):
            self._repair(None)

    def _repair(self, now: float | None) -> None:
        """Do something about corruption that is known, if that is possible by now."""
        if self.repair.give_up(self.leader, self.leader_id, now):
            if self.leader is not None:
                self._owner.replica_broke_down(self)
            else:
                self.fetch_anew()

    def fetch_anew(self) -> None:
        """Have this follower tell its leader where it stands."""
        self._owner.refetch_wanted(self)

    def check_isr(self, now: float, lag_s_max: float) -> None:
        """Propose to remove followers that have not kept up, or else to add one that has."""
        self._repair(now)
        self.repair.synced()
        leader = self.leader
        if leader is None:
            return
        if leader.propose_change(self.log.log_end_offset, now, lag_s_max):
            self._owner.isr_change_wanted(self)
        self._advance_high_watermark()  # min.insync.replicas may have been lowered

    def isr_item(self) -> AlterPartitionItem | None:
        """Return what to ask the controller for, or None."""
        if self.leader is None:
            return None
        return self.leader.item(self.topic_id)

    def isr_answered(
        self, item: AlterPartitionItem, result: AlterPartitionResult | None, now: float
    ) -> bool:
        """Apply the answer to ``item`` (None: none came); return whether a proposal is open."""
        leader = self.leader
        if leader is None or leader.leader_epoch != item.leader_epoch:
            return False
        before = leader.isr
        if result is None:
            leader.unanswered()
        else:
            leader.answered(result, now)
        self.check_invariants()
        if self.failed:
            return False
        # A smaller ISR may let the high watermark move (KAFKA-13091), or hold it for good.
        self._advance_high_watermark()
        if len(leader.isr) < len(before) and not leader.has_min_isr(self.min_isr):
            self._delayed_until_committed.fail(NotEnoughReplicasAfterAppendError.code)
        self.deletion.check()
        leader.propose_any_join(self.high_watermark, now)
        return leader.state.proposal is not None

    def _on_synced(self, synced_offset: int) -> None:
        if self.leader is None:
            self.repair.synced()
            self._owner.follower_synced(self)
            return
        self._delayed_until_synced.reach(synced_offset)
        self._advance_high_watermark()

    def _advance_high_watermark(self) -> None:
        leader = self.leader
        if leader is None:
            return
        log, own = self.log, self._counts_up_to()
        min_isr = log.config.min_insync_replicas
        moved = leader.high_watermark(self.high_watermark, own, min_isr)
        if moved > self.high_watermark:
            try:
                leader.advance(moved, log.log_end_offset)
            except InvariantError as error:
                return self.break_down(error)
            stable = self.last_stable_offset
            self.high_watermark = moved
            log.producers.committed(moved)
            stable_moved = self.last_stable_offset != stable
            for reader in self._readers:
                reader.watermark_moved(stable_moved)
            self._delayed_until_committed.reach(self.high_watermark)

    def _fail_waiters(self, error_code: int) -> None:
        for delayed in (
            self._delayed_until_committed,
            self._delayed_until_synced,
            self.deletion.delayed,
        ):
            delayed.fail(error_code)

    # ---- leader: consumers

    def readable_end(self, isolation_level: int) -> int:
        """Return up to where a consumer of this isolation level may read."""
        if isolation_level == IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def read_for_consumer(self, offset: int, max_bytes: int, *, upto: int) -> Buffer:
        """Return whole batches from ``offset`` on, and none at or past ``upto`` (one snapshot:
        KAFKA-9835). An ``offset`` outside of the log raises OffsetOutOfRangeError."""
        return self._read(offset, max_bytes, upto)

    def consumed(self, size_bytes: int) -> None:
        """Count batches that a consumer was sent."""
        self.traffic.consumed(size_bytes)
        self.consumed_bytes += size_bytes

    def _read(self, offset: int, max_bytes: int, upto: int) -> Buffer:
        try:
            return self.log.read(offset, max_bytes, upto=upto)
        except CorruptMessageError as error:
            self.corruption_found(error)
            raise

    def aborted_transactions(self, start_offset: int, upto: int) -> list[AbortedTransaction]:
        """Return what a reader of committed records must drop of ``[start_offset, upto)``. Raises
        CorruptMessageError and OSError when that cannot be known: nothing of it may be sent."""
        return self.log.aborted.find(start_offset, upto)

    def add_reader(self, reader: PartitionReader) -> None:
        """Tell ``reader`` of news from now on."""
        self._readers[reader] = None

    def log_start_moved(self) -> None:
        """Tell all readers of deleted records: nobody waits for other news to hear of that."""
        for reader in self._readers:
            reader.watermark_moved(True)
            reader.data_ready()

    def remove_reader(self, reader: PartitionReader) -> None:
        """Send no more news to ``reader``; it is harmless when there was none."""
        self._readers.pop(reader, None)

    # ---- follower

    @property
    def is_durable(self) -> bool:
        """Return whether everything in the follower's log may be named to its leader."""
        log = self.log
        if log.producers.is_reading:
            return False  # the next batches are checked against them
        end = log.log_end_offset
        return self.safeguards.follower_names(log.synced_offset, end) >= end

    def position(self) -> FetchPosition:
        """Return where this follower stands, for its next fetch. A damaged log passes for an empty
        one; it is dropped when the leader sends data for it."""
        log = self.log
        start = self.deletion.position_start()
        if log.damage:
            return FetchPosition(log.log_start_offset, self.leader_epoch, NO_EPOCH, start)
        return FetchPosition(log.log_end_offset, self.leader_epoch, log.latest_epoch(), start)

    def leader_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's high watermark and log start, as far as our log goes."""
        log = self.log
        self.leader_high_watermark = high_watermark
        # Once committed is always committed: a new leader may know less than we do for a while.
        committed = min(high_watermark, log.log_end_offset)
        self.high_watermark = max(self.high_watermark, committed, log.log_start_offset)
        log.producers.committed(self.high_watermark)
        if log_start_offset > self.deletion.named_start:
            # Never past the high watermark: log start <= high watermark (KAFKA-5634).
            log.advance_log_start(min(log_start_offset, self.high_watermark))
            self.deletion.follow()
        if not log.log_start_offset <= self.high_watermark <= log.log_end_offset:
            self.check_invariants()
        self.repair.heard(high_watermark, self.leader_epoch)

    def truncate_to_divergence(self, diverging: EpochEnd) -> None:
        """Truncate our log where its common part with the leader's ends. It raises StorageError."""
        log = self.log
        before = log.log_end_offset
        log.truncate_to(common_end(log, diverging))
        end = log.log_end_offset
        lost = self.high_watermark - end
        if lost > 0:
            self.committed_records_truncated += lost
            self.high_watermark = end
            logger.error(
                "committed_records_truncated", partition=self.topic_partition, records=lost
            )
        logger.info(
            "follower_truncated",
            partition=self.topic_partition,
            before=before,
            after=end,
            leader_epoch=diverging.leader_epoch,
            end_offset=diverging.end_offset,
        )

    def restart_log_at(self, offset: int) -> None:
        """Drop everything and begin again at ``offset``; the high watermark goes along
        (KAFKA-9491). It raises StorageError."""
        log = self.log
        if log.needs_refetch:
            self.repair.begins()
        start, end = log.log_start_offset, log.log_end_offset
        logger.warning(
            "follower_began_anew",
            partition=self.topic_partition,
            log_start_offset=start,
            log_end_offset=end,
            offset=offset,
        )
        log.truncate_fully_and_start_at(offset)
        self.repair.dropped()
        self.high_watermark = offset

    def __repr__(self) -> str:
        role = "leader" if self.leader is not None else f"follower of {self.leader_id}"
        return (
            f"<Partition {self.topic_partition} {role} epoch={self.leader_epoch}"
            f" hw={self.high_watermark} end={self.log.log_end_offset}>"
        )
