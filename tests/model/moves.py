"""The model has one partition that moves between four brokers, which die, return and are suspected.

What the controller decides is decided by the product's own functions: ``moving``, ``election``,
``eligibility`` and ``check_invariants``. The model adds what brokers do: their leader removes
followers and lets them join, commits records, and stops of replicas arrive late. It is told after
each step whether a promise of moves is broken.

Each rule of moves can be switched off; then the search finds the shortest way to harm.

A state is small: epochs and versions only say what is older, so that they are the same in every
state, and of the records only this is known: who holds all that are committed.

Left out: a deposed leader that goes on. It commits only what all of its maximal ISR takes, as long
as none of them has heard of the new epoch; so it does nothing that it could not have done right
before the new state was written, and then it is an ordinary commit. Brokers lose no data either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import NamedTuple

from oncelog_controller import election, moving
from oncelog_controller.election import Candidates, Decision
from oncelog_controller.eligibility import Members, admissions, with_isr
from oncelog_controller.moving import Finish, Obstacle
from oncelog_controller.request_checks import settled
from oncelog_controller.state import (
    BrokerRegistration,
    ClusterPartition,
    DataClaim,
    DataLoss,
    IllegalStateError,
    PartitionState,
    Placement,
    Topic,
    check_invariants,
)
from oncelog_protocol.types import NO_LEADER
from support.room_settings import controller_settings

BROKERS = (1, 2, 3, 4)

EARLIER_LIFE, PRESENT_LIFE = 1, 2
"""Broker epochs: those of all earlier registrations are alike."""

REGISTERED = {
    b: BrokerRegistration(b, PRESENT_LIFE, (), data=DataClaim(0, None, DataLoss.NONE))
    for b in BROKERS
}

UP, SUSPECTED, DOWN = "up", "suspected", "down"

Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class MoveRules:
    """Each rule is on or off. All on: the product."""

    finish_keeps_isr: bool = True
    """The ISR at the end is a part of the one before; else it is the target [M6]."""
    finish_needs_added: bool = True
    """All that were added are sound at the end [M5]."""
    finish_keeps_redundancy: bool = True
    """As many are in sync after the end as the originals have [M5]."""
    finish_keeps_writes: bool = True
    """Enough are in sync after the end for ``min.insync.replicas`` [M5]."""
    finish_counts_sound: bool = True
    """Members that are suspected, or of an earlier life, do not count; else everybody who is in the
    ISR does."""
    finish_counts_members: bool = True
    """Only members of the ISR count; else every registered replica does."""
    origin_counts_for_min_isr: bool = True
    """Replicas that are being added raise nobody's ``min.insync.replicas`` [M4]."""
    cancel_turns_back: bool = True
    """A cancelled move waits until the original replicas have caught up [M9]."""
    begin_keeps_members: bool = True
    """A new target drops no member before the end [M10]."""
    stop_is_fenced: bool = True
    """A replica of a newer leader epoch refuses to be deleted [M7]."""


RULES = tuple(field.name for field in fields(MoveRules))


