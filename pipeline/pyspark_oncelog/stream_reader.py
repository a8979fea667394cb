"""A streaming query's source answers Spark's questions about offsets, with deadlines.

Rules
-----
* One object lives in the driver for the whole run of a query and answers them one by one; another
  is pickled to the tasks. Nothing that a task needs is learnt later than by its constructor.
* Offsets that Spark is given are final: it writes them down before anything is read, and asks for
  the same range again after a crash. So what decides them (limits, new partitions) is done before.
* Where a new query begins is asked for once, and goes into the checkpoint with the end of its first
  micro-batch. Where it depends on the moment ("latest", a time) there is such a micro-batch at
  once, though it may be empty: what comes while the query is down is then not passed over.
* When nothing is new, the start is given back as it came: Spark compares texts.
* An idle stream waits in ``latestOffset`` for records, a moment at a time: Spark asks again at
  once, and other sources of the query are asked only when this one has answered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_oncelog import connections
from pyspark_oncelog.batch_reader import SpanPartition
from pyspark_oncelog.offsets import LogOffsets
from pyspark_oncelog.progress import Progress
from pyspark_oncelog.schema import arrow_schema, check_schema
from pyspark_oncelog.stream_plan import StreamPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_oncelog.options import SourceOptions

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader reads topics micro-batch by micro-batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema: pa.Schema = arrow_schema(schema)
        self._made: StreamPlan | None = None
        self._initial: LogOffsets | None = None
        self._progress = Progress(options)

    def __getstate__(self) -> dict[str, Any]:
        """For the tasks: what the driver knows of the query's run stays there."""
        return {"_options": self._options, "_schema": self._schema}

    @property
    def _plan(self) -> StreamPlan:
        if self._made is None:
            self._made = StreamPlan(self._options)
        return self._made

    def _call(self, function: Any, *arguments: Any) -> Any:
        timeout_s = self._options.driver_timeout_ms / 1000 + connections.GRACE_S
        return connections.call(function, *arguments, timeout_s=timeout_s)

    # ------------------------------------------------------------------------------ offsets

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; one with a checkpoint begins there and does not ask."""
        if self._initial is None:
            found: LogOffsets = self._call(self._plan.initial)
            self._initial = LogOffsets(found.topics, initial=True)
            logger.info(
                "a new query begins at %s; startingOffsets means nothing to one that is restarted",
                found.to_json(),
            )
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return ``maxOffsetsPerTrigger``, unless the trigger says otherwise."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Settle where this run ends: what is there by now."""
        self._progress.wait_from_now_on()
        self._call(self._plan.settle)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch, which begins at ``start``; else return ``start``.

        :raises DataLossError: a topic is not the one that it was, or ends before ``start``.
        """
        begin = LogOffsets.from_json(start)
        # Spark asks for the next micro-batch when it has noted the last one as done.
        self._progress.reached(begin)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        deadline = time.monotonic() + self._options.latest_offset_wait_ms / 1000
        found: LogOffsets | None = self._call(self._plan.next_end, begin, most, deadline)
        if begin.initial:
            if found is None and self._options.begins_at_a_moment:
                found = begin
            if found is not None:
                found = LogOffsets(found.topics, begin=LogOffsets(begin.topics))
        return start if found is None else found.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs as of the last question, for the query's progress."""
        latest = self._plan.latest
        return None if latest is None else latest.to_json()

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before ``end`` is done."""
        self._progress.reached(LogOffsets.from_json(end))

    # ------------------------------------------------------------------------------ reading

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the pieces of one micro-batch.

        :raises DataLossError: some of it is not in the log any more.
        """
        last = LogOffsets.from_json(end)
        first = last.begin or LogOffsets.from_json(start)
        spans = self._call(self._plan.spans, first, last)
        return [SpanPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one piece as Arrow record batches."""
        from pyspark_oncelog.span_reader import read_span

        return read_span(partition.value, self._options, self._schema)
