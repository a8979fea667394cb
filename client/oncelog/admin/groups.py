"""The admin client lists, describes and deletes consumer groups, and resets their offsets.

Rules
-----
* A group is asked about at its coordinator; lists are those of all brokers, and a broker that
  cannot say (all) is named beside the list.
* Offsets of a group with live members are not touched: they would commit over them, and nobody
  could say which holds. Brokers refuse as well (a commit from outside needs an empty group).
* A reset is a plan first: what would be written, checked against what the logs hold. Writing it is
  another call, with the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, checked_states, known
from oncelog.admin.group_results import (
    GROUP_STATES,
    CommittedOffset,
    GroupDescription,
    GroupHasMembersError,
    GroupListing,
    GroupListings,
    GroupOffset,
    GroupOutcome,
    MemberDescription,
    MemberOutcome,
    OffsetOutcome,
    OffsetReset,
    PlannedOffset,
    ResetPlan,
    planned,
)
from oncelog.admin.results import Results
from oncelog.consumer.offsets import list_offsets
from oncelog.core.coordinators import refused_at_top
from oncelog.errors import (
    ApiError,
    ConfigurationError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidRequestError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    error_about,
    error_for,
)
from oncelog_protocol.acls import READ
from oncelog_protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from oncelog_protocol.messages import groups as wire
from oncelog_protocol.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    IsolationLevel,
    TopicPartition,
)

OCCUPIED = (
    UnknownMemberIdError.code,
    IllegalGenerationError.code,
    RebalanceInProgressError.code,
    NonEmptyGroupError.code,
)
"""The errors that answer a commit from outside while the group has members."""


class OffsetLike(Protocol):
    """An offset to commit has these attributes: see CommittedOffset and OffsetAndMetadata."""

    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def metadata(self) -> str: ...


class GroupAdmin(AdminCalls):
    """``Admin`` gets its calls about consumer groups from this class."""

    # ------------------------------------------------------------------------------ looking

    async def list_groups(
        self, *, states: Iterable[str] = (), timeout_ms: int = TIMEOUT_MS
    ) -> GroupListings:
        """Return all groups of the cluster, by name; with ``states`` only those in one of them.

        Brokers that did not answer, or still load some of their groups, are in ``unanswered``.
        """
        request = wire.ListGroupsRequest(checked_states(states, GROUP_STATES))
        answers, unanswered = await self._listed(request, self._deadline(timeout_ms))
        listed: dict[str, GroupListing] = {}
        for broker_id, answer in answers:
            for group in answer.groups:
                self._coordinators.learn(group.group_id, broker_id)
                listed[group.group_id] = GroupListing(
                    group.group_id, group.state, group.protocol_type, group.member_count, broker_id
                )
        return GroupListings((listed[name] for name in sorted(listed)), unanswered)

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_offsets: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[GroupDescription]:
        """Return members, assignments, committed offsets and lag of groups, in the order of asking.

        Errors of items: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, or why
        the coordinator did not answer in time.
        """
        names = list(dict.fromkeys(groups))
        found = await self._coordinators.call_each(
            names,
            lambda keys: wire.DescribeGroupsRequest(keys, include_offsets),
            self._deadline(timeout_ms),
        )
        return Results(
            _describe(name, found[name], self._coordinators.known(name)) for name in names
        )

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of each partition of a group, None where there is none.

        ``partitions`` None asks for all partitions that it has committed. With ``require_stable``
        the call waits for open transactions that hold offsets of them.

        :raises ApiError: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID.
        """
        topics = None if partitions is None else _by_topic(partitions)
        request = wire.OffsetFetchRequest(group, topics, require_stable)
        response = await self._coordinators.call(
            group, request, self._deadline(timeout_ms), _unstable
        )
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for topic in response.topics:
            for item in topic.partitions:
                tp = TopicPartition(topic.topic, item.partition)
                if item.error_code:
                    raise error_about(tp, item.error_code)
                found[tp] = None if item.offset == wire.NO_OFFSET else _committed(item)
        return found

    # ------------------------------------------------------------------------------ deleting

    async def delete_groups(
        self, groups: Iterable[str], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[GroupOutcome]:
        """Delete groups without members, together with their offsets.

        Errors of items: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED.
        """
        names = list(dict.fromkeys(groups))
        found = await self._coordinators.call_each(
            names, wire.DeleteGroupsRequest, self._deadline(timeout_ms)
        )
        return Results(GroupOutcome(name, _item_error(name, found[name])) for name in names)

    async def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[OffsetOutcome]:
        """Delete committed offsets of topics to which no member is subscribed (KIP-496).

        Errors of items: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION (none committed).

        :raises ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members of another protocol type).
        """
        request = wire.OffsetDeleteRequest(group, _by_topic(partitions))
        response = await self._coordinators.call(group, request, self._deadline(timeout_ms))
        return self._offset_outcomes(response)

    async def remove_group_members(
        self,
        group: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[MemberOutcome]:
        """Remove static members before their sessions end (KIP-345); None removes every member.

        Use it for members whose processes are gone: a live one joins again. Errors of items:
        UNKNOWN_MEMBER_ID (no member has that instance id).
        """
        deadline = self._deadline(timeout_ms)
        if instance_ids is None:
            leaving = [
                wire.LeavingMember(item.member_id, item.group_instance_id, reason)
                for item in (await self._described(group, deadline)).members
            ]
        else:
            named = dict.fromkeys(instance_ids)
            leaving = [wire.LeavingMember(wire.NO_MEMBER, name, reason) for name in named]
        if not leaving:
            return Results([])
        request = wire.LeaveGroupRequest(group, leaving)
        response = await self._coordinators.call(group, request, deadline)
        return Results(
            MemberOutcome(
                item.member_id,
                item.group_instance_id,
                _error_of(item.group_instance_id or item.member_id, item),
            )
            for item in response.members
        )

    # ------------------------------------------------------------------------------ setting

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetLike],
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[OffsetOutcome]:
        """Write offsets for a group without members. A group that does not exist is created.

        Errors of items: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE. Offsets are written
        as they are given, also where the log holds none: see ``plan_offset_reset``.

        :raises GroupHasMembersError: the group has members, which the error names; nothing was
            written.
        """
        deadline = self._deadline(timeout_ms)
        topics: dict[str, wire.OffsetCommitTopic] = {}
        for (topic, partition), value in offsets.items():
            entry = topics.setdefault(topic, wire.OffsetCommitTopic(topic, []))
            if isinstance(value, int):
                item = wire.OffsetCommitPartition(partition, value)
            else:
                item = wire.OffsetCommitPartition(
                    partition, value.offset, value.leader_epoch, value.metadata
                )
            if item.offset < 0:
                raise ConfigurationError(f"{topic}-{partition}: offset {item.offset} is negative")
            entry.partitions.append(item)
        request = wire.OffsetCommitRequest(
            group, wire.NO_GENERATION, wire.NO_MEMBER, None, list(topics.values())
        )
        with self._explaining(request, group):
            response = await self._coordinators.call(group, request, deadline, _not_occupied)
        if response.error_code in OCCUPIED:
            raise GroupHasMembersError(group, (await self._described(group, deadline)).members)
        return self._offset_outcomes(response)

    def _offset_outcomes(self, response: Any) -> Results[OffsetOutcome]:
        def error_of(tp: TopicPartition, item: Any) -> ApiError | None:
            error = _error_of(tp, item)
            return None if error is None else self._router.explained(error, READ, tp.topic)

        return Results(
            OffsetOutcome(tp, error_of(tp, item))
            for topic in response.topics
            for item in topic.partitions
            for tp in [TopicPartition(topic.topic, item.partition)]
        )

    async def plan_offset_reset(
        self,
        group: str,
        to: OffsetReset | Mapping[TopicPartition, int],
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> ResetPlan:
        """Return the offsets that a reset would write, and change nothing.

        ``to`` is one place for all partitions, or an offset for each. The plan covers all
        partitions of ``topics``, and ``partitions``; with neither it covers those that the group
        has committed to, or those that ``to`` names. An offset outside the log is moved to its
        nearer end, which the row's ``note`` says.

        :raises GroupHasMembersError: the group has members, which the error names.
        :raises UnknownTopicOrPartitionError: a topic or partition does not exist.
        """
        deadline = self._deadline(timeout_ms)
        found = await self._described(group, deadline)
        if found.error is not None and not isinstance(found.error, GroupIdNotFoundError):
            raise found.error
        if found.members or found.state not in ("", "Empty", "Dead"):
            raise GroupHasMembersError(group, found.members)
        committed = await self.list_group_offsets(group, timeout_ms=self._left_ms(deadline))
        chosen = await self._chosen(partitions, topics, deadline)
        if topics is None and partitions is None:
            chosen.update(dict.fromkeys(committed if isinstance(to, OffsetReset) else to))
        named = sorted(chosen)
        current = {tp: None if (item := committed.get(tp)) is None else item.offset for tp in named}
        rows = await self._plan(named, current, to, deadline) if named else []
        return ResetPlan(group, tuple(rows))

    async def reset_group_offsets(
        self, plan: ResetPlan, *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[OffsetOutcome]:
        """Write the new offsets of a plan. Rows without a new offset are left out.

        :raises GroupHasMembersError: a member has joined since; nothing was written.
        """
        if not plan.offsets:
            return Results([])
        return await self.alter_group_offsets(plan.group_id, plan.offsets, timeout_ms=timeout_ms)

    async def _plan(
        self,
        partitions: list[TopicPartition],
        current: Mapping[TopicPartition, int | None],
        to: OffsetReset | Mapping[TopicPartition, int],
        deadline: float,
    ) -> list[PlannedOffset]:
        starts = await self._offsets_at(partitions, EARLIEST_TIMESTAMP, deadline)
        ends = await self._offsets_at(partitions, LATEST_TIMESTAMP, deadline)
        held = {tp: (starts[tp], ends[tp]) for tp in partitions}
        at_time = {}
        if isinstance(to, OffsetReset) and to.where == "timestamp":
            at_time = await self._offsets_at(partitions, to.number, deadline)
        rows = []
        for tp in partitions:
            if isinstance(to, OffsetReset):
                wish, note = _wish(to, current[tp], held[tp], at_time.get(tp, -1))
            else:
                wish = to.get(tp)
                note = "no offset given" if wish is None else ""
            rows.append(planned(tp, current[tp], wish, held[tp], note))
        return rows

    async def _offsets_at(
        self, partitions: list[TopicPartition], timestamp: int, deadline: float
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, timestamp)
        isolation = IsolationLevel.READ_UNCOMMITTED
        found = await list_offsets(self._router, wanted, isolation, deadline)
        return {tp: answer.offset for tp, answer in found.items()}

    # ------------------------------------------------------------------------------ calls

    async def _described(self, group: str, deadline: float) -> GroupDescription:
        (found,) = await self.describe_groups(
            [group], include_offsets=False, timeout_ms=self._left_ms(deadline)
        )
        return found


def _wish(
    to: OffsetReset, current: int | None, held: tuple[int, int], at_time: int
) -> tuple[int | None, str]:
    """Return the offset that ``to`` means, not yet fitted to what the log holds, and a note."""
    start, end = held
    match to.where:
        case "earliest":
            return start, ""
        case "latest":
            return end, ""
        case "offset":
            return to.number, ""
        case "current":
            return (end, "nothing committed, the end") if current is None else (current, "")
        case "shift":
            note = "nothing committed that could be shifted"
            return (None, note) if current is None else (current + to.number, "")
        case "timestamp":
            return (end, "no record that new, the end") if at_time < 0 else (at_time, "")


def _by_topic(partitions: Iterable[TopicPartition]) -> list[wire.OffsetFetchTopic]:
    topics: dict[str, wire.OffsetFetchTopic] = {}
    for topic, partition in dict.fromkeys(partitions):
        topics.setdefault(topic, wire.OffsetFetchTopic(topic, [])).partitions.append(partition)
    return list(topics.values())


def _not_occupied(response: Any) -> ApiError | None:
    """Return ``refused_at_top``, but for "the group has members": that is an answer."""
    return None if response.error_code in OCCUPIED else refused_at_top(response)


def _unstable(response: Any) -> ApiError | None:
    """Return ``refused_at_top``, or the error of an offset that an open transaction holds."""
    error = refused_at_top(response)
    if error is not None:
        return error
    for topic in response.topics:
        for item in topic.partitions:
            if item.error_code and (failed := error_for(item.error_code)).retriable:
                return failed
    return None


def _item_error(name: str, item: Any) -> ApiError | None:
    """Return the error of an item of ``Coordinators.call_each`` with the group's name, or None."""
    if isinstance(item, ApiError):
        return item if repr(name) in str(item) else type(item)(f"group {name!r}: {item}")
    if not item.error_code:
        return None
    message = item.error_message or ""
    error = error_for(item.error_code, message)
    return error if repr(name) in message else type(error)(f"group {name!r}: {error}")


def _error_of(what: object, item: Any) -> ApiError | None:
    return error_about(what, item.error_code) if item.error_code else None


def _describe(name: str, item: Any, coordinator: int | None) -> GroupDescription:
    error = _item_error(name, item)
    if error is not None:
        return GroupDescription(name, error)
    return GroupDescription(
        name,
        None,
        item.state,
        item.generation_id,
        item.protocol_type,
        item.protocol_name,
        item.leader,
        coordinator,
        tuple(_member(member, item.protocol_type) for member in item.members),
        tuple(_offset(offset) for offset in item.offsets),
    )


def _member(member: wire.DescribedMember, protocol_type: str) -> MemberDescription:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        # A member may send what it likes: one that is not understood is shown without, not hidden.
        try:
            if member.metadata:
                topics = decode_subscription(member.metadata).topics
            partitions = decode_assignment(member.assignment).partitions
        except InvalidRequestError:
            pass
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        partitions,
        member.metadata,
        member.assignment,
    )


def _committed(item: wire.OffsetFetchPartitionResponse | wire.DescribedOffset) -> CommittedOffset:
    return CommittedOffset(
        item.offset, item.leader_epoch, item.metadata or "", item.commit_timestamp
    )


def _offset(item: wire.DescribedOffset) -> GroupOffset:
    return GroupOffset(
        TopicPartition(item.topic, item.partition),
        _committed(item),
        known(item.log_start_offset),
        known(item.end_offset),
        known(item.lag),
    )
