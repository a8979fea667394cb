"""A producer of transactions does everything by hand, over a cluster of real brokers: every request
can be kept, repeated, sent late and with any number in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    error_for,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from oncelog_protocol.messages.transaction_admin import ListTransactionsRequest
from oncelog_protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import LATEST_TIMESTAMP, Acks, IsolationLevel
from support.cluster import Cluster

__all__ = [
    "HandProducer",
    "Seen",
    "all_marked",
    "call_coordinator",
    "committed_offset",
    "end_offset",
    "read",
]

STAMP_MS = 1_700_000_000_000
TRY_AGAIN = frozenset(
    error.code
    for error in (
        CoordinatorNotAvailableError,
        CoordinatorLoadInProgressError,
        NotCoordinatorError,
        ConcurrentTransactionsError,
    )
)


async def call_coordinator(
    cluster: Cluster,
    key: str,
    request: Request,
    *,
    key_type: int = COORDINATOR_TRANSACTION,
    retry: bool = True,
) -> Any:
    """Return the coordinator's response; ask again while it is no answer, unless told not to."""
    async with asyncio.timeout(20):
        while True:
            try:
                response = await _call_once(cluster, key, request, key_type)
            except OSError:
                response = None
            if response is not None and not (retry and response.error_code in TRY_AGAIN):
                return response
            await asyncio.sleep(0.01)


async def _call_once(cluster: Cluster, key: str, request: Request, key_type: int) -> Any:
    asked = next(iter(cluster.brokers))
    found = await cluster.call(asked, FindCoordinatorRequest(key, key_type))
    if found.error_code:
        if found.error_code in TRY_AGAIN:
            return None
        raise error_for(found.error_code)
    if found.broker_id not in cluster.brokers:
        return None
    return await cluster.call(found.broker_id, request)


@dataclass
class HandProducer:
    """It is one instance of a transactional producer."""

    cluster: Cluster
    transactional_id: str
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def init(self, **more: Any) -> InitPidResponse:
        """Send InitPid; take over the answer's pair when there is one."""
        request = InitPidRequest(self.transactional_id, self.timeout_ms, **more)
        response: InitPidResponse = await call_coordinator(
            self.cluster, self.transactional_id, request
        )
        if response.error_code == 0:
            self.adopt(response.producer_id, response.producer_epoch)
        return response

    def adopt(self, producer_id: int, epoch: int) -> None:
        """From now on this is the producer; sequences begin anew."""
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences = {}

    async def send(
        self, topic: str, partition: int, *values: bytes, **numbers: Any
    ) -> ProducePartitionResponse:
        """Send one batch in the transaction. ``numbers`` may replace what is sent: ``producer_id``,
        ``epoch``, ``sequence``, ``transactional`` (the bit), ``acks``, ``transactional_id``."""
        where = topic, partition
        sequence = numbers.get("sequence", self.sequences.get(where, 0))
        batch = encode_batch(
            list(values),
            timestamps=STAMP_MS,
            producer_id=numbers.get("producer_id", self.producer_id),
            producer_epoch=numbers.get("epoch", self.epoch),
            base_sequence=sequence,
            transactional=numbers.get("transactional", True),
        )
        topics = [ProduceTopic(topic, [ProducePartition(partition, Span(0, len(batch)))])]
        named = numbers.get("transactional_id", self.transactional_id)
        request = ProduceRequest(named, numbers.get("acks", Acks.ALL), 5000, topics)
        channel = await self.cluster.channel(self.cluster.leader(topic, partition))
        try:
            reply = await channel.call(request, [batch], timeout_s=15)
        finally:
            channel.close()
            await channel.wait_closed()
        if reply.message.error_code:
            return ProducePartitionResponse(partition, reply.message.error_code)
        answer: ProducePartitionResponse = reply.message.topics[0].partitions[0]
        if answer.error_code == 0 and "sequence" not in numbers:
            self.sequences[where] = sequence + len(values)
        return answer

    async def end(self, commit: bool) -> EndTxnResponse:
        """Send EndTxn; take over the next pair when there is one."""
        response = await self.repeat_end(commit, self.producer_id, self.epoch)
        if response.error_code == 0:
            self.adopt(response.producer_id, response.producer_epoch)
        return response

    async def repeat_end(self, commit: bool, producer_id: int, epoch: int) -> EndTxnResponse:
        """Send EndTxn as it may have been sent at some time."""
        request = EndTxnRequest(self.transactional_id, producer_id, epoch, commit)
        response: EndTxnResponse = await call_coordinator(
            self.cluster, self.transactional_id, request
        )
        return response

    async def send_offset(
        self, group: str, topic: str, partition: int, offset: int, **pair: int
    ) -> int:
        """Send TxnOffsetCommit from outside of the group; return the error code."""
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            pair.get("producer_id", self.producer_id),
            pair.get("epoch", self.epoch),
            group,
            [TxnOffsetCommitTopic(topic, [TxnOffsetCommitPartition(partition, offset)])],
        )
        response = await call_coordinator(self.cluster, group, request, key_type=COORDINATOR_GROUP)
        code: int = response.error_code
        return code or int(response.topics[0].partitions[0].error_code)


