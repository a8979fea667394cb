"""Handlers need this of the transaction coordinator: the port.

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
    """``coordinator.transaction.service.TransactionCoordinator``. Who may do what is for the
    handlers; what is wrong with a request or not possible now is for the answer's error code."""

    def init_pid(self, request: InitPidRequest, respond: Callable[[InitPidResponse], None]) -> None:
        """The producer of a transactional id under a new epoch."""
        ...

    def add_partitions(
        self, transaction: AddedTransaction, respond: Callable[[AddPartitionsResult], None]
    ) -> None:
        """Partitions belong to a transaction from now on, or are looked for in it."""
        ...

    def end_txn(self, request: EndTxnRequest, respond: Callable[[EndTxnResponse], None]) -> None:
        """Commit or abort."""
        ...

    def begin_shared(
        self, request: BeginSharedTxnRequest, respond: Callable[[BeginSharedTxnResponse], None]
    ) -> None:
        """An ordinal."""
        ...

    def join(self, request: JoinTxnRequest, respond: Callable[[JoinTxnResponse], None]) -> None:
        """A writer of a shared transaction."""
        ...

    def end_shared(
        self, request: EndSharedTxnRequest, respond: Callable[[EndSharedTxnResponse], None]
    ) -> None:
        """The end of a shared transaction."""
        ...

    def describe(
        self,
        transactional_ids: Sequence[str],
        respond: Callable[[list[DescribedTransaction]], None],
    ) -> None:
        """One answer an id, in order."""
        ...

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """The transactional ids of this coordinator."""
        ...
