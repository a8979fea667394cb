"""All parts of the machine have this in common: the cluster, pending writes, gathered orders. Pure.

Rules
-----
* Every write checks the controller epoch first [Z3]; what it stands for is applied to memory only
  when it has succeeded.
* One outside event at a time: the next one is handled when all writes of the last have come back.
  ``when_settled`` is what to do then.
* A broker that has just registered is told everything at once, when settled; until then it gets no
  single orders. Some brokers are told an event, from one description.
* After a failed write nothing is believed: the machine waits to be loaded again, or resigns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from oncelog_controller import znodes
from oncelog_controller.config import ControllerConfig
from oncelog_controller.effects import Effect, Reload, Resign, SendOrders, SendReply, WriteStore
from oncelog_controller.events import RequestReceived
from oncelog_controller.leavers import Leavers
from oncelog_controller.orders import DELETED_LEADER, Orders, Whole
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.security_orders import SecurityOrder
from oncelog_controller.state import ClusterPartition, ClusterState, Topic
from oncelog_controller.stats import ControllerStats
from oncelog_controller.store import (
    BadVersionError,
    CheckVersion,
    NoNodeError,
    Op,
    SessionExpiredError,
    StoreError,
)
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.acls import AclBinding, AclPattern
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    StopPartition,
    TopicOverrides,
)
from oncelog_protocol.messages.security import FULL
from oncelog_protocol.quotas import QuotaEntity
from oncelog_protocol.sasl.user import ScramUser
from oncelog_protocol.schema import Shared
from oncelog_protocol.types import TopicPartition

T = TypeVar("T")

WRITE_PARTITIONS_MAX = 128
"""Partitions of one multi: some 40 KB, far below ZooKeeper's 1 MB."""

STEP_PARTITIONS = 250
"""Partitions that are looked at in one turn of the loop: some 10 ms."""

Steps: TypeAlias = Generator[None, None, T]
"""Work on many partitions that pauses between them; what it returns comes at its end."""

LOOKED_AT_ONCE = 10_000
"""Partitions that are gone over in one turn of the loop, with a glance at each: some 15 ms."""

TOLD_AT_ONCE = 10
"""Brokers that are told everything in one event: each is an order for every replica that it has."""

TOLD_REPLICAS = 12_000
"""When those who were told have so many replicas, the others wait for the next event: some 20 ms.
"""

TOPIC_DELETED_EPOCH = -2
"""Leader epoch of a StopReplica that deletes a topic (KIP-570)."""


