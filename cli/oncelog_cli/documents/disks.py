"""Disks of brokers are looked at here: how full they are, and how full moves would leave them.

Rules: the directories of a broker count together, as the planner counts them. A replica that goes
frees what it holds at its broker; one that is added needs its part of what is to be copied. What is
not known is None: the figures of a broker that does not answer soon, or of which a directory is out
of service, and those of afterwards when the size of a copy is not known. What is written meanwhile
is in no figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Row
from oncelog_cli.documents.known_moves import ASKED_MS

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import LogDirDescription


async def disks_afterwards(admin: Admin, rows: Sequence[Row]) -> list[Row]:
    """Return a row a broker that gets or loses replicas by moves, in the order of ids.

    It has ``total_bytes`` of its disks, ``used_bytes`` of now, ``used_bytes_after`` the moves, and
    ``percent`` and ``percent_after``; a disk that would not hold the moves is over 100.

    :param rows: those of ``planned_moves`` or ``planned_balance``; what is refused does not move.
    :raises OncelogError: no broker answers.
    """
    moving = [row for row in rows if row["result"] == "would move"]
    brokers = sorted({broker for row in moving for broker in row["adding"] + row["removing"]})
    if not brokers:
        return []
    topics = {row["topic"] for row in moving if row["removing"]}
    found = await admin.describe_log_dirs(brokers, topics=topics, timeout_ms=ASKED_MS)
    return [
        _disks(broker, [each for each in found if each.broker_id == broker], moving)
        for broker in brokers
    ]


def _disks(broker: int, directories: Sequence[LogDirDescription], moving: Sequence[Row]) -> Row:
    known = bool(directories) and all(
        each.error is None and each.total_bytes > 0 for each in directories
    )
    total = sum(each.total_bytes for each in directories) if known else None
    used = after = None
    if total is not None:
        used = total - sum(each.free_bytes for each in directories)
        more = _growth(broker, directories, moving)
        after = None if more is None else max(0, used + more)
    return {
        "broker_id": broker,
        "total_bytes": total,
        "used_bytes": used,
        "used_bytes_after": after,
        "percent": _percent(used, total),
        "percent_after": _percent(after, total),
    }


def _growth(
    broker: int, directories: Sequence[LogDirDescription], moving: Sequence[Row]
) -> int | None:
    """Return how many bytes more a broker would hold; None: not known."""
    held = {
        (replica.partition.topic, replica.partition.partition): replica.size_bytes
        for each in directories
        for replica in each.replicas
    }
    more = 0
    for row in moving:
        if broker in row["adding"]:
            if row["bytes_to_copy"] is None:
                return None
            more += row["bytes_to_copy"] // len(row["adding"])
        elif broker in row["removing"]:
            more -= held.get((row["topic"], row["partition"]), 0)
    return more


def _percent(used: int | None, total: int | None) -> int | None:
    return None if used is None or not total else round(100 * used / total)
