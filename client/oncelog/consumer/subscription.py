"""What a consumer reads and where it stands in each partition. Pure.

Rules
-----
* Two positions a partition: ``position`` is what the application gets next, ``fetch_offset`` what
  is asked of the leader next; between them lie the chunks that were fetched in advance. Only
  handing out moves the first one.
* ``version`` grows with every seek and every loss of position: what was asked under an older
  version is thrown away when it arrives.
* A partition without a position has a ``reset`` that says how to find one.
* A partition that is *withheld* is not fetched and nothing of it is handed out: it is about to be
  given up, or the application has not yet heard that it has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from oncelog.config import ResetOption, parse_reset
from oncelog.consumer.isolation import Sieve
from oncelog.errors import ClientError
from oncelog_protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH, TopicPartition


@dataclass(frozen=True, slots=True)
class Reset:
    """How to find a position."""

    kind: Literal["earliest", "latest", "committed", "by_duration"]
    duration_ms: int = 0

    EARLIEST: ClassVar[Reset]
    LATEST: ClassVar[Reset]
    COMMITTED: ClassVar[Reset]
    """What the group has committed; where that is nothing, as the policy says."""

    def timestamp(self, now_ms: int) -> int:
        """What to ask ListOffsets for."""
        if self.kind == "by_duration":
            return max(now_ms - self.duration_ms, 0)
        return EARLIEST_TIMESTAMP if self.kind == "earliest" else LATEST_TIMESTAMP


Reset.EARLIEST = Reset("earliest")
Reset.LATEST = Reset("latest")
Reset.COMMITTED = Reset("committed")


def reset_of(policy: ResetOption) -> Reset | None:
    """The policy as a way to find a position; None when it forbids that."""
    kind, duration_ms = parse_reset(policy)
    if kind == "by_duration":
        return Reset("by_duration", duration_ms)
    return {"earliest": Reset.EARLIEST, "latest": Reset.LATEST}.get(kind)


@dataclass(slots=True)
class Chunk:
    """Whole batches of one partition as they came, not yet decoded."""

    data: memoryview
    start: int
    """Where in ``data`` the next batch begins."""
    version: int
    sieve: Sieve | None = None
    """What of it is not handed out; None: all of it is."""
    end: tuple[int, int] | None = None
    """(offset, epoch) behind it, if what followed it in the log is not handed out."""

    @property
    def left(self) -> int:
        """Bytes not yet handed out."""
        return len(self.data) - self.start


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition of the assignment."""

    tp: TopicPartition
    reset: Reset | None = None
    offset: int | None = None
    """The position, apart from what is being handed out at this moment (see Cursor)."""
    epoch: int = NO_EPOCH
    """The leader epoch of the last record before the position; -1 when not known."""
    fetch_offset: int = 0
    fetch_epoch: int = NO_EPOCH
    version: int = 0
    paused: bool = False
    withheld: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    buffered: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    retry_at: float = 0.0
    trouble_since: float | None = None
    """Since when every answer was an error."""
    error: BaseException | None = None
    """What the application is told when it comes to this partition."""
    origin: tuple[int, int] | None = None
    """(offset, epoch) where reading began, or begins if the group has nothing committed."""

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """The application reads from ``offset`` next; everything fetched is dropped."""
        self._drop()
        self.reset, self.offset, self.epoch = None, offset, epoch
        self.fetch_offset, self.fetch_epoch = offset, epoch

    def lose(self, reset: Reset) -> None:
        """The position is to be found anew."""
        self._drop()
        self.reset, self.offset, self.epoch = reset, None, NO_EPOCH

    def _drop(self) -> None:
        self.version += 1
        self.chunks.clear()
        self.buffered = 0
        self.error = None
        self.trouble_since = None
        self.retry_at = 0.0

    def advance(self, offset: int, epoch: int) -> None:
        """Everything below ``offset`` was handed out; ``epoch`` is of the batch before it."""
        self.offset = offset
        self.epoch = epoch

    def fetched(
        self, data: memoryview, next_offset: int, epoch: int, sieve: Sieve | None = None
    ) -> None:
        """``data`` continues at the fetch offset and ends before ``next_offset``."""
        self.chunks.append(Chunk(data, 0, self.version, sieve))
        self.buffered += len(data) if sieve is None else len(data) + sieve.size
        self.fetch_offset, self.fetch_epoch = next_offset, epoch

    @property
    def has_data(self) -> bool:
        """Whether something can be handed out now: records, or an error."""
        if self.paused or self.withheld:
            return False
        return bool(self.chunks) or self.error is not None


class Subscription:
    """The assignment of one consumer; partitions take turns."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self._turns: deque[PartitionState] = deque()
        self.departed: list[PartitionState] | None = None
        """What was assigned and is not any more; kept while somebody wants to know."""

    def assign(self, partitions: Iterable[TopicPartition], reset: Reset | None) -> None:
        """Replace the assignment; partitions that stay keep their positions."""
        wanted = dict.fromkeys(TopicPartition(*tp) for tp in partitions)
        before = self.states
        self.states = {
            tp: before[tp] if tp in before else PartitionState(tp, reset) for tp in wanted
        }
        for tp, state in before.items():
            if tp not in self.states:
                if self.departed is not None:
                    self.departed.append(state)
                state.version += 1
                state.chunks.clear()
                state.buffered = 0
        self._turns = deque(self.states.values())

    def add(self, tp: TopicPartition, reset: Reset | None) -> None:
        """One partition more."""
        state = self.states[tp] = PartitionState(tp, reset)
        self._turns.append(state)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Some partitions less; the others keep their positions and their turns."""
        gone = dict.fromkeys(partitions)
        self.assign([tp for tp in self.states if tp not in gone], None)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of an assigned partition.

        :raises ClientError: it is not assigned.
        """
        state = self.states.get(tp)
        if state is None:
            raise ClientError(f"{TopicPartition(*tp)} is not assigned to this consumer")
        return state

    def next_with_data(self) -> PartitionState | None:
        """The partition whose turn it is, among those with something to hand out."""
        turns = self._turns
        for _ in range(len(turns)):
            state = turns[0]
            turns.rotate(-1)
            if state.has_data:
                return state
        return None

    def without_position(self) -> Sequence[PartitionState]:
        """The partitions that wait for a position."""
        return [state for state in self.states.values() if state.offset is None]

    @property
    def buffered(self) -> int:
        """Bytes fetched and not handed out."""
        return sum(state.buffered for state in self.states.values())
