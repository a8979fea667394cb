"""A shard holds the groups of one partition of ``__consumer_offsets``.

It has operations, and the replay of records. Operations answer requests and change nothing durable.
Only ``replay`` does, for records that were appended a moment ago as for those of years. An
operation that raises has changed nothing at all. Kafka's ``GroupCoordinatorShard`` is the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

from oncelog_broker.coordinator.group.classic_protocol import ClassicProtocol
from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.invariants import GroupInvariantError, check_generation
from oncelog_broker.coordinator.group.join_checks import check_group_id
from oncelog_broker.coordinator.group.members import Caller
from oncelog_broker.coordinator.group.offsets import (
    check_commit,
    check_fetch,
    check_offsets,
    check_txn_commit,
    expired,
    fetched,
    to_commit,
    to_pend,
)
from oncelog_broker.coordinator.group.pending import PendingOffsets, TxnOffsetsGuard, superseded
from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    OffsetFact,
    OffsetRecord,
    PendingFact,
    PendingOffset,
    decode_record,
    group_record,
    offset_record,
    pending_record,
)
from oncelog_broker.coordinator.group.rounds import Rounds
from oncelog_broker.coordinator.group.states import RULES, GroupState
from oncelog_broker.coordinator.group.timer_keys import EXPIRY_KEY
from oncelog_broker.coordinator.ports import Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, RecordFormatError, Result
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_protocol.errors import (
    NO_ERROR,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from oncelog_protocol.messages.groups import (
    NO_MEMBER,
    DescribedGroup,
    DescribedMember,
    DescribedOffset,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMemberResponse,
    ListedGroup,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

RECORDS_BYTES_MAX = 256 * 1024
"""One operation takes back so many bytes on its own account; the rest follows. One batch must hold
it."""

EXPIRY_OFFSETS_COUNT = 20_000
"""So many offsets are looked at in one go; others have their turn then."""

DROP_AGAIN_S = 1.0
"""Offsets of deleted topics whose tombstones were refused are dropped again after this pause."""

_Dropped = tuple[str, TopicPartition, int | None, OffsetRecord | PendingOffset]
"""It names what to drop of a group: an offset that is committed, or pending for a producer, if it
is still that."""


class GroupShard:
    """It keeps groups by id and carries out operations on them.

    :param timers: as the engine's: what is due runs as an operation of this shard.
    :param entropy: one stream for all shards of a broker, so that no member id comes twice.
    :param on_broken: told of an invariant that did not hold.
    :param deleted_ids: of topics that were deleted, as far as is known; it may grow.
    """

    def __init__(
        self,
        partition: int,
        timers: Timers,
        *,
        config: GroupConfig,
        clock: CautiousClock,
        entropy: Entropy,
        safeguards: CoordinatorSafeguards = SAFE,
        on_broken: Callable[[GroupInvariantError], None] | None = None,
        deleted_ids: Collection[str] = (),
    ) -> None:
        self.partition = partition
        self._deleted_ids = deleted_ids
        self._on_broken = on_broken
        self.groups: dict[str, Group] = {}
        self.transactions = PendingOffsets(partition)
        self._timers = timers
        self._config = config
        self._clock = clock
        self._safeguards = safeguards
        self._is_loaded = False
        self._unsaved: dict[str, None] = {}
        """Nothing of these groups is durable yet."""
        self._names: dict[str, str] = {}
        """Topic names are kept once in memory, however many offsets they have."""
        self._to_expire: list[str] = []
        """This round of expiry has yet to look at these groups."""
        self._drops = 0
        self.broken: GroupInvariantError | None = None
        """It is the last invariant that did not hold; None is what it should be."""
        self._rounds = Rounds(
            timers=timers,
            config=config,
            clock=clock,
            safeguards=safeguards,
            on_change=self._forget_if_nothing,
            on_broken=self._begin_anew,
        )
        self._protocol = ClassicProtocol(self._rounds, config=config, clock=clock, entropy=entropy)

    # ---- durable state

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in one record. An unreadable one was not written by a coordinator: it is left alone,
        for the groups of a partition must not all hang on it."""
        try:
            fact = decode_record(record)
        except RecordFormatError as error:
            logger.error("group_record_unreadable", shard=self.partition, error=error)
            return
        if isinstance(fact, OffsetFact):
            self._replay_offset(fact)
        elif isinstance(fact, GroupFact):
            self._replay_group(fact)
        elif isinstance(fact, PendingFact):
            self._replay_pending(fact)
        elif isinstance(fact, DepartedFact):
            self._replay_departed(fact)
        else:
            logger.warning("group_record_of_newer_release", key=record.key[:64])

    def _replay_offset(self, fact: OffsetFact) -> None:
        group_id, tp, committed = fact
        group = self.groups.get(group_id)
        if committed is not None:
            if group is None or group_id in self._unsaved:
                group = self._durable(group_id)
            if tp not in group.offsets:
                tp = TopicPartition(self._names.setdefault(tp.topic, tp.topic), tp.partition)
            group.offsets[tp] = committed
        elif group is not None:
            group.offsets.pop(tp, None)
            self._forget_if_nothing(group)

    def _replay_pending(self, fact: PendingFact) -> None:
        group_id, tp, producer_id, pending = fact
        if pending is not None:
            group = self._durable(group_id)
            tp = TopicPartition(self._names.setdefault(tp.topic, tp.topic), tp.partition)
            self.transactions.put(group, tp, producer_id, pending)
        elif group_id in self.groups:
            group = self.groups[group_id]
            self.transactions.take(group, tp, producer_id)
            self._forget_if_nothing(group)

    def _replay_group(self, fact: GroupFact) -> None:
        if fact.saved is not None:
            group = self._durable(fact.group)
            if self._is_loaded:
                check_generation(group.saved, fact.saved)
            group.replay(fact.saved)
            return
        known = self.groups.get(fact.group)
        if known is not None:
            known.replay_deletion(is_loaded=self._is_loaded)
            self._forget_if_nothing(known)

    def _replay_departed(self, fact: DepartedFact) -> None:
        known = self.groups.get(fact.group)
        if fact.generation is not None:
            known = self._durable(fact.group)
        if known is not None:
            known.departures.replay(fact.member_id, fact.generation)
            self._forget_if_nothing(known)

    def _durable(self, group_id: str) -> Group:
        """Return the group, which has or gets something durable."""
        self._unsaved.pop(group_id, None)
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._clock.now_ms())
        return group

    def _forget_if_nothing(self, group: Group) -> None:
        if group.is_nothing and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._unsaved.pop(group.group_id, None)
            self._rounds.end(group, UnknownMemberIdError.code)

    def _begin_anew(self, group: Group, error: GroupInvariantError) -> None:
        """Go on from what is durable, since what memory says of a group cannot be: a defect."""
        logger.critical("group_invariant_broken", shard=self.partition, error=error)
        self.broken = error
        if self._on_broken is not None:
            self._on_broken(error)
        self._rounds.end(group, CoordinatorNotAvailableError.code)
        anew = group.anew(self._clock.now_ms())
        self.groups[group.group_id] = anew
        self._rounds.loaded(anew)

    def loaded(self, now_s: float) -> Sequence[Result[None]] | None:
        """Build memory from what is durable; sessions begin anew. Commits to topics that are known
        to be deleted are dropped."""
        self._is_loaded = True
        for group in self.groups.values():
            self._rounds.loaded(group)
        self._set_expiry()
        if not self._deleted_ids:
            return None
        # Their topics were deleted before this shard could hear of it.
        left = self._offsets_of(lambda _, topic_id: topic_id in self._deleted_ids)
        return [self._drop(left)]

    def unload(self, error_code: int) -> None:
        """Forget all groups, since nothing of this shard is coordinated here any more."""
        self.transactions.void_guards()
        groups, self.groups = self.groups, {}
        for group in groups.values():
            self._rounds.end(group, error_code)

    # ---- members

    def join(
        self,
        client_id: str,
        client_host: str,
        request: JoinGroupRequest,
        respond: Callable[[JoinGroupResponse], None],
    ) -> Result[JoinGroupResponse]:
        """Carry out JoinGroup. The answer is in the result, or is given to ``respond`` later.

        :raises ApiError: those of ``JoinGroupResponse``.
        """
        check_group_id(request.group_id)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER:
                raise UnknownMemberIdError("there is no such group")
            if len(self._unsaved) >= self._config.group_unsaved_max:
                raise CoordinatorNotAvailableError("too many groups are being made")
            group = Group(request.group_id, self._clock.now_ms())
        result = self._protocol.join(group, client_id, client_host, request, Caller(respond))
        if group.group_id not in self.groups:
            self.groups[group.group_id] = group
            self._unsaved[group.group_id] = None
        return result

    def sync(
        self, request: SyncGroupRequest, respond: Callable[[SyncGroupResponse], None]
    ) -> Result[SyncGroupResponse]:
        """Carry out SyncGroup. The answer is in the result, or is given to ``respond`` later.

        :raises ApiError: those of ``SyncGroupResponse``.
        """
        return self._protocol.sync(self._joined_group(request.group_id), request, Caller(respond))

    def heartbeat(self, request: HeartbeatRequest) -> Result[HeartbeatResponse]:
        """Carry out Heartbeat; raise the ApiErrors of ``HeartbeatResponse``."""
        group = self._joined_group(request.group_id)
        return Result(reply=self._protocol.heartbeat(group, request))

    def leave(self, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """Carry out LeaveGroup; errors are reported per member."""
        check_group_id(request.group_id)
        group = self.groups.get(request.group_id)
        if group is not None:
            return self._protocol.leave(group, request)
        code = UnknownMemberIdError.code
        nobody = [
            LeavingMemberResponse(leaving.member_id, leaving.group_instance_id, code)
            for leaving in request.members
        ]
        return Result(reply=LeaveGroupResponse(members=nobody))

    def _joined_group(self, group_id: str) -> Group:
        check_group_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberIdError("there is no such group")
        return group

    # ---- offsets

    def commit(self, request: OffsetCommitRequest) -> Result[OffsetCommitResponse]:
        """Carry out OffsetCommit; errors are reported per partition.

        :raises ApiError: the whole-request errors of ``OffsetCommitResponse``.
        """
        check_group_id(request.group_id)
        check_offsets(request)
        group = self.groups.get(request.group_id)
        member = self._safeguards.sender(check_commit, group, request)
        if group is not None and member is not None:
            self._protocol.sign_of_life(group, member)
        longest = self._config.offset_metadata_max_bytes
        return Result(*to_commit(group, request, self._clock.now_ms(), longest))

    def commit_in_txn(
        self,
        request: TxnOffsetCommitRequest,
        guard: TxnOffsetsGuard | None = None,
        number: int = 0,
        *,
        by_number: bool = False,
    ) -> Result[TxnOffsetCommitResponse | TxnOffsetsGuard]:
        """Carry out TxnOffsetCommit. A guard as reply means that nothing was done: have the
        partition added to the transaction and ask again with the guard, and with the number of the
        transaction, if it ends by number. ``by_number``: it is asked by a client whose
        transactions end so.

        :raises ApiError: the whole-request errors of ``TxnOffsetCommitResponse``.
        """
        check_group_id(request.group_id)
        check_offsets(request)
        group = self.groups.get(request.group_id)
        check = partial(check_txn_commit, by_number=by_number)
        member = self._safeguards.sender(check, group, request)
        if group is not None and member is not None:
            self._protocol.sign_of_life(group, member)
        producer_id, epoch = request.producer_id, request.producer_epoch
        self.transactions.check_epoch(producer_id, epoch)
        longest = self._config.offset_metadata_max_bytes
        known = self.transactions.number(producer_id, epoch)
        records, response = to_pend(request, self._clock.now_ms(), longest, known or number)
        if records and self.transactions.needs_guard(producer_id, epoch):
            if guard is None:
                return Result((), self.transactions.take_guard(producer_id))
            if not guard.valid:
                raise ConcurrentTransactionsError("a transaction of the producer has ended")
        return Result(records, response)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, commit: bool, number: int = NO_TXN_NUMBER
    ) -> Result[bool]:
        """Carry out WriteTxnMarkers: offsets of transactions with older epochs become the groups',
        or are dropped. The reply False means that there is more than one batch holds: call again.

        :raises InvalidProducerEpochError: only a newer transaction of the producer is open here.
        """
        epoch = producer_epoch if number >= 0 else self._safeguards.marker_epoch(producer_epoch)
        records, complete = self.transactions.end(
            self.groups, producer_id, epoch, commit, self._clock.now_ms(), number
        )
        return Result(records, complete)

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Carry out OffsetFetch on what is in memory now.

        :raises ApiError: the whole-request errors of ``OffsetFetchResponse``.
        """
        check_group_id(request.group_id)
        group = self.groups.get(request.group_id)
        check_fetch(group, request)
        stable = self._safeguards.stable(request.require_stable)
        return OffsetFetchResponse(topics=fetched(group, request, stable))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """Carry out OffsetDelete (KIP-496).

        :raises GroupIdNotFoundError, NonEmptyGroupError: see ``OffsetDeleteResponse``.
        """
        group = self._existing_group(request.group_id)
        if group.members and not group.uses_consumer_protocol:
            raise NonEmptyGroupError("members of an unknown protocol may read any topic")
        records = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            answers = []
            subscribed = group.is_subscribed(topic.topic)
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic, partition)
                code = NO_ERROR
                if subscribed:
                    code = GroupSubscribedToTopicError.code
                elif tp not in group.offsets and tp not in group.pending_offsets:
                    code = UnknownTopicOrPartitionError.code
                else:
                    records.append(offset_record(group.group_id, tp, None))
                    records += superseded(group, tp)
                answers.append(OffsetDeletePartitionResponse(partition, code))
            response.topics.append(OffsetDeleteTopicResponse(topic.topic, answers))
        return Result(records, response)

    def forget_topics(self, topics: Mapping[str, str]) -> Result[None]:
        """Drop all offsets of topics that were deleted, by name with their ids. It goes on by
        itself with what one batch does not hold, and after a refused append; commits to a new topic
        of that name stay."""
        return self._drop(
            self._offsets_of(
                lambda tp, topic_id: tp.topic in topics and topic_id in ("", topics[tp.topic])
            )
        )

    def _offsets_of(self, is_gone: Callable[[TopicPartition, str], bool]) -> list[_Dropped]:
        found: list[_Dropped] = []
        for group in self.groups.values():
            for tp, committed in group.offsets.items():
                if is_gone(tp, committed.topic_id):
                    found.append((group.group_id, tp, None, committed))
            for tp, by_producer in group.pending_offsets.items():
                for producer_id, item in by_producer.items():
                    if is_gone(tp, item.topic_id):
                        found.append((group.group_id, tp, producer_id, item))
        return found

    def _drop(self, left: list[_Dropped]) -> Result[None]:
        records: list[CoordinatorRecord] = []
        size = done = 0
        for group_id, tp, producer_id, item in left:
            group = self.groups.get(group_id)
            done += 1
            if group is None:
                continue
            if producer_id is None:
                now: object = group.offsets.get(tp)
                record = offset_record(group_id, tp, None)
            else:
                now = group.pending_offsets.get(tp, {}).get(producer_id)
                record = pending_record(group_id, tp, producer_id, None)
            if now is not item:
                continue
            records.append(record)
            size += len(record.key)
            if size > RECORDS_BYTES_MAX:
                break
        rest = left[done:]
        self._drops += 1
        key = f"drop {self._drops}"

        def go_on() -> None:
            if rest:
                self._timers.soon(partial(self._drop, rest))

        def again(_code: int) -> None:
            self._timers.set(key, DROP_AGAIN_S, partial(self._drop, left))

        return Result(records, None, go_on, again)

    # ---- groups as a whole

    def describe(self, group_id: str, include_offsets: bool) -> DescribedGroup:
        """Describe one group for DescribeGroups; ends and lag are for others to fill in.

        :raises InvalidGroupIdError, GroupIdNotFoundError: there is none.
        """
        group = self._existing_group(group_id)
        stable = group.state is GroupState.STABLE
        described = DescribedGroup(
            group_id,
            state=group.state.value,
            generation_id=group.generation,
            protocol_type=group.protocol_type or "",
            protocol_name=(group.protocol_name or "") if stable else "",
            leader=group.leader or "",
            members=[
                DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    # Before everybody has its assignment, what one offered says little.
                    member.offer.metadata(group.protocol_name) if stable else b"",
                    member.assignment if stable else b"",
                )
                for member in group.members.values()
            ],
        )
        if include_offsets:
            described.offsets = [
                DescribedOffset(*tp, c.offset, c.leader_epoch, c.metadata, c.commit_timestamp_ms)
                for tp, c in sorted(group.offsets.items())
            ]
        return described

    def list_groups(self, states: Collection[str]) -> list[ListedGroup]:
        """List the groups that are in one of these states; no states means any."""
        return [
            ListedGroup(
                group.group_id, group.protocol_type or "", group.state.value, len(group.members)
            )
            for group in self.groups.values()
            if not states or group.state.value in states
        ]

    def delete_group(self, group_id: str) -> Result[bool]:
        """Forget a group without members. The reply False means that there is more to forget than
        one batch holds: call again.

        :raises InvalidGroupIdError, GroupIdNotFoundError, NonEmptyGroupError: nothing was done.
        """
        group = self._existing_group(group_id)
        code = RULES[group.state].delete
        if code != NO_ERROR:
            raise error_for(code)
        pending = [record for tp in group.pending_offsets for record in superseded(group, tp)]
        records, complete = self._removal(group, list(group.offsets), True, pending)
        if complete:
            # A client that was handed an id in it starts over.
            group.pending.clear()
            self._forget_if_nothing(group)
        return Result(records, complete)

    def _existing_group(self, group_id: str) -> Group:
        check_group_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        return group

    @staticmethod
    def _removal(
        group: Group,
        offsets: Sequence[TopicPartition],
        ends: bool,
        pending: Sequence[CoordinatorRecord] = (),
    ) -> tuple[list[CoordinatorRecord], bool]:
        """Return the tombstones of these offsets, those of ``pending`` ones, and of a group that
        ``ends`` if the offsets are its last, with its departures. The second value tells whether
        that is all, or more than one batch should hold."""
        records = list[CoordinatorRecord]()
        size = 0
        ends = ends and len(offsets) == len(group.offsets)
        gone = (offset_record(group.group_id, tp, None) for tp in offsets)
        departed = group.departures.tombstones() if ends else iter(())
        for record in chain(pending, gone, departed):
            if size > RECORDS_BYTES_MAX:
                return records, False
            records.append(record)
            size += len(record.key)
        if ends and group.saved is not None:
            records.append(group_record(group.group_id, None))
        return records, True

    # ---- expiry

    def _set_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set(EXPIRY_KEY, interval_ms / 1000, self._expire)

    def _expire(self) -> Result[None]:
        """Drop what is too old: offsets, then groups that have neither members nor offsets."""
        if not self._to_expire:
            self._to_expire = list(reversed(self.groups))
        now_ms, retention_ms = self._clock.expiry_ms(), self._config.offsets_retention_ms
        records: list[CoordinatorRecord] = []
        size = looked_at = 0
        while self._to_expire and size < RECORDS_BYTES_MAX and looked_at < EXPIRY_OFFSETS_COUNT:
            group = self.groups.get(self._to_expire.pop())
            if group is None:
                continue
            looked_at += 1 + len(group.offsets)
            old = list(expired(group, now_ms, retention_ms))
            ends = not (
                group.state is not GroupState.EMPTY or group.pending or group.pending_offsets
            )
            if not old and (group.offsets or not ends):
                continue
            gone, complete = self._removal(group, old, ends)
            if not complete:
                self._to_expire.append(group.group_id)
            size += sum(len(record.key) for record in gone)
            records += gone
        self._set_expiry()
        if records:
            logger.info("group_offsets_expired", shard=self.partition, count=len(records))
        return Result(records, on_committed=self._expire_more)

    def _expire_more(self) -> None:
        if self._to_expire:
            self._timers.soon(self._expire)
