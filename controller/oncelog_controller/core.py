"""What all parts of the machine share: the cluster, pending writes, orders being gathered. Pure.

Rules
-----
* Every write checks the controller epoch first (Z3); what it stands for is applied to memory only
  when it has succeeded.
* One outside event at a time: the next one is handled when all writes of the last have come back.
  ``when_settled`` is what to do then.
* A broker that has just registered is told everything at once, when settled; until then it gets no
  single orders.
* After a failed write nothing is believed: the machine waits to be loaded again, or resigns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oncelog_controller import znodes
from oncelog_controller.config import ControllerConfig
from oncelog_controller.effects import Effect, Reload, Resign, SendOrders, SendReply, WriteStore
from oncelog_controller.events import RequestReceived
from oncelog_controller.orders import DELETED_LEADER, Orders
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import Cluster, Partition, Topic
from oncelog_controller.stats import ControllerStats
from oncelog_controller.store import (
    BadVersionError,
    Check,
    NoNodeError,
    Op,
    SessionExpiredError,
    StoreError,
)
from oncelog_controller.transitions import (
    PartitionCause,
    ReplicaPhase,
    next_partition_phase,
)
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    PartitionOrder,
    StopPartition,
    TopicConfig,
)
from oncelog_protocol.types import NO_LEADER, TopicPartition

WRITE_PARTITIONS_MAX = 128
"""Partitions of one multi: some 40 KB, far below ZooKeeper's 1 MB."""

TOPIC_DELETED_EPOCH = -2
"""Leader epoch of a StopReplica that deletes a topic (KIP-570)."""


class Core:
    """State and outbox of one controller term."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        safeguards: ControllerSafeguards | None = None,
        stats: ControllerStats | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.safeguards = safeguards if safeguards is not None else ControllerSafeguards()
        self.stats = stats if stats is not None else ControllerStats()
        self.cluster = Cluster(broker_id, 0, 0)
        self.now = 0.0
        self.request: RequestReceived | None = None
        """The request whose writes are pending."""
        self.untold: set[int] = set()
        """Brokers that are to be told everything."""
        self.broken = False
        """A write failed: nothing is handled until the store was read again."""
        self._effects: list[Effect] = []
        self._orders: dict[int, Orders] = {}
        self._pending: dict[int, Callable[[], None]] = {}
        self._settled: deque[Callable[[], None]] = deque()
        self._write_id = 0

    # ---- effects

    def emit(self, effect: Effect) -> None:
        """Order something."""
        self._effects.append(effect)

    def reply(self, request_id: int, response: Any) -> None:
        """Answer a request."""
        self._effects.append(SendReply(request_id, response))

    def take_effects(self) -> list[Effect]:
        """All that was ordered since the last call, orders to brokers last."""
        for broker_id in sorted(self._orders):
            broker = self.cluster.brokers.get(broker_id)
            if broker is not None:
                orders = self._orders[broker_id]
                self._effects.append(SendOrders(broker_id, broker.broker_epoch, orders))
        self._orders.clear()
        effects, self._effects = self._effects, []
        return effects

    # ---- writes

    @property
    def busy(self) -> bool:
        """Whether writes are pending."""
        return bool(self._pending)

    def write(self, ops: Sequence[Op], applied: Callable[[], None]) -> None:
        """Order one multi; ``applied`` runs when it has succeeded."""
        self._write_id += 1
        self._pending[self._write_id] = applied
        checks: list[Op] = []
        if self.safeguards.check_controller_epoch:
            checks.append(Check(znodes.CONTROLLER_EPOCH, self.cluster.epoch_version))
        self._effects.append(WriteStore(self._write_id, (*checks, *ops)))

    def when_settled(self, action: Callable[[], None]) -> None:
        """Run ``action`` when no write is pending, at the end of this event if there is none."""
        self._settled.append(action)

    def write_succeeded(self, write_id: int) -> None:
        """Apply what the write stands for."""
        applied = self._pending.pop(write_id, None)
        if applied is not None:
            applied()

    def write_failed(self, write_id: int, error: StoreError) -> None:
        """Resign when the epoch check failed; else what we know of the store is not so."""
        if self._pending.pop(write_id, None) is None or self.broken:
            return
        self.broken = True
        self._settled.clear()
        fenced = error.op_index == 0 and isinstance(error, (BadVersionError, NoNodeError))
        fenced = fenced and self.safeguards.check_controller_epoch
        if fenced or isinstance(error, SessionExpiredError):
            self.emit(Resign(f"a write was fenced: {error}"))
        else:
            self.emit(Reload(f"a write failed: {error}"))

    def settle(self) -> None:
        """Run what waits for the writes; it may write again."""
        while self._settled and not self._pending and not self.broken:
            self._settled.popleft()()
        if not self._pending and not self._settled and not self.broken:
            self._tell_all()
            self.request = None

    def forget_pending(self) -> None:
        """The store was read again: what was pending is known by its effect or is gone."""
        self._pending.clear()
        self._settled.clear()
        self._orders.clear()
        self.broken = False

    # ---- orders

    def order_partition(self, partition: Partition, *, is_new: bool = False) -> None:
        """LeaderAndIsr to the replicas, UpdateMetadata to everybody."""
        order = describe(partition, is_new=is_new)
        for broker_id in partition.replicas:
            orders = self._orders_for(broker_id)
            if orders is not None:
                if orders.replicas is None:
                    orders.replicas = {}
                orders.replicas[partition.topic_partition] = order
                if is_new:
                    orders.configs[partition.topic.name] = describe_config(partition.topic)
        self._update_metadata(order)

    def order_metadata(self, partition: Partition) -> None:
        """UpdateMetadata to everybody; the replicas know already."""
        self._update_metadata(describe(partition))

    def order_config(self, topic: Topic) -> None:
        """The topic's settings to everybody."""
        config = describe_config(topic)
        for broker_id in sorted(self.cluster.brokers):
            orders = self._orders_for(broker_id)
            if orders is not None:
                if orders.metadata is None:
                    orders.metadata = {}
                orders.configs[topic.name] = config

    def order_broker_configs(self) -> None:
        """What is set for brokers, all of it, to everybody."""
        configs = describe_broker_configs(self.cluster)
        for broker_id in sorted(self.cluster.brokers):
            orders = self._orders_for(broker_id)
            if orders is not None:
                if orders.metadata is None:
                    orders.metadata = {}
                orders.broker_configs = configs

    def order_live_brokers(self) -> None:
        """Every order names the live brokers; an empty update tells of them alone."""
        for broker_id in sorted(self.cluster.brokers):
            orders = self._orders_for(broker_id)
            if orders is not None and orders.metadata is None:
                orders.metadata = {}

    def order_stop(self, broker_id: int, topic: str, topic_id: str, partition: int) -> None:
        """Delete one replica of a deleted topic."""
        orders = self._orders_for(broker_id)
        if orders is not None:
            name = TopicPartition(topic, partition)
            orders.stops[name, topic_id] = StopPartition(
                topic, topic_id, partition, TOPIC_DELETED_EPOCH, True
            )

    def order_gone(self, partition: Partition) -> None:
        """Tell everybody that the partition is no more."""
        order = describe(partition)
        order.leader = DELETED_LEADER
        self._update_metadata(order)

    def _update_metadata(self, order: PartitionOrder) -> None:
        name = TopicPartition(order.topic, order.partition)
        for broker_id in sorted(self.cluster.brokers):
            orders = self._orders_for(broker_id)
            if orders is not None:
                if orders.metadata is None:
                    orders.metadata = {}
                orders.metadata[name] = order

    def _orders_for(self, broker_id: int) -> Orders | None:
        if broker_id not in self.cluster.brokers or broker_id in self.untold:
            return None
        orders = self._orders.get(broker_id)
        if orders is None:
            orders = self._orders[broker_id] = Orders(self.cluster.live_brokers())
        return orders

    def _tell_all(self) -> None:
        """Everything, to the brokers that have heard nothing yet."""
        for broker_id in sorted(self.untold & self.cluster.brokers.keys()):
            self._orders[broker_id] = self._everything(broker_id)
        self.untold.clear()

    def _everything(self, broker_id: int) -> Orders:
        orders = Orders(
            self.cluster.live_brokers(),
            replicas={},
            replicas_full=True,
            metadata={},
            metadata_full=True,
            broker_configs=describe_broker_configs(self.cluster),
        )
        assert orders.replicas is not None
        assert orders.metadata is not None
        for partition in self.cluster.partitions():
            if partition.state is None:
                continue
            order = describe(partition)
            orders.metadata[partition.topic_partition] = order
            if broker_id in partition.replicas:
                orders.replicas[partition.topic_partition] = order
        for name, topic in sorted(self.cluster.topics.items()):
            orders.configs[name] = describe_config(topic)
        for topic_id, tombstone in sorted(self.cluster.tombstones.items()):
            for (index, replica), phase in sorted(tombstone.phases.items()):
                if replica == broker_id and phase is not ReplicaPhase.GONE:
                    orders.stops[TopicPartition(tombstone.topic, index), topic_id] = StopPartition(
                        tombstone.topic, topic_id, index, TOPIC_DELETED_EPOCH, True
                    )
        return orders


