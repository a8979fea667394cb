"""Orders to one broker, as a bundle that newer orders are merged into. Pure.

Rules
-----
* An order is state, not a step: the newest one for a partition makes older ones needless. So what
  is queued for a broker can always be merged, and what was sent without an answer can be put back
  under what came since.
* LeaderAndIsr goes first, then UpdateMetadata, then StopReplica; where a stopped partition's name
  occurs among those to be started (deleted and made anew), StopReplica goes first.
* UpdateMetadata lists deleted partitions (leader -2) before the others, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrRequest,
    PartitionOrder,
    StopPartition,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from oncelog_protocol.types import TopicPartition

DELETED_LEADER = -2
"""Leader of a partition in UpdateMetadata that is no more."""

OrderRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Stops = dict[tuple[TopicPartition, str], StopPartition]


@dataclass(slots=True)
class Orders:
    """What one broker is to be told. ``replicas`` None: no LeaderAndIsr; ``metadata`` None: no
    UpdateMetadata (an empty one still carries the live brokers)."""

    live_brokers: list[ClusterBroker]
    replicas: dict[TopicPartition, PartitionOrder] | None = None
    replicas_full: bool = False
    metadata: dict[TopicPartition, PartitionOrder] | None = None
    metadata_full: bool = False
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    broker_configs: list[BrokerOverrides] | None = None
    """All of them, or nothing to say of them."""
    stops: Stops = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say."""
        return self.replicas is None and self.metadata is None and not self.stops

    def merged_with(self, newer: Orders) -> Orders:
        """Both, ``newer`` deciding where they speak of the same thing."""
        # A full newer one says who is to run, and so ends what was to be stopped. A deletion is for
        # good; it may also be of the same bundle, sent before the full order and put back under it.
        stops: Stops = {
            key: stop for key, stop in self.stops.items() if stop.delete or not newer.replicas_full
        }
        replicas = _merge(self.replicas, newer.replicas, newer.replicas_full)
        for order in (newer.replicas or {}).values():
            # A newer start of the same replica ends an older stop that keeps the data.
            key = (TopicPartition(order.topic, order.partition), order.topic_id)
            if key in stops and not stops[key].delete:
                del stops[key]
        for key, stop in newer.stops.items():
            started = None if replicas is None else replicas.get(key[0])
            if started is not None and started.topic_id == stop.topic_id:
                assert replicas is not None
                if newer.replicas is None or key[0] not in newer.replicas:
                    del replicas[key[0]]
            stops[key] = stop
        return Orders(
            live_brokers=newer.live_brokers or self.live_brokers,
            replicas=replicas,
            replicas_full=self.replicas_full or newer.replicas_full,
            metadata=_merge(self.metadata, newer.metadata, newer.metadata_full),
            metadata_full=self.metadata_full or newer.metadata_full,
            configs=_merge_configs(self.configs, newer.configs, newer.metadata_full),
            broker_configs=(
                self.broker_configs if newer.broker_configs is None else newer.broker_configs
            ),
            stops=stops,
        )

    def requests(
        self, controller_id: int, controller_epoch: int, broker_epoch: int
    ) -> list[OrderRequest]:
        """As messages, in the order in which they are to be sent."""
        head = (controller_id, controller_epoch, broker_epoch)
        configs = [self.configs[name] for name in sorted(self.configs)]
        out: list[OrderRequest] = []
        if self.replicas is not None and (self.replicas or self.replicas_full):
            listed = list(self.replicas.values())
            topics = {order.topic for order in listed}
            theirs = [config for config in configs if config.topic in topics]
            out.append(
                LeaderAndIsrRequest(*head, self.replicas_full, listed, self.live_brokers, theirs)
            )
        if self.metadata is not None:
            listed = sorted(self.metadata.values(), key=lambda o: o.leader != DELETED_LEADER)
            out.append(
                UpdateMetadataRequest(
                    *head,
                    self.metadata_full,
                    listed,
                    self.live_brokers,
                    configs,
                    self.broker_configs,
                )
            )
        if self.stops:
            stop = StopReplicaRequest(*head, list(self.stops.values()))
            again = self.replicas is not None and any(
                name in self.replicas for name, _ in self.stops
            )
            out.insert(0 if again else len(out), stop)
        return out


def _merge(
    older: dict[TopicPartition, PartitionOrder] | None,
    newer: dict[TopicPartition, PartitionOrder] | None,
    newer_full: bool,
) -> dict[TopicPartition, PartitionOrder] | None:
    if newer is None:
        return None if older is None else dict(older)
    if older is None or newer_full:
        return dict(newer)
    merged = dict(older)
    for name, order in newer.items():
        known = merged.get(name)
        unheard = known is not None and known.is_new and known.topic_id == order.topic_id
        if unheard and not order.is_new and order.leader != DELETED_LEADER:
            order = _as_new(order)
        merged[name] = order
    return merged


def _as_new(order: PartitionOrder) -> PartitionOrder:
    """The broker has not heard of the partition yet: it is still new to it."""
    return PartitionOrder(
        order.topic,
        order.topic_id,
        order.partition,
        order.leader,
        order.leader_epoch,
        order.isr,
        order.partition_epoch,
        order.replicas,
        True,
        order.elr,
        order.last_known_elr,
    )


def _merge_configs(
    older: dict[str, TopicConfig], newer: dict[str, TopicConfig], newer_full: bool
) -> dict[str, TopicConfig]:
    return dict(newer) if newer_full else {**older, **newer}


def bundle(requests: Sequence[OrderRequest]) -> Orders | None:
    """The bundle that unanswered ``requests`` amount to, oldest first: what is to be sent again."""
    whole: Orders | None = None
    for request in requests:
        orders = _unpack(request)
        whole = orders if whole is None else whole.merged_with(orders)
    return whole


def _unpack(request: OrderRequest) -> Orders:
    if isinstance(request, StopReplicaRequest):
        stops = {(TopicPartition(s.topic, s.partition), s.topic_id): s for s in request.partitions}
        return Orders(live_brokers=[], stops=stops)
    listed = {TopicPartition(o.topic, o.partition): o for o in request.partitions}
    configs = {config.topic: config for config in request.configs}
    if isinstance(request, LeaderAndIsrRequest):
        return Orders(
            request.live_brokers, replicas=listed, replicas_full=request.full, configs=configs
        )
    return Orders(
        request.live_brokers,
        metadata=listed,
        metadata_full=request.full,
        configs=configs,
        broker_configs=request.broker_configs,
    )
