"""The rules of replication that can be switched off, so that tests can prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the broker; a test that turns it must see records lost, exposed or divergent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    truncate_on_divergence: bool = True
    """The leader tells a follower whose log took another turn where to cut (KIP-101, KIP-279, K6).
    Off: a follower goes on from its own end, whatever is there."""

    truncate_to_high_watermark: bool = False
    """On: a new follower first cuts its log to its own high watermark, as before KIP-101."""

    fence_leader_epoch: bool = True
    """A fetch is served only when both sides mean the same leader epoch (KIP-320, K5)."""

    apply_newer_epochs_only: bool = True
    """An order of the controller changes a role only with a higher leader epoch (Z4)."""

    count_maximal_isr: bool = True
    """The high watermark waits for every replica that may be in the ISR, committed or proposed."""

    hold_below_min_isr: bool = True
    """The high watermark stands still while the ISR is smaller than min.insync.replicas (K18)."""

    count_synced_only: bool = True
    """Leader and followers count an offset only when it is synced to their disk."""

    join_at_epoch_start: bool = True
    """A follower joins the ISR only at or past the start of the leader's epoch (KAFKA-7128)."""

    ignore_diverging_fetches: bool = True
    """A fetch that is answered *diverging* says nothing about what the follower holds (B6)."""