def describe(partition: Partition, *, is_new: bool = False) -> PartitionOrder:
    """The partition's state as the wire has it."""
    state = partition.state
    assert state is not None, f"{partition.topic_partition} has no state"
    return PartitionOrder(
        topic=partition.topic.name,
        topic_id=partition.topic.topic_id,
        partition=partition.index,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.version,
        replicas=list(partition.replicas),
        is_new=is_new,
        elr=list(state.elr),
        last_known_elr=list(state.last_known_elr),
    )


def describe_config(topic: Topic) -> TopicConfig:
    """The topic's overrides as the wire has them."""
    keys = sorted(topic.overrides)
    return TopicConfig(
        topic.name, topic.config_version, keys, [topic.overrides[key] for key in keys]
    )


def describe_broker_configs(cluster: Cluster) -> list[BrokerOverrides]:
    """What is set for brokers as the wire has it."""
    return [
        BrokerOverrides(
            broker_id,
            config.version,
            sorted(config.overrides),
            [config.overrides[key] for key in sorted(config.overrides)],
        )
        for broker_id, config in sorted(cluster.broker_configs.items())
    ]


def move(partition: Partition, leader: int, before: int) -> None:
    """Take the partition through its table after its state was written."""
    if leader == NO_LEADER:
        cause = PartitionCause.ISR_CHANGED if before == NO_LEADER else PartitionCause.LEADER_LOST
    elif leader == before:
        cause = PartitionCause.ISR_CHANGED
    else:
        cause = PartitionCause.LEADER_ELECTED
    partition.phase = next_partition_phase(partition.phase, cause)


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """``items`` in pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
