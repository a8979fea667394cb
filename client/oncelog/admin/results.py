"""Admin calls take and return typed values, one result an item, errors beside results.

Rules: an item that failed does not hide the others; ``raise_for_errors()`` is for callers who want
all or an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar, overload

from oncelog.errors import ApiError, ClientError
from oncelog_protocol.types import TopicPartition


class HasError(Protocol):
    """A result with ``error`` tells whether its item succeeded."""

    @property
    def error(self) -> ApiError | None:
        """Return the item's error; None when the item succeeded."""
        ...


R = TypeVar("R", bound=HasError)
T = TypeVar("T")


class AdminError(ClientError):
    """Some items of an admin call failed; ``errors`` holds each."""

    def __init__(self, errors: Sequence[ApiError | ClientError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = tuple(errors)
        self.definite = all(error.definite for error in errors)


class Items(Sequence[T], Generic[T]):
    """The answer to an admin call is a sequence."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._items)!r})"


class Results(Items[R]):
    """The results have one entry an item, in the order of asking."""

    @property
    def errors(self) -> list[ApiError]:
        """Return the errors of the items that failed."""
        return [item.error for item in self if item.error is not None]

    def raise_for_errors(self) -> Results[R]:
        """Raise an error if any item failed, else return the results.

        :raises ApiError: one item failed; AdminError: several did.
        """
        raise_one_or_all(self.errors)
        return self


class Found(Items[T]):
    """The list has what was found; ``unanswered`` has brokers whose list is missing or partial."""

    def __init__(
        self, items: Iterable[T], unanswered: Mapping[int, ApiError | ClientError] | None = None
    ) -> None:
        super().__init__(items)
        self.unanswered = dict(unanswered or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._items)!r}, {self.unanswered!r})"

    def raise_for_errors(self) -> Self:
        """Raise an error if the list may lack something, else return the list.

        :raises ApiError, ClientError: the one broker's error; AdminError: of several.
        """
        raise_one_or_all(list(self.unanswered.values()))
        return self


def raise_one_or_all(errors: Sequence[ApiError | ClientError]) -> None:
    """Raise the only error, or an AdminError of several; return if there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise AdminError(errors)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic is created with these counts and configs; -1 takes the broker's default.

    ``assignment`` (one list of broker ids a partition, the preferred leader first) replaces both
    counts.
    """

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """One topic was created, grown or deleted, or was not."""

    topic: str
    error: ApiError | None = None
    topic_id: str = ""
    partition_count: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition has a leader and replicas; ``leader`` is -1 while nobody leads."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """These replicas outside the ISR hold all that is committed, and may lead (KIP-966)."""
    last_known_elr: tuple[int, ...] = ()
    """These were in the ELR and have lost data since; an unclean election takes them first."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic has this id and these partitions, unless ``error`` is set."""

    topic: str
    error: ApiError | None = None
    topic_id: str = ""
    internal: bool = False
    partitions: tuple[PartitionDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigSetting:
    """A setting has this value, and ``source`` says where the value comes from.

    Sources are "topic"; "dynamic_broker" and "dynamic_default" (set while brokers run, for one
    broker or for all); "broker" (its file, environment or command line); and "default". A secret
    has no value.
    """

    key: str
    value: str | None
    source: str
    read_only: bool
    documentation: str


@dataclass(frozen=True, slots=True)
class ConfigOutcome:
    """A topic or a broker has these settings, or altering them ended with ``error``."""

    kind: str
    """It is "topic" or "broker"."""
    name: str
    """A broker's name is its id in digits; "" stands for all brokers."""
    error: ApiError | None = None
    settings: Mapping[str, ConfigSetting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A live broker advertises these addresses, one a listener, by the listener's name."""

    broker_id: int
    broker_epoch: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]
    state: str | None = None
    """It is "active", "draining", "decommissioning" or "decommissioned"; None: the broker that was
    asked is of a release that does not say it."""
    http: str | None = None
    """Its metrics and probes are at this ``host:port``, "" when it serves none; None as above. They
    are served by TLS when it has a ``metrics_tls_certificate_file``."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """One broker sees the cluster so; ``controller_id`` is -1 while nobody is controller."""

    cluster_id: str
    controller_id: int
    controller_epoch: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class WhoAmI:
    """One broker knows this client so."""

    principal: str
    authenticated_by: str
    """It is a mechanism of SASL, or "CERTIFICATE"; "" is nothing: the client is anonymous."""
    cluster_id: str
    broker_id: int
    address: str
    """The broker was asked at this address, ``host:port``,"""
    listener: str
    """which is that of its listener of this name."""
    authorizer: str
    """It decides there who may do what: "none" lets everybody do everything, "acl" does not."""


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A log directory holds this replica; its sizes are in bytes."""

    partition: TopicPartition
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FutureReplicaDescription:
    """A replica moves to a log directory; so far is its copy."""

    partition: TopicPartition
    size_bytes: int
    """So much is copied."""
    offset_lag: int
    """The copy lacks so many offsets."""


@dataclass(frozen=True, slots=True)
class ReplicaMoveOutcome:
    """One broker's replica goes to another directory, or does not."""

    partition: TopicPartition
    error: ApiError | None = None
    bytes_to_copy: int | None = None
    """None: it is not known."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory holds these replicas; ``path`` is "" when the broker did not answer."""

    broker_id: int
    path: str
    error: ApiError | ClientError | None
    total_bytes: int = 0
    free_bytes: int = 0
    replicas: tuple[ReplicaDescription, ...] = ()
    future: tuple[FutureReplicaDescription, ...] = ()
    """These are on their way here from other directories of the broker."""
    damaged: tuple[TopicPartition, ...] = ()
    """Rot was found in these replicas, and they are not whole again yet."""


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """A leader of one partition was elected, or was not."""

    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class RecordDeletionOutcome:
    """Records of one partition were deleted, or were not."""

    partition: TopicPartition
    error: ApiError | None = None
    low_watermark: int = -1
    """This is the first offset that is left, at every replica that may lead."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """One partition has this offset at the point that was asked for, or has an ``error``."""

    partition: TopicPartition
    error: ApiError | None = None
    offset: int | None = None
    """It is None when no record is as new as the time that was asked for."""
    timestamp_ms: int | None = None
    """A record that was found by time has this one, in ms since 1970."""
    leader_epoch: int | None = None
    """The record that was found by time was written in this epoch; without a time it is that of the
    leader who answered."""


@dataclass(frozen=True, slots=True)
class BrokerApiVersions:
    """A broker speaks these APIs (by name, first and last version), or has an ``error``."""

    broker_id: int
    error: ApiError | ClientError | None = None
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