async def committed_offset(
    cluster: Cluster, group: str, topic: str, partition: int = 0, *, stable: bool = True
) -> tuple[int, int]:
    """Return (error code, offset) as OffsetFetch tells it; offset -1: none is committed."""
    request = OffsetFetchRequest(group, [OffsetFetchTopic(topic, [partition])], stable)
    response = await call_coordinator(cluster, group, request, key_type=COORDINATOR_GROUP)
    if response.error_code:
        raise error_for(response.error_code)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


@dataclass
class Seen:
    """It is what one read brought."""

    values: list[bytes | None] = field(default_factory=list)
    """The values of user records, aborted ones dropped when read_committed."""
    control: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: list[tuple[int, int]] = field(default_factory=list)


async def read(
    cluster: Cluster,
    topic: str,
    partition: int = 0,
    *,
    committed: bool = True,
    offset: int = 0,
) -> Seen:
    """Return all that a consumer sees from ``offset`` on, filtered as KIP-98 has it."""
    seen = Seen()
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    channel = await cluster.channel(cluster.leader(topic, partition))
    try:
        while True:
            wanted = [FetchTopic(topic, [FetchPartition(partition, offset, 1 << 20)])]
            request = FetchRequest(-1, -1, 0, 0, 1 << 22, level, -1, wanted)
            reply = await channel.call(request, timeout_s=10)
            answer = reply.message.topics[0].partitions[0]
            if answer.error_code:
                raise error_for(answer.error_code)
            seen.high_watermark = answer.high_watermark
            seen.last_stable_offset = answer.last_stable_offset
            span = answer.records
            if not span.length:
                return seen
            data = reply.payload[span.offset : span.offset + span.length]
            offset = _take(seen, data, answer.aborted or [], offset)
    finally:
        channel.close()
        await channel.wait_closed()


def _take(seen: Seen, data: memoryview, aborted: list[Any], offset: int) -> int:
    ranges = sorted((each.first_offset, each.producer_id) for each in aborted)
    seen.aborted += [(pid, first) for first, pid in ranges]
    active: set[int] = set()
    for position, header in iter_headers(data):
        columns = decode_batch(data[position : position + header.size_bytes])
        while ranges and ranges[0][0] <= header.last_offset:
            active.add(ranges.pop(0)[1])
        if header.is_control:
            seen.control += 1
            active.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in active):
            seen.values += [
                value
                for at, value in zip(columns.offsets(), columns.values, strict=True)
                if at >= offset
            ]
        offset = header.next_offset
    return offset


async def end_offset(cluster: Cluster, topic: str, partition: int = 0, *, committed: bool) -> int:
    """Ask ListOffsets for the latest."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    request = ListOffsetsRequest(
        level, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, LATEST_TIMESTAMP)])]
    )
    response = await cluster.call(cluster.leader(topic, partition), request)
    return int(response.topics[0].partitions[0].offset)


async def all_marked(cluster: Cluster) -> None:
    """Wait until the markers of every decided transaction are written: a commit is told of when it
    is decided, and read a moment later."""
    request = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
    async with asyncio.timeout(15):
        for broker_id in sorted(cluster.brokers):
            while True:  # asked again at once: it takes a few syncs
                answer = await cluster.call(broker_id, request)
                if not answer.error_code and not answer.transactions:
                    break
