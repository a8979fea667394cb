"""The APIs of Kafka's classic groups are translated here.

What members tell each other is opaque, here as there. Only when a group is described, what clients
of ours have told is put into Kafka's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.delete_groups import (
    KafkaDeleteGroupsRequest,
    KafkaDeleteGroupsResponse,
    KafkaDeleteGroupsResponseDeletableGroupResult,
)
from oncelog_broker.kafka.wire.messages.describe_groups import (
    KafkaDescribeGroupsRequest,
    KafkaDescribeGroupsResponse,
    KafkaDescribeGroupsResponseDescribedGroup,
    KafkaDescribeGroupsResponseDescribedGroupMember,
)
from oncelog_broker.kafka.wire.messages.heartbeat import (
    KafkaHeartbeatRequest,
    KafkaHeartbeatResponse,
)
from oncelog_broker.kafka.wire.messages.join_group import (
    KafkaJoinGroupRequest,
    KafkaJoinGroupResponse,
    KafkaJoinGroupResponseMember,
)
from oncelog_broker.kafka.wire.messages.leave_group import (
    KafkaLeaveGroupRequest,
    KafkaLeaveGroupResponse,
    KafkaLeaveGroupResponseMemberResponse,
)
from oncelog_broker.kafka.wire.messages.list_groups import (
    KafkaListGroupsRequest,
    KafkaListGroupsResponse,
    KafkaListGroupsResponseListedGroup,
)
from oncelog_broker.kafka.wire.messages.sync_group import (
    KafkaSyncGroupRequest,
    KafkaSyncGroupResponse,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    is_of_kafka,
)
from oncelog_protocol.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    MemberIdRequiredError,
)
from oncelog_protocol.kafka_consumer_protocol import (
    encode_kafka_assignment,
    encode_kafka_subscription,
)
from oncelog_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    GroupProtocol,
    GroupResult,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    MemberAssignment,
    SyncGroupRequest,
)

CLASSIC: Final = "classic"
ID_REQUIRED_SINCE: Final = 4
"""From this version of JoinGroup on a client is told its member id first (KIP-394)."""
MANY_LEAVE_SINCE: Final = 3
NULLABLE_PROTOCOL_SINCE: Final = 7
DEAD: Final = "Dead"


def join_group(exchange: KafkaExchange, request: KafkaJoinGroupRequest) -> None:
    """Take part in the next generation."""
    rebalance_ms = request.rebalance_timeout_ms
    if exchange.version == 0:
        rebalance_ms = request.session_timeout_ms
    native = JoinGroupRequest(
        request.group_id,
        request.session_timeout_ms,
        rebalance_ms,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        [GroupProtocol(each.name, each.metadata) for each in request.protocols],
        request.reason or None,
    )

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        needs_id = answer.error_code == MemberIdRequiredError.code
        if needs_id and exchange.version < ID_REQUIRED_SINCE:
            exchange.ask(replace(native, member_id=answer.member_id), then)
            return
        name = answer.protocol_name
        if name is None and exchange.version < NULLABLE_PROTOCOL_SINCE:
            name = ""
        exchange.answer(
            KafkaJoinGroupResponse(
                error_code=exchange.code(answer.error_code),
                generation_id=answer.generation_id,
                protocol_type=answer.protocol_type,
                protocol_name=name,
                leader=answer.leader,
                skip_assignment=exchange.version >= 9 and answer.skip_assignment,
                member_id=answer.member_id,
                members=[
                    KafkaJoinGroupResponseMember(
                        each.member_id, each.group_instance_id, each.metadata
                    )
                    for each in answer.members
                ],
            )
        )

    exchange.ask(native, then)


def sync_group(exchange: KafkaExchange, request: KafkaSyncGroupRequest) -> None:
    """Hand in assignments, and get one's own."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        exchange.answer(
            KafkaSyncGroupResponse(
                error_code=exchange.code(answer.error_code),
                protocol_type=answer.protocol_type,
                protocol_name=answer.protocol_name,
                assignment=answer.assignment,
            )
        )

    exchange.ask(
        SyncGroupRequest(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            [MemberAssignment(each.member_id, each.assignment) for each in request.assignments],
        ),
        then,
    )


