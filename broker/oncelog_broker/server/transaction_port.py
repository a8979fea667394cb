"""This port is the transaction coordinator, as handlers see it.

Callbacks come once, at once or later, on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from oncelog_protocol.messages.shared_transactions import (
    BeginSharedTxnRequest,
    BeginSharedTxnResponse,
    EndSharedTxnRequest,
    EndSharedTxnResponse,
    JoinTxnRequest,
    JoinTxnResponse,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsResult,
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
)


class TransactionsPort(Protocol):
    """It is ``coordinator.transaction.service.TransactionCoordinator``. Handlers check who may do
    what; a request that is wrong or not possible now is told by the answer's error code."""

    def init_pid(self, request: InitPidRequest, respond: Callable[[InitPidResponse], None]) -> None:
        """Respond with the producer of a transactional id under a new epoch."""
        ...

    def add_partitions(
        self, transaction: AddedTransaction, respond: Callable[[AddPartitionsResult], None]
    ) -> None:
        """Add partitions to a transaction, or look for them in it."""
        ...

    def end_txn(self, request: EndTxnRequest, respond: Callable[[EndTxnResponse], None]) -> None:
        """Commit or abort, and respond when that is decided."""
        ...

    def begin_shared(
        self, request: BeginSharedTxnRequest, respond: Callable[[BeginSharedTxnResponse], None]
    ) -> None:
        """Respond with a new ordinal."""
        ...

    def join(self, request: JoinTxnRequest, respond: Callable[[JoinTxnResponse], None]) -> None:
        """Add a writer to a shared transaction."""
        ...

    def end_shared(
        self, request: EndSharedTxnRequest, respond: Callable[[EndSharedTxnResponse], None]
    ) -> None:
        """End a shared transaction."""
        ...

    def describe(
        self,
        transactional_ids: Sequence[str],
        respond: Callable[[list[DescribedTransaction]], None],
    ) -> None:
        """Respond with one answer an id, in order."""
        ...

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Return the transactional ids of this coordinator."""
        ...
