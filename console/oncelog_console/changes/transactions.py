"""Transactions that hang are aborted by these changes, and producers are fenced."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from oncelog import TopicPartition
from oncelog.errors import InvalidTxnStateError
from oncelog_cli.documents.answer import Answer, Row
from oncelog_cli.documents.held_back import held_back
from oncelog_cli.documents.transactions import (
    aborted_transaction,
    described_transactions,
    doomed_producers,
    fenced_producers,
)
from oncelog_console import commands
from oncelog_console.changes.change import (
    ChangeKind,
    ClusterChange,
    Desk,
    FormField,
    Preview,
    RefusedError,
    ShownColumn,
    Table,
    Values,
    all_sound,
    needed_name,
    needed_number,
    own_topic,
)
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import duration_text, segment

HELD_COLUMNS = (
    ShownColumn("PARTITION", "partition"),
    ShownColumn("READERS STOP AT", "stable", "number"),
    ShownColumn("COMMITTED UP TO", "high", "number"),
    ShownColumn("RECORDS HELD BACK", "held", "number"),
)


async def _held_rows(desk: Desk, partitions: Collection[TopicPartition]) -> list[Row]:
    """Return how much readers at read_committed cannot see of each partition; None: not known."""
    return [
        {
            "partition": str(tp),
            "stable": ends.last_stable_offset,
            "high": ends.high_watermark,
            "held": ends.records,
        }
        for tp, ends in (await held_back(desk.admin, partitions)).items()
    ]


def _held_sentence(rows: list[Row]) -> str:
    held = sum(row["held"] or 0 for row in rows)
    return (
        f"{held:,} records are held back in {len(rows)} partitions: readers at read_committed do"
        " not see them before this transaction has ended, nor others behind them."
    )


# ------------------------------------------------------------------------------ abort


@dataclass(frozen=True, slots=True)
class AbortTransaction(ClusterChange):
    """What a producer has open in a partition is aborted."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int
    kind = "abort-transaction"

    @property
    def _tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def subject(self) -> str:
        return f"producer {self.producer_id}"

    @property
    def typed(self) -> str:
        return f"{self.topic}-{self.partition}@{self.start_offset}"

    @property
    def page(self) -> str:
        return "/transactions"

    def command(self, seen: Preview) -> CommandLine:
        return commands.abort_transaction(
            self.topic, self.partition, self.producer_id, self.start_offset
        )

    async def look(self, desk: Desk) -> Preview:
        document = await self._aborted(desk, dry_run=True)
        aborted = document["aborted"]
        by = aborted["transactional_id"]
        (answer,) = await desk.admin.describe_producers([self._tp])
        producer = next(
            (each for each in answer.producers if each.producer_id == self.producer_id), None
        )
        last = None if producer is None else producer.last_timestamp_ms
        partitions = [self._tp]
        sentences = [
            f"No coordinator knows this transaction: a marker ends it in {self._tp} alone."
            if by is None
            else f"The coordinator of {by} ends it in all its partitions, and fences its producer."
        ]
        facts: dict[str, object] = {
            "who ends it": "a marker" if by is None else by,
            "the epoch of the producer": aborted["producer_epoch"],
            "its last write": last,
        }
        if by is not None:
            described = all_sound(await described_transactions(desk.admin, [by]))
            (row,) = described.document["transactions"]
            partitions = [TopicPartition(**each) for each in row["partitions"]] or partitions
            facts["the state of the transaction"] = row["state"]
            facts["its partitions"] = tuple(str(tp) for tp in partitions)
        rows = await _held_rows(desk, partitions)
        if last is not None:
            age = duration_text(max(0, desk.now_ms - last))
            sentences.append(f"Its producer, {self.producer_id}, has been silent for {age}.")
        sentences.append(_held_sentence(rows))
        table = Table("What it holds back", HELD_COLUMNS, rows)
        return Preview(Answer(document), facts, sentences, [table])

    async def _aborted(self, desk: Desk, *, dry_run: bool) -> Row:
        try:
            return await aborted_transaction(
                desk.admin,
                self._tp,
                producer_id=self.producer_id,
                start_offset=self.start_offset,
                dry_run=dry_run,
            )
        except InvalidTxnStateError as error:
            raise RefusedError(str(error)) from None

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return Answer(await self._aborted(desk, dry_run=False))

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        (answer,) = await desk.admin.describe_producers([self._tp])
        return answer.error is None and not any(
            each.producer_id == self.producer_id and each.txn_start_offset == self.start_offset
            for each in answer.producers
        )