def heartbeat(exchange: KafkaExchange, request: KafkaHeartbeatRequest) -> None:
    """Give a sign of life."""
    exchange.ask(
        HeartbeatRequest(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        ),
        lambda answer, _: exchange.answer(
            KafkaHeartbeatResponse(error_code=exchange.code(answer.error_code))
        ),
    )


def leave_group(exchange: KafkaExchange, request: KafkaLeaveGroupRequest) -> None:
    """Leave a group; below version 3 it is one member, whose error is the answer's."""
    many = exchange.version >= MANY_LEAVE_SINCE
    members = [
        LeavingMember(each.member_id, each.group_instance_id, each.reason or None)
        for each in request.members
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if many:
            rows = [
                KafkaLeaveGroupResponseMemberResponse(
                    each.member_id, each.group_instance_id, exchange.code(each.error_code)
                )
                for each in answer.members
            ]
            code = exchange.code(answer.error_code)
            exchange.answer(KafkaLeaveGroupResponse(error_code=code, members=rows))
            return
        code = answer.error_code or next((each.error_code for each in answer.members), 0)
        exchange.answer(KafkaLeaveGroupResponse(error_code=exchange.code(code)))

    leaving = members if many else [LeavingMember(request.member_id)]
    exchange.ask(LeaveGroupRequest(request.group_id, leaving), then)


def describe_groups(exchange: KafkaExchange, request: KafkaDescribeGroupsRequest) -> None:
    """Tell of groups and their members."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            groups = [DescribedGroup(name, answer.error_code) for name in request.groups]
        else:
            groups = answer.groups
        exchange.answer(
            KafkaDescribeGroupsResponse(groups=[_described(exchange, each) for each in groups]),
            counted=answer,
        )

    exchange.ask(DescribeGroupsRequest(request.groups, False), then)


def _described(
    exchange: KafkaExchange, group: DescribedGroup
) -> KafkaDescribeGroupsResponseDescribedGroup:
    code, state = group.error_code, group.state
    if code == GroupIdNotFoundError.code:
        code, state = 0, DEAD  # below version 6 a group that is not there has no error
    return KafkaDescribeGroupsResponseDescribedGroup(
        error_code=exchange.code(code),
        group_id=group.group_id,
        group_state=state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            KafkaDescribeGroupsResponseDescribedGroupMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                _shown(group, each.metadata, _subscription),
                _shown(group, each.assignment, _assignment),
            )
            for each in group.members
        ],
    )


def _shown(group: DescribedGroup, data: bytes, in_kafkas: Callable[[bytes], bytes]) -> bytes:
    """Return what a member has told, in words that clients of Kafka know; nothing, if they are
    others."""
    if is_of_kafka(data) or group.protocol_type != PROTOCOL_TYPE:
        return data
    try:
        return in_kafkas(data) if data else b""
    except InvalidRequestError:
        return b""


def _subscription(data: bytes) -> bytes:
    return encode_kafka_subscription(decode_subscription(data))


def _assignment(data: bytes) -> bytes:
    return encode_kafka_assignment(decode_assignment(data))


def list_groups(exchange: KafkaExchange, request: KafkaListGroupsRequest) -> None:
    """Tell the groups that this broker coordinates."""
    wanted = {each.lower() for each in request.types_filter}
    if wanted and CLASSIC not in wanted:
        exchange.answer(KafkaListGroupsResponse())
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        rows = [
            KafkaListGroupsResponseListedGroup(
                each.group_id, each.protocol_type, each.state, CLASSIC
            )
            for each in answer.groups
        ]
        code = exchange.code(answer.error_code)
        exchange.answer(KafkaListGroupsResponse(error_code=code, groups=rows))

    exchange.ask(ListGroupsRequest(request.states_filter), then)


def delete_groups(exchange: KafkaExchange, request: KafkaDeleteGroupsRequest) -> None:
    """Forget groups without members, and their offsets."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.groups
        if answer.error_code:
            results = [GroupResult(name, answer.error_code) for name in request.groups_names]
        rows = [
            KafkaDeleteGroupsResponseDeletableGroupResult(
                each.group_id, exchange.code(each.error_code)
            )
            for each in results
        ]
        exchange.answer(KafkaDeleteGroupsResponse(results=rows), counted=answer)

    exchange.ask(DeleteGroupsRequest(request.groups_names), then)
