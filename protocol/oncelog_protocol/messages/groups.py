"""Consumer groups find their coordinator, members join and leave, offsets are committed.

Everything here is answered by the group's coordinator, the leader of the partition of
``__consumer_offsets`` that the group's name falls on; any other broker says NOT_COORDINATOR.
COORDINATOR_LOAD_IN_PROGRESS: it has just become leader and still reads that partition.
COORDINATOR_NOT_AVAILABLE: the partition has no leader, or what was asked could not be written down;
nothing has changed then. All three are retriable and definite.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Blob, Int8, Int16, Int32, Int64, Name, Text, message, since

NO_GENERATION = -1
"""Generation of a commit that comes from outside the group: an assigning consumer or a tool."""

NO_MEMBER = ""
"""Member id of such a commit, and of a member that joins for the first time."""

NO_OFFSET = -1
"""Committed offset of a partition that has none; lag or end that is not known."""

COORDINATOR_GROUP = 0
COORDINATOR_TRANSACTION = 1


@message
class FindCoordinatorResponse:
    """Its errors are COORDINATOR_NOT_AVAILABLE (no leader, or the internal topic is being created),
    INVALID_GROUP_ID, INVALID_REQUEST (``key_type``). ``host`` and ``port`` are those of the
    listener that was asked."""

    error_code: Int16 = 0
    error_message: Text | None = None
    broker_id: Int32 = -1
    host: Name = ""
    port: Int32 = -1


@message
class FindCoordinatorRequest(Request):
    """It asks which broker coordinates ``key``: a group (``key_type`` 0) or a transactional id (1).
    Any broker answers."""

    api_key: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    response: ClassVar[type] = FindCoordinatorResponse

    key: Name
    key_type: Int8 = COORDINATOR_GROUP


@message
class GroupProtocol:
    """It names an assignor that the member can work with, and what it wants the assigning member to
    know of it (``consumer_protocol``)."""

    name: Name
    metadata: Blob


@message
class JoinGroupMember:
    """It describes one member, to the leader only."""

    member_id: Name
    group_instance_id: Name | None
    metadata: Blob


@message
class JoinGroupResponse:
    """Its errors are INVALID_GROUP_ID, INVALID_REQUEST (a rebalance time-out, names or protocols
    that cannot be meant), INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL (another protocol
    type, or no assignor in common), MEMBER_ID_REQUIRED (join again under the ``member_id`` given,
    KIP-394), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another member took over the instance id,
    KIP-345), GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.

    ``leader`` names the member that assigns; only it gets ``members``. ``skip_assignment``: a
    static member came back, the leader need not assign anew (KIP-814)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    generation_id: Int32 = NO_GENERATION
    protocol_type: Name | None = None
    protocol_name: Name | None = None
    leader: Name = ""
    skip_assignment: bool = False
    member_id: Name = NO_MEMBER
    members: list[JoinGroupMember] = field(default_factory=list)


@message
class JoinGroupRequest(Request):
    """Take part in the next generation. Parked until all members have joined or
    ``rebalance_timeout_ms`` is over. The member counts as dead ``session_timeout_ms`` after its
    last sign of life. ``reason`` is logged (KIP-800)."""

    api_key: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    response: ClassVar[type] = JoinGroupResponse

    group_id: Name
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    member_id: Name
    group_instance_id: Name | None
    protocol_type: Name
    protocols: list[GroupProtocol]
    reason: Text | None = None


@message
class MemberAssignment:
    """It is what the leader gives to one member."""

    member_id: Name
    assignment: Blob


@message
class SyncGroupResponse:
    """Its errors are UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
    REBALANCE_IN_PROGRESS (join again), INCONSISTENT_GROUP_PROTOCOL, GROUP_AUTHORIZATION_FAILED; of
    what the leader hands in INVALID_REQUEST (too much) and INVALID_COMMIT_OFFSET_SIZE (larger than
    a record may be)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    protocol_type: Name | None = None
    protocol_name: Name | None = None
    assignment: Blob = b""


@message
class SyncGroupRequest(Request):
    """The leader hands in all assignments, everybody gets its own. Parked until the leader's are
    there and durable."""

    api_key: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    response: ClassVar[type] = SyncGroupResponse

    group_id: Name
    generation_id: Int32
    member_id: Name
    group_instance_id: Name | None
    protocol_type: Name | None
    protocol_name: Name | None
    assignments: list[MemberAssignment] = field(default_factory=list)


@message
class HeartbeatResponse:
    """Its errors are UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
    REBALANCE_IN_PROGRESS (join again), GROUP_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None