class State(NamedTuple):
    """It is all that the model knows."""

    store: PartitionState
    brokers: tuple[str, ...]
    """Whether each broker is up, suspected by the controller, or down."""
    complete: Ids
    """They hold every record that is committed."""
    stops: Ids
    """An order to delete is on its way to them, although they are replicas again."""
    harm: str = ""
    """The last step broke this promise."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """It says where the partition is at first, where it may be wanted, and how many replicas writes
    need."""

    first: tuple[int, ...]
    targets: tuple[tuple[int, ...], ...]
    min_insync_replicas: int = 1
    suspicions: bool = True
    """Whether the controller suspects brokers, one at a time."""


class MoveModel:
    """It takes the steps of the model under given rules."""

    def __init__(self, wishes: Wishes, rules: MoveRules | None = None) -> None:
        self.wishes = wishes
        self.rules = rules or MoveRules()
        overrides = {"min_insync_replicas": str(wishes.min_insync_replicas)}
        settings = settled("t", overrides, controller_settings().defaults())
        self._topic = Topic("t", "id", settings, overrides)
        self._ids = sorted({*wishes.first, *(b for target in wishes.targets for b in target)})
        # The controller's answers depend on few things, and are asked for from many states.
        self._elected = cache(self._elected_anew)
        self._begun = cache(self._begun_anew)
        self._finished = cache(self._finished_anew)
        self._with_isr = cache(self._with_isr_anew)

    def start(self) -> State:
        """The replicas of the beginning are all in sync, and the first one leads."""
        first = self.wishes.first
        admitted = tuple((b, PRESENT_LIFE) for b in sorted(first))
        placement = Placement(first)
        store = PartitionState(first[0], 1, first, 1, 1, admitted=admitted, placement=placement)
        return State(store, (UP,) * len(BROKERS), frozenset(first), frozenset())

    # ---- what must hold

    def wrong(self, state: State) -> str:
        """Return what is wrong with a state, or nothing."""
        if state.harm:
            return state.harm
        store = state.store
        if any(member not in state.complete for member in (*store.isr, *store.elr)):
            return "a member lacks a committed record"
        able = [b for b in (*store.isr, *store.elr) if self._able(state, b)]
        if able and (store.leader == NO_LEADER or not self._registered(state, store.leader)):
            return "nobody leads, and somebody could"
        placement = placed(store)
        originals = [b for b in placement.originals if b in store.isr]
        alone = min(self.wishes.min_insync_replicas, len(placement.originals))
        if len(originals) >= alone and len(store.isr) < self._needed(store):
            return "a write is refused that the originals would take"
        return ""

    def is_end(self, state: State) -> bool:
        """Everybody is back, nothing moves, and nobody has data who should have none."""
        placement = placed(state.store)
        rests = not placement.origin and not placement.leaving
        return rests and all(condition == UP for condition in state.brokers)

    # ---- steps

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Return every step that anybody can take."""
        yield from self._broker_steps(state)
        yield from self._leader_steps(state)
        yield from self._move_steps(state)
        yield from self._stop_steps(state)

    def _broker_steps(self, state: State) -> Iterator[tuple[str, State]]:
        for b in self._ids:
            condition = state.brokers[b - 1]
            if condition == DOWN:
                yield self._decided(state, b, "returns", UP)
                continue
            yield self._decided(state, b, "dies", DOWN)
            yield self._decided(state, b, "restarts", UP)
            if condition == SUSPECTED:
                yield self._decided(state, b, "is cleared", UP)
            elif self.wishes.suspicions and SUSPECTED not in state.brokers:
                yield self._decided(state, b, "is suspected", SUSPECTED)

    def _leader_steps(self, state: State) -> Iterator[tuple[str, State]]:
        store = state.store
        if store.leader == NO_LEADER or not self._registered(state, store.leader):
            return
        present = all(self._registered(state, b) for b in store.isr)
        if present and len(store.isr) >= self._needed(store):
            yield "a record is committed", state._replace(complete=frozenset(store.isr))
        for b in placed(store).replicas:
            if b in store.isr:
                if b != store.leader:
                    isr = tuple(each for each in store.isr if each != b)
                    yield f"{b} leaves the ISR", self._isr(state, isr)
            elif self._able(state, b):
                if b not in state.complete:
                    yield f"{b} catches up", state._replace(complete=state.complete | {b})
                else:
                    yield f"{b} joins the ISR", self._isr(state, (*store.isr, b))

    def _move_steps(self, state: State) -> Iterator[tuple[str, State]]:
        store = state.store
        placement = placed(store)
        if store.leader != NO_LEADER:
            for target in self.wishes.targets:
                if target != (placement.target or placement.replicas):
                    yield f"a move to {target} begins", self._begin(state, target)
            if placement.origin and placement.target != placement.origin:
                yield "the move is cancelled", self._begin(state, placement.origin)
        if placement.origin:
            finished = self._finished(store, state.brokers)
            if finished is not None:
                yield "the move is finished", self._finish(state, *finished)

    def _stop_steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what becomes of orders to delete: they are obeyed, refused, or lost."""
        store = state.store
        placement = placed(store)
        for b in placement.leaving:
            if self._registered(state, b):
                swept = replace(store, placement=moving.sweep(placement, {b}))
                gone = state.complete - {b}
                yield f"{b} deletes its replica", state._replace(store=swept, complete=gone)
        for b in state.stops:
            stops = state.stops - {b}
            yield f"an older stop of {b} is lost", state._replace(stops=stops)
            # A member has heard of an epoch that is newer than the stop.
            if b not in store.isr or not self.rules.stop_is_fenced:
                deleted = state._replace(stops=stops, complete=state.complete - {b})
                if b not in (*store.elr, *store.last_known_elr):
                    yield f"an older stop reaches {b}", deleted

    # ---- the controller

    def _decided(self, state: State, broker: int, event: str, condition: str) -> tuple[str, State]:
        """A broker is seen to come, go, or not to answer."""
        brokers = with_item(state.brokers, broker - 1, condition)
        store, harm = self._elected(state.store, brokers, broker, event)
        return f"{broker} {event}", State(store, brokers, state.complete, state.stops, harm)

    def _elected_anew(
        self, store: PartitionState, brokers: tuple[str, ...], broker: int, event: str
    ) -> tuple[PartitionState, str]:
        if event in ("returns", "restarts"):
            store = reborn(store, broker)
        restarted = frozenset({broker} if event == "restarts" else ())
        placement = placed(store)
        decision = election.elect(
            placement.replicas,
            store,
            candidates(placement, brokers, restarted),
            min_isr=self._needed(store),
            unclean=False,
        )
        if decision is None:
            return store, ""
        return self._written(store, decision, placement, brokers, ())

    def _isr(self, state: State, isr: Sequence[int]) -> State:
        store, harm = self._with_isr(state.store, frozenset(isr), state.brokers)
        return state._replace(store=store, harm=harm)

    def _with_isr_anew(
        self, store: PartitionState, isr: Ids, brokers: tuple[str, ...]
    ) -> tuple[PartitionState, str]:
        """The leader's AlterPartition is obeyed."""
        placement = placed(store)
        ordered = tuple(b for b in placement.replicas if b in isr)
        members = with_isr(placement.replicas, members_of(store), ordered, self._needed(store))
        decision = Decision(store.leader, members.isr, members.elr, members.last_known_elr)
        joining = [b for b in ordered if b not in store.isr]
        return self._written(store, decision, placement, brokers, joining)

    def _begin(self, state: State, target: tuple[int, ...]) -> State:
        before = placed(state.store)
        store, harm = self._begun(state.store, target, state.brokers)
        leaving = frozenset(before.leaving)
        stops = state.stops | leaving.intersection(placed(store).replicas)
        return state._replace(store=store, harm=harm, stops=stops)

    def _begun_anew(
        self, store: PartitionState, target: tuple[int, ...], brokers: tuple[str, ...]
    ) -> tuple[PartitionState, str]:
        members = members_of(store)
        known = members if self.rules.begin_keeps_members else Members(())
        placement = moving.begin(placed(store), known, target, "")
        decision = Decision(store.leader, members.isr, members.elr, members.last_known_elr)
        return self._written(store, decision, placement, brokers, ())

    def _finished_anew(
        self, store: PartitionState, brokers: tuple[str, ...]
    ) -> tuple[PartitionState, str] | None:
        """Return the end of an open move and what it broke, None while something keeps it."""
        placement = placed(store)
        sound = moving.sound(store, candidates(placement, brokers), registered(brokers))
        if not self.rules.finish_counts_sound:
            sound = frozenset(store.isr)
        if not self.rules.finish_counts_members:
            sound = frozenset(b for b in placement.replicas if b in registered(brokers))
        if not self._may_finish(placement, sound):
            return None
        end = moving.finish(placement, store, sound, {})
        joining: tuple[int, ...] = ()
        if not self.rules.finish_keeps_isr:
            joining = tuple(b for b in placement.target if b in registered(brokers))
            end = Finish(end.placement, replace(end.decision, isr=joining))
        return self._written(store, end.decision, end.placement, brokers, joining)

    def _may_finish(self, placement: Placement, sound: Ids) -> bool:
        rules, wanted = self.rules, self.wishes.min_insync_replicas
        obstacle = moving.obstacle(placement, sound, wanted)
        spared = {
            Obstacle.COPYING: rules.finish_needs_added,
            Obstacle.FEWER: rules.finish_keeps_redundancy,
            Obstacle.WRITES: rules.finish_keeps_writes,
            Obstacle.TURNING_BACK: rules.cancel_turns_back,
        }
        return obstacle is None or (
            not spared.get(obstacle, True) and bool(sound.intersection(placement.target))
        )

    def _finish(self, state: State, after: PartitionState, harm: str) -> State:
        return state._replace(store=after, harm=harm or self._broken_by(state, after))

    def _broken_by(self, state: State, after: PartitionState) -> str:
        """Return the promise that the end of a move breaks. It is said in words of its own, not in
        those of the product."""
        before, ended = state.store, state._replace(store=after)
        origin, target = placed(before).origin, placed(before).target
        able_before = [b for b in before.isr if self._able(state, b)]
        able_after = [b for b in after.isr if self._able(ended, b)]
        if able_before and not self._able(ended, after.leader):
            return "nobody leads after the end, and somebody could before"
        if not set(target).difference(origin) <= set(after.isr):
            return "the end came before a replica that was added was in sync"
        if len(able_after) < min(len(target), sum(b in origin for b in able_before)):
            return "fewer are in sync than the originals had"
        taken = len(before.isr) >= self._needed(before)
        if taken and len(after.isr) < self._needed(after):
            return "a write is refused that was taken before the end"
        if target == origin and len(able_after) < min(len(target), len(able_before)):
            return "fewer are in sync than before the move was turned back"
        return ""

    def _written(
        self,
        before: PartitionState,
        decision: Decision,
        placement: Placement,
        brokers: tuple[str, ...],
        joining: Collection[int],
    ) -> tuple[PartitionState, str]:
        """Return the state that follows by one write, with the numbers that every state has, and
        what is wrong with it."""
        partition = ClusterPartition(self._topic, 0, placed(before).replicas, before)
        there = registered(brokers)
        after = PartitionState(
            leader=decision.leader,
            leader_epoch=before.leader_epoch + 1,
            isr=decision.isr,
            controller_epoch=before.controller_epoch,
            version=before.version + 1,
            elr=decision.elr,
            last_known_elr=decision.last_known_elr,
            admitted=admissions(partition, decision.members, joining, there),
            placement=placement,
        )
        harm = ""
        try:
            check_invariants(partition, after, there)
        except IllegalStateError as error:
            harm = f"a state that may not exist: {error}"
        return replace(after, leader_epoch=before.leader_epoch, version=before.version), harm

    # ---- small questions

    def _needed(self, store: PartitionState) -> int:
        """Return how many members a write needs."""
        partition = ClusterPartition(self._topic, 0, placed(store).replicas, store)
        if self.rules.origin_counts_for_min_isr:
            return partition.min_isr
        return min(self.wishes.min_insync_replicas, len(partition.replicas))

    def _registered(self, state: State, broker: int) -> bool:
        return state.brokers[broker - 1] != DOWN

    def _able(self, state: State, broker: int) -> bool:
        return broker != NO_LEADER and state.brokers[broker - 1] == UP


