"""A batch query's source settles what it reads, from where to where, when it is planned.

Rules
-----
* The ends are those of the moment of planning, so that a query sees one state of the log, and ends.
* Filters on topic, partition, offset and timestamp narrow what is read where Spark hands them over
  (``spark.sql.python.filterPushdown.enabled``); Spark checks the rows again all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_oncelog import connections, questions
from pyspark_oncelog.filters import Bounds
from pyspark_oncelog.option_values import OffsetPoint
from pyspark_oncelog.planning import OffsetSpan, report, retention_losses, split, tail_losses
from pyspark_oncelog.schema import arrow_schema, check_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_oncelog.options import SourceOptions


class SpanPartition(InputPartition):
    """Spark carries a span to a task in this form."""

    value: OffsetSpan


class BatchReader(DataSourceReader):
    """A batch reader reads some offsets of some partitions, once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema: pa.Schema = arrow_schema(schema)
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Return the pieces to read.

        :raises DataLossError: offsets were asked for that are not in the log.
        """
        timeout_s = self._options.driver_timeout_ms / 1000 + connections.GRACE_S
        spans = connections.call(plan, self._options, self._bounds, timeout_s=timeout_s)
        return [SpanPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one piece as Arrow record batches."""
        if partition.value is None:  # Spark's own: there is nothing to read
            return iter(())
        from pyspark_oncelog.span_reader import read_span

        return read_span(partition.value, self._options, self._schema)


class PushdownReader(BatchReader):
    """In a session that pushes filters down, the batch reader takes them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what narrows the offsets; all filters stay Spark's to check."""
        for each in filters:
            self._bounds.take(each)
            yield each


async def plan(options: SourceOptions, bounds: Bounds) -> list[OffsetSpan]:
    """Return the pieces that a batch query reads, by its options and filters."""
    topics = await questions.find_topics(options)
    starting = options.starting or OffsetPoint("earliest")
    chosen = tuple(tp for tp in topics.partitions if bounds.wants(tp))
    start, end = await asyncio.gather(
        questions.resolve(options, starting, topics.partitions, begin=True),
        questions.resolve(options, options.ending, topics.partitions, begin=False),
    )
    # Asked for afterwards: a log that has grown meanwhile must not look as if it had shrunk.
    first, last = await asyncio.gather(
        questions.earliest(options, chosen), questions.latest(options, chosen)
    )
    if starting.kind != "offsets":
        # Nobody asked for what retention has taken since a moment ago.
        start |= {tp: max(start[tp], first[tp]) for tp in chosen}
    spans = [
        OffsetSpan(tp.topic, topics.ids[tp.topic], tp.partition, start[tp], max(end[tp], start[tp]))
        for tp in chosen
    ]
    spans, lost = retention_losses(spans, first)
    spans, cut = tail_losses(spans, last)
    report([*lost, *cut], fail=options.fail_on_data_loss)
    spans = await _narrowed(options, spans, bounds)
    return split(spans, options.min_partitions, options.max_records_per_partition)


async def _narrowed(
    options: SourceOptions, spans: list[OffsetSpan], bounds: Bounds
) -> list[OffsetSpan]:
    """Return the spans within the bounds of the filters.

    Only a lower bound in time can be used: offsets grow in the log, times need not, and the first
    record that is late enough is the first that can match; none is known to be the last.
    """
    first = {span.tp: span.start for span in spans}
    if bounds.timestamp_ms is not None and spans:
        point = OffsetPoint("timestamp", timestamp_ms=bounds.timestamp_ms)
        partitions = tuple(span.tp for span in spans)
        first = await questions.resolve(options, point, partitions, begin=False)
    narrowed: list[OffsetSpan] = []
    for span in spans:
        low = max(span.start, first[span.tp], bounds.offset_low)
        high = min(span.end, bounds.offset_high)
        if low < high:
            narrowed.append(replace(span, start=low, end=high))
    return narrowed
