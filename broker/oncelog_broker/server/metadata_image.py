"""The image is what this broker knows of the cluster: brokers, topics, partitions, configs. Pure.

It is changed only by the controller's orders, which the fence has let through. Requests are
answered from it without asking anybody. ``version`` grows with every change; ``on_change``
callbacks run after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    TopicOverrides,
    UpdateMetadataRequest,
)
from oncelog_protocol.types import NO_BROKER, TopicPartition

DELETED_LEADER = -2
"""In UpdateMetadata it is the leader of a partition that is no more."""


@dataclass(slots=True)
class TopicImage:
    """It is one topic: its id and the newest known state of each partition."""

    topic: str
    topic_id: str
    partitions: dict[int, LeaderAndIsrPartition] = field(default_factory=dict)


@dataclass(slots=True)
class _Slices:
    """It is a whole image while it arrives."""

    head: tuple[int, int, int]
    """It tells which controller describes it, and to which life of this broker."""
    topics: dict[str, TopicImage] = field(default_factory=dict)
    configs: list[TopicOverrides] = field(default_factory=list)


class MetadataImage:
    """It is the cluster as the controller last described it."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        """Which cluster is described; "" until ``begin``."""
        self.controller_id = NO_BROKER
        self.controller_epoch = -1
        self.brokers: dict[int, ClusterBroker] = {}
        """Live brokers stand here by id, in order of id."""
        self.topics: dict[str, TopicImage] = {}
        self.version = 0
        self.topics_version = 0
        """It grows when topics come and go; in between only their partitions' states have
        changed."""
        self.updated = False
        """It tells whether a whole image has arrived since start. Changes may be told before: a
        part of the partitions of a topic is then no answer to how many it has."""
        self.on_change: list[Callable[[], None]] = []
        self.broker_configs: list[BrokerOverrides] = []
        """They hold what was set for brokers while they run, for all of them."""
        self._configs: dict[str, TopicOverrides] = {}
        self._slices: _Slices | None = None

    def begin(self, cluster_id: str) -> None:
        """Become the image of this cluster, for good.

        :raises ValueError: it is the image of another one already.
        """
        if self.cluster_id not in ("", cluster_id):
            raise ValueError(f"the image is of cluster {self.cluster_id}, not of {cluster_id}")
        self.cluster_id = cluster_id

    def apply(self, update: UpdateMetadataRequest) -> list[TopicOverrides]:
        """Take in an order; return the topic configs that changed by it. A slice of a whole image
        changes nothing before the last one.

        :raises InvalidRequestError: a slice without those before it.
        """
        configs = update.configs
        if update.full:
            whole = self._take_slice(update)
            if not update.last:
                return []
            self._slices = None
            self.topics, configs = whole.topics, whole.configs
            self.topics_version += 1
        else:
            for state in update.partitions:
                self.topics_version += _apply_partition(self.topics, state)
        changed = self._apply_configs(configs, update.full)
        for topic in [t for t in self._configs if t not in self.topics]:
            del self._configs[topic]
        if update.broker_configs is not None:
            self.broker_configs = update.broker_configs
        self.updated = self.updated or update.full
        self.note_controller(update.controller_id, update.controller_epoch, update.live_brokers)
        return changed

    def _take_slice(self, update: UpdateMetadataRequest) -> _Slices:
        head = (update.controller_id, update.controller_epoch, update.broker_epoch)
        if update.first:
            self._slices = _Slices(head)
        if self._slices is None or self._slices.head != head:
            raise InvalidRequestError("a slice of the metadata without those before it")
        for state in update.partitions:
            _apply_partition(self._slices.topics, state)
        self._slices.configs += update.configs
        return self._slices

    def note_controller(
        self, controller_id: int, controller_epoch: int, live_brokers: Iterable[ClusterBroker]
    ) -> None:
        """Take over the controller and all live brokers, which every order names."""
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.brokers = {b.broker_id: b for b in sorted(live_brokers, key=lambda b: b.broker_id)}
        self.version += 1
        for callback in list(self.on_change):
            callback()

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic; "" if it is not known."""
        known = self.topics.get(topic)
        return "" if known is None else known.topic_id

    def partition(self, topic_partition: TopicPartition) -> LeaderAndIsrPartition | None:
        """Return the newest known state of a partition."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def address(self, broker_id: int, listener: str) -> ListenerAddress | None:
        """Return where a live broker advertises ``listener``."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return None
        return next((a for a in broker.listeners if a.name == listener), None)

    def overrides(self, topic: str) -> dict[str, str]:
        """Return the settings of ``topic`` that differ from the defaults."""
        config = self._configs.get(topic)
        return {} if config is None else dict(zip(config.keys, config.values, strict=True))

    def _apply_configs(self, configs: list[TopicOverrides], full: bool) -> list[TopicOverrides]:
        """Take over topic configs; a full update that does not name a topic leaves it without
        overrides."""
        changed = []
        if full:
            named = {config.topic for config in configs}
            for topic in [t for t in self._configs if t not in named]:
                gone = self._configs.pop(topic)
                changed.append(TopicOverrides(topic, gone.version, [], []))
        for config in configs:
            known = self._configs.get(config.topic)
            if known != config:
                self._configs[config.topic] = config
                changed.append(config)
        return changed


def _apply_partition(topics: dict[str, TopicImage], state: LeaderAndIsrPartition) -> int:
    """Apply a state to ``topics``; return 1 if a topic has come or gone by it."""
    topic = topics.get(state.topic)
    if state.leader == DELETED_LEADER:
        if topic is not None and topic.topic_id == state.topic_id:
            topic.partitions.pop(state.partition, None)
            if not topic.partitions:
                del topics[state.topic]
                return 1
        return 0
    new = topic is None or topic.topic_id != state.topic_id
    if topic is None or new:
        topic = topics[state.topic] = TopicImage(state.topic, state.topic_id)
    topic.partitions[state.partition] = state
    return int(new)
