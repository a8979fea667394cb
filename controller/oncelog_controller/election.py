"""An election decides who leads a partition, and who is in its ISR. Pure.

Rules
-----
* Before anything else, members that have lost data leave ISR and ELR (see ``eligibility``). They
  lead again only when they have caught up and joined, or by an unclean election.
* A leader comes from the ISR, else from the ELR, and is *able*: registered, its replica not failed,
  not suspected, not shutting down. Among several the one that leads least is taken, then the
  earlier replica, so that a dead broker's share spreads over all. Who comes from the ELR is the
  whole ISR at first; the others stay complete beside it.
* A broker that is *draining* comes after the others of the ISR, and before those of the ELR. What
  it leads it gives to the others of the ISR that can lead, and nobody leaves the ISR [M20].
* A broker that is *gone* (not registered, or its replica failed) leaves the ISR at once if others
  remain; when all are gone they all stay, with nobody leading: whoever comes back with its data had
  every committed record [Z14].
* A broker that *restarted* since the state was written counts as gone while a reachable member has
  not; if there is none, it may lead again, in a new epoch.
* Suspicion is weaker than absence: a suspect loses leadership to an able member, and leaves the ISR
  only while that leaves ``min_isr`` members. If nobody else can lead, nothing is written at all, so
  a false suspicion changes nothing.
* Unclean election, where allowed, takes any able replica when no complete member is registered:
  last known ones first. Its ISR is itself alone, and what was complete before counts no more.

Every decision here is written with the leader epoch grown by one. ``min_isr`` is the effective one:
at most the number of replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncelog_controller.eligibility import Members, sift, with_isr
from oncelog_controller.state import PartitionState
from oncelog_protocol.types import NO_BROKER, NO_LEADER

NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidates:
    """They are the replicas' brokers as one election sees them."""

    registered: frozenset[int]
    """Registered, and the replica's log directory works."""
    suspected: frozenset[int] = NOBODY
    shutting_down: frozenset[int] = NOBODY
    restarted: frozenset[int] = NOBODY
    """Registered anew since the state was written."""
    loads: Mapping[int, int] = field(default_factory=dict)
    """Partitions led, by broker."""
    untrusted: frozenset[int] = NOBODY
    """Registered, and may lack what was committed when they were members."""
    draining: frozenset[int] = NOBODY
    """Out of service: they lead only what nobody else in the ISR can."""

    def able(self, broker_id: int) -> bool:
        """Return whether it may lead now."""
        return (
            broker_id in self.registered
            and broker_id not in self.suspected
            and broker_id not in self.shutting_down
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision says what to write: the leader (-1: nobody), the ISR, and who is complete beside
    it."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    unclean: bool = False

    @property
    def members(self) -> Members:
        """Return all but the leader."""
        return Members(self.isr, self.elr, self.last_known_elr)


def elect(
    replicas: Sequence[int],
    state: PartitionState,
    candidates: Candidates,
    *,
    min_isr: int,
    unclean: bool,
) -> Decision | None:
    """Return what must change given who is there, or None when the state may stand."""
    members = sift(replicas, state, candidates.registered, candidates.untrusted)
    kept, present = _without_gone(members.isr, candidates)
    leader = state.leader if state.leader in present else NO_LEADER
    if leader == NO_LEADER or leader in candidates.suspected:
        leader = _successor(replicas, kept, members.elr, candidates, default=leader)
    if leader == NO_LEADER and unclean and not _any_registered(members, candidates):
        usurper = _usurper(replicas, members, candidates)
        if usurper != NO_LEADER:
            return Decision(usurper, (usurper,), unclean=True)
    isr = kept
    if leader not in (NO_LEADER, *kept):
        isr = (leader,)
    elif leader != NO_LEADER and leader not in candidates.suspected:
        isr = _without_suspects(kept, candidates, leader, min_isr)
    after = with_isr(replicas, members, isr, min_isr)
    restarted_leader = leader != NO_LEADER and leader in candidates.restarted
    same = after == Members(state.isr, state.elr, state.last_known_elr)
    if leader == state.leader and same and not restarted_leader:
        return None
    return _decision(leader, after)


def elect_first(replicas: Sequence[int], candidates: Candidates) -> Decision | None:
    """The first state of a new partition: all registered replicas are in sync, because nobody has
    anything; the first able one leads. None while no replica is able."""
    able = [broker_id for broker_id in replicas if candidates.able(broker_id)]
    if not able:
        return None
    leader = next((b for b in able if b not in candidates.draining), able[0])
    return Decision(leader, tuple(able))


def elect_preferred(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates
) -> Decision | None:
    """Return the decision that the first replica leads, if it is able, in sync and not draining,
    and somebody else leads."""
    preferred = replicas[0]
    if state.leader == preferred or preferred not in state.isr or not candidates.able(preferred):
        return None
    if preferred in candidates.draining:
        return None
    return Decision(preferred, state.isr, state.elr, state.last_known_elr)


def elect_for_shutdown(
    replicas: Sequence[int],
    state: PartitionState,
    candidates: Candidates,
    leaving: int,
    *,
    min_isr: int,
) -> Decision | None:
    """Return the decision that takes leadership off ``leaving``, and takes it out of the ISR; None
    when it is not in the ISR, or when nobody else can lead."""
    if leaving not in state.isr:
        return None
    before = Members(state.isr, state.elr, state.last_known_elr)
    isr = tuple(broker_id for broker_id in state.isr if broker_id != leaving)
    leader = state.leader
    if leader == leaving:
        leader = _successor(replicas, isr, state.elr, candidates, default=NO_LEADER)
        if leader == NO_LEADER:
            return None
        if leader not in isr:
            isr = (leader,)
    if not isr:
        return None
    return _decision(leader, with_isr(replicas, before, isr, min_isr))


def elect_for_drain(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates, named: int = NO_BROKER
) -> Decision | None:
    """Return the decision that takes leadership off a leader that is draining, and leaves all
    members as they are; None when nobody else in the ISR can lead, or only draining ones [M20].
    Who is ``named`` comes first."""
    if state.leader not in candidates.draining:
        return None
    others = [b for b in state.isr if b not in candidates.draining]
    if named in others and candidates.able(named):
        others = [named]
    leader = _least_loaded(replicas, others, candidates, default=NO_LEADER)
    if leader == NO_LEADER:
        return None
    return Decision(leader, state.isr, state.elr, state.last_known_elr)


def elect_unclean(
    replicas: Sequence[int], state: PartitionState, candidates: Candidates, *, min_isr: int
) -> Decision | None:
    """Return the decision that any able replica leads a partition that has no leader; complete ones
    come first."""
    if state.leader != NO_LEADER:
        return None
    members = sift(replicas, state, candidates.registered, candidates.untrusted)
    leader = _successor(replicas, members.isr, members.elr, candidates, default=NO_LEADER)
    if leader != NO_LEADER:
        kept, _ = _without_gone(members.isr, candidates)
        isr = kept if leader in kept else (leader,)
        return _decision(leader, with_isr(replicas, members, isr, min_isr))
    leader = _usurper(replicas, members, candidates)
    return None if leader == NO_LEADER else Decision(leader, (leader,), unclean=True)


def _decision(leader: int, members: Members) -> Decision:
    return Decision(leader, members.isr, members.elr, members.last_known_elr)


def _successor(
    replicas: Sequence[int],
    isr: Sequence[int],
    elr: Sequence[int],
    candidates: Candidates,
    *,
    default: int,
) -> int:
    """Return a complete replica that can lead: of the ISR, else of the ELR."""
    for allowed in (isr, elr):
        leader = _least_loaded(replicas, allowed, candidates, default=NO_LEADER)
        if leader != NO_LEADER:
            return leader
    return default


def _usurper(replicas: Sequence[int], members: Members, candidates: Candidates) -> int:
    """Return whoever can lead; those that were complete once are likely to lack least."""
    default = _least_loaded(replicas, replicas, candidates, default=NO_LEADER)
    return _least_loaded(replicas, members.last_known_elr, candidates, default=default)


def _without_gone(
    isr: tuple[int, ...], candidates: Candidates
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (ISR without those that are gone, those of it that may go on leading as they are)."""
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


def _any_registered(members: Members, candidates: Candidates) -> bool:
    return any(broker_id in candidates.registered for broker_id in (*members.isr, *members.elr))


def _least_loaded(
    replicas: Sequence[int], allowed: Sequence[int], candidates: Candidates, *, default: int
) -> int:
    able = [b for b in replicas if b in allowed and candidates.able(b)]
    if not able:
        return default
    return min(able, key=lambda b: (b in candidates.draining, candidates.loads.get(b, 0)))
