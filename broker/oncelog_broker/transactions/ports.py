"""This room declares here what it needs of the server, of other brokers and of the coordinators.

The room does not know the server: the application's wiring (``TransactionCoordination``) hands
in the metadata image, the connections to other brokers, the internal topics, and the coordinators
of transactions and groups. Callbacks come once, at once or later, on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Protocol

from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.messages.transactions import AddedTransaction, AddPartitionsResult
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition


class ClusterView(Protocol):
    """It is the cluster as the controller last described it; ``MetadataImage`` is one."""

    on_change: list[Callable[[], None]]
    """They are called after every change."""

    @property
    def brokers(self) -> Container[int]:
        """Return the ids of the brokers that live."""
        ...

    @property
    def updated(self) -> bool:
        """Return whether a whole description has arrived since start; before it, a partition that
        is not known may well exist."""
        ...

    def partition(self, topic_partition: TopicPartition) -> LeaderAndIsrPartition | None:
        """Return the newest known state of a partition, or None for one that is not known."""
        ...


class TopicSizes(Protocol):
    """It knows how many partitions an internal topic has; ``InternalTopics`` does."""

    def partition_count(self, topic: str) -> int | None:
        """Return None while the topic is not there, or not as a whole."""
        ...


class BrokerCallsPort(Protocol):
    """It sends requests to other brokers; ``server.broker_calls.BrokerCalls`` is one."""

    async def call(
        self, broker_id: int, request: Request, *, timeout_s: float, lane: int = 0
    ) -> Any:
        """Return the broker's response to ``request``. One call at a time in a lane.

        :raises OSError: it cannot be reached, or the connection broke. TimeoutError: no answer
            within ``timeout_s``. OncelogError: it does not speak our language. Except with
            NotSentError the request may have had an effect.
        """
        ...


class AddsPartitions(Protocol):
    """It coordinates transactions of this broker; ``TransactionCoordinator`` fulfils it."""

    def add_partitions(
        self, transaction: AddedTransaction, respond: Callable[[AddPartitionsResult], None]
    ) -> None:
        """Add partitions to a transaction, or look for them in it."""
        ...


class EndsGroupTransactions(Protocol):
    """It coordinates groups of this broker; ``GroupCoordinator`` fulfils it."""

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
        """End the transaction of the producer in offsets partition ``partition``; that with
        ``number``, if its end leaves the epoch as it is.

        ``callback`` gets 0 once that is committed and in force, or an error code to be tried again.
        """
        ...


class Verifier(Protocol):
    """It asks a transaction's coordinator; ``TransactionVerifier`` does."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int], None],
    ) -> None:
        """Have the partition added to the transaction; ``callback`` gets 0 once it is, or the
        error code that says why it is not."""
        ...

    def verify_number(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int, int], None],
    ) -> None:
        """Ask whether the client has added the partition to its transaction, which ends by number;
        ``callback`` gets 0 and that number if it has, or an error code and 0."""
        ...
