"""It enumerates every crash point of a scenario over logs.

A ``World`` runs a scenario once. Before each change of the disk it takes, for each style of crash,
an image of what would be left, and notes what the logs promise at that moment; the scenario goes
on. ``interrupted_starts`` does the same to the start over each image. ``crash_judgement`` judges.

``World.points`` counts: a scenario that enumerates nothing proves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from oncelog_broker.log.cleaner import find_work
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_state import next_sequence
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.crashes import (
    KILL,
    SECTOR_BYTES,
    Crash,
    first_operations,
    length_only,
    some_sectors,
)
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import NOW_MS, batch, follower_batches, topic_config
from support.room_settings import cleaner_settings, log_settings
from support.transactional_logs import TxnProducer
from support.waiting import at_once

__all__ = [
    "CONFIG",
    "STYLES",
    "Expectation",
    "Image",
    "InlineLoop",
    "Promise",
    "Scenario",
    "State",
    "World",
    "interrupted_starts",
    "play",
    "run_inline",
]

T = TypeVar("T")

CONFIG = topic_config(segment_bytes=4096, index_interval_bytes=600, retention_bytes=8192)
_BIG = 1 << 20

STYLES = (
    KILL,
    Crash("none", False, label="nothing unsynced"),
    Crash("all", False, label="data without new names"),
    Crash("none", True, label="names without new data"),
    Crash("all", lambda view: len(view.unsynced) - 1, label="all but the newest names"),
    Crash("all", lambda view: len(view.unsynced) // 2, label="half of the new names"),
    Crash(
        lambda view: first_operations(view, view.operations // 2, 90),
        True,
        label="half of the operations, the next one torn",
    ),
    Crash(
        lambda view: first_operations(view, view.operations - 1, 30),
        lambda view: len(view.unsynced) // 2,
        label="the last operation torn",
    ),
    Crash(length_only, True, label="lengths without data"),
    Crash(lambda view: some_sectors(view, lambda n: n % 2 == 0), True, label="even sectors"),
    Crash(lambda view: some_sectors(view, lambda n: n % 2 == 1), True, label="odd sectors"),
    Crash(
        lambda view: some_sectors(view, lambda n: n * SECTOR_BYTES < len(view.current), cut=False),
        True,
        label="new data, and behind it what a truncation had cut",
    ),
)


class InlineLoop(asyncio.SelectorEventLoop):
    """It runs jobs where they are submitted: one order of steps, the same each time."""

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run_inline(main: Coroutine[Any, Any, T]) -> T:
    """Do as ``asyncio.run`` does, with jobs of threads run inline."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(main)


class State(NamedTuple):
    """It is a log as it was at one moment; what retention deleted is still in it."""

    start: int
    end: int
    batches: dict[int, bytes]


@dataclass(slots=True)
class Lineage:
    """It is one life of one partition: from its creation to its deletion."""

    tp: TopicPartition
    topic_id: str
    states: list[State] = field(default_factory=lambda: [State(0, 0, {})])
    settled: int = 0
    """The state that was synced whole: what is older can no longer come back."""
    must_exist: bool = False
    may_exist: bool = True
    log: PartitionLog | None = None
    end_cap: int = _BIG
    """Offsets from here on are being given up."""
    kept: tuple[int, int] = (0, 0)
    """Promised ends, after a power cut and after a kill, while there is no log in memory."""
    start_floor: int = 0
    """No log start below this comes back: a checkpoint says so."""
    operation: Operation | None = None
    swaps: int = 0
    """Segments that compaction had replaced when the last state was noted."""

    def promised(self) -> tuple[int, int]:
        log = self.log
        if log is None:
            return self.kept
        durable = min(self.end_cap, log.synced_offset, log.recovery_point)
        return durable, min(self.end_cap, log.log_end_offset)


@dataclass(slots=True)
class Operation:
    """It may move the log's start; how far is known at its end."""

    start_before: int
    start_after: int = -1


class Promise(NamedTuple):
    """One lineage had promised this when an image was taken."""

    lineage: Lineage
    must_exist: bool
    may_exist: bool
    durable_end: int
    written_end: int
    first_state: int
    state_count: int
    start_floor: int
    start: int
    operation: Operation | None

    def kept_start(self) -> int:
        """Everything from here on is promised."""
        return max(self.start, self.operation.start_after) if self.operation else self.start


class Expectation(NamedTuple):
    """This must hold of an image."""

    point: str
    style: Crash
    promises: tuple[Promise, ...]
    clean_may: bool
    clean_must: bool