class Core:
    """State and outbox of one controller term."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        safeguards: ControllerSafeguards = SAFE,
        stats: ControllerStats | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.safeguards = safeguards
        self.stats = stats if stats is not None else ControllerStats()
        self.cluster = ClusterState(broker_id, 0, 0)
        self.leavers = Leavers()
        self.now = 0.0
        self.request: RequestReceived | None = None
        """The request whose writes are pending."""
        self.untold: set[int] = set()
        """Brokers that are to be told everything: see ``telling``."""
        self.broken = False
        """A write failed: nothing is handled until the store was read again."""
        self._told_ms = (0.0, 0)
        """When a request came last, by the loop's clock, and by the wall clock."""
        self._effects: list[Effect] = []
        self._orders: dict[int, Orders] = {}
        self._changed: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """What all brokers are to be told alike, and is not in ``_orders`` yet."""
        self._live: Shared[ClusterBroker] | None = None
        """The live brokers, for all orders of this event."""
        self._whole: tuple[Whole, dict[int, list[ClusterPartition]]] | None = None
        """The cluster as it is, and the partitions of each broker; None when it has changed."""
        self._security: SecurityOrder | None = None
        """All of the cluster's security, one order for all brokers; None when it has changed."""
        self._pending: dict[int, Callable[[], None]] = {}
        self._settled: deque[Callable[[], None]] = deque()
        self._write_id = 0

    def begin(self, now: float) -> None:
        """Take in the time of the event that is handled."""
        self.now = now
        self._live = None

    def take_request(self, request: RequestReceived) -> None:
        """Note whose writes will be pending."""
        self.request = request
        if request.now_ms > self._told_ms[1]:
            self._told_ms = (self.now, request.now_ms)

    @property
    def wall_ms(self) -> int:
        """Return about what the wall clock says, as requests have told; 0: nobody has asked."""
        at, told_ms = self._told_ms
        return told_ms and told_ms + int((self.now - at) * 1000)

    def begin_again(self, cluster: ClusterState) -> RequestReceived | None:
        """Replace what is known by what the store was read to hold.

        Returns the request whose writes were pending: they are known by their effect, or gone.
        """
        self._pending.clear()
        self._settled.clear()
        self._orders.clear()
        self._changed = {}
        self._whole = self._security = self._live = None
        self.broken = False
        self.cluster = cluster
        interrupted, self.request = self.request, None
        return interrupted

    def use_config(self, config: ControllerConfig) -> None:
        """Live by other settings."""
        self.config = config

    def tell(self, brokers: Iterable[int]) -> None:
        """Have these brokers told everything."""
        self._spread_changes()
        self.untold.update(brokers)

    def tell_all(self) -> None:
        """Have every broker told everything, and nobody else."""
        self._changed = {}
        self.untold = set(self.cluster.brokers)

    # ---- effects

    def emit(self, effect: Effect) -> None:
        """Order something."""
        self._effects.append(effect)

    def reply(self, request_id: int, response: Any) -> None:
        """Answer a request."""
        self._effects.append(SendReply(request_id, response))

    def reply_when_settled(self, request_id: int, response: Any) -> None:
        """Answer a request when no write is pending."""
        self.when_settled(lambda: self.reply(request_id, response))

    def take_effects(self) -> list[Effect]:
        """Return all that was ordered since the last call, orders to brokers last."""
        self._spread_changes()
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
        """Return whether writes are pending."""
        return bool(self._pending)

    def write(self, ops: Sequence[Op], applied: Callable[[], None]) -> None:
        """Order one multi; ``applied`` runs when it has succeeded."""
        self._write_id += 1
        self._pending[self._write_id] = applied
        self._effects.append(WriteStore(self._write_id, (*self._fence(), *ops)))

    def _fence(self) -> tuple[Op, ...]:
        newest = CheckVersion(znodes.CONTROLLER_EPOCH, self.cluster.epoch_version)
        return self.safeguards.fence(newest)

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
        if (fenced and self._fence()) or isinstance(error, SessionExpiredError):
            self.emit(Resign(f"a write was fenced: {error}"))
        else:
            self.emit(Reload(f"a write failed: {error}"))

    def settle(self) -> None:
        """Run what waits for the writes; it may write again."""
        while self._settled and not self._pending and not self.broken:
            self._settled.popleft()()
        if not self._pending and not self._settled and not self.broken:
            self._tell_some()
            self.request = None

    # ---- orders

    def order_partition(
        self,
        partition: ClusterPartition,
        *,
        is_new: bool = False,
        added: Collection[int] = (),
        back: Collection[int] = (),
    ) -> None:
        """Order LeaderAndIsr for the replicas, and UpdateMetadata for everybody. The partition is
        new for all of them, or for those that were ``added``; those that are ``back`` may still
        have data of it, and get its settings as well."""
        state = partition.leader_and_isr()
        first = replace(state, is_new=True) if is_new or added else state
        for broker_id in partition.replicas:
            orders = self._orders_for(broker_id)
            if orders is None:
                continue
            knows_nothing = is_new or broker_id in added
            orders.add_replica(first if knows_nothing else state)
            if knows_nothing or broker_id in back:
                orders.configs[partition.topic.name] = describe_config(partition.topic)
        self._update_metadata(first if is_new else state)

    def order_next_leader(self, partition: ClusterPartition, brokers: Collection[int]) -> None:
        """Tell these of the replicas who is to lead soon. It changes no role, and has no epoch."""
        state = partition.leader_and_isr()
        for broker_id in partition.replicas:
            orders = self._orders_for(broker_id) if broker_id in brokers else None
            if orders is not None:
                orders.add_next_leader(state)

    def order_leavers(self, partition: ClusterPartition, leaving: Collection[int]) -> None:
        """Have those who are no replicas any more delete what they have, in this leader epoch: a
        replica of a newer one refuses (KIP-570) [M7]."""
        for broker_id in leaving:
            orders = self._orders_for(broker_id)
            if orders is not None:
                _add_leaver(orders, partition)

    def order_metadata(self, partition: ClusterPartition) -> None:
        """Order UpdateMetadata for everybody; the replicas know already."""
        self._update_metadata(partition.leader_and_isr())

    def order_config(self, topic: Topic) -> None:
        """Tell everybody the topic's settings."""
        self._whole = None
        config = describe_config(topic)
        for orders in self._all_orders():
            orders.add_config(config)

    def order_broker_configs(self) -> None:
        """Tell everybody all that is set for brokers."""
        configs = describe_broker_configs(self.cluster)
        for orders in self._all_orders():
            orders.add_broker_configs(configs)

    def order_security(
        self,
        acls: Mapping[AclPattern, Collection[AclBinding]],
        users: Mapping[str, ScramUser | None],
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
    ) -> None:
        """Tell everybody what the newest version of the cluster's security has changed."""
        self._security = None
        if self.cluster.security is not None:
            version = self.cluster.security.version
            change = SecurityOrder(version - 1, version, acls, users, quotas=quotas)
            for orders in self._all_orders():
                orders.add_security(change)

    def order_all_security(self, broker_id: int) -> None:
        """Tell one broker all of the cluster's security."""
        orders, whole = self._orders_for(broker_id), self._all_security()
        if orders is not None and whole is not None:
            orders.add_security(whole)

    def _all_security(self) -> SecurityOrder | None:
        known = self.cluster.security
        if known is not None and self._security is None:
            acls = {pattern: stored.entries for pattern, stored in known.acls.items()}
            users = {user.name: user for user in known.usable_users()}
            quotas = {entity: stored.values for entity, stored in known.quotas.items()}
            self._security = SecurityOrder(FULL, known.version, acls, users, known.secret, quotas)
        return self._security

    def order_live_brokers(self) -> None:
        """Every order names the live brokers; an empty update tells of them alone."""
        self._live = None
        for orders in self._all_orders():
            orders.add_metadata()

    def order_stop(self, broker_id: int, topic: str, topic_id: str, partition: int) -> None:
        """Delete one replica of a deleted topic."""
        orders = self._orders_for(broker_id)
        if orders is not None:
            _add_deletion(orders, topic, topic_id, partition)

    def order_gone(self, partition: ClusterPartition) -> None:
        """Tell everybody that the partition is no more."""
        self._update_metadata(replace(partition.leader_and_isr(), leader=DELETED_LEADER))

    def _update_metadata(self, state: LeaderAndIsrPartition) -> None:
        self._whole = None
        self._changed[TopicPartition(state.topic, state.partition)] = state

    def _spread_changes(self) -> None:
        """Put what is to be told alike into everybody's orders, as one object for all."""
        changed, self._changed = self._changed, {}
        if changed:
            changes = Whole(changed, {})
            for orders in self._all_orders():
                orders.add_changes(changes)

    def _all_orders(self) -> Iterator[Orders]:
        """Yield the orders of every broker that is not to be told everything anyway."""
        for broker_id in sorted(self.cluster.brokers):
            orders = self._orders_for(broker_id)
            if orders is not None:
                yield orders

    def _orders_for(self, broker_id: int) -> Orders | None:
        if broker_id not in self.cluster.brokers or broker_id in self.untold:
            return None
        orders = self._orders.get(broker_id)
        if orders is None:
            orders = self._orders[broker_id] = Orders(self._live_brokers())
        return orders

    def _live_brokers(self) -> Shared[ClusterBroker]:
        if self._live is None:
            self._live = Shared(self.cluster.live_brokers())
        return self._live

    @property
    def telling(self) -> bool:
        """Return whether brokers wait for the next event to be told everything."""
        return bool(self.untold) and not self.busy and not self.broken

    def _tell_some(self) -> None:
        """Tell everything to some of the brokers that have heard nothing yet. What they are told of
        a large cluster is described first, in an event of its own: see ``describe``."""
        self.untold &= self.cluster.brokers.keys()
        if not self.untold or (self._whole is None and self.cluster.larger_than(LOOKED_AT_ONCE)):
            return
        self._spread_changes()
        live = self._live_brokers()
        replicas = 0
        for broker_id in sorted(self.untold)[:TOLD_AT_ONCE]:
            orders = self._orders[broker_id] = self._everything(broker_id, live)
            self.untold.discard(broker_id)
            replicas += len(orders.replicas or ())
            if replicas >= TOLD_REPLICAS:
                break
        if not self.untold:
            self._whole = None

    def describe(self) -> Steps[None]:
        """Describe the whole cluster, if brokers wait to be told everything."""
        if self.telling and self._whole is None:
            self._whole = yield from describe_whole(self.cluster)

    def _everything(self, broker_id: int, live: list[ClusterBroker]) -> Orders:
        if self._whole is None:
            self._whole = at_once(describe_whole(self.cluster))
        whole, replicas = self._whole
        orders = Orders(
            live,
            replicas={p.topic_partition: p.leader_and_isr() for p in replicas.get(broker_id, ())},
            replicas_full=True,
            metadata=whole.partitions,
            metadata_full=True,
            configs=whole.configs,
            broker_configs=describe_broker_configs(self.cluster),
            whole=whole,
            security=self._all_security(),
        )
        for topic_id, tombstone in sorted(self.cluster.tombstones.items()):
            for (index, replica), phase in sorted(tombstone.phases.items()):
                if replica == broker_id and phase is not ReplicaPhase.GONE:
                    _add_deletion(orders, tombstone.topic, topic_id, index)
        for partition in self.leavers.left_by(broker_id):
            _add_leaver(orders, partition)
        return orders


