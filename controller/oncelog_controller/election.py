"""Who leads a partition, and who is in its ISR. Pure.

Rules
-----
* A leader comes from the ISR, and is *able*: registered, its replica not failed, not suspected, not
  shutting down. Among several the one that leads least is taken, then the earlier replica, so that
  a dead broker's share spreads over all.
* A broker that is *gone* (not registered, or its replica failed) leaves the ISR at once if others
  remain; when all are gone they all stay, with nobody leading: whoever comes back first had every
  committed record (Z14).
* A broker that *restarted* since the state was written counts as gone while a reachable member has
  not, because it may have come back with less than it had; if there is none, it may lead again, in
  a new epoch.
* Suspicion is weaker than absence: a suspect loses leadership to an able member, and leaves the ISR
  only while that leaves ``min_isr`` members. If nobody else can lead, nothing is written at all, so
  a false suspicion changes nothing.
* Unclean election, where allowed, takes any able replica when no ISR member is registered; its ISR
  is itself alone.

Every decision here is written with the leader epoch grown by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncelog_controller.state import PartitionState
from oncelog_protocol.types import NO_LEADER

NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidates:
    """The replicas' brokers as one election sees them."""

    registered: frozenset[int]
    """Registered, and the replica's log directory works."""
    suspected: frozenset[int] = NOBODY
    shutting_down: frozenset[int] = NOBODY
    restarted: frozenset[int] = NOBODY
    """Registered anew since the state was written."""
    loads: Mapping[int, int] = field(default_factory=dict)
    """Partitions led, by broker."""

    def able(self, broker_id: int) -> bool:
        """Whether it may lead now."""
        return (
            broker_id in self.registered
            and broker_id not in self.suspected
            and broker_id not in self.shutting_down
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write: the leader (-1: nobody) and the ISR."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def elect(
    replicas: Sequence[int],
    state: PartitionState,
    candidates: Candidates,
    *,
    min_isr: int,
    unclean: bool,
) -> Decision | None:
    """What must change given who is there, or None when the state may stand."""
    kept, present = _without_gone(state.isr, candidates)
    leader = state.leader if state.leader in present else NO_LEADER
    if leader != NO_LEADER and leader in candidates.suspected:
        leader = _least_loaded(replicas, kept, candidates, default=leader)
    elif leader == NO_LEADER:
        leader = _least_loaded(replicas, kept, candidates, default=NO_LEADER)
    if leader == NO_LEADER and unclean and not _any_registered(state.isr, candidates):
        usurper = _least_loaded(replicas, replicas, candidates, default=NO_LEADER)
        if usurper != NO_LEADER:
            return Decision(usurper, (usurper,), unclean=True)
    isr = kept
    if leader != NO_LEADER and leader not in candidates.suspected:
        isr = _without_suspects(kept, candidates, leader, min_isr)
    restarted_leader = leader != NO_LEADER and leader in candidates.restarted
    if leader == state.leader and isr == state.isr and not restarted_leader:
        return None
    return Decision(leader, isr)


def elect_first(replicas: Sequence[int], candidates: Candidates) -> Decision | None:
    """The first state of a new partition: all registered replicas are in sync, because nobody has
    anything; the first able one leads. None while no replica is able."""
    able = [broker_id for broker_id in replicas if candidates.able(broker_id)]
    if not able:
        return None
    return Decision(able[0], tuple(able))


def elect_preferred(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates
) -> Decision | None:
    """Leadership for the first replica, if it is able and in sync and somebody else leads."""
    preferred = replicas[0]
    if state.leader == preferred or preferred not in state.isr or not candidates.able(preferred):
        return None
    return Decision(preferred, state.isr)


def elect_for_shutdown(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates, leaving: int
) -> Decision | None:
    """Move leadership off ``leaving``, and take it out of the ISR. None when it is not in the ISR,
    or when nobody else there can lead."""
    if leaving not in state.isr:
        return None
    others = tuple(broker_id for broker_id in state.isr if broker_id != leaving)
    leader = state.leader
    if leader == leaving:
        leader = _least_loaded(replicas, others, candidates, default=NO_LEADER)
        if leader == NO_LEADER:
            return None
    if not others:
        return None
    return Decision(leader, others)


def elect_unclean(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates
) -> Decision | None:
    """Any able replica for a partition without a leader; ISR members first."""
    if state.leader != NO_LEADER:
        return None
    leader = _least_loaded(replicas, state.isr, candidates, default=NO_LEADER)
    if leader != NO_LEADER:
        kept, _ = _without_gone(state.isr, candidates)
        return Decision(leader, kept if leader in kept else (leader,))
    leader = _least_loaded(replicas, replicas, candidates, default=NO_LEADER)
    return None if leader == NO_LEADER else Decision(leader, (leader,), unclean=True)


def _without_gone(
    isr: tuple[int, ...], candidates: Candidates
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ISR without those that are gone, those of it that may go on leading as they are)."""
    registered = tuple(b for b in isr if b in candidates.registered)
    sound = tuple(b for b in registered if b not in candidates.restarted)
    if any(broker_id not in candidates.suspected for broker_id in sound):
        return sound, sound
    if registered:
        return registered, registered
    return isr, ()


def _without_suspects(
    isr: tuple[int, ...], candidates: Candidates, leader: int, min_isr: int
) -> tuple[int, ...]:
    reachable = tuple(b for b in isr if b not in candidates.suspected or b == leader)
    return reachable if len(reachable) >= max(1, min_isr) else isr


def _any_registered(isr: Sequence[int], candidates: Candidates) -> bool:
    return any(broker_id in candidates.registered for broker_id in isr)


def _least_loaded(
    replicas: Sequence[int], allowed: Sequence[int], candidates: Candidates, *, default: int
) -> int:
    able = [b for b in replicas if b in allowed and candidates.able(b)]
    if not able:
        return default
    return min(able, key=lambda b: candidates.loads.get(b, 0))
