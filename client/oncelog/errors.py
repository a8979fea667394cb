"""The SDK raises these errors: the answers of brokers, and what only a client can know.

Rules: an error says what was asked, of whom, and what to do about it. ``definite`` answers the one
question that matters after a failed write: *true* means that the records certainly are not in the
log, *false* means that they may be. Errors of the first tree (:class:`ApiError`) carry it in their
class, the client's own carry it in the instance where it depends on what had happened.

What begin, send_offsets, commit and abort of a transaction raise also says, as ``kind``, what comes
next: *retriable*, the same call may be repeated; *abortable*, abort and go on with the next
transaction; *fatal*, this producer is done (KIP-98, KIP-1050). ``docs/transactions.md`` has the
table of what to do after which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from oncelog_protocol import errors as _protocol
from oncelog_protocol.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptMessageError,
    DuplicateResourceError,
    DuplicateSequenceNumberError,
    FencedInstanceIdError,
    FencedLeaderEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    IllegalSaslStateError,
    InconsistentGroupProtocolError,
    InconsistentTopicIdError,
    IneligibleReplicaError,
    InvalidCommitOffsetSizeError,
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidPartitionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    InvalidUpdateVersionError,
    Kind,
    LeaderNotAvailableError,
    LocalProtocolError,
    MessageTooLargeError,
    NonEmptyGroupError,
    NoReassignmentInProgressError,
    NotControllerError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetMetadataTooLargeError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    OncelogError,
    OutOfOrderSequenceNumberError,
    PolicyViolationError,
    ProducerFencedError,
    ProtocolError,
    ReassignmentInProgressError,
    RebalanceInProgressError,
    RebootstrapRequiredError,
    RecordListTooLargeError,
    RemoteProtocolError,
    RequestTimedOutError,
    ResourceNotFoundError,
    SaslAuthenticationFailedError,
    SecurityDisabledError,
    StorageError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    TransactionAlreadyCommittedError,
    TransactionCoordinatorFencedError,
    UnacceptableCredentialError,
    UnknownLeaderEpochError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    error_for,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.channel import NotSentError

if TYPE_CHECKING:
    from oncelog.producer.record_metadata import BatchMetadata


class ClientError(OncelogError):
    """The client itself is the source of the error; no broker answered with it."""

    definite: bool = True
    """True means that the request certainly had no effect."""

    kind: Kind = Kind.FATAL
    """It says what may be done after the error: see the module's text."""


class ConfigurationError(ClientError, ValueError):
    """An option has a value that is not allowed; the message names option, value and remedy."""


class ClosedError(ClientError):
    """The producer, consumer or admin is closed, or was never started."""


class WrongLoopError(ClientError, RuntimeError):
    """The client belongs to another event loop, to another thread, or to the process before a fork.

    The message says which. ``definite`` is false where a delivery is awaited: its record was taken.
    """


class NoBrokersAvailableError(ClientError, ConnectionError):
    """No broker could be reached at any address that was tried.

    ``tried`` holds each address with the reason why it did not serve, in the order of trying.
    """

    kind = Kind.RETRIABLE

    def __init__(self, tried: Sequence[tuple[str, str]], note: str = "") -> None:
        self.tried = tuple(tried)
        listed = "; ".join(f"{address}: {reason}" for address, reason in self.tried)
        text = f"no broker answered; tried {listed or 'nothing: the list of addresses is empty'}"
        super().__init__(f"{text}. {note}" if note else text)


class BrokerUnreachableError(ClientError, ConnectionError):
    """One broker could not be reached at the address that the cluster advertises for it."""

    kind = Kind.RETRIABLE

    def __init__(self, broker_id: int, address: str, reason: str, note: str = "") -> None:
        self.broker_id = broker_id
        self.address = address
        text = f"broker {broker_id} at {address}: {reason}"
        super().__init__(f"{text} ({note})" if note else text)


class HandshakeError(ClientError, ConnectionError):
    """A broker is there, and it and this client did not come to terms. This is the third time in a
    row: trying again alone changes nothing.

    Clients try again whenever they are asked, so what is mended on either side is seen.
    """

    def __init__(self, address: str, cause: str, remedy: str) -> None:
        super().__init__(f"{address}: {cause}: {remedy}")
        self.address = address
        self.cause = cause
        """It says what is wrong."""
        self.remedy = remedy
        """It says what to do about it."""

    def anew(self) -> Self:
        """Return an equal error, for somebody else who is to be told."""
        return type(self)(self.address, self.cause, self.remedy).because_of(self.__cause__)


