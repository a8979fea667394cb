"""A task reads one span of one partition, batch by batch, as Arrow.

Rules
-----
* A consumer is kept in the worker process from task to task, with its connections; while a task has
  it nobody else does. One that failed is not kept.
* A span ends at its end, also where the last offsets hold no records: markers, aborted and
  compacted ones are no loss, and are not waited for.
* The topic must be the one that was planned, by its id, before the first record and behind the
  last. What is gone since is told apart: see ``planning``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncelog import Consumer, TopicPartition
from oncelog.errors import (
    DeadlineExceededError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from pyspark_oncelog import connections, questions
from pyspark_oncelog.arrow_columns import Making, record_batch
from pyspark_oncelog.planning import Cause, LostOffsets, OffsetSpan, report

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog import ColumnBatch
    from pyspark_oncelog.options import SourceOptions


def read_span(
    span: OffsetSpan, options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``span``, in order.

    :raises DataLossError: some are gone, and ``failOnDataLoss`` is not false.
    :raises DeadlineExceededError: nothing came for ``kafkaConsumer.pollTimeoutMs``.
    """
    wait_s = options.poll_timeout_ms / 1000 + connections.GRACE_S
    place = (options.bootstrap_servers, options.security)
    key = ("reading", *place, options.isolation_level, options.fetch_bytes)
    consumer = connections.forget(key)
    if consumer is None:
        consumer = connections.call(_start, options, timeout_s=wait_s)
    making = Making(schema, options, connections.here().once)
    good = False
    try:
        if connections.call(_begin, consumer, span, options, timeout_s=wait_s):
            while True:
                found = connections.call(_next, consumer, span, options, timeout_s=wait_s)
                if not found:
                    break
                yield record_batch(found, making)
            connections.call(_check_topic, span, options, timeout_s=wait_s)
        good = True
    finally:
        connections.call(_end, consumer, key if good else None, timeout_s=wait_s)


async def _start(options: SourceOptions) -> Consumer:
    consumer = Consumer(
        bootstrap_servers=options.bootstrap_servers,
        client_id="oncelog-spark",
        isolation_level=options.isolation_level,  # type: ignore[arg-type]
        auto_offset_reset="none",
        max_partition_fetch_bytes=options.fetch_bytes,
        fetch_max_bytes=max(options.fetch_bytes, 32 * 1024 * 1024),
        max_block_ms=options.poll_timeout_ms,
        security=connections.security_of(options),
    )
    await consumer.start()
    return consumer


async def _begin(consumer: Consumer, span: OffsetSpan, options: SourceOptions) -> bool:
    """Return whether there is anything to read."""
    if not await _check_topic(span, options):
        return False
    tp = TopicPartition(span.topic, span.partition)
    consumer.assign([tp])
    consumer.seek(tp, span.start)
    return True


async def _next(consumer: Consumer, span: OffsetSpan, options: SourceOptions) -> list[ColumnBatch]:
    tp = TopicPartition(span.topic, span.partition)
    while True:
        try:
            return await consumer.getbatches(
                tp,
                span.end,
                max_records=options.records_per_arrow_batch,
                timeout_ms=options.poll_timeout_ms,
            )
        except OffsetOutOfRangeError:
            if not await _skip(consumer, span, options):
                return []
        except TopicRecreatedError as error:
            # A consumer that is kept from span to span may have known the former topic when it was
            # placed. The span is of the topic that there is, or the check says otherwise.
            if not await _check_topic(span, options):
                return []
            consumer.seek(tp, error.offset)
        except DeadlineExceededError:
            if await _explain(consumer, span, options):
                return []
            raise


async def _skip(consumer: Consumer, span: OffsetSpan, options: SourceOptions) -> bool:
    """The position is not in the log: fail, or go to where the log begins; False when that is
    behind the span."""
    tp = TopicPartition(span.topic, span.partition)
    position = await consumer.position(tp)
    await _check_topic(span, options)
    begin = (await questions.earliest(options, [span.tp]))[span.tp]
    if position < begin:
        note = f"the log begins at offset {begin} now"
        loss = LostOffsets(span.tp, Cause.RETENTION, position, min(begin, span.end), note)
    else:
        note = "the offset is out of range"
        loss = LostOffsets(span.tp, Cause.TRUNCATED, position, span.end, note)
    report([loss], fail=options.fail_on_data_loss)
    if position >= begin or begin >= span.end:
        return False
    consumer.seek(tp, begin)
    return True


async def _explain(consumer: Consumer, span: OffsetSpan, options: SourceOptions) -> bool:
    """Nothing came: raise a better reason than that, if there is one. Whether what is left of the
    span is lost, and may be."""
    if not await _check_topic(span, options):
        return True
    end = (await questions.latest(options, [span.tp]))[span.tp]
    if end >= span.end:
        return False
    note = f"the log ends at offset {end} now"
    loss = LostOffsets(span.tp, Cause.TRUNCATED, end, span.end, note)
    report([loss], fail=options.fail_on_data_loss)
    return await consumer.position(TopicPartition(span.topic, span.partition)) >= end


async def _check_topic(span: OffsetSpan, options: SourceOptions) -> bool:
    """Return whether the topic is still the one that was planned."""
    admin = await connections.started_admin(options)
    (topic,) = await admin.describe_topics([span.topic], timeout_ms=options.poll_timeout_ms)
    if topic.error is None and topic.topic_id == span.topic_id:
        return True
    if topic.error is not None and not isinstance(topic.error, UnknownTopicOrPartitionError):
        raise topic.error
    cause = Cause.RECREATED if topic.error is None else Cause.DELETED
    loss = LostOffsets(span.tp, cause, span.start, span.end)
    report([loss], fail=options.fail_on_data_loss)
    return False


async def _end(consumer: Consumer, key: tuple[object, ...] | None) -> None:
    if key is None:
        await consumer.close()
        return
    consumer.assign([])

    async def again() -> Consumer:
        return consumer

    if await connections.keep(key, again) is not consumer:
        await consumer.close()  # another task of this process came first