def _add_deletion(orders: Orders, topic: str, topic_id: str, partition: int) -> None:
    stop = StopPartition(topic, topic_id, partition, TOPIC_DELETED_EPOCH, True)
    orders.stops[TopicPartition(topic, partition), topic_id] = stop


def _add_leaver(orders: Orders, partition: ClusterPartition) -> None:
    entry = partition.leader_and_isr()
    stop = StopPartition(entry.topic, entry.topic_id, entry.partition, entry.leader_epoch, True)
    orders.stops[partition.topic_partition, entry.topic_id] = stop


def describe_whole(
    cluster: ClusterState,
) -> Steps[tuple[Whole, dict[int, list[ClusterPartition]]]]:
    """Return all partitions and settings as the wire has them, and the partitions of each
    broker."""
    states: dict[TopicPartition, LeaderAndIsrPartition] = {}
    replicas: dict[int, list[ClusterPartition]] = {}
    for number, partition in enumerate(cluster.partitions(), start=1):
        if number % LOOKED_AT_ONCE == 0:
            yield
        if partition.state is not None:
            states[partition.topic_partition] = partition.leader_and_isr()
            for broker_id in partition.replicas:
                replicas.setdefault(broker_id, []).append(partition)
    configs = {name: describe_config(topic) for name, topic in sorted(cluster.topics.items())}
    return Whole(states, configs), replicas


def describe_config(topic: Topic) -> TopicOverrides:
    """Return the topic's overrides as the wire has them."""
    keys = sorted(topic.overrides)
    return TopicOverrides(
        topic.name, topic.config_version, keys, [topic.overrides[key] for key in keys]
    )


def describe_broker_configs(cluster: ClusterState) -> list[BrokerOverrides]:
    """Return what is set for brokers as the wire has it."""
    return [
        BrokerOverrides(
            broker_id,
            config.version,
            sorted(config.overrides),
            [config.overrides[key] for key in sorted(config.overrides)],
        )
        for broker_id, config in sorted(cluster.broker_configs.items())
    ]


def at_once(steps: Steps[T]) -> T:
    """Take all of the steps, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield ``items`` in pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
