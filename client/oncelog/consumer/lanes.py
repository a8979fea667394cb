"""Lanes decide which record may be handled now: they keep order within a lane, none between them.
Pure.

Rules
-----
* Records of one lane are handled one after the other, in the order in which they came. A lane is a
  key of a partition, a partition, or a single record, as the application wants it.
* A lane that has something to do is in exactly one state: *ready* (in line for a worker), *running*
  (a worker has its first record) or *parked* (its first record waits for its next attempt, and all
  behind it with it; no worker does).
* Lanes that are ready take turns, a record at a time: a busy key does not hold up the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from oncelog.consumer.done import DoneOffsets
from oncelog.consumer.outgoing import ProducerRecord
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import TopicPartitionState

Order = Literal["key", "partition", "none"]
UNDECODED = object()


class PartitionWork:
    """Records of one partition are counted here from its assignment to its loss."""

    __slots__ = ("begun", "bytes", "given_up", "offsets", "state", "topic_id", "tp", "undone")

    def __init__(self, state: TopicPartitionState) -> None:
        self.tp = state.tp
        self.state = state
        """Tells this assignment of the partition from a later one."""
        self.topic_id = state.topic_id
        """Tells this topic from a later one of its name."""
        self.offsets = DoneOffsets()
        self.begun = -1
        """The highest offset that a handler was given."""
        self.undone = 0
        """Records that are queued, running or parked."""
        self.bytes = 0
        """Of those."""
        self.given_up = False
        """Taken away: nothing new of it begins."""

    def take(self, offset: int, size: int) -> None:
        """Note that a record was handed out."""
        self.offsets.begin(offset)
        self.undone += 1
        self.bytes += size

    def begin(self, offset: int) -> None:
        """Note that a handler is given the record at ``offset``."""
        self.begun = max(self.begun, offset)

    def put_down(self, size: int) -> None:
        """Note that a record of ``size`` bytes is done, or forgotten."""
        self.undone -= 1
        self.bytes -= size

    def grow(self, size: int) -> None:
        """Note that a record takes more bytes than it did, or fewer if ``size`` is negative."""
        self.bytes += size

    def give_up(self) -> None:
        """Begin nothing new of it."""
        self.given_up = True


@dataclass(slots=True, eq=False)
class HandlerJob:
    """A job is one record on its way through the handler."""

    record: Record
    work: PartitionWork
    size: int
    attempts: int = 0
    payload: object = UNDECODED
    """The handler is given this."""
    abandoned: bool = False
    """Its worker was cancelled, for the partition goes and cannot wait any longer."""
    results: Sequence[ProducerRecord] | None = None
    """A run in transactions writes these for it, once it is handled."""

    def decoded(self, payload: object) -> None:
        """Keep what the handler is to be given."""
        self.payload = payload

    def begin_attempt(self) -> None:
        """Note that the handler is called, for the first time or again."""
        self.attempts += 1

    def abandon(self) -> None:
        """Note that the job's worker is cancelled, which is no failure."""
        self.abandoned = True

    def keep(self, results: Sequence[ProducerRecord], size: int) -> None:
        """Keep the records that are to be written for it, and the bytes that they take."""
        self.results = results
        self.grow(size)

    def grow(self, size: int) -> None:
        """Note that it takes more bytes than it did, or fewer if ``size`` is negative."""
        self.size += size
        self.work.grow(size)


class LaneState(Enum):
    """A lane is in one of the states that the module explains."""

    READY = "ready"
    RUNNING = "running"
    PARKED = "parked"
    OVER = "over"


@dataclass(slots=True, eq=False)
class HandlerLane:
    """The jobs of one lane must not overtake each other."""

    key: Hashable
    jobs: deque[HandlerJob] = field(default_factory=deque)
    state: LaneState = LaneState.READY


class Lanes:
    """Lanes that have something to do are kept here."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lanes: dict[Hashable, HandlerLane] = {}
        """By key of the lane; in the order in which they came to have something to do."""
        self._ready: deque[HandlerLane] = deque()

    @property
    def ready_count(self) -> int:
        """Return how many lanes are in line for a worker."""
        return len(self._ready)

    def add(self, job: HandlerJob) -> None:
        """Put a record in its lane."""
        key = self._lane_key(job.record)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = HandlerLane(key)
            self._ready.append(lane)
        lane.jobs.append(job)

    def take(self) -> HandlerLane | None:
        """Return the lane whose turn it is, to handle its first job; None when none is ready."""
        if not self._ready:
            return None
        lane = self._ready.popleft()
        lane.state = LaneState.RUNNING
        return lane

    def over(self, lane: HandlerLane) -> None:
        """Remove the first job of a running lane, which is over; the next one gets in line."""
        assert lane.state is LaneState.RUNNING
        lane.jobs.popleft()
        self._line_up(lane)

    def park(self, lane: HandlerLane) -> None:
        """Park a running lane, whose first job waits for its next attempt."""
        assert lane.state is LaneState.RUNNING
        lane.state = LaneState.PARKED

    def unpark(self, lane: HandlerLane) -> None:
        """Put a lane in line again when its wait is over, unless it was dropped meanwhile."""
        if lane.state is LaneState.PARKED:
            self._line_up(lane)

    def drop_but_gaps(self) -> list[HandlerJob]:
        """Forget and return jobs that have not begun, except those that fill gaps.

        A gap lies before a job that has begun, in a lane that is not parked. When the gaps are
        filled, all that has begun can be committed.
        """
        waiting = [lane for lane in self._lanes.values() if lane.state is LaneState.PARKED]
        held = frozenset(job for lane in waiting for job in lane.jobs)
        return self._drop(lambda job: job in held or job.record.offset > job.work.begun)

    def drop(self, works: list[PartitionWork] | None = None) -> list[HandlerJob]:
        """Forget and return the jobs of these partitions (default: of all) that are not running."""
        gone = None if works is None else frozenset(works)
        return self._drop(lambda job: gone is None or job.work in gone)

    def _drop(self, goes: Callable[[HandlerJob], bool]) -> list[HandlerJob]:
        dropped: list[HandlerJob] = []
        for lane in list(self._lanes.values()):
            head = lane.jobs[0]
            running = lane.state is LaneState.RUNNING
            kept: deque[HandlerJob] = deque()
            for job in lane.jobs:
                stays = (running and job is head) or not goes(job)
                (kept if stays else dropped).append(job)
            lane.jobs = kept
            if not kept:
                lane.state = LaneState.OVER
                del self._lanes[lane.key]
            elif kept[0] is not head and lane.state is LaneState.PARKED:
                self._line_up(lane)
        self._ready = deque(lane for lane in self._ready if lane.state is LaneState.READY)
        return dropped

    def _line_up(self, lane: HandlerLane) -> None:
        if lane.jobs:
            lane.state = LaneState.READY
            self._ready.append(lane)
        else:
            lane.state = LaneState.OVER
            del self._lanes[lane.key]

    def _lane_key(self, record: Record) -> Hashable:
        """Return the key of a record's lane. Equal keys are ordered within their partition only."""
        if self._order == "partition":
            return (record.topic, record.partition)
        if self._order == "key" and record.key is not None:
            return (record.topic, record.partition, record.key)
        return (record.topic, record.partition, record.offset, None)
