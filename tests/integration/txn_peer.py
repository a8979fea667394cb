"""A hand speaks the transaction protocol as it likes: any request, any batch, any producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from integration.group_peer import TIMEOUT_S, Peer
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION, FindCoordinatorRequest
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
    TxnTopic,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span

NOT_YET = (14, 15, 16, 51)
"""The coordinator is being found or loaded, or still ends the last transaction."""


@dataclass(slots=True)
class Pair:
    """It is a producer id and its epoch, under a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TxnPeer(Peer):
    """It is one connection. ``async with TxnPeer(port)``."""

    async def init(self, transactional_id: str, timeout_ms: int = 60_000) -> Pair:
        """Begin to be the producer of an id."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                await self.ask(FindCoordinatorRequest(transactional_id, COORDINATOR_TRANSACTION))
                answer: InitPidResponse = await self.ask(
                    InitPidRequest(transactional_id, timeout_ms)
                )
                if answer.error_code not in NOT_YET:
                    break
                await asyncio.sleep(0.05)
        assert answer.error_code == 0, answer
        return Pair(transactional_id, answer.producer_id, answer.producer_epoch)

    async def add_partitions(self, pair: Pair, topics: list[TxnTopic]) -> int:
        """Ask for partitions to be added, again while the answer is *not yet*: a slow disk lets the
        time pass in which it is waited for. Return the error code."""
        named = AddedTransaction(
            pair.transactional_id, pair.producer_id, pair.producer_epoch, topics
        )
        request = AddPartitionsToTxnRequest([named])
        answer = await self._ask_until(request, lambda answer: answer.results[0].error_code)
        (result,) = answer.results
        return int(result.error_code)

    async def produce(
        self,
        topic: str,
        pair: Pair,
        *,
        transactional_id: str | None = "",
        transactional: bool = True,
        control: bool = False,
        partition: int = 0,
        sequence: int = 0,
        acks: int = -1,
        value: bytes = b"x",
    ) -> tuple[int, int]:
        """Return (whole error, the partition's error) of a batch of one record."""
        batch = encode_batch(
            [value],
            timestamps=0,
            producer_id=pair.producer_id,
            producer_epoch=pair.producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
            control=control,
        )
        named = pair.transactional_id if transactional_id == "" else transactional_id
        where = ProduceTopic(topic, [ProducePartition(partition, Span(0, len(batch)))])
        assert self._channel is not None
        reply = await self._channel.call(
            ProduceRequest(named, acks, 5_000, [where]), [batch], timeout_s=TIMEOUT_S
        )
        whole: int = reply.message.error_code
        if whole:
            return whole, 0
        answer: ProducePartitionResponse = reply.message.topics[0].partitions[0]
        return 0, answer.error_code

    async def end(self, pair: Pair, *, commit: bool) -> EndTxnResponse:
        """Send EndTxn; the pair becomes the next one if that is answered well."""
        request = EndTxnRequest(
            pair.transactional_id, pair.producer_id, pair.producer_epoch, commit
        )
        answer: EndTxnResponse = await self._ask_until(request, lambda answer: answer.error_code)
        return answer

    async def _ask_until(self, request: Request, code: Callable[[Any], int]) -> Any:
        """Return the first answer whose code is not *not yet*."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer = await self.ask(request)
                if code(answer) not in NOT_YET:
                    return answer
                await asyncio.sleep(0.02)

    async def commit_offset(
        self, pair: Pair, group: str, topic: str, item: TxnOffsetCommitPartition, **changes: Any
    ) -> tuple[int, int]:
        """Return (whole error, the partition's error) of a TxnOffsetCommit."""
        request = TxnOffsetCommitRequest(
            pair.transactional_id,
            pair.producer_id,
            pair.producer_epoch,
            group,
            [TxnOffsetCommitTopic(topic, [item])],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        answer = await self.ask(request)
        if answer.error_code:
            return int(answer.error_code), 0
        return 0, int(answer.topics[0].partitions[0].error_code)
