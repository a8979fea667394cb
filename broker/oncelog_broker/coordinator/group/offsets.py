"""A group's offsets are checked, committed, fetched and expired here. Pure.

Offsets expire as in KIP-211: those of an empty group ``offsets_retention_ms`` after it became
empty, those of a simple group (that nobody joins) after their last commit, those of a living group
only if it is stable and nobody in it is subscribed to the topic. None expires sooner than that
after its last commit, or while an open transaction has one for the same partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.members import Member
from oncelog_broker.coordinator.group.pending import superseded
from oncelog_broker.coordinator.group.records import (
    OffsetRecord,
    PendingOffset,
    offset_record,
    pending_record,
)
from oncelog_broker.coordinator.group.states import RULES, GroupState
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_protocol.errors import (
    NO_ERROR,
    IllegalGenerationError,
    InvalidRequestError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
    error_for,
)
from oncelog_protocol.messages.groups import (
    NO_MEMBER,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchTopicResponse,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopicResponse,
)
from oncelog_protocol.types import TopicPartition


def check_commit(group: Group | None, request: OffsetCommitRequest) -> Member | None:
    """Return who commits: a member, or None for somebody outside.

    :raises ApiError: the whole-request errors of ``OffsetCommitResponse``.
    """
    member = _committer(group, request)
    if group is not None and member is not None:
        _refuse(RULES[group.state].commit)
    return member


def check_txn_commit(
    group: Group | None, request: TxnOffsetCommitRequest, *, by_number: bool = False
) -> Member | None:
    """Check as :func:`check_commit` does, but let a member commit while its generation is being
    assigned: whoever is assigned its partitions waits for the end of the transaction (KIP-447).

    :param by_number: it is from a client whose transactions end by number. Such a one may name no
        member: before KIP-447 nobody could, and Kafka takes that from a member of a group.
    :raises ApiError: the whole-request errors of ``TxnOffsetCommitResponse``.
    """
    if not request.transactional_id or request.producer_id < 0 or request.producer_epoch < 0:
        raise InvalidRequestError("a transaction has an id, a producer and an epoch")
    return _committer(group, request, may_be_nameless=by_number)


def _committer(
    group: Group | None,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    may_be_nameless: bool = False,
) -> Member | None:
    outside = (
        request.generation_id < 0
        and request.member_id == NO_MEMBER
        and request.group_instance_id is None
    )
    if group is None:
        if outside:
            return None
        # It has forgotten the group, or never heard of it: the member must join again.
        raise IllegalGenerationError("there is no such group")
    if outside:
        if not (may_be_nameless and group.members):
            _refuse(RULES[group.state].outside_commit)
        return None
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    return member


def check_offsets(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
    """Check that every offset and partition is one that a record can have.

    :raises InvalidRequestError: an offset that no record can have.
    """
    for topic in request.topics:
        for item in topic.partitions:
            if item.offset < 0 or item.partition < 0:
                raise InvalidRequestError(f"offset {item.offset} of partition {item.partition}")


def _is_too_long(metadata: str, bytes_max: int) -> bool:
    return len(metadata) > bytes_max or len(metadata.encode()) > bytes_max


def to_commit(
    group: Group | None, request: OffsetCommitRequest, now_ms: int, metadata_bytes_max: int
) -> tuple[list[CoordinatorRecord], OffsetCommitResponse]:
    """Return the records of a commit, and its answer. Errors are reported per partition."""
    records: list[CoordinatorRecord] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for item in topic.partitions:
            metadata = item.metadata or ""
            if _is_too_long(metadata, metadata_bytes_max):
                code = OffsetMetadataTooLargeError.code
                answers.append(OffsetCommitPartitionResponse(item.partition, code))
                continue
            answers.append(OffsetCommitPartitionResponse(item.partition))
            committed = OffsetRecord(
                item.offset, item.leader_epoch, metadata, now_ms, topic.topic_id
            )
            tp = TopicPartition(topic.topic, item.partition)
            records.append(offset_record(request.group_id, tp, committed))
            records += superseded(group, tp)
        response.topics.append(OffsetCommitTopicResponse(topic.topic, answers))
    return records, response


def to_pend(
    request: TxnOffsetCommitRequest, now_ms: int, metadata_bytes_max: int, number: int = 0
) -> tuple[list[CoordinatorRecord], TxnOffsetCommitResponse]:
    """Return the same as :func:`to_commit`, for offsets in a transaction, which has ``number`` if
    it ends by number."""
    records: list[CoordinatorRecord] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for item in topic.partitions:
            metadata = item.metadata or ""
            if _is_too_long(metadata, metadata_bytes_max):
                code = OffsetMetadataTooLargeError.code
                answers.append(TxnOffsetCommitPartitionResponse(item.partition, code))
                continue
            answers.append(TxnOffsetCommitPartitionResponse(item.partition))
            pending = PendingOffset(
                request.producer_epoch,
                item.offset,
                item.leader_epoch,
                metadata,
                now_ms,
                topic.topic_id,
                number,
            )
            tp = TopicPartition(topic.topic, item.partition)
            records.append(pending_record(request.group_id, tp, request.producer_id, pending))
        response.topics.append(TxnOffsetCommitTopicResponse(topic.topic, answers))
    return records, response


def check_fetch(group: Group | None, request: OffsetFetchRequest) -> None:
    """Check that a member that asks is one of the group and of its generation. Anybody else may
    ask.

    :raises UnknownMemberIdError, IllegalGenerationError: the member is none, or of another
        generation.
    """
    if request.member_id == NO_MEMBER and request.generation_id < 0:
        return
    if group is None:
        raise UnknownMemberIdError("there is no such group")
    group.check_member(request.member_id, None)
    group.check_generation(request.generation_id)


def fetched(
    group: Group | None, request: OffsetFetchRequest, stable: bool
) -> list[OffsetFetchTopicResponse]:
    """Return what was committed for the partitions asked for, or for all. With ``stable``, offsets
    that an open transaction may replace are UNSTABLE_OFFSET_COMMIT instead."""
    offsets = {} if group is None else group.offsets
    pending = group.pending_offsets if group is not None and stable else {}
    wanted: dict[str, list[int]] = {}
    if request.topics is None:
        for tp in sorted({**offsets, **pending} if pending else offsets):
            wanted.setdefault(tp.topic, []).append(tp.partition)
    else:
        for topic in request.topics:
            wanted.setdefault(topic.topic, []).extend(topic.partitions)

    def answer(tp: TopicPartition) -> OffsetFetchPartitionResponse:
        if pending and tp in pending:
            code = UnstableOffsetCommitError.code
            return OffsetFetchPartitionResponse(tp.partition, error_code=code)
        committed = offsets.get(tp)
        if committed is None:
            return OffsetFetchPartitionResponse(tp.partition)
        return OffsetFetchPartitionResponse(
            tp.partition, *committed[:4], topic_id=committed.topic_id
        )

    return [
        OffsetFetchTopicResponse(topic, [answer(TopicPartition(topic, number)) for number in some])
        for topic, some in wanted.items()
    ]


def expired(group: Group, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
    """Yield the partitions whose offsets have expired."""
    limit_ms = now_ms - retention_ms
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            if group.state_timestamp_ms > limit_ms:
                return
        elif (
            group.state is not GroupState.STABLE
            or not group.uses_consumer_protocol
            or group.subscribed_topics is None
        ):
            return
    for tp, committed in group.offsets.items():
        is_old = committed.commit_timestamp_ms <= limit_ms and tp not in group.pending_offsets
        if is_old and not group.is_subscribed(tp.topic):
            yield tp


def _refuse(code: int) -> None:
    if code != NO_ERROR:
        raise error_for(code)
