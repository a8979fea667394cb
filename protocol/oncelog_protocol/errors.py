"""The error table has one class an error code, and says what each one promises.

The class docstring says which API returns the code and when. ``definite`` answers the question
that decides whether data can be lost or doubled: *true* means the request certainly had no effect,
*false* means it may have had one (Jepsen's client maps its results the same way). Numbers and
names are those of Kafka's protocol where Kafka has the error.

Two more trees live here because they are not answers of a broker: ``LocalProtocolError`` (we broke
the rules of the wire) and ``RemoteProtocolError`` (the peer did), split as h11 splits them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar, Self


class Kind(Enum):
    """It says what a client may do after an error."""

    RETRIABLE = "retriable"
    ABORTABLE = "abortable"
    FATAL = "fatal"


class OncelogError(Exception):
    """It is the base of every error that Oncelog raises on purpose."""

    definite: bool
    """Whether the request certainly had no effect; absent where nothing is known of that."""

    def may_have_acted(self) -> None:
        """Say from now on that the request may have had an effect: an earlier attempt may."""
        self.definite = False

    def because_of(self, cause: BaseException | None) -> Self:
        """Name the cause, as ``raise ... from`` would. Returns the error itself."""
        self.__cause__ = cause
        return self


class ProtocolError(OncelogError):
    """A frame, message or batch breaks the wire format."""


class LocalProtocolError(ProtocolError):
    """This side was about to send something illegal; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer has sent something illegal; the connection cannot go on."""


def _protocol_name(class_name: str) -> str:
    """Return ``NOT_COORDINATOR`` for ``NotCoordinatorError``."""
    words = re.findall("[A-Z][a-z]*", class_name.removesuffix("Error"))
    return "_".join(words).upper()


def _meaning(documentation: str) -> str:
    """Return what an error means, from a docstring that begins with the APIs that answer it: who
    reads the error knows what was asked."""
    text = " ".join(documentation.replace("``", "").split())
    _, colon, rest = text.partition(": ")
    return (rest if colon else text).removesuffix(".")


class ApiError(OncelogError):
    """It is an error code as answered by a broker. Raised by clients, returned by handlers."""

    code: ClassVar[int]
    name: ClassVar[str]
    kind: ClassVar[Kind]

    def __init_subclass__(cls, *, code: int, kind: Kind, definite: bool, label: str = "") -> None:
        cls.code = code
        cls.kind = kind
        cls.definite = definite
        cls.name = label or _protocol_name(cls.__name__)

    def __init__(self, message: str = "") -> None:
        super().__init__(message or _meaning(self.__doc__ or ""))

    @property
    def retriable(self) -> bool:
        """Return whether the same request may succeed later, unchanged."""
        return self.kind is Kind.RETRIABLE


class UnknownServerError(
    ApiError, code=-1, kind=Kind.FATAL, definite=False, label="UNKNOWN_SERVER_ERROR"
):
    """The broker failed in a way it has no name for; never returned on the produce path."""


class OffsetOutOfRangeError(ApiError, code=1, kind=Kind.FATAL, definite=True):
    """Fetch or ListOffsets: the offset is below the log start or past the log end."""


class CorruptMessageError(ApiError, code=2, kind=Kind.RETRIABLE, definite=True):
    """Produce: a batch whose CRC, length or header does not hold; nothing was appended."""


class UnknownTopicOrPartitionError(ApiError, code=3, kind=Kind.RETRIABLE, definite=True):
    """Any API: this broker does not know the topic or partition, or hosts no replica of it."""


class LeaderNotAvailableError(ApiError, code=5, kind=Kind.RETRIABLE, definite=True):
    """Metadata: the partition has no leader at the moment."""


class NotLeaderOrFollowerError(ApiError, code=6, kind=Kind.RETRIABLE, definite=False):
    """Produce, Fetch, ListOffsets: this broker does not lead the partition, or stopped leading
    it while the request waited.
    """


class RequestTimedOutError(ApiError, code=7, kind=Kind.RETRIABLE, definite=False):
    """Any API: the deadline was over before the answer was known; the effect may still come."""


class BrokerNotAvailableError(ApiError, code=8, kind=Kind.RETRIABLE, definite=True):
    """Any API: the broker is starting or stopping and took no action."""


class ReplicaNotAvailableError(ApiError, code=9, kind=Kind.RETRIABLE, definite=True):
    """Fetch from a follower: the replica is not on this broker."""


class MessageTooLargeError(ApiError, code=10, kind=Kind.FATAL, definite=True):
    """Produce: the batch is larger than max_message_bytes of the topic."""


class StaleControllerEpochError(ApiError, code=11, kind=Kind.FATAL, definite=True):
    """LeaderAndIsr, StopReplica, UpdateMetadata: the sender is no longer the controller."""


class OffsetMetadataTooLargeError(ApiError, code=12, kind=Kind.FATAL, definite=True):
    """OffsetCommit: the metadata is longer than ``offset_metadata_max_bytes``."""


class CoordinatorLoadInProgressError(ApiError, code=14, kind=Kind.RETRIABLE, definite=True):
    """Group and transaction APIs: the coordinator is still reading its log; it answers in a
    moment."""


class CoordinatorNotAvailableError(ApiError, code=15, kind=Kind.RETRIABLE, definite=True):
    """FindCoordinator, InitPid: no broker can be named as the coordinator at the moment."""


class NotCoordinatorError(ApiError, code=16, kind=Kind.RETRIABLE, definite=True):
    """Group and transaction APIs: another broker is the coordinator now."""


class InvalidTopicError(ApiError, code=17, kind=Kind.FATAL, definite=True):
    """Any API: the name is not a legal topic name, or names an internal topic."""


class RecordListTooLargeError(ApiError, code=18, kind=Kind.FATAL, definite=True):
    """Produce: the batch is larger than segment_bytes of the topic."""


class NotEnoughReplicasError(ApiError, code=19, kind=Kind.RETRIABLE, definite=True):
    """Produce with acks=all: fewer in-sync replicas than min_insync_replicas, seen before the
    append.
    """


class NotEnoughReplicasAfterAppendError(ApiError, code=20, kind=Kind.RETRIABLE, definite=False):
    """Produce with acks=all: fewer replicas than min_insync_replicas were in sync after the
    append."""


class InvalidRequiredAcksError(ApiError, code=21, kind=Kind.FATAL, definite=True):
    """Produce: acks is not 0, 1 or -1."""


class IllegalGenerationError(ApiError, code=22, kind=Kind.FATAL, definite=True):
    """Group APIs: the group has rebalanced since this member was told its assignment."""


class InconsistentGroupProtocolError(ApiError, code=23, kind=Kind.FATAL, definite=True):
    """JoinGroup: every assignment strategy that this member offers is unknown to another member."""


class InvalidGroupIdError(ApiError, code=24, kind=Kind.FATAL, definite=True):
    """Group APIs: the group id is empty, too long, or has characters that none may have."""


class UnknownMemberIdError(ApiError, code=25, kind=Kind.FATAL, definite=True):
    """Group APIs: the group does not know this member, or not any more: it was silent for longer
    than its session, or it was removed."""


class InvalidSessionTimeoutError(ApiError, code=26, kind=Kind.FATAL, definite=True):
    """JoinGroup: session_timeout_ms is not within what the brokers allow."""


class RebalanceInProgressError(ApiError, code=27, kind=Kind.RETRIABLE, definite=True):
    """Group APIs: the group is rebalancing: its members join again."""


class InvalidCommitOffsetSizeError(ApiError, code=28, kind=Kind.FATAL, definite=True):
    """OffsetCommit: the commit does not fit a batch of the internal topic."""


class TopicAuthorizationFailedError(ApiError, code=29, kind=Kind.FATAL, definite=True):
    """Any API: the principal may not do this to the topic."""


class GroupAuthorizationFailedError(ApiError, code=30, kind=Kind.FATAL, definite=True):
    """Group APIs: it is not allowed to do this to the group."""


class ClusterAuthorizationFailedError(ApiError, code=31, kind=Kind.FATAL, definite=True):
    """Admin and inter-broker APIs: the principal or the listener may not use this API."""


class InvalidTimestampError(ApiError, code=32, kind=Kind.FATAL, definite=True):
    """Produce: a timestamp outside what the topic accepts."""


class UnsupportedSaslMechanismError(ApiError, code=33, kind=Kind.FATAL, definite=True):
    """Authenticate: the listener does not take this SASL mechanism; the message names those that
    it takes."""


class IllegalSaslStateError(ApiError, code=34, kind=Kind.FATAL, definite=True):
    """Any API: the peer is not known yet, or an authentication was out of turn. The connection
    ends."""


class UnsupportedVersionError(ApiError, code=35, kind=Kind.FATAL, definite=True):
    """ApiVersions names the supported range; any other API: this version, or this API, is not
    spoken here.
    """


class TopicAlreadyExistsError(ApiError, code=36, kind=Kind.FATAL, definite=True):
    """CreateTopics: the topic exists."""


class InvalidPartitionsError(ApiError, code=37, kind=Kind.FATAL, definite=True):
    """CreateTopics, CreatePartitions: the partition count is not above zero, too large, or not
    a growth.
    """


class InvalidReplicationFactorError(ApiError, code=38, kind=Kind.FATAL, definite=True):
    """CreateTopics: the replication factor is below 1 or above the number of live brokers."""


class InvalidReplicaAssignmentError(ApiError, code=39, kind=Kind.FATAL, definite=True):
    """CreateTopics, CreatePartitions: the assignment repeats or names unknown brokers, or is
    uneven.
    """


class InvalidConfigError(ApiError, code=40, kind=Kind.FATAL, definite=True):
    """CreateTopics, AlterConfigs: a key is unknown, or a value is of the wrong type or out of
    bounds.
    """


class NotControllerError(ApiError, code=41, kind=Kind.RETRIABLE, definite=True):
    """Admin and AlterPartition: this broker is not the controller; metadata names it."""


class InvalidRequestError(ApiError, code=42, kind=Kind.FATAL, definite=True):
    """Any API: the request contradicts itself or breaks a documented rule."""


class UnsupportedForMessageFormatError(ApiError, code=43, kind=Kind.FATAL, definite=True):
    """Produce: the batch is of a format that this listener does not take, or that not every broker
    of the cluster can read yet.
    """


class PolicyViolationError(ApiError, code=44, kind=Kind.FATAL, definite=True):
    """Admin APIs: the request is legal but refused by a policy of the cluster."""


class OutOfOrderSequenceNumberError(ApiError, code=45, kind=Kind.FATAL, definite=True):
    """Produce: the sequence number does not follow the last one of this producer."""


class DuplicateSequenceNumberError(ApiError, code=46, kind=Kind.FATAL, definite=True):
    """Produce: a batch older than the remembered window was sent again."""


class InvalidProducerEpochError(ApiError, code=47, kind=Kind.ABORTABLE, definite=True):
    """Produce, transaction APIs: the producer epoch is an older one."""


class InvalidTxnStateError(ApiError, code=48, kind=Kind.FATAL, definite=True):
    """Transaction APIs: not possible in the state the transaction is in."""


class InvalidProducerIdMappingError(ApiError, code=49, kind=Kind.FATAL, definite=True):
    """Transaction APIs: the producer id does not belong to the transactional id. Produce: another
    principal has used the producer id in this partition."""


class InvalidTransactionTimeoutError(ApiError, code=50, kind=Kind.FATAL, definite=True):
    """InitPid: the time-out is not above zero or above transaction_max_timeout_ms."""


class ConcurrentTransactionsError(ApiError, code=51, kind=Kind.RETRIABLE, definite=True):
    """Transaction APIs: the previous transaction is still being ended."""


class TransactionCoordinatorFencedError(ApiError, code=52, kind=Kind.FATAL, definite=True):
    """WriteTxnMarkers: a newer coordinator has written markers of this producer."""


class TransactionalIdAuthorizationFailedError(ApiError, code=53, kind=Kind.FATAL, definite=True):
    """Transaction APIs: the principal may not use the transactional id."""


class SecurityDisabledError(ApiError, code=54, kind=Kind.FATAL, definite=True):
    """Admin APIs of ACLs, users and quotas: the cluster keeps none, since nobody can authenticate
    and brokers do not decide by ACLs."""


class OperationNotAttemptedError(ApiError, code=55, kind=Kind.FATAL, definite=True):
    """AlterPartition and batched admin APIs: another part of the request failed first; this
    part was not tried.
    """


class StorageError(ApiError, code=56, kind=Kind.RETRIABLE, definite=False, label="STORAGE_ERROR"):
    """Produce, Fetch: the log directory of the replica failed or is full."""


class LogDirNotFoundError(ApiError, code=57, kind=Kind.FATAL, definite=True):
    """Admin: there is no such log directory."""


class SaslAuthenticationFailedError(ApiError, code=58, kind=Kind.FATAL, definite=True):
    """Authenticate: the user name, the password or the token is wrong, or a rule of the mechanism
    was broken; the peer is not told which. The connection ends (KIP-152)."""


class UnknownProducerIdError(ApiError, code=59, kind=Kind.FATAL, definite=True):
    """Produce: the broker holds no state for the producer id."""


class ReassignmentInProgressError(ApiError, code=60, kind=Kind.RETRIABLE, definite=True):
    """Admin APIs of replicas: the partition moves at the moment."""


class NonEmptyGroupError(ApiError, code=68, kind=Kind.FATAL, definite=True):
    """DeleteGroups, OffsetDelete: the group has members; they must leave it first."""


class GroupIdNotFoundError(ApiError, code=69, kind=Kind.FATAL, definite=True):
    """DescribeGroups, DeleteGroups, OffsetDelete: there is no such group."""


class FetchSessionIdNotFoundError(ApiError, code=70, kind=Kind.RETRIABLE, definite=True):
    """Fetch: the session does not exist; send a full fetch."""


class InvalidFetchSessionEpochError(ApiError, code=71, kind=Kind.RETRIABLE, definite=True):
    """Fetch: the session epoch is not the next one; send a full fetch."""


class FencedLeaderEpochError(ApiError, code=74, kind=Kind.RETRIABLE, definite=True):
    """Fetch, ListOffsets, OffsetForLeaderEpoch, AlterPartition: the leader epoch in the
    request is older than the replica's.
    """


class UnknownLeaderEpochError(ApiError, code=75, kind=Kind.RETRIABLE, definite=True):
    """Same APIs: the leader epoch in the request is newer than the replica's."""


