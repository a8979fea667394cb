"""It judges what a crash left of logs: see ``crash_points`` for what is taken when.

Every image is loaded by a real ``LogManager`` and must keep what the logs had promised. Rules:

- every offset that counted as synced is there, byte for byte, and nothing is called damaged;
- what is there is a run without holes out of one state that the log was in, since the last state
  that was durable whole: never a mixture of two;
- epochs say of each offset what its batch says, and producers are known as the batches tell of
  them [I14]; nothing is left over on the disk; what is deleted
  stays deleted; a clean stop is believed only while it is true;
- a power cut right after the start changes nothing more; writing goes on; a second start agrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oncelog_broker.log import checkpoint
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_snapshots import KEPT, SNAPSHOT_SUFFIX
from oncelog_broker.log.recovery import TRUNCATION_MARK
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import KILL
from oncelog_testing.memory.files import MemoryFiles
from support.crash_points import (
    CONFIG,
    STYLES,
    Expectation,
    Image,
    Promise,
    State,
    World,
    interrupted_starts,
    run_inline,
)
from support.logs import batch

__all__ = ["judge"]


class Found(NamedTuple):
    """It is one log after a start."""

    topic_id: str
    base: int
    start: int
    end: int
    batches: dict[int, bytes]
    epochs: list[tuple[int, int]]


@dataclass(slots=True)
class _Start:
    logs: LogManager
    found: dict[TopicPartition, Found]


async def judge(world: World, images: dict[object, Image]) -> None:
    """Load every image and hold it against what is expected of it."""
    judgement = _Judgement(world)
    for image in images.values():
        try:
            await judgement.pass_on(image)
        except Exception as error:
            first = image.expectations[0]
            raise AssertionError(
                f"crash point {first.point}, {first.style}"
                f" (one of {len(image.expectations)}): {error!r}"
            ) from error


def judge_interrupted_starts(world: World, one_in: int) -> int:
    """Interrupt starts over the images of a world, or one in so many, and judge the starts after
    those; return how many distinct images there were."""

    async def go() -> int:
        inner = await interrupted_starts(world, STYLES[:2], one_in)
        await judge(world, inner)
        return len(inner)

    return run_inline(go())


class _Judgement:
    """Recoveries end in few different states: what follows each of these is tried once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._after_power_cut: dict[object, _Start] = {}
        self._went_on: set[object] = set()

    async def pass_on(self, image: Image) -> None:
        files = image.files.image(KILL)
        first = await _start(self._world, files)
        for expectation in image.expectations:
            _check(expectation, first)
        durable = files.image("none")
        key = tuple(durable.contents().items())
        after = self._after_power_cut.get(key)
        if after is None:
            after = self._after_power_cut[key] = await _start(self._world, durable)
            assert not after.logs.was_clean
            await after.logs.stop(clean=False)
        assert after.found == first.found, (
            f"a power cut after the start changed the logs: {_brief(first)}, then {_brief(after)}"
        )
        whole_key = (key, tuple(files.contents().items()))
        if whole_key in self._went_on:
            await first.logs.stop(clean=False)
        else:
            self._went_on.add(whole_key)
            await self._go_on(files, first)

    async def _go_on(self, files: MemoryFiles, first: _Start) -> None:
        """Write, stop cleanly, start again."""
        written = _write_on(first)
        await first.logs.stop(clean=True, broker_epoch=8)
        again = await _start(self._world, files)
        assert again.logs.was_clean
        for tp, found in first.found.items():
            assert again.found[tp].batches == found.batches | written[tp]
            assert again.found[tp].start == found.start
        assert set(again.found) == set(first.found)
        _check_nothing_left_over(files, again)
        await again.logs.stop(clean=False)


def _brief(started: _Start) -> list[str]:
    return [
        f"{tp} {found.topic_id!r} [{found.start}, {found.end}) epochs {found.epochs}"
        for tp, found in started.found.items()
    ]


async def _start(world: World, files: MemoryFiles) -> _Start:
    logs = world.manager(files)
    await logs.start("cluster")
    for log_dir in logs.dirs:
        assert log_dir.online, log_dir.failure
    return _Start(logs, {log.topic_partition: _find(log) for log in logs.all()})


