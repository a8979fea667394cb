"""``oncelog topics`` has commands to create, list, describe, alter and delete topics.

Rules: a topic that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. What destroys asks first; ``--dry-run`` shows what would be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.balance import begin_plan, show_plan
from oncelog_cli.commands.delete_records import delete_records
from oncelog_cli.commands.partitions import LEADING, OUTSIDE_ISR
from oncelog_cli.commands.topic_clone import clone
from oncelog_cli.commands.topic_offsets import offsets as show_offsets
from oncelog_cli.documents.balancing import planned_factor
from oncelog_cli.documents.topics import (
    altered_topics,
    created_topics,
    deleted_topics,
    described_topics,
    doomed_topics,
    listed_topics,
)
from oncelog_cli.options import (
    DryRunOption,
    RegexOption,
    SomeTopicsArgument,
    TopicsArgument,
    UsageError,
    YesOption,
    confirm,
    key_values,
    set_and_deleted,
)
from oncelog_cli.render import Column, Output

app = typed.App(help="Create, list, describe, alter and delete topics.")

NewTopics = Annotated[list[str], typed.Argument(metavar="TOPIC...")]
Configs = Annotated[
    list[str] | None,
    typed.Option("--config", "-c", metavar="KEY=VALUE", help="A setting; repeatable."),
]

UnderMinIsrOption = Annotated[
    bool, typed.Option("--under-min-isr", help="Only with too few in-sync replicas to write.")
]
AtMinIsrOption = Annotated[
    bool, typed.Option("--at-min-isr", help="Only with just enough of them.")
]

LIST_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partition_count", right=True),
    Column("REPLICAS", "replication_factor", right=True),
    Column("UNDER-REPLICATED", "under_replicated", right=True),
    Column("LEADERLESS", "leaderless", right=True),
    Column("UNDER MIN ISR", "under_min_isr", right=True, wide=True),
    Column("AT MIN ISR", "at_min_isr", right=True, wide=True),
    Column("ID", "topic_id", wide=True),
    Column("INTERNAL", "internal", wide=True),
)
PARTITION_COLUMNS = (
    Column("PARTITION", "partition", right=True),
    *LEADING,
    *OUTSIDE_ISR,
    Column("START", "start_offset", right=True),
    Column("END", "end_offset", right=True),
    Column("ADDING", "adding", wide=True),
    Column("REMOVING", "removing", wide=True),
)
CONFIG_COLUMNS = (
    Column("SETTING", "key"),
    Column("VALUE", "value"),
    Column("SOURCE", "source"),
    Column("MEANING", "documentation", wide=True),
)
ERROR_COLUMN = Column("ERROR", "error")
CREATED_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("CREATED", "created"),
    Column("ID", "topic_id"),
    Column("PARTITIONS", "partition_count"),
    Column("REPLICAS", "replication_factor"),
    ERROR_COLUMN,
)
ALTERED_COLUMNS = (Column("TOPIC", "topic"), Column("ALTERED", "altered"), ERROR_COLUMN)
DELETED_COLUMNS = (Column("TOPIC", "topic"), Column("DELETED", "deleted"), ERROR_COLUMN)


# ------------------------------------------------------------------------------ create


@app.command()
def create(
    output: Output,
    cluster: NamedCluster,
    topics: NewTopics,
    partitions: Annotated[
        int,
        typed.Option("--partitions", "-p", min=-1, metavar="N", help="-1: the broker's default."),
    ] = -1,
    replication_factor: Annotated[
        int,
        typed.Option(
            "--replication-factor", "-r", min=-1, metavar="N", help="-1: the broker's default."
        ),
    ] = -1,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typed.Option("--if-not-exists", help="A topic that exists is no failure.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create topics; returns when their partitions have leaders."""
    if 0 in (partitions, replication_factor):
        raise UsageError("--partitions and --replication-factor are at least 1, or -1")
    configs = key_values("--config", config or ())
    from oncelog import NewTopic

    new = [
        NewTopic(topic, partitions, replication_factor, configs) for topic in dict.fromkeys(topics)
    ]
    answer = cluster.ask(
        lambda admin: created_topics(admin, new, if_not_exists=if_not_exists, dry_run=dry_run)
    )
    document = output.document_of(answer)
    for row in document["topics"]:
        if "topic_id" in row:
            counted = _counted(row["partition_count"], row["replication_factor"])
            output.line(f"{'would create' if dry_run else 'created'} {row['topic']}{counted}")
        elif "error" not in row:
            output.line(f"{row['topic']} exists")
    output.finish(document, CREATED_COLUMNS)


def _counted(partitions: int, replicas: int) -> str:
    if partitions < 0 or replicas < 0:
        return ""
    return f": {partitions} partition{'s' * (partitions != 1)}, replication factor {replicas}"


# ------------------------------------------------------------------------------ list


