"""A transaction coordinator says what the test wants, and so do groups and brokers of that kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.messages.transactions import AddedTransaction, AddPartitionsResult
from oncelog_protocol.types import NO_TXN_NUMBER

__all__ = ["FakeCalls", "FakeGroups", "FakeTransactions", "image_of", "tell"]


class FakeTransactions(TransactionCoordinator):
    """It coordinates nothing. ``codes`` are given one by one, the last for ever; ``holds``
    keeps the answers of ``add_partitions`` until the test gives them."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes) or [0]
        self.holds = False
        self.number = 0
        """It is told to leaders that ask."""
        self.by_number = False
        """Whether the last one that asked ends its transactions by number."""
        self.asked: list[Any] = []
        self.held: list[Callable[[], None]] = []
        self.listed = ListTransactionsResponse()

    def _code(self) -> int:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

    def _respond(self, request: Any, respond: Callable[[Any], None]) -> None:
        self.asked.append(request)
        respond(type(request).response(self._code()))

    init_pid = begin_shared = join = end_shared = _respond

    def end_txn(
        self, request: Any, respond: Callable[[Any], None], *, by_number: bool = False
    ) -> None:
        self.by_number = by_number
        self._respond(request, respond)

    def add_partitions(
        self,
        transaction: AddedTransaction,
        respond: Callable[[AddPartitionsResult], None],
        *,
        by_number: bool = False,
    ) -> None:
        self.asked.append(transaction)
        self.by_number = by_number

        def answer() -> None:
            named = transaction.transactional_id
            respond(AddPartitionsResult(named, self._code(), number=self.number))

        if self.holds:
            self.held.append(answer)
        else:
            answer()

    def describe(
        self,
        transactional_ids: Sequence[str],
        respond: Callable[[list[DescribedTransaction]], None],
    ) -> None:
        self.asked.append(list(transactional_ids))
        respond([DescribedTransaction(self._code(), each) for each in transactional_ids])

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        self.asked.append(request)
        return self.listed


class FakeGroups:
    """It ends transactions in partitions of committed offsets, with ``code``."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.ended: list[tuple[int, int, int, bool]] = []
        self.numbers: list[int] = []
        self.producers: list[DescribedProducer] = []

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        callback: Callable[[int], None],
        *,
        number: int = NO_TXN_NUMBER,
    ) -> None:
        self.ended.append((partition, producer_id, producer_epoch, commit))
        self.numbers.append(number)
        callback(self.code)

    def open_transactions(
        self, partition: int, respond: Callable[[list[DescribedProducer], int], None]
    ) -> None:
        respond(self.producers, self.code)


class FakeCalls:
    """Other brokers, as ``BrokerCalls``: ``answer(broker_id, request)`` gives the response, or an
    exception to raise. ``gate`` closed, answers wait."""

    def __init__(self, answer: Callable[[int, Any], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[int, int, Any]] = []
        """Broker, lane, request."""
        self.under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(
        self, broker_id: int, request: Request, *, timeout_s: float, lane: int = 0
    ) -> Any:
        self.asked.append((broker_id, lane, request))
        self.under_way += 1
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            given = self.answer(broker_id, request)
        finally:
            self.under_way -= 1
        if isinstance(given, Exception):
            raise given
        return given


def image_of(
    leaders: dict[str, Sequence[int]], brokers: Sequence[int] = (1, 2, 3)
) -> MetadataImage:
    """Return topics with the leader of each partition."""
    image = MetadataImage("c")
    tell(image, leaders, brokers)
    return image


def tell(
    image: MetadataImage, leaders: dict[str, Sequence[int]], brokers: Sequence[int] = (1, 2, 3)
) -> None:
    """Send a whole new image."""
    orders = [
        LeaderAndIsrPartition(
            topic, f"id-{topic}", number, leader, 1, [1, 2, 3], 1, [1, 2, 3], False
        )
        for topic, some in leaders.items()
        for number, leader in enumerate(some)
    ]
    live = [
        ClusterBroker(each, 10 + each, [ListenerAddress("internal", "h", each)]) for each in brokers
    ]
    image.apply(UpdateMetadataRequest(1, 1, -1, True, orders, live))
