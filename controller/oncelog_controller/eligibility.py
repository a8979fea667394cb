"""A replica's completeness is judged here: ISR, ELR, and what is left of them when data is lost.
Pure.

KIP-966, with broker epochs in the place of its clean-shutdown check. Rules
-----
* Who leaves an ISR that becomes smaller than ``min_isr`` goes to the ELR: the high watermark stands
  from then on, so whoever was complete stays complete. An ISR of ``min_isr`` ends the ELR.
* A member whose broker has registered anew and lost data since it was admitted leaves ISR and ELR
  before anything else is decided, and is *last known* only. A broker that is away stays what it
  was: whether it lost anything is asked when it is back.
* Should the lost data be found again (the right disk was put back, and nobody led meanwhile without
  it), a last known member is complete again.
* With every write, members that are registered and complete are noted under their present broker
  epoch, so that what is asked at the next registration is no more than needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from oncelog_controller.state import BrokerRegistration, ClusterPartition, PartitionState


@dataclass(frozen=True, slots=True)
class Members:
    """It has three lists without a common member. ELR and last known ELR in the order of the
    replicas."""

    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


def untrusted(
    partition: ClusterPartition, brokers: Mapping[int, BrokerRegistration]
) -> frozenset[int]:
    """Return the registered members that may lack what is committed."""
    state = partition.state
    if state is None:
        return frozenset()
    return frozenset(
        member
        for member in (*state.isr, *state.elr, *state.last_known_elr)
        if member in brokers and not brokers[member].keeps(state.admitted_at(member), partition)
    )


def sift(
    replicas: Sequence[int],
    state: PartitionState,
    present: Collection[int],
    distrusted: Collection[int],
) -> Members:
    """Return the members as they are to be seen now. ``present`` are those that can be asked."""
    found = [b for b in state.last_known_elr if b in present and b not in distrusted]
    lost = [b for b in (*state.isr, *state.elr) if b in distrusted]
    elr = {*state.elr, *found}.difference(distrusted)
    last = {*state.last_known_elr, *lost}.difference(found)
    return Members(
        tuple(b for b in state.isr if b not in distrusted),
        tuple(b for b in replicas if b in elr),
        tuple(b for b in replicas if b in last),
    )


def with_isr(
    replicas: Sequence[int], before: Members, isr: tuple[int, ...], min_isr: int
) -> Members:
    """Return the members when the ISR becomes ``isr``; ``min_isr`` is at most the number of
    replicas."""
    if len(isr) >= min_isr:
        return Members(isr)
    complete = {*before.isr, *before.elr}.difference(isr)
    return Members(
        isr,
        tuple(b for b in replicas if b in complete),
        tuple(b for b in before.last_known_elr if b not in isr),
    )


def admissions(
    partition: ClusterPartition,
    members: Members,
    joining: Collection[int],
    brokers: Mapping[int, BrokerRegistration],
) -> tuple[tuple[int, int], ...]:
    """Return under which broker epoch each member is known to be complete, once the state is
    written. Those who are ``joining`` are so in their present life, whatever they lost before."""
    before, noted = partition.state, dict[int, int]()
    for member in (*members.isr, *members.elr, *members.last_known_elr):
        broker = brokers.get(member)
        known = None if before is None else before.admitted_at(member)
        fallen = member in members.last_known_elr
        if broker is not None and (
            member in joining or (not fallen and broker.keeps(known, partition))
        ):
            noted[member] = broker.broker_epoch
        elif known is not None:
            noted[member] = known
    return tuple(sorted(noted.items()))
