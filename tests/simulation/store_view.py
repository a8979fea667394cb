"""The metadata store has been told this, write by write: for the invariants and the coverage.

Owns the history of every partition's state, of controllers and of registrations, taken from
``MemoryZooKeeper.writes``. The rules that one write must obey are checked here:

- [I10]: the leader is in the ISR, or nobody; ISR and ELR lie within the replicas and do not
  overlap; an ISR of min.insync.replicas members leaves no ELR;
- [I11]: a leader epoch has one leader for ever and never decreases; writes are conditional on the
  version before, so that each is one step;
- [I12]: a controller epoch belongs to one session, and no session writes a state under an epoch
  that has been succeeded;
- [M1]: a move begins with some replicas and ends with some, and all of them are replicas meanwhile;
- [M2]: other replicas, or another move, begin with a leader epoch of their own;
- [M4]: the replicas that a move adds do not count for min.insync.replicas.

What a test writes with ``MemoryZooKeeper.apply`` is not in ``writes`` and is not seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog_controller import move_nodes, znodes
from oncelog_controller.store import ANY_VERSION, CheckVersion, Create, Delete, Op, SetData
from oncelog_protocol.types import NO_LEADER, TopicPartition
from oncelog_testing.memory.zookeeper import MemoryZooKeeper

__all__ = [
    "InvariantViolation",
    "Rules",
    "StateChange",
    "StoreState",
    "StoreView",
    "StoredPartition",
]

_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_CONFIG = re.compile(r"/config/topics/([^/]+)")
_PLAN = re.compile(r"/admin/moves/([^/]+)")
_BROKER = re.compile(r"/brokers/ids/(\d+)")


class InvariantViolation(AssertionError):
    """It must never be, and has the number of the rule."""

    def __init__(self, id: str, text: str) -> None:
        super().__init__(f"{id}: {text}")
        self.id = id
        self.text = text


@dataclass(slots=True)
class Rules:
    """They may be expected of a run. May be changed while it goes on."""

    flush: str = "commit"
    """With "commit" whatever counts must be durable."""
    min_insync_replicas: int = 2
    loss_permitted: bool = False
    """More was done to the disks than the settings promise to survive."""
    unclean_election: bool = False
    """Whether a leader from outside of ISR and ELR may be elected; its partition may lose."""
    acks_all: bool = True
    """Whether producers wait for all in-sync replicas."""
    deletions_may_be_missed: bool = False
    """Whether a replica may be away for longer than tombstones are kept."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """It is one version of a partition's state."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    admitted: tuple[tuple[int, int], ...] = ()
    """(broker, broker epoch under which it was known to be complete)."""
    unclean_epoch: int = -1
    """The last leader epoch that began with an unclean election, by the controller."""
    replicas: tuple[int, ...] = ()
    """Those of the topic's node, where the state names none."""
    origin: tuple[int, ...] = ()
    """The replicas before a move; empty: the partition does not move."""
    target: tuple[int, ...] = ()
    """The replicas after a move; empty: the partition does not move."""
    leaving: tuple[int, ...] = ()
    """They are no replicas any more, and may have data."""
    move: str = ""
    """The plan of the move."""
    written: int = -1
    """Number of the write, in the order of all writes."""

    def admitted_at(self, broker_id: int) -> int | None:
        """See ``admitted``; None for everybody else."""
        return next((epoch for member, epoch in self.admitted if member == broker_id), None)

    @property
    def vouched(self) -> tuple[int, ...]:
        """Return who is promised to hold every committed record."""
        return tuple(dict.fromkeys((*self.isr, *self.elr)))


@dataclass(slots=True)
class StoredPartition:
    """It is one partition in the store."""

    name: TopicPartition
    topic_id: str
    replicas: tuple[int, ...]
    state: StoreState
    leaders: dict[int, int] = field(default_factory=dict)
    """Leader by leader epoch, of all time."""
    unclean: bool = False
    """Whether a leader was ever elected who was not vouched for."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """It is one write of a partition's state, as the coverage wants to know it."""

    name: TopicPartition
    before: StoreState | None
    after: StoreState
    unclean: bool


