"""Rules of replication can be switched off here, so that tests prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the broker; a test that turns it must see records lost, exposed or divergent.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_broker.log.safeguards import SAFE, LogSafeguards


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    truncate_on_divergence: bool = True
    """The leader tells a follower whose log took another turn where to truncate (KIP-101, KIP-279)
    [K6]. Off: a follower goes on from its own end, whatever is there."""

    truncate_to_high_watermark: bool = False
    """On: a new follower first truncates its log to its own high watermark, as before KIP-101."""

    high_watermark_after_truncation: bool = True
    """A diverging answer makes a follower truncate its log, and says nothing else (KAFKA-14704,
    [B5]). Off: it brings the leader's offsets as any answer does, and they are applied before the
    truncation."""

    fence_leader_epoch: bool = True
    """A fetch is served only when both sides mean the same leader epoch (KIP-320, [K5])."""

    check_broker_epoch: bool = True
    """Neither orders to an earlier life of this broker nor fetches of an earlier life of a follower
    are heeded (KIP-380, [K21], [K22])."""

    check_identity: bool = True
    """Nobody is served who meant another broker or another cluster, and brokers obey and believe
    only who named them and itself. Off: whoever listens at an address is taken for who was meant.
    """

    believe_elected_controllers: bool = True
    """A controller is obeyed only when the metadata store names it. Off: one order with a high
    controller epoch, forged or garbled, makes the broker deaf to every controller after it."""

    apply_newer_epochs_only: bool = True
    """An order of the controller changes a role only with a higher leader epoch [Z4]."""

    count_maximal_isr: bool = True
    """The high watermark waits for every replica that may be in the ISR, committed or proposed."""

    hold_below_min_isr: bool = True
    """The high watermark stands still while the ISR is smaller than min.insync.replicas [K18]."""

    count_current_epoch_fetches_only: bool = True
    """The high watermark counts only what followers have fetched in the leader's own epoch [K5].
    Off: a leader counts what it knew of them when it led last, as if they were not truncated
    since."""

    leader_counts_synced_only: bool = True
    """The leader counts an offset of its own, and acknowledges it, only when its disk holds it."""

    follower_fetches_synced_only: bool = True
    """A follower names an offset to its leader only when its disk holds all below it."""

    join_at_epoch_start: bool = True
    """A follower joins the ISR only at or past the start of the leader's epoch [B1]."""

    join_at_log_start: bool = True
    """A follower joins the ISR only when its disk has forgotten what was deleted by request. Off:
    should it lead next, deleted records are back."""

    ignore_diverging_fetches: bool = True
    """A fetch that is answered *diverging* says nothing about what the follower holds [B6]."""

    lso_respects_transactions: bool = True
    """Readers of committed records stop at the first undecided transaction [I15]. Off: at the high
    watermark."""

    list_from_epoch_start: bool = True
    """A new leader tells where a partition ends only when its high watermark has come to where its
    epoch began (KIP-207). Off: an end that was told before can be taken back."""

    give_way_when_stalled: bool = True
    """A leader whose disk does not answer gives way to a follower that holds everything [I27]. Off:
    it leads until its directory is given up."""

    log: LogSafeguards = SAFE
    """These are the safeguards of the log."""