@message
class HeartbeatRequest(Request):
    """It is a sign of life."""

    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    response: ClassVar[type] = HeartbeatResponse

    group_id: Name
    generation_id: Int32
    member_id: Name
    group_instance_id: Name | None


@message
class LeavingMember:
    """It is named by member id, or by instance id alone (an operator removes a static member)."""

    member_id: Name
    group_instance_id: Name | None = None
    reason: Text | None = None


@message
class LeavingMemberResponse:
    """Its errors are UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""

    member_id: Name
    group_instance_id: Name | None = None
    error_code: Int16 = 0


@message
class LeaveGroupResponse:
    """Its whole-request errors are GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID. After
    COORDINATOR_NOT_AVAILABLE and REQUEST_TIMED_OUT the members may have left."""

    error_code: Int16 = 0
    error_message: Text | None = None
    members: list[LeavingMemberResponse] = field(default_factory=list)


@message
class LeaveGroupRequest(Request):
    """Members leave; the rest rebalances at once."""

    api_key: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    response: ClassVar[type] = LeaveGroupResponse

    group_id: Name
    members: list[LeavingMember]


@message
class OffsetCommitPartition:
    """``offset`` is that of the record to be read next; ``leader_epoch`` of the last record read
    (KIP-320), -1 when not known."""

    partition: Int32
    offset: Int64
    leader_epoch: Int32 = -1
    metadata: Text | None = None


@message
class OffsetCommitTopic:
    """It has partitions of one topic, which may come twice with two ids. ``topic_id``: of which
    topic of that name the offsets are, "" if not known: that which there is now."""

    topic: Name
    partitions: list[OffsetCommitPartition]
    topic_id: Name = since(1, default="")


@message
class OffsetCommitPartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID (the offsets are of another
    topic of that name), TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE,
    INVALID_COMMIT_OFFSET_SIZE (larger than a record may be)."""

    partition: Int32
    error_code: Int16 = 0


@message
class OffsetCommitTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[OffsetCommitPartitionResponse] = field(default_factory=list)


@message
class OffsetCommitResponse:
    """Whole-request errors, nothing was committed: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST (an offset below 0).
    REQUEST_TIMED_OUT: it may have been."""

    error_code: Int16 = 0
    error_message: Text | None = None
    topics: list[OffsetCommitTopicResponse] = field(default_factory=list)


@message
class OffsetCommitRequest(Request):
    """Remember how far the group has come. From a member with its generation, which fences; or from
    outside (generation -1, no member id), which only an empty group takes."""

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = OffsetCommitResponse

    group_id: Name
    generation_id: Int32
    member_id: Name
    group_instance_id: Name | None
    topics: list[OffsetCommitTopic]


@message
class OffsetFetchTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[Int32]


@message
class OffsetFetchPartitionResponse:
    """``offset`` is -1 where none was committed. ``topic_id``: of which topic of that name it is,
    "" if not known; it may be one that was deleted. Errors: UNSTABLE_OFFSET_COMMIT (a transaction
    holds a newer one, ``require_stable``), TOPIC_AUTHORIZATION_FAILED."""

    partition: Int32
    offset: Int64 = NO_OFFSET
    leader_epoch: Int32 = -1
    metadata: Text | None = None
    commit_timestamp: Int64 = -1
    error_code: Int16 = 0
    topic_id: Name = since(1, default="")


@message
class OffsetFetchTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[OffsetFetchPartitionResponse] = field(default_factory=list)


@message
class OffsetFetchResponse:
    """Its whole-request errors are INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED; UNKNOWN_MEMBER_ID
    and ILLEGAL_GENERATION when a member id was given."""

    error_code: Int16 = 0
    error_message: Text | None = None
    topics: list[OffsetFetchTopicResponse] = field(default_factory=list)


