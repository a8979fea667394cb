"""Asks that cannot be carried out yet: the last transaction is still being ended, or an id is due.

Rules:

- who waits for the end of a transaction is served in the order of coming, as soon as it is complete
  in memory: what is written after it in the log cannot be committed without it;
- the wait ends ``transaction_wait_ms`` after the end was *decided*, not after the ask came: markers
  that hang (a partition is down) must not hold up, again and again, whoever asks on the same
  connection for other transactions;
- all that wait are answered when the shard is unloaded.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.ports import Timers
from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.transaction.asks import AnyAsk, ProducerIdRequests
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.transaction import Transaction
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    error_for,
)


class WaitingAsks:
    """All asks of one shard that wait. ``run`` carries one out."""

    def __init__(
        self,
        timers: Timers,
        producer_ids: ProducerIdRequests,
        config: TransactionConfig,
        run: Callable[[AnyAsk], Result[None]],
    ) -> None:
        self._timers = timers
        self._producer_ids = producer_ids
        self._wait_s = config.transaction_wait_ms / 1000
        self._parked_max = config.shared_txn_writers_max
        self._run = run
        self._asks: dict[int, AnyAsk] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._asks)

    def park(self, txn: Transaction, ask: AnyAsk) -> None:
        """Until the transaction is complete, or it has taken too long."""
        if len(txn.parked) >= self._parked_max:
            return ask.refuse(ConcurrentTransactionsError("too many wait already"))
        self._add(ask)
        txn.parked[ask.number] = ask
        left_s = txn.decided_s + self._wait_s - self._timers.now_s()

        def too_long() -> Result[None]:
            self.unpark(txn, ask)
            ask.refuse(ConcurrentTransactionsError("the last transaction is still being ended"))
            return Result()

        self._timers.set(_park_key(ask), left_s, too_long)

    def unpark(self, txn: Transaction, ask: AnyAsk) -> None:
        """It does not wait any longer; harmless when it does not."""
        if self._asks.get(ask.number) is ask:
            del self._asks[ask.number]
            self._timers.cancel(_park_key(ask))
        if txn.parked.get(ask.number) is ask:
            del txn.parked[ask.number]

    def release(self, txn: Transaction) -> None:
        """The transaction is complete: carry out whatever has waited for that, in order."""
        parked, txn.parked = txn.parked, {}
        for ask in parked.values():
            self._timers.cancel(_park_key(ask))
            self._soon(ask)

    def fetch_id(self, ask: AnyAsk) -> None:
        """Carry it out with a fresh producer id."""
        self._add(ask)
        number = ask.number

        def fetched(producer_id: int | None) -> None:
            if self._asks.get(number) is not ask:
                return
            ask.fresh_id = producer_id
            if producer_id is not None:
                self._soon(ask)
            else:
                self._timers.set(_run_key(ask), 0.0, none_left)

        def none_left() -> Result[None]:
            if self._asks.pop(number, None) is ask:
                ask.refuse(CoordinatorNotAvailableError("no producer id can be had now"))
            return Result()

        self._producer_ids.request(fetched)

    def unload(self, error_code: int) -> None:
        """Answer all with this code."""
        asks, self._asks = self._asks, {}
        for ask in asks.values():
            ask.refuse(error_for(error_code))

    def _add(self, ask: AnyAsk) -> None:
        self._count += 1
        ask.number = self._count
        self._asks[ask.number] = ask

    def _soon(self, ask: AnyAsk) -> None:
        number = ask.number

        def run() -> Result[None]:
            if self._asks.pop(number, None) is not ask:
                return Result()
            return self._run(ask)

        self._timers.set(_run_key(ask), 0.0, run)


def _park_key(ask: AnyAsk) -> str:
    return f"park {ask.number}"


def _run_key(ask: AnyAsk) -> str:
    return f"ask {ask.number}"
