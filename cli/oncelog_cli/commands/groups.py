"""``oncelog groups`` has commands to list, describe and delete groups, and ``reset-offsets``.

Rules: a group that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. A broker that could not say which groups it has is such a failure too: a list that
may lack some never looks complete. What destroys asks first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.group_reset import offsets_of, reset, reset_offsets, show_plan
from oncelog_cli.group_offsets import parse_partitions, partitions_text
from oncelog_cli.options import (
    DryRunOption,
    GroupArgument,
    RegexOption,
    YesOption,
    complete_groups,
    confirm,
    parsed,
)
from oncelog_cli.patterns import among, matching, some_found
from oncelog_cli.render import PARTITION_NAME, Column, Output, fields_of, human_time

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.group_results import GroupDescription, MemberDescription, ResetPlan

app = typed.App(help="List, describe and delete consumer groups, and reset their offsets.")

Groups = Annotated[list[str], typed.Argument(metavar="GROUP...", autocompletion=complete_groups)]

GROUP_COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("MEMBERS", "member_count", right=True),
)
LIST_COLUMNS = (
    *GROUP_COLUMNS,
    Column("COORDINATOR", "coordinator", right=True),
    Column("TYPE", "protocol_type", wide=True),
)
STATE_COLUMNS = (
    *GROUP_COLUMNS,
    Column("LAG", "lag", right=True),
    Column("ASSIGNOR", "assignor", show=lambda value: value or "-"),
    Column("GENERATION", "generation_id", right=True),
    Column("COORDINATOR", "coordinator", right=True),
    Column("LEADER", "leader", wide=True, show=lambda value: value or "-"),
)
OFFSET_COLUMNS = (
    *PARTITION_NAME,
    Column("OFFSET", "offset", right=True),
    Column("END", "end_offset", right=True),
    Column("LAG", "lag", right=True),
    Column("MEMBER", "member"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("START", "log_start_offset", right=True, wide=True),
    Column("COMMITTED", "commit_timestamp", wide=True, show=human_time),
    Column("METADATA", "metadata", wide=True, show=lambda value: value or "-"),
)
TOPIC_COLUMNS = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partition_count", right=True),
    Column("LAG", "lag", right=True),
)
MEMBER_COLUMNS = (
    Column("MEMBER", "member_id"),
    Column("INSTANCE", "group_instance_id"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("PARTITIONS", "partitions", right=True, show=lambda value: str(len(value))),
    Column("SUBSCRIBED", "topics", wide=True),
    Column("ASSIGNMENT", "assignment", wide=True),
)
OFFSET_FIELDS = (
    "offset", "end_offset", "log_start_offset", "lag", "leader_epoch", "metadata",
    "commit_timestamp",
)  # fmt: skip
DELETED_COLUMNS = (Column("GROUP", "group"), Column("DELETED", "deleted"), Column("ERROR", "error"))
DELETED_OFFSET_COLUMNS = (*PARTITION_NAME, *DELETED_COLUMNS[1:])


# ------------------------------------------------------------------------------ list


@app.command("list")
def list_groups(
    output: Output,
    cluster: NamedCluster,
    patterns: Annotated[
        list[str] | None,
        typed.Argument(metavar="[GROUP...]", autocompletion=complete_groups),
    ] = None,
    regex: RegexOption = False,
    state: Annotated[
        list[str] | None,
        typed.Option("--state", metavar="STATE", help="Only groups in this state; repeatable."),
    ] = None,
) -> None:
    """List the groups, with their states.

    States are Empty, PreparingRebalance, CompletingRebalance, Stable and Dead.
    """

    listed = output.answered(cluster.ask(lambda admin: admin.list_groups(states=state or ())))
    wanted = among([group.group_id for group in listed], patterns, regex=regex)
    fields = "state member_count coordinator protocol_type"
    rows = [
        {"group": group.group_id, **fields_of(group, fields)}
        for group in listed
        if group.group_id in wanted
    ]
    output.show(LIST_COLUMNS, {"groups": rows})


async def _names(admin: Admin, patterns: Iterable[str], regex: bool, output: Output) -> list[str]:
    """Return the groups that are meant.

    :raises CommandError: none is.
    """
    known: list[str] = []
    if regex:
        known = [group.group_id for group in output.answered(await admin.list_groups())]
    return some_found("group", matching(known, patterns, regex=regex), patterns)


# ------------------------------------------------------------------------------ describe


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    groups: Groups,
    regex: RegexOption = False,
    offsets: Annotated[
        bool, typed.Option("--offsets", help="Partitions: offset, end, lag, member. The default.")
    ] = False,
    members: Annotated[
        bool, typed.Option("--members", help="Members and what they have; wide: partition by one.")
    ] = False,
    state: Annotated[
        bool, typed.Option("--state", help="One line a group, with the sum of its lag.")
    ] = False,
    by_topic: Annotated[
        bool, typed.Option("--by-topic", help="The lag of each topic, not of each partition.")
    ] = False,
    verbose: Annotated[
        bool, typed.Option("--verbose", help="Members, state and offsets, with every column.")
    ] = False,
) -> None:
    """Show how far groups have come: offsets and lag, members, state.

    Lag is counted by the brokers, from the committed offset to the end of the partition. A dash is
    what is not known: nothing committed, or a leader that did not answer. JSON holds all views.
    """

    async def look(admin: Admin) -> Sequence[GroupDescription]:
        return await admin.describe_groups(await _names(admin, groups, regex, output))

    sound = output.sound(cluster.ask(look), lambda group: group.group_id)
    documents = [_described(group) for group in sound]
    if verbose:
        members = state = offsets = True
        output.widen()
    if state:
        output.table(STATE_COLUMNS, documents, detail=offsets or members or by_topic)
    if by_topic:
        rows = [row for document in documents for row in document["topics"]]
        output.table(TOPIC_COLUMNS, rows, detail=offsets or members)
    elif offsets or members or not state:
        for number, document in enumerate(documents):
            if number or state:
                output.line()
            _show(document, output, offsets=offsets or not members, members=members)
    output.finish({"groups": documents})


def _described(group: GroupDescription) -> dict[str, Any]:
    owners: dict[TopicPartition, MemberDescription] = {
        tp: member for member in group.members for tp in member.partitions
    }
    rows: dict[TopicPartition, dict[str, Any]] = {}
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


def _by_topic(group: str, rows: Mapping[TopicPartition, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sums of each topic; a lag that is not known is not counted as none."""
    found: list[dict[str, Any]] = []
    for topic in dict.fromkeys(tp.topic for tp in sorted(rows)):
        lags = [row["lag"] for tp, row in rows.items() if tp.topic == topic]
        known = [lag for lag in lags if lag is not None]
        row = {"group": group, "topic": topic, "partition_count": len(lags)}
        found.append({**row, "lag": sum(known) if known else None})
    return found