@message
class OffsetFetchRequest(Request):
    """It asks for the committed offsets of a group; ``topics`` None asks for all that it has. A
    member names itself and its generation: a coordinator that was deposed and does not know it
    refuses the newer generation instead of answering with older offsets."""

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = OffsetFetchResponse

    group_id: Name
    topics: list[OffsetFetchTopic] | None
    require_stable: bool = True
    member_id: Name = NO_MEMBER
    generation_id: Int32 = NO_GENERATION


@message
class DescribedMember:
    """``metadata`` and ``assignment`` are as in ``consumer_protocol``."""

    member_id: Name
    group_instance_id: Name | None
    client_id: Name
    client_host: Name
    metadata: Blob = b""
    assignment: Blob = b""


@message
class DescribedOffset:
    """It tells of one partition that the group has committed to. ``end_offset`` is the last stable
    offset that the partition's leader told the coordinator, ``lag`` what lies between; both -1 when
    the leader could not be asked."""

    topic: Name
    partition: Int32
    offset: Int64
    leader_epoch: Int32
    metadata: Text
    commit_timestamp: Int64
    log_start_offset: Int64 = NO_OFFSET
    end_offset: Int64 = NO_OFFSET
    lag: Int64 = NO_OFFSET


@message
class DescribedGroup:
    """Its errors are those of the head of this module, GROUP_ID_NOT_FOUND,
    GROUP_AUTHORIZATION_FAILED. ``state``: Empty, PreparingRebalance, CompletingRebalance, Stable,
    Dead."""

    group_id: Name
    error_code: Int16 = 0
    error_message: Text | None = None
    state: Name = ""
    generation_id: Int32 = NO_GENERATION
    protocol_type: Name = ""
    protocol_name: Name = ""
    leader: Name = ""
    members: list[DescribedMember] = field(default_factory=list)
    offsets: list[DescribedOffset] = field(default_factory=list)


@message
class DescribeGroupsResponse:
    """It has one answer a group, in order."""

    error_code: Int16 = 0
    groups: list[DescribedGroup] = field(default_factory=list)


@message
class DescribeGroupsRequest(Request):
    """It asks for members, and with ``include_offsets`` for committed offsets and lag."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    response: ClassVar[type] = DescribeGroupsResponse

    groups: list[Name]
    include_offsets: bool = True


@message
class ListedGroup:
    """It is a group that the asked broker coordinates."""

    group_id: Name
    protocol_type: Name
    state: Name
    member_count: Int32 = 0


@message
class ListGroupsResponse:
    """Its errors are COORDINATOR_LOAD_IN_PROGRESS (some are not known yet),
    COORDINATOR_NOT_AVAILABLE."""

    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)


@message
class ListGroupsRequest(Request):
    """It asks for the groups of one broker; all of them takes asking every broker. ``states``
    empty: any."""

    api_key: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    response: ClassVar[type] = ListGroupsResponse

    states: list[Name] = field(default_factory=list)


@message
class GroupResult:
    """Its errors are NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED, those of the head of this module."""

    group_id: Name
    error_code: Int16 = 0
    error_message: Text | None = None


@message
class DeleteGroupsResponse:
    """It has one result a group, in order."""

    error_code: Int16 = 0
    groups: list[GroupResult] = field(default_factory=list)


@message
class DeleteGroupsRequest(Request):
    """Forget groups without members, and their offsets."""

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    response: ClassVar[type] = DeleteGroupsResponse

    groups: list[Name]


@message
class OffsetDeletePartitionResponse:
    """Its errors are GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION (nothing committed)."""

    partition: Int32
    error_code: Int16 = 0


@message
class OffsetDeleteTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[OffsetDeletePartitionResponse] = field(default_factory=list)


@message
class OffsetDeleteResponse:
    """Its whole-request errors are GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (of another protocol type),
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None
    topics: list[OffsetDeleteTopicResponse] = field(default_factory=list)


@message
class OffsetDeleteRequest(Request):
    """Forget committed offsets of topics that no member is subscribed to (KIP-496)."""

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    response: ClassVar[type] = OffsetDeleteResponse

    group_id: Name
    topics: list[OffsetFetchTopic]