class StoreView:
    """It has the store's history up to the last ``update``."""

    def __init__(self, zookeeper: MemoryZooKeeper, rules: Rules | None = None) -> None:
        self._zookeeper = zookeeper
        self._rules = rules if rules is not None else Rules()
        self._taken = 0
        self.partitions: dict[TopicPartition, StoredPartition] = {}
        self.registered: dict[int, int] = {}
        """Broker to the number of the write that registered it last."""
        self.on_change: list[Callable[[StateChange], None]] = []
        self.on_controller: list[Callable[[int, int], None]] = []
        """Called with (controller epoch, session id) for each election."""
        self.compacting: dict[str, None] = {}
        """Topics whose settings have ever said so."""
        self.controllers: dict[int, int] = {}
        """Broker that won a controller epoch."""
        self._min_isr_max: dict[str, int] = {}
        self.hasty: dict[str, None] = {}
        """Plans of all time that give up what added replicas hold, where a move turns back."""
        self._topics: dict[str, tuple[str, list[tuple[int, ...]]]] = {}
        self._sessions: dict[int, int] = {}
        """Session that won a controller epoch."""
        self._controller_epoch = -1

    @property
    def written(self) -> int:
        """Count the writes taken in."""
        return self._taken

    def update(self) -> bool:
        """Take in the writes since the last call; whether there were any.

        :raises InvariantViolation: [I10], [I11] or [I12].
        """
        writes = self._zookeeper.writes
        if self._taken == len(writes):
            return False
        while self._taken < len(writes):
            session, ops = writes[self._taken]
            self._taken += 1
            for op in ops:
                self._take(session, op, ops)
        return True

    def _take(self, session: int, op: Op, ops: list[Op]) -> None:
        path = op.path
        if isinstance(op, CheckVersion):
            return
        if isinstance(op, Delete):
            self._deleted(path)
        elif path == znodes.CONTROLLER:
            self._elected(session, op.data)
        elif path == znodes.CONTROLLER_EPOCH:
            self._epoch_moved(op)
        elif match := _STATE.fullmatch(path):
            name = TopicPartition(match[1], int(match[2]))
            self._state_written(session, name, op, ops)
        elif match := _TOPIC.fullmatch(path):
            topic_id, assignment = znodes.decode_topic(match[1], op.data)
            self._topics[match[1]] = topic_id, [tuple(replicas) for replicas in assignment]
            for name, stored in self.partitions.items():
                if name.topic == match[1] and not stored.state.replicas:
                    stored.replicas = tuple(assignment[name.partition])
        elif match := _PLAN.fullmatch(path):
            if move_nodes.decode_plan(match[1], op.data)[0].now:
                self.hasty[match[1]] = None
        elif match := _CONFIG.fullmatch(path):
            config = znodes.decode_config(match[1], op.data)
            if "compact" in config.get("cleanup_policy", ""):
                self.compacting[match[1]] = None
            wanted = int(config.get("min_insync_replicas", "0"))
            self._min_isr_max[match[1]] = max(wanted, self._min_isr(match[1]))
        elif (match := _BROKER.fullmatch(path)) and isinstance(op, Create):
            self.registered[int(match[1])] = self._taken

    def _deleted(self, path: str) -> None:
        match = _STATE.fullmatch(path)
        if match:
            self.partitions.pop(TopicPartition(match[1], int(match[2])), None)
            return
        match = _TOPIC.fullmatch(path)
        if match:
            self._topics.pop(match[1], None)

    # ---- controllers

    def _elected(self, session: int, data: bytes) -> None:
        broker_id, epoch = znodes.decode_controller(data)
        self.controllers.setdefault(epoch, broker_id)
        holder = self._sessions.setdefault(epoch, session)
        if holder != session:
            raise InvariantViolation(
                "I12",
                f"broker {broker_id} becomes controller of epoch {epoch} in session {session:#x},"
                f" which session {holder:#x} has won",
            )
        for listener in self.on_controller:
            listener(epoch, session)

    def _epoch_moved(self, op: Create | SetData) -> None:
        epoch = znodes.decode_epoch(op.data)
        if epoch <= self._controller_epoch:
            raise InvariantViolation(
                "I12", f"controller epoch {epoch} is written after {self._controller_epoch}"
            )
        self._controller_epoch = epoch

    def _check_writer(self, session: int, name: TopicPartition, state: StoreState) -> None:
        epoch = state.controller_epoch
        winner = self._sessions.get(epoch)
        if winner is not None and winner != session:
            raise InvariantViolation(
                "I12",
                f"{name}: session {session:#x} writes for controller epoch {epoch},"
                f" which session {winner:#x} has won",
            )
        if epoch != self._controller_epoch:
            raise InvariantViolation(
                "I12",
                f"{name}: written for controller epoch {epoch} while the store is at"
                f" {self._controller_epoch}",
            )

    # ---- partitions

    def _state_written(
        self, session: int, name: TopicPartition, op: Create | SetData, ops: list[Op]
    ) -> None:
        stored = self.partitions.get(name)
        before = None if stored is None or isinstance(op, Create) else stored.state
        state = _decode(op.data, 0 if before is None else before.version + 1, self._taken)
        if before is not None and isinstance(op, SetData) and op.version != before.version:
            wanted = "any version" if op.version == ANY_VERSION else f"version {op.version}"
            raise InvariantViolation(
                "I11", f"{name}: {wanted} is overwritten, present is {before.version}"
            )
        self._check_writer(session, name, state)
        topic_id, assignment = self._topic_of(name, ops)
        if stored is None or before is None:
            stored = StoredPartition(name, topic_id, assignment[name.partition], state)
            self.partitions[name] = stored
        was = stored.replicas
        stored.replicas = state.replicas or was
        _check_move(stored, was, before, state)
        _check_state(stored, state, self._min_isr(name.topic))
        _check_epochs(stored, before, state)
        unclean = before is not None and _is_unclean(before, state)
        stored.unclean = stored.unclean or unclean
        if state.leader != NO_LEADER:
            chosen = stored.leaders.setdefault(state.leader_epoch, state.leader)
            if chosen != state.leader:
                raise InvariantViolation(
                    "I11", f"{name}: epoch {state.leader_epoch} was {chosen}'s: {state}"
                )
        stored.state = state
        for listener in self.on_change:
            listener(StateChange(name, before, state, unclean))

    def _min_isr(self, topic: str) -> int:
        """Return the most that min.insync.replicas of a topic has ever been: who is in an ELR by
        that may stay there until the next write."""
        return max(self._min_isr_max.get(topic, 0), self._rules.min_insync_replicas)

    def _topic_of(self, name: TopicPartition, ops: list[Op]) -> tuple[str, list[tuple[int, ...]]]:
        """The topic may be made by the same multi, behind its partitions."""
        for op in ops:
            if isinstance(op, Create | SetData) and op.path == znodes.topic_path(name.topic):
                topic_id, assignment = znodes.decode_topic(name.topic, op.data)
                self._topics[name.topic] = topic_id, [tuple(replicas) for replicas in assignment]
        return self._topics[name.topic]


