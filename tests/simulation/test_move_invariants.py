"""A move breaks a rule in two states of a partition, or by a log that it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from oncelog_broker.app import Broker
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_protocol.errors import UnknownTopicOrPartitionError
from oncelog_protocol.types import TopicPartition
from simulation.move_invariants import (
    MoveInvariants,
    begins_anew,
    check_known,
    check_originals,
    unrest,
)
from simulation.sound_members import Counted
from simulation.store_view import (
    InvariantViolation,
    Rules,
    StateChange,
    StoredPartition,
    StoreState,
)
from unsafe.replication import without

TP = TopicPartition("t", 0)
STILL = StoreState(1, 5, (1, 2, 3), 1, 7, replicas=(1, 2, 3))
BEGUN = replace(
    STILL, leader_epoch=6, replicas=(1, 2, 3, 4), origin=(1, 2, 3), target=(4, 2, 3), version=8
)
JOINED = replace(BEGUN, isr=(1, 2, 3, 4), version=9)
ENDED = StoreState(4, 7, (4, 2, 3), 1, 10, replicas=(4, 2, 3), leaving=(1,))


def judge(before: StoreState, after: StoreState) -> str:
    """Return the number of the rule that is broken, "" for none."""
    try:
        MoveInvariants(Rules(min_insync_replicas=2)).state_changed(
            StateChange(TP, before, after, False)
        )
    except InvariantViolation as violation:
        return violation.id
    return ""


def test_a_move_as_it_should_be() -> None:
    assert judge(STILL, BEGUN) == judge(BEGUN, JOINED) == judge(JOINED, ENDED) == ""
    assert judge(ENDED, replace(ENDED, leaving=())) == ""
    retargeted = replace(JOINED, target=(1, 2, 5), replicas=(1, 2, 3, 5, 4), leader_epoch=7)
    assert judge(JOINED, retargeted) == ""
    assert judge(BEGUN, replace(BEGUN, replicas=(1, 2, 3), target=(1, 2), leaving=(4,))) == ""


BREACHES: dict[str, tuple[StoreState, StoreState, str]] = {
    "somebody joins by the beginning": (STILL, replace(BEGUN, isr=(1, 2, 3, 4)), "M3"),
    "somebody joins by the end": (BEGUN, ENDED, "M3"),
    "a member leaves by the beginning": (STILL, replace(BEGUN, isr=(1, 2)), "M3"),
    "another leader by the beginning": (STILL, replace(BEGUN, leader=2), "M3"),
    "an end without who was added": (BEGUN, replace(ENDED, isr=(2, 3), leader=2), "M5"),
    "an end that refuses writes": (
        replace(JOINED, isr=(1, 4), elr=()),
        replace(ENDED, isr=(4,)),
        "M5",
    ),
    "an end with other replicas": (JOINED, replace(ENDED, replicas=(2, 4, 3)), "M6"),
    "an end that drops a member that stays": (JOINED, replace(ENDED, isr=(4, 2)), "M6"),
    "an end with an ELR": (replace(JOINED, isr=(2, 4)), replace(ENDED, isr=(4, 2), elr=(3,)), "M6"),
    "an end that forgets somebody": (JOINED, replace(ENDED, leaving=()), "M6"),
    "another beginning": (JOINED, replace(JOINED, origin=(1, 2), target=(4, 2)), "M10"),
    "another end that drops a member": (
        JOINED,
        replace(JOINED, target=(1, 2), replicas=(1, 2, 3), leaving=(4,)),
        "M10",
    ),
    "another end that forgets somebody": (
        BEGUN,
        replace(BEGUN, target=(1, 2), replicas=(1, 2, 3)),
        "M10",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach(name: str) -> None:
    before, after, id = BREACHES[name]
    assert judge(before, after) == id


TURNED = replace(JOINED, target=(1, 2, 3), leader_epoch=7, version=10)
BACK = StoreState(1, 8, (1, 2, 3), 1, 11, replicas=(1, 2, 3), leaving=(4,))
LAGGING = replace(TURNED, isr=(1, 2, 4))
BACK_LAGGING = replace(BACK, isr=(1, 2))

ENDS: dict[str, tuple[StoreState, StoreState, Counted, str]] = {
    "all are sound": (JOINED, ENDED, Counted(frozenset((1, 2, 3, 4)), 2), ""),
    "an original that is not sound does not count": (
        JOINED,
        ENDED,
        Counted(frozenset((2, 3, 4)), 2),
        "",
    ),
    "who was added is dead": (JOINED, ENDED, Counted(frozenset((1, 2, 3)), 2), "M5"),
    "fewer are sound than the originals had": (
        JOINED,
        ENDED,
        Counted(frozenset((1, 2, 4)), 1),
        "",
    ),
    "fewer than three": (
        replace(JOINED, target=(4, 2), replicas=(1, 2, 3, 4)),
        replace(ENDED, isr=(4, 2), replicas=(4, 2), leaving=(1, 3)),
        Counted(frozenset((1, 3, 4)), 1),
        "M5",
    ),
    "writes need more": (JOINED, ENDED, Counted(frozenset((4, 2)), 3), "M5"),
    "the leader is not sound": (
        JOINED,
        replace(ENDED, leader=3),
        Counted(frozenset((1, 2, 4)), 2),
        "M5",
    ),
    "it turned back": (TURNED, BACK, Counted(frozenset((1, 2, 3, 4)), 2), ""),
    "it turned back too early": (
        LAGGING,
        BACK_LAGGING,
        Counted(frozenset((1, 2, 4)), 2),
        "M9",
    ),
    "it turned back whatever was lost": (
        LAGGING,
        BACK_LAGGING,
        Counted(frozenset((1, 2, 4)), 2, hasty=True),
        "",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_by_what_the_controller_knew(name: str) -> None:
    before, after, counted, id = ENDS[name]
    invariants = MoveInvariants(Rules(min_insync_replicas=1), lambda *_: counted)
    found = ""
    try:
        invariants.state_changed(StateChange(TP, before, after, False))
    except InvariantViolation as violation:
        found = violation.id
    assert found == id


def test_what_begins_anew_is_no_move() -> None:
    anew = replace(ENDED, isr=(4,), unclean_epoch=7)
    assert begins_anew(anew)
    assert not begins_anew(ENDED)
    assert judge(BEGUN, anew) == ""


def leads(safeguards: Safeguards, *isr: int) -> LeaderRole:
    """Return the leader of a partition that moves from 1, 2 to 1, 2, 3."""
    return LeaderRole(
        TP,
        1,
        6,
        epoch_start_offset=0,
        replicas=(1, 2, 3),
        origin=(1, 2),
        isr=isr,
        partition_epoch=3,
        now=0.0,
        safeguards=safeguards,
    )


def test_m4_a_leader_counts_as_the_store_does() -> None:
    state = StoreState(1, 6, (1, 2), 1, 3, replicas=(1, 2, 3), origin=(1, 2), target=(1, 2, 3))
    partition = stored(state)[TP]
    check_originals(partition, leads(SAFE, 1, 2), 3)
    check_originals(partition, leads(SAFE, 1), 3)
    wrong = leads(without("origin_counts_for_min_isr"), 1, 2)
    with pytest.raises(InvariantViolation, match="M4: .*refuses writes, 2 are needed"):
        check_originals(partition, wrong, 3)
    older = stored(replace(state, leader_epoch=7))[TP]
    check_originals(older, wrong, 3)


def test_m11_somebody_complete_stays_known() -> None:
    partition = stored(ENDED)[TP]
    check_known(partition, JOINED, [1, 4])
    check_known(partition, JOINED, [5])
    check_known(partition, ENDED, [1])
    check_known(partition, None, [1])
    with pytest.raises(InvariantViolation, match="M11"):
        check_known(partition, JOINED, [1])


@dataclass
class Directory:
    online: bool = True


@dataclass
class Log:
    topic_partition: TopicPartition = TP
    topic_id: str = "id"
    log_dir: Directory = field(default_factory=Directory)


@dataclass
class Logs:
    """A broker is these logs alone."""

    logs: list[Log] = field(default_factory=list)

    def get(self, name: TopicPartition) -> Log | None:
        return next((log for log in self.logs if log.topic_partition == name), None)

    def all(self) -> list[Log]:
        return self.logs


@dataclass
class Replicas:
    """A broker has one role in everything; None: it has none."""

    leader_epoch: int | None = None

    def partition(self, name: TopicPartition) -> Replicas:
        if self.leader_epoch is None:
            raise UnknownTopicOrPartitionError(str(name))
        return self


@dataclass
class WithLogs:
    logs: Logs
    replicas: Replicas = field(default_factory=Replicas)


def brokers(**logs: list[Log]) -> dict[int, Broker]:
    """Return brokers by id, such as ``b1``, with logs."""
    return {int(name[1:]): cast(Broker, WithLogs(Logs(has))) for name, has in logs.items()}


def stored(state: StoreState, topic_id: str = "id") -> dict[TopicPartition, StoredPartition]:
    return {TP: StoredPartition(TP, topic_id, state.replicas, state)}


def sweep(state: StoreState, running: dict[int, Broker], **partition: Any) -> None:
    """Have a write tell that broker 1 has nothing any more, and look."""
    moves = MoveInvariants(Rules())
    moves.state_changed(StateChange(TP, ENDED, state, False))
    moves.check(stored(state, **partition), running)


def test_who_is_forgotten_has_no_log() -> None:
    swept = replace(ENDED, leaving=())
    for fine in ({}, brokers(b1=[]), brokers(b1=[Log(topic_id="another")]), brokers(b2=[Log()])):
        sweep(swept, fine)
    sweep(ENDED, brokers(b1=[Log()]))
    back = replace(ENDED, replicas=(4, 2, 3, 1), origin=(4, 2, 3), target=(1, 2, 3), leaving=())
    sweep(back, brokers(b1=[Log()]))
    with pytest.raises(InvariantViolation, match="M8"):
        sweep(swept, brokers(b1=[Log()]))


def without_log(state: StoreState, log: Log, *, told: bool = False, restarts: bool = False) -> None:
    """Have the log of broker 1 go; it was ``told`` to leave meanwhile, or begins anew."""
    moves = MoveInvariants(Rules())
    running = brokers(b1=[log])
    moves.check(stored(state), running)
    moves.check(stored(state), running)
    if told:
        moves.state_changed(StateChange(TP, BEGUN, replace(BEGUN, leaving=(1,)), False))
    if restarts:
        running = brokers(b1=[])
    cast(Any, running[1]).logs.logs.clear()
    moves.check(stored(state), running)


def test_m7_nobody_deletes_a_log_who_was_not_told_to_leave() -> None:
    without_log(ENDED, Log())  # 1 is leaving
    without_log(STILL, Log(), told=True)
    without_log(STILL, Log(), restarts=True)
    without_log(STILL, Log(topic_id="former"))
    without_log(STILL, Log(log_dir=Directory(online=False)))
    with pytest.raises(InvariantViolation, match="M7: t-0: broker 1 has deleted its log"):
        without_log(STILL, Log())


@pytest.mark.parametrize(("role", "allowed"), [(None, True), (5, True), (7, True), (8, False)])
def test_m7_who_was_paused_may_delete_late_until_it_has_a_new_role(
    role: int | None, allowed: bool
) -> None:
    """Seed 3300011: it was to leave, and it was wanted again before it had heard of either."""
    log, moves = Log(), MoveInvariants(Rules())
    running = {1: cast(Broker, WithLogs(Logs([log]), Replicas(role)))}
    moves.check(stored(ENDED), running)
    back = replace(
        ENDED,
        leader_epoch=8,
        replicas=(4, 2, 3, 1),
        origin=(4, 2, 3),
        target=(1, 2, 3),
        leaving=(),
    )
    moves.state_changed(StateChange(TP, ENDED, back, False))
    for _ in range(3):
        moves.check(stored(back), running)
    cast(Any, running[1]).logs.logs.clear()
    if allowed:
        moves.check(stored(back), running)
        return
    with pytest.raises(InvariantViolation, match="M7"):
        moves.check(stored(back), running)


def test_at_rest_nothing_moves_and_nothing_is_left() -> None:
    calm = brokers(b1=[Log()], b4=[Log(TopicPartition("gone", 0)), Log(topic_id="former")])
    assert unrest(stored(STILL), calm) == ""
    assert "moves" in unrest(stored(BEGUN), calm)
    assert "moves" in unrest(stored(ENDED), {})
    assert unrest(stored(STILL), calm, ["/admin/moves/7"]) == "wishes are left: /admin/moves/7"
    assert "broker 4 has a stray log of t-0" in unrest(stored(STILL), brokers(b4=[Log()]))
