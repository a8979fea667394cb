"""A crash at every step of a compaction leaves the log as it was or as it is to be [B26].

As in ``test_crash_points``: each scenario runs once, and at each change of the disk images are
taken of what a crash there would leave, in every style; each is loaded and judged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from oncelog_broker.log.compaction import hole
from oncelog_broker.log.invariants import InvariantError
from oncelog_broker.log.segment import Segment
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import KILL, Crash
from oncelog_testing.memory.files import MemoryFiles
from support.compaction import COMPACTED, append, clean, headers_in, records_in
from support.crash_judgement import judge
from support.crash_points import World, interrupted_starts, run_inline
from support.logs import (
    NOW_MS,
    follower_batches,
    make_log,
    reload_log,
    sync,
    topic_config,
)
from unsafe.log import CompactedUnsynced

A = TopicPartition("a", 0)
WIDE = topic_config(
    cleanup_policy="compact",
    segment_bytes=4096,
    index_interval_bytes=300,
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
)

Scenario = Callable[[World], Awaitable[None]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of recoveries have a lot to say, and saying it takes as long as recovering."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def two_runs(world: World) -> None:
    """Small segments become two; more records come in while that is going on, and after it."""
    await world.start()
    log = await world.create(A, "id-a", WIDE)
    for number in range(10):
        world.append_keyed(log, b"k%d" % (number % 3), b"l%d" % (number % 2), epoch=number // 4)
        if number % 2:
            log.roll()
    await world.sync()
    await world.write_checkpoints()
    world.append_keyed(log, b"k1", epoch=3)
    await world.sync()
    world.record()
    await world.compact(log)
    world.append_keyed(log, b"k2", epoch=3)
    await world.write_checkpoints()
    await world.sync()


async def again_and_again(world: World) -> None:
    """What was compacted is compacted again, between clean stops."""
    await world.start()
    log = await world.create(A, "id-a", WIDE)
    for number in range(6):
        world.append_keyed(log, b"k%d" % (number % 2), epoch=0)
        log.roll()
    await world.sync()
    await world.stop()
    await world.start()
    log = world.log(A)
    log.reconfigure(WIDE)
    world.record()
    await world.compact(log)
    await world.stop()
    await world.start()
    log = world.log(A)
    log.reconfigure(WIDE)
    world.append_keyed(log, b"k0", epoch=1)
    log.roll()
    world.append_keyed(log, b"k1", epoch=2)
    await world.sync()
    await world.compact(log)
    await world.write_checkpoints()


async def cut_into_what_was_compacted(world: World) -> None:
    """A log is cut just behind what was compacted, grows again, is compacted again."""
    await world.start()
    log = await world.create(A, "id-a", WIDE)
    for number in range(6):
        world.append_keyed(log, b"k%d" % (number % 2), epoch=0)
        log.roll()
    world.append_keyed(log, b"k0", epoch=0)
    world.append_keyed(log, b"k1", epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    await world.compact(log)
    world.truncate(log, 7)
    world.append_keyed(log, b"k1", epoch=1)
    log.roll()
    await world.sync()
    await world.compact(log)
    await world.write_checkpoints()


SCENARIOS: tuple[Scenario, ...] = (two_runs, again_and_again, cut_into_what_was_compacted)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_every_step(scenario: Scenario) -> None:
    async def go() -> None:
        world = World()
        await scenario(world)
        assert len(world.points) > 10
        assert any(".cleaned" in point for point in world.points)
        await world.logs.stop(clean=False)
        await judge(world, world.images)

    run_inline(go())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_every_step_of_the_start_after_it(scenario: Scenario) -> None:
    styles = (KILL, Crash("none", False), Crash("all", lambda view: len(view.unsynced) // 2))

    async def go() -> None:
        world = World(styles)
        await scenario(world)
        await world.logs.stop(clean=False)
        await judge(world, await interrupted_starts(world, styles))

    run_inline(go())


def three_segments() -> MemoryFiles:
    """Make a log of which three segments are about to become one."""
    files = MemoryFiles("/data")
    log = make_log(files, WIDE)
    for number in range(6):
        append(log, (b"k%d" % (number % 2), b"%d" % number * 40))
        if number % 2:
            log.roll()
    append(log, (b"end", b"v"))
    sync(log)
    return files


def test_what_was_replaced_goes_before_a_cut() -> None:
    files = three_segments()
    log = reload_log(files, WIDE, recovery_point=7)
    run = list(log.segments)[:3]
    clean(log, config=WIDE)
    (merged, active) = list(log.segments)
    assert active.base_offset == 6
    log.swap.replaced = tuple(run[1:2])  # as if the directory had not been synced yet
    old = run[1].path
    files.open(old, create=True).append([b"what was there"])
    log.truncate_to(6)
    assert not log.swap.replaced
    assert not files.exists(old)
    assert merged.next_offset == 6


def test_a_start_knows_what_was_replaced() -> None:
    """The new segment is in its place; the others are there yet."""
    files = three_segments()
    old = {
        path: files.read_bytes(path)
        for path in files.paths("/data/orders-0")
        if path.endswith(("02.log", "04.log"))
    }
    log = reload_log(files, WIDE, recovery_point=7)
    before = records_in(log)
    clean(log, config=WIDE)
    kept = records_in(log)
    assert len(kept) < len(before)
    log.close()
    for path, data in old.items():
        files.open(path, create=True).append([data])
    for point in (0, 3, 7):
        image = files.image(KILL)
        again = reload_log(image, WIDE, recovery_point=point)
        assert not again.damage
        assert records_in(again) == kept
        assert len(again.segments) == 2
        assert not any(image.exists(path) for path in old)


def test_a_segment_that_does_not_fit_is_refused() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for _ in range(100):
        append(log, (b"k", b"v" * 50))
    sync(log)
    run = list(log.segments)[:2]
    other = Segment.cleaned(log.log_dir.pool, log.directory, run[0].base_offset, 300)
    with pytest.raises(InvariantError):
        log.swap_in(run, other)
    assert log.swap.count == 0
    assert len(headers_in(log)) == 100


def test_without_the_order_of_the_steps_records_are_lost() -> None:
    async def go() -> None:
        world = World(wrapped=CompactedUnsynced)
        await two_runs(world)
        await world.logs.stop(clean=False)
        with pytest.raises(AssertionError, match="ends at offset"):
            await judge(world, world.images)

    run_inline(go())


@pytest.mark.parametrize("kind", ["records", "hole"])
def test_no_segment_is_removed_on_the_word_of_a_rotten_header(kind: str) -> None:
    """Once its index is gone, only the last batch says where a segment ends; a flipped bit may make
    that the end of what follows, as if compaction had put all of it into this one."""
    files = MemoryFiles("/data")
    log = make_log(files, WIDE)
    first = bytes(hole(0, 8, 0, NOW_MS)) if kind == "hole" else follower_batches((0, 8, 0))
    for data in (first, follower_batches((8, 8, 0)), follower_batches((16, 8, 0))):
        log.append_as_follower(memoryview(data))
        log.roll()
    sync(log)
    paths = [segment.path for segment in log.segments]
    log.close()
    for name in files.list_dir(log.directory):
        if name.endswith("index"):
            files.remove(f"{log.directory}/{name}")
    files.corrupt(paths[0], 26, 8)  # a last offset delta of 15 instead of 7
    again = reload_log(files, WIDE, recovery_point=24)
    assert again.damage
    assert all(files.exists(path) for path in paths)
