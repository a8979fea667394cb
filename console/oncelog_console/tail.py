"""What is written to a topic now is told four times a second: all of it, or a sample that says so.

Rules: at most ``SAMPLE`` rows are told at a time, whatever comes, with how many there were. Who
writes faster than can be read is not followed record by record: what is in between is counted and
left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oncelog import Consumer, Record, TopicPartition
from oncelog_cli.internal_records import decoded
from oncelog_console.message_range import WantedRecords
from oncelog_console.reading import MakeConsumer, Row, finder, partitions_of, row_of

TICK_S = 0.25
SAMPLE = 50
"""Rows at a time."""
TICK_RECORDS_MAX = 20_000
"""So many records are looked at at a time; others are counted by their offsets."""


@dataclass(frozen=True, slots=True)
class Tick:
    """So much came in a quarter of a second."""

    rows: tuple[Row, ...]
    found: int
    """So many records were found; rows show all or some of them."""
    arrived: int
    """So many came."""
    unread: int = 0
    """So many of them were not looked at."""

    def document(self) -> dict[str, Any]:
        """Return the tick as JSON has it."""
        return asdict(self)


def tick_of(document: dict[str, Any]) -> Tick:
    """Return the tick of its document."""
    return Tick(**{**document, "rows": tuple(Row(**row) for row in document["rows"])})


async def ticks(wanted: WantedRecords, make: MakeConsumer) -> AsyncGenerator[Tick, None]:
    """Yield what comes from now on, for ever; an empty tick first: from there on nothing is missed.

    Range and rows of what is wanted do not count here.

    :raises OncelogError: the cluster does not answer, or refuses.
    :raises CommandError: there is no such partition.
    """
    find = finder(wanted)
    # What becomes of records of open transactions is not known yet.
    state = "committed" if wanted.isolation == "committed" else ""
    async with make(isolation_level=wanted.level, auto_offset_reset="latest") as consumer:
        partitions = await partitions_of(consumer, wanted)
        consumer.assign(partitions)
        for tp, end in (await consumer.end_offsets(partitions)).items():
            consumer.seek(tp, end)
        yield Tick((), 0, 0)
        loop = asyncio.get_running_loop()
        while True:
            next_s = loop.time() + TICK_S
            found: list[Record] = []
            found_count = arrived = unread = 0
            while arrived < TICK_RECORDS_MAX:
                try:
                    async with asyncio.timeout_at(next_s):
                        batch = await consumer.getbatch()
                except TimeoutError:
                    break
                records = find(batch)
                arrived += len(batch)
                found_count += len(records)
                found += thinned(records, SAMPLE)
            else:
                unread = await _skip(consumer, partitions)
            if arrived:
                shown = [
                    decoded(each) if wanted.decodes else each for each in thinned(found, SAMPLE)
                ]
                rows = tuple(row_of(record, state) for record in shown)
                yield Tick(rows, found_count, arrived + unread, unread)
            await asyncio.sleep(next_s - loop.time())


async def _skip(consumer: Consumer, partitions: Sequence[TopicPartition]) -> int:
    """Go to the ends; return how many offsets are left out."""
    left_out = 0
    for tp, end in (await consumer.end_offsets(partitions)).items():
        position = await consumer.position(tp)
        if position < end:
            left_out += end - position
            consumer.seek(tp, end)
    return left_out


def thinned(records: Sequence[Record], most: int) -> Sequence[Record]:
    """Return so many of the records at most, evenly spread, the last one among them."""
    count = len(records)
    if count <= most:
        return records
    return [records[(place + 1) * count // most - 1] for place in range(most)]
