"""Producers get an identity and transactions: ids, partitions, offsets, ends, markers.

A producer id is given once and never again, in the whole cluster. Brokers hand them out from blocks
that the controller gives them, so that asking costs no write to the metadata store.

A transaction is known by (transactional id, producer id, producer epoch); the epoch grows with
every transaction (KIP-890), so that nothing late of one can touch the next. Its partitions are
added by their leaders, when the first batch arrives there. A *shared* transaction has writers with
a producer id each and is known by (transactional id, ordinal), see
``messages.shared_transactions``.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message, since
from oncelog_protocol.types import NO_TXN_NUMBER


@message
class InitPidResponse:
    """Its errors are COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR
    (nothing happened), REQUEST_TIMED_OUT (it may have), CONCURRENT_TRANSACTIONS (the predecessor's
    transaction is still being ended: ask again), PRODUCER_FENCED (``producer_id`` and ``epoch`` of
    the request are not those of the present instance), INVALID_TRANSACTION_TIMEOUT, INVALID_REQUEST
    (an empty or reserved transactional id), INVALID_TXN_STATE (the id belongs to shared
    transactions), POLICY_VIOLATION (too many transactional ids),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


@message
class InitPidRequest(Request):
    """Without ``transactional_id`` it asks any broker for a new producer id at epoch 0. With one,
    from its coordinator: the id's producer under a new epoch, once its open transaction was aborted
    (that fences whoever had the older epoch). ``producer_id`` and ``producer_epoch`` not -1: only
    if they are the present ones, or those of which this is a repeat (KIP-360)."""

    api_key: ClassVar[ApiKey] = ApiKey.INIT_PID
    response: ClassVar[type] = InitPidResponse

    transactional_id: Name | None = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


@message
class AllocateProducerIdsResponse:
    """Its errors are NOT_CONTROLLER, STALE_BROKER_EPOCH, STORAGE_ERROR (the znode is damaged). The
    block is ``first_producer_id`` and the ``count - 1`` after it."""

    error_code: Int16 = 0
    first_producer_id: Int64 = -1
    count: Int32 = 0


@message
class AllocateProducerIdsRequest(Request):
    """A broker wants a block of producer ids (KIP-730). A repeated request gets another block: ids
    may stay unused, never be given twice."""

    api_key: ClassVar[ApiKey] = ApiKey.ALLOCATE_PRODUCER_IDS
    response: ClassVar[type] = AllocateProducerIdsResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "broker_id"

    broker_id: Int32
    broker_epoch: Int64


# ---- partitions and offsets


@message
class TxnTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[Int32]


@message
class AddedTransaction:
    """It is one transaction and the partitions to add to it. ``verify_only``: add nothing, only say
    whether they are in it."""

    transactional_id: Name
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TxnTopic]
    verify_only: bool = False


@message
class AddPartitionsResult:
    """Its errors are, for all partitions of the transaction: COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, REQUEST_TIMED_OUT (it may be open now),
    CONCURRENT_TRANSACTIONS (the last one is still being ended), INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED (another producer epoch is the present one), TRANSACTION_ABORTABLE (this one has
    ended, by its producer or by time-out; or ``verify_only`` and the partition is not in it),
    INVALID_REQUEST, POLICY_VIOLATION (too many partitions), UNKNOWN_TOPIC_OR_PARTITION,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED."""

    transactional_id: Name
    error_code: Int16 = 0
    error_message: Text | None = None
    number: Int64 = since(1, default=0)
    """``verify_only``: the transaction has this number under its producer epoch, if it ends by
    number; 0: its end raises the epoch."""


@message
class AddPartitionsToTxnResponse:
    """It has one result a transaction, in the order of the request."""

    error_code: Int16 = 0
    results: list[AddPartitionsResult] = field(default_factory=list)


@message
class AddPartitionsToTxnRequest(Request):
    """Partitions belong to transactions from now on; it is answered when that is committed. A
    leader asks before it appends the first batch of a transaction (KIP-890); many at once. Clients
    may ask for one of their own, and need not."""

    api_key: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = AddPartitionsToTxnResponse

    transactions: list[AddedTransaction]


@message
class AddOffsetsToTxnResponse:
    """Its errors are those of AddPartitionsToTxn, and GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID."""

    error_code: Int16 = 0
    error_message: Text | None = None


