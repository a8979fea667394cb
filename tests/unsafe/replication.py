"""Replication lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from oncelog_broker.replication.isr import IsrState
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.progress import UNKNOWN_OFFSET, Contact, FollowerProgress
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.fetch import FetchPartitionResponse
from unsafe import log


class AnybodyServed(Safeguards):
    """Whoever listens at an address is taken for who was meant."""

    def meant(self, identity: Identity) -> Identity:
        """Return nobody."""
        return UNKNOWN

    def checks_askers(self, internal: bool) -> bool:
        """Believe every name."""
        return False

    def asker(self, own_broker_id: int) -> int | None:
        """Take everybody for a broker."""
        return own_broker_id


class ControllersBelieved(Safeguards):
    """Whoever says that it is controller is believed."""

    def disbelieves(self, elected: bool) -> bool:
        """Believe it."""
        return False


class LivesMixed(Safeguards):
    """Orders and fetches of earlier lives count."""

    def is_of_earlier_life(self, older: bool) -> bool:
        """Take it for one of this life."""
        return False


class EpochsMixed(Safeguards):
    """A leader serves a fetch of any leader epoch."""

    def fences(self, differs: bool) -> bool:
        """Serve it."""
        return False


class OrdersInAnyOrder(Safeguards):
    """An order of any leader epoch changes a role."""

    def without_change(self, code: int | None) -> int | None:
        """Change it."""
        return None


class NoDivergence(Safeguards):
    """A follower goes on from its own end, whatever is there."""

    def truncates(self, diverges: bool) -> bool:
        """Tell it nothing."""
        return False


class TruncatesToHighWatermark(Safeguards):
    """A new follower first truncates its log to its own high watermark, as before KIP-101."""

    def follows(self, partition: Any) -> None:
        """Truncate it."""
        partition.log.truncate_to(partition.high_watermark)
        partition.high_watermark = min(partition.high_watermark, partition.log.log_end_offset)


class OffsetsBeforeTruncation(Safeguards):
    """A diverging answer brings the leader's offsets, which are applied before the truncation."""

    def diverging_answer(self, answer: Any, partition: Any) -> None:
        """Add them."""
        answer.high_watermark = partition.high_watermark
        answer.log_start_offset = partition.log.log_start_offset

    def diverges(self, partition: Any, answer: Any) -> None:
        """Apply them."""
        assert isinstance(answer, FetchPartitionResponse)
        partition.leader_offsets(answer.high_watermark, answer.log_start_offset)


class DivergingFetchesCount(Safeguards):
    """A leader counts a fetch that it answers with *diverging*."""

    def counts_nothing(self, diverges: bool) -> bool:
        """Count it."""
        return False


class ProposedAreNotCounted(Safeguards):
    """The high watermark waits for the committed ISR alone."""

    def counted(self, state: IsrState) -> tuple[int, ...]:
        """Leave out who is proposed."""
        return state.committed


class NoMinIsr(Safeguards):
    """The high watermark does not wait for an ISR that is large enough."""

    def holds(self, below_min_isr: bool) -> bool:
        """Let it move."""
        return False


class UnforgettingProgress(FollowerProgress):
    """Fetches of older epochs count here too, as if followers were never truncated."""

    __slots__ = ("_floor",)

    def __init__(self, fresh: FollowerProgress, floor: int) -> None:
        super().__init__(
            fresh.replica_id, in_sync=False, leader_end=fresh.mark_offset, now=fresh.mark_s
        )
        self.caught_up_s, self._floor = fresh.caught_up_s, floor
        if floor != UNKNOWN_OFFSET:
            self.durable_offset = floor

    def fetched(
        self,
        durable_offset: int,
        *,
        broker_epoch: int,
        log_start_offset: int,
        leader_end: int,
        contact: Contact,
        now: float,
    ) -> None:
        """Count the fetch as if the follower had never been truncated since."""
        super().fetched(
            max(durable_offset, self._floor),
            broker_epoch=broker_epoch,
            log_start_offset=log_start_offset,
            leader_end=leader_end,
            contact=contact,
            now=now,
        )


