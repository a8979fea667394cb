"""A Produce request is made from batches here, and an answer's errors are read. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import (
    ApiError,
    ClosedError,
    ConnectionLostError,
    MessageTooLargeError,
    error_for,
)
from oncelog.producer.partition_queue import Batch
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from oncelog_protocol.schema import Span
from oncelog_protocol.types import Acks


def produce_request(
    batches: Sequence[Batch], acks: Acks, timeout_ms: int
) -> tuple[ProduceRequest, list[bytearray]]:
    """Return the request that carries encoded batches, at most one a partition, and its payload."""
    topics: dict[str, list[Batch]] = {}
    for batch in batches:
        topics.setdefault(batch.queue.tp.topic, []).append(batch)
    payload: list[bytearray] = []
    position = 0
    named: list[ProduceTopic] = []
    for topic, members in topics.items():
        partitions = []
        for batch in members:
            assert batch.encoded is not None
            length = len(batch.encoded)
            partitions.append(ProducePartition(batch.queue.tp.partition, Span(position, length)))
            payload.append(batch.encoded)
            position += length
        named.append(ProduceTopic(topic, partitions))
    return ProduceRequest(None, int(acks), timeout_ms, named), payload


def closed_error(reason: str, cause: BaseException | None, batch: Batch) -> BaseException:
    """Return the error of a batch that ends with its producer; not definite once it was sent."""
    error: BaseException
    if batch.attempts and (batch.maybe_written or batch.in_flight):
        error = ConnectionLostError(f"{reason}; the records may have been written")
    else:
        error = ClosedError(f"{reason}; the records were not written")
    error.__cause__ = cause or batch.last_error
    return error


def produce_error(batch: Batch, answer: ProducePartitionResponse) -> ApiError:
    """Return the error of a refused batch, which names the partition and what helps."""
    error = error_for(answer.error_code)
    text = answer.error_message or str(error)
    if isinstance(error, MessageTooLargeError):
        size = len(batch.encoded or b"")
        text += (
            f" (the batch has {size} bytes: lower batch_size below the topic's max_message_bytes,"
            " or raise that)"
        )
    return type(error)(f"{batch.queue.tp}: {text}")
