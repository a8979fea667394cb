"""Handlers call the group coordinator through this: requests in, answers by callback.

It finds the shard through the engine, and turns error codes of the engine into answers of the API.
Nothing here waits; callbacks come at once or later, each exactly once. Handlers check whether the
principal may, and whether topics exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from oncelog_broker.coordinator.group.members import Caller
from oncelog_broker.coordinator.group.pending import TxnOffsetsGuard
from oncelog_broker.coordinator.group.shard import GroupShard
from oncelog_broker.coordinator.result import Result
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    NO_ERROR,
    CoordinatorLoadInProgressError,
    InvalidCommitOffsetSizeError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages.groups import (
    DescribedGroup,
    GroupResult,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsResponse,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition

T = TypeVar("T")
R = TypeVar("R")


class Verified(Protocol):
    """It is told whether a partition is in a transaction."""

    def __call__(self, code: int, number: int = 0) -> None:
        """Take the error code, and the number of a transaction that ends by number."""
        ...


Verify = Callable[[TopicPartition, Verified], None]
"""It has the transaction coordinator add a partition to a transaction, and calls back once, with an
error code or 0."""


class GroupEngine(Protocol):
    """The group coordinator needs this of ``CoordinatorEngine[GroupShard]``."""

    @property
    def loading(self) -> bool:
        """Return whether some shard is being loaded."""
        ...

    def write(
        self,
        key: str,
        operation: Callable[[GroupShard], Result[T]],
        reply: Callable[[T | None, int], None],
    ) -> None:
        """See ``CoordinatorEngine.write``."""
        ...

    def write_partition(
        self,
        partition: int,
        operation: Callable[[GroupShard], Result[T]],
        reply: Callable[[T | None, int], None],
    ) -> None:
        """See ``CoordinatorEngine.write_partition``."""
        ...

    def read(
        self,
        key: str,
        operation: Callable[[GroupShard], T],
        reply: Callable[[T | None, int], None],
    ) -> None:
        """See ``CoordinatorEngine.read``."""
        ...

    def read_confirmed(
        self,
        key: str,
        operation: Callable[[GroupShard], T],
        reply: Callable[[T | None, int], None],
    ) -> None:
        """See ``CoordinatorEngine.read_confirmed``."""
        ...

    def all_shards(self, operation: Callable[[GroupShard], T]) -> list[T]:
        """See ``CoordinatorEngine.all_shards``."""
        ...

    def write_all(self, operation: Callable[[GroupShard], Result[T]]) -> None:
        """See ``CoordinatorEngine.write_all``."""
        ...


class GroupCoordinator:
    """It answers requests for all groups that this broker coordinates."""

    def __init__(self, engine: GroupEngine) -> None:
        self._engine = engine

    # ---- members

    def join(
        self,
        client_id: str,
        client_host: str,
        request: JoinGroupRequest,
        respond: Callable[[JoinGroupResponse], None],
    ) -> None:
        """Carry out JoinGroup of a client that calls itself ``client_id`` and comes from
        ``client_host``; both are remembered for people."""
        caller = Caller(respond)
        self._engine.write(
            request.group_id,
            lambda shard: shard.join(client_id, client_host, request, caller.answer),
            _reply(caller, lambda code: JoinGroupResponse(code, member_id=request.member_id)),
        )

    def sync(self, request: SyncGroupRequest, respond: Callable[[SyncGroupResponse], None]) -> None:
        """Carry out SyncGroup: a member's call waits until the leader has handed in the
        assignments."""
        caller = Caller(respond)
        self._engine.write(
            request.group_id,
            lambda shard: shard.sync(request, caller.answer),
            _reply(caller, SyncGroupResponse),
        )

    def heartbeat(
        self, request: HeartbeatRequest, respond: Callable[[HeartbeatResponse], None]
    ) -> None:
        """Carry out Heartbeat, which is also a sign of life."""
        self._engine.write(
            request.group_id,
            lambda shard: shard.heartbeat(request),
            _reply(Caller(respond), HeartbeatResponse),
        )

    def leave(
        self, request: LeaveGroupRequest, respond: Callable[[LeaveGroupResponse], None]
    ) -> None:
        """Carry out LeaveGroup; errors are reported per member."""
        self._engine.write(
            request.group_id,
            lambda shard: shard.leave(request),
            _reply(Caller(respond), LeaveGroupResponse),
        )

    # ---- offsets

    def commit(
        self, request: OffsetCommitRequest, respond: Callable[[OffsetCommitResponse], None]
    ) -> None:
        """Carry out OffsetCommit, of partitions that exist."""

        def refused(code: int) -> OffsetCommitResponse:
            if code != InvalidCommitOffsetSizeError.code:
                return OffsetCommitResponse(code)
            return OffsetCommitResponse(
                topics=[
                    OffsetCommitTopicResponse(
                        topic.topic,
                        [
                            OffsetCommitPartitionResponse(p.partition, code)
                            for p in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )

        self._engine.write(
            request.group_id, lambda shard: shard.commit(request), _reply(Caller(respond), refused)
        )

    def fetch_offsets(
        self, request: OffsetFetchRequest, respond: Callable[[OffsetFetchResponse], None]
    ) -> None:
        """Carry out OffsetFetch, and respond once what is told is committed.

        The answer never comes from the past where that may matter. A member that asks how its
        transaction has ended is in the generation that a deposed coordinator knows too. The
        generation is fence enough only for a caller that does not ask for stable offsets. That
        offsets are not stable yet is said without proof: the caller asks again.
        """
        reply = _reply(Caller(respond), OffsetFetchResponse)

        def fetch(shard: GroupShard) -> OffsetFetchResponse:
            return shard.fetch_offsets(request)

        def looked(value: OffsetFetchResponse | None, code: int) -> None:
            if value is None or _is_unstable(value):
                reply(value, code)
            else:
                self._engine.read_confirmed(request.group_id, fetch, reply)

        if not request.member_id:
            self._engine.read_confirmed(request.group_id, fetch, reply)
        else:
            told = looked if request.require_stable else reply
            self._engine.read(request.group_id, fetch, told)

    def delete_offsets(
        self, request: OffsetDeleteRequest, respond: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        """Carry out OffsetDelete: a topic's offsets go unless a member is subscribed to it."""
        self._engine.write(
            request.group_id,
            lambda shard: shard.delete_offsets(request),
            _reply(Caller(respond), OffsetDeleteResponse),
        )

    def topics_deleted(self, topics: Mapping[str, str]) -> None:
        """Drop the offsets of deleted topics, which are given by name with their ids. Every
        coordinator is asked, each for its groups."""
        if topics:
            self._engine.write_all(lambda shard: shard.forget_topics(topics))

    # ---- offsets in transactions

    def commit_in_txn(
        self,
        request: TxnOffsetCommitRequest,
        verify: Verify,
        respond: Callable[[TxnOffsetCommitResponse], None],
        *,
        by_number: bool = False,
    ) -> None:
        """Carry out TxnOffsetCommit, of partitions that exist. ``verify`` is asked once at most,
        when nothing of the transaction is pending here yet. ``by_number``: for a client whose
        transactions end by number."""
        reply = _reply(Caller(respond), TxnOffsetCommitResponse)

        def tried(value: TxnOffsetCommitResponse | TxnOffsetsGuard | None, code: int) -> None:
            if isinstance(value, TxnOffsetsGuard):
                guarded(value)
            else:
                reply(value, code)

        def guarded(guard: TxnOffsetsGuard) -> None:
            def done(value: TxnOffsetCommitResponse | TxnOffsetsGuard | None, code: int) -> None:
                guard.release()
                # With a guard there is never another one.
                reply(value if isinstance(value, TxnOffsetCommitResponse) else None, code)

            def verified(code: int, number: int = 0) -> None:
                if code != NO_ERROR:
                    done(None, code)
                    return
                self._engine.write(
                    request.group_id,
                    lambda shard: shard.commit_in_txn(request, guard, number, by_number=by_number),
                    done,
                )

            verify(TopicPartition(GROUP_TOPIC, guard.partition), verified)

        self._engine.write(
            request.group_id,
            lambda shard: shard.commit_in_txn(request, by_number=by_number),
            tried,
        )

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        callback: Callable[[int], None],
        *,
        number: int = NO_TXN_NUMBER,
    ) -> None:
        """Apply the marker of a transaction with offsets in this partition of the internal topic.
        ``callback`` gets 0 once the outcome is committed and in force, or an error code:
        INVALID_PRODUCER_EPOCH (late, a newer transaction is open), any other: ask again."""

        def reply(complete: bool | None, code: int) -> None:
            if code == NO_ERROR and not complete:
                self.end_transaction(
                    partition, producer_id, producer_epoch, commit, callback, number=number
                )
            else:
                callback(code)

        self._engine.write_partition(
            partition,
            lambda shard: shard.end_transaction(producer_id, producer_epoch, commit, number),
            reply,
        )

    def open_transactions(
        self, partition: int, respond: Callable[[list[DescribedProducer], int], None]
    ) -> None:
        """Respond with the producers that have offsets pending in a partition of the internal
        topic, and 0; or with an error code. Where their transactions begin has no meaning there: it
        is told as 0."""

        def reply(found: list[DescribedProducer] | None, code: int) -> None:
            respond(found or [], code)

        def look(shard: GroupShard) -> Result[list[DescribedProducer]]:
            return Result(
                (),
                [
                    DescribedProducer(pid, epoch, -1, last_ms, txn_start_offset=0)
                    for pid, epoch, last_ms in shard.transactions.open_transactions()
                ],
            )

        self._engine.write_partition(partition, look, reply)

    # ---- groups

    def list_groups(self, states: Collection[str]) -> ListGroupsResponse:
        """Return the groups of the shards that are loaded, in order of id."""
        groups: list[ListedGroup] = []
        for some in self._engine.all_shards(lambda shard: shard.list_groups(states)):
            groups += some
        groups.sort(key=lambda group: group.group_id)
        code = CoordinatorLoadInProgressError.code if self._engine.loading else NO_ERROR
        return ListGroupsResponse(code, groups)

    def describe(
        self,
        groups: Sequence[str],
        include_offsets: bool,
        respond: Callable[[list[DescribedGroup]], None],
    ) -> None:
        """Respond with one answer a group, in order; errors are reported per group."""
        gathered = _GatheredGroups(groups, respond)
        for index, group_id in enumerate(groups):

            def refused(code: int, group_id: str = group_id) -> DescribedGroup:
                return DescribedGroup(group_id, code, state="Dead")

            def describe(shard: GroupShard, group_id: str = group_id) -> DescribedGroup:
                return shard.describe(group_id, include_offsets)

            caller = Caller(gathered.slot(index))
            self._engine.read(group_id, describe, _reply(caller, refused))

    def delete(self, groups: Sequence[str], respond: Callable[[list[GroupResult]], None]) -> None:
        """Respond with one result a group, in order."""
        gathered = _GatheredGroups(groups, respond)
        for index, group_id in enumerate(groups):
            self._delete(group_id, gathered.slot(index))

    def _delete(self, group_id: str, respond: Callable[[GroupResult], None]) -> None:
        def reply(complete: bool | None, code: int) -> None:
            if code == NO_ERROR and not complete:
                self._delete(group_id, respond)
            else:
                respond(GroupResult(group_id, code))

        self._engine.write(group_id, lambda shard: shard.delete_group(group_id), reply)


def _is_unstable(response: OffsetFetchResponse) -> bool:
    unstable = UnstableOffsetCommitError.code
    return any(
        item.error_code == unstable for topic in response.topics for item in topic.partitions
    )


class _GatheredGroups:
    """It gathers answers about several groups that arrive one by one, and gives them together, in
    order."""

    def __init__(self, keys: Sequence[str], respond: Callable[[list[Any]], None]) -> None:
        self._answers: list[Any] = [None] * len(keys)
        self._missing = len(keys)
        self._respond = respond
        if not keys:
            respond([])

    def slot(self, index: int) -> Callable[[Any], None]:
        """Return the callback for the answer about this one."""

        def put(answer: Any) -> None:
            self._answers[index] = answer
            self._missing -= 1
            if not self._missing:
                self._respond(self._answers)

        return put


def _reply(caller: Caller[R], refused: Callable[[int], R]) -> Callable[[R | None, int], None]:
    """Return a reply that hands on the answer, or makes one of an error code."""

    def reply(value: R | None, code: int) -> None:
        if code != NO_ERROR:
            caller.answer(refused(code))
        elif value is not None:
            caller.answer(value)

    return reply