class UnsupportedCompressionTypeError(ApiError, code=76, kind=Kind.FATAL, definite=True):
    """Produce: a codec id that is not known."""


class StaleBrokerEpochError(ApiError, code=77, kind=Kind.FATAL, definite=True):
    """Inter-broker APIs: the broker epoch is of an earlier life of the broker."""


class OffsetNotAvailableError(ApiError, code=78, kind=Kind.RETRIABLE, definite=True):
    """ListOffsets: a new leader does not know yet how far its predecessor has shown the log to
    readers; an end offset might be less than one that was told before (KIP-207).
    """


class MemberIdRequiredError(ApiError, code=79, kind=Kind.RETRIABLE, definite=True):
    """JoinGroup: the member is to join again with the id that this answer carries."""


class GroupMaxSizeReachedError(ApiError, code=81, kind=Kind.FATAL, definite=True):
    """JoinGroup: the group has as many members as it may have (group_max_size)."""


class FencedInstanceIdError(ApiError, code=82, kind=Kind.FATAL, definite=True):
    """Group APIs: another process has taken over the group_instance_id of this one."""


class EligibleLeadersNotAvailableError(ApiError, code=83, kind=Kind.RETRIABLE, definite=True):
    """Elections: no replica may lead the partition."""


class ElectionNotNeededError(ApiError, code=84, kind=Kind.FATAL, definite=True):
    """Elections: the preferred replica leads already."""


