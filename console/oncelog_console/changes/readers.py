"""Who is affected is found out here: groups that read a topic, and transactions that are open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oncelog import TopicPartition
from oncelog_cli.documents.answer import Row
from oncelog_console.changes.change import Desk, Facts, ShownColumn, Table

GROUPS_MAX = 2_000
"""So many groups are asked whether they read a topic."""
SLICE = 200


@dataclass(frozen=True, slots=True)
class Affected:
    """These are affected, for a plan to show and to hold on to."""

    facts: Facts
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    warnings: Sequence[str] = ()


async def groups_reading(desk: Desk, topic: str, going: Mapping[TopicPartition, int]) -> Affected:
    """Return the groups with offsets in a topic, and how much each has not read of what goes.

    :param going: everything below these offsets goes.
    """
    listed = await desk.admin.list_groups()
    names = [group.group_id for group in listed]
    asked = names[:GROUPS_MAX]
    rows: list[Row] = []
    warnings = [f"broker {broker}: {error}" for broker, error in listed.unanswered.items()]
    if len(names) > len(asked):
        warnings.append(f"{len(names) - len(asked):,} more groups exist, and were not asked")
    for first in range(0, len(asked), SLICE):
        for group in await desk.admin.describe_groups(asked[first : first + SLICE]):
            if group.error is not None:
                warnings.append(f"group {group.group_id}: {group.error}")
                continue
            unread = [
                max(0, going[item.partition] - item.committed.offset)
                for item in group.offsets
                if item.partition in going
            ]
            if unread:
                row = {"group": group.group_id, "state": group.state}
                rows.append({**row, "members": len(group.members), "unread": sum(unread)})
    behind = [row["group"] for row in rows if row["unread"]]
    facts = {
        f"groups that read {topic}": tuple(row["group"] for row in rows),
        "groups that have not read all of what goes": tuple(behind),
    }
    sentence = f"No group has committed an offset of {topic}."
    if rows:
        sentence = (
            f"{len(behind)} of {len(rows)} groups that read {topic} have not read all of that."
        )
    columns = (
        ShownColumn("GROUP", "group"),
        ShownColumn("STATE", "state"),
        ShownColumn("MEMBERS", "members", "number"),
        ShownColumn("NOT READ OF WHAT GOES", "unread", "number"),
    )
    tables = [Table("Groups that read it", columns, rows)] if rows else []
    return Affected(facts, [sentence], tables, warnings)


async def open_transactions(desk: Desk, partitions: Iterable[TopicPartition]) -> Affected:
    """Return the transactions that are open in some partitions."""
    rows: list[Row] = []
    warnings = []
    for answer in await desk.admin.describe_producers(partitions):
        if answer.error is not None:
            warnings.append(f"{answer.partition}: open transactions are not known: {answer.error}")
        rows += [
            {
                "partition": str(answer.partition),
                "producer_id": each.producer_id,
                "start_offset": each.txn_start_offset,
                "last": each.last_timestamp_ms,
            }
            for each in answer.producers
            if each.txn_start_offset is not None
        ]
    named = tuple(f"producer {row['producer_id']} in {row['partition']}" for row in rows)
    columns = (
        ShownColumn("PARTITION", "partition"),
        ShownColumn("PRODUCER", "producer_id", "number"),
        ShownColumn("OPEN FROM OFFSET", "start_offset", "number"),
        ShownColumn("LAST WRITE", "last", "time"),
    )
    tables = [Table("Open transactions", columns, rows)] if rows else []
    if rows:
        warnings.append(f"{len(rows)} transactions are open there: somebody writes at this moment")
    return Affected({"transactions that are open there": named}, (), tables, warnings)
