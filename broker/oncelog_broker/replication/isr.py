"""The leader keeps a partition's in-sync replicas here, and the change it has asked for. Pure.

Only the controller changes the ISR [K22]. The leader *proposes*; until a definite answer is there,
the new set may or may not be the true one, so everything that must hold for the true ISR is made
to hold for the **maximal** one: committed, proposed and doubtful members together (KIP-497, [Z10]).

==================  =======================  =================================================
state               answer                   next state
==================  =======================  =================================================
committed           propose(P)               pending P
pending P           success(isr, version)    committed isr
pending P           superseded(isr, version) committed isr: the version moved on, so no copy of
                                             our request can succeed any more [Z8]
pending P           unknown                  pending P, in doubt (asked again, same members; [Z9])
pending P           refused                  committed, as before
pending P in doubt  refused                  pending: the committed set itself is proposed, with P
                                             still counted. An earlier copy may have succeeded,
                                             and only success or superseded can tell.
==================  =======================  =================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oncelog_protocol.messages.replication import IsrMember

NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Proposal:
    """The controller is asked for this. Broker epochs are those seen when the members were found
    eligible: one snapshot for check and request (KAFKA-15221, KIP-903)."""

    members: tuple[tuple[int, int], ...]
    """The members are (broker id, broker epoch), by id."""
    in_doubt: bool = False
    """It tells whether a request for the proposal may have succeeded without our knowing."""
    attempt: int = 0

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Return the proposed ISR."""
        return tuple(broker_id for broker_id, _ in self.members)

    def again(self) -> Proposal:
        """Return the same proposal, one attempt later."""
        return replace(self, attempt=self.attempt + 1)


@dataclass(frozen=True, slots=True)
class IsrState:
    """It holds the ISR with its version, and at most one proposal."""

    committed: tuple[int, ...]
    partition_epoch: int
    proposal: Proposal | None = None
    doubtful: tuple[int, ...] = ()
    """These are members of refused proposals whose first copies may have succeeded all the same."""
    elr: tuple[int, ...] = ()
    """These complete replicas outside the ISR may yet be elected (KIP-966). The controller alone
    changes them; while there are any, the high watermark stands."""

    @property
    def maximal(self) -> tuple[int, ...]:
        """Return every replica that may be in the true ISR, by id."""
        if self.proposal is None:
            return self.committed
        return tuple(sorted({*self.committed, *self.proposal.broker_ids, *self.doubtful}))

    def propose(self, members: Iterable[tuple[int, int]]) -> IsrState:
        """Ask for a new ISR; there must be no proposal."""
        if self.proposal is not None:
            raise ValueError("an ISR change is pending")
        return replace(self, proposal=Proposal(tuple(sorted(members))))

    def success(
        self, isr: Sequence[int], partition_epoch: int, elr: Sequence[int] = ()
    ) -> IsrState:
        """Return the state after the controller answered with the ISR that is now true."""
        return IsrState(tuple(sorted(isr)), partition_epoch, elr=tuple(sorted(elr)))

    superseded = success

    def unknown(self) -> IsrState:
        """Return the state after no answer, or after one that tells nothing: the proposal may have
        succeeded."""
        if self.proposal is None:
            return self
        return replace(self, proposal=replace(self.proposal, in_doubt=True).again())

    def retry(self) -> IsrState:
        """Return the state in which the proposal is asked for again: this attempt had no effect,
        but a later one may."""
        if self.proposal is None:
            return self
        return replace(self, proposal=self.proposal.again())

    def refused(self) -> IsrState:
        """Return the state after a refusal: the controller will not do it."""
        proposal = self.proposal
        if proposal is None:
            return self
        if not proposal.in_doubt:
            return IsrState(self.committed, self.partition_epoch, elr=self.elr)
        return IsrState(
            self.committed,
            self.partition_epoch,
            Proposal(
                tuple((broker_id, NO_BROKER_EPOCH) for broker_id in self.committed), in_doubt=True
            ),
            tuple(sorted({*self.doubtful, *proposal.broker_ids})),
            self.elr,
        )


def isr_members(proposal: Proposal) -> list[IsrMember]:
    """Return the proposal as AlterPartition carries it."""
    return [IsrMember(broker_id, broker_epoch) for broker_id, broker_epoch in proposal.members]