class NoReassignmentInProgressError(ApiError, code=85, kind=Kind.FATAL, definite=True):
    """AlterPartitionReassignments: the partition does not move, so there is nothing to cancel."""


class GroupSubscribedToTopicError(ApiError, code=86, kind=Kind.FATAL, definite=True):
    """OffsetDelete: a member of the group is subscribed to the topic."""


class InvalidRecordError(ApiError, code=87, kind=Kind.FATAL, definite=True):
    """Produce: a batch that breaks a rule of the format or of the topic (count, deltas,
    reserved bits).
    """

    def __init__(self, message: str = "", records: Sequence[int] = ()) -> None:
        """Name the records of the batch that break it, by number from 0, if it is some of them."""
        super().__init__(message)
        self.records = records


class UnstableOffsetCommitError(ApiError, code=88, kind=Kind.RETRIABLE, definite=True):
    """OffsetFetch: offsets of an open transaction are pending."""


class ThrottlingQuotaExceededError(ApiError, code=89, kind=Kind.RETRIABLE, definite=True):
    """Any API: a quota of the principal is used up."""


class ProducerFencedError(ApiError, code=90, kind=Kind.FATAL, definite=True):
    """Transaction APIs: a newer producer with the same transactional id took over."""


class ResourceNotFoundError(ApiError, code=91, kind=Kind.FATAL, definite=True):
    """Admin APIs of users: there is no such user, or it has no credential of this mechanism."""


