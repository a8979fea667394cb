"""Leaders are asked what open transactions hold back from readers, and which groups wait is found.

A reader at ``read_committed`` comes up to the last stable offset of a partition: the first record
of the oldest transaction that is open there. A group whose committed offset is there or behind it,
and below the high watermark, cannot go on although there are records. No broker knows how a group
reads: one that reads at ``read_uncommitted`` may only have stopped there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Failure, Row, waiting
from oncelog_cli.documents.groups import described_groups, listed_groups

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition

GROUPS_MAX = 1_000
"""So many groups are asked how far they have come."""
ASKED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class HeldBackRecords:
    """A partition has an end for each of two kinds of readers; None: its leader did not say."""

    last_stable_offset: int | None = None
    high_watermark: int | None = None

    @property
    def records(self) -> int | None:
        """Return how many records readers at ``read_committed`` wait for."""
        if self.last_stable_offset is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - self.last_stable_offset, 0)

    def stops(self, committed: int | None) -> bool:
        """Return whether a reader with this committed offset waits for what is held back."""
        if committed is None or self.last_stable_offset is None or self.high_watermark is None:
            return False
        return self.last_stable_offset <= committed < self.high_watermark


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """These groups have said how far they have come."""

    rows: Sequence[Row]
    """They are those of ``groups describe``."""
    not_asked: int = 0
    """So many more exist, and have not said it."""
    failures: Sequence[Failure] = ()


async def held_back(
    admin: Admin, partitions: Collection[TopicPartition], *, timeout_ms: int | None = None
) -> dict[TopicPartition, HeldBackRecords]:
    """Ask leaders where partitions end, for readers of what is committed and for all others.

    :param timeout_ms: None: as long as the admin client waits.
    """
    import asyncio

    wanted, options = sorted(set(partitions)), waiting(timeout_ms)
    if not wanted:
        return {}
    stable, high = await asyncio.gather(
        admin.list_offsets(wanted, "latest", isolation_level="read_committed", **options),
        admin.list_offsets(wanted, "latest", **options),
    )
    return {
        low.partition: HeldBackRecords(low.offset, top.offset)
        for low, top in zip(stable, high, strict=True)
    }


async def known_groups(admin: Admin, groups_max: int = GROUPS_MAX) -> KnownGroups:
    """Ask all groups how far they have come, at most ``groups_max`` of them.

    Brokers that did not say which groups they have, and groups that did not answer, are failures.
    """
    listed = await listed_groups(admin)
    names = [row["group"] for row in listed.document["groups"]]
    asked = names[:groups_max]
    rows: list[Row] = []
    failures = list(listed.failures)
    for first in range(0, len(asked), ASKED_AT_ONCE):
        answer = await described_groups(admin, asked[first : first + ASKED_AT_ONCE])
        rows += answer.document["groups"]
        failures += answer.failures
    return KnownGroups(rows, len(names) - len(rows), failures)


def waiting_groups(
    groups: Iterable[Row], held: Mapping[TopicPartition, HeldBackRecords]
) -> dict[TopicPartition, list[str]]:
    """Return the groups that wait for what partitions hold back, by name; others are left out.

    :param groups: rows of ``groups describe``.
    """
    from oncelog import TopicPartition

    found: dict[TopicPartition, list[str]] = {}
    for group in groups:
        for row in group["offsets"]:
            tp = TopicPartition(row["topic"], row["partition"])
            if tp in held and held[tp].stops(row["offset"]):
                found.setdefault(tp, []).append(group["group"])
    return {tp: sorted(names) for tp, names in found.items()}
