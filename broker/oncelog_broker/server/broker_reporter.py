"""This broker tells the controller what it holds: disks, replicas, and copies under way.

* It looks at everything every ``broker_report_interval_ms``. While partitions move of which it has
  replicas, or of whose coordinators it is the next one, it looks at those every second. An order
  that begins this hurries it.
* The first report to a controller tells of all replicas. The next ones tell of those whose figures
  have changed, and a broker at rest says next to nothing. When anything about a report failed, the
  next one begins anew.
* How fast a copy comes is the mean of some seconds, so that an estimate of its end does not jump.
* Thousands of replicas are looked at some a turn, and told of in pages, one after the other.
* Nothing is tried again before the next look, and nothing is said about a report that was not
  taken: the controller may be of a release that knows none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol, TypeAlias

from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.replication.partition import NOT_TOLD, Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.copy_rate import CopyRate
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol import limits
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    GONE,
    UNKNOWN,
    BrokerReportRequest,
    ReportedCopy,
    ReportedDirectory,
    ReportedTopic,
    ReportedWarm,
)
from oncelog_runtime.files import Files
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

MOVING_S = 1.0
"""The time between two looks while something here moves."""

LOOKS_APART_S = 0.2
"""Two looks are so far apart at least: rates over less say nothing."""

REPLICAS_PER_TURN = 250
"""One turn of the loop looks at so many replicas."""

ANSWER_S = 5.0
"""The controller may take so long to take a page."""


class ReportCalls(Protocol):
    """It is the way to the controller; ``ControllerChannel`` is one."""

    async def call_once(self, request: Request, *, timeout_s: float) -> Any:
        """Return the controller's response.

        :raises OSError, TimeoutError, OncelogError: there was none.
        """
        ...


class ReporterEpoch(Protocol):
    """It knows under which epoch the broker is registered; ``ControllerFence`` does."""

    @property
    def broker_epoch(self) -> int:
        """Return the czxid of the registration."""
        ...


class _Figures(NamedTuple):
    """It is what is told of one replica."""

    size: int
    in_rate: int
    out_rate: int
    directory: int


_NO_MORE = _Figures(GONE, 0, 0, 0)

_Table: TypeAlias = dict[tuple[str, int], _Figures]
"""Figures by topic id and number."""


class _Counts(NamedTuple):
    """It is what was counted of one replica, and when."""

    appended: int
    consumed: int
    at: float | None


class _LookedAt(NamedTuple):
    """It is what was seen in one walk over replicas: all of them, or those that move."""

    replicas: _Table
    copies: list[ReportedCopy]


class BrokerReporter:
    """It reports for one broker. It is made before the loop runs; ``run`` is its task."""

    def __init__(
        self,
        broker_id: int,
        *,
        files: Files,
        logs: LogManager,
        replicas: ReplicaManager,
        image: MetadataImage,
        epoch: ReporterEpoch,
        controller: ReportCalls,
        interval_ms: Callable[[], int],
        warm: Callable[[], list[tuple[str, int]]] = list,
    ) -> None:
        """``warm`` tells which partitions' coordinators this broker has read before it leads them,
        by topic id and number, in order."""
        self._broker_id = broker_id
        self._files = files
        self._logs = logs
        self._replicas = replicas
        self._image = image
        self._epoch = epoch
        self._controller = controller
        self._interval_ms = interval_ms
        self._warm = warm
        self._pause = Pause()
        self._stopped = False
        self._moving = False
        self._counted: dict[Partition, _Counts] = {}
        self._copy_rates: dict[Partition, CopyRate] = {}
        self._looked_at: float | None = None
        self._saw_all_at: float | None = None
        self._at_rest: list[ReportedCopy] = []
        """Copies of partitions that do not move, as of the last look at everything."""
        self._told: _Table | None = None
        """The controller knows this; None: nobody knows what it knows."""
        self._told_to: tuple[int, int] | None = None
        """The controller epoch, and the broker epoch, of what was told."""
        self._number = 0
        replicas.on_leadership.append(self._role_changed)

    async def run(self) -> None:
        """Report until ``stop``."""
        while not self._stopped:
            await self.report(everything=self._is_due())
            interval_s = self._interval_s()
            await self._pause.sleep(min(interval_s, MOVING_S) if self._moving else interval_s)
            if self._looked_at is not None:
                await asyncio.sleep(self._looked_at + LOOKS_APART_S - self._replicas.now())

    def hurry(self) -> None:
        """Look again soon."""
        self._pause.end()

    def stop(self) -> None:
        """Report no more."""
        self._stopped = True
        self._pause.end()

    def _role_changed(self, partition: Partition) -> None:
        if _is_changing(partition) and not self._moving:
            self._moving = True
            self._pause.end()

    def _interval_s(self) -> float:
        return self._interval_ms() / 1000

    def _is_due(self) -> bool:
        """Return whether everything is to be looked at. A timer may fire early, and a look every
        second is never late for a long interval by more than that."""
        if self._saw_all_at is None:
            return True
        return self._replicas.now() - self._saw_all_at >= self._interval_s() - LOOKS_APART_S / 2

    async def report(self, *, everything: bool = True) -> None:
        """Look once, at everything or at what moves, and tell what was seen. Who knows nothing is
        told everything."""
        to = (self._image.controller_epoch, self._epoch.broker_epoch)
        before = self._told if to == self._told_to else None
        self._told, self._told_to = None, to
        if everything or before is None:
            look = await self._look_at_all()
        else:
            look = await self._look_at_moves(before)
        try:
            taken = await self._tell(before, look)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.debug("report_not_taken", broker_id=self._broker_id, error=error)
        else:
            self._told = look.replicas if taken else None

    # ---- looking

    async def _look_at_all(self) -> _LookedAt:
        counted, self._counted = self._counted, {}
        rates, self._copy_rates = self._copy_rates, {}
        looked_at, self._saw_all_at = self._saw_all_at, self._replicas.now()
        self._moving = False
        moving, self._at_rest = list[ReportedCopy](), []
        replicas = await self._walk(
            self._replicas.partitions(), counted, rates, looked_at, moving, self._at_rest
        )
        return self._seen(replicas, moving)

    async def _look_at_moves(self, before: _Table) -> _LookedAt:
        partitions = [each for each in self._replicas.partitions() if _is_changing(each)]
        self._moving = bool(partitions)
        moving: list[ReportedCopy] = []
        counted, rates = self._counted, self._copy_rates
        replicas = await self._walk(partitions, counted, rates, self._saw_all_at, moving, [])
        return self._seen({**before, **replicas}, moving)

    def _seen(self, replicas: _Table, moving: list[ReportedCopy]) -> _LookedAt:
        return _LookedAt(replicas, [*moving, *self._at_rest][: limits.REPORT_REPLICAS_MAX])

    async def _walk(
        self,
        partitions: list[Partition],
        counted: dict[Partition, _Counts],
        rates: dict[Partition, CopyRate],
        looked_at: float | None,
        moving: list[ReportedCopy],
        at_rest: list[ReportedCopy],
    ) -> _Table:
        """Return the figures of replicas, and add what is a copy to one of the lists. What is new
        since ``looked_at`` was empty then."""
        now = self._looked_at = self._replicas.now()
        places = {each: place for place, each in enumerate(self._logs.dirs)}
        replicas: _Table = {}
        for number, partition in enumerate(partitions, start=1):
            log = partition.log
            before = counted.get(partition) or _Counts(0, 0, looked_at)
            counts = _Counts(log.appended_bytes, partition.consumed_bytes, now)
            self._counted[partition] = counts
            seconds = None if before.at is None else now - before.at
            in_rate = _rate(counts.appended - before.appended, seconds)
            is_copy = not partition.is_leader and self._is_out_of_sync(partition)
            mean: int | None = None
            if is_copy or partition.moves:
                rate = self._copy_rates[partition] = rates.get(partition) or CopyRate()
                rate.looked(now, log.appended_bytes)
                mean = rate.bytes_per_s
            replicas[partition.topic_id, partition.topic_partition.partition] = _Figures(
                log.size_bytes,
                in_rate if mean is None else mean,
                _rate(counts.consumed - before.consumed, seconds),
                places.get(log.log_dir, UNKNOWN),
            )
            self._moving |= _is_changing(partition)
            if is_copy:
                copies = moving if partition.moves else at_rest
                copies.append(self._copy(partition, UNKNOWN if mean is None else mean))
            if number % REPLICAS_PER_TURN == 0:
                await asyncio.sleep(0)
        return replicas

    def _is_out_of_sync(self, partition: Partition) -> bool:
        state = self._image.partition(partition.topic_partition)
        return (
            state is not None
            and state.topic_id == partition.topic_id
            and self._broker_id in state.replicas
            and self._broker_id not in state.isr
        )

    def _copy(self, partition: Partition, bytes_per_s: int) -> ReportedCopy:
        told, end = partition.leader_high_watermark, partition.log.log_end_offset
        return ReportedCopy(
            partition.topic_id,
            partition.topic_partition.partition,
            partition.leader_id,
            UNKNOWN if told == NOT_TOLD else max(told - end, 0),
            bytes_per_s,
            self._replicas.hindrance(partition),
        )

    def _directory(self, log_dir: LogDir) -> ReportedDirectory:
        total = free = UNKNOWN
        if log_dir.online:
            try:
                space = self._files.disk_space(log_dir.path)
                total, free = space.total_bytes, space.free_bytes
            except OSError:
                pass
        return ReportedDirectory(log_dir.path, total, free, log_dir.online)

    # ---- telling

    async def _tell(self, before: _Table | None, look: _LookedAt) -> bool:
        """Tell what is other than ``before``, or everything; return whether all of it was taken."""
        changes = _changes(before or {}, look.replicas)
        continues = ANEW if before is None else self._number
        page = dict(islice(changes, limits.REPORT_REPLICAS_MAX))
        while True:
            following = dict(islice(changes, limits.REPORT_REPLICAS_MAX))
            self._number += 1
            last = not following
            response = await self._controller.call_once(
                BrokerReportRequest(
                    self._broker_id,
                    self._epoch.broker_epoch,
                    self._number,
                    continues,
                    last,
                    [self._directory(each) for each in self._logs.dirs] if last else [],
                    _topics(page),
                    look.copies if last else [],
                    self._warm_by_topic() if last else [],
                ),
                timeout_s=ANSWER_S,
            )
            if response.error_code or last:
                return not response.error_code
            continues, page = self._number, following

    def _warm_by_topic(self) -> list[ReportedWarm]:
        warm = self._warm()[: limits.REPORT_REPLICAS_MAX]
        return [
            ReportedWarm(topic_id, [partition for _, partition in some])
            for topic_id, some in groupby(warm, key=lambda each: each[0])
        ]


def _is_changing(partition: Partition) -> bool:
    """Return whether the controller waits for news of a replica."""
    return partition.moves or partition.is_next_leader


def _rate(size_bytes: int, seconds: float | None) -> int:
    """Return bytes a second; -1 when it is not known since when they were counted."""
    return round(size_bytes / seconds) if seconds else UNKNOWN


def _changes(before: _Table, now: _Table) -> Iterator[tuple[tuple[str, int], _Figures]]:
    """Yield what is other than before; those that are gone come last."""
    for key, figures in now.items():
        if before.get(key) != figures:
            yield key, figures
    for key in before:
        if key not in now:
            yield key, _NO_MORE


def _topics(page: _Table) -> list[ReportedTopic]:
    """Return the columns of a page; replicas of one topic stand side by side in it."""
    topics: list[ReportedTopic] = []
    for topic_id, rows in groupby(page.items(), key=lambda row: row[0][0]):
        topic = ReportedTopic(topic_id, [], [], [], [], [])
        for (_, partition), figures in rows:
            topic.partitions.append(partition)
            topic.sizes.append(figures.size)
            topic.in_rates.append(figures.in_rate)
            topic.out_rates.append(figures.out_rate)
            topic.directories.append(figures.directory)
        topics.append(topic)
    return topics