def _find(log: PartitionLog) -> Found:
    assert not log.needs_refetch, log.damage
    base = log.segments[0].base_offset
    batches: dict[int, bytes] = {}
    position = log.log_start_offset
    derived: list[tuple[int, int]] = []
    while position < log.log_end_offset:
        data = memoryview(log.read(position, 1 << 20, upto=log.log_end_offset))
        assert len(data), f"nothing to read at {position}"
        for start, header in iter_headers(data):
            assert header.base_offset <= position < header.next_offset
            batches[header.base_offset] = bytes(data[start : start + header.size_bytes])
            if not derived or derived[-1][0] != header.leader_epoch:
                derived.append((header.leader_epoch, position))
            position = header.next_offset
    assert base <= log.log_start_offset <= log.log_end_offset
    epochs = log.epochs.entries()
    # An epoch whose records are all deleted, or that has none yet, may be known at the end.
    written = [entry for entry in epochs if entry[1] < log.log_end_offset]
    assert written == derived, f"{log}: epochs {epochs}, the batches have {derived}"
    assert log.recovery_point == log.synced_offset == log.log_end_offset
    assert not (said := log.producers.contradiction()), f"{log}: {said}"
    return Found(log.topic_id, base, log.log_start_offset, log.log_end_offset, batches, derived)


def _check(expectation: Expectation, started: _Start) -> None:
    if started.logs.was_clean:
        assert expectation.clean_may, "a clean stop is believed that was none"
    else:
        assert not expectation.clean_must, "a clean stop is not believed"
    marks = started.logs.high_watermark_checkpoint()
    for tp in sorted({promise.lineage.tp for promise in expectation.promises}):
        found = started.found.get(tp)
        promises = [each for each in expectation.promises if each.lineage.tp == tp]
        if found is None:
            assert not any(each.must_exist for each in promises), f"{tp} is lost"
            continue
        assert marks.get(tp, 0) <= found.end
        alive = [each for each in promises if each.may_exist]
        assert alive, f"{tp} was deleted"
        candidates = [each for each in alive if found.topic_id in ("", each.lineage.topic_id)]
        assert candidates, f"{tp} has topic id {found.topic_id}"
        assert found.topic_id or not any(each.must_exist for each in candidates)
        for promise in candidates:
            _check_log(promise, expectation, found, started.logs.was_clean)
    assert set(started.found) <= {promise.lineage.tp for promise in expectation.promises}


def _check_log(promise: Promise, expectation: Expectation, found: Found, was_clean: bool) -> None:
    # One more than there were: an operation may be under way.
    states = promise.lineage.states[promise.first_state : promise.state_count + 1]
    assert any(_is_part_of(found, state) for state in states), (
        f"[{found.start}, {found.end}) is out of no state of the log:"
        f" {[(state.start, state.end) for state in states]}"
    )
    end = promise.written_end if expectation.style.killed else promise.durable_end
    if was_clean:
        end = promise.lineage.states[promise.state_count - 1].end
    start = promise.kept_start()
    if start < end:
        assert found.start <= start, f"starts at {found.start}, {start} was promised"
        assert found.end >= end, f"ends at {found.end}, {end} was promised"
    assert found.start >= min(promise.start_floor, found.end), (
        f"starts at {found.start}, offsets below {promise.start_floor} were deleted for good"
    )


def _is_part_of(found: Found, state: State) -> bool:
    if not state.start <= found.end <= state.end or found.base < state.start:
        return False
    return all(state.batches.get(base) == data for base, data in found.batches.items())


def _write_on(started: _Start) -> dict[TopicPartition, dict[int, bytes]]:
    written: dict[TopicPartition, dict[int, bytes]] = {}
    for log in started.logs.all():
        log.reconfigure(CONFIG)
        written[log.topic_partition] = batches = {}
        for _ in range(2):
            data = batch(b"written on" + b"." * 100)
            base = log.append_as_leader(data, log.latest_epoch() + 1).base_offset
            batches[base] = bytes(data)
    return written


def _check_nothing_left_over(files: MemoryFiles, started: _Start) -> None:
    """After a clean stop and a start, a directory holds what its logs need and nothing else."""
    expected = {
        f"{log_dir.path}/{name}"
        for log_dir in started.logs.dirs
        for name in (
            "",
            ".lock",
            checkpoint.META,
            checkpoint.CLEANER,
            checkpoint.CONTINUITY,
            checkpoint.LOG_START,
            checkpoint.RECOVERY_POINT,
            checkpoint.HIGH_WATERMARK,
        )
    }
    for log in started.logs.all():
        expected.add(log.directory + "/")
        names = [checkpoint.LEADER_EPOCH, checkpoint.PARTITION_META, TRUNCATION_MARK]
        expected.update(f"{log.directory}/{name}" for name in names)
        for segment in log.segments:
            stem = segment.path.removesuffix(".log")
            expected.update(
                stem + suffix for suffix in (".log", ".index", ".timeindex", ".txnindex")
            )
        snapshots = [name for name in files.contents() if name.startswith(log.directory + "/")]
        snapshots = [name for name in snapshots if name.endswith(SNAPSHOT_SUFFIX)]
        assert len(snapshots) <= 2 * KEPT
        expected.update(snapshots)
    strays = sorted(set(files.contents()) - expected)
    assert not strays, f"left over: {strays}"
