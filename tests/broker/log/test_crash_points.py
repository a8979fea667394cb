"""A crash comes at every single step of a broker's life with its logs.

Each scenario runs once; at each of its changes of the disk, images are taken of what a crash there
would leave, in every style: a kill, and power cuts that keep nothing, torn prefixes, odd sectors,
lengths without data, names without data, data without names. Each distinct image is loaded and
judged; ``support.crash_judgement`` says what must hold. The last tests interrupt the start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import KILL, SECTOR_BYTES
from support.crash_judgement import judge, judge_interrupted_starts
from support.crash_points import STYLES, Scenario, World, play, run_inline
from support.logs import topic_config
from support.transactional_logs import TxnProducer

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
LAZY = topic_config(segment_bytes=4096, flush="interval")
COMPACTED = topic_config(
    segment_bytes=4096,
    index_interval_bytes=600,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
    delete_retention_ms=0,
)
VALUE_OF_A_SECTOR = 442
"""Bytes of a value whose batch fills a sector."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of recoveries have a lot to say, and saying it takes as long as recovering."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def first_start(world: World) -> None:
    """An empty disk is taken into use."""
    world.record()
    await world.start()


async def append(world: World) -> None:
    """Write two logs, synced together and apart; epochs begin; some writes are not synced."""
    await world.start()
    world.record()
    first = await world.create(A, "id-a")
    world.append(first, 3, epoch=0)
    await world.sync()
    second = await world.create(B, "id-b", LAZY)
    world.append(first, 2, epoch=0)
    world.append(second, 4, epoch=1, value_bytes=900)
    world.append(first, 1, epoch=2)
    await world.sync()
    world.replicate(second, (4, 3, 1), (7, 2, 5))
    world.append(first, 2, epoch=3, value_bytes=1200)
    world.append(second, 1, epoch=5)


async def roll(world: World) -> None:
    """Segments are begun, by leader and follower, with and without a sync in between."""
    await world.start()
    first = await world.create(A, "id-a")
    second = await world.create(B, "id-b")
    world.append(second, 2, epoch=0)
    await world.sync()
    world.record()
    world.append(first, 17, epoch=0)
    await world.sync()
    world.append(first, 33, epoch=1)
    world.replicate(second, *((2 + 40 * n, 40, 4) for n in range(9)))
    await world.sync()
    world.append(first, 2, epoch=1, value_bytes=3000)
    world.append(first, 1, epoch=2)