def _partition(
    tp: TopicPartition, row: Mapping[str, Any], owner: MemberDescription | None
) -> dict[str, Any]:
    return {
        **tp._asdict(),
        **row,
        "member": None if owner is None else str(owner),
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
    }


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        **fields_of(member, "member_id group_instance_id client_id client_host topics"),
        "partitions": [tp._asdict() for tp in sorted(member.partitions)],
        "assignment": partitions_text(member.partitions),
    }


def _show(document: Mapping[str, Any], output: Output, *, offsets: bool, members: bool) -> None:
    count, lag = document["member_count"], document["lag"]
    parts = [document["state"], f"{count} member{'s' * (count != 1)}"]
    parts += [f"lag {lag}"] if lag is not None else []
    parts += [document["assignor"]] if document["assignor"] else []
    parts += [f"generation {document['generation_id']}"] if document["generation_id"] >= 0 else []
    parts.append(f"coordinator {document['coordinator']}")
    output.line(f"{document['group']}: {', '.join(parts)}")
    if members and document["members"]:
        output.line()
        output.table(
            MEMBER_COLUMNS, document["members"], under={"group": document["group"]}, detail=offsets
        )
    if offsets and document["offsets"]:
        output.line()
        output.table(OFFSET_COLUMNS, document["offsets"], under={"group": document["group"]})


