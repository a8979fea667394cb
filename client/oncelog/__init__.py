"""The Oncelog SDK: ``from oncelog import Producer, Consumer, Admin``.

Names are loaded when they are first used, so that ``import oncelog`` costs next to nothing. The
synchronous face is :mod:`oncelog.blocking`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog import blocking, errors
    from oncelog.admin import Admin
    from oncelog.admin_results import NewTopic, Results
    from oncelog.consumer.assignors.base import Assignor
    from oncelog.consumer.columns import ColumnBatch
    from oncelog.consumer.consumer import Consumer
    from oncelog.consumer.group.listener import RebalanceListener
    from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata
    from oncelog.consumer.offsets import OffsetAndTimestamp
    from oncelog.consumer.outgoing import ProducerRecord
    from oncelog.consumer.record import Record
    from oncelog.consumer.retry import Retry
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
    from oncelog.group_results import OffsetReset
    from oncelog.history import History
    from oncelog.history_events import HistoryRecorder
    from oncelog.producer.delivery import BatchMetadata, Delivery, RecordMetadata
    from oncelog.producer.partitioner import Partitioner
    from oncelog.producer.producer import Producer
    from oncelog.producer.transaction import Transaction
    from oncelog.shared_transaction import Receipt, SharedTransaction, Ticket
    from oncelog.shared_writer import SharedWriter, join
    from oncelog_protocol.types import TopicPartition

_HOMES = {
    "Admin": "oncelog.admin",
    "ApiError": "oncelog.errors",
    "Assignor": "oncelog.consumer.assignors.base",
    "BatchMetadata": "oncelog.producer.delivery",
    "ClientError": "oncelog.errors",
    "ColumnBatch": "oncelog.consumer.columns",
    "CommitFailedError": "oncelog.errors",
    "Consumer": "oncelog.consumer.consumer",
    "Delivery": "oncelog.producer.delivery",
    "DeliveryTimeoutError": "oncelog.errors",
    "GroupMetadata": "oncelog.consumer.offset_metadata",
    "History": "oncelog.history",
    "HistoryRecorder": "oncelog.history_events",
    "MaxPollIntervalExceededError": "oncelog.errors",
    "NewTopic": "oncelog.admin_results",
    "NoBrokersAvailableError": "oncelog.errors",
    "OffsetAndMetadata": "oncelog.consumer.offset_metadata",
    "OffsetAndTimestamp": "oncelog.consumer.offsets",
    "OffsetReset": "oncelog.group_results",
    "OncelogError": "oncelog.errors",
    "Partitioner": "oncelog.producer.partitioner",
    "Producer": "oncelog.producer.producer",
    "ProducerFencedError": "oncelog.errors",
    "ProducerRecord": "oncelog.consumer.outgoing",
    "RebalanceListener": "oncelog.consumer.group.listener",
    "Receipt": "oncelog.shared_transaction",
    "Record": "oncelog.consumer.record",
    "RecordMetadata": "oncelog.producer.delivery",
    "Results": "oncelog.admin_results",
    "Retry": "oncelog.consumer.retry",
    "SharedTransaction": "oncelog.shared_transaction",
    "SharedWriter": "oncelog.shared_writer",
    "Ticket": "oncelog.shared_transaction",
    "TopicPartition": "oncelog_protocol.types",
    "Transaction": "oncelog.producer.transaction",
    "TransactionAbortableError": "oncelog.errors",
    "TransactionAlreadyCommittedError": "oncelog.errors",
    "TransactionOutcomeUnknownError": "oncelog.errors",
    "join": "oncelog.shared_writer",
}
_MODULES = ("blocking", "errors")

__all__ = [
    "Admin",
    "ApiError",
    "Assignor",
    "BatchMetadata",
    "ClientError",
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
