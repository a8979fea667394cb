"""Which record may be handled now: order within lanes, none between them. Pure.

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
from enum import Enum
from typing import Literal

from oncelog.consumer.done import DoneOffsets
from oncelog.consumer.outgoing import ProducerRecord
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import PartitionState

Order = Literal["key", "partition", "none"]
UNDECODED = object()


class PartitionWork:
    """Records of one partition are under way, from its assignment to its loss."""

    __slots__ = ("begun", "bytes", "given_up", "offsets", "state", "topic_id", "tp", "undone")

    def __init__(self, state: PartitionState) -> None:
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
        """A record was handed out."""
        self.offsets.begin(offset)
        self.undone += 1
        self.bytes += size

    def begin(self, offset: int) -> None:
        """A handler is given a record."""
        self.begun = max(self.begun, offset)

    def put_down(self, size: int) -> None:
        """A record is done, or forgotten."""
        self.undone -= 1
        self.bytes -= size

    def grow(self, size: int) -> None:
        """A record takes more than it did, or less."""
        self.bytes += size

    def give_up(self) -> None:
        """Begin nothing new of it."""
        self.given_up = True


class Job:
    """One record on its way through the handler."""

    __slots__ = ("abandoned", "attempts", "payload", "record", "results", "size", "work")

    def __init__(self, record: Record, work: PartitionWork, size: int) -> None:
        self.record = record
        self.work = work
        self.size = size
        self.attempts = 0
        self.payload: object = UNDECODED
        """What the handler is given."""
        self.abandoned = False
        """Its worker was cancelled, for the partition goes and cannot wait any longer."""
        self.results: Sequence[ProducerRecord] | None = None
        """What is to be written for it, once it is handled; of interest in transactions."""

    def decoded(self, payload: object) -> None:
        """The handler is given this."""
        self.payload = payload

    def begin_attempt(self) -> None:
        """The handler is called, for the first time or again."""
        self.attempts += 1

    def abandon(self) -> None:
        """Its worker is cancelled, and that is no failure."""
        self.abandoned = True

    def keep(self, results: Sequence[ProducerRecord], size: int) -> None:
        """These are to be written for it, and take so many bytes."""
        self.results = results
        self.grow(size)

    def grow(self, size: int) -> None:
        """It takes more than it did, or less."""
        self.size += size
        self.work.grow(size)


class LaneState(Enum):
    """See the module."""

    READY = "ready"
    RUNNING = "running"
    PARKED = "parked"
    OVER = "over"


class Lane:
    """Jobs that must not overtake each other."""

    __slots__ = ("jobs", "key", "state")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.jobs: deque[Job] = deque()
        self.state = LaneState.READY


class Lanes:
    """All lanes that have something to do."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lanes: dict[Hashable, Lane] = {}
        """By key of the lane; in the order in which they came to have something to do."""
        self._ready: deque[Lane] = deque()

    @property
    def ready_count(self) -> int:
        """Lanes in line for a worker."""
        return len(self._ready)

    def add(self, job: Job) -> None:
        """Put a record in its lane."""
        key = self._lane_key(job.record)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
            self._ready.append(lane)
        lane.jobs.append(job)

    def take(self) -> Lane | None:
        """The lane whose turn it is; its first job is handled now. None when none is ready."""
        if not self._ready:
            return None
        lane = self._ready.popleft()
        lane.state = LaneState.RUNNING
        return lane

    def over(self, lane: Lane) -> None:
        """The first job of a running lane is over; the next one gets in line."""
        assert lane.state is LaneState.RUNNING
        lane.jobs.popleft()
        self._line_up(lane)

    def park(self, lane: Lane) -> None:
        """The first job of a running lane waits."""
        assert lane.state is LaneState.RUNNING
        lane.state = LaneState.PARKED

    def unpark(self, lane: Lane) -> None:
        """The wait is over; nothing happens if the lane was dropped meanwhile."""
        if lane.state is LaneState.PARKED:
            self._line_up(lane)

    def drop_but_gaps(self) -> list[Job]:
        """Forget what has not begun, unless it lies before what has and nothing holds it up; what
        it was. What is left fills the gaps: all that has begun can be committed then."""
        waiting = [lane for lane in self._lanes.values() if lane.state is LaneState.PARKED]
        held = frozenset(job for lane in waiting for job in lane.jobs)
        return self._drop(lambda job: job in held or job.record.offset > job.work.begun)

    def drop(self, works: list[PartitionWork] | None = None) -> list[Job]:
        """Forget what is not running, of these partitions (default: of all); what it was."""
        gone = None if works is None else frozenset(works)
        return self._drop(lambda job: gone is None or job.work in gone)

    def _drop(self, goes: Callable[[Job], bool]) -> list[Job]:
        dropped: list[Job] = []
        for lane in list(self._lanes.values()):
            head = lane.jobs[0]
            running = lane.state is LaneState.RUNNING
            kept: deque[Job] = deque()
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

    def _line_up(self, lane: Lane) -> None:
        if lane.jobs:
            lane.state = LaneState.READY
            self._ready.append(lane)
        else:
            lane.state = LaneState.OVER
            del self._lanes[lane.key]

    def _lane_key(self, record: Record) -> Hashable:
        """Keys order within their partition only: that is where equal keys are."""
        if self._order == "partition":
            return (record.topic, record.partition)
        if self._order == "key" and record.key is not None:
            return (record.topic, record.partition, record.key)
        return (record.topic, record.partition, record.offset, None)