class TlsError(HandshakeError):
    """TLS was not agreed upon with a broker, or the files for it cannot be used."""


class AuthenticationFailedError(HandshakeError):
    """A broker does not believe that this client is who it says, or wants to know who it is."""


class DeadlineExceededError(ClientError, TimeoutError):
    """A call did not end in the time it was given; the message names what it waited for last."""

    kind = Kind.RETRIABLE

    def __init__(self, message: str, *, definite: bool = True) -> None:
        super().__init__(message)
        self.definite = definite


class BufferExhaustedError(ClientError):
    """There was no room in ``buffer_memory`` (for ``max_block_ms``, or at all for send_nowait)."""

    kind = Kind.RETRIABLE


class DeliveryTimeoutError(ClientError, TimeoutError):
    """A batch was not acknowledged within ``delivery_timeout_ms``.

    ``definite`` is true only when every attempt was refused before anything was appended, or none
    was made; otherwise the records may be in the log.
    """

    kind = Kind.ABORTABLE

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite


class ReorderError(ClientError):
    """A batch failed and a later one of its partition was written: a retry would change the order.

    ``definite`` tells whether the batch is certainly not in the log. Cannot happen with
    ``max_in_flight_requests_per_connection=1``.
    """

    kind = Kind.ABORTABLE

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite


class ConnectionLostError(ClientError, ConnectionError):
    """The connection broke while a write was on its way, and the write may not be repeated."""

    definite = False
    kind = Kind.ABORTABLE


class TransactionOutcomeUnknownError(ClientError, TimeoutError):
    """Nobody said in time how a transaction ends: it may be committed now, later, or never.

    *What to do*: call ``commit_transaction`` again, which asks the same again and cannot commit
    twice; or go on with the next transaction, which begins once the coordinator has settled this
    one, and look in the log what became of it. A consumer that took part reads on from what the
    group has committed.
    """

    definite = False
    kind = Kind.RETRIABLE


class NoTransactionError(ClientError):
    """The call does not fit the producer's state.

    Examples are a send outside of a transaction, a second begin, and a commit of what was not
    begun. *What to do*: mend the program; nothing was harmed.
    """

    kind = Kind.ABORTABLE


class UndeliveredRecordsError(ClientError):
    """``flush`` or ``close`` found failed records whose delivery the application had not looked at.

    ``count`` is the number of records, ``first`` the first failure.
    """

    kind = Kind.ABORTABLE

    def __init__(self, count: int, first: BaseException) -> None:
        super().__init__(f"{count} records were not acknowledged; the first failure: {first}")
        self.count = count
        self.first = first
        self.definite = bool(getattr(first, "definite", False))


class CorruptRecordError(ClientError):
    """A batch read from the log is corrupt: its CRC is wrong, or its body contradicts its header.

    The position stays in front of it; ``seek`` past ``offset`` to leave it out. A consumer with
    ``corrupt_batches="skip"`` steps over such batches by itself, and counts them.
    """

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(f"{topic}-{partition} at offset {offset}: {reason}")
        self.topic = topic
        self.partition = partition
        self.offset = offset


class LogTruncationError(ClientError):
    """Records that this consumer has read are no longer in the log (an unclean election).

    The position has been moved to ``divergence_offset``, where the logs part; iterating again goes
    on from there. Unlike OffsetOutOfRangeError, the offset may exist again with other records.
    """

    def __init__(self, partition: TopicPartition, offset: int, divergence_offset: int) -> None:
        super().__init__(
            f"{partition}: the log was truncated below the position {offset};"
            f" it agrees with what was read up to offset {divergence_offset}"
        )
        self.partition = partition
        self.offset = offset
        self.divergence_offset = divergence_offset


class TopicRecreatedError(ClientError):
    """A topic was deleted and made again, and its partition was assigned by hand.

    The position was that of the former topic; there is none any more. ``seek`` to go on.
    """

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            f"{partition}: the topic was deleted and made again, the position {offset} was that of"
            " the former one: seek to go on"
        )
        self.partition = partition
        self.offset = offset


class NoOffsetForPartitionError(ClientError):
    """A partition has no position and ``auto_offset_reset="none"`` forbids choosing one."""


NoOffsetError = NoOffsetForPartitionError
"""The error had this name before there were groups."""


