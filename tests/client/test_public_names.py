"""Users import these names from ``oncelog``: they stay, wherever their modules move."""

from __future__ import annotations

import subprocess
import sys

import pytest

import oncelog

NAMES = [
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "ApiError",
    "Assignor",
    "AuthenticationFailedError",
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
    "QuotaAlteration",
    "QuotaEntity",
    "QuotaFilter",
    "RebalanceListener",
    "Receipt",
    "Record",
    "RecordMetadata",
    "Results",
    "Retry",
    "Security",
    "SharedTransaction",
    "SharedWriter",
    "Ticket",
    "TlsError",
    "TopicPartition",
    "Transaction",
    "TransactionAbortableError",
    "TransactionAlreadyCommittedError",
    "TransactionOutcomeUnknownError",
    "UserAlteration",
    "blocking",
    "bootstrap_servers",
    "errors",
    "join",
]


def test_the_names_are_those_of_before() -> None:
    assert sorted(oncelog.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(oncelog))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_there(name: str) -> None:
    assert getattr(oncelog, name) is not None


def test_a_name_that_is_none_of_them() -> None:
    with pytest.raises(AttributeError, match="Kafka"):
        _ = oncelog.Kafka


@pytest.mark.slow
def test_each_is_importable_first_of_all() -> None:
    """Imports do not depend on others that came before."""
    program = "import sys\n" + "".join(
        f"from oncelog import {name}\n"
        "for each in [m for m in sys.modules if m.startswith('oncelog')]: del sys.modules[each]\n"
        for name in NAMES
    )
    subprocess.run([sys.executable, "-c", program], check=True)
