"""Single records are read here, for pages that show what lies at an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from oncelog import Record, TopicPartition
from oncelog_console.clients import ClusterClients
from oncelog_protocol.errors import OncelogError

PARTITIONS_MAX = 200
"""Records of so many partitions are looked for at once."""
WITHIN_S = 3.0
FETCH_BYTES = 1_048_576
WAIT_MS = 100


async def first_records(
    clients: ClusterClients,
    at: Mapping[TopicPartition, int],
    *,
    within_s: float = WITHIN_S,
) -> dict[TopicPartition, Record]:
    """Return the first committed record at or after an offset of each partition.

    A partition is left out when there is none, when it was not read in time, or when it is not one
    of the first ``PARTITIONS_MAX``. What may not be read is left out too.
    """
    wanted = dict(list(at.items())[:PARTITIONS_MAX])
    found: dict[TopicPartition, Record] = {}
    if not wanted:
        return found
    try:
        async with (
            asyncio.timeout(within_s),
            clients.consumer(
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                fetch_max_bytes=FETCH_BYTES,
                fetch_max_wait_ms=WAIT_MS,
            ) as consumer,
        ):
            consumer.assign(wanted)
            for partition, offset in wanted.items():
                consumer.seek(partition, offset)
            while len(found) < len(wanted):
                batches = await consumer.getmany(timeout_ms=WAIT_MS)
                for partition, records in batches.items():
                    found.setdefault(partition, records[0])
                    consumer.pause(partition)
    except (TimeoutError, OncelogError):
        return found
    return found