class CommitFailedError(ClientError):
    """A commit was refused because this consumer is no longer the member that it was. The group
    went on without it (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID).

    Nothing was committed. What was read since the last commit is read again by whoever has the
    partitions now; iterating again joins anew.
    """

    kind = Kind.ABORTABLE


class MaxPollIntervalExceededError(ClientError):
    """The application did not come back for the next record within ``max_poll_interval_ms``.

    The member has left its group, others read its partitions; iterating again joins anew.
    """

    kind = Kind.ABORTABLE

    def __init__(self, group_id: str, interval_ms: int) -> None:
        super().__init__(
            f"group {group_id!r}: no poll for {interval_ms} ms, so this member has left the group:"
            " raise max_poll_interval_ms, do less between two polls, or use run()"
        )
        self.group_id = group_id
        self.interval_ms = interval_ms


class PartialSendError(ClientError):
    """Some records of a ``send_many`` were not acknowledged.

    ``failures`` pairs the input positions of each failed batch with its error; ``written`` is the
    BatchMetadata of the rest. ``definite`` is true when every failure is.
    """

    kind = Kind.ABORTABLE

    def __init__(
        self, failures: Sequence[tuple[Sequence[int], BaseException]], written: BatchMetadata
    ) -> None:
        count = sum(len(rows) for rows, _ in failures)
        super().__init__(f"{count} records were not acknowledged: {failures[0][1]}")
        self.failures = tuple(failures)
        self.written = written
        self.definite = all(is_definite(error) for _, error in failures)


InvalidPidMappingError = InvalidProducerIdMappingError
"""Kafka 0.11's name. The coordinator knows the transactional id with another producer id, or not at
all (it was idle for ``transactional_id_expiration_ms``). *What to do*: abort; the next transaction
asks for a new producer id by itself, unless another instance has the transactional id by now, which
is then said with ProducerFencedError."""

NotCoordinatorForTransactionalIdError = NotCoordinatorError
"""Kafka 0.11's name. Another broker coordinates the transactional id. *What to do*: nothing, the
producer finds it and asks again; heard of only as the cause of a deadline."""

InvalidTxnRequestError = InvalidTxnStateError
"""Kafka 0.11's name. Not possible in the state the transaction is in, as the coordinator sees it.
*What to do*: close the producer; two programs drive one transaction, or one mixes ordinary and
shared transactions under one transactional id."""

InvalidSequenceNumberError = OutOfOrderSequenceNumberError
"""Kafka 0.11's name. A batch does not follow the last one of its producer: one before it is lost.
*What to do*: abort the transaction and do it again. Without a transaction the records of the batch
failed; later ones are not harmed."""

InvalidProducerEpoch = InvalidProducerEpochError
"""By Kafka 0.11's list. The producer's epoch is an older one: its transaction was ended by its
time-out. *What to do*: abort and do it again, in less time than ``transaction_timeout_ms``."""

ProducerFenced = ProducerFencedError
"""By Kafka 0.11's list. A newer producer with the same transactional id took over. *What to do*:
close this one and stop; what it had not committed is aborted, and the newer one does the work."""

InvalidPidMapping = InvalidPidMappingError
NotCoordinatorForTransactionalId = NotCoordinatorForTransactionalIdError
InvalidTxnRequest = InvalidTxnRequestError

CoordinatorNotAvailable = CoordinatorNotAvailableError
"""By Kafka 0.11's list. No coordinator can be named at the moment. *What to do*: nothing, the
producer asks again until its deadline; if that is over, look after the brokers."""

DuplicateSequenceNumber = DuplicateSequenceNumberError
"""By Kafka 0.11's list. The batch is in the log already, older than what brokers remember. *What to
do*: nothing, the producer takes it for acknowledged, without an offset."""

InvalidSequenceNumber = InvalidSequenceNumberError

InvalidTransactionTimeout = InvalidTransactionTimeoutError
"""By Kafka 0.11's list. ``transaction_timeout_ms`` is above the brokers'
``transaction_max_timeout_ms``. *What to do*: ask for less, or raise that."""


def error_about(what: object, code: int, message: str = "") -> ApiError:
    """Make the error of a code. Its text begins with ``what``, which the error is about."""
    error = error_for(code, message)
    return type(error)(f"{what}: {error}")


def is_definite(error: BaseException) -> bool:
    """Return whether the write certainly had no effect; for an unknown error return False."""
    if isinstance(error, NotSentError):
        return True
    return bool(getattr(error, "definite", False))


