"""What a topic holds is compared with what was to be copied into it: lost, doubled, out of order.

Values name their partition and number: ``3/17`` is the eighteenth record of partition 3. Copies
keep the partition, and within it the order.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from oncelog import Consumer, Producer, Security, TopicPartition

READ_WITHIN_S = 120.0
SETTLED_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy compares like this."""

    count_in: int
    count_out: int
    lost: int
    doubled: int
    """Records beyond the first of each value, and those that are nobody's copy."""
    out_of_order: int

    @property
    def is_exact(self) -> bool:
        """Return whether it is the same records in the same order."""
        return not (self.lost or self.doubled or self.out_of_order)


def value_of(partition: int, number: int) -> bytes:
    """Return the value of one record."""
    return b"%d/%d" % (partition, number)


def compare(copies: Mapping[int, Sequence[bytes]], counts: Mapping[int, int]) -> Copied:
    """Hold what each partition has against values 0 to ``counts[partition]`` of it."""
    originals = {
        partition: [value_of(partition, number) for number in range(count)]
        for partition, count in counts.items()
    }
    return compare_with(copies, originals)


def compare_with(
    copies: Mapping[int, Sequence[bytes]], originals: Mapping[int, Sequence[bytes]]
) -> Copied:
    """Hold what each partition has against the values that it is to have, each of them once."""
    lost = doubled = out_of_order = 0
    for partition, values in originals.items():
        wanted = {value: number for number, value in enumerate(values)}
        found = Counter(copies.get(partition, ()))
        lost += sum(value not in found for value in wanted)
        doubled += sum(n - 1 if value in wanted else n for value, n in found.items())
        numbers = [wanted[value] for value in copies.get(partition, ()) if value in wanted]
        out_of_order += sum(later < earlier for earlier, later in pairwise(numbers))
    total = sum(map(len, copies.values()))
    return Copied(sum(map(len, originals.values())), total, lost, doubled, out_of_order)


async def fill(bootstrap: str, topic: str, counts: Mapping[int, int]) -> None:
    """Write the records that are to be copied."""
    async with Producer(bootstrap, linger_ms=5) as producer:
        for partition, count in counts.items():
            values = [value_of(partition, number) for number in range(count)]
            await producer.send_many(topic, values, partition=partition)


async def read_all(
    bootstrap: str, topic: str, partitions: int, security: Security | None = None
) -> dict[int, list[bytes]]:
    """Return all values that a reader of committed records sees now, by partition.

    :raises TimeoutError: an open transaction keeps the reader from the end.
    """
    everything = [TopicPartition(topic, number) for number in range(partitions)]
    found: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    ends = await ends_of(bootstrap, everything, isolation="read_uncommitted", security=security)
    async with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", security=security
    ) as consumer:
        consumer.assign(everything)
        await consumer.seek_to_beginning()
        async with asyncio.timeout(READ_WITHIN_S):
            while any([await consumer.position(tp) < ends[tp] for tp in everything]):
                for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[tp.partition] += [record.value or b"" for record in records]
    return found


async def settled(bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
    """Wait until no transaction is open in the partitions.

    A commit is answered when it is decided, and readers of committed records see its records when
    the markers are written, a moment later. Whoever reads up to the end must wait for them.

    :raises AssertionError: a transaction stays open.
    """
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while True:
        ends = await ends_of(bootstrap, partitions, isolation="read_uncommitted")
        stable = await ends_of(bootstrap, partitions, isolation="read_committed")
        if ends == stable:
            return
        if time.monotonic() >= deadline:
            raise AssertionError(f"a transaction stays open: ends {ends}, stable {stable}")
        await asyncio.sleep(0.05)


async def ends_of(
    bootstrap: str,
    partitions: Sequence[TopicPartition],
    *,
    isolation: Literal["read_committed", "read_uncommitted"],
    security: Security | None = None,
) -> dict[TopicPartition, int]:
    """Return where the partitions end at an isolation level."""
    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, security=security
    ) as consumer:
        return await consumer.end_offsets(partitions)
