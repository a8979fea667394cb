"""Transactions are made by hand as newer clients of Kafka make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from oncelog_broker.kafka.wire.messages import produce
from oncelog_broker.kafka.wire.messages.end_txn import KafkaEndTxnRequest
from oncelog_broker.kafka.wire.messages.find_coordinator import KafkaFindCoordinatorRequest
from oncelog_broker.kafka.wire.messages.init_producer_id import KafkaInitProducerIdRequest
from oncelog_broker.kafka.wire.messages.list_offsets import (
    KafkaListOffsetsRequest,
    KafkaListOffsetsRequestPartition,
    KafkaListOffsetsRequestTopic,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, TRANSACTIONAL_BIT, BatchHeader, assemble
from oncelog_protocol.records.kafka_body import BodyColumns, encode_body
from oncelog_protocol.schema import Span
from support.kafka_client import WAIT_S, RawClient

__all__ = ["ID", "a_batch", "end", "found", "last_stable", "send", "started", "until_taken"]

ID = "billing"
TRY_AGAIN = {14, 15, 16, 51, 88}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
CONCURRENT_TRANSACTIONS and UNSTABLE_OFFSET_COMMIT."""


async def until_taken(ask: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
    """Ask until the answer is none that a client would try again after."""
    async with asyncio.timeout(WAIT_S):
        while code(answer := await ask()) in TRY_AGAIN:
            await asyncio.sleep(0.02)
        return answer


async def found(client: RawClient, key: str, key_type: int) -> None:
    """Find who coordinates a group or a transactional id."""
    asked = KafkaFindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    answer = await until_taken(
        lambda: client.ask(asked, 5), lambda each: each.coordinators[0].error_code
    )
    assert answer.coordinators[0].error_code == 0


async def started(client: RawClient, named: str = ID) -> tuple[int, int]:
    """Return the producer id and epoch of the transactional id."""
    await found(client, named, 1)
    asked = KafkaInitProducerIdRequest(named, 10_000)
    answer = await until_taken(lambda: client.ask(asked, 5), lambda each: each.error_code)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def a_batch(producer: tuple[int, int], *values: bytes) -> bytes:
    """Return the first batch of a transaction in a partition."""
    columns = BodyColumns(list(values), None, None, None, None)
    header = BatchHeader(
        base_offset=0, batch_length=0, leader_epoch=-1, magic=KAFKA_MAGIC, crc=0,
        attributes=TRANSACTIONAL_BIT, last_offset_delta=len(values) - 1,
        base_timestamp=1_700_000_000_000, max_timestamp=1_700_000_000_000,
        producer_id=producer[0], producer_epoch=producer[1], base_sequence=0,
        record_count=len(values),
    )  # fmt: skip
    return bytes(assemble(header, encode_body(columns)))


async def send(client: RawClient, batch: bytes, version: int = 12, *, named: str = ID) -> int:
    """Send a batch of the transaction; return the error code of its partition."""
    part = produce.KafkaProduceRequestPartitionProduceData(0, Span(0, len(batch)))
    data = [produce.KafkaProduceRequestTopicProduceData("t", partition_data=[part])]
    asked = produce.KafkaProduceRequest(named, -1, 5000, data)
    answer = await until_taken(
        lambda: client.ask(asked, version, [batch]),
        lambda each: each.responses[0].partition_responses[0].error_code,
    )
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def end(client: RawClient, producer: tuple[int, int], commit: bool) -> Any:
    """End the transaction; return the answer."""
    asked = KafkaEndTxnRequest(ID, *producer, commit)
    return await until_taken(lambda: client.ask(asked, 5), lambda each: each.error_code)


async def last_stable(client: RawClient) -> int:
    """Return where what a reader of committed records sees ends."""
    row = KafkaListOffsetsRequestTopic("t", [KafkaListOffsetsRequestPartition(0, timestamp=-1)])
    answer = await client.ask(KafkaListOffsetsRequest(-1, 1, topics=[row]), 5)
    offset: int = answer.topics[0].partitions[0].offset
    return offset
