"""The fake cluster has groups and transactions as an administrator meets them: members, states and
producers are put there by the test, and each group and transactional id has a coordinator of its
own, which alone answers for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.acls import AclBinding
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidGroupIdError,
    InvalidTxnStateError,
    NonEmptyGroupError,
    NotControllerError,
    NotCoordinatorError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages import acls, transaction_admin, transactions
from oncelog_protocol.messages import groups as wire
from oncelog_protocol.messages.shared_transactions import (
    EndSharedTxnRequest,
    EndSharedTxnResponse,
)
from oncelog_protocol.types import TopicPartition
from support.fake_cluster import FakeCluster
from support.fake_handlers import Handlers

__all__ = ["AdminCluster", "KnownGroup", "KnownTransaction"]


@dataclass
class KnownGroup:
    """A group has a ``coordinator``; -1: there is none at the moment."""

    coordinator: int
    offsets: dict[TopicPartition, wire.OffsetCommitPartition] = field(default_factory=dict)
    members: list[wire.DescribedMember] = field(default_factory=list)
    subscribed: list[str] = field(default_factory=list)
    unstable: int = 0
    """So many questions for stable offsets are answered: not yet."""

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"


@dataclass
class KnownTransaction:
    """A transactional id has a ``coordinator``; -1: there is none at the moment."""

    coordinator: int
    described: transaction_admin.DescribedTransaction
    fenced_count: int = 0

    @property
    def producer_ids(self) -> list[int]:
        return [self.described.producer_id, *(w.producer_id for w in self.described.writers)]

    def end(self) -> None:
        """It is aborted."""
        self.described.state = "CompleteAbort"
        self.described.topics = []
        self.described.start_ms = -1


class AdminCluster(FakeCluster):
    """Its groups are in ``known_groups``, its transactional ids in ``known_transactions``, its
    producers in ``producers``, and its ACLs in ``acls``."""

    def __init__(self, broker_count: int = 1) -> None:
        super().__init__(broker_count)
        self.known_groups: dict[str, KnownGroup] = {}
        self.known_transactions: dict[str, KnownTransaction] = {}
        self.producers: dict[TopicPartition, list[transaction_admin.DescribedProducer]] = {}
        self.producers_page = 1000
        """How many are told at once."""
        self.acls: dict[AclBinding, None] = {}
        self.loading: dict[int, int] = {}
        """Broker to the error code that goes with its lists."""
        for broker_id, broker in self.brokers.items():
            broker._handlers = AdminHandlers(self, broker_id)

    async def __aenter__(self) -> AdminCluster:
        await super().__aenter__()
        return self

    def coordinator_of(self, group: str) -> int:
        """Return the broker that coordinates a group, known or not, or -1."""
        known = self.known_groups.get(group)
        ids = list(self.brokers)
        return ids[len(group) % len(ids)] if known is None else known.coordinator

    def transaction_coordinator_of(self, name: str) -> int:
        """Return the broker that coordinates a transactional id, known or not, or -1."""
        known = self.known_transactions.get(name)
        ids = list(self.brokers)
        return ids[len(name) % len(ids)] if known is None else known.coordinator

    def end_transactions_of(self, producer_ids: list[int]) -> None:
        """No partition has an open transaction of theirs any more."""
        for producers in self.producers.values():
            for producer in producers:
                if producer.producer_id in producer_ids:
                    producer.txn_start_offset = -1


class AdminHandlers(Handlers):
    """Each API has one method."""

    _cluster: AdminCluster

    def _group(self, name: str, *, create: bool = False) -> KnownGroup:
        """Return a group that this broker coordinates."""
        groups = self._cluster.known_groups
        if not name:
            raise InvalidGroupIdError
        if self._cluster.coordinator_of(name) != self._broker_id:
            raise NotCoordinatorError
        if name not in groups:
            if not create:
                raise GroupIdNotFoundError
            groups[name] = KnownGroup(self._broker_id)
        return groups[name]

    def _find_coordinator(self, request: wire.FindCoordinatorRequest) -> Any:
        if not request.key:
            return wire.FindCoordinatorResponse(InvalidGroupIdError.code)
        if request.key_type == wire.COORDINATOR_TRANSACTION:
            broker_id = self._cluster.transaction_coordinator_of(request.key)
        else:
            broker_id = self._cluster.coordinator_of(request.key)
        if broker_id < 0:
            return wire.FindCoordinatorResponse(CoordinatorNotAvailableError.code, "none now")
        return wire.FindCoordinatorResponse(0, None, broker_id, "127.0.0.1", 1)

    def _list_groups(self, request: wire.ListGroupsRequest) -> Any:
        listed = [
            wire.ListedGroup(name, "consumer", group.state, len(group.members))
            for name, group in self._cluster.known_groups.items()
            if group.coordinator == self._broker_id
            and (not request.states or group.state in request.states)
        ]
        return wire.ListGroupsResponse(self._cluster.loading.get(self._broker_id, 0), listed)

    def _describe_groups(self, request: wire.DescribeGroupsRequest) -> Any:
        described = []
        for name in request.groups:
            try:
                described.append(self._describe_group(name, request.include_offsets))
            except ApiError as error:
                described.append(wire.DescribedGroup(name, error.code))
        return wire.DescribeGroupsResponse(0, described)

    def _describe_group(self, name: str, include_offsets: bool) -> wire.DescribedGroup:
        group = self._group(name)
        offsets = []
        for tp, item in group.offsets.items() if include_offsets else ():
            log = self._cluster.partition(*tp) if tp.topic in self._cluster.topics else None
            known = (-1, -1, -1)
            if log is not None and log.leader >= 0:
                known = (log.log_start_offset, log.next_offset, log.next_offset - item.offset)
            offsets.append(
                wire.DescribedOffset(*tp, item.offset, -1, item.metadata or "", 1000, *known)
            )
        return wire.DescribedGroup(
            name, 0, None, group.state, 3, "consumer", "range", "m1", group.members, offsets
        )

    def _delete_groups(self, request: wire.DeleteGroupsRequest) -> Any:
        results = []
        for name in request.groups:
            try:
                if self._group(name).members:
                    raise NonEmptyGroupError
                del self._cluster.known_groups[name]
                results.append(wire.GroupResult(name))
            except ApiError as error:
                results.append(wire.GroupResult(name, error.code))
        return wire.DeleteGroupsResponse(0, results)

    def _leave_group(self, request: wire.LeaveGroupRequest) -> Any:
        try:
            group = self._group(request.group_id)
        except ApiError as error:
            return wire.LeaveGroupResponse(error.code)
        answers = []
        for leaving in request.members:
            gone = [
                m
                for m in group.members
                if m.member_id == leaving.member_id
                or (not leaving.member_id and m.group_instance_id == leaving.group_instance_id)
            ]
            group.members = [m for m in group.members if m not in gone]
            code = 0 if gone else UnknownMemberIdError.code
            answers.append(
                wire.LeavingMemberResponse(leaving.member_id, leaving.group_instance_id, code)
            )
        return wire.LeaveGroupResponse(0, None, answers)

    def _offset_commit(self, request: wire.OffsetCommitRequest) -> Any:
        response = wire.OffsetCommitResponse()
        try:
            group = self._group(request.group_id, create=True)
            if group.members and request.member_id == wire.NO_MEMBER:
                raise UnknownMemberIdError
        except ApiError as error:
            return wire.OffsetCommitResponse(error.code)
        for topic in request.topics:
            answers = []
            for item in topic.partitions:
                known = topic.topic in self._cluster.topics
                code = 0 if known else UnknownTopicOrPartitionError.code
                if known:
                    group.offsets[TopicPartition(topic.topic, item.partition)] = item
                answers.append(wire.OffsetCommitPartitionResponse(item.partition, code))
            response.topics.append(wire.OffsetCommitTopicResponse(topic.topic, answers))
        return response

    def _offset_fetch(self, request: wire.OffsetFetchRequest) -> Any:
        try:
            group = self._group(request.group_id)
        except GroupIdNotFoundError:
            group = KnownGroup(self._broker_id)
        except ApiError as error:
            return wire.OffsetFetchResponse(error.code)
        wanted = (
            list(group.offsets)
            if request.topics is None
            else [TopicPartition(t.topic, p) for t in request.topics for p in t.partitions]
        )
        code = 0
        if request.require_stable and group.unstable:
            group.unstable -= 1
            code = UnstableOffsetCommitError.code
        response = wire.OffsetFetchResponse()
        for tp in wanted:
            item = group.offsets.get(tp)
            answer = wire.OffsetFetchPartitionResponse(tp.partition, error_code=code)
            if item is not None:
                answer.offset, answer.leader_epoch = item.offset, item.leader_epoch
                answer.metadata, answer.commit_timestamp = item.metadata, 1000
            response.topics.append(wire.OffsetFetchTopicResponse(tp.topic, [answer]))
        return response

    def _offset_delete(self, request: wire.OffsetDeleteRequest) -> Any:
        response = wire.OffsetDeleteResponse()
        try:
            group = self._group(request.group_id)
        except ApiError as error:
            return wire.OffsetDeleteResponse(error.code)
        for topic in request.topics:
            answers = []
            for number in topic.partitions:
                code = 0
                if topic.topic in group.subscribed:
                    code = GroupSubscribedToTopicError.code
                elif group.offsets.pop(TopicPartition(topic.topic, number), None) is None:
                    code = UnknownTopicOrPartitionError.code
                answers.append(wire.OffsetDeletePartitionResponse(number, code))
            response.topics.append(wire.OffsetDeleteTopicResponse(topic.topic, answers))
        return response

    # ---- ACLs

    def _refused(self, response: Any) -> Any:
        """Return the answer to a request about ACLs that is refused, else None."""
        if self._cluster.controller_id == self._broker_id:
            return None
        return response(NotControllerError.code)

    def _create_acls(self, request: acls.CreateAclsRequest) -> Any:
        refused = self._refused(acls.CreateAclsResponse)
        if refused is not None:
            return refused
        results = []
        for wish in request.entries:
            try:
                entry = wish.checked()
            except ApiError as error:
                results.append(acls.CreatedAcl(error.code, str(error)))
                continue
            if not request.validate_only:
                self._cluster.acls[entry] = None
            results.append(acls.CreatedAcl())
        return acls.CreateAclsResponse(results=results)

    def _delete_acls(self, request: acls.DeleteAclsRequest) -> Any:
        refused = self._refused(acls.DeleteAclsResponse)
        if refused is not None:
            return refused
        results, left = [], dict(self._cluster.acls)
        for wish in request.filters:
            try:
                wanted = wish.checked()
            except ApiError as error:
                results.append(acls.DeletedAcls(error.code, str(error)))
                continue
            chosen = [entry for entry in left if wanted.matches(entry)]
            left = {entry: None for entry in left if entry not in chosen}
            results.append(acls.DeletedAcls(entries=chosen))
        if not request.validate_only:
            self._cluster.acls = left
        return acls.DeleteAclsResponse(results=results)

    def _describe_acls(self, request: acls.DescribeAclsRequest) -> Any:
        refused = self._refused(acls.DescribeAclsResponse)
        if refused is not None:
            return refused
        try:
            wanted = request.wanted.checked()
        except ApiError as error:
            return acls.DescribeAclsResponse(error.code, str(error))
        entries = [entry for entry in self._cluster.acls if wanted.matches(entry)]
        return acls.DescribeAclsResponse(entries=entries)

    # ---- transactions

    def _transaction(self, name: str) -> KnownTransaction:
        """Return one that this broker coordinates."""
        if self._cluster.transaction_coordinator_of(name) != self._broker_id:
            raise NotCoordinatorError
        if name not in self._cluster.known_transactions:
            raise TransactionalIdNotFoundError
        return self._cluster.known_transactions[name]

    def _list_transactions(self, request: transaction_admin.ListTransactionsRequest) -> Any:
        listed = []
        for name, known in self._cluster.known_transactions.items():
            item = known.described
            if (
                known.coordinator == self._broker_id
                and (not request.states or item.state in request.states)
                and (
                    not request.producer_ids
                    or any(pid in request.producer_ids for pid in known.producer_ids)
                )
                and (request.older_than_ms < 0 or 0 <= item.start_ms <= request.older_than_ms)
            ):
                listed.append(
                    transaction_admin.ListedTransaction(
                        name, item.producer_id, item.state, item.shared
                    )
                )
        code = self._cluster.loading.get(self._broker_id, 0)
        return transaction_admin.ListTransactionsResponse(code, listed)

    def _describe_transactions(self, request: transaction_admin.DescribeTransactionsRequest) -> Any:
        described = []
        for name in request.transactional_ids:
            try:
                described.append(self._transaction(name).described)
            except ApiError as error:
                described.append(transaction_admin.DescribedTransaction(error.code, name))
        return transaction_admin.DescribeTransactionsResponse(0, described)

    def _describe_producers(self, request: transaction_admin.DescribeProducersRequest) -> Any:
        response = transaction_admin.DescribeProducersResponse()
        for topic in request.topics:
            answers = []
            for number in topic.partitions:
                answer = transaction_admin.DescribeProducersPartition(number)
                try:
                    self._led(topic.topic, number)
                    tp = TopicPartition(topic.topic, number)
                    known = self._cluster.producers.get(tp, [])
                    later = [p for p in known if p.producer_id > request.after_producer_id]
                    answer.producers = later[: self._cluster.producers_page]
                    answer.more = len(later) > len(answer.producers)
                except ApiError as error:
                    answer.error_code = error.code
                answers.append(answer)
            response.topics.append(transaction_admin.DescribeProducersTopic(topic.topic, answers))
        return response

    def _abort_transaction(self, request: transaction_admin.AbortTransactionRequest) -> Any:
        try:
            self._led(request.topic, request.partition)
            tp = TopicPartition(request.topic, request.partition)
            for producer in self._cluster.producers.get(tp, []):
                if (producer.producer_id, producer.producer_epoch) == (
                    request.producer_id,
                    request.producer_epoch,
                ) and producer.txn_start_offset >= 0:
                    producer.txn_start_offset = -1
                    return transaction_admin.AbortTransactionResponse()
            raise InvalidTxnStateError
        except ApiError as error:
            return transaction_admin.AbortTransactionResponse(error.code)

    def _init_pid(self, request: transactions.InitPidRequest) -> Any:
        if request.transactional_id is None:
            return super()._init_pid(request)
        try:
            known = self._transaction(request.transactional_id)
            if known.described.shared:
                raise InvalidTxnStateError
        except ApiError as error:
            return transactions.InitPidResponse(error.code)
        known.end()
        known.fenced_count += 1
        known.described.producer_epoch += 1
        self._cluster.end_transactions_of(known.producer_ids)
        item = known.described
        return transactions.InitPidResponse(0, None, item.producer_id, item.producer_epoch)

    def _end_shared_txn(self, request: EndSharedTxnRequest) -> Any:
        try:
            known = self._transaction(request.transactional_id)
        except ApiError as error:
            return EndSharedTxnResponse(error.code)
        item = known.described
        if (request.ordinal, request.tag) != (item.ordinal, item.tag) or request.commit:
            return EndSharedTxnResponse(InvalidTxnStateError.code)
        self._cluster.end_transactions_of(known.producer_ids)
        known.end()
        return EndSharedTxnResponse()
