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
from collections.abc import Hashable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Literal

from oncelog.consumer.done import DoneOffsets
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import PartitionState

if TYPE_CHECKING:
    from oncelog.consumer.outgoing import ProducerRecord

Order = Literal["key", "partition", "none"]
UNDECODED = object()


class PartitionWork:
    """What is under way of one partition, from its assignment to its loss."""

    __slots__ = ("bytes", "given_up", "offsets", "state", "tp", "undone")

    def __init__(self, state: PartitionState) -> None:
        self.tp = state.tp
        self.state = state
        """Tells this assignment of the partition from a later one."""
        self.offsets = DoneOffsets()
        self.undone = 0
        """Records that are queued, running or parked."""
        self.bytes = 0
        """Of those."""
        self.given_up = False
        """Taken away: nothing new of it begins."""


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

    def drop(self, works: list[PartitionWork] | None = None) -> list[Job]:
        """Forget what is not running, of these partitions (default: of all); what it was."""
        gone = None if works is None else frozenset(works)
        dropped: list[Job] = []
        for lane in list(self._lanes.values()):
            head = lane.jobs[0]
            running = lane.state is LaneState.RUNNING
            kept: deque[Job] = deque()
            for job in lane.jobs:
                stays = (running and job is head) or (gone is not None and job.work not in gone)
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
