"""A log moves to another directory: a crash comes at every step, and all that counted is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import Crash
from support.crash_judgement import judge, judge_interrupted_starts
from support.crash_points import STYLES, Scenario, World, play, run_inline
from support.logs import topic_config
from unsafe.log import CopiesUnsynced, LeavesUnmarked

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
DIRS = ("/data", "/data2")
LAZY = topic_config(segment_bytes=4096, flush="interval")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of recoveries have a lot to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def settled(world: World) -> None:
    """Wait until no move is under way."""
    for _ in range(10_000):
        await asyncio.sleep(0)
        if world.logs.moves.is_idle:
            return
    raise AssertionError("a move does not end")


async def idle(world: World) -> None:
    """Move a log that nobody writes to, there and back again."""
    await world.start()
    log = await world.create(A, "id-a")
    assert log.log_dir.path == "/data"
    world.append(log, 40, epoch=3)
    await world.sync()
    world.record()
    world.logs.moves.begin(A, "/data2", validate_only=False)
    await settled(world)
    assert log.directory == "/data2/a-0"
    world.append(log, 3, epoch=4)
    await world.sync()
    world.logs.moves.begin(A, "/data", validate_only=False)
    await settled(world)
    assert log.directory == "/data/a-0"
    world.append(log, 1, epoch=5)
    await world.sync()


async def written(world: World) -> None:
    """Move a log that is written, synced, cut and rolled all the time."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 30, epoch=0)
    await world.sync()
    await world.write_checkpoints()
    world.record()
    world.logs.moves.begin(A, "/data2", validate_only=False)
    turns = 0
    while not world.logs.moves.done:
        turns += 1
        await asyncio.sleep(0)
        if turns == 9:
            world.truncate(log, 17)
        if turns % 6 == 0 and turns < 120:
            world.append(log, 1, epoch=1 + turns // 40)
        if turns == 60:
            world.truncate(log, log.log_end_offset - 2)
        assert turns < 10_000
    await settled(world)
    assert log.directory == "/data2/a-0"
    await world.sync()
    world.append(log, 1, epoch=9)
    await world.sync()


SCENARIOS: dict[Scenario, int] = {idle: 60, written: 60}


def moved(
    scenario: Scenario, styles: tuple[Crash, ...] = STYLES, safeguards: LogSafeguards = SAFE
) -> World:
    return play(scenario, styles, log_dirs=DIRS, safeguards=safeguards)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_crash_point(scenario: Scenario) -> None:
    world = moved(scenario)
    print(f"{scenario.__name__}: {len(world.points)} points, {len(world.images)} distinct images")
    assert len(world.points) >= SCENARIOS[scenario]
    run_inline(judge(world, world.images))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_crash_point_of_a_start_after_some_crash(scenario: Scenario) -> None:
    assert judge_interrupted_starts(moved(scenario, (STYLES[0], STYLES[6])), 10) >= 5


def test_a_power_cut_shows_that_copies_must_be_synced_first() -> None:
    world = moved(idle, (STYLES[3],), CopiesUnsynced())
    with pytest.raises(AssertionError, match="log_damaged|ends at|is lost|offsets up to"):
        run_inline(judge(world, world.images))


async def new_records(world: World) -> None:
    """Records come between the change of place and the end of the old copy."""
    await world.start()
    log = await world.create(A, "id-a")
    world.append(log, 5, epoch=0)
    await world.sync()
    world.record()
    world.logs.moves.begin(A, "/data2", validate_only=False)
    for _ in range(10_000):
        await asyncio.sleep(0)
        if log.log_dir.path == "/data2":
            break
    world.append(log, 1, epoch=1)
    await world.sync()
    await settled(world)


def test_a_crash_shows_that_the_old_place_must_be_marked() -> None:
    run_inline(judge(world := moved(new_records, (STYLES[0],)), world.images))
    world = moved(new_records, (STYLES[0],), LeavesUnmarked())
    with pytest.raises(AssertionError, match="ends at offset|ends at|out of no state"):
        run_inline(judge(world, world.images))
