"""The package is the Oncelog SDK: ``from oncelog import Producer, Consumer, Admin``.

Names are loaded when they are first used, so that ``import oncelog`` costs next to nothing. The
synchronous face is :mod:`oncelog.blocking`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AclBinding": "oncelog_protocol.acls",
    "AclBindingFilter": "oncelog_protocol.acls",
    "Admin": "oncelog.admin.admin",
    "ApiError": "oncelog.errors",
    "Assignor": "oncelog.consumer.assignors.base",
    "AuthenticationFailedError": "oncelog.errors",
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
    "QuotaAlteration": "oncelog.admin.quotas",
    "QuotaEntity": "oncelog_protocol.quotas",
    "QuotaFilter": "oncelog_protocol.quotas",
    "RebalanceListener": "oncelog.consumer.group.listener",
    "Receipt": "oncelog.shared_transactions.transaction",
    "Record": "oncelog.consumer.record",
    "RecordMetadata": "oncelog.producer.record_metadata",
    "Results": "oncelog.admin.results",
    "Retry": "oncelog.consumer.retry",
    "Security": "oncelog.security",
    "SharedTransaction": "oncelog.shared_transactions.transaction",
    "SharedWriter": "oncelog.shared_transactions.writer",
    "Ticket": "oncelog.shared_transactions.transaction",
    "TlsError": "oncelog.errors",
    "TopicPartition": "oncelog_protocol.types",
    "Transaction": "oncelog.producer.transactions.transaction",
    "TransactionAbortableError": "oncelog.errors",
    "TransactionAlreadyCommittedError": "oncelog.errors",
    "TransactionOutcomeUnknownError": "oncelog.errors",
    "UserAlteration": "oncelog.admin.users",
    "bootstrap_servers": "oncelog.whereabouts",
    "join": "oncelog.shared_transactions.writer",
}
_MODULES = ("blocking", "errors")

if TYPE_CHECKING:
    from oncelog import blocking as blocking
    from oncelog import errors as errors
    from oncelog.admin.admin import Admin as Admin
    from oncelog.admin.group_results import OffsetReset as OffsetReset
    from oncelog.admin.quotas import QuotaAlteration as QuotaAlteration
    from oncelog.admin.results import NewTopic as NewTopic
    from oncelog.admin.results import Results as Results
    from oncelog.admin.users import UserAlteration as UserAlteration
    from oncelog.consumer.assignors.base import Assignor as Assignor
    from oncelog.consumer.columns import ColumnBatch as ColumnBatch
    from oncelog.consumer.consumer import Consumer as Consumer
    from oncelog.consumer.group.listener import RebalanceListener as RebalanceListener
    from oncelog.consumer.offset_metadata import GroupMetadata as GroupMetadata
    from oncelog.consumer.offset_metadata import OffsetAndMetadata as OffsetAndMetadata
    from oncelog.consumer.offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from oncelog.consumer.outgoing import ProducerRecord as ProducerRecord
    from oncelog.consumer.record import Record as Record
    from oncelog.consumer.retry import Retry as Retry
    from oncelog.core.health import ClientHealth as ClientHealth
    from oncelog.errors import ApiError as ApiError
    from oncelog.errors import AuthenticationFailedError as AuthenticationFailedError
    from oncelog.errors import ClientError as ClientError
    from oncelog.errors import CommitFailedError as CommitFailedError
    from oncelog.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from oncelog.errors import MaxPollIntervalExceededError as MaxPollIntervalExceededError
    from oncelog.errors import NoBrokersAvailableError as NoBrokersAvailableError
    from oncelog.errors import OncelogError as OncelogError
    from oncelog.errors import ProducerFencedError as ProducerFencedError
    from oncelog.errors import TlsError as TlsError
    from oncelog.errors import TransactionAbortableError as TransactionAbortableError
    from oncelog.errors import TransactionAlreadyCommittedError as TransactionAlreadyCommittedError
    from oncelog.errors import TransactionOutcomeUnknownError as TransactionOutcomeUnknownError
    from oncelog.history import History as History
    from oncelog.history_events import HistoryRecorder as HistoryRecorder
    from oncelog.producer.partition_queue import Delivery as Delivery
    from oncelog.producer.partitioner import Partitioner as Partitioner
    from oncelog.producer.producer import Producer as Producer
    from oncelog.producer.record_metadata import BatchMetadata as BatchMetadata
    from oncelog.producer.record_metadata import RecordMetadata as RecordMetadata
    from oncelog.producer.transactions.transaction import Transaction as Transaction
    from oncelog.security import Security as Security
    from oncelog.shared_transactions.transaction import Receipt as Receipt
    from oncelog.shared_transactions.transaction import SharedTransaction as SharedTransaction
    from oncelog.shared_transactions.transaction import Ticket as Ticket
    from oncelog.shared_transactions.writer import SharedWriter as SharedWriter
    from oncelog.shared_transactions.writer import join as join
    from oncelog.whereabouts import bootstrap_servers as bootstrap_servers
    from oncelog_protocol.acls import AclBinding as AclBinding
    from oncelog_protocol.acls import AclBindingFilter as AclBindingFilter
    from oncelog_protocol.quotas import QuotaEntity as QuotaEntity
    from oncelog_protocol.quotas import QuotaFilter as QuotaFilter
    from oncelog_protocol.types import TopicPartition as TopicPartition
else:
    __all__ = [*_HOMES, *_MODULES]


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
    return [*_HOMES, *_MODULES]
