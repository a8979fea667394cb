"""Orders to one broker are a bundle that newer orders are merged into. Pure.

Rules
-----
* An order is state, not a step: the newest one for a partition makes older ones needless. So what
  is queued for a broker can always be merged, and what was sent without an answer can be put back
  under what came since.
* LeaderAndIsr goes first, then UpdateMetadata, then StopReplica; where a stopped partition's name
  occurs among those to be started (deleted and made anew), StopReplica goes first.
* What describes the whole cluster goes in slices, so that it has no bound and no turn of a loop is
  long. It is made once for all brokers that are to be told the same, and so is its encoding
  (:class:`Whole`). What has changed for everybody is made once as well, and so are the live
  brokers. Whatever else is long goes as several orders, but for one: LeaderAndIsr that lists all
  replicas of a broker. How many these may be is bounded (``order_sizes``).
* UpdateSecurity goes before all of them, so that a new broker knows whom it may serve before it
  leads anything.
* UpdateMetadata lists deleted partitions (leader -2) before the others, for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, TypeVar

from oncelog_controller import security_orders
from oncelog_controller.security_orders import SecurityOrder
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopPartition,
    StopReplicaRequest,
    TopicOverrides,
    UpdateMetadataRequest,
)
from oncelog_protocol.messages.security import UpdateSecurityRequest
from oncelog_protocol.schema import Shared
from oncelog_protocol.types import TopicPartition

T = TypeVar("T")

DELETED_LEADER = -2
"""Leader of a partition in UpdateMetadata that is no more."""

SLICE_PARTITIONS = 500
"""Partitions of one request, and configs: some 150 KB with long names, and 2 ms to encode."""

OrderRequest = (
    LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest | UpdateSecurityRequest
)
Slice = tuple[Shared[LeaderAndIsrPartition], Shared[TopicOverrides]]
Stops = dict[tuple[TopicPartition, str], StopPartition]


@dataclass(slots=True, eq=False)
class Whole:
    """It describes all partitions and configs of the cluster, or all partitions that have changed.
    Must not be changed once it was made."""

    partitions: dict[TopicPartition, LeaderAndIsrPartition]
    configs: dict[str, TopicOverrides]
    _slices: list[Slice] = field(default_factory=list, init=False)
    _changes: list[Shared[LeaderAndIsrPartition]] = field(default_factory=list, init=False)

    def slices(self) -> list[Slice]:
        """Return the pieces that it is sent in, at least one; they are always the same objects."""
        if not self._slices:
            states = list(self.partitions.values())
            configs = [self.configs[name] for name in sorted(self.configs)]
            for start in range(0, max(len(states), len(configs), 1), SLICE_PARTITIONS):
                end = start + SLICE_PARTITIONS
                self._slices.append((Shared(states[start:end]), Shared(configs[start:end])))
        return self._slices

    def changes(self) -> list[Shared[LeaderAndIsrPartition]]:
        """Return the partitions in the pieces that a change is sent in, those that are no more
        first; they are always the same objects."""
        if not self._changes:
            self._changes = [Shared(some) for some in _pieces(_deleted_first(self.partitions))]
        return self._changes


@dataclass(slots=True)
class Orders:
    """They are what one broker is to be told. ``replicas`` None: no LeaderAndIsr; ``metadata``
    None: no UpdateMetadata (an empty one still carries the live brokers)."""

    live_brokers: list[ClusterBroker]
    replicas: dict[TopicPartition, LeaderAndIsrPartition] | None = None
    replicas_full: bool = False
    metadata: dict[TopicPartition, LeaderAndIsrPartition] | None = None
    metadata_full: bool = False
    configs: dict[str, TopicOverrides] = field(default_factory=dict)
    broker_configs: list[BrokerOverrides] | None = None
    """All of them, or nothing to say of them."""
    stops: Stops = field(default_factory=dict)
    whole: Whole | None = None
    """``metadata``, and in a full one ``configs``, were taken from this, as long as they are just
    that."""
    security: SecurityOrder | None = None
    """The broker decides by this from then on; None says nothing of it."""

    def add_replica(self, state: LeaderAndIsrPartition) -> None:
        """Tell the broker of a replica that it has."""
        if self.replicas is None:
            self.replicas = {}
        self.replicas[TopicPartition(state.topic, state.partition)] = state

    def add_next_leader(self, state: LeaderAndIsrPartition) -> None:
        """Tell the broker who is to lead a replica soon. One that is new to it stays so."""
        known = (self.replicas or {}).get(TopicPartition(state.topic, state.partition))
        self.add_replica(state if known is None else replace(state, is_new=known.is_new))

    def add_metadata(self) -> None:
        """Tell the broker of the live brokers, if of nothing else."""
        if self.metadata is None:
            self.metadata = {}

    def add_changes(self, changes: Whole) -> None:
        """Tell the broker of partitions that have changed."""
        if self.metadata or self.metadata_full:
            self.metadata, self.whole = {**(self.metadata or {}), **changes.partitions}, None
        else:
            self.metadata, self.whole = changes.partitions, changes

    def add_config(self, config: TopicOverrides) -> None:
        """Add a topic's settings."""
        self.add_metadata()
        self.configs[config.topic] = config

    def add_broker_configs(self, configs: list[BrokerOverrides]) -> None:
        """Add all that is set for brokers."""
        self.add_metadata()
        self.broker_configs = configs

    def add_security(self, order: SecurityOrder) -> None:
        """Add what has changed of the cluster's security, or all of it."""
        self.security = order if self.security is None else self.security.merged_with(order)

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to say."""
        nothing = self.replicas is None and self.metadata is None and self.security is None
        return nothing and not self.stops

    def merged_with(self, newer: Orders) -> Orders:
        """Return both; ``newer`` decides where they speak of the same thing."""
        # A full newer one says who is to run, and so ends what was to be stopped. A deletion is for
        # good; it may also be of the same bundle, sent before the full order and put back under it.
        stops: Stops = {
            key: stop for key, stop in self.stops.items() if stop.delete or not newer.replicas_full
        }
        replicas = _merge(self.replicas, newer.replicas, newer.replicas_full)
        for state in (newer.replicas or {}).values():
            # A newer start of the same replica ends an older stop, unless its topic is deleted.
            key = (TopicPartition(state.topic, state.partition), state.topic_id)
            stop = stops.get(key)
            if stop is not None and not (stop.delete and stop.leader_epoch < 0):
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
            metadata=_merge_metadata(self.metadata, newer.metadata, newer.metadata_full),
            whole=self._whole_with(newer),
            metadata_full=self.metadata_full or newer.metadata_full,
            configs=_merge_configs(self.configs, newer.configs, newer.metadata_full),
            broker_configs=(
                self.broker_configs if newer.broker_configs is None else newer.broker_configs
            ),
            stops=stops,
            security=(
                newer.security
                if self.security is None
                else self.security.merged_with(newer.security)
            ),
        )

    def _whole_with(self, newer: Orders) -> Whole | None:
        """Return what the metadata of both is taken from."""
        if newer.metadata_full or self.metadata is None:
            return newer.whole
        return self.whole if newer.metadata is None and not newer.configs else None

    def description(self) -> Orders:
        """Return only what describes the whole cluster, or all of its security."""
        whole = Orders(self.live_brokers)
        if self.security is not None and self.security.full:
            whole.security = self.security
        if self.metadata_full:
            whole.metadata, whole.metadata_full = self.metadata, True
            whole.configs, whole.broker_configs = self.configs, self.broker_configs
            whole.whole = self.whole
        return whole

    def of_kind(self, request: OrderRequest) -> Orders:
        """Return what of a description a message of this kind is a slice of."""
        if isinstance(request, UpdateSecurityRequest):
            return Orders(live_brokers=[], security=self.security)
        return replace(self, security=None)

    def requests(
        self,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        *,
        sliced: bool = True,
    ) -> list[OrderRequest]:
        """Return it as messages, in the order in which they are to be sent. ``sliced``: the broker
        takes a description of the cluster in slices."""
        head = (controller_id, controller_epoch, broker_epoch)
        configs = [self.configs[name] for name in sorted(self.configs)]
        out: list[OrderRequest] = []
        if self.replicas is not None:
            alone = self.metadata is None
            out += self._leader_and_isr(head, configs if self.replicas or alone else [])
        if self.metadata is not None and self.metadata_full and sliced:
            out += self._slices(head)
        elif self.metadata is not None:
            out += self._changes(head, configs)
        if self.stops:
            stop = StopReplicaRequest(*head, list(self.stops.values()))
            again = self.replicas is not None and any(
                name in self.replicas for name, _ in self.stops
            )
            out.insert(0 if again else len(out), stop)
        if self.security is not None:
            out[:0] = self.security.requests(head)
        return out

    def _leader_and_isr(
        self, head: tuple[int, int, int], configs: list[TopicOverrides]
    ) -> list[LeaderAndIsrRequest]:
        """A full one is whole, since what it does not list is stray; when its configs are many they
        go before it."""
        listed, live = list((self.replicas or {}).values()), self.live_brokers
        if not self.replicas_full and listed:
            slices = [
                listed[start : start + SLICE_PARTITIONS]
                for start in range(0, len(listed), SLICE_PARTITIONS)
            ]
            return [
                LeaderAndIsrRequest(*head, False, some, live, _of_topics(configs, some))
                for some in slices
            ]
        if self.replicas_full:
            configs = _of_topics(configs, listed)
        full = self.replicas_full
        apart = configs if len(configs) > SLICE_PARTITIONS or not full else []
        out = [
            LeaderAndIsrRequest(*head, False, [], live, apart[start : start + SLICE_PARTITIONS])
            for start in range(0, len(apart), SLICE_PARTITIONS)
        ]
        if full:
            out.append(LeaderAndIsrRequest(*head, True, listed, live, [] if apart else configs))
        return out

    def _slices(self, head: tuple[int, int, int]) -> list[UpdateMetadataRequest]:
        whole = self.whole or Whole(self.metadata or {}, self.configs)
        slices = whole.slices()
        return [
            UpdateMetadataRequest(
                *head,
                True,
                partitions,
                self.live_brokers,
                configs,
                self.broker_configs,
                first=number == 1,
                last=number == len(slices),
            )
            for number, (partitions, configs) in enumerate(slices, start=1)
        ]

    def _changes(
        self, head: tuple[int, int, int], configs: list[TopicOverrides]
    ) -> list[UpdateMetadataRequest]:
        """Each stands for itself; a full one is for a broker that knows no slices."""
        metadata, full, live = self.metadata or {}, self.metadata_full, self.live_brokers
        some: Sequence[list[LeaderAndIsrPartition]]
        nothing: list[Any] = []
        if full:
            some, of_configs = [_deleted_first(metadata)], [configs]
        else:
            shared = self.whole
            some = _pieces(_deleted_first(metadata)) if shared is None else shared.changes()
            of_configs = _pieces(configs)
        return [
            UpdateMetadataRequest(*head, full, states, live, topics, self.broker_configs)
            for states, topics in zip_longest(some, of_configs, fillvalue=nothing)
        ]


def _deleted_first(
    partitions: Mapping[TopicPartition, LeaderAndIsrPartition],
) -> list[LeaderAndIsrPartition]:
    return sorted(partitions.values(), key=lambda state: state.leader != DELETED_LEADER)


def _pieces(items: Sequence[T]) -> list[list[T]]:
    """Return the items in pieces of one request, at least one."""
    starts = range(0, max(len(items), 1), SLICE_PARTITIONS)
    return [list(items[start : start + SLICE_PARTITIONS]) for start in starts]


def _of_topics(
    configs: Sequence[TopicOverrides], states: Sequence[LeaderAndIsrPartition]
) -> list[TopicOverrides]:
    topics = {state.topic for state in states}
    return [config for config in configs if config.topic in topics]


def is_slice(request: OrderRequest) -> bool:
    """Return whether it is a part of a description of the whole cluster, or of its security."""
    if isinstance(request, UpdateSecurityRequest):
        return not (request.first and request.last)
    if not isinstance(request, UpdateMetadataRequest):
        return False
    return request.full and not (request.first and request.last)


def weight(request: OrderRequest) -> int:
    """Return how many partitions a message lists, or ACLs, which take as long."""
    if isinstance(request, UpdateSecurityRequest):
        return security_orders.weight(request)
    return len(request.partitions)


def _merge(
    older: dict[TopicPartition, LeaderAndIsrPartition] | None,
    newer: dict[TopicPartition, LeaderAndIsrPartition] | None,
    newer_full: bool,
) -> dict[TopicPartition, LeaderAndIsrPartition] | None:
    if newer is None:
        return None if older is None else dict(older)
    if older is None:
        return dict(newer)
    merged = dict(newer) if newer_full else {**older, **newer}
    for name, known in older.items():
        state = merged.get(name) if known.is_new else None
        unheard = state is not None and known.topic_id == state.topic_id
        if state is not None and unheard and not state.is_new and state.leader != DELETED_LEADER:
            merged[name] = replace(state, is_new=True)  # the broker has not heard of it yet
    return merged


def _merge_metadata(
    older: dict[TopicPartition, LeaderAndIsrPartition] | None,
    newer: dict[TopicPartition, LeaderAndIsrPartition] | None,
    newer_full: bool,
) -> dict[TopicPartition, LeaderAndIsrPartition] | None:
    """Nobody changes the result, so what is taken as it is need not be copied."""
    if newer is None:
        return older
    return newer if older is None or newer_full else {**older, **newer}


def _merge_configs(
    older: dict[str, TopicOverrides], newer: dict[str, TopicOverrides], newer_full: bool
) -> dict[str, TopicOverrides]:
    return newer if newer_full else {**older, **newer} if newer else older


def bundle(requests: Sequence[OrderRequest], described: Orders | None = None) -> Orders | None:
    """Return the bundle that unanswered ``requests`` amount to, oldest first: what is to be sent
    again. Slices among them stand for all that ``described`` has of their kind."""
    whole: Orders | None = None
    told: set[type] = set()
    for request in requests:
        if described is not None and is_slice(request):
            if type(request) in told:
                continue
            told.add(type(request))
            orders = described.of_kind(request)
        else:
            orders = _unpack(request)
        whole = orders if whole is None else whole.merged_with(orders)
    return whole


def _unpack(request: OrderRequest) -> Orders:
    if isinstance(request, UpdateSecurityRequest):
        return Orders(live_brokers=[], security=security_orders.told(request))
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