class DuplicateResourceError(ApiError, code=92, kind=Kind.FATAL, definite=True):
    """Admin APIs of users: there is such a user already (KIP-554)."""


class UnacceptableCredentialError(ApiError, code=93, kind=Kind.FATAL, definite=True):
    """Admin APIs of users: the name, the salt, a key or the number of iterations is not allowed
    (KIP-554)."""


class InvalidUpdateVersionError(ApiError, code=95, kind=Kind.FATAL, definite=True):
    """AlterPartition: the partition epoch in the request is not the current one.
    AlterPartitionReassignments: the replicas are not those that the asker expects."""


class UnknownTopicIdError(ApiError, code=100, kind=Kind.RETRIABLE, definite=True):
    """Any API: the topic id is not known here."""


class TransactionalIdNotFoundError(ApiError, code=105, kind=Kind.FATAL, definite=True):
    """DescribeTransactions: the coordinator does not know the transactional id."""


class BrokerIdNotRegisteredError(ApiError, code=102, kind=Kind.FATAL, definite=True):
    """AlterBrokerStates: no broker has the id, none has had a replica under it, and nobody has
    taken it out of service."""


class InconsistentTopicIdError(ApiError, code=103, kind=Kind.RETRIABLE, definite=True):
    """LeaderAndIsr, Fetch: the topic id on disk is another one (the topic was deleted and made
    anew).
    """