@message
class AddOffsetsToTxnRequest(Request):
    """The offsets partition of a group belongs to the transaction from now on. TxnOffsetCommit does
    that by itself."""

    api_key: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    response: ClassVar[type] = AddOffsetsToTxnResponse

    transactional_id: Name
    producer_id: Int64
    producer_epoch: Int16
    group_id: Name


@message
class TxnOffsetCommitPartition:
    """It is as in OffsetCommit."""

    partition: Int32
    offset: Int64
    leader_epoch: Int32 = -1
    metadata: Text | None = None


@message
class TxnOffsetCommitTopic:
    """It has the offsets of one topic; ``topic_id`` is as in OffsetCommit."""

    topic: Name
    partitions: list[TxnOffsetCommitPartition]
    topic_id: Name = since(1, default="")


@message
class TxnOffsetCommitPartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED,
    OFFSET_METADATA_TOO_LARGE."""

    partition: Int32
    error_code: Int16 = 0


@message
class TxnOffsetCommitTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[TxnOffsetCommitPartitionResponse] = field(default_factory=list)


@message
class TxnOffsetCommitResponse:
    """Its whole-request errors are those of AddPartitionsToTxn, of the fencing of members
    (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID), INVALID_REQUEST (an offset below
    0), INVALID_COMMIT_OFFSET_SIZE, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH (a newer transaction of the producer is open in the group)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    topics: list[TxnOffsetCommitTopicResponse] = field(default_factory=list)


@message
class TxnOffsetCommitRequest(Request):
    """Its offsets become the group's when the transaction commits; until then they are pending and
    OffsetFetch with ``require_stable`` waits (KIP-447). Asked of the group's coordinator, which
    adds its partition to the transaction and checks the member as in OffsetCommit."""

    api_key: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = TxnOffsetCommitResponse

    transactional_id: Name
    producer_id: Int64
    producer_epoch: Int16
    group_id: Name
    topics: list[TxnOffsetCommitTopic]
    generation_id: Int32 = -1
    member_id: Name = ""
    group_instance_id: Name | None = None


# ---- ends


@message
class EndTxnResponse:
    """Its errors are COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    REQUEST_TIMED_OUT (may be decided: ask the same again), CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE (nothing to commit, or it ended
    the other way), TRANSACTION_ABORTABLE (a commit after the coordinator aborted: abort),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED. The pair is the producer's next one."""

    error_code: Int16 = 0
    error_message: Text | None = None
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


@message
class EndTxnRequest(Request):
    """Commit or abort; answered when that is decided for good, before the markers are written. A
    repeat is answered like the first (KIP-890)."""

    api_key: ClassVar[ApiKey] = ApiKey.END_TXN
    response: ClassVar[type] = EndTxnResponse

    transactional_id: Name
    producer_id: Int64
    producer_epoch: Int16
    commit: bool


@message
class TxnMarker:
    """It says how the transaction of a producer ended. ``producer_epoch`` is above that of its
    data, unless it ends by ``number``: then it is that of its data."""

    producer_id: Int64
    producer_epoch: Int16
    coordinator_epoch: Int32
    commit: bool
    topics: list[TxnTopic]
    number: Int64 = since(1, default=NO_TXN_NUMBER)


@message
class MarkerPartitionResult:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, STORAGE_ERROR,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (offsets partitions):
    tried again for ever. INVALID_PRODUCER_EPOCH (a newer transaction is open: this one ended there
    before), TRANSACTION_COORDINATOR_FENCED (another coordinator ends it): not tried again."""

    partition: Int32
    error_code: Int16 = 0


@message
class MarkerTopicResult:
    """It has the results of one topic."""

    topic: Name
    partitions: list[MarkerPartitionResult] = field(default_factory=list)


@message
class MarkerResult:
    """It has the results of one marker."""

    producer_id: Int64
    topics: list[MarkerTopicResult] = field(default_factory=list)


@message
class WriteTxnMarkersResponse:
    """It has one result a marker, in the order of the request."""

    error_code: Int16 = 0
    markers: list[MarkerResult] = field(default_factory=list)


@message
class WriteTxnMarkersRequest(Request):
    """A coordinator tells leaders how transactions ended; it is answered when the markers, and what
    they decide of committed offsets, are committed and in force."""

    api_key: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = WriteTxnMarkersResponse
    between_brokers: ClassVar[bool] = True

    markers: list[TxnMarker]
