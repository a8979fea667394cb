"""Ranges of a topic are read batch by batch, searched, and turned into rows for people.

Rules
-----
* At ``committed`` what transactions have not committed is left out. At ``all`` everything is read,
  and of what is found a second reader says what it is: what ``read_committed`` hands out is
  committed; what it does not, is aborted below the last stable offset, and open from there on. The
  last stable offset is asked for first, so that nothing open is ever called aborted.
* Partitions are read in turns, so that none waits for the others to end.
* A row holds the beginning of key and value: whatever their size, rows are small.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from oncelog import ColumnBatch, Consumer, Record, TopicPartition
from oncelog.consumer.markers import TransactionMarker, watch_markers
from oncelog_cli.exits import CommandError
from oncelog_cli.internal_records import decoded
from oncelog_cli.offset_range import Base, HeldOffsets, OffsetRange, RangePoint, offsets_at, span_of
from oncelog_cli.record_filter import filter_of
from oncelog_cli.where.columns import finder_of
from oncelog_cli.where.parser import parse_where
from oncelog_console.decoding import preview
from oncelog_console.message_range import Places, WantedRecords

BATCH_RECORDS = 20_000
"""So many records of one partition are read before it is another's turn."""
BATCH_BYTES = 4 << 20
MARKERS_MAX = 1000
"""So many ends of transactions are handed out at most; a range may hold little else."""
SILENT_MS = 30_000
"""A leader that sends nothing for so long has failed."""

MakeConsumer = Callable[..., Consumer]
"""It makes a consumer of the options that it is given."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row is one record, or the end of a transaction."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: str | None
    """The beginning of the key, on one line; None: there is no key."""
    value: str | None
    key_bytes: int | None
    value_bytes: int | None
    headers: int
    state: str
    """``committed``, ``aborted``, ``open``; ``COMMIT`` or ``ABORT`` for the end of a transaction;
    nothing while it is not known."""

    def document(self) -> dict[str, Any]:
        """Return the row as JSON has it; ``Row(**document)`` is the row."""
        return asdict(self)


@dataclass(slots=True)
class ReadProgress:
    """It says how far a search has come."""

    total: int = 0
    """Offsets in the range."""
    scanned: int = 0
    """Offsets that were passed."""
    found: int = 0
    last_ms: int | None = None
    """Timestamp of the last record that was read."""


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A part of one partition is read: from ``start`` up to before ``end``."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Some records were read; these of them are found. Often there are none."""

    records: Sequence[Record] = ()
    states: Sequence[str] = ()
    """It says what became of each record: see ``Row.state``."""
    markers: Sequence[TransactionMarker] = ()
    """These ends of transactions were met meanwhile."""

    def rows(self, *, decodes: bool) -> list[Row]:
        """Return everything that was found as lines of a table."""
        rows = [
            row_of(decoded(record) if decodes else record, state)
            for record, state in zip(self.records, self.states, strict=True)
        ]
        return rows + [marker_row(marker) for marker in self.markers]


def row_of(record: Record, state: str) -> Row:
    """Return a record as a line of a table."""
    return Row(
        record.partition,
        record.offset,
        record.timestamp,
        preview(record.key),
        preview(record.value),
        None if record.key is None else len(record.key),
        None if record.value is None else len(record.value),
        len(record.headers),
        state,
    )


def marker_row(marker: TransactionMarker) -> Row:
    """Return the end of a transaction as a line of a table."""
    state = "COMMIT" if marker.committed else "ABORT"
    who = f"producer {marker.producer_id}, epoch {marker.producer_epoch}"
    return Row(marker.partition, marker.offset, marker.timestamp, None, who, None, None, 0, state)


async def partitions_of(consumer: Consumer, wanted: WantedRecords) -> list[TopicPartition]:
    """Return the partitions that are wanted.

    :raises UnknownTopicOrPartitionError: there is no such topic.
    :raises CommandError: there is no such partition.
    """
    known = await consumer.partitions_for(wanted.topic)
    for number in wanted.partitions:
        if number >= len(known):
            raise CommandError(
                f"topic {wanted.topic!r} has {len(known)} partitions, there is no {number}"
            )
    meant: Container[int] = wanted.partitions or range(len(known))
    if isinstance(wanted.end, Places):
        meant = {number for number, _ in wanted.end.offsets if number in meant}
    return [tp for tp in known if tp.partition in meant]


async def spans_of(consumer: Consumer, wanted: WantedRecords) -> list[ReadSpan]:
    """Return what is to be read of each partition that is wanted; empty ones are left out.

    :raises UnknownTopicOrPartitionError: there is no such topic.
    :raises CommandError: there is no such partition.
    """
    partitions = await partitions_of(consumer, wanted)
    starts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    found_starts = await offsets_at(consumer, partitions, wanted.start)
    end = wanted.end if isinstance(wanted.end, RangePoint) else None
    found_ends = await offsets_at(consumer, partitions, end)
    spans = []
    for tp in partitions:
        held = HeldOffsets(starts[tp], ends[tp])
        limits = OffsetRange(wanted.start, wanted.end_in(tp.partition) or RangePoint(Base.END))
        start, last = span_of(limits, held, found_starts.get(tp), found_ends.get(tp))
        start, last = max(start, held.start), held.end if last is None else min(last, held.end)
        if start < last:
            spans.append(ReadSpan(tp, start, last))
    return spans


