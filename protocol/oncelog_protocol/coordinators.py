"""A hash says which partition of a coordinator's internal topic a key falls on. Pure.

The leader of that partition coordinates the key (a group, a transactional id). Every broker must
agree on it and so must every release: the hash never changes, and the internal topic never grows.
Clients need not know it, they ask (FindCoordinator).
"""

from __future__ import annotations

from crc32c import crc32c

GROUP_TOPIC = "__consumer_offsets"
"""Groups and their committed offsets are kept in this topic."""

TRANSACTION_TOPIC = "__transaction_state"
"""Transactional ids are kept in this topic."""


def coordinator_partition(key: str, partition_count: int) -> int:
    """Return the partition of ``key``: CRC-32C of its UTF-8 bytes, modulo the number of partitions.

    :raises ValueError: ``partition_count`` is not positive.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count {partition_count} is not positive")
    hashed: int = crc32c(key.encode("utf-8", "surrogatepass"))
    return hashed % partition_count
