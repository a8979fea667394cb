"""The package is the Oncelog SDK: ``from oncelog import Producer, Consumer, Admin``.

Names are loaded when they are first used, so that ``import oncelog`` costs next to nothing. The
synchronous face is :mod:`oncelog.blocking`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog import blocking, errors
    from oncelog.admin.admin import Admin
    from oncelog.admin.group_results import OffsetReset
    from oncelog.admin.results import NewTopic, Results
    from oncelog.consumer.assignors.base import Assignor
    from oncelog.consumer.columns import ColumnBatch
    from oncelog.consumer.consumer import Consumer
    from oncelog.consumer.group.listener import RebalanceListener
    from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata
    from oncelog.consumer.offsets import OffsetAndTimestamp
    from oncelog.consumer.outgoing import ProducerRecord
    from oncelog.consumer.record import Record
    from oncelog.consumer.retry import Retry
    from oncelog.core.health import ClientHealth
    from oncelog.errors import (
        ApiError,
        ClientError,
        CommitFailedError,
        DeliveryTimeoutError,
        MaxPollIntervalExceededError,
        NoBrokersAvailableError,
        OncelogError,
        ProducerFencedError,
        TransactionAbortableError,
        TransactionAlreadyCommittedError,
        TransactionOutcomeUnknownError,
    )
    from oncelog.history import History
    from oncelog.history_events import HistoryRecorder
    from oncelog.producer.partition_queue import Delivery
    from oncelog.producer.partitioner import Partitioner
    from oncelog.producer.producer import Producer
    from oncelog.producer.record_metadata import BatchMetadata, RecordMetadata
    from oncelog.producer.transactions.transaction import Transaction
    from oncelog.shared_transactions.transaction import Receipt, SharedTransaction, Ticket
    from oncelog.shared_transactions.writer import SharedWriter, join
    from oncelog.whereabouts import bootstrap_servers
    from oncelog_protocol.types import TopicPartition

_HOMES = {
    "Admin": "oncelog.admin.admin",
    "ApiError": "oncelog.errors",
    "Assignor": "oncelog.consumer.assignors.base",
    "BatchMetadata": "oncelog.producer.record_metadata",
    "ClientError": "oncelog.errors",
    "ClientHealth": "oncelog.core.health",
    "ColumnBatch": "oncelog.consumer.columns",
    "CommitFailedError": "oncelog.errors",
    "Consumer": "oncelog.consumer.consumer",
    "Delivery": "oncelog.producer.partition_queue",
    "DeliveryTimeoutError": "oncelog.errors",
    "GroupMetadata": "oncelog.consumer.offset_metadata",
    "History": "oncelog.history",
    "HistoryRecorder": "oncelog.history_events",
    "MaxPollIntervalExceededError": "oncelog.errors",
    "NewTopic": "oncelog.admin.results",
    "NoBrokersAvailableError": "oncelog.errors",
    "OffsetAndMetadata": "oncelog.consumer.offset_metadata",
    "OffsetAndTimestamp": "oncelog.consumer.offsets",
    "OffsetReset": "oncelog.admin.group_results",
    "OncelogError": "oncelog.errors",
    "Partitioner": "oncelog.producer.partitioner",
    "Producer": "oncelog.producer.producer",
    "ProducerFencedError": "oncelog.errors",
    "ProducerRecord": "oncelog.consumer.outgoing",
    "RebalanceListener": "oncelog.consumer.group.listener",
    "Receipt": "oncelog.shared_transactions.transaction",
    "Record": "oncelog.consumer.record",
    "RecordMetadata": "oncelog.producer.record_metadata",
    "Results": "oncelog.admin.results",
    "Retry": "oncelog.consumer.retry",
    "SharedTransaction": "oncelog.shared_transactions.transaction",
    "SharedWriter": "oncelog.shared_transactions.writer",
    "Ticket": "oncelog.shared_transactions.transaction",
    "TopicPartition": "oncelog_protocol.types",
    "Transaction": "oncelog.producer.transactions.transaction",
    "TransactionAbortableError": "oncelog.errors",
    "TransactionAlreadyCommittedError": "oncelog.errors",
    "TransactionOutcomeUnknownError": "oncelog.errors",
    "bootstrap_servers": "oncelog.whereabouts",
    "join": "oncelog.shared_transactions.writer",
}
_MODULES = ("blocking", "errors")

__all__ = [
    "Admin",
    "ApiError",
    "Assignor",
    "BatchMetadata",
    "ClientError",
    "ClientHealth",
    "ColumnBatch",
    "CommitFailedError",
    "Consumer",
    "Delivery",
    "DeliveryTimeoutError",
    "GroupMetadata",
    "History",
    "HistoryRecorder",
    "MaxPollIntervalExceededError",
    "NewTopic",
    "NoBrokersAvailableError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetReset",
    "OncelogError",
    "Partitioner",
    "Producer",
    "ProducerFencedError",
    "ProducerRecord",
    "RebalanceListener",
    "Receipt",
    "Record",
    "RecordMetadata",
    "Results",
    "Retry",
    "SharedTransaction",
    "SharedWriter",
    "Ticket",
    "TopicPartition",
    "Transaction",
    "TransactionAbortableError",
    "TransactionAlreadyCommittedError",
    "TransactionOutcomeUnknownError",
    "blocking",
    "bootstrap_servers",
    "errors",
    "join",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"oncelog.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
