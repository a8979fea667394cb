"""The rules of replication without which records are lost, exposed or diverge are methods here.

Each is the safe decision, and the only one that the product has: most return what they are told, as
it stands. Tests hand in others, to see that the loss is noticed: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_broker.log.safeguards import SAFE as SAFE_LOG
from oncelog_broker.log.safeguards import LogSafeguards
from oncelog_broker.replication.isr import IsrState
from oncelog_protocol.identity import Identity
from oncelog_protocol.types import NO_BROKER


class Safeguards:
    """It decides for the replicas of a broker, and names who decides for their logs."""

    __slots__ = ("log",)

    def __init__(self, log: LogSafeguards = SAFE_LOG) -> None:
        self.log = log

    # ---- who is heard

    def meant(self, identity: Identity) -> Identity:
        """Return who is meant by a call, and who answers here. Nobody is served who meant another
        broker or another cluster."""
        return identity

    def checks_askers(self, internal: bool) -> bool:
        """Return whether brokers must say who they are, and speak for nobody else."""
        return internal

    def asker(self, own_broker_id: int) -> int | None:
        """Return the broker that asks on a listener between brokers, by the id that it gave;
        None is a client, which gave none."""
        return None if own_broker_id == NO_BROKER else own_broker_id

    def disbelieves(self, elected: bool) -> bool:
        """Return whether a controller is refused, by whether the metadata store names it: one order
        with a high controller epoch, forged or garbled, would make the broker deaf to all others.
        """
        return not elected

    def is_of_earlier_life(self, older: bool) -> bool:
        """Return whether an order to this broker, or a fetch of a follower, is refused since its
        broker epoch is older than one that is known (KIP-380, [K21], [K22])."""
        return older

    def fences(self, differs: bool) -> bool:
        """Return whether a fetch is refused as both sides mean different leader epochs (KIP-320,
        [K5])."""
        return differs

    def without_change(self, code: int | None) -> int | None:
        """Return the answer to an order that changes no role. Only a higher leader epoch changes
        one [Z4]."""
        return code

    # ---- where logs part

    def truncates(self, diverges: bool) -> bool:
        """Return whether a follower whose log took another turn is told where to truncate
        (KIP-101, KIP-279) [K6]."""
        return diverges

    def follows(self, partition: object) -> None:
        """Truncate nothing when a follower begins: its own high watermark may lag behind, so its
        leader says where (KIP-101)."""

    def diverging_answer(self, answer: object, partition: object) -> None:
        """Add nothing to a diverging answer: the leader's offsets count after the truncation
        (KAFKA-14704, [B5])."""

    def diverges(self, partition: object, answer: object) -> None:
        """Apply nothing of a diverging answer before the truncation [B5]."""

    def counts_nothing(self, diverges: bool) -> bool:
        """Return whether a fetch that is answered *diverging* says nothing about what the follower
        holds [B6]."""
        return diverges

    # ---- what is committed

    def counted(self, state: IsrState) -> tuple[int, ...]:
        """Return the replicas that the high watermark waits for: all that may be in the ISR,
        committed or proposed."""
        return state.maximal

    def holds(self, below_min_isr: bool) -> bool:
        """Return whether the high watermark stands still as the ISR is smaller than
        min.insync.replicas [K18]."""
        return below_min_isr

    def originals(self, origin: Sequence[int], replicas: Sequence[int]) -> tuple[int, ...]:
        """Return the replicas of which there must be enough in sync: while the partition moves,
        those that it has without the move [M4]. It would refuse writes otherwise."""
        return tuple(origin or replicas)

    def leads(self, partition: object) -> None:
        """Know nothing of the followers when a leader begins: what they fetched in an older epoch
        may be truncated since [K5]."""

    def leader_counts(self, synced_offset: int, log_end_offset: int) -> int:
        """Return up to where the leader counts its own log: as far as its disk holds it."""
        return synced_offset

    def follower_names(self, synced_offset: int, log_end_offset: int) -> int:
        """Return up to where a follower may name offsets to its leader: as far as its disk holds
        its log."""
        return synced_offset

    def join_offset(self, epoch_start_offset: int) -> int:
        """Return where a follower must have come to join the ISR: the start of the leader's epoch
        [B1]."""
        return epoch_start_offset

    def lacks_deletion(self, behind: bool) -> bool:
        """Return whether a follower may not join as its disk has not forgotten what was deleted by
        request: should it lead next, deleted records would be back."""
        return behind

    def last_stable(self, high_watermark: int, first_undecided: int) -> int:
        """Return where readers of committed records stop: at the first undecided transaction
        [I15]."""
        return min(high_watermark, first_undecided)

    def end_is_known(self, high_watermark: int, epoch_start_offset: int) -> bool:
        """Return whether a new leader tells where a partition ends: once its high watermark has
        come to where its epoch began (KIP-207), since an end must not be taken back."""
        return high_watermark >= epoch_start_offset

    def gives_way(self, stalled: bool) -> bool:
        """Return whether a leader whose disk does not answer gives way to a follower that holds
        everything [I27]."""
        return stalled

    def is_spared(self, counted: bool) -> bool:
        """Return whether a follower is never held back while it catches up: one that the ISR or the
        ELR counts on is not, or ISRs would shrink beside every move [N104]."""
        return counted


SAFE = Safeguards()
"""A broker runs with these."""
