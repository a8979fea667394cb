"""An executor writes the rows of one attempt at a Spark task here.

Rules
-----
* Nothing is joined before the first row: a transaction is open only while rows are written, and a
  task without rows costs nothing.
* Rows go out in the order in which they come. While the loop encodes and sends one Arrow batch, the
  next one is read from Spark.
* A batch that an earlier run has committed is read to its end and dropped: a task that returns
  without draining its iterator loses its worker. It must be the newest that is committed, which is
  the only one that Spark repeats.
* What worked is kept for the next task of this process, connections and metadata with it; a writer
  or a producer that failed is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from oncelog import Producer, SharedWriter, Ticket, TransactionAlreadyCommittedError, join
from oncelog.errors import OncelogError
from pyspark_oncelog import connections
from pyspark_oncelog.commit_message import Outcome, TaskMessage
from pyspark_oncelog.outgoing_columns import outgoing
from pyspark_oncelog.sink_options import SinkOptions
from pyspark_oncelog.sink_schema import Layout

BATCH_BYTES = 512 * 1024
"""Four times the SDK's: rows come in thousands here, and each batch costs as much as some hundreds
of them."""

SLACK_S = 15.0
"""A call is given up so long after the client should have given up itself."""


def write_in_transaction(
    batches: Iterable[pa.RecordBatch],
    options: SinkOptions,
    layout: Layout,
    ticket: Ticket,
    *,
    attempt: str,
) -> TaskMessage:
    """Write all rows as one writer of the ticket's transaction.

    :param attempt: the writer's name, for who looks at the transaction.
    :raises ProducerFencedError: a newer run has taken over, or the transaction has ended.
    :raises CheckpointBehindError: the query has committed a newer batch.
    :raises OncelogError: something is not in the log; another attempt may do better.
    :raises SinkRowError: a row cannot be a record.
    """
    rows = _with_rows(batches)
    first = next(rows, None)
    if first is None:
        return TaskMessage(Outcome.EMPTY)
    timeout_s = _timeout_s(options)
    try:
        writer = connections.call(_joined, options, ticket, attempt, timeout_s=timeout_s)
    except TransactionAlreadyCommittedError as error:
        _check_is_repetition(error, ticket)
        for _ in rows:
            pass
        return TaskMessage(Outcome.ALREADY_COMMITTED, repeats=ticket.to_json())
    try:
        count = _send(writer, first, rows, options, layout)
        receipt = connections.call(_sealed, writer, timeout_s=timeout_s)
    except BaseException as error:
        connections.call(writer.__aexit__, type(error), error, None, timeout_s=timeout_s)
        raise
    connections.call(_keep, _key("writer", options), writer, timeout_s=timeout_s)
    return TaskMessage(Outcome.WRITTEN, count, ticket.to_json(), receipt)


def write_at_once(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, layout: Layout
) -> TaskMessage:
    """Write all rows without a transaction: at least once, as what fails is done again.

    :raises OncelogError: something is not in the log, or not known to be.
    :raises SinkRowError: a row cannot be a record.
    """
    rows = _with_rows(batches)
    first = next(rows, None)
    if first is None:
        return TaskMessage(Outcome.EMPTY)
    timeout_s = _timeout_s(options)
    producer = connections.call(_producer, options, timeout_s=timeout_s)
    try:
        count = _send(producer, first, rows, options, layout)
        connections.call(producer.flush, timeout_s=timeout_s)
    except BaseException:
        connections.call(_drop, producer, timeout_s=timeout_s)
        raise
    connections.call(_keep, _key("producer", options), producer, timeout_s=timeout_s)
    return TaskMessage(Outcome.WRITTEN, count)


class CheckpointBehindError(RuntimeError):
    """The query's checkpoint is older than what the query has committed."""