@app.command("list")
def list_topics(
    output: Output,
    cluster: NamedCluster,
    patterns: SomeTopicsArgument = None,
    regex: RegexOption = False,
    internal: Annotated[
        bool, typed.Option("--internal", help="The cluster's own topics as well.")
    ] = False,
    under_replicated: Annotated[
        bool, typed.Option("--under-replicated", help="Only with replicas out of the ISR.")
    ] = False,
    unavailable: Annotated[
        bool, typed.Option("--unavailable", help="Only with partitions that nobody leads.")
    ] = False,
    under_min_isr: UnderMinIsrOption = False,
    at_min_isr: AtMinIsrOption = False,
) -> None:
    """List the topics, with the health of their replicas."""
    conditions = {
        "under_replicated": under_replicated,
        "leaderless": unavailable,
        "under_min_isr": under_min_isr,
        "at_min_isr": at_min_isr,
    }
    asked = [key for key, wanted in conditions.items() if wanted]
    answer = cluster.ask(
        lambda admin: listed_topics(
            admin, patterns, regex=regex, internal=internal, conditions=asked
        )
    )
    output.show(LIST_COLUMNS, output.document_of(answer))


# ------------------------------------------------------------------------------ describe


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    topics: TopicsArgument,
    regex: RegexOption = False,
    configs: Annotated[
        bool, typed.Option("--configs", help="Every setting in force, not only the topic's own.")
    ] = False,
    offsets: Annotated[
        bool, typed.Option("--offsets/--no-offsets", help="Ask the leaders for offsets.")
    ] = True,
) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics."""
    answer = cluster.ask(
        lambda admin: described_topics(
            admin, topics, regex=regex, every_setting=configs, offsets=offsets
        )
    )
    document = output.document_of(answer)
    for number, topic in enumerate(document["topics"]):
        if number:
            output.line()
        _show(topic, output)
    output.finish(document)


def _show(document: Mapping[str, Any], output: Output) -> None:
    counted = _counted(document["partition_count"], document["replication_factor"])
    output.line(f"{document['topic']}{counted}, id {document['topic_id']}")
    output.line()
    rows = document["partitions"]
    moves = any(row["adding"] or row["removing"] for row in rows)
    columns = [
        replace(each, wide=False) if moves and each.key in ("adding", "removing") else each
        for each in PARTITION_COLUMNS
    ]
    output.table(columns, rows, under={"topic": document["topic"]})
    if document["configs"]:
        output.line()
        output.table(CONFIG_COLUMNS, document["configs"], detail=True)


# ------------------------------------------------------------------------------ alter


@app.command()
def alter(
    output: Output,
    cluster: NamedCluster,
    topics: TopicsArgument,
    regex: RegexOption = False,
    partitions: Annotated[
        int | None, typed.Option("--partitions", "-p", min=1, metavar="N", help="Grow to so many.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typed.Option(
            "--replication-factor", min=1, metavar="N", help="Move to so many replicas; alone."
        ),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typed.Option("--delete-config", metavar="KEY", help="Back to the default; repeatable."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Add partitions to topics, or change their settings; what is not named stays.

    With more partitions a key may belong to another one than before. With --replication-factor
    replicas are added or dropped while the topic is written and read, after a question; 'partitions
    status' shows how far that is.
    """
    entries = set_and_deleted(config or (), delete_config or ())
    if replication_factor is not None:
        if partitions is not None or entries:
            raise UsageError("--replication-factor is changed alone: say the rest another time")
        _alter_factor(output, cluster, topics, replication_factor, regex, yes, dry_run)
        return
    if partitions is None and not entries:
        raise UsageError(
            "say what to change: --partitions, --config, --delete-config or --replication-factor"
        )
    answer = cluster.ask(
        lambda admin: altered_topics(
            admin, topics, entries, partitions, regex=regex, dry_run=dry_run
        )
    )
    document = output.document_of(answer)
    sound = (row["topic"] for row in document["topics"] if "error" not in row)
    output.tell("would alter" if dry_run else "altered", sound)
    output.finish({**document, "partitions": [], "plan_id": None}, ALTERED_COLUMNS)


def _alter_factor(
    output: Output,
    cluster: NamedCluster,
    topics: list[str],
    factor: int,
    regex: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    planned = cluster.ask(lambda admin: planned_factor(admin, topics, factor, regex=regex))
    document = planned
    if planned["partitions"] and not dry_run:
        reason = f"replication factor {factor}"
        document = begin_plan(output, cluster, planned, "Change", reason, yes)
    show_plan(output, document)
    altered = [{"topic": name, "altered": not dry_run} for name in planned["topics"]]
    rows, plan_id = document["partitions"], document["plan_id"]
    output.finish({"dry_run": dry_run, "topics": altered, "partitions": rows, "plan_id": plan_id})


app.command("trim-prefix")(delete_records)
app.command("clone")(clone)
app.command("offsets")(show_offsets)


# ------------------------------------------------------------------------------ delete


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    topics: TopicsArgument,
    regex: RegexOption = False,
    if_exists: Annotated[
        bool, typed.Option("--if-exists", help="A topic that does not exist is no failure.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete topics with all their records."""
    plan = cluster.ask(lambda admin: doomed_topics(admin, topics, regex=regex, if_exists=if_exists))
    document = output.document_of(plan)
    for name in plan.missing:
        output.line(f"{name} does not exist")
    names = [row["topic"] for row in document["topics"]]
    if dry_run:
        output.tell("would delete", names)
    elif names:
        confirm(f"Delete {', '.join(names)} with all records?", yes)
        answer = cluster.ask(lambda admin: deleted_topics(admin, names, if_exists=if_exists))
        document = output.document_of(answer)
        output.tell("deleted", (row["topic"] for row in document["topics"] if row["deleted"]))
    output.finish({**document, "dry_run": dry_run}, DELETED_COLUMNS)
