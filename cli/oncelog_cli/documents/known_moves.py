"""The moves of a cluster are asked for here, beside questions that must not fail with this one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog_cli.open_moves import KnownMoves

if TYPE_CHECKING:
    from oncelog import Admin

ASKED_MS = 2_000
"""So long an answer is waited for."""


async def known_moves(admin: Admin, topics: Iterable[str] | None = None) -> KnownMoves:
    """Return what moves, or why that is not known.

    A controller that does not answer, one that knows no moves, and a user who may not ask are
    reasons.

    :param topics: only partitions of these.
    """
    from oncelog import OncelogError

    try:
        found = await admin.list_partition_reassignments(topics, timeout_ms=ASKED_MS)
    except (OncelogError, OSError) as error:
        return KnownMoves(None, str(error) or type(error).__name__)
    return KnownMoves(
        {(each.partition.topic, each.partition.partition): each for each in found.partitions}
    )