def may_have_acted(error: BaseException) -> None:
    """Mark ``error``: the write may have had an effect. Only Oncelog's own promise otherwise."""
    if isinstance(error, OncelogError):
        error.may_have_acted()


def is_retriable(error: BaseException) -> bool:
    """Return whether the same request may succeed later, unchanged."""
    if isinstance(error, ApiError):
        return error.retriable
    if isinstance(error, HandshakeError):
        return False
    return isinstance(error, (OSError, TimeoutError, RemoteProtocolError))


ERRORS = _protocol.ERRORS

__all__ = [
    "ERRORS",
    "ApiError",
    "AuthenticationFailedError",
    "BrokerIdNotRegisteredError",
    "BrokerNotAvailableError",
    "BrokerUnreachableError",
    "BufferExhaustedError",
    "ClientError",
    "ClosedError",
    "ClusterAuthorizationFailedError",
    "CommitFailedError",
    "ConcurrentTransactionsError",
    "ConfigurationError",
    "ConnectionLostError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailable",
    "CoordinatorNotAvailableError",
    "CorruptMessageError",
    "CorruptRecordError",
    "DeadlineExceededError",
    "DeliveryTimeoutError",
    "DuplicateResourceError",
    "DuplicateSequenceNumber",
    "DuplicateSequenceNumberError",
    "FencedInstanceIdError",
    "FencedLeaderEpochError",
    "GroupAuthorizationFailedError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "GroupSubscribedToTopicError",
    "HandshakeError",
    "IllegalGenerationError",
    "IllegalSaslStateError",
    "InconsistentGroupProtocolError",
    "InconsistentTopicIdError",
    "IneligibleReplicaError",
    "InvalidCommitOffsetSizeError",
    "InvalidConfigError",
    "InvalidGroupIdError",
    "InvalidPartitionsError",
    "InvalidPidMapping",
    "InvalidPidMappingError",
    "InvalidProducerEpoch",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordError",
    "InvalidReplicaAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidSequenceNumber",
    "InvalidSequenceNumberError",
    "InvalidSessionTimeoutError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTransactionTimeout",
    "InvalidTransactionTimeoutError",
    "InvalidTxnRequest",
    "InvalidTxnRequestError",
    "InvalidTxnStateError",
    "InvalidUpdateVersionError",
    "Kind",
    "LeaderNotAvailableError",
    "LocalProtocolError",
    "LogTruncationError",
    "MaxPollIntervalExceededError",
    "MessageTooLargeError",
    "NoBrokersAvailableError",
    "NoOffsetError",
    "NoOffsetForPartitionError",
    "NoReassignmentInProgressError",
    "NoTransactionError",
    "NonEmptyGroupError",
    "NotControllerError",
    "NotCoordinatorError",
    "NotCoordinatorForTransactionalId",
    "NotCoordinatorForTransactionalIdError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OffsetMetadataTooLargeError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "OncelogError",
    "OutOfOrderSequenceNumberError",
    "PartialSendError",
    "PolicyViolationError",
    "ProducerFenced",
    "ProducerFencedError",
    "ProtocolError",
    "ReassignmentInProgressError",
    "RebalanceInProgressError",
    "RebootstrapRequiredError",
    "RecordListTooLargeError",
    "RemoteProtocolError",
    "ReorderError",
    "RequestTimedOutError",
    "ResourceNotFoundError",
    "SaslAuthenticationFailedError",
    "SecurityDisabledError",
    "StorageError",
    "ThrottlingQuotaExceededError",
    "TlsError",
    "TopicAlreadyExistsError",
    "TopicAuthorizationFailedError",
    "TopicRecreatedError",
    "TransactionAbortableError",
    "TransactionAlreadyCommittedError",
    "TransactionCoordinatorFencedError",
    "TransactionOutcomeUnknownError",
    "TransactionalIdAuthorizationFailedError",
    "TransactionalIdNotFoundError",
    "UnacceptableCredentialError",
    "UndeliveredRecordsError",
    "UnknownLeaderEpochError",
    "UnknownMemberIdError",
    "UnknownProducerIdError",
    "UnknownServerError",
    "UnknownTopicOrPartitionError",
    "UnstableOffsetCommitError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "error_about",
    "error_for",
    "is_definite",
    "is_retriable",
    "may_have_acted",
]
