"""The rules of replication that can be switched off, so that tests can prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the broker; a test that turns it must see records lost, exposed or divergent.
``SWITCHES`` lists all of the broker, with those of its log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oncelog_broker.log.safeguards import LogSafeguards


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    truncate_on_divergence: bool = True
    """The leader tells a follower whose log took another turn where to cut (KIP-101, KIP-279, K6).
    Off: a follower goes on from its own end, whatever is there."""

    truncate_to_high_watermark: bool = False
    """On: a new follower first cuts its log to its own high watermark, as before KIP-101."""

    high_watermark_after_truncation: bool = True
    """A diverging answer makes a follower cut its log, and says nothing else (KAFKA-14704, B5).
    Off: it brings the leader's offsets as any answer does, and they are applied before the cut."""

    fence_leader_epoch: bool = True
    """A fetch is served only when both sides mean the same leader epoch (KIP-320, K5)."""

    check_broker_epoch: bool = True
    """Neither orders to an earlier life of this broker nor fetches of an earlier life of a follower
    are heeded (KIP-380, K21, K22)."""

    apply_newer_epochs_only: bool = True
    """An order of the controller changes a role only with a higher leader epoch (Z4)."""

    count_maximal_isr: bool = True
    """The high watermark waits for every replica that may be in the ISR, committed or proposed."""

    hold_below_min_isr: bool = True
    """The high watermark stands still while the ISR is smaller than min.insync.replicas (K18)."""

    count_current_epoch_fetches_only: bool = True
    """The high watermark counts only what followers have fetched in the leader's own epoch (K5).
    Off: a leader counts what it knew of them when it led last, as if they were not cut since."""

    leader_counts_synced_only: bool = True
    """The leader counts an offset of its own, and acknowledges it, only when its disk holds it."""

    follower_fetches_synced_only: bool = True
    """A follower names an offset to its leader only when its disk holds all below it."""

    join_at_epoch_start: bool = True
    """A follower joins the ISR only at or past the start of the leader's epoch (KAFKA-7128)."""

    join_at_log_start: bool = True
    """A follower joins the ISR only when its disk has forgotten what was deleted by request. Off:
    should it lead next, deleted records are back."""

    ignore_diverging_fetches: bool = True
    """A fetch that is answered *diverging* says nothing about what the follower holds (B6)."""

    lso_respects_transactions: bool = True
    """Readers of committed records stop at the first undecided transaction (I15). Off: at the high
    watermark."""

    list_from_epoch_start: bool = True
    """A new leader tells where a partition ends only when its high watermark has come to where its
    epoch began (KIP-207). Off: an end that was told before can be taken back."""

    log: LogSafeguards = field(default_factory=LogSafeguards)
    """Those of the log."""


SWITCHES: dict[str, int] = {
    "truncate_to_high_watermark": 1,
    "fence_leader_epoch": 2,
    "join_at_epoch_start": 3,
    "count_current_epoch_fetches_only": 3,
    "count_maximal_isr": 4,
    "hold_below_min_isr": 5,
    "check_broker_epoch": 7,
    "apply_newer_epochs_only": 9,
    "high_watermark_after_truncation": 10,
    "leader_counts_synced_only": 11,
    "follower_fetches_synced_only": 12,
    "log.sync_directories": 13,
    "log.keep_damaged_logs": 14,
    "log.remember_producers": 15,
    "log.remember_five_batches": 15,
    "log.compare_content": 16,
    "log.followers_know_producers": 17,
    "lso_respects_transactions": 18,
    "log.abort_index_before_lso": 19,
    "log.verify_transactions": 20,
    "log.markers_need_newer_epoch": 22,
    "log.rewrite_unsynced": 0,
    "log.swap_in_order": 0,
    "truncate_on_divergence": 0,
    "join_at_log_start": 0,
    "ignore_diverging_fetches": 0,
    "list_from_epoch_start": 0,
}
"""Every switch by its field, with its number in the list of ablations; 0: not in that list. The
controller has the other half of 7, and 6 and 8."""


def without(switch: str) -> Safeguards:
    """The safeguards with one of ``SWITCHES`` turned to its unsafe side. For tests only."""
    if switch not in SWITCHES:
        raise ValueError(f"{switch!r} is none of {', '.join(SWITCHES)}")
    safe = Safeguards()
    name = switch.removeprefix("log.")
    if name != switch:
        return replace(safe, log=replace(safe.log, **_turned(safe.log, name)))
    return replace(safe, **_turned(safe, name))


def _turned(safeguards: Safeguards | LogSafeguards, name: str) -> dict[str, Any]:
    return {name: not getattr(safeguards, name)}