def placed(store: PartitionState) -> Placement:
    """Return the placement, which every state of the model has."""
    assert store.placement is not None
    return store.placement


def members_of(store: PartitionState) -> Members:
    """Return the members that the store names."""
    return Members(store.isr, store.elr, store.last_known_elr)


def registered(brokers: tuple[str, ...]) -> dict[int, BrokerRegistration]:
    """Return the registrations that there are."""
    return {b: REGISTERED[b] for b in BROKERS if brokers[b - 1] != DOWN}


def candidates(
    placement: Placement, brokers: tuple[str, ...], restarted: Ids = frozenset()
) -> Candidates:
    """Return the replicas' brokers as an election sees them."""
    return Candidates(
        frozenset(b for b in placement.replicas if brokers[b - 1] != DOWN),
        suspected=frozenset(b for b in BROKERS if brokers[b - 1] == SUSPECTED),
        restarted=restarted,
    )


def reborn(store: PartitionState, broker: int) -> PartitionState:
    """Return the state as it looks when a broker has registered anew."""
    admitted = tuple((b, EARLIER_LIFE if b == broker else epoch) for b, epoch in store.admitted)
    return replace(store, admitted=admitted)


def with_item(items: tuple[str, ...], index: int, item: str) -> tuple[str, ...]:
    return (*items[:index], item, *items[index + 1 :])


def without(*rules: str) -> MoveRules:
    """Return all rules but these."""
    return replace(MoveRules(), **dict.fromkeys(rules, False))
