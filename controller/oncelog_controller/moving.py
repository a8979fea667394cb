"""A partition gets other replicas in two writes, its move begins and it finishes. Pure (KIP-455).

Rules
-----
* To begin changes no member, no leader and no record: the replicas that are added are there from
  then on, and join the ISR as any follower does [M3]. A move that is open gets another end in the
  same way [M10]; to cancel it is to give it its beginning as its end [M9].
* To finish drops the replicas that are not wanted. The new ISR is a part of the old one, so its
  members hold all that is committed [M6] [M11].
* Who counts on the way is *sound*: in the ISR, registered in the life in which it was admitted,
  with a replica that works, and neither suspected nor about to stop. A move finishes when all that
  were added are sound, when what stays has as many sound members as the partition would have
  without the move, and when they are enough for ``min.insync.replicas``: no write is refused [M5].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog_controller.election import Candidates, Decision
from oncelog_controller.eligibility import Members
from oncelog_controller.state import BrokerRegistration, PartitionState, Placement
from oncelog_protocol.types import NO_BROKER


class Obstacle(Enum):
    """It keeps an open move from its end."""

    COPYING = "copying"
    """A replica that was added is not sound yet."""
    FEWER = "fewer in sync"
    """The partition would have fewer sound members than it has without the move."""
    WRITES = "writes would be refused"
    """The sound members that stay are not enough for ``min.insync.replicas``."""
    TURNING_BACK = "turning back"
    """The move was cancelled, and replicas that were added hold what the original ones lack."""
    NO_LEADER = "nobody could lead"


@dataclass(frozen=True, slots=True)
class Finish:
    """It is the end of a move: what is written at once."""

    placement: Placement
    decision: Decision


def begin(placement: Placement, members: Members, target: tuple[int, ...], move: str) -> Placement:
    """Return the placement in which the partition moves to ``target`` by the plan ``move``.

    What an open move had added before, and is not wanted any more, is dropped at once, unless it is
    a member: those stay until the end [M10].
    """
    origin = placement.originals
    wanted = (*origin, *(b for b in target if b not in origin))
    known = (*members.isr, *members.elr, *members.last_known_elr)
    others = [b for b in placement.replicas if b not in wanted]
    replicas = (*wanted, *(b for b in others if b in known))
    dropped = (*placement.leaving, *(b for b in others if b not in known))
    leaving = tuple(b for b in dropped if b not in replicas)
    return Placement(replicas, origin, target, leaving, move)


def sound(
    state: PartitionState, candidates: Candidates, brokers: Mapping[int, BrokerRegistration]
) -> frozenset[int]:
    """Return the members of the ISR that may be counted on."""
    return frozenset(
        member
        for member in state.isr
        if candidates.able(member)
        and member not in candidates.untrusted
        and member not in candidates.restarted
        and state.admitted_at(member) == brokers[member].broker_epoch
    )


def obstacle(
    placement: Placement,
    sound: Collection[int],
    min_insync_replicas: int,
    *,
    now: bool = False,
    ignoring: Collection[Obstacle] = (),
) -> Obstacle | None:
    """Return what keeps an open move from its end, None if it may finish.

    :param now: the replicas that a cancelled move had added are given up, whatever they hold.
    :param ignoring: obstacles that are none; see ``safeguards``.
    """
    origin, target = placement.origin, placement.target
    before = sum(b in origin for b in sound)
    after = sum(b in target for b in sound)
    turns_back = target == origin and not now
    holds = {
        Obstacle.COPYING: not set(target).difference(origin) <= set(sound),
        Obstacle.FEWER: after < min(len(target), before),
        Obstacle.WRITES: after < min(len(target), min_insync_replicas),
        Obstacle.TURNING_BACK: turns_back and before < min(len(origin), len(sound)),
        Obstacle.NO_LEADER: not after,
    }
    return next((each for each in holds if holds[each] and each not in ignoring), None)


def leader_known(
    placement: Placement,
    state: PartitionState,
    sound: Collection[int],
    draining: Collection[int] = (),
    named: int = NO_BROKER,
) -> bool:
    """Return whether it does not depend on loads who leads after the end of an open move: the
    leader leads on, or who is ``named`` does."""
    able = _able(placement, sound, draining)
    return state.leader in able or named in able


def _able(placement: Placement, sound: Collection[int], draining: Collection[int]) -> list[int]:
    """Return who may lead after the end: draining ones only when there are no others."""
    able = [b for b in placement.target if b in sound]
    return [b for b in able if b not in draining] or able


def heir(
    placement: Placement,
    state: PartitionState,
    draining: Collection[int] = (),
    named: int = NO_BROKER,
) -> int:
    """Return who is likely to lead after the end of an open move that may not finish yet: the new
    preferred leader; -1: who leads now. Who is ``named`` already is kept while that can come
    true."""
    likely = [b for b in placement.target if b not in draining] or placement.target
    if state.leader in likely:
        return NO_BROKER
    return named if named in likely else likely[0]


def finish(
    placement: Placement,
    state: PartitionState,
    sound: Collection[int],
    loads: Mapping[int, int],
    draining: Collection[int] = (),
    named: int = NO_BROKER,
) -> Finish:
    """Return the end of a move that nothing keeps from it: see :func:`obstacle`.

    The leader stays if it may; else who is ``named``, or the one of the sound members that leads
    least. Those that are draining come last [M20].
    """
    target = placement.target
    leader = state.leader
    able = _able(placement, sound, draining)
    if leader not in able and named in able:
        leader = named
    elif leader not in able:
        leader = min(able, key=lambda b: loads.get(b, 0))
    isr = tuple(b for b in target if b in state.isr)
    leaving = tuple(b for b in placement.holders if b not in target)
    return Finish(Placement(target, leaving=leaving), Decision(leader, isr))


def sweep(placement: Placement, gone: Collection[int]) -> Placement:
    """Return the placement when brokers have said that they have no data any more."""
    leaving = tuple(b for b in placement.leaving if b not in gone)
    return Placement(
        placement.replicas, placement.origin, placement.target, leaving, placement.move
    )
