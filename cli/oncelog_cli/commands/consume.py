"""``oncelog consume`` shows records as lines: a range of them, or all that are written.

Rules
-----
* Nothing but records is on standard output; each answer of the cluster is written at once.
* Without a range everything that is written from now on is printed, until Ctrl+C (exit code 130).
* A range has an end: the command stops when every partition has reached it. What the end is, is
  decided when the command begins.
* Offsets without a record (a compacted one, a marker of a transaction) count as reached.
* With ``--group`` the command is a member: it gets a share of the partitions, begins where the
  group has committed, and commits what it has printed, every few seconds and at its end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.names import topics_named
from oncelog_cli.exits import EXIT_OK, CommandError
from oncelog_cli.internal_records import decoded
from oncelog_cli.offset_range import (
    FROM_BEGINNING,
    FROM_END,
    Base,
    HeldOffsets,
    OffsetRange,
    RangePoint,
    offsets_at,
    parse_range,
    span_of,
)
from oncelog_cli.options import (
    Isolation,
    OnlyPartitionsOption,
    RegexOption,
    TopicsArgument,
    UsageError,
    complete_groups,
    parsed,
)
from oncelog_cli.record_filter import RecordFilter, filter_of, parse_filter
from oncelog_cli.record_text import (
    FORMAT_HELP,
    RecordFormat,
    compile_format,
    json_line,
    marker_line,
    meta_line,
    value_line,
)
from oncelog_cli.runner import run
from oncelog_cli.where.parser import parse_where

if TYPE_CHECKING:
    from oncelog import Consumer, Record, TopicPartition
    from oncelog.consumer.markers import TransactionMarker

RECORDS_AT_ONCE = 5000
WAIT_MS = 500
"""How often the ends are looked at while nothing comes."""


OffsetOption = Annotated[
    str | None,
    typed.Option(
        "--offset",
        "-o",
        metavar="RANGE",
        help="START, START:END or :END; each an offset, start, end, +N, -N, @TIME or"
        " @-DURATION: '100:200', '-10:end', '@-1h:', '@2026-01-31:+50'. Default: end.",
    ),
]
GroupOption = Annotated[
    str | None,
    typed.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Read as a member of this group and commit what was printed; --offset (start, end"
        " or a time) is where partitions begin to which it has not committed.",
        autocompletion=complete_groups,
    ),
]


GrepOption = Annotated[
    list[str] | None,
    typed.Option(
        "--grep",
        metavar="[PART:]REGEX",
        help="Only records in which it is found: in the value, or in key:..., header:NAME=...;"
        " null finds tombstones, ! turns it round. Repeatable: all must hold.",
    ),
]
WhereOption = Annotated[
    str | None,
    typed.Option(
        "--where",
        "-w",
        metavar="EXPR",
        help='Only records for which it holds: \'value.status == "failed" and timestamp > now -'
        " 5m'. With --grep both must hold. The language: docs/filter-expressions.md.",
    ),
]
MetaOnlyOption = Annotated[
    bool, typed.Option("--meta-only", help="JSON lines with sizes in place of key and value.")
]
DecodeOption = Annotated[
    bool,
    typed.Option("--decode", help="Records of __consumer_offsets and __transaction_state as JSON."),
]


ControlOption = Annotated[
    bool,
    typed.Option(
        "--print-control-records",
        help="The ends of transactions as well: JSON lines with a field 'control'.",
    ),
]


IsolationOption = Annotated[
    Isolation,
    typed.Option(
        "--isolation-level",
        metavar="read_committed|read_uncommitted",
        help="Whether records of transactions that are open or were aborted are left out, or not.",
    ),
]


FORMATS = f"""\
value   the value and a newline
json    one object a line: topic, partition, offset, timestamp (ms since 1970), key, value, and
        headers, a list of objects with key and value; bytes that are no text: {{"base64": "..."}}