def _check_state(stored: StoredPartition, state: StoreState, min_isr: int) -> None:
    """Check [I10]."""
    isr, elr = state.isr, state.elr
    problem = ""
    if len(set(isr)) != len(isr) or len(set(elr)) != len(elr):
        problem = "a member is listed twice"
    elif state.leader != NO_LEADER and state.leader not in isr:
        problem = "the leader is not in the ISR"
    elif not {*isr, *elr, *state.last_known_elr} <= set(stored.replicas):
        problem = f"a member is not among the replicas {stored.replicas}"
    elif set(isr) & set(elr):
        problem = "ISR and ELR overlap"
    elif elr and len(isr) >= min(min_isr, len(state.origin or stored.replicas)):
        problem = f"an ELR beside an ISR of min.insync.replicas ({min_isr}) members"
    elif not isr and not elr and not state.last_known_elr:
        problem = "nobody is left who could lead"
    if problem:
        raise InvariantViolation("I10", f"{stored.name}: {problem}: {state}")


def _check_move(
    stored: StoredPartition, was: tuple[int, ...], before: StoreState | None, state: StoreState
) -> None:
    """Check [M1] and [M2]; ``was`` are the replicas before the write."""
    replicas, origin, target = stored.replicas, state.origin, state.target
    placed = (*replicas, *state.leaving)
    problem = ""
    if any(len(set(each)) != len(each) for each in (placed, origin, target)):
        problem = "a broker is placed twice"
    elif bool(origin) != bool(target) or not {*origin, *target} <= set(replicas):
        problem = f"a move that cannot be, with replicas {replicas}"
    if problem:
        raise InvariantViolation("M1", f"{stored.name}: {problem}: {state}")
    if before is None or before.leader_epoch != state.leader_epoch:
        return
    if (was, before.origin, before.target) != (replicas, origin, target):
        raise InvariantViolation("M2", f"{stored.name}: {before} -> {state}")


def _is_unclean(before: StoreState, state: StoreState) -> bool:
    """Return whether the new leader is not known to hold everything.

    Who was last known to be complete may come back with proof that nothing was lost (a directory
    that could not be read for a while); the controller then says that the election is clean.
    """
    if state.leader in (NO_LEADER, before.leader):
        return False
    if state.unclean_epoch == state.leader_epoch:
        return True
    return state.leader not in (*before.vouched, *before.last_known_elr)


def _check_epochs(stored: StoredPartition, before: StoreState | None, state: StoreState) -> None:
    """Check [I11], as far as the store can tell."""
    if before is None:
        return
    if state.leader_epoch < before.leader_epoch:
        raise InvariantViolation(
            "I11", f"{stored.name}: leader epoch {before.leader_epoch} -> {state.leader_epoch}"
        )
    if state.leader_epoch == before.leader_epoch and state.leader not in (
        before.leader,
        NO_LEADER,
    ):
        raise InvariantViolation(
            "I11",
            f"{stored.name}: leader {before.leader} -> {state.leader} within epoch"
            f" {state.leader_epoch}",
        )
    if state.controller_epoch < before.controller_epoch:
        raise InvariantViolation(
            "I12",
            f"{stored.name}: controller epoch {before.controller_epoch} ->"
            f" {state.controller_epoch}",
        )


def _decode(data: bytes, version: int, written: int) -> StoreState:
    value = json.loads(data)
    return StoreState(
        leader=value["leader"],
        leader_epoch=value["leader_epoch"],
        isr=tuple(value["isr"]),
        controller_epoch=value["controller_epoch"],
        version=version,
        elr=tuple(value.get("elr", ())),
        last_known_elr=tuple(value.get("last_known_elr", ())),
        admitted=tuple((int(b), e) for b, e in sorted(value.get("broker_epochs", {}).items())),
        unclean_epoch=value.get("unclean_epoch", -1),
        replicas=tuple(value.get("replicas", ())),
        origin=tuple(value.get("origin", ())),
        target=tuple(value.get("target", ())),
        leaving=tuple(value.get("leaving", ())),
        move=value.get("move", ""),
        written=written,
    )
