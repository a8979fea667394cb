"""Operators look at transactions and producers, and end a transaction that hangs (KIP-664)."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message, since


@message
class ListedTransaction:
    """``state`` is Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."""

    transactional_id: Name
    producer_id: Int64
    state: Name
    shared: bool = False


@message
class ListTransactionsResponse:
    """Its errors are COORDINATOR_LOAD_IN_PROGRESS (what is loaded is listed). Ids that the
    principal may not describe are left out."""

    error_code: Int16 = 0
    transactions: list[ListedTransaction] = field(default_factory=list)


@message
class ListTransactionsRequest(Request):
    """It asks for the transactional ids that this broker coordinates. Empty lists filter nothing;
    ``older_than_ms`` -1 or the least age of an open transaction."""

    api_key: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    response: ClassVar[type] = ListTransactionsResponse

    states: list[Name] = field(default_factory=list)
    producer_ids: list[Int64] = field(default_factory=list)
    older_than_ms: Int64 = -1


@message
class DescribedWriter:
    """It is a writer of a shared transaction."""

    writer: Name
    producer_id: Int64
    topics: list[TxnTopic]


@message
class DescribedTransaction:
    """Its errors are those of the coordinator, TRANSACTIONAL_ID_NOT_FOUND,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED. ``start_ms``, ms since 1970, -1 when none is open.
    ``topics``: the partitions in the open transaction, of all writers."""

    error_code: Int16
    transactional_id: Name
    state: Name = ""
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    timeout_ms: Int32 = -1
    start_ms: Int64 = -1
    topics: list[TxnTopic] = field(default_factory=list)
    shared: bool = False
    ordinal: Int64 = -1
    tag: Int64 = -1
    last_committed_tag: Int64 = -1
    writers: list[DescribedWriter] = field(default_factory=list)


@message
class DescribeTransactionsResponse:
    """It has one answer a transactional id, in the order of the request."""

    error_code: Int16 = 0
    transactions: list[DescribedTransaction] = field(default_factory=list)


@message
class DescribeTransactionsRequest(Request):
    """The coordinator is asked this."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    response: ClassVar[type] = DescribeTransactionsResponse

    transactional_ids: list[Name]


@message
class DescribedProducer:
    """``last_timestamp_ms`` is that of its last batch, ms since 1970; ``txn_start_offset`` says
    where its open transaction begins, -1 when none is open; ``coordinator_epoch`` is that of its
    last marker, or -1."""

    producer_id: Int64
    producer_epoch: Int16
    last_sequence: Int32
    last_timestamp_ms: Int64
    coordinator_epoch: Int32 = -1
    txn_start_offset: Int64 = -1


@message
class DescribeProducersPartition:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
    TOPIC_AUTHORIZATION_FAILED, STORAGE_ERROR. ``producers`` by id; ``more``: there are more behind
    the last of these, or, where there are none, behind where was asked from."""

    partition: Int32
    error_code: Int16 = 0
    producers: list[DescribedProducer] = field(default_factory=list)
    more: bool = since(1, default=False)


@message
class DescribeProducersTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[DescribeProducersPartition] = field(default_factory=list)


@message
class DescribeProducersResponse:
    """Its answers are in the order of the request."""

    error_code: Int16 = 0
    topics: list[DescribeProducersTopic] = field(default_factory=list)


@message
class DescribeProducersRequest(Request):
    """It asks leaders what partitions know of their producers. A partition may remember more than
    an answer holds: they are told in pages, of ids above ``after_producer_id``. Version 0 has no
    pages: it is told those with open transactions first, and of the others what there is room
    for."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = DescribeProducersResponse

    topics: list[TxnTopic]
    after_producer_id: Int64 = since(1, default=-1)


@message
class AbortTransactionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TXN_STATE (the
    producer has no open transaction there), INVALID_PRODUCER_EPOCH (it has one of another epoch),
    NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT,
    CLUSTER_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None


@message
class AbortTransactionRequest(Request):
    """Write an abort marker into one partition, for a transaction of which no coordinator knows any
    more. Asked of the leader. What a coordinator does know is aborted by InitPid."""

    api_key: ClassVar[ApiKey] = ApiKey.ABORT_TRANSACTION
    response: ClassVar[type] = AbortTransactionResponse

    topic: Name
    partition: Int32
    producer_id: Int64
    producer_epoch: Int16