FORMAT  {FORMAT_HELP}"""


def show_formats(context: typed.Context, chosen: str) -> str:
    """Print the formats and leave, for ``--format help``."""
    if chosen == "help" and not context.resilient_parsing:
        print(FORMATS)
        raise typed.Exit(EXIT_OK)
    return chosen


RecordFormatOption = Annotated[
    str,
    typed.Option(
        "--format",
        "-f",
        metavar="value|json|FORMAT|help",
        help=f"A FORMAT has {FORMAT_HELP}.",
        callback=show_formats,
        is_eager=True,
    ),
]


def consume(
    cluster: NamedCluster,
    topics: TopicsArgument,
    regex: RegexOption = False,
    partition: OnlyPartitionsOption = None,
    offset: OffsetOption = None,
    from_beginning: Annotated[
        bool, typed.Option("--from-beginning", help="The same as --offset start.")
    ] = False,
    until_end: Annotated[
        bool,
        typed.Option(
            "--until-end", "-e", help="Stop at what is the end now; alone: all that there is."
        ),
    ] = False,
    number: Annotated[
        int | None,
        typed.Option("--number", "-n", min=1, metavar="N", help="Stop after so many records."),
    ] = None,
    group: GroupOption = None,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    record_format: RecordFormatOption = "value",
    as_json: Annotated[
        bool,
        typed.Option("--json", help="The same as --format json: one object a line."),
    ] = False,
    grep: GrepOption = None,
    where: WhereOption = None,
    meta_only: MetaOnlyOption = False,
    decode: DecodeOption = False,
    control: ControlOption = False,
) -> None:
    """Print the records that are written from now on, or a range of offsets or of time.

    With --group several commands share the partitions, and the next one goes on where the last has
    ended.

    JSON lines can be written again with 'produce --json-lines'.
    """
    wanted = _chosen_range(offset, from_beginning, until_end)
    write = _writer("json" if as_json else record_format, meta_only=meta_only, decode=decode)
    kept = _filter(grep or [], where, decode)
    printer = Printer(write, sys.stdout.buffer, left=number, wanted=kept)
    named = list(dict.fromkeys(topics))
    if regex:  # the topics that match now: later ones are not read
        named = cluster.ask(lambda admin: topics_named(admin, topics, regex=True))
    printer.shows_markers = control
    reading = _reading(cluster, isolation)
    if group is not None:
        if control:
            raise UsageError("--print-control-records is for reading without --group")
        if partition:
            raise UsageError("--partition and --group: a group shares out the partitions itself")
        start = _first_start(wanted)
        run(_consume_in_group(named, group, start, until_end, printer, reading))
    else:
        run(_consume(named, partition or [], wanted, until_end, printer, reading))


def _reading(cluster: NamedCluster, isolation: Isolation) -> Callable[..., Consumer]:
    """Return what makes a consumer; the cluster is not looked for before that."""

    def make(*topics: str, **own: Any) -> Consumer:
        own |= {"isolation_level": isolation.value, "max_poll_records": RECORDS_AT_ONCE}
        return clients.consumer(cluster.servers, *topics, **own)

    return make


def _writer(text: str, *, meta_only: bool, decode: bool) -> RecordFormat:
    """Return the function that writes a record.

    :raises UsageError: a format, and no contents to write by it.
    """
    if meta_only and text not in ("value", "json"):
        raise UsageError("--meta-only has a format of its own: not with --format")
    write = meta_line if meta_only else chosen_record_format(text)
    if not decode:
        return write
    if text == "value" and not meta_only:
        # What a fact is about is in its key.
        write = compile_format("%k\\t%v\\n")
    return lambda record: write(decoded(record))


def _filter(grep: Sequence[str], where: str | None, decode: bool) -> RecordFilter | None:
    """Return the filter that all options make together; with ``decode`` what is shown counts."""
    trees = [parsed("--grep", parse_filter, item) for item in grep]
    if where is not None:
        trees.append(parsed("--where", parse_where, where, int(time.time() * 1000)))
    return filter_of(trees, seen_as=decoded if decode else None)


def _chosen_range(text: str | None, from_beginning: bool, until_end: bool) -> OffsetRange:
    if text is not None and from_beginning:
        raise UsageError("--from-beginning and --offset say the same thing: give one of them")
    if text is None:
        # "Until the end" alone: all there is. From the end to the end would be nothing.
        return FROM_BEGINNING if from_beginning or until_end else FROM_END
    return parsed("--offset", parse_range, text, int(time.time() * 1000))


def _first_start(wanted: OffsetRange) -> RangePoint:
    """Return where a member begins that finds nothing committed.

    :raises UsageError: the range says more than that.
    """
    start = wanted.start
    simple = (RangePoint(Base.START), RangePoint(Base.END))
    if wanted.end is None and (start in simple or start.base is Base.TIME):
        return start
    raise UsageError(
        "with --group, --offset is where to begin without a committed offset: start, end, @TIME or"
        " @-DURATION; 'oncelog groups reset-offsets' goes to any other place"
    )


def chosen_record_format(text: str) -> RecordFormat:
    """Return the function that writes a record in this format.

    :raises UsageError: the format means nothing.
    """
    if text == "value":
        return value_line
    if text == "json":
        return json_line
    if "%" not in text:
        raise UsageError(f"--format {text!r}: value, json, or a text with {FORMAT_HELP}")
    return parsed("--format:", compile_format, text)


@dataclass(slots=True)
class PrintSpan:
    """A span says what to print of one partition; ``end`` None: for ever."""

    start: int
    end: int | None
    position: int
    """Reading begins here: below a start that is not written yet and is waited for."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to print."""
        return self.end is not None and self.start >= self.end