class Reading:
    """It reads what is wanted, and finds what is looked for. ``async with`` opens and closes it.

    :param make: makes the consumers.
    :param per_partition: so many records of each partition are handed out at most; None: all.
    :raises WhereError: the expression is none.
    """

    def __init__(
        self, wanted: WantedRecords, make: MakeConsumer, *, per_partition: int | None = None
    ) -> None:
        self._wanted = wanted
        self._per_partition = per_partition
        self._find = finder(wanted)
        self._consumer = make(isolation_level=wanted.level, auto_offset_reset="earliest")
        self._second = (
            None if wanted.isolation == "committed" else make(isolation_level="read_committed")
        )
        self._markers: list[TransactionMarker] = []
        self._markers_left = MARKERS_MAX
        self._ends: dict[int, int] = {}
        self._closing = AsyncExitStack()
        self.progress = ReadProgress()

    async def __aenter__(self) -> Reading:
        """Connect.

        :raises OncelogError: no broker answers.
        """
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._consumer)
            if self._second is not None:
                await opened.enter_async_context(self._second)
            self._closing = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def found(self) -> AsyncGenerator[FoundRecords, None]:
        """Yield what is found, whenever something was read.

        :raises OncelogError: a leader did not answer in time, or refused.
        :raises CommandError: there is no such partition.
        """
        spans = await spans_of(self._consumer, self._wanted)
        self._begin(spans)
        reading = [_ReadPart(span, span.start, self._per_partition) for span in spans]
        while reading:
            for part in list(reading):
                batches = await self._consumer.getbatches(
                    part.span.partition,
                    part.span.end,
                    max_records=min(BATCH_RECORDS, part.left or BATCH_RECORDS),
                    max_bytes=BATCH_BYTES,
                    timeout_ms=SILENT_MS,
                )
                for batch in batches:
                    records = self._find(batch)[: part.left]
                    part.left = None if part.left is None else part.left - len(records)
                    self._passed(part, batch.next_offset)
                    self.progress.last_ms = batch.timestamps[-1]
                    self.progress.found += len(records)
                    yield FoundRecords(records, await self._states(part.span.partition, records))
                if not batches or part.left == 0:
                    reading.remove(part)
                    self._consumer.pause(part.span.partition)
                    self._passed(part, part.span.end)
                if self._markers:
                    yield FoundRecords(markers=self._taken_markers())

    def _begin(self, spans: Sequence[ReadSpan]) -> None:
        self.progress.total = sum(span.end - span.start for span in spans)
        partitions = [span.partition for span in spans]
        self._consumer.assign(partitions)
        for span in spans:
            self._consumer.seek(span.partition, span.start)
        if self._second is not None:
            self._second.assign(partitions)
            self._second.pause(*partitions)
            if not self._wanted.where:
                watch_markers(self._consumer, self._met)
        self._ends = {(span.partition.partition): span.end for span in spans}

    def _met(self, marker: TransactionMarker) -> None:
        self._markers_left -= 1
        if self._markers_left >= 0:
            self._markers.append(marker)

    def _passed(self, part: _ReadPart, position: int) -> None:
        self.progress.scanned += position - part.position
        part.position = position

    def _taken_markers(self) -> list[TransactionMarker]:
        taken = [each for each in self._markers if each.offset < self._ends[each.partition]]
        self._markers.clear()
        return taken

    async def _states(self, tp: TopicPartition, records: Sequence[Record]) -> list[str]:
        """Return what became of each of these records of one partition, in order."""
        if self._second is None or not records:
            return ["committed"] * len(records)
        second = self._second
        stable = (await second.end_offsets([tp]))[tp]
        end = min(records[-1].offset + 1, stable)
        committed: set[int] = set()
        if records[0].offset < end:
            second.seek(tp, records[0].offset)
            second.resume(tp)
            while batches := await second.getbatches(tp, end, timeout_ms=SILENT_MS):
                for batch in batches:
                    committed.update(batch.offsets)
            second.pause(tp)
        return [
            "committed" if each.offset in committed else _unseen(each.offset, stable)
            for each in records
        ]


def _unseen(offset: int, stable: int) -> str:
    return "aborted" if offset < stable else "open"


@dataclass(slots=True)
class _ReadPart:
    """A span is read up to here."""

    span: ReadSpan
    position: int
    left: int | None
    """So many records may still be handed out; None: all."""


def finder(wanted: WantedRecords) -> Callable[[ColumnBatch], list[Record]]:
    """Return what gives the records of a batch that are looked for: all, without an expression.

    :raises WhereError: the expression is none.
    """
    if not wanted.where:
        return ColumnBatch.records
    # Addresses are absolute: an expression has no "now" any more.
    tree = parse_where(wanted.where, 0)
    if wanted.decodes:
        keep = filter_of([tree], seen_as=decoded)
        assert keep is not None
        return lambda batch: keep(batch.records())
    find = finder_of(tree)

    def records(batch: ColumnBatch) -> list[Record]:
        return [record_at(batch, row) for row in find(batch)]

    return records


def record_at(batch: ColumnBatch, row: int) -> Record:
    """Return one record of a batch."""
    return Record(
        batch.topic,
        batch.partition,
        batch.offsets[row],
        batch.timestamps[row],
        None if batch.keys is None else batch.keys[row],
        batch.values[row],
        () if batch.headers is None else batch.headers[row],
    )
