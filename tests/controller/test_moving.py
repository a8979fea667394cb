"""Moves begin without losing anybody, and finish when nobody is missed."""

from __future__ import annotations

import itertools

import pytest

from oncelog_controller import moving
from oncelog_controller.election import Candidates
from oncelog_controller.eligibility import Members
from oncelog_controller.moving import Obstacle
from oncelog_controller.state import BrokerRegistration, PartitionState, Placement
from oncelog_protocol.types import NO_BROKER
from support.controller_driver import registration

BROKERS: dict[int, BrokerRegistration] = {b: registration(b, b * 10) for b in range(1, 7)}
NOBODY: frozenset[int] = frozenset()


def state(*isr: int, leader: int = -1) -> PartitionState:
    return PartitionState(leader, 5, isr, 1, 3, admitted=tuple((b, b * 10) for b in sorted(isr)))


def everybody() -> Candidates:
    return Candidates(frozenset(BROKERS))


# ---------------------------------------------------------------- begin


def test_a_move_adds_and_drops_nobody() -> None:
    begun = moving.begin(Placement((1, 2, 3)), Members((1, 2)), (4, 2, 5), "plan")
    assert begun == Placement((1, 2, 3, 4, 5), (1, 2, 3), (4, 2, 5), (), "plan")


def test_who_was_leaving_and_is_wanted_again_stays() -> None:
    begun = moving.begin(Placement((1,), leaving=(2, 3)), Members((1,)), (1, 2), "plan")
    assert begun == Placement((1, 2), (1,), (1, 2), (3,), "plan")


def test_another_end_keeps_the_beginning_and_drops_what_is_no_member() -> None:
    open_move = Placement((1, 2, 3, 4), (1, 2), (3, 4), (6,), "first")
    begun = moving.begin(open_move, Members((1, 2, 3)), (1, 5), "second")
    assert begun == Placement((1, 2, 5, 3), (1, 2), (1, 5), (6, 4), "second")


@pytest.mark.parametrize("members", [Members((1,), (4,)), Members((1,), (), (4,)), Members((1, 4))])
def test_no_member_is_dropped_before_the_end(members: Members) -> None:
    begun = moving.begin(Placement((1, 4), (1,), (4,)), members, (1, 5), "plan")
    assert (begun.replicas, begun.leaving) == ((1, 5, 4), ())


def test_to_cancel_is_to_move_back() -> None:
    begun = moving.begin(Placement((1, 2, 3), (1, 2), (2, 3)), Members((1, 2)), (1, 2), "plan")
    assert begun == Placement((1, 2), (1, 2), (1, 2), (3,), "plan")


# ---------------------------------------------------------------- who counts


@pytest.mark.parametrize(
    "candidates",
    [
        Candidates(frozenset({1})),
        Candidates(frozenset({1, 2}), suspected=frozenset({2})),
        Candidates(frozenset({1, 2}), shutting_down=frozenset({2})),
        Candidates(frozenset({1, 2}), restarted=frozenset({2})),
        Candidates(frozenset({1, 2}), untrusted=frozenset({2})),
    ],
)
def test_who_may_not_lead_does_not_count(candidates: Candidates) -> None:
    assert moving.sound(state(1, 2), everybody(), BROKERS) == {1, 2}
    assert moving.sound(state(1, 2), candidates, BROKERS) == {1}


def test_who_has_registered_anew_does_not_count() -> None:
    brokers = BROKERS | {2: registration(2, 99)}
    assert moving.sound(state(1, 2), everybody(), brokers) == {1}