def _check_is_repetition(error: TransactionAlreadyCommittedError, ticket: Ticket) -> None:
    """Spark repeats the newest batch only. Where a newer one is committed, the checkpoint has gone
    back in time: the batch has other rows than the one of its number, and dropping it would lose
    them.

    :raises CheckpointBehindError: it is so.
    """
    newest = error.last_committed_tag
    if newest is not None and newest > ticket.tag:
        raise CheckpointBehindError(
            f"batch {ticket.tag} is to be written, but {ticket.transactional_id} has committed"
            f" batch {newest}: the checkpoint was restored from an older state, or another driver"
            " runs on it. Nothing was written. Start with a new checkpoint, from where the output"
            " ends"
        ) from None


def _with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _send(
    sender: SharedWriter | Producer,
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
    options: SinkOptions,
    layout: Layout,
) -> int:
    """Put all rows in line; the number of rows."""
    count = 0
    pending: Future[None] | None = None
    batch: pa.RecordBatch | None = first
    while batch is not None:
        now_ms = time.time_ns() // 1_000_000
        for part in outgoing(batch, layout, topic=options.topic, now_ms=now_ms):
            if pending is not None:
                pending.result()
            pending = connections.submit(
                sender.enqueue_many(
                    part.topic,
                    part.values,
                    keys=part.keys,
                    headers=part.headers,
                    timestamps_ms=now_ms if part.timestamps_ms is None else part.timestamps_ms,
                    partition=part.partition,
                )
            )
        count += batch.num_rows
        batch = next(rest, None)
    if pending is not None:
        pending.result()
    return count


# ------------------------------------------------------------------------------ on the loop


async def _joined(options: SinkOptions, ticket: Ticket, attempt: str) -> SharedWriter:
    """Return a writer of the ticket's transaction: the one that is kept, or a new one."""
    kept: SharedWriter | None = connections.forget(_key("writer", options))
    if kept is not None:
        try:
            await kept.rejoin(ticket, writer=attempt)
        except TransactionAlreadyCommittedError:
            await _keep(_key("writer", options), kept)
            raise
        except BaseException:
            await _drop(kept)
            raise
        return kept
    security = connections.security_of(options)
    return await join(ticket, writer=attempt, security=security, **_client_options(options))


async def _sealed(writer: SharedWriter) -> str:
    await writer.flush()
    return writer.receipt.to_json()


async def _producer(options: SinkOptions) -> Producer:
    kept: Producer | None = connections.forget(_key("producer", options))
    if kept is not None:
        return kept
    security = connections.security_of(options)
    settings = _client_options(options)
    producer = Producer(options.bootstrap_servers, security=security, **settings)
    await producer.start()
    return producer


async def _keep(key: Any, client: Any) -> None:
    """Keep a client for the next task.

    One attempt at a time runs in a process, so one is enough.
    """

    async def made() -> Any:
        return client

    if await connections.keep(key, made) is not client:
        await _drop(client)


async def _drop(client: SharedWriter | Producer) -> None:
    try:
        await client.close(timeout_ms=0)
    except OncelogError:
        pass  # whoever drops it knows of something worse


# ------------------------------------------------------------------------------ names


def _key(kind: str, options: SinkOptions) -> tuple[Any, ...]:
    """Return a key that is equal for all tasks that may send with the same client of a kind."""
    settings = tuple(sorted(options.client.items()))
    return kind, options.bootstrap_servers, options.security, options.partitioner, settings


def _client_options(options: SinkOptions) -> dict[str, Any]:
    size = min(BATCH_BYTES, options.client.get("buffer_memory", BATCH_BYTES))
    own = {"client_id": "oncelog-spark", "partitioner": options.partitioner, "batch_size": size}
    return {**own, **options.client}


def _timeout_s(options: SinkOptions) -> float:
    delivery_ms = options.client.get("delivery_timeout_ms", 120_000)
    block_ms = options.client.get("max_block_ms", 60_000)
    return float(delivery_ms + block_ms) / 1000 + SLACK_S
