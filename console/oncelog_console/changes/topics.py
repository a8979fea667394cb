"""Topics are created, grown and deleted by these changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog import NewTopic, Record, TopicPartition
from oncelog.admin.results import TopicDescription
from oncelog_cli.documents.answer import Answer, Row
from oncelog_cli.documents.offsets import held_offsets
from oncelog_cli.documents.topics import (
    altered_topics,
    created_topics,
    deleted_topics,
    doomed_topics,
)
from oncelog_cli.offset_range import HeldOffsets
from oncelog_cli.options import UsageError, key_values
from oncelog_console import commands
from oncelog_console.changes.change import (
    ChangeKind,
    Desk,
    FormError,
    FormField,
    Preview,
    RefusedError,
    ShownColumn,
    Table,
    TopicChange,
    Values,
    all_sound,
    needed_number,
    number_of,
    own_topic,
)
from oncelog_console.changes.readers import groups_reading, open_transactions
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import duration_text
from oncelog_protocol.errors import ClusterAuthorizationFailedError

PARTITIONS_MAX = 100_000
REPLICAS_MAX = 1_000
SAMPLE_PARTITIONS = 20
"""Keys are counted in records of so many partitions at most."""


async def described(desk: Desk, topic: str) -> TopicDescription:
    """Return a topic of the users' own.

    :raises RefusedError: it is internal. :raises ApiError: it does not exist.
    """
    (found,) = (await desk.admin.describe_topics([topic])).raise_for_errors()
    if found.internal:
        raise RefusedError(f"{topic} belongs to the cluster itself: this console only shows it")
    return found


def partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    """Return the partitions of a topic."""
    return [TopicPartition(topic.topic, item.partition) for item in topic.partitions]


async def held_by(desk: Desk, topic: TopicDescription) -> dict[TopicPartition, HeldOffsets]:
    """Return which committed offsets each partition holds; those of silent leaders are missing."""
    held, _ = await held_offsets(desk.admin, partitions_of(topic), timeout_ms=5_000)
    return held


# ------------------------------------------------------------------------------ create


@dataclass(frozen=True, slots=True)
class CreateTopic(TopicChange):
    """A topic comes to be; -1 leaves a count to the brokers."""

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    kind = "create-topic"

    def command(self, seen: Preview) -> CommandLine:
        return commands.create_topic(
            self.topic, self.partitions, self.replication_factor, self.configs
        )

    @property
    def _new(self) -> NewTopic:
        return NewTopic(self.topic, self.partitions, self.replication_factor, self.configs)

    async def look(self, desk: Desk) -> Preview:
        answer = all_sound(await created_topics(desk.admin, [self._new], dry_run=True))
        (row,) = answer.document["topics"]
        brokers = await _live_brokers(desk)
        partitions, replicas = row["partition_count"], row["replication_factor"]
        sentences = [
            f"{self.topic} gets {_count(partitions, 'partition')} of {_count(replicas, 'replica')}."
            if partitions > 0 and replicas > 0
            else f"{self.topic} gets the numbers of partitions and replicas that brokers have set.",
            "The controller spreads them over the live brokers, and over racks where brokers have"
            " any; the first replica of each partition leads it.",
        ]
        table = Table(
            "Brokers that can have replicas",
            (
                ShownColumn("BROKER", "broker", "number"),
                ShownColumn("RACK", "rack"),
                ShownColumn("STATE", "state"),
            ),
            brokers,
        )
        facts = {
            "the partitions that it gets": partitions,
            "the replicas of each": replicas,
            "brokers that are alive": tuple(sorted(each["broker"] for each in brokers)),
        }
        return Preview(answer, facts, sentences, [table] if brokers else [])

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await created_topics(desk.admin, [self._new])

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        return desk.seen().topic(self.topic) is not None


async def _live_brokers(desk: Desk) -> list[Row]:
    """Return the brokers that can have replicas; none for who may not see the cluster."""
    try:
        cluster = await desk.admin.describe_cluster()
    except ClusterAuthorizationFailedError:
        return []
    return [
        {"broker": each.broker_id, "rack": each.rack or "none", "state": each.state}
        for each in cluster.brokers
    ]


def _create(values: Values, now_ms: int) -> CreateTopic:
    topic = own_topic(values)
    try:
        configs = key_values("configs", lines_of(values["configs"]))
    except UsageError as error:
        raise FormError(str(error)) from None
    return CreateTopic(
        topic,
        number_of(values, "partitions", least=1, most=PARTITIONS_MAX) or -1,
        number_of(values, "replication_factor", least=1, most=REPLICAS_MAX) or -1,
        configs,
    )


def lines_of(text: str) -> list[str]:
    """Return the lines of an area that are not empty."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


