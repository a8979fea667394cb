"""One record is produced by these changes, and records are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog import Record, TopicPartition
from oncelog.producer.partitioner import STICKY, make_partitioner
from oncelog_cli.documents.answer import Answer, Failures, Row
from oncelog_cli.documents.production import Tally
from oncelog_cli.documents.record_deletion import (
    WantedDeletion,
    deleted_records,
    planned_deletion,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import parse_partitions
from oncelog_cli.offset_range import parse_range
from oncelog_cli.record_text import InputRecord, from_json_value, to_json_value
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
    failures_text,
    needed_number,
    number_of,
    own_topic,
)
from oncelog_console.changes.readers import groups_reading, open_transactions
from oncelog_console.changes.topics import described, lines_of, sizes_of
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import segment, size_text
from oncelog_protocol.errors import OncelogError

DELIVERY_TIMEOUT_MS = 30_000
"""A form waits so long for the acknowledgement of its record."""

# ------------------------------------------------------------------------------ produce


@dataclass(frozen=True, slots=True)
class ProduceRecord(TopicChange):
    """One record is sent."""

    topic: str
    record: InputRecord
    acks: str
    again: tuple[int, int] | None = None
    """Key, value and headers are those of the record at this partition and offset."""
    kind = "produce-record"

    @property
    def page(self) -> str:
        return f"/topics/{segment(self.topic)}/messages"

    def command(self, seen: Preview) -> CommandLine:
        return commands.produce(self.topic, seen.work, self.acks)

    def told(self, seen: Preview) -> str:
        return CommandLine(self.command(seen).words).text()  # contents of records stay out of logs

    async def look(self, desk: Desk) -> Preview:
        topic = await described(desk, self.topic)
        record = await self._record(desk)
        count, partition = len(topic.partitions), record.partition
        if partition is not None and partition not in {p.partition for p in topic.partitions}:
            raise RefusedError(f"topic {self.topic} has no partition {partition}")
        if partition is None:
            chosen = make_partitioner("default").partition(self.topic, record.key, count)
            where = (
                f"partition {chosen}, by its key"
                if chosen != STICKY
                else "a partition that the producer chooses, as it has no key"
            )
        else:
            chosen, where = partition, f"partition {partition}, as the form says"
        size = record_bytes(record)
        meaning = {
            "all": "It counts when all in-sync replicas have it.",
            "1": "It counts when the leader has it; it is lost if the leader is, right after.",
            "0": "Nobody is asked whether it has arrived.",
        }[self.acks]
        sentences = [
            f"One record of {size_text(size)} goes to {self.topic}: {where}. {meaning}",
        ]
        facts = {
            "the id of the topic": topic.topic_id,
            "its number of partitions": count,
            "the record": _text(record.value),
        }
        rows = [
            {"part": "key", "content": _text(record.key)},
            {"part": "value", "content": _text(record.value)},
            *({"part": f"header {name}", "content": _text(data)} for name, data in record.headers),
        ]
        columns = (ShownColumn("PART", "part"), ShownColumn("CONTENT", "content", "code"))
        document = {**Tally().document(self.topic), "records": 0}
        return Preview(
            Answer(document), facts, sentences, [Table("The record", columns, rows)], work=record
        )

    async def _record(self, desk: Desk) -> InputRecord:
        """Return the record that is to be sent: that of the form, or one that lies somewhere."""
        if self.again is None:
            return self.record
        tp = TopicPartition(self.topic, self.again[0])
        name = f"{tp}@{self.again[1]}"
        try:
            found = await desk.browsing.one(desk.clients, tp, self.again[1])
        except CommandError as error:
            raise RefusedError(str(error)) from None
        if found is None:
            raise RefusedError(f"there is no record {name} to produce again")
        record, state = found
        if not isinstance(record, Record):
            raise RefusedError(
                f"{name} is the end of a transaction, a {state} marker, and no record: brokers"
                " alone write it, and there is nothing to produce again"
            )
        return InputRecord(record.value, record.key, tuple(record.headers), self.record.partition)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        record: InputRecord = seen.work
        tally = Tally()
        async with desk.clients.producer(
            acks=self.acks, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
        ) as producer:
            delivery = await producer.enqueue(
                self.topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
            )
            try:
                await delivery
            except (OncelogError, OSError):
                pass  # counted right below
        tally.settle(delivery)
        failures = Failures()
        if tally.failure is not None:
            failures.fail("", tally.failure)
        return Answer(tally.document(self.topic), failures)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        return True


def record_bytes(record: InputRecord) -> int:
    """Return how many bytes the contents of a record are."""
    headers = sum(len(name.encode()) + len(data or b"") for name, data in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _text(data: bytes | None) -> str:
    """Return bytes in full as a person reads them."""
    found = to_json_value(data)
    if found is None:
        return "null"
    return found if isinstance(found, str) else f"base64 {found['base64']}"


ACKS = (("all", "all in-sync replicas"), ("1", "the leader"), ("0", "nobody"))
CODINGS = (("text", "text"), ("base64", "base64"), ("null", "null: there is none"))


def _produce(values: Values, now_ms: int) -> ProduceRecord:
    topic = own_topic(values)
    partition = number_of(values, "partition", most=2**31 - 1)
    if values["again"]:
        place, at, offset = values["again"].partition("@")
        if not at or not place.isdecimal() or not offset.isdecimal() or len(offset) > 19:
            raise FormError("again: give PARTITION@OFFSET of the record")
        again = int(place), int(offset)
        if values["key"] or values["value"] or values["headers"]:
            raise FormError("again: a record that is produced again has its own key and value")
        return ProduceRecord(topic, InputRecord(None, partition=partition), values["acks"], again)
    # A browser sends the line ends of an area as CR LF, whatever was typed.
    key = _bytes_of(values, "key", "key_is")
    value = _bytes_of(values, "value", "value_is")
    headers = tuple(_header(line) for line in lines_of(values["headers"]))
    return ProduceRecord(topic, InputRecord(value, key, headers, partition), values["acks"])


def _bytes_of(values: Values, name: str, coding: str) -> bytes | None:
    text = values[name].replace("\r\n", "\n")
    if values[coding] == "null":
        if text:
            raise FormError(f"{name}: null has no content; leave it empty")
        return None
    wanted: object = text if values[coding] == "text" else {"base64": "".join(text.split())}
    try:
        return from_json_value(wanted, name)
    except ValueError as error:
        raise FormError(str(error)) from None


def _header(line: str) -> tuple[str, bytes]:
    name, equals, value = line.partition("=")
    if not equals or not name:
        raise FormError(f"headers: {line!r} is not KEY=VALUE")
    return name, value.encode()


PRODUCE_RECORD = ChangeKind(
    "produce-record",
    "Produce a record",
    "One record is sent to a topic.",
    (
        FormField("topic", "Topic", required=True),
        FormField("key", "Key", "area"),
        FormField("key_is", "The key is", "choice", choices=CODINGS, default="null"),
        FormField("value", "Value", "area"),
        FormField("value_is", "The value is", "choice", choices=CODINGS, default="text"),
        FormField("headers", "Headers", "area", "One KEY=VALUE a line."),
        FormField("partition", "Partition", help="Empty: by the key, or as the producer chooses."),
        FormField("acks", "It counts when these have it", "choice", choices=ACKS, default="all"),
        FormField(
            "again",
            "Or the record at",
            help="PARTITION@OFFSET of this topic: its key, value and headers are sent again.",
        ),
    ),
    _produce,
)

# ------------------------------------------------------------------------------ delete


@dataclass(frozen=True, slots=True)
class DeleteRecords(TopicChange):
    """Records below a point of a topic's partitions go."""

    topic: str
    partitions: Sequence[int]
    """None of them means all."""
    before: str
    """As ``delete-records --before`` takes it."""
    now_ms: int
    """A duration counts from here."""
    kind = "delete-records"

    @property
    def typed(self) -> str:
        return self.topic

    def command(self, seen: Preview) -> CommandLine:
        return commands.delete_records(
            {(row["topic"], row["partition"]): row["before_offset"] for row in seen.work}
        )

    @property
    def _chosen(self) -> str:
        numbers = ",".join(str(number) for number in self.partitions)
        return f"{self.topic}:{numbers}" if numbers else self.topic

    async def look(self, desk: Desk) -> Preview:
        topic = await described(desk, self.topic)
        point = parse_range(self.before, self.now_ms).start
        wanted = WantedDeletion(parse_partitions([self._chosen]), point, {})
        try:
            answer = await planned_deletion(desk.admin, wanted)
        except CommandError as error:
            raise RefusedError(str(error)) from None
        doomed = [row for row in answer.document["partitions"] if row["offsets"]]
        if not doomed:
            why = failures_text(answer.failures) or "no record lies below that"
            raise RefusedError(f"nothing would be deleted: {why}")
        rows = await self._rows(desk, doomed, await sizes_of(desk, topic))
        going = {
            TopicPartition(row["topic"], row["partition"]): row["before_offset"] for row in doomed
        }
        readers = await groups_reading(desk, self.topic, going)
        writing = await open_transactions(desk, list(going))
        facts: dict[str, object] = {"the id of the topic": topic.topic_id}
        for row in doomed:
            name = f"{row['topic']}-{row['partition']}"
            facts[f"the start of {name}"] = row["start_offset"]
        facts.update({**readers.facts, **writing.facts})
        count = sum(row["offsets"] for row in doomed)
        sentences = [
            f"Up to {count:,} records of {len(doomed)} partitions go, for good, at all replicas."
            " Files go with the next round of retention.",
            *readers.sentences,
        ]
        columns = (
            ShownColumn("PARTITION", "partition", "number"),
            ShownColumn("START", "start_offset", "number"),
            ShownColumn("BEFORE", "before_offset", "number"),
            ShownColumn("RECORDS, AT MOST", "offsets", "number"),
            ShownColumn("BYTES, ABOUT", "bytes", "bytes"),
            ShownColumn("FIRST WRITTEN", "first", "time"),
            ShownColumn("FIRST THAT STAYS", "left", "time"),
        )
        tables = [Table("What goes", columns, rows), *readers.tables, *writing.tables]
        warnings = [
            *(f"{each.item}: {each.message}" for each in answer.failures),
            *readers.warnings,
            *writing.warnings,
        ]
        return Preview(answer, facts, sentences, tables, warnings, work=doomed)

    async def _rows(
        self, desk: Desk, doomed: Sequence[Row], sizes: Mapping[TopicPartition, int]
    ) -> list[Row]:
        tps = [TopicPartition(row["topic"], row["partition"]) for row in doomed]
        first = await self._at(desk, tps, [row["start_offset"] for row in doomed])
        left = await self._at(
            desk,
            [tp for tp, row in zip(tps, doomed, strict=True) if _leaves_some(row)],
            [row["before_offset"] for row in doomed if _leaves_some(row)],
        )
        rows = []
        for tp, row in zip(tps, doomed, strict=True):
            held = row["end_offset"] - row["start_offset"]
            size = sizes.get(tp)
            times = {
                name: None if (record := found.get(tp)) is None else record.timestamp
                for name, found in (("first", first), ("left", left))
            }
            about = None if size is None else size * row["offsets"] // held
            rows.append({**row, "bytes": about, **times})
        return rows

    async def _at(
        self, desk: Desk, partitions: Sequence[TopicPartition], offsets: Sequence[int]
    ) -> dict[TopicPartition, Record]:
        wanted = dict(zip(partitions, offsets, strict=True))
        return await desk.records_at(wanted, within_s=1.0)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await deleted_records(desk.admin, seen.work)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        wanted = {
            TopicPartition(row["topic"], row["partition"]): row["before_offset"]
            for row in seen.work
        }
        found = await desk.admin.list_offsets(wanted, "earliest")
        return all(
            each.offset is not None and each.offset >= wanted[each.partition] for each in found
        )


def _leaves_some(row: Row) -> bool:
    return bool(row["before_offset"] < row["end_offset"])


def _delete(values: Values, now_ms: int) -> DeleteRecords:
    topic, before = own_topic(values), values["before"].strip()
    numbers = []
    for text in values["partitions"].replace(",", " ").split():
        number = needed_number({"partitions": text}, "partitions", most=2**31 - 1)
        numbers.append(number)
    try:
        if not before or parse_range(before, now_ms).end is not None:
            raise ValueError("give one point: an offset, end, -N, @TIME or @-DURATION")
    except ValueError as error:
        raise FormError(f"before: {error}") from None
    return DeleteRecords(topic, tuple(sorted(set(numbers))), before, now_ms)


DELETE_RECORDS = ChangeKind(
    "delete-records",
    "Delete records",
    "Records below a point go, for good, at all replicas.",
    (
        FormField("topic", "Topic", required=True),
        FormField("partitions", "Partitions", help="As 0,2. Empty: all."),
        FormField(
            "before",
            "Before",
            help="An offset, end, -N before the end, @TIME (@2026-01-31T09) or @-DURATION (@-1h).",
            required=True,
        ),
    ),
    _delete,
)
KINDS = (PRODUCE_RECORD, DELETE_RECORDS)
