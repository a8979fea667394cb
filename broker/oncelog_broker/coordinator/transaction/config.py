"""A transaction coordinator is told these settings. Names are Kafka's in snake case."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol import limits


@dataclass(slots=True, kw_only=True)
class TransactionConfig:
    """These settings hold for all transactions of one broker, and are the same on every broker of a
    cluster. Those that may change while the broker runs change in place."""

    transaction_max_timeout_ms: int
    """A producer may ask for at most this time-out."""
    transactional_id_expiration_ms: int
    """An ordinary id that has been idle for so long is forgotten. Those of shared transactions are
    not: their last committed tag is kept for good."""
    transactional_id_expiration_check_interval_ms: int = 3_600_000
    transaction_wait_ms: int = 1_000
    """Requests wait until the last transaction is complete, at most so long after its end was
    decided; then they are told CONCURRENT_TRANSACTIONS. It is below what a broker waits for an
    answer."""
    transactional_ids_max: int = limits.TRANSACTIONAL_IDS_MAX
    """One partition of ``__transaction_state`` may have so many ids."""
    txn_partitions_max: int = limits.TXN_PARTITIONS_MAX
    """One producer may have so many partitions in one transaction."""
    shared_txn_writers_max: int = limits.SHARED_TXN_WRITERS_MAX
    shared_txn_partitions_max: int = limits.SHARED_TXN_PARTITIONS_MAX
    """All writers of a shared transaction together may have so many partitions, each counting its
    own."""

    def __post_init__(self) -> None:
        if self.transaction_max_timeout_ms < 1 or self.transaction_wait_ms < 0:
            raise ValueError("time-outs are above zero")
        if self.transactional_id_expiration_ms < 1:
            raise ValueError("transactional_id_expiration_ms is above zero")
        if self.transactional_id_expiration_check_interval_ms < 1:
            raise ValueError("transactional_id_expiration_check_interval_ms is above zero")
        if min(self.transactional_ids_max, self.txn_partitions_max) < 1:
            raise ValueError("there is room for one id and one partition at least")
        if min(self.shared_txn_writers_max, self.shared_txn_partitions_max) < 1:
            raise ValueError("a shared transaction has room for one writer and partition at least")
