"""Markers that have ended a transaction in a partition are found here, by little work.

No broker is asked to look through a log. The leader says when the marker came, a lookup by time
leads there, and the headers of the batches behind it show the marker itself: its producer and the
epoch are those that the leader has told. What these two steps do not find is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition

MARKERS_MAX = 20
"""So many markers are looked for."""
EARLIER_MS = 100
"""A leader notes a marker so much later than the marker's own time, at most."""
BATCHES = 500
"""So many headers are looked at, of 512 KiB of a segment at most."""


@dataclass(frozen=True, slots=True)
class EndedProducer:
    """A marker has ended the transaction of a producer in a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    """It is the marker's; no other marker of this producer has it."""
    noted_ms: int
    """The leader noted it at this time, in ms since 1970."""


async def marker_offsets(
    admin: Admin, ended: Sequence[EndedProducer], *, timeout_ms: int
) -> dict[EndedProducer, int]:
    """Return the offsets of markers, as far as they are found.

    :param ended: of the first ``MARKERS_MAX`` of them.
    :param timeout_ms: leaders have so long to answer.
    """
    import asyncio

    some = ended[:MARKERS_MAX]
    found = await asyncio.gather(*(_offset_of(admin, each, timeout_ms) for each in some))
    return {each: offset for each, offset in zip(some, found, strict=True) if offset is not None}


async def _offset_of(admin: Admin, ended: EndedProducer, timeout_ms: int) -> int | None:
    from oncelog import OncelogError

    at_ms = max(ended.noted_ms - EARLIER_MS, 0)
    try:
        (near,) = await admin.list_offsets([ended.partition], at_ms, timeout_ms=timeout_ms)
        if near.offset is None:
            return None
        log = await admin.describe_log(
            ended.partition, at_offset=near.offset, batches=BATCHES, timeout_ms=timeout_ms
        )
    except OncelogError:
        return None  # It is a detail of what others say: nothing fails without it.
    for batch in log.batches:
        who = (batch.producer_id, batch.producer_epoch)
        if batch.marker is not None and who == (ended.producer_id, ended.producer_epoch):
            return batch.base_offset
    return None