app.command("reset-offsets")(reset_offsets)


@app.command()
def clone(
    output: Output,
    cluster: NamedCluster,
    source: Annotated[str, typed.Argument(metavar="SOURCE", autocompletion=complete_groups)],
    target: Annotated[str, typed.Argument(metavar="TARGET")],
    dry_run: DryRunOption = False,
) -> None:
    """Give a group the committed offsets of another one; it must have no members."""

    async def work(admin: Admin) -> tuple[ResetPlan, Mapping[TopicPartition, Exception]]:
        offsets = await offsets_of(admin, source, None)
        return await reset(admin, target, None, None, offsets, execute=not dry_run)

    plan, failed = cluster.ask(work)
    show_plan(plan, failed, output, execute=not dry_run, export=False)


# ------------------------------------------------------------------------------ delete


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    groups: Groups,
    regex: RegexOption = False,
    if_exists: Annotated[
        bool, typed.Option("--if-exists", help="A group that does not exist is no failure.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget groups that have no members, and their offsets."""
    from oncelog.admin.group_results import GroupHasMembersError

    async def find(admin: Admin) -> Sequence[GroupDescription]:
        names = await _names(admin, groups, regex, output)
        return await admin.describe_groups(names, include_offsets=False)

    quiet = "GROUP_ID_NOT_FOUND" if if_exists else ""
    names = []
    for group in cluster.ask(find):
        error = group.error
        if error is None and group.members:
            output.fail(group.group_id, GroupHasMembersError(group.group_id, group.members))
        elif error is None:
            names.append(group.group_id)
        elif error.name == quiet:
            output.line(f"{group.group_id} does not exist")
        else:
            output.fail(group.group_id, error)
    rows = [{"group": name, "deleted": False} for name in names]
    if dry_run:
        for name in names:
            output.line(f"would delete {name}")
    elif names:
        confirm(f"Delete {', '.join(names)} with all committed offsets?", yes)
        rows = [
            output.outcome(
                {"group": each.group_id}, "deleted", each.group_id, each.error, quiet=quiet
            )
            for each in cluster.ask(lambda admin: admin.delete_groups(names))
        ]
    output.finish({"dry_run": dry_run, "groups": rows}, DELETED_COLUMNS)


@app.command("delete-offsets")
def delete_offsets(
    output: Output,
    cluster: NamedCluster,
    group: GroupArgument,
    topic: Annotated[
        list[str],
        typed.Option(
            "--topic", "-t", metavar="TOPIC[:N,...]", help="Of these partitions; repeatable."
        ),
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget what a group has committed for topics that none of its members is subscribed to."""
    chosen = parsed("--topic", parse_partitions, topic)
    committed = sorted(cluster.ask(lambda admin: admin.list_group_offsets(group)))
    for name, number in chosen.partitions:
        if (name, number) not in committed:
            output.fail(f"{name}-{number}", f"{group} has no offset for {name}-{number}")
    for name in chosen.topics:
        if not any(tp.topic == name for tp in committed):
            output.fail(name, f"{group} has no offsets for {name}")
    found = [tp for tp in committed if tp in chosen]
    rows = [{**tp._asdict(), "deleted": False} for tp in found]
    if dry_run:
        for tp in found:
            output.line(f"would delete the offset of {tp}")
    elif found:
        confirm(f"Delete {len(found)} committed offsets of {group}?", yes)
        outcomes = cluster.ask(lambda admin: admin.delete_group_offsets(group, found))
        rows = [
            output.outcome(row, "deleted", str(each.partition), each.error, of="the offset of ")
            for row, each in zip(rows, outcomes, strict=True)
        ]
    output.finish({"dry_run": dry_run, "group": group, "offsets": rows}, DELETED_OFFSET_COLUMNS)
