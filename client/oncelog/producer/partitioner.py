"""A partitioner chooses a record's partition: by its key's hash, in turns, sticky, or as told.
Pure.

Rules: a key's partition depends on nothing but the key and the partition count; a record without
a key may go anywhere, and *sticky* means that it goes where the open batch is (KIP-480, KIP-794),
so that batches are large. A partitioner returns STICKY (-1) to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import xxhash

from oncelog.errors import ConfigurationError

STICKY = -1
"""The producer chooses: the partition whose batch is open."""

key_hash = xxhash.xxh3_64_intdigest
"""xxh3-64: which partition a key belongs to hangs on it, so it must never change."""

PartitionFunction = Callable[[str, bytes | None, int], int]
"""``f(topic, key, partition_count) -> partition`` (or STICKY)."""


class Partitioner(Protocol):
    """A partitioner chooses the partition of a record."""

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        """Return a partition in [0, partition_count), or STICKY."""
        ...


PartitionerOption = str | Partitioner | PartitionFunction


class DefaultPartitioner:
    """The partition is xxh3-64 of the key modulo the count; records without a key are sticky."""

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        if key is None:
            return STICKY
        return key_hash(key) % partition_count


class Murmur2Partitioner:
    """The partition is Kafka's for the same key and count; records without a key are sticky."""

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        if key is None:
            return STICKY
        return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Records fill one batch after the other, regardless of the key."""

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        return STICKY


class RoundRobinPartitioner:
    """Partitions take turns, whatever the key. Each topic has a turn of its own."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return turn % partition_count


class FunctionPartitioner:
    """An application's function chooses the partition."""

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        return self._function(topic, key, partition_count)


NAMED: dict[str, Callable[[], Partitioner]] = {
    "default": DefaultPartitioner,
    "murmur2": Murmur2Partitioner,
    "round_robin": RoundRobinPartitioner,
    "sticky": StickyPartitioner,
}


def make_partitioner(option: PartitionerOption) -> Partitioner:
    """Return the partitioner that an option names, or is."""
    if isinstance(option, str):
        if option not in NAMED:
            raise ConfigurationError(
                f"partitioner={option!r}: must be one of {', '.join(sorted(NAMED))},"
                " a function, or an object with a method partition(topic, key, partition_count)"
            )
        return NAMED[option]()
    if isinstance(option, type) or not (hasattr(option, "partition") or callable(option)):
        raise ConfigurationError(
            f"partitioner={option!r}: neither a name, a function nor an object"
        )
    if hasattr(option, "partition"):
        return option
    return FunctionPartitioner(option)


def partition_rows(
    partitioner: Partitioner, topic: str, keys: Sequence[bytes | None], partition_count: int
) -> dict[int, list[int]]:
    """Return the positions in ``keys`` by partition, or by STICKY, in order."""
    rows: dict[int, list[int]] = {}
    if type(partitioner) is DefaultPartitioner:
        digest = key_hash
        buckets: list[list[int]] = [[] for _ in range(partition_count + 1)]
        appends = [bucket.append for bucket in buckets]
        for row, key in enumerate(keys):
            appends[-1 if key is None else digest(key) % partition_count](row)
        rows = {number: bucket for number, bucket in enumerate(buckets[:-1]) if bucket}
        if buckets[-1]:
            rows[STICKY] = buckets[-1]
        return rows
    if type(partitioner) is Murmur2Partitioner:
        # In Python it costs some microseconds: once for each key of the list.
        chosen: dict[bytes | None, int] = dict.fromkeys(keys, STICKY)
        for key in chosen:
            chosen[key] = partitioner.partition(topic, key, partition_count)
        for row, key in enumerate(keys):
            rows.setdefault(chosen[key], []).append(row)
        return rows
    for row, key in enumerate(keys):
        number = partitioner.partition(topic, key, partition_count)
        rows.setdefault(number, []).append(row)
    return rows


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit MurmurHash2 with its seed, as an unsigned number (Utils.murmur2)."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    h = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little")
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return h
