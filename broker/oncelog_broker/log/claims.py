"""A broker claims here what it has kept of its data, as a whole and by directory, after a stop.
Pure.

A broker that comes back with one of several directories replaced (KIP-858) has lost what was in
that one, and nobody knows any more what that was. The data in the others is known: they name it,
partition by partition, with what they have kept. Rules:

- a partition is vouched for by the directory that it lies in, and only since it was made there: it
  may have been in the directory that is gone before, and be empty now;
- only directories that lost nothing vouch for anything, and only for more than the broker does;
- partitions that have no room in the registration are left out, and fall to what is said of the
  whole broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog_broker.log.hosted_log import HostedLog

CLAIM_BYTES_MAX = 256 * 1024
"""A registration may list so much; ZooKeeper takes 1 MiB."""
_ENTRY_BYTES = 8
"""A name or a number takes so many bytes around it, with the number."""


class Loss(Enum):
    """It tells what may be missing, the lesser first."""

    NONE = "none"
    TAIL = "tail"
    """The unsynced tail may be missing."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class KeptData:
    """All that counted under the broker's registrations ``since`` to ``until`` is here."""

    since: int | None
    """None means that there is nothing from before the registration that is about to be made."""
    until: int | None
    """None means that there is no known bound."""
    loss: Loss


@dataclass(frozen=True, slots=True)
class VouchedPartitions:
    """More was kept of these partitions than of the broker as a whole."""

    since: int
    until: int | None
    partitions: Mapping[str, frozenset[int]]
    """The numbers of partitions stand here by topic id."""


def vouched(
    whole: KeptData,
    directories: Iterable[tuple[KeptData, Iterable[HostedLog]]],
    *,
    since_made: Callable[[int, int], int] = max,
) -> tuple[list[VouchedPartitions], int]:
    """Return what is to be listed beside ``whole``, and how many partitions had no room.

    :param directories: what each has kept, and its logs.
    :param since_made: see ``LogSafeguards.vouched_since``.
    """
    found: dict[tuple[int, int | None], dict[str, list[int]]] = {}
    room, left_out = CLAIM_BYTES_MAX, 0
    for kept, logs in directories:
        for log in sorted(logs, key=lambda each: each.topic_partition):
            since = kept.since
            if since is not None:
                since = since_made(since, log.made_epoch)
            if since is None or not log.topic_id or not _is_more(since, kept, whole):
                continue
            topics = found.setdefault((since, kept.until), {})
            size = _ENTRY_BYTES
            if log.topic_id not in topics:
                size += len(log.topic_id) + _ENTRY_BYTES
            if size > room:
                left_out += 1
                continue
            room -= size
            topics.setdefault(log.topic_id, []).append(log.topic_partition.partition)
    listed = [
        VouchedPartitions(since, until, {name: frozenset(topics[name]) for name in sorted(topics)})
        for (since, until), topics in found.items()
        if topics
    ]
    return sorted(listed, key=lambda each: each.since), left_out


def _is_more(since: int, kept: KeptData, whole: KeptData) -> bool:
    if kept.loss is not Loss.NONE:
        return False
    if whole.loss is not Loss.NONE or whole.since is None or since < whole.since:
        return True
    return whole.until is not None and (kept.until is None or kept.until > whole.until)
