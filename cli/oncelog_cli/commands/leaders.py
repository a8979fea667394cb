"""``oncelog elect-leaders`` lets preferred replicas lead again, or any replica where none leads.

Rules: a partition that needs no election is no failure. An unclean election may lose records that
were acknowledged, so it asks first, and takes only partitions that are named.
"""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.partitions import LEADER
from oncelog_cli.documents.partitions import elected_leaders, needed_elections
from oncelog_cli.group_offsets import parse_partitions
from oncelog_cli.options import (
    DryRunOption,
    UsageError,
    YesOption,
    complete_topics,
    confirm,
    parsed,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output

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
    document = cluster.ask(lambda admin: needed_elections(admin, chosen, unclean=unclean))
    rows = document["partitions"]
    needed = [row for row in rows if row["result"] == "needed"]
    if needed and not dry_run:
        if unclean:
            names = ", ".join(f"{row['topic']}-{row['partition']}" for row in needed)
            confirm(f"Elect leaders of {names} that may lack acknowledged records?", yes)
        document = output.document_of(
            cluster.ask(lambda admin: elected_leaders(admin, rows, unclean=unclean))
        )
    output.show(COLUMNS, {**document, "dry_run": dry_run})
