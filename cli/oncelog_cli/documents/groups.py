"""Groups of consumers are listed, described and deleted here, with their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, Row, fields_of, waiting
from oncelog_cli.documents.names import groups_named
from oncelog_cli.group_offsets import Chosen, partitions_text
from oncelog_cli.patterns import among

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.group_results import GroupDescription, MemberDescription

OFFSET_FIELDS = (
    "offset", "end_offset", "log_start_offset", "lag", "leader_epoch", "metadata",
    "commit_timestamp",
)  # fmt: skip


async def listed_groups(
    admin: Admin,
    patterns: Sequence[str] | None = None,
    *,
    regex: bool = False,
    states: Sequence[str] = (),
) -> Answer:
    """Return the document of ``groups list``: a row a group.

    Brokers that did not say which groups they have are failures.

    :param patterns: only groups that are meant by them. :param states: only in one of these.
    :raises ConfigurationError: there is no such state.
    """
    failures = Failures()
    listed = failures.answered(await admin.list_groups(states=states))
    wanted = among([group.group_id for group in listed], patterns, regex=regex)
    fields = "state member_count coordinator protocol_type"
    rows = [
        {"group": group.group_id, **fields_of(group, fields)}
        for group in listed
        if group.group_id in wanted
    ]
    return Answer({"groups": rows}, failures)


async def described_groups(
    admin: Admin, patterns: Sequence[str], *, regex: bool = False, timeout_ms: int | None = None
) -> Answer:
    """Return the document of ``groups describe``: a row a group, with members, offsets and lag.

    What is not known is None: nothing committed, or a leader that did not answer. Groups that
    cannot be described are failures.

    :param timeout_ms: None: as long as the admin client waits.
    :raises CommandError: no group is meant.
    """
    failures = Failures()
    names = await groups_named(admin, patterns, failures, regex=regex)
    described = await admin.describe_groups(names, **waiting(timeout_ms))
    sound = failures.sound(described, lambda group: group.group_id)
    return Answer({"groups": [_described(group) for group in sound]}, failures)


def _described(group: GroupDescription) -> Row:
    owners: dict[TopicPartition, MemberDescription] = {
        tp: member for member in group.members for tp in member.partitions
    }
    rows: dict[TopicPartition, Row] = {}
    for item in group.offsets:
        rows[item.partition] = {
            "offset": item.committed.offset,
            **fields_of(item, "end_offset log_start_offset lag"),
            **fields_of(item.committed, "leader_epoch metadata commit_timestamp"),
        }
    for tp in owners:  # assigned, and nothing committed yet
        rows.setdefault(tp, dict.fromkeys(OFFSET_FIELDS))
    return {
        "group": group.group_id,
        **fields_of(group, "state generation_id protocol_type"),
        "assignor": group.protocol_name,
        **fields_of(group, "leader coordinator lag"),
        "member_count": len(group.members),
        "members": [_member(member) for member in group.members],
        "topics": _by_topic(group.group_id, rows),
        "offsets": [_partition(tp, rows[tp], owners.get(tp)) for tp in sorted(rows)],
    }


def _by_topic(group: str, rows: Mapping[TopicPartition, Row]) -> list[Row]:
    """Return the sums of each topic; a lag that is not known is not counted as none."""
    found: list[Row] = []
    for topic in dict.fromkeys(tp.topic for tp in sorted(rows)):
        lags = [row["lag"] for tp, row in rows.items() if tp.topic == topic]
        known = [lag for lag in lags if lag is not None]
        row = {"group": group, "topic": topic, "partition_count": len(lags)}
        found.append({**row, "lag": sum(known) if known else None})
    return found


def _partition(tp: TopicPartition, row: Row, owner: MemberDescription | None) -> Row:
    return {
        **tp._asdict(),
        **row,
        "member": None if owner is None else str(owner),
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
    }


def _member(member: MemberDescription) -> Row:
    return {
        **fields_of(member, "member_id group_instance_id client_id client_host topics"),
        "partitions": [tp._asdict() for tp in sorted(member.partitions)],
        "assignment": partitions_text(member.partitions),
    }


# ------------------------------------------------------------------------------ deletion


async def doomed_groups(
    admin: Admin, patterns: Sequence[str], *, regex: bool = False, if_exists: bool = False
) -> Answer:
    """Return what ``groups delete --dry-run`` prints: a row for each group that would go.

    Groups that have members are failures, which name them.

    :param if_exists: a group that does not exist is missing, and no failure.
    :raises CommandError: no group is meant.
    """
    from oncelog.admin.group_results import GroupHasMembersError

    failures, rows, missing = Failures(), [], []
    names = await groups_named(admin, patterns, failures, regex=regex)
    for group in await admin.describe_groups(names, include_offsets=False):
        error = group.error
        if error is None and group.members:
            failures.fail(group.group_id, GroupHasMembersError(group.group_id, group.members))
        elif error is None:
            rows.append({"group": group.group_id, "deleted": False})
        elif if_exists and error.name == "GROUP_ID_NOT_FOUND":
            missing.append(group.group_id)
        else:
            failures.fail(group.group_id, error)
    return Answer({"dry_run": True, "groups": rows}, failures, missing)


async def deleted_groups(admin: Admin, names: Sequence[str], *, if_exists: bool = False) -> Answer:
    """Forget groups and their offsets, and return what ``groups delete`` prints of it.

    :param if_exists: a group that does not exist any more is no failure.
    """
    failures = Failures()
    quiet = "GROUP_ID_NOT_FOUND" if if_exists else ""
    rows = [
        failures.outcome(
            {"group": each.group_id}, "deleted", each.group_id, each.error, quiet=quiet
        )
        for each in await admin.delete_groups(names)
    ]
    return Answer({"dry_run": False, "groups": rows}, failures)


async def doomed_offsets(admin: Admin, group: str, chosen: Chosen) -> Answer:
    """Return what ``groups delete-offsets --dry-run`` prints: a row for each that would go.

    Partitions and topics for which the group has committed nothing are failures.

    :raises ApiError: the group cannot be asked about.
    """
    failures = Failures()
    committed = sorted(await admin.list_group_offsets(group))
    for name, number in chosen.partitions:
        if (name, number) not in committed:
            failures.fail(f"{name}-{number}", f"{group} has no offset for {name}-{number}")
    for name in chosen.topics:
        if not any(tp.topic == name for tp in committed):
            failures.fail(name, f"{group} has no offsets for {name}")
    rows = [{**tp._asdict(), "deleted": False} for tp in committed if tp in chosen]
    return Answer({"dry_run": True, "group": group, "offsets": rows}, failures)


async def deleted_offsets(admin: Admin, group: str, doomed: Sequence[Row]) -> Answer:
    """Forget the offsets of rows of :func:`doomed_offsets`, and return them with the outcomes."""
    from oncelog import TopicPartition

    failures = Failures()
    partitions = [TopicPartition(row["topic"], row["partition"]) for row in doomed]
    rows = [
        failures.outcome(each.partition._asdict(), "deleted", str(each.partition), each.error)
        for each in await admin.delete_group_offsets(group, partitions)
    ]
    return Answer({"dry_run": False, "group": group, "offsets": rows}, failures)