class OldFetchesCount(Safeguards):
    """A leader counts what it knew of its followers when it led last."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        super().__init__()
        self._known: WeakKeyDictionary[Partition, dict[int, FollowerProgress]]
        self._known = WeakKeyDictionary()

    def leads(self, partition: Any) -> None:
        """Give the new leader what the last one knew."""
        leader, former = partition.leader, self._known.get(partition, {})
        for replica_id, fresh in leader.followers.items():
            known = former.get(replica_id)
            floor = UNKNOWN_OFFSET if known is None else known.durable_offset
            leader.followers[replica_id] = UnforgettingProgress(fresh, floor)
        leader._recount()
        self._known[partition] = leader.followers


class LeaderCountsUnsynced(Safeguards):
    """The leader counts what it has appended."""

    def leader_counts(self, synced_offset: int, log_end_offset: int) -> int:
        """Count all."""
        return log_end_offset


class FollowerNamesUnsynced(Safeguards):
    """A follower names to its leader what it has appended."""

    def follower_names(self, synced_offset: int, log_end_offset: int) -> int:
        """Name all."""
        return log_end_offset


class JoinsBelowEpochStart(Safeguards):
    """A follower joins the ISR wherever it is past the high watermark."""

    def join_offset(self, epoch_start_offset: int) -> int:
        """Ask nothing of it."""
        return 0


class JoinsWithDeleted(Safeguards):
    """A follower joins though its disk still has what was deleted by request."""

    def lacks_deletion(self, behind: bool) -> bool:
        """Let it join."""
        return False


class UndecidedIsRead(Safeguards):
    """Readers of committed records stop at the high watermark."""

    def last_stable(self, high_watermark: int, first_undecided: int) -> int:
        """Show them what is undecided."""
        return high_watermark


class EndsTakenBack(Safeguards):
    """A new leader tells where a partition ends at once."""

    def end_is_known(self, high_watermark: int, epoch_start_offset: int) -> bool:
        """Tell it."""
        return True


class StalledLeadersStay(Safeguards):
    """A leader leads until its directory is given up."""

    def gives_way(self, stalled: bool) -> bool:
        """Keep it."""
        return False


class AllReplicasCount(Safeguards):
    """A replica that a move adds counts for ``min.insync.replicas`` at once."""

    def originals(self, origin: Sequence[int], replicas: Sequence[int]) -> tuple[int, ...]:
        """Return all of them."""
        return tuple(replicas)


class NobodySpared(Safeguards):
    """A member of the ISR that is behind is held back like anybody."""

    def is_spared(self, counted: bool) -> bool:
        """Hold it back."""
        return False


UNSAFE: dict[str, Callable[[], Safeguards]] = {
    "truncate_on_divergence": NoDivergence,
    "truncate_to_high_watermark": TruncatesToHighWatermark,
    "high_watermark_after_truncation": OffsetsBeforeTruncation,
    "fence_leader_epoch": EpochsMixed,
    "check_broker_epoch": LivesMixed,
    "check_identity": AnybodyServed,
    "believe_elected_controllers": ControllersBelieved,
    "apply_newer_epochs_only": OrdersInAnyOrder,
    "count_maximal_isr": ProposedAreNotCounted,
    "hold_below_min_isr": NoMinIsr,
    "count_current_epoch_fetches_only": OldFetchesCount,
    "leader_counts_synced_only": LeaderCountsUnsynced,
    "follower_fetches_synced_only": FollowerNamesUnsynced,
    "join_at_epoch_start": JoinsBelowEpochStart,
    "join_at_log_start": JoinsWithDeleted,
    "ignore_diverging_fetches": DivergingFetchesCount,
    "lso_respects_transactions": UndecidedIsRead,
    "list_from_epoch_start": EndsTakenBack,
    "give_way_when_stalled": StalledLeadersStay,
    "throttle_spares_in_sync": NobodySpared,
    "origin_counts_for_min_isr": AllReplicasCount,
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> Safeguards:
    """Return a broker's safeguards without one of them; "log." stands before those of its log."""
    name = switch.removeprefix("log.")
    return UNSAFE[name]() if name == switch else Safeguards(log.without(name))
