"""A client believes this of the cluster: brokers, controller, leaders. Pure.

Rules: a metadata answer is merged, never trusted blindly. A partition's leader is replaced only by
one of the same or a newer leader epoch (KIP-320: a broker that lags behind must not send the client
back to a deposed leader), unless the topic id changed: then the topic is another one. The cluster
id of the first answer is held on to: an answer of another cluster is refused. A topic's absence is
remembered as an error, so that callers can tell *unknown* from *not asked yet*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from oncelog.config import Address
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    InvalidTopicError,
    LeaderNotAvailableError,
    RebootstrapRequiredError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    error_for,
)
from oncelog_protocol.identity import NO_CLUSTER, Identity, misfit
from oncelog_protocol.messages.metadata import MetadataPartition, MetadataResponse, MetadataTopic
from oncelog_protocol.types import NO_BROKER, NO_EPOCH, NO_LEADER, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A live broker advertises this address to this listener."""

    broker_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition has a leader and replicas; ``leader`` is -1 while nobody leads."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicView:
    """A topic has these partitions: ``partitions`` is indexed by partition number."""

    topic: str
    topic_id: str
    internal: bool = False
    partitions: list[PartitionView] = field(default_factory=list)

    @property
    def partition_count(self) -> int:
        """Return the number of partitions."""
        return len(self.partitions)


NOBODY = PartitionView(NO_LEADER, NO_EPOCH)


class ClusterMetadata:
    """A cluster is the merged view of metadata; ``version`` grows with every merge."""

    def __init__(self) -> None:
        self.cluster_id = NO_CLUSTER
        self.controller_id = NO_BROKER
        self.brokers: dict[int, BrokerView] = {}
        self.topics: dict[str, TopicView] = {}
        self.errors: dict[str, ApiError] = {}
        self.version = 0

    def identity(self, broker_id: int = NO_BROKER) -> Identity:
        """Return whom to look for: a broker, or any, of this cluster once it is known."""
        return Identity(self.cluster_id, broker_id)

    def leave(self) -> None:
        """Forget the cluster id, as the client was closed and may be opened on another cluster."""
        self.cluster_id = NO_CLUSTER

    def check(self, response: MetadataResponse) -> None:
        """Raise RebootstrapRequiredError when the answer comes from another cluster."""
        fault = misfit(self.identity(), Identity(response.cluster_id))
        if fault:
            raise RebootstrapRequiredError(fault)

    def apply(
        self,
        response: MetadataResponse,
        asked: Sequence[str] | None,
        wanted: Iterable[str] = (),
    ) -> None:
        """Merge one metadata answer.

        :param asked: what the request named; None stands for every topic.
        :param wanted: topics that somebody hopes for when the request named none.
        :raises RebootstrapRequiredError: the answer is of another cluster; nothing has changed.
        """
        self.check(response)
        for topic in response.topics:
            _check_partition_numbers(topic)
        self.version += 1
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        # An answer without brokers comes from a broker that has not heard from a controller yet.
        if response.brokers:
            self.brokers = {
                broker.broker_id: BrokerView(
                    broker.broker_id, Address(broker.host, broker.port), broker.rack
                )
                for broker in sorted(response.brokers, key=lambda item: item.broker_id)
            }
        answered: dict[str, None] = {}
        for topic in response.topics:
            answered[topic.topic] = None
            self._apply_topic(topic)
        if asked is None:
            for gone in [name for name in (*self.topics, *wanted) if name not in answered]:
                self._forget(gone, UnknownTopicOrPartitionError(f"topic {gone!r} does not exist"))

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic; "" if it is not known."""
        view = self.topics.get(topic)
        return view.topic_id if view is not None else ""

    def _apply_topic(self, incoming: MetadataTopic) -> None:
        name = incoming.topic
        if incoming.error_code:
            self._forget(name, topic_error(name, incoming.error_code))
            return
        self.errors.pop(name, None)
        known = self.topics.get(name)
        if known is not None and known.topic_id != incoming.topic_id:
            known = None
        count = max((p.partition for p in incoming.partitions), default=-1) + 1
        if known is not None:
            count = max(count, known.partition_count)  # partitions never go away
        merged = list(known.partitions) if known is not None else []
        merged += [NOBODY] * (count - len(merged))
        for partition in incoming.partitions:
            current = merged[partition.partition]
            if partition.leader_epoch >= current.leader_epoch:
                merged[partition.partition] = _partition_view(partition)
        self.topics[name] = TopicView(name, incoming.topic_id, incoming.internal, merged)

    def _forget(self, topic: str, error: ApiError) -> None:
        # A topic that was known may only be missing from one broker's lagging view; what is known
        # stays usable, a leader that really lost it will say so.
        if not isinstance(error, LeaderNotAvailableError):
            self.errors[topic] = error
        if not error.retriable:
            self.topics.pop(topic, None)

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        """Return the view of one partition; None when topic or partition are not known."""
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def leader(self, tp: TopicPartition) -> int:
        """Return the leader's broker id, or -1."""
        return (self.partition(tp) or NOBODY).leader

    def leader_epoch(self, tp: TopicPartition) -> int:
        """Return the leader epoch, or -1."""
        return (self.partition(tp) or NOBODY).leader_epoch

    def available(self, topic: str) -> list[int]:
        """Return the partitions that have a leader."""
        view = self.topics.get(topic)
        if view is None:
            return []
        return [i for i, partition in enumerate(view.partitions) if partition.leader != NO_LEADER]

    def topic_partitions(self, topic: str) -> Iterator[TopicPartition]:
        """Yield all partitions of a known topic, in order."""
        view = self.topics.get(topic)
        return (TopicPartition(topic, i) for i in range(view.partition_count if view else 0))


def _check_partition_numbers(topic: MetadataTopic) -> None:
    """Raise unless partition numbers are small: they index a list, which must not become long."""
    for partition in topic.partitions:
        if not 0 <= partition.partition < limits.PARTITION_COUNT_MAX:
            raise RemoteProtocolError(
                f"metadata of {topic.topic!r} names partition {partition.partition}"
            )


def topic_error(topic: str, code: int) -> ApiError:
    """Make a metadata error that names ``topic``."""
    error = error_for(code)
    hints: dict[type[ApiError], str] = {
        UnknownTopicOrPartitionError: f"topic {topic!r} does not exist",
        InvalidTopicError: f"{topic!r} is not a legal topic name",
        TopicAuthorizationFailedError: f"not allowed to use topic {topic!r}",
        LeaderNotAvailableError: f"topic {topic!r} has no leader at the moment",
    }
    return type(error)(hints.get(type(error), f"topic {topic!r}: {error}"))


def _partition_view(partition: MetadataPartition) -> PartitionView:
    return PartitionView(
        partition.leader,
        partition.leader_epoch,
        tuple(partition.replicas),
        tuple(partition.isr),
        tuple(partition.offline_replicas),
    )
