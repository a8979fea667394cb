"""``oncelog elect-leaders`` lets preferred replicas lead again, or any replica where none leads.

Rules: a partition that needs no election is no failure. An unclean election may lose records that
were acknowledged, so it asks first, and takes only partitions that are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.partitions import LEADER
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen, parse_partitions
from oncelog_cli.options import (
    DryRunOption,
    UsageError,
    YesOption,
    complete_topics,
    confirm,
    parsed,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output, fields_of

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.results import TopicDescription

NOT_NEEDED = "ELECTION_NOT_NEEDED"

COLUMNS = (
    *PARTITION_NAME,
    LEADER,
    Column("PREFERRED", "preferred", right=True),
    Column("RESULT", "result"),
)

TopicOption = Annotated[
    list[str] | None,
    typed.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:N,...]",
        help="Of these partitions; repeatable. Default: of all that need it.",
        autocompletion=complete_topics,
    ),
]


def elect_leaders(
    output: Output,
    cluster: NamedCluster,
    topic: TopicOption = None,
    unclean: Annotated[
        bool,
        typed.Option(
            "--unclean",
            help="Let any live replica lead where nobody does; records may be lost.",
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Give partitions to their preferred leaders; with --unclean, those without one to anybody."""
    if unclean and not topic:
        raise UsageError("--unclean may lose records: name the partitions with --topic")
    chosen = parsed("--topic", parse_partitions, topic) if topic else None
    rows = cluster.ask(lambda admin: _candidates(admin, chosen, unclean=unclean))
    needed = [row for row in rows if row["result"] == "needed"]
    if needed and not dry_run:
        if unclean:
            names = ", ".join(f"{row['topic']}-{row['partition']}" for row in needed)
            confirm(f"Elect leaders of {names} that may lack acknowledged records?", yes)
        cluster.ask(lambda admin: _elect(admin, needed, output, unclean=unclean))
    output.show(COLUMNS, {"dry_run": dry_run, "unclean": unclean, "partitions": rows})


async def _candidates(
    admin: Admin, chosen: Chosen | None, *, unclean: bool
) -> list[dict[str, Any]]:
    """Return one row for each partition that was named, or that needs an election.

    :raises CommandError: a partition that was named does not exist.
    """
    if chosen is None:
        described: Sequence[TopicDescription] = await admin.describe_topics()
    else:
        names = dict.fromkeys([*chosen.topics, *(name for name, _ in chosen.partitions)])
        described = await admin.describe_topics(names)
    rows = []
    seen = set()
    for item in described:
        if item.error is not None:
            raise item.error
        for part in item.partitions:
            if chosen is not None and (item.topic, part.partition) not in chosen:
                continue
            seen.add((item.topic, part.partition))
            preferred = part.replicas[0] if part.replicas else -1
            wanted = part.leader < 0 if unclean else part.leader != preferred
            if wanted or chosen is not None:
                row = {"topic": item.topic, **fields_of(part, "partition leader")}
                result = "needed" if wanted else "not needed"
                rows.append({**row, "preferred": preferred, "result": result})
    for name, number in chosen.partitions if chosen is not None else ():
        if (name, number) not in seen:
            raise CommandError(f"topic {name!r} has no partition {number}")
    return rows


async def _elect(
    admin: Admin, rows: Sequence[dict[str, Any]], output: Output, *, unclean: bool
) -> None:
    """Ask for the elections; each row says afterwards what became of it."""
    from oncelog import TopicPartition

    by_name: dict[TopicPartition, dict[str, Any]] = {
        TopicPartition(row["topic"], row["partition"]): row for row in rows
    }
    for outcome in await admin.elect_leaders(list(by_name), unclean=unclean):
        row = by_name[TopicPartition(*outcome.partition)]
        error = outcome.error
        if error is None:
            row["result"] = "elected"
        elif error.name == NOT_NEEDED:
            row["result"] = "not needed"
        else:
            row["result"] = "failed"
            row["error"] = error.name
            output.fail(str(outcome.partition), error)
    described = await admin.describe_topics(dict.fromkeys(tp.topic for tp in by_name))
    for item in described:
        for part in item.partitions:
            known = by_name.get(TopicPartition(item.topic, part.partition))
            if known is not None:
                known["leader"] = part.leader
