"""Records are written and read by hand, over a connection to one broker: a batch in a request, and
what the broker answers."""

from __future__ import annotations

from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.schema import Span
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import SystemWallClock

__all__ = ["fetch_values", "produce"]


async def produce(
    channel: RequestChannel,
    topic: str,
    partition: int,
    values: list[bytes],
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
) -> ProducePartitionResponse:
    """Append one batch and return the partition's answer, whatever it says."""
    batch = encode_batch(values, timestamps=SystemWallClock().now_ms())
    topics = [ProduceTopic(topic, [ProducePartition(partition, Span(0, len(batch)))])]
    reply = await channel.call(
        ProduceRequest(None, acks, timeout_ms, topics), [batch], timeout_s=timeout_ms / 1000 + 5
    )
    response: ProduceResponse = reply.message
    if response.error_code:
        raise error_for(response.error_code)
    return response.topics[0].partitions[0]


async def fetch_values(
    channel: RequestChannel, topic: str, partition: int, offset: int = 0, *, wait_ms: int = 500
) -> list[bytes | None]:
    """Values from ``offset`` on that one fetch brings."""
    wanted = [FetchTopic(topic, [FetchPartition(partition, offset, 1 << 20)])]
    request = FetchRequest(-1, -1, wait_ms, 1, 1 << 22, 0, -1, wanted)
    reply = await channel.call(request, timeout_s=wait_ms / 1000 + 5)
    response: FetchResponse = reply.message
    answer = response.topics[0].partitions[0]
    if response.error_code or answer.error_code:
        raise error_for(response.error_code or answer.error_code)
    span = answer.records
    records = reply.payload[span.offset : span.offset + span.length]
    values: list[bytes | None] = []
    for position, header in iter_headers(records):
        columns = decode_batch(records[position : position + header.size_bytes])
        skip = max(0, offset - header.base_offset)
        values.extend(columns.values[skip:])
    return values