@dataclass(slots=True)
class Printer:
    """The printer stops when it has written its number of records."""

    write: RecordFormat
    sink: BinaryIO
    left: int | None = None
    wanted: RecordFilter | None = None
    """Only records that this keeps are printed; None: all."""
    spans: dict[TopicPartition, PrintSpan] = field(default_factory=dict)
    shows_markers: bool = False
    markers: list[TransactionMarker] = field(default_factory=list)
    """Those that were met since something was printed, in order within each partition."""

    def print_markers(self, tp: TopicPartition, before: int | None = None) -> None:
        """Print the markers of a partition that lie in its span, all or those below an offset."""
        left = []
        span = self.spans[tp]
        for marker in self.markers:
            offset = marker.offset
            if marker[:2] != tp or (before is not None and offset >= before):
                left.append(marker)
            elif span.start <= offset and (span.end is None or offset < span.end):
                self.sink.write(marker_line(marker))
        self.markers = left

    def print(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        """Print those of the records that are asked for."""
        span = self.spans.get(tp)
        if span is not None and records:
            if records[0].offset < span.start:
                records = [record for record in records if record.offset >= span.start]
            end = span.end
            if end is not None and records and records[-1].offset >= end:
                records = [record for record in records if record.offset < end]
        if self.wanted is not None:
            records = self.wanted(records)
        if self.left is not None:
            records = records[: self.left]
            self.left -= len(records)
        if self.markers:
            for record in records:
                self.print_markers(tp, record.offset)
                self.sink.write(self.write(record))
        else:
            self.sink.write(b"".join(map(self.write, records)))

    @property
    def done(self) -> bool:
        """Return whether no more records are wanted."""
        return self.left == 0


async def _consume(
    topics: list[str],
    numbers: list[int],
    wanted: OffsetRange,
    until_end: bool,
    printer: Printer,
    reading: Callable[..., Consumer],
) -> None:
    # For positions that get lost on the way: what retention took away is skipped.
    reset = "earliest"
    async with reading(*(() if numbers else topics), auto_offset_reset=reset) as consumer:
        if numbers:
            consumer.assign(await _named_partitions(consumer, topics, numbers))
        partitions = consumer.assignment()
        spans = printer.spans = await _resolve(consumer, partitions, wanted, until_end)
        for tp, span in spans.items():
            consumer.seek(tp, span.position)
        if printer.shows_markers:
            from oncelog.consumer.markers import watch_markers

            watch_markers(consumer, lambda marker: printer.markers.append(marker))
        await _print_all(consumer, printer)


async def _named_partitions(
    consumer: Consumer, topics: list[str], numbers: list[int]
) -> list[TopicPartition]:
    from oncelog import TopicPartition

    chosen = []
    for topic in topics:
        known = await consumer.partitions_for(topic)
        for number in dict.fromkeys(numbers):
            if number >= len(known):
                raise CommandError(
                    f"topic {topic!r} has {len(known)} partitions, there is no {number}"
                )
            chosen.append(TopicPartition(topic, number))
    return chosen


async def _resolve(
    consumer: Consumer,
    partitions: Sequence[TopicPartition],
    wanted: OffsetRange,
    until_end: bool,
) -> dict[TopicPartition, PrintSpan]:
    """Return the offsets to print of every partition, in place of the words of a range."""
    starts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    found_starts = await offsets_at(consumer, partitions, wanted.start)
    found_ends = await offsets_at(consumer, partitions, wanted.end)
    spans: dict[TopicPartition, PrintSpan] = {}
    for tp in partitions:
        held = HeldOffsets(starts[tp], ends[tp])
        start, end = span_of(wanted, held, found_starts.get(tp), found_ends.get(tp))
        if until_end:
            end = held.end if end is None else min(end, held.end)
        spans[tp] = PrintSpan(start, end, min(start, held.end))
    return spans


async def _consume_in_group(
    topics: list[str],
    group: str,
    start: RangePoint,
    until_end: bool,
    printer: Printer,
    reading: Callable[..., Consumer],
) -> None:
    from oncelog import RebalanceListener

    class FromTime(RebalanceListener):
        """Partitions without a committed offset begin at a time."""

        async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            known = await consumer.committed(partitions)
            fresh = [tp for tp in partitions if known[tp] is None]
            if fresh:
                await consumer.seek_to_timestamp(start.number, *fresh)

    reset = "latest" if start.base is Base.END else "earliest"
    async with reading(group_id=group, auto_offset_reset=reset) as consumer:
        for topic in topics:
            await consumer.partitions_for(topic)  # a group waits for topics that do not exist
        consumer.subscribe(topics, listener=FromTime() if start.base is Base.TIME else None)
        ends: dict[TopicPartition, int] = {}
        while not printer.done and not (until_end and await _reached(consumer, ends)):
            # No more are taken than are printed: what was taken is what is committed.
            most = RECORDS_AT_ONCE if printer.left is None else min(printer.left, RECORDS_AT_ONCE)
            answer = await consumer.getmany(max_records=most, timeout_ms=WAIT_MS)
            for tp, records in answer.items():
                printer.print(tp, records)
            printer.sink.flush()
        await consumer.commit()


async def _reached(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Return whether every partition that this member has had is read to its end.

    The end is what it was when the member was given the partition. A member without partitions
    waits for some.
    """
    assigned = consumer.assignment()
    for tp in [tp for tp in ends if tp not in assigned]:
        del ends[tp]
    new = [tp for tp in assigned if tp not in ends]
    if new:
        ends.update(await consumer.end_offsets(new))
    return bool(ends) and all([await consumer.position(tp) >= end for tp, end in ends.items()])


async def _print_all(consumer: Consumer, printer: Printer) -> None:
    """Print the records until every span is done, or the number of records, or for ever."""
    spans = printer.spans
    bounded = {tp: span.end for tp, span in spans.items() if span.end is not None}
    endless = len(bounded) < len(spans)
    for tp in [tp for tp in bounded if spans[tp].is_empty]:
        del bounded[tp]
        consumer.pause(tp)
    while (bounded or endless) and not printer.done:
        answer = await consumer.getmany(max_records=RECORDS_AT_ONCE, timeout_ms=WAIT_MS)
        for tp, records in answer.items():
            printer.print(tp, records)
        for tp in [tp for tp in spans if printer.markers]:
            printer.print_markers(tp)
        printer.sink.flush()
        for tp, end in list(bounded.items()):
            if await consumer.position(tp) >= end:
                del bounded[tp]
                consumer.pause(tp)