@dataclass(slots=True)
class Image:
    """It is one distinct state of the disk after a crash, and everything that is expected of it."""

    files: MemoryFiles
    expectations: list[Expectation]


class World:
    """It runs a scenario and takes images at each of its changes of the disk."""

    def __init__(
        self,
        styles: tuple[Crash, ...] = STYLES,
        files: MemoryFiles | None = None,
        wrapped: Callable[[MemoryFiles], Any] = lambda disk: disk,
        log_dirs: tuple[str, ...] = ("/data",),
        safeguards: LogSafeguards = SAFE,
    ) -> None:
        self.files = files or MemoryFiles(*log_dirs)
        self.log_dirs = log_dirs
        self.safeguards = safeguards
        self.styles = styles
        self.wrapped = wrapped
        """What logs are given as their disk."""
        self.images: dict[object, Image] = {}
        self.points: list[str] = []
        self.lineages: list[Lineage] = []
        self.clock = ManualClock(NOW_MS)
        self.clean_may = self.clean_must = False
        self.logs: LogManager = self.manager(self.files)
        self._recording = False

    def manager(self, files: MemoryFiles) -> LogManager:
        logs = LogManager(
            files=self.wrapped(files),
            clock=self.clock,
            entropy=SeededEntropy(3),
            config=log_settings(
                log_dirs=self.log_dirs,
                headroom_bytes=0,
                # A scenario says when a lazy log is synced; the machine's clock does not.
                flush_interval_ms=3_600_000,
                cleaner=cleaner_settings(enable=False, cpu_percent=100),
            ),
            broker_id=1,
            safeguards=self.safeguards,
        )
        logs.set_high_watermark_source(
            lambda: {log.topic_partition: log.synced_offset for log in logs.all()}
        )
        return logs

    # ---- what a scenario does

    def record(self) -> None:
        """From here on each change of the disk is a crash point."""
        self.files.before_change = self._take

    async def start(self) -> None:
        """Start a broker's logs over the disk."""
        self.clean_must = False
        self.logs = self.manager(self.files)
        await self.logs.start("cluster")
        self.clean_may = False
        for lineage in self.lineages:
            if lineage.may_exist:
                lineage.log, lineage.swaps = self.logs.get(lineage.tp), 0
                assert lineage.log is not None
                lineage.log.reconfigure(CONFIG)

    async def stop(self, broker_epoch: int = 7) -> None:
        """Stop them cleanly."""
        self.clean_may = True
        # The end is the end now, whatever of it is synced already.
        promised = {lineage.tp: lineage.promised() for lineage in self.live()}
        await self.logs.stop(clean=True, broker_epoch=broker_epoch)
        self.clean_must = True
        for lineage in self.live():
            durable, written = lineage.promised()
            assert written == durable == promised[lineage.tp][1]
            lineage.kept, lineage.log = (durable, written), None
            self._settle(lineage)

    async def create(
        self, tp: TopicPartition, topic_id: str, config: TopicConfig = CONFIG
    ) -> PartitionLog:
        """Create a partition; not durable before :meth:`sync`."""
        lineage = Lineage(tp, topic_id)
        self.lineages.append(lineage)
        lineage.log = self.logs.create(tp, topic_id, config)
        return lineage.log

    def append(self, log: PartitionLog, count: int, epoch: int, value_bytes: int = 200) -> None:
        """Append batches of one record, as leader."""
        lineage = self._of(log)
        for _ in range(count):
            value = b"%s %d in %d " % (
                log.topic_partition.topic.encode(),
                log.log_end_offset,
                epoch,
            )
            producer = _next_producer(log, epoch)
            data = batch(value + b"." * (value_bytes - len(value)), producer=producer)
            assert not log.append_as_leader(data, epoch).repeated
            self._wrote(lineage, data)

    def replicate(self, log: PartitionLog, *specs: tuple[int, int, int]) -> None:
        """Append batches of (base offset, records, epoch) in one call, as follower."""
        data = follower_batches(*specs)
        log.append_as_follower(data)
        self._wrote(self._of(log), data)

    def send(
        self,
        log: PartitionLog,
        producer: TxnProducer,
        count: int,
        epoch: int,
        keys: Sequence[bytes] | None = None,
    ) -> None:
        """Append batches of one record, of an open transaction or the next one, as leader."""
        for number in range(count):
            value = b"%d %d " % (producer.producer_id, log.log_end_offset) + b"." * 150
            key = None if keys is None else [keys[number % len(keys)]]
            append = producer.send(log, value, keys=key, leader_epoch=epoch)
            self._wrote(self._of(log), _written(log, append.base_offset))

    def end(self, log: PartitionLog, producer: TxnProducer, epoch: int, *, commit: bool) -> None:
        """Append a marker, as leader."""
        append = producer.end(log, commit=commit, leader_epoch=epoch)
        assert not append.repeated
        self._wrote(self._of(log), _written(log, append.base_offset))

    def committed(self, log: PartitionLog) -> None:
        """All that is synced is below the high watermark."""
        log.producers.committed(log.synced_offset)

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Cut, as a follower does."""
        lineage = self._of(log)
        lineage.end_cap = offset
        log.truncate_to(offset)
        last = lineage.states[-1]
        kept = {base: data for base, data in last.batches.items() if base < log.log_end_offset}
        lineage.states.append(State(last.start, log.log_end_offset, kept))
        lineage.end_cap = _BIG

    def start_anew(self, log: PartitionLog, offset: int) -> None:
        """Throw all away."""
        lineage = self._of(log)
        lineage.end_cap = 0
        lineage.start_floor = 0
        log.truncate_fully_and_start_at(offset)
        lineage.states.append(State(offset, offset, {}))
        lineage.end_cap = _BIG

    async def sync(self) -> None:
        """Let everything be synced; what is older than this can not come back."""
        for log_dir in self.logs.dirs:
            await log_dir.flusher.drain()
            assert log_dir.online
        for lineage in self.live():
            self._settle(lineage)
            lineage.must_exist = True

    async def fail_sync(self) -> None:
        """A sync fails, which stops the directory for good; then the process is killed."""
        self.files.fail("sync")
        for log_dir in self.logs.dirs:
            await log_dir.flusher.drain()
            assert not log_dir.online
        await self.logs.stop(clean=False)
        taker, self.files = self.files.before_change, self.files.reborn(KILL)
        self.files.before_change = taker

    async def write_checkpoints(self) -> None:
        """Write all checkpoints of the directories."""
        starts = {
            lineage.tp: lineage.log.log_start_offset
            for lineage in self.live()
            if lineage.log is not None
        }
        for log_dir in self.logs.dirs:
            assert await log_dir.write_checkpoints()
        for lineage in self.live():
            lineage.start_floor = starts[lineage.tp]

    def advance_log_start(self, log: PartitionLog, offset: int) -> None:
        """Give up records, as DeleteRecords does."""
        with_operation = self._of(log)
        with_operation.operation = Operation(log.log_start_offset, offset)
        log.advance_log_start(offset)
        with_operation.operation = None

    def append_keyed(self, log: PartitionLog, *keys: bytes, epoch: int) -> None:
        """Append a batch of records with these keys, as leader."""
        end = log.log_end_offset
        data = batch(*[b"%d" % (end + n) * 40 for n in range(len(keys))], keys=keys)
        log.append_as_leader(data, epoch)
        self._wrote(self._of(log), data)

    async def compact(self, log: PartitionLog) -> None:
        """One pass of the cleaner, over this log alone."""
        work = find_work(log, log.log_end_offset, self.clock.now_ms())
        assert work is not None
        assert await self.logs.cleaner.clean(work)
        self._note_swaps()

    def apply_retention(self) -> None:
        """Delete what the policy lets go."""
        for lineage in self.live():
            assert lineage.log is not None
            lineage.operation = Operation(lineage.log.log_start_offset)
        at_once(self.logs.apply_retention())
        for lineage in self.live():
            assert lineage.log is not None
            assert lineage.operation is not None
            lineage.operation.start_after = lineage.log.log_start_offset
            lineage.operation = None

    async def delete(self, log: PartitionLog) -> None:
        """Delete a partition."""
        lineage = self._of(log)
        lineage.kept, lineage.must_exist = lineage.promised(), False
        await self.logs.delete(log.topic_partition)
        lineage.may_exist, lineage.log = False, None

    def log(self, tp: TopicPartition) -> PartitionLog:
        """Return the log of a partition in its present life."""
        (log,) = [each.log for each in self.live() if each.tp == tp]
        assert log is not None
        return log

    def live(self) -> list[Lineage]:
        return [lineage for lineage in self.lineages if lineage.may_exist]

    # ---- inside

    def _of(self, log: PartitionLog) -> Lineage:
        (lineage,) = [each for each in self.lineages if each.log is log]
        return lineage

    def _wrote(self, lineage: Lineage, data: memoryview) -> None:
        last = lineage.states[-1]
        batches, end = dict(last.batches), last.end
        for position, header in iter_headers(data):
            batches[header.base_offset] = bytes(data[position : position + header.size_bytes])
            end = header.next_offset
        lineage.states.append(State(last.start, end, batches))

    def _settle(self, lineage: Lineage) -> None:
        lineage.settled = len(lineage.states) - 1

    def _note_swaps(self) -> None:
        """Compaction has replaced a segment: the log reads differently from now on."""
        for lineage in self.live():
            log = lineage.log
            if log is not None and log.swap.count != lineage.swaps:
                lineage.swaps = log.swap.count
                batches: dict[int, bytes] = {}
                for segment in log.segments:
                    data = log.log_dir.files.read_bytes(segment.path)
                    for position, header in iter_headers(data):
                        end = position + header.size_bytes
                        batches[header.base_offset] = data[position:end]
                last = lineage.states[-1]
                lineage.states.append(State(last.start, last.end, batches))

    def _take(self, operation: str, path: str) -> None:
        self._note_swaps()
        point = f"{len(self.points)}: before {operation} of {path}"
        self.points.append(point)
        promises = tuple([self._promise(lineage) for lineage in self.lineages])
        for style in self.styles:
            self._keep_image(Expectation(point, style, promises, self.clean_may, self.clean_must))

    def _promise(self, lineage: Lineage) -> Promise:
        durable, written = lineage.promised()
        log = lineage.log
        return Promise(
            lineage,
            lineage.must_exist,
            lineage.may_exist,
            durable,
            written,
            lineage.settled,
            len(lineage.states),
            lineage.start_floor,
            log.log_start_offset if log is not None else lineage.start_floor,
            lineage.operation,
        )

    def _keep_image(self, expectation: Expectation) -> None:
        style = expectation.style
        add_image(self.images, self.files.image(style), style, [expectation])


def _next_producer(log: PartitionLog, epoch: int) -> tuple[int, int, int]:
    """Id, epoch and sequence of the next batch: three producers take turns, with epochs that are
    the log's, so that cuts take back sequences, epochs and whole producers."""
    producer_id = 1 + log.log_end_offset // 6 % 3
    known = log.producers.state.producers.get(producer_id)
    if known is None or known.epoch < epoch:
        return producer_id, epoch, 0
    return producer_id, known.epoch, next_sequence(known.last_sequence)