def _abort(values: Values, now_ms: int) -> AbortTransaction:
    return AbortTransaction(
        own_topic(values),
        needed_number(values, "partition", most=2**31 - 1),
        needed_number(values, "producer_id"),
        needed_number(values, "start_offset"),
    )


ABORT_TRANSACTION = ChangeKind(
    "abort-transaction",
    "Abort a transaction",
    "What a producer has open in a partition is aborted, so that readers can go on.",
    (
        FormField("topic", "Topic", required=True),
        FormField("partition", "Partition", required=True),
        FormField("producer_id", "Producer", required=True),
        FormField("start_offset", "Offset at which it begins", required=True),
    ),
    _abort,
)


# ------------------------------------------------------------------------------ fence


@dataclass(frozen=True, slots=True)
class FenceProducer(ClusterChange):
    """The present producer of a transactional id is shut out, and what it has open is aborted."""

    transactional_id: str
    kind = "fence-producer"

    @property
    def subject(self) -> str:
        return f"transactional id {self.transactional_id}"

    @property
    def typed(self) -> str:
        return self.transactional_id

    @property
    def page(self) -> str:
        return f"/transactions/{segment(self.transactional_id)}"

    def command(self, seen: Preview) -> CommandLine:
        return commands.fence(self.transactional_id)

    async def look(self, desk: Desk) -> Preview:
        name = self.transactional_id
        answer = all_sound(await doomed_producers(desk.admin, [name]))
        described = all_sound(await described_transactions(desk.admin, [name]))
        (row,) = described.document["transactions"]
        if row["shared"]:
            raise RefusedError(f"{name} is an id of shared transactions: end those by their owner")
        partitions = [TopicPartition(**each) for each in row["partitions"]]
        last = await self._last_write(desk, partitions, row["producer_id"])
        rows = await _held_rows(desk, partitions)
        facts = {
            "the state of the transaction": row["state"],
            "its producer": row["producer_id"],
            "the epoch of the producer": row["producer_epoch"],
            "its partitions": tuple(str(tp) for tp in partitions),
            "since when it is open": row["start_ms"],
            "its last write": last,
        }
        sentences = [
            f"Producer {row['producer_id']}, epoch {row['producer_epoch']}, is shut out: its next"
            " call fails, and who runs it has to begin anew. Nobody else uses this producer."
        ]
        tables = []
        if row["start_ms"] is None:
            sentences.append("No transaction of this id is open.")
        else:
            age = duration_text(max(0, desk.now_ms - row["start_ms"]))
            silent = "" if last is None else duration_text(max(0, desk.now_ms - last))
            silence = f", and its producer has been silent for {silent}" if silent else ""
            sentences.append(f"Its transaction, open for {age}, is aborted{silence}.")
            sentences.append(_held_sentence(rows))
            tables.append(Table("What it holds back", HELD_COLUMNS, rows))
        return Preview(answer, facts, sentences, tables, work=row)

    async def _last_write(
        self, desk: Desk, partitions: list[TopicPartition], producer_id: int | None
    ) -> int | None:
        if not partitions:
            return None
        times = [
            producer.last_timestamp_ms or 0
            for answer in await desk.admin.describe_producers(partitions)
            for producer in answer.producers
            if producer.producer_id == producer_id
        ]
        return max(times, default=None)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await fenced_producers(desk.admin, [self.transactional_id])

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        described = await described_transactions(desk.admin, [self.transactional_id])
        for row in described.document["transactions"]:
            before = seen.work
            moved = (row["producer_id"], row["producer_epoch"])
            was = (before["producer_id"], before["producer_epoch"])
            return moved != was and row["start_ms"] is None
        return False


def _fence(values: Values, now_ms: int) -> FenceProducer:
    return FenceProducer(needed_name(values, "transactional_id"))


FENCE_PRODUCER = ChangeKind(
    "fence-producer",
    "Fence a producer",
    "The present producer of a transactional id is shut out, and what it has open is aborted.",
    (FormField("transactional_id", "Transactional id", required=True),),
    _fence,
)
KINDS = (ABORT_TRANSACTION, FENCE_PRODUCER)