# ---------------------------------------------------------------- finish

ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], set[int], int, Obstacle | None]] = {
    "all are there": ((1, 2, 3), (2, 3, 4), {1, 2, 3, 4}, 2, None),
    "one is copied": ((1, 2, 3), (2, 3, 4), {1, 2, 3}, 2, Obstacle.COPYING),
    "more replicas, and one is copied": ((1,), (1, 2, 3), {1, 2}, 2, Obstacle.COPYING),
    "an original is dead": ((1, 2, 3), (2, 3, 4), {1, 2, 4}, 2, None),
    "fewer would be in sync": ((1, 2, 3), (1, 2), {2, 3}, 1, Obstacle.FEWER),
    "one that goes was dead": ((1, 2, 3), (1, 2), {1, 2}, 2, None),
    "too few for writes": ((1, 2, 3), (1, 2), {1}, 2, Obstacle.WRITES),
    "a setting above the replicas": ((1, 2), (3,), {1, 2, 3}, 5, None),
    "nobody": ((1, 2), (1,), set(), 1, Obstacle.WRITES),
    "nobody, and nobody is asked for": ((1, 2), (1,), set(), 0, Obstacle.NO_LEADER),
    "turning back": ((1, 2), (1, 2), {1, 3}, 1, Obstacle.TURNING_BACK),
    "turned back": ((1, 2), (1, 2), {1, 2, 3}, 1, None),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_keeps_a_move_from_its_end(row: str) -> None:
    origin, target, sound, min_isr, expected = ROWS[row]
    placement = moving.begin(Placement(origin), Members(origin), target, "plan")
    assert moving.obstacle(placement, sound, min_isr) is expected


def test_turning_back_can_be_given_up_and_nothing_else() -> None:
    placement = Placement((1, 2, 3), (1, 2), (1, 2))
    assert moving.obstacle(placement, {1, 3}, 1, now=True) is None
    assert moving.obstacle(placement, {3}, 1, now=True) is Obstacle.WRITES


def test_the_end_keeps_the_leader_or_takes_the_one_that_leads_least() -> None:
    placement = Placement((1, 2, 3, 4), (1, 2, 3), (4, 3, 2), (5,))
    kept = moving.finish(placement, state(1, 2, 3, 4, leader=2), {2, 3, 4}, {})
    assert kept.placement == Placement((4, 3, 2), leaving=(1, 5))
    assert (kept.decision.leader, kept.decision.isr) == (2, (4, 3, 2))
    other = moving.finish(placement, state(1, 2, 3, 4, leader=1), {2, 3, 4}, {4: 7, 3: 1, 2: 1})
    assert other.decision.leader == 3
    drained = moving.finish(placement, state(1, 2, 3, 4, leader=2), {2, 3, 4}, {4: 7}, {2, 3})
    assert drained.decision.leader == 4
    alone = moving.finish(placement, state(1, 2, 3, 4, leader=2), {2, 3, 4}, {}, {2, 3, 4})
    assert alone.decision.leader == 2


def test_the_end_of_every_move_holds_what_was_committed_and_refuses_no_write() -> None:
    """Look at every pair of placements of four brokers, every ISR and some sets of those who can be
    asked: an end is a part of the ISR that was, and has as many sound members as the originals."""
    ends, brokers = 0, (1, 2, 3, 4)
    subsets = [s for n in range(1, 4) for s in itertools.combinations(brokers, n)]
    for origin, target in itertools.product(subsets, subsets):
        placement = moving.begin(Placement(origin), Members(origin), target, "plan")
        for size in range(1, len(placement.replicas) + 1):
            for isr in itertools.combinations(placement.replicas, size):
                for sound in (frozenset(isr), frozenset(isr[1:]), frozenset(isr[:-1])):
                    if moving.obstacle(placement, sound, 2):
                        continue
                    ends += 1
                    end = moving.finish(placement, state(*isr, leader=isr[0]), sound, {})
                    decision = end.decision
                    assert set(decision.isr) <= set(isr)
                    assert decision.leader in sound & set(target)
                    kept = len(sound & set(target))
                    assert kept >= min(len(target), len(sound & set(origin)))
                    assert kept >= min(len(target), 2)
                    assert {*end.placement.replicas, *end.placement.leaving} == {*origin, *target}
    assert ends > 500


# ---------------------------------------------------------------- sweep


def test_who_has_nothing_left_is_forgotten() -> None:
    placement = Placement((1, 2), (1,), (2,), (3, 4), "plan")
    assert moving.sweep(placement, {3, 1}) == Placement((1, 2), (1,), (2,), (4,), "plan")


@pytest.mark.parametrize(
    ("target", "draining", "named", "expected"),
    [
        pytest.param((2, 1), (), NO_BROKER, NO_BROKER, id="the leader stays"),
        pytest.param((3, 2), (), NO_BROKER, 3, id="the new preferred leader"),
        pytest.param((3, 2), (), 2, 2, id="who is named already"),
        pytest.param((3, 2), (), 4, 3, id="who is named, and will be no replica"),
        pytest.param((3, 2), (3,), 3, 2, id="nobody who drains"),
        pytest.param((3, 1), (1,), NO_BROKER, 3, id="the leader drains"),
        pytest.param((3, 1), (1, 3), NO_BROKER, NO_BROKER, id="all drain"),
    ],
)
def test_who_is_likely_to_lead_is_known_at_the_beginning(
    target: tuple[int, ...], draining: tuple[int, ...], named: int, expected: int
) -> None:
    origin = (1, 2)
    placement = Placement((1, 2, 3), origin, target, (), "plan")
    assert moving.heir(placement, state(1, 2, leader=1), draining, named) == expected


def test_who_is_named_leads_whatever_the_loads_are() -> None:
    placement = Placement((1, 2, 3), (1, 2), (3, 2), (), "plan")
    before, loads = state(1, 2, 3, leader=1), {2: 9, 3: 0}
    assert not moving.leader_known(placement, before, {2, 3})
    assert moving.leader_known(placement, before, {2, 3}, named=2)
    assert moving.finish(placement, before, {2, 3}, loads, named=2).decision.leader == 2
    assert moving.finish(placement, before, {3}, loads, named=2).decision.leader == 3