def _written(log: PartitionLog, base_offset: int) -> memoryview:
    return memoryview(log.read(base_offset, 1, upto=log.log_end_offset))


def add_image(
    images: dict[object, Image],
    files: MemoryFiles,
    style: Crash,
    expectations: list[Expectation],
) -> None:
    """Keep an image, or what is expected of it if it is known."""
    key: object = tuple(files.contents().items())
    if style.killed:  # the same bytes, but not all of them synced
        key = (key, tuple(files.image("none").contents().items()))
    known = images.get(key)
    if known is None:
        images[key] = Image(files, list(expectations))
    else:
        known.expectations += expectations


Scenario = Callable[[World], Awaitable[None]]
"""It is what a broker does with its logs, from its start on."""


def play(scenario: Scenario, styles: tuple[Crash, ...] = STYLES, **given: Any) -> World:
    """Run a scenario once, and return its world with the images of all crashes.

    :param given: arguments of :class:`World`.
    """

    async def go() -> World:
        world = World(styles, **given)
        await scenario(world)
        world.files.before_change = None
        await world.logs.stop(clean=False)
        return world

    return run_inline(go())


async def interrupted_starts(
    world: World, styles: tuple[Crash, ...], one_in: int = 1
) -> dict[object, Image]:
    """Start over every image of a world, or one in so many, and take images at each change that
    the start makes."""
    inner: dict[object, Image] = {}
    for image in list(world.images.values())[::one_in]:
        files = image.files.image(KILL)
        files.before_change = _Interrupter(files, image.expectations, styles, inner)
        logs = world.manager(files)
        await logs.start("cluster")
        files.before_change = None
        await logs.stop(clean=False)
    return inner


class _Interrupter:
    """It takes images of a start that is interrupted."""

    def __init__(
        self,
        files: MemoryFiles,
        expectations: list[Expectation],
        styles: tuple[Crash, ...],
        images: dict[object, Image],
    ) -> None:
        self._files = files
        self._expectations = expectations
        self._styles = styles
        self._images = images

    def __call__(self, operation: str, path: str) -> None:
        here = f"start interrupted before {operation} of {path}"
        for style in self._styles:
            expected = [
                one._replace(
                    point=f"{one.point}, {one.style}; {here}",
                    style=one.style if style.killed else style,
                    clean_must=False,
                )
                for one in self._expectations
            ]
            add_image(self._images, self._files.image(style), style, expected)