async def checkpoints(world: World) -> None:
    """Recovery points, high watermarks, log starts and epochs are written, ever again."""
    await world.start()
    world.record()
    first = await world.create(A, "id-a")
    await world.write_checkpoints()
    world.append(first, 20, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    second = await world.create(B, "id-b", LAZY)
    world.append(second, 3, epoch=7)
    world.append(first, 3, epoch=2)
    await world.write_checkpoints()
    await world.sync()
    world.append(first, 14, epoch=3)
    world.advance_log_start(first, 5)
    await world.write_checkpoints()
    first.assign_epoch(9, first.log_end_offset)
    world.advance_log_start(first, 18)
    await world.write_checkpoints()
    await world.sync()
    world.append(second, 20, epoch=8)
    await world.write_checkpoints()
    assert second.recovery_point < second.log_end_offset
    await world.sync()
    await world.write_checkpoints()


async def truncate(world: World) -> None:
    """A follower cuts: within a segment, back over borders, to the start, and begins anew."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 40, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    world.truncate(log, 37)
    world.append(log, 2, epoch=2)
    await world.sync()
    world.truncate(log, 20)
    world.append(log, 3, epoch=3)
    world.truncate(log, 21)
    world.append(log, 30, epoch=4)
    await world.sync()
    await world.write_checkpoints()
    border = log.segments[1].base_offset
    world.truncate(log, border)
    world.append(log, 16, epoch=5)
    world.truncate(log, border + 2)
    await world.write_checkpoints()
    await world.sync()
    await world.write_checkpoints()


async def truncate_aligned(world: World) -> None:
    """Batches begin where sectors begin; a truncation takes epochs newer than what follows.

    The kernel may write the block in which the cut lies before it writes the new length: whole new
    batches, followed by whole old ones, offsets and epochs in order. They are no log.
    """
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 3, epoch=0, value_bytes=VALUE_OF_A_SECTOR)
    world.append(log, 4, epoch=5, value_bytes=VALUE_OF_A_SECTOR)
    assert log.size_bytes == 7 * SECTOR_BYTES
    await world.sync()
    world.record()
    world.truncate(log, 3)
    world.append(log, 1, epoch=3, value_bytes=VALUE_OF_A_SECTOR)
    world.append(log, 1, epoch=4, value_bytes=VALUE_OF_A_SECTOR)
    await world.sync()


async def truncate_fully(world: World) -> None:
    """A follower throws everything away, twice, and fetches from somewhere else."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 40, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    world.truncate(log, 0)
    world.append(log, 20, epoch=1)
    await world.sync()
    await world.write_checkpoints()
    world.start_anew(log, 500)
    world.replicate(log, (500, 30, 2), (530, 30, 2))
    await world.sync()
    await world.write_checkpoints()
    world.start_anew(log, 10)
    world.append(log, 20, epoch=3)
    await world.write_checkpoints()
    await world.sync()


async def retention(world: World) -> None:
    """Old segments go, by size and because the log start has moved; at last all of them."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 60, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    world.apply_retention()
    world.append(log, 1, epoch=1)
    await world.write_checkpoints()
    await world.sync()
    world.advance_log_start(log, log.segments[1].base_offset)
    await world.write_checkpoints()
    world.apply_retention()
    await world.write_checkpoints()
    await world.sync()
    world.advance_log_start(log, log.log_end_offset)
    await world.write_checkpoints()
    world.apply_retention()
    await world.write_checkpoints()
    world.append(log, 20, epoch=2)
    await world.sync()
    await world.write_checkpoints()


async def delete(world: World) -> None:
    """Partitions are deleted, with a checkpoint or without, and made anew under other ids."""
    await world.start()
    first = await world.create(A, "id-a")
    second = await world.create(B, "id-b")
    world.append(first, 20, epoch=3)
    world.append(second, 5, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    await world.delete(first)
    first = await world.create(A, "id-a2")
    world.append(first, 2, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.append(second, 2, epoch=1)
    await world.delete(second)
    await world.write_checkpoints()
    await world.delete(first)
    first = await world.create(A, "id-a3")
    world.append(first, 1, epoch=0)


async def clean_stop(world: World) -> None:
    """Stop cleanly, start again, and do both once more."""
    await world.start()
    first = await world.create(A, "id-a")
    world.append(first, 30, epoch=0)
    await world.create(B, "id-b")
    await world.sync()
    world.record()
    world.append(first, 3, epoch=1)
    await world.stop()
    await world.start()
    log = world.log(A)
    world.append(log, 20, epoch=2)
    world.truncate(log, 40)
    await world.stop()
    await world.start()


async def failed_sync(world: World) -> None:
    """A sync fails, and the processes that follow read what the disk never got, and build on it."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 12, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    world.append(log, 20, epoch=1)
    await world.fail_sync()
    await world.start()
    log = world.log(A)
    assert log.synced_offset == log.log_end_offset == 32
    world.append(log, 3, epoch=2)
    await world.sync()
    await world.write_checkpoints()
    world.append(log, 3, epoch=3)
    await world.fail_sync()
    await world.start()
    world.append(world.log(A), 1, epoch=4)
    await world.sync()


async def transactions(world: World) -> None:
    """Transactions are written, committed and aborted, over segments; markers are cut; what is old
    goes. After each crash producers, open transactions and aborted ranges are what the log says."""
    await world.start()
    log = await world.create(A, "id-a")
    one, two = TxnProducer(1), TxnProducer(2)
    world.record()
    world.send(log, one, 3, 0)
    world.send(log, two, 2, 0)
    world.end(log, one, 0, commit=False)
    await world.sync()
    world.committed(log)
    for number in range(8):
        world.send(log, one, 2, 0)
        world.end(log, one, 0, commit=number % 3 == 0)
    await world.sync()
    await world.write_checkpoints()
    world.committed(log)
    world.end(log, two, 0, commit=False)
    log.producers.snapshot()
    world.send(log, one, 1, 0)
    world.send(log, two, 14, 0)
    world.end(log, two, 0, commit=True)
    await world.sync()
    world.end(log, one, 0, commit=False)
    end = log.log_end_offset
    world.truncate(log, end - 1)
    world.truncate(log, end - 10)
    one.epoch, one.sequence, two.epoch, two.sequence = 20, 0, 20, 0
    world.end(log, one, 1, commit=False)
    world.end(log, two, 1, commit=False)
    world.send(log, one, 3, 1)
    await world.sync()
    world.committed(log)
    await world.write_checkpoints()
    world.apply_retention()
    await world.write_checkpoints()
    await world.sync()
    await world.stop()
    await world.start()
    log = world.log(A)
    world.end(log, one, 2, commit=False)
    await world.sync()


async def transactions_compacted(world: World) -> None:
    """Records of aborted transactions are compacted away, and at last their markers and ranges."""
    await world.start()
    log = await world.create(A, "id-a", COMPACTED)
    log.reconfigure(COMPACTED)
    one, two = TxnProducer(1), TxnProducer(2)
    for number in range(6):
        world.send(log, one, 4, 0, keys=[b"a", b"b"])
        world.end(log, one, 0, commit=number % 2 == 0)
        world.send(log, two, 1, 0, keys=[b"c"])
        world.end(log, two, 0, commit=False)
    world.append_keyed(log, b"a", b"b", b"c", epoch=0)
    log.roll()
    await world.sync()
    world.committed(log)
    await world.write_checkpoints()
    world.record()
    await world.compact(log)
    await world.write_checkpoints()
    world.send(log, one, 2, 0, keys=[b"a"])
    world.end(log, one, 0, commit=False)
    log.roll()
    await world.sync()
    world.committed(log)
    await world.compact(log)
    log.producers.snapshot()
    await world.write_checkpoints()


SCENARIOS: dict[Scenario, int] = {
    first_start: 7,
    append: 35,
    roll: 80,
    checkpoints: 240,
    truncate: 190,
    truncate_aligned: 5,
    truncate_fully: 160,
    retention: 170,
    delete: 85,
    clean_stop: 105,
    failed_sync: 60,
    transactions: 150,
    transactions_compacted: 60,
}
"""Each with the fewest crash points that it must have: it may not come to enumerate nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_crash_point(scenario: Scenario) -> None:
    world = play(scenario)
    print(f"{scenario.__name__}: {len(world.points)} points, {len(world.images)} distinct images")
    assert len(world.points) >= SCENARIOS[scenario]
    run_inline(judge(world, world.images))


def check_interrupted_starts(scenario: Scenario, one_in: int) -> None:
    count = judge_interrupted_starts(play(scenario, (KILL, STYLES[6])), one_in)
    print(f"start after {scenario.__name__}: {count} distinct images")
    assert count >= 5


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_crash_point_of_a_start_after_some_crash(scenario: Scenario) -> None:
    check_interrupted_starts(scenario, 10)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_crash_point_of_the_start_after_every_crash(scenario: Scenario) -> None:
    check_interrupted_starts(scenario, 1)
