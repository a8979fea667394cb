"""It drives the pure controller machine over a store in a dictionary: no loop, no I/O, one call an
event. What the machine writes is applied with versions; what it orders and answers is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog_controller import move_nodes, quota_nodes, security_nodes, user_nodes, znodes
from oncelog_controller.broker_settings import BrokerSettings
from oncelog_controller.config import ControllerConfig
from oncelog_controller.effects import (
    ConnectBrokers,
    Effect,
    Reload,
    Resign,
    SendOrders,
    SendReply,
    WriteStore,
)
from oncelog_controller.events import (
    BrokerCleared,
    BrokersRead,
    BrokerSuspected,
    ClusterLoaded,
    ClusterRead,
    Event,
    GoOn,
    OrdersAnswered,
    RequestReceived,
    TimeReached,
    TombstoneRead,
    TopicRead,
    WriteFailed,
    WriteSucceeded,
)
from oncelog_controller.features import KNOWN
from oncelog_controller.machine import ControllerMachine
from oncelog_controller.move_nodes import PieceRead, PlanRead
from oncelog_controller.orders import Orders
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.security import ClusterSecurity, StoredAcls, StoredQuotas, StoredUser
from oncelog_controller.state import (
    BrokerRegistration,
    ClusterPartition,
    DataClaim,
    DataLoss,
    DynamicConfig,
    OutOfService,
    PartitionState,
)
from oncelog_controller.store import (
    ANY_VERSION,
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
    StoreDisconnectedError,
    StoreError,
)
from oncelog_protocol.messages import admin, replication
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.messages.security import UpdateSecurityRequest, UpdateSecurityResponse
from support.room_settings import controller_settings

__all__ = ["ASKED_AT_MS", "ASKER", "SECRET", "Driver", "registration"]


SECRET = bytes(range(32))
"""It is the secret of the cluster."""

KEPT = DataClaim(0, None, DataLoss.NONE)
"""The claim of a broker that has never lost anything."""


def registration(
    broker_id: int, epoch: int, rack: str | None = None, data: DataClaim = KEPT
) -> BrokerRegistration:
    """Return a broker with one internal listener."""
    address = ListenerAddress("internal", "127.0.0.1", 9000 + broker_id)
    return BrokerRegistration(broker_id, epoch, (address,), rack, data, features=KNOWN)


ASKER = "User:ops"
ASKED_AT_MS = 1_700_000_000_000
"""Every request is of this principal, and came at this time by the wall clock."""


@dataclass
class Node:
    data: bytes
    version: int
    mzxid: int


@dataclass
class Driver:
    """It has one machine, its store and its brokers. ``auto_ack`` answers orders without errors."""

    config: ControllerConfig = field(default_factory=controller_settings)
    broker_id: int = 1
    auto_ack: bool = True
    now: float = 100.0
    zxid: int = 1000
    epoch: int = 1
    safeguards: ControllerSafeguards = SAFE
    settings: BrokerSettings | None = None

    def __post_init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        for path in ("/brokers", "/config", "/admin", *znodes.BASE_PATHS):
            self.nodes[path] = Node(b"", 0, 0)
        for path in (
            *(*security_nodes.ACL_PARENTS, *quota_nodes.QUOTA_PARENTS),
            *(security_nodes.VERSION, user_nodes.USERS),
        ):
            self.nodes[path] = Node(b"", 0, 0)
        self.nodes[znodes.CONTROLLER_EPOCH] = Node(znodes.encode_epoch(1), self.epoch, 0)
        self.brokers: dict[int, BrokerRegistration] = {}
        self.claims: dict[int, DataClaim] = {}
        self.machine = ControllerMachine(
            self.broker_id, self.config, self.safeguards, settings=self.settings
        )
        self.replies: dict[int, Any] = {}
        self.orders: list[tuple[int, int, Orders]] = []
        self.requests: list[tuple[int, Any]] = []
        """Every order as a message, with the broker it went to."""
        self.resigned: str | None = None
        self.reloads = 0
        self.lost_track = False
        self.connected: tuple[BrokerRegistration, ...] = ()
        self.fail_write: Callable[[Sequence[Op]], tuple[StoreError, bool] | None] = lambda ops: None
        """What a write fails with, and whether it is applied all the same."""
        self.writes: list[tuple[Op, ...]] = []
        self._request_id = 0
        self._to_ack: list[OrdersAnswered] = []

    # ---- brokers

    def join(
        self, *broker_ids: int, racks: dict[int, str] | None = None, data: DataClaim | None = None
    ) -> None:
        """Register (again) and tell the machine. ``data`` holds from then on for later lives, too;
        a loss without an epoch is one at this registration."""
        for broker_id in broker_ids:
            self.register(broker_id, (racks or {}).get(broker_id), data)
        self.read_brokers()

    def register(
        self, broker_id: int, rack: str | None = None, data: DataClaim | None = None
    ) -> None:
        """Register (again) unseen by the machine."""
        self.zxid += 1
        claim = self.claims.get(broker_id, KEPT) if data is None else data
        self.brokers[broker_id] = registration(broker_id, self.zxid, rack, claim)
        since = self.zxid if claim.since is None else claim.since
        self.claims[broker_id] = DataClaim(since, None, DataLoss.NONE)

    def lose_data(self, *broker_ids: int, loss: DataLoss = DataLoss.ALL) -> None:
        """The brokers restart without their data, within their sessions."""
        self.join(*broker_ids, data=DataClaim(None, None, loss))

    def lose(self, *broker_ids: int) -> None:
        """Registrations end."""
        for broker_id in broker_ids:
            del self.brokers[broker_id]
        self.read_brokers()

    def read_brokers(self) -> None:
        self.handle(BrokersRead(tuple(self.brokers[b] for b in sorted(self.brokers))))

    def suspect(self, broker_id: int) -> None:
        self.handle(BrokerSuspected(broker_id, self.brokers[broker_id].broker_epoch))

    def clear(self, broker_id: int) -> None:
        self.handle(BrokerCleared(broker_id, self.brokers[broker_id].broker_epoch))

    # ---- a whole cluster

    @classmethod
    def started(cls, *broker_ids: int, **kwargs: Any) -> Driver:
        """Start a controller with these brokers."""
        driver = cls(**kwargs)
        for broker_id in broker_ids:
            driver.zxid += 1
            driver.brokers[broker_id] = registration(broker_id, driver.zxid)
        driver.load()
        return driver

    def load(self, suspected: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.lost_track = False
        self.handle(ClusterLoaded(self.read_cluster(), suspected))

    def take_over(self) -> Driver:
        """Start the next controller, over the same store."""
        self.epoch += 1
        self.nodes[znodes.CONTROLLER_EPOCH] = Node(
            znodes.encode_epoch(self.epoch), self.epoch, self.zxid
        )
        heir = Driver(
            self.config,
            self.broker_id,
            self.auto_ack,
            self.now,
            self.zxid,
            self.epoch,
            self.safeguards,
            self.settings,
        )
        heir.nodes, heir.brokers, heir.claims = self.nodes, self.brokers, self.claims
        heir.load()
        return heir

    def read_cluster(self) -> ClusterRead:
        topics = []
        known = self._names(znodes.TOPICS)
        for name in known:
            node = self.nodes[znodes.topic_path(name)]
            topic_id, assignment = znodes.decode_topic(name, node.data)
            states: list[PartitionState | None] = []
            for index in range(len(assignment)):
                found = self.nodes.get(znodes.state_path(name, index))
                states.append(
                    None
                    if found is None
                    else znodes.decode_state(
                        name, index, found.data, NodeStat(found.version, 0, found.mzxid)
                    )
                )
            config = self.nodes.get(znodes.config_path(name))
            overrides = {} if config is None else znodes.decode_config(name, config.data)
            version = None if config is None else config.version
            topics.append(
                TopicRead(name, topic_id, assignment, node.version, overrides, version, states)
            )
        graves = [
            TombstoneRead(
                *znodes.decode_tombstone(name, self.nodes[f"{znodes.DELETED_TOPICS}/{name}"].data)
            )
            for name in self._names(znodes.DELETED_TOPICS)
        ]
        strays = {
            name: self.nodes[znodes.config_path(name)].version
            for name in self._names(znodes.TOPIC_CONFIGS)
            if name not in known
        }
        brokers = tuple(self.brokers[b] for b in sorted(self.brokers))
        ids = self.nodes.get(znodes.PRODUCER_IDS)
        return ClusterRead(
            self.epoch,
            self.epoch,
            brokers,
            tuple(topics),
            tuple(graves),
            strays,
            0 if ids is None else znodes.decode_producer_ids(ids.data),
            0 if ids is None else ids.version,
            self._broker_configs(),
            self._security() if self.config.security else None,
            self._plans(),
            *self._features(),
            out_of_service=self._out_of_service(),
        )

    def _plans(self) -> tuple[PlanRead, ...]:
        found = []
        for name in self._names(znodes.MOVES):
            path = move_nodes.plan_path(name)
            head, wishes = move_nodes.decode_plan(name, self.nodes[path].data)
            pieces = [PieceRead(0, self.nodes[path].version, wishes)]
            for child in self._names(path):
                node = self.nodes[f"{path}/{child}"]
                wishes = move_nodes.decode_wishes(name, int(child), node.data)
                pieces.append(PieceRead(int(child), node.version, wishes))
            found.append(PlanRead(head, tuple(pieces)))
        return tuple(found)

    def _features(self) -> tuple[frozenset[str], int | None]:
        node = self.nodes.get(znodes.FEATURES)
        if node is None:
            return frozenset(), None
        return frozenset(znodes.decode_features(node.data)), node.version

    def _out_of_service(self) -> dict[int, OutOfService]:
        found = {}
        for name in self._names(znodes.BROKER_STATES):
            path = f"{znodes.BROKER_STATES}/{name}"
            node = self.nodes[path]
            stat = NodeStat(node.version, 0, node.mzxid)
            found[int(name)] = znodes.decode_broker_state(path, node.data, stat)
        return found

    def _security(self) -> ClusterSecurity:
        security = ClusterSecurity(self.nodes[security_nodes.VERSION].version)
        for parent in security_nodes.ACL_PARENTS:
            for path in (f"{parent}/{name}" for name in self._names(parent)):
                node = self.nodes[path]
                acls = StoredAcls(security_nodes.decode_acls(path, node.data), node.version)
                security.acls[security_nodes.pattern_of(path)] = acls
        for path in (f"{user_nodes.USERS}/{name}" for name in self._names(user_nodes.USERS)):
            node = self.nodes[path]
            user = user_nodes.decode_user(path, node.data)
            security.users[user.name] = StoredUser(user, node.version)
        for parent in quota_nodes.QUOTA_PARENTS:
            for path in (f"{parent}/{name}" for name in self._names(parent)):
                node = self.nodes[path]
                values = quota_nodes.decode_quotas(path, node.data)
                quotas = StoredQuotas(values, node.version)
                security.quotas[quota_nodes.entity_of(path)] = quotas
        security.secret = SECRET
        return security

    def _broker_configs(self) -> dict[int, DynamicConfig]:
        found = {}
        for name in self._names(znodes.BROKER_CONFIGS):
            node = self.nodes[f"{znodes.BROKER_CONFIGS}/{name}"]
            broker_id, overrides = znodes.decode_broker_config(name, node.data)
            found[broker_id] = DynamicConfig(overrides, node.version)
        return found

    def _names(self, parent: str) -> list[str]:
        prefix = parent + "/"
        return sorted(
            path.removeprefix(prefix)
            for path in self.nodes
            if path.startswith(prefix) and "/" not in path.removeprefix(prefix)
        )

    # ---- events

    def handle(self, event: Event) -> None:
        """Handle one outside event, all its writes, and the answers of brokers."""
        self._feed(event)
        while self._to_ack and not self.lost_track:
            self._feed(self._to_ack.pop(0))

    def _feed(self, event: Event) -> None:
        waiting = self._run(self.machine.handle(event, self.now))
        while self.machine.unfinished:
            waiting += self._run(self.machine.handle(GoOn(), self.now))
        while waiting:
            write = waiting.pop(0)
            waiting += self._run(self.machine.handle(self._write(write), self.now))
        self._check()

    def _run(self, effects: list[Effect]) -> list[WriteStore]:
        writes = []
        for effect in effects:
            if isinstance(effect, WriteStore):
                if self.safeguards.fence(effect.ops[0]):
                    assert isinstance(effect.ops[0], CheckVersion)
                    assert effect.ops[0].path == znodes.CONTROLLER_EPOCH
                writes.append(effect)
            elif isinstance(effect, SendOrders):
                self._send(effect)
            elif isinstance(effect, SendReply):
                assert effect.request_id not in self.replies, "answered twice"
                self.replies[effect.request_id] = effect.response
            elif isinstance(effect, ConnectBrokers):
                self.connected = effect.brokers
            elif isinstance(effect, Resign):
                self.resigned = effect.reason
            elif isinstance(effect, Reload):
                self.reloads += 1
                self.lost_track = True
        return writes

    def _send(self, effect: SendOrders) -> None:
        assert self.brokers[effect.broker_id].broker_epoch == effect.broker_epoch
        self.orders.append((effect.broker_id, effect.broker_epoch, effect.orders))
        for request in effect.orders.requests(self.broker_id, self.epoch, effect.broker_epoch):
            self.requests.append((effect.broker_id, request))
            if self.auto_ack and not isinstance(request, replication.UpdateMetadataRequest):
                self._to_ack.append(self.answer(effect.broker_id, request))

    def answer(self, broker_id: int, request: Any, error_code: int = 0) -> OrdersAnswered:
        """Return a broker's answer to an order, the same code for every partition."""
        if isinstance(request, UpdateSecurityRequest):
            told = UpdateSecurityResponse(error_code, request.version)
            return OrdersAnswered(broker_id, request.broker_epoch, request, told)
        results = [
            replication.ReplicaResult(p.topic, p.partition, error_code) for p in request.partitions
        ]
        response = request.response(0, results)
        return OrdersAnswered(broker_id, request.broker_epoch, request, response)

    def ask(self, request: Any, *, internal: bool = False) -> Any:
        """Return the answer to a request, or None when it waits."""
        request_id = self.ask_later(request, internal=internal)
        return self.replies.get(request_id)

    def ask_later(self, request: Any, *, internal: bool = False) -> int:
        self._request_id += 1
        count = len(getattr(request, "topics", None) or [])
        ids = tuple(f"id-{self._request_id}-{position}" for position in range(count))
        self.handle(RequestReceived(self._request_id, request, ids, internal, ASKER, ASKED_AT_MS))
        return self._request_id

    def pass_time(self, seconds: float) -> None:
        """Let the clock run, waking the machine when it wants to be."""
        end = self.now + seconds
        while self.machine.wake_at is not None and self.machine.wake_at <= end:
            self.now = max(self.now, self.machine.wake_at)
            self.handle(TimeReached())
        self.now = end

    # ---- the store

    def put(self, path: str, data: bytes) -> None:
        """Make a node unseen by the machine."""
        self.zxid += 1
        self.nodes[path] = Node(data, 0, self.zxid)

    def _write(self, write: WriteStore) -> Event:
        self.writes.append(write.ops)
        failure = self.fail_write(write.ops)
        if failure is None or failure[1]:
            try:
                self._apply(write.ops)
            except StoreError as error:
                return WriteFailed(write.write_id, error)
        return (
            WriteSucceeded(write.write_id)
            if failure is None
            else WriteFailed(write.write_id, failure[0])
        )

    def _apply(self, ops: Sequence[Op]) -> None:
        self.zxid += 1
        nodes = {path: Node(n.data, n.version, n.mzxid) for path, n in self.nodes.items()}
        for index, op in enumerate(ops):
            node = nodes.get(op.path)
            if isinstance(op, Create):
                if node is not None:
                    raise NodeExistsError(op.path, op_index=index)
                if op.path.rpartition("/")[0] not in nodes:
                    raise NoNodeError(op.path, op_index=index)
                nodes[op.path] = Node(op.data, 0, self.zxid)
                continue
            if node is None:
                raise NoNodeError(op.path, op_index=index)
            wanted = op.version
            if wanted not in (ANY_VERSION, node.version):
                raise BadVersionError(op.path, op_index=index)
            if isinstance(op, SetData):
                nodes[op.path] = Node(op.data, node.version + 1, self.zxid)
            elif isinstance(op, Delete):
                if any(path.startswith(op.path + "/") for path in nodes):
                    raise NotEmptyError(op.path, op_index=index)
                del nodes[op.path]
        self.nodes = nodes

    def disconnect_once(self, *, applied: bool) -> None:
        """The next write's reply is lost, and whether it was applied is up to the test."""

        def once(ops: Sequence[Op]) -> tuple[StoreError, bool]:
            self.fail_write = lambda ops: None
            return StoreDisconnectedError(), applied

        self.fail_write = once

    # ---- looking

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Return the state that the store has."""
        node = self.nodes[znodes.state_path(topic, partition)]
        stat = NodeStat(node.version, 0, node.mzxid)
        return znodes.decode_state(topic, partition, node.data, stat)

    def partition(self, topic: str, partition: int = 0) -> ClusterPartition:
        found = self.machine.cluster.partition(topic, partition)
        assert found is not None
        return found

    def _check(self) -> None:
        """Memory says what the store says, and [I10] holds."""
        if self.machine.busy or self.lost_track or self.resigned:
            return
        assert self.machine.cluster.out_of_service == self._out_of_service()
        for partition in self.machine.cluster.partitions():
            if partition.state is None:
                continue
            stored = self.state(*partition.topic_partition)
            known = partition.state
            assert stored == known
            assert not partition.halted
            if self.safeguards.untrusted(frozenset({1})):
                for member in (*known.isr, *known.elr):
                    broker = self.machine.cluster.brokers.get(member)
                    assert broker is None or broker.keeps(known.admitted_at(member), partition), (
                        f"{member} lost data and is still a member of {partition.topic_partition}"
                    )

    def create(self, topic: str, *replicas: Sequence[int], **configs: str) -> Any:
        """Create a topic with this assignment; return its result."""
        new = admin.CreatableTopic(
            topic,
            -1,
            -1,
            [list(each) for each in replicas],
            [admin.ConfigEntry(key, value) for key, value in sorted(configs.items())],
        )
        response = self.ask(admin.CreateTopicsRequest([new], 1000))
        return None if response is None else response.topics[0]

    def alter_isr(
        self, topic: str, /, *isr: int, partition: int = 0, asker: int | None = None, **changes: Any
    ) -> Any:
        """Send AlterPartition as the leader, with changes to the item; return the item's result."""
        known = self.partition(topic, partition)
        assert known.state is not None
        sender = known.state.leader if asker is None else asker
        members = [
            replication.IsrMember(b, -1 if b == sender else self.brokers[b].broker_epoch)
            for b in isr
        ]
        fields: dict[str, Any] = {
            "topic": topic,
            "topic_id": known.topic.topic_id,
            "partition": partition,
            "leader_epoch": known.state.leader_epoch,
            "partition_epoch": known.state.version,
            "isr": members,
        }
        item = replication.AlterPartitionItem(**{**fields, **changes})
        epoch = self.brokers[sender].broker_epoch
        response = self.ask(replication.AlterPartitionRequest(sender, epoch, [item]))
        return None if response is None else response.partitions[0]


def summary(driver: Driver, topic: str = "t", partition: int = 0) -> tuple[int, int, list[int]]:
    """Return leader, leader epoch and ISR of a partition."""
    state = driver.state(topic, partition)
    return state.leader, state.leader_epoch, list(state.isr)
