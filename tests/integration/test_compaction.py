"""Compaction beside traffic, and brokers killed in the middle of it: the newest value of every key
stays, byte for byte and at its offset.

One reader goes along with the writer and sees everything; whoever reads from 0 later sees less, but
nothing else. After kafkatest's log_compaction_test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.keyed import (
    Contents,
    KeyedLoad,
    Tail,
    contents_on_disk,
    read_from_zero,
    record_count_on_disk,
)
from integration.processes import DEADLINE_S, Processes
from simulation.checkers import newest_values_kept
from simulation.checkers.newest_values_kept import Compacted, Kept
from simulation.checkers.verdict import summary
from simulation.checkers.violation import Rules

pytestmark = pytest.mark.integration

TOPIC = "compacted"
PARTITIONS = 2
READER = 0
"""Stands for who reads from 0, among the brokers' ids."""
CONFIGS = {
    "cleanup_policy": "compact",
    "segment_bytes": "16384",
    "min_cleanable_dirty_ratio": "0.01",
    "file_delete_delay_ms": "0",
}


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh compacted topic of small segments."""
    await processes.create_topic(TOPIC, PARTITIONS, **CONFIGS)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


def on_disk(cluster: Processes) -> dict[tuple[int, int], int]:
    """Count records by broker and partition."""
    return {
        (broker_id, partition): record_count_on_disk(broker.data_path, TOPIC, partition)
        for broker_id, broker in cluster.cluster.brokers.items()
        for partition in range(PARTITIONS)
    }


async def wait_compacted(cluster: Processes, load: KeyedLoad) -> None:
    """Wait until every broker holds less than half of what was written to each partition."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        written = load.acknowledged / PARTITIONS
        counts = await asyncio.to_thread(on_disk, cluster)
        if max(counts.values()) < written / 2:
            return
        assert loop.time() < deadline, f"{written:g} records a partition written, kept: {counts}"
        await asyncio.sleep(0.1)


async def test_newest_values_stay_under_load_and_kill_9(cluster: Processes) -> None:
    async with (
        Tail(cluster.bootstrap, TOPIC, PARTITIONS) as tail,
        KeyedLoad(cluster.bootstrap, TOPIC, PARTITIONS) as load,
    ):
        await load.wait_for(1500)
        await wait_compacted(cluster, load)
        for partition in range(PARTITIONS):
            leader = await cluster.leader(TOPIC, partition)
            cluster.kill(leader)
            await load.wait_for(400)
            await cluster.restart(leader)
            await cluster.wait_isr(TOPIC, 3)
        await load.wait_for(800)
        await wait_compacted(cluster, load)
        await load.stop()
        for broker in cluster.broker_ids:
            cluster.kill(broker)
        for broker in cluster.broker_ids:
            cluster.start(broker)
        await cluster.wait_ready()
        await cluster.wait_isr(TOPIC, 3)

        read, ends = await read_from_zero(cluster.bootstrap, TOPIC, PARTITIONS)
        await tail.wait_for(ends)
    committed = {
        tp: whole(tail.contents[tp], load.contents[tp], contents) for tp, contents in read.items()
    }
    for tp, contents in read.items():
        assert len(contents.records) < len(committed[tp]) / 2, "it was compacted"
    logs = {tp: {READER: contents.in_order()} for tp, contents in read.items()}
    for broker_id in cluster.broker_ids:
        await cluster.stop_cleanly(broker_id)  # so that no cleaner runs while we look
        directory = cluster.cluster.broker(broker_id).data_path
        for tp, end in ends.items():
            on_its_disk = contents_on_disk(directory, tp.topic, tp.partition, end)
            logs[tp][broker_id] = on_its_disk.in_order()
    judged = {(tp.topic, tp.partition): Compacted(committed[tp], logs[tp]) for tp in read}
    found = newest_values_kept.check(judged, Rules())
    assert not found, summary(found)


def whole(*known: Contents) -> list[Kept]:
    """Return everything that anybody knows of a partition; who comes first is believed."""
    together = Contents()
    for contents in known:
        for record in contents.records.values():
            together.add(*record)
    return together.in_order()
