"""Committed offsets of a group: who may commit, who may ask, and when they are too old. Pure.

Offsets expire as in KIP-211: those of an empty group ``offsets_retention_ms`` after it became
empty, those of a simple group (that nobody joins) after their last commit, those of a living group
only if it is stable and nobody in it is subscribed to the topic. None expires sooner than that
after its last commit.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.members import Member
from oncelog_broker.coordinator.group.records import CommittedOffset
from oncelog_broker.coordinator.group.states import RULES, GroupState
from oncelog_protocol.errors import (
    NO_ERROR,
    IllegalGenerationError,
    InvalidRequestError,
    UnknownMemberIdError,
    error_for,
)
from oncelog_protocol.messages.groups import (
    NO_MEMBER,
    OffsetCommitRequest,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchTopicResponse,
)
from oncelog_protocol.types import TopicPartition


def check_commit(group: Group | None, request: OffsetCommitRequest) -> Member | None:
    """Who commits: a member, or None for somebody outside.

    :raises ApiError: the whole-request errors of ``OffsetCommitResponse``.
    """
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
        _refuse(RULES[group.state].outside_commit)
        return None
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    _refuse(RULES[group.state].commit)
    return member


def check_offsets(request: OffsetCommitRequest) -> None:
    """:raises InvalidRequestError: an offset that no record can have."""
    for topic in request.topics:
        for item in topic.partitions:
            if item.offset < 0 or item.partition < 0:
                raise InvalidRequestError(f"offset {item.offset} of partition {item.partition}")


def check_fetch(group: Group | None, request: OffsetFetchRequest) -> None:
    """:raises UnknownMemberIdError, IllegalGenerationError: a member asks that is none, or of
    another generation. Anybody else may ask."""
    if request.member_id == NO_MEMBER and request.generation_id < 0:
        return
    if group is None:
        raise UnknownMemberIdError("there is no such group")
    group.check_member(request.member_id, None)
    group.check_generation(request.generation_id)


def fetched(group: Group | None, request: OffsetFetchRequest) -> list[OffsetFetchTopicResponse]:
    """What was committed for the partitions asked for, or for all."""
    offsets = {} if group is None else group.offsets
    wanted: dict[str, list[int]] = {}
    if request.topics is None:
        for tp in sorted(offsets):
            wanted.setdefault(tp.topic, []).append(tp.partition)
    else:
        for topic in request.topics:
            wanted.setdefault(topic.topic, []).extend(topic.partitions)
    return [
        OffsetFetchTopicResponse(
            topic, [_fetched(number, offsets.get(TopicPartition(topic, number))) for number in some]
        )
        for topic, some in wanted.items()
    ]


def _fetched(partition: int, committed: CommittedOffset | None) -> OffsetFetchPartitionResponse:
    if committed is None:
        return OffsetFetchPartitionResponse(partition)
    return OffsetFetchPartitionResponse(partition, *committed)


def expired(group: Group, now_ms: int, retention_ms: int) -> Iterator[TopicPartition]:
    """The partitions whose offsets have had their time."""
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
        if committed.commit_timestamp_ms <= limit_ms and not group.is_subscribed(tp.topic):
            yield tp


def _refuse(code: int) -> None:
    if code != NO_ERROR:
        raise error_for(code)
