"""These tests check what errors promise and how they read."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.errors import (
    BrokerUnreachableError,
    ClosedError,
    ConnectionLostError,
    DeliveryTimeoutError,
    Kind,
    LogTruncationError,
    MessageTooLargeError,
    NoBrokersAvailableError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    PartialSendError,
    RemoteProtocolError,
    UndeliveredRecordsError,
    is_definite,
    is_retriable,
)
from oncelog.producer.record_metadata import BatchMetadata
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.channel import ChannelClosedError, NotSentError


@pytest.mark.parametrize(
    ("error", "definite"),
    [
        (NotSentError(), True),
        (ChannelClosedError(), False),
        (TimeoutError(), False),
        (ConnectionLostError(), False),
        (ClosedError(), True),
        (MessageTooLargeError(), True),
        (NotLeaderOrFollowerError(), False),
        (NotEnoughReplicasError(), True),
        (DeliveryTimeoutError("x", definite=True), True),
        (DeliveryTimeoutError("x", definite=False), False),
        (ValueError(), False),
    ],
)
def test_definite_or_not(error: BaseException, definite: bool) -> None:
    assert is_definite(error) is definite


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (RemoteProtocolError("x"), True),
        (BrokerUnreachableError(1, "a:1", "refused"), True),
        (NotLeaderOrFollowerError(), True),
        (MessageTooLargeError(), False),
        (ValueError(), False),
    ],
)
def test_retriable_or_not(error: BaseException, retriable: bool) -> None:
    assert is_retriable(error) is retriable


def test_nobody_there_names_every_address_and_reason() -> None:
    error = NoBrokersAvailableError([("a:1", "connection refused"), ("b:2", "timed out")], "Help")
    assert str(error) == ("no broker answered; tried a:1: connection refused; b:2: timed out. Help")
    assert isinstance(error, ConnectionError)


def test_partial_send_counts_records_and_is_definite_only_if_all_are() -> None:
    written = BatchMetadata("t", ())
    definite = DeliveryTimeoutError("never sent", definite=True)
    unsure = DeliveryTimeoutError("maybe", definite=False)
    assert PartialSendError([(range(3), definite)], written).definite
    error = PartialSendError([(range(3), definite), (range(2), unsure)], written)
    assert not error.definite
    assert "5 records" in str(error)


def test_undelivered_records_speak_of_the_first_failure() -> None:
    error = UndeliveredRecordsError(7, DeliveryTimeoutError("late", definite=False))
    assert "7 records" in str(error)
    assert "late" in str(error)
    assert not error.definite


def test_truncation_names_both_offsets() -> None:
    error = LogTruncationError(TopicPartition("t", 1), 10, 7)
    assert (error.offset, error.divergence_offset) == (10, 7)
    assert "t-1" in str(error)


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(errors, name) for name in errors.__all__)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("InvalidProducerEpoch", 47),
        ("ProducerFenced", 90),
        ("InvalidPidMapping", 49),
        ("NotCoordinatorForTransactionalId", 16),
        ("InvalidTxnRequest", 48),
        ("CoordinatorNotAvailable", 15),
        ("DuplicateSequenceNumber", 46),
        ("InvalidSequenceNumber", 45),
        ("InvalidTransactionTimeout", 50),
    ],
)
def test_kafkas_first_names_of_transactions_are_known(name: str, code: int) -> None:
    assert getattr(errors, name) is getattr(errors, f"{name}Error") is errors.ERRORS[code]


def test_every_error_of_a_client_says_what_comes_next() -> None:
    kinds = {
        name: cls.kind
        for name in errors.__all__
        if isinstance(cls := getattr(errors, name), type) and issubclass(cls, errors.ClientError)
    }
    assert len(kinds) > 15
    assert kinds["TransactionOutcomeUnknownError"] is Kind.RETRIABLE
    assert kinds["DeliveryTimeoutError"] is Kind.ABORTABLE
    assert kinds["CommitFailedError"] is Kind.ABORTABLE
    assert kinds["ClosedError"] is Kind.FATAL
    assert not errors.TransactionOutcomeUnknownError("x").definite
