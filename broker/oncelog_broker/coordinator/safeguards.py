"""Rules of the coordinators can be switched off here, so that tests prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the coordinators; a test that turns it must see a promise broken. ``SWITCHES``
lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class CoordinatorSafeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    wait_for_load: bool = True
    """A coordinator serves nothing before it has read its whole partition. Off: it answers from
    what it has read so far."""

    fence_generation: bool = True
    """A commit of a member counts only in the generation and under the member id of the group as it
    is now. Off: whoever was a member once goes on committing."""

    replies_wait_for_commit: bool = True
    """A write is acknowledged, and a read is answered, once the high watermark has passed it.
    Off: as soon as the leader has appended it."""

    outsiders_wait_for_barrier: bool = True
    """A caller without a generation, which a deposed coordinator would refuse, is answered only
    after a record written since then was committed. Off: a coordinator that was deposed and does
    not know it tells such callers what was true once."""

    require_stable: bool = True
    """A caller that asks for stable offsets is not told one that an open transaction may replace
    [K9]. Off: it is told the last committed one."""

    bump_epoch_per_txn: bool = True
    """Every end of a transaction raises the epoch of its producer, and its markers carry the raised
    one (KIP-890). Off: epoch and markers stay the same, as before that; it needs partitions that
    accept such markers (``markers_need_newer_epoch`` of the log off as well)."""

    prepare_before_markers: bool = True
    """The outcome of a transaction is committed before the first marker goes out. Off: it was only
    appended."""

    confirm_deletions: bool = True
    """A marker is given up only when the metadata store says that its partition is no more. Off:
    when this broker has not heard of the partition."""


SWITCHES = tuple(each.name for each in fields(CoordinatorSafeguards))
"""It lists every switch by its field. Which rule it turns off is in docs/rules.md."""


def without(switch: str) -> CoordinatorSafeguards:
    """Return the safeguards with one of ``SWITCHES`` turned to its unsafe side. For tests only."""
    if switch not in SWITCHES:
        raise ValueError(f"{switch!r} is none of {', '.join(SWITCHES)}")
    safe = CoordinatorSafeguards()
    return replace(safe, **{switch: not getattr(safe, switch)})