CREATE_TOPIC = ChangeKind(
    "create-topic",
    "Create a topic",
    "A new topic gets partitions, which brokers keep.",
    (
        FormField("topic", "Name", required=True),
        FormField("partitions", "Partitions", help="Empty: as many as brokers have set."),
        FormField("replication_factor", "Replicas of each", help="Empty: as brokers have set."),
        FormField("configs", "Settings", "area", "One KEY=VALUE a line: retention_ms=86400000"),
    ),
    _create,
)


# ------------------------------------------------------------------------------ grow


@dataclass(frozen=True, slots=True)
class AddPartitions(TopicChange):
    """A topic gets more partitions, and keys move."""

    topic: str
    partitions: int
    kind = "add-partitions"

    def command(self, seen: Preview) -> CommandLine:
        return commands.add_partitions(self.topic, self.partitions)

    async def look(self, desk: Desk) -> Preview:
        topic = await described(desk, self.topic)
        answer = all_sound(await self._altered(desk, dry_run=True))
        before = len(topic.partitions)
        held = await held_by(desk, topic)
        records = sum(each.end - each.start for each in held.values())
        sentences = [
            f"{self.topic} has {_count(before, 'partition')}, and gets {self.partitions - before}"
            f" more, with {max(len(p.replicas) for p in topic.partitions)} replicas each.",
            f"{_count(records, 'offset')} lie in it now; records stay where they are.",
        ]
        warnings = [await self._of_keys(desk, held, before)]
        facts = {
            "the id of the topic": topic.topic_id,
            f"partitions of {self.topic}": before,
        }
        return Preview(answer, facts, sentences, (), warnings)

    async def _of_keys(
        self, desk: Desk, held: Mapping[TopicPartition, HeldOffsets], before: int
    ) -> str:
        """Say what becomes of keys, with a sample of the newest records."""
        newest = {tp: each.end - 1 for tp, each in sorted(held.items()) if each.end > each.start}
        sample = dict(list(newest.items())[:SAMPLE_PARTITIONS])
        found = await desk.records_at(sample)
        keyed = sum(record.key is not None for record in found.values())
        moved = 1 - before / self.partitions
        if not found:
            return "A key may belong to another partition than before; no record was found to ask."
        if not keyed:
            return (
                f"None of the newest records of {_count(len(found), 'partition')} has a key:"
                " the order of keys is no matter here."
            )
        return (
            f"{keyed} of the {len(found)} newest records, one a partition, have a key."
            f" About {moved:.0%} of all keys belong to another partition afterwards: the records"
            " of such a key lie in two partitions, and whoever needs their order reads both."
        )

    async def _altered(self, desk: Desk, *, dry_run: bool) -> Answer:
        return await altered_topics(desk.admin, [self.topic], {}, self.partitions, dry_run=dry_run)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await self._altered(desk, dry_run=False)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        topic = desk.seen().topic(self.topic)
        return topic is not None and len(topic.partitions) >= self.partitions


def _grow(values: Values, now_ms: int) -> AddPartitions:
    return AddPartitions(
        own_topic(values), needed_number(values, "partitions", least=1, most=PARTITIONS_MAX)
    )


ADD_PARTITIONS = ChangeKind(
    "add-partitions",
    "Add partitions",
    "A topic gets more partitions; it can never have fewer again.",
    (
        FormField("topic", "Topic", required=True),
        FormField("partitions", "Partitions afterwards", required=True),
    ),
    _grow,
)


