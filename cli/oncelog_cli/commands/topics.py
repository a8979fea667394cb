"""``oncelog topics`` has commands to create, list, describe, alter and delete topics.

Rules: a topic that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. What destroys asks first; ``--dry-run`` shows what would be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.delete_records import delete_records
from oncelog_cli.commands.partitions import LEADING, OUTSIDE_ISR
from oncelog_cli.commands.topic_clone import clone
from oncelog_cli.commands.topic_offsets import offsets as show_offsets
from oncelog_cli.documents.answer import Failures
from oncelog_cli.documents.partitions import states_of, topics_and_min_isr
from oncelog_cli.health import needed_isr
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
from oncelog_cli.render import Column, Output, fields_of
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import ConfigOutcome, ConfigSetting, TopicDescription
    from oncelog.errors import ApiError

OFFSETS_DEADLINE_MS = 5_000
"""A leader that does not answer must not hold up the rest of a description."""

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
    rows = [
        _created(outcome, output, if_not_exists, dry_run)
        for outcome in cluster.ask(lambda admin: admin.create_topics(new, validate_only=dry_run))
    ]
    output.finish({"dry_run": dry_run, "topics": rows}, CREATED_COLUMNS)


def _created(outcome: Any, output: Output, if_not_exists: bool, dry_run: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": outcome.topic, "created": False}
    error = outcome.error
    if error is not None and if_not_exists and error.name == "TOPIC_ALREADY_EXISTS":
        output.line(f"{outcome.topic} exists")
        return row
    if error is not None:
        output.fail(outcome.topic, error)
        return {**row, "error": error.name}
    output.line(
        f"{'would create' if dry_run else 'created'} {outcome.topic}"
        + _counted(outcome.partition_count, outcome.replication_factor)
    )
    made = fields_of(outcome, "topic_id partition_count replication_factor")
    return {**row, "created": not dry_run, **made}


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

    failures = Failures()
    topics, min_isr = cluster.ask(
        lambda admin: topics_and_min_isr(admin, patterns, failures, regex=regex)
    )
    output.fail_each(failures)
    rows = [
        {**_summary(topic), **_against_min_isr(topic, min_isr)}
        for topic in topics
        if internal or not topic.internal or patterns
    ]
    conditions = {
        "under_replicated": under_replicated,
        "leaderless": unavailable,
        "under_min_isr": under_min_isr,
        "at_min_isr": at_min_isr,
    }
    asked = [key for key, wanted in conditions.items() if wanted]
    rows = [row for row in rows if all(row[key] for key in asked)]
    output.show(LIST_COLUMNS, {"topics": rows})


def _summary(topic: TopicDescription) -> dict[str, Any]:
    partitions = topic.partitions
    return {
        **fields_of(topic, "topic topic_id internal"),
        "partition_count": len(partitions),
        "replication_factor": max((len(p.replicas) for p in partitions), default=0),
        "under_replicated": sum(len(p.isr) < len(p.replicas) for p in partitions),
        "leaderless": sum(p.leader < 0 for p in partitions),
    }


def _against_min_isr(topic: TopicDescription, min_isr: Mapping[str, int]) -> dict[str, int]:
    states = [states_of(item, needed_isr(min_isr, topic.topic, item)) for item in topic.partitions]
    return {
        "min_isr": min_isr.get(topic.topic, 1),
        "under_min_isr": sum("under-min-isr" in each for each in states),
        "at_min_isr": sum("at-min-isr" in each for each in states),
    }


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

    async def look(admin: Admin) -> tuple[Sequence[TopicDescription], Sequence[ConfigOutcome]]:
        names = await clients.topics_named(admin, topics, regex=regex)
        return await admin.describe_topics(names), await admin.describe_configs(topics=names)

    found, settings = cluster.ask(look)
    set_of = {outcome.name: outcome.settings for outcome in settings if outcome.error is None}
    sound = output.sound(found, lambda topic: topic.topic)
    held = run(_offsets(cluster.servers, sound, output)) if offsets else {}
    documents = [
        _described(topic, set_of.get(topic.topic, {}), held, every=configs) for topic in sound
    ]
    for number, document in enumerate(documents):
        if number:
            output.line()
        _show(document, output)
    output.finish({"topics": documents})


def _described(
    topic: TopicDescription,
    settings: Mapping[str, ConfigSetting],
    held: Mapping[tuple[str, int], tuple[int, int]],
    *,
    every: bool,
) -> dict[str, Any]:
    partitions = []
    for item in topic.partitions:
        start, end = held.get((topic.topic, item.partition), (None, None))
        fields = "partition leader leader_epoch replicas isr elr last_known_elr offline_replicas"
        row = fields_of(item, fields)
        partitions.append({**row, "start_offset": start, "end_offset": end})
    chosen = [setting for setting in settings.values() if every or setting.source == "topic"]
    return {
        **_summary(topic),
        "partitions": partitions,
        "configs": [
            fields_of(setting, "key value source documentation")
            for setting in sorted(chosen, key=lambda setting: setting.key)
        ],
    }


def _show(document: Mapping[str, Any], output: Output) -> None:
    counted = _counted(document["partition_count"], document["replication_factor"])
    output.line(f"{document['topic']}{counted}, id {document['topic_id']}")
    output.line()
    output.table(PARTITION_COLUMNS, document["partitions"], under={"topic": document["topic"]})
    if document["configs"]:
        output.line()
        output.table(CONFIG_COLUMNS, document["configs"], detail=True)


async def _offsets(
    servers: str, topics: Sequence[TopicDescription], output: Output
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first offset and the end of every partition whose leader answers."""
    from oncelog import OncelogError, TopicPartition

    wanted = [
        TopicPartition(topic.topic, item.partition)
        for topic in topics
        for item in topic.partitions
        if item.leader >= 0
    ]
    if not wanted:
        return {}
    try:
        async with clients.consumer(servers, max_block_ms=OFFSETS_DEADLINE_MS) as consumer:
            starts = await consumer.beginning_offsets(wanted)
            ends = await consumer.end_offsets(wanted)
    except OncelogError as error:
        output.note(f"offsets are not known: {error}")
        return {}
    return {(tp.topic, tp.partition): (starts[tp], ends[tp]) for tp in wanted}


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
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typed.Option("--delete-config", metavar="KEY", help="Back to the default; repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Add partitions to topics, or change their settings; what is not named stays.

    With more partitions a key may belong to another one than before.
    """
    entries = set_and_deleted(config or (), delete_config or ())
    if partitions is None and not entries:
        raise UsageError("say what to change: --partitions, --config or --delete-config")

    async def change(admin: Admin) -> list[dict[str, Any]]:
        names = await clients.topics_named(admin, topics, regex=regex)
        failed: dict[str, str] = {}

        def note_failure(name: str, error: ApiError | None) -> None:
            if error is not None:
                output.fail(name, error)
                failed[name] = error.name

        if entries:
            changes = dict.fromkeys(names, entries)
            for changed in await admin.alter_configs(changes, validate_only=dry_run):
                note_failure(changed.name, changed.error)
        # Settings are checked first: a topic whose settings were refused is not grown.
        left = [name for name in names if name not in failed]
        if partitions is not None and left:
            counts = dict.fromkeys(left, partitions)
            for grown in await admin.create_partitions(counts, validate_only=dry_run):
                note_failure(grown.topic, grown.error)
        return [_altered(name, failed, dry_run, output) for name in names]

    output.finish({"dry_run": dry_run, "topics": cluster.ask(change)}, ALTERED_COLUMNS)


def _altered(name: str, failed: Mapping[str, str], dry_run: bool, output: Output) -> dict[str, Any]:
    if name in failed:
        return {"topic": name, "altered": False, "error": failed[name]}
    output.line(f"{'would alter' if dry_run else 'altered'} {name}")
    return {"topic": name, "altered": not dry_run}


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

    async def find(admin: Admin) -> Sequence[TopicDescription]:
        return await admin.describe_topics(await clients.topics_named(admin, topics, regex=regex))

    quiet = "UNKNOWN_TOPIC_OR_PARTITION" if if_exists else ""
    names = []
    for topic in cluster.ask(find):
        if topic.error is None:
            names.append(topic.topic)
        elif topic.error.name == quiet:
            output.line(f"{topic.topic} does not exist")
        else:
            output.fail(topic.topic, topic.error)
    rows: list[dict[str, Any]] = [{"topic": name, "deleted": False} for name in names]
    if dry_run:
        for name in names:
            output.line(f"would delete {name}")
    elif names:
        confirm(f"Delete {', '.join(names)} with all records?", yes)
        rows = [
            output.outcome({"topic": each.topic}, "deleted", each.topic, each.error, quiet=quiet)
            for each in cluster.ask(lambda admin: admin.delete_topics(names))
        ]
    output.finish({"dry_run": dry_run, "topics": rows}, DELETED_COLUMNS)