class IneligibleReplicaError(ApiError, code=107, kind=Kind.FATAL, definite=True):
    """AlterPartition: a proposed ISR member is not alive or has restarted since. Fetch: a follower
    that lacks committed records is sent nothing before it has left ISR and ELR.
    AlterPartitionReassignments: a broker that would get a replica is being decommissioned."""


class NewLeaderElectedError(ApiError, code=108, kind=Kind.RETRIABLE, definite=True):
    """AlterPartition: the change went through, and led to another leader."""


class TransactionAbortableError(ApiError, code=120, kind=Kind.ABORTABLE, definite=True):
    """Transaction APIs, Produce: the coordinator has aborted the transaction (its time was over),
    or the partition is not in it. Abort, and go on with the next one (KIP-890, KIP-1050)."""


class RebootstrapRequiredError(ApiError, code=129, kind=Kind.RETRIABLE, definite=True):
    """ApiVersions: the address leads to another cluster, or to another broker of this one, than
    the asker meant. Nothing else was served; the asker has to learn the address anew (KIP-1102).
    """


class TransactionAlreadyCommittedError(ApiError, code=1000, kind=Kind.FATAL, definite=True):
    """JoinTxn: what this tag stands for was committed before; nothing is to be written again."""

    def __init__(self, message: str = "", last_committed_tag: int | None = None) -> None:
        super().__init__(message)
        self.last_committed_tag = last_committed_tag
        """The newest one that is; None: not known here."""


ERRORS: dict[int, type[ApiError]] = {cls.code: cls for cls in ApiError.__subclasses__()}
"""Every error by its code; 0 is success and is not in the table."""

NO_ERROR = 0


def error_for(code: int, message: str = "") -> ApiError:
    """Make the exception for a non-zero ``code``.

    A code this release does not know becomes :class:`UnknownServerError`, naming the number.
    """
    cls = ERRORS.get(code)
    if cls is None:
        return UnknownServerError(f"error code {code} is not known here: {message}")
    return cls(message)