# ------------------------------------------------------------------------------ delete


@dataclass(frozen=True, slots=True)
class DeleteTopic(TopicChange):
    """A topic goes with all its records."""

    topic: str
    kind = "delete-topic"

    @property
    def typed(self) -> str:
        return self.topic

    @property
    def page(self) -> str:
        return "/topics"

    def command(self, seen: Preview) -> CommandLine:
        return commands.delete_topic(self.topic)

    async def look(self, desk: Desk) -> Preview:
        topic = await described(desk, self.topic)
        answer = all_sound(await doomed_topics(desk.admin, [self.topic]))
        held = await held_by(desk, topic)
        sizes = await sizes_of(desk, topic)
        ends = {tp: each.end for tp, each in held.items()}
        readers = await groups_reading(desk, self.topic, ends)
        writing = await open_transactions(desk, partitions_of(topic))
        last = await last_records(desk, held)
        rows: list[Row] = []
        for tp in partitions_of(topic):
            known = held.get(tp)
            record = last.get(tp)
            rows.append(
                {
                    "partition": tp.partition,
                    "records": None if known is None else known.end - known.start,
                    "bytes": sizes.get(tp),
                    "last": None if record is None else record.timestamp,
                }
            )
        facts: dict[str, object] = {
            "the id of the topic": topic.topic_id,
            "its number of partitions": len(topic.partitions),
        }
        for tp, each in sorted(held.items()):
            facts[f"the end of {tp}"] = each.end
        facts.update({**readers.facts, **writing.facts})
        records = sum(each.end - each.start for each in held.values())
        times = [record.timestamp for record in last.values()]
        age = (
            f" The last was written {duration_text(max(desk.now_ms - max(times), 0))} ago."
            if times
            else ""
        )
        sentences = [
            f"{self.topic} goes with {_count(len(rows), 'partition')} and up to"
            f" {_count(records, 'record')}, for good.{age}",
            *readers.sentences,
        ]
        tables = [
            Table(
                "What goes",
                (
                    ShownColumn("PARTITION", "partition", "number"),
                    ShownColumn("RECORDS, AT MOST", "records", "number"),
                    ShownColumn("BYTES", "bytes", "bytes"),
                    ShownColumn("LAST WRITE", "last", "time"),
                ),
                rows,
            ),
            *readers.tables,
            *writing.tables,
        ]
        return Preview(answer, facts, sentences, tables, [*readers.warnings, *writing.warnings])

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await deleted_topics(desk.admin, [self.topic])

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        topic = desk.seen().topic(self.topic)
        return topic is None or topic.topic_id != seen.facts["the id of the topic"]


async def sizes_of(desk: Desk, topic: TopicDescription) -> dict[TopicPartition, int]:
    """Return the bytes of each partition at its leader; what a broker did not say is missing."""
    leaders = {
        TopicPartition(topic.topic, item.partition): item.leader for item in topic.partitions
    }
    found: dict[TopicPartition, int] = {}
    for directory in await desk.admin.describe_log_dirs(topics=[topic.topic]):
        for replica in directory.replicas:
            if leaders.get(replica.partition) == directory.broker_id:
                found[replica.partition] = replica.size_bytes
    return found


async def last_records(
    desk: Desk, held: Mapping[TopicPartition, HeldOffsets]
) -> dict[TopicPartition, Record]:
    """Return the last record of each partition; none where the last offset is a marker's."""
    last = {tp: each.end - 1 for tp, each in held.items() if each.end > each.start}
    return await desk.records_at(last, within_s=1.0)


def _delete(values: Values, now_ms: int) -> DeleteTopic:
    return DeleteTopic(own_topic(values))


DELETE_TOPIC = ChangeKind(
    "delete-topic",
    "Delete a topic",
    "A topic goes with all its records, at all brokers, for good.",
    (FormField("topic", "Topic", required=True),),
    _delete,
)
KINDS = (CREATE_TOPIC, ADD_PARTITIONS, DELETE_TOPIC)
