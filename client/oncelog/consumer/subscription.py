"""A consumer reads partitions, and has a position in each. Pure.

Rules
-----
* Two positions a partition: ``position`` is what the application gets next, ``fetch_offset`` what
  is asked of the leader next; between them lie the chunks that were fetched in advance. Only
  handing out moves the first one.
* ``version`` grows with every seek and every loss of position: what was asked under an older
  version is thrown away when it arrives.
* A partition without a position has a ``reset`` that says how to find one.
* A position is of the topic with its id, and of no other one that gets its name later.
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
    """A position is found in one of these ways."""

    kind: Literal["earliest", "latest", "committed", "by_duration"]
    duration_ms: int = 0

    EARLIEST: ClassVar[Reset]
    LATEST: ClassVar[Reset]
    COMMITTED: ClassVar[Reset]
    """The offset that the group has committed; where there is none, as the policy says."""

    def timestamp(self, now_ms: int) -> int:
        """Return the timestamp that ListOffsets is asked for."""
        if self.kind == "by_duration":
            return max(now_ms - self.duration_ms, 0)
        return EARLIEST_TIMESTAMP if self.kind == "earliest" else LATEST_TIMESTAMP


Reset.EARLIEST = Reset("earliest")
Reset.LATEST = Reset("latest")
Reset.COMMITTED = Reset("committed")


def reset_of(policy: ResetOption) -> Reset | None:
    """Return the policy as a way to find a position; None when it forbids that."""
    kind, duration_ms = parse_reset(policy)
    if kind == "by_duration":
        return Reset("by_duration", duration_ms)
    return {"earliest": Reset.EARLIEST, "latest": Reset.LATEST}.get(kind)


@dataclass(slots=True)
class Chunk:
    """A chunk holds whole batches of one partition as they came, not yet decoded."""

    data: memoryview
    start: int
    """The next batch begins at this index of ``data``."""
    version: int
    sieve: Sieve | None = None
    """The sieve says which records are not handed out; None: all of them are."""
    end: tuple[int, int] | None = None
    """(offset, epoch) behind it, if what followed it in the log is not handed out."""

    @property
    def left(self) -> int:
        """Return how many bytes are not handed out yet."""
        return len(self.data) - self.start


@dataclass(slots=True, eq=False)
class TopicPartitionState:
    """An assigned partition has this state."""

    tp: TopicPartition
    reset: Reset | None = None
    by_hand: bool = False
    """The application has assigned it by itself: nothing but the application moves it elsewhere."""
    topic_id: str = ""
    """The id of the topic that the position is of; "" if it is not known, or if there is none."""
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
    answers: int = 0
    """How many answers of its leader were no errors."""
    trouble_since: float | None = None
    """Every answer since this time was an error."""
    doubted: int | None = None
    """Offset of a batch that did not hold: it is asked for once more, alone, which makes the leader
    look at it."""
    error: BaseException | None = None
    """The error that the application is told when it comes to this partition."""
    former: bool = False
    """Its position was of a topic that was deleted; what it is to find is one in the new topic."""
    origin: tuple[int, int] | None = None
    """(offset, epoch) where reading began, or begins if the group has nothing committed."""

    # ------------------------------------------------------------------------------ position

    def seek(self, offset: int, epoch: int = NO_EPOCH, topic_id: str | None = None) -> None:
        """Read ``offset`` next, in the topic with this id if it is given; drop what was fetched."""
        self._drop()
        self.reset, self.offset, self.epoch = None, offset, epoch
        self.fetch_offset, self.fetch_epoch = offset, epoch
        if topic_id is not None:
            self.topic_id = topic_id

    def found(self, offset: int, epoch: int, topic_id: str) -> None:
        """Note the position that was found, where reading begins."""
        self.seek(offset, epoch, topic_id)
        self.former = False
        self.origin = (offset, epoch)

    def lose(self, reset: Reset | None, origin: tuple[int, int] | None = None) -> None:
        """Forget the position; without a committed one reading begins at ``origin``."""
        self._drop()
        self.reset, self.offset, self.epoch = reset, None, NO_EPOCH
        self.topic_id = ""
        if origin is not None:
            self.origin = origin

    def find_by(self, reset: Reset) -> None:
        """Find the position in another way, as the group has committed nothing."""
        self.reset = reset

    def made_again(self, reset: Reset | None) -> None:
        """Find a position in the topic that was made again after it had been deleted."""
        self.origin = None
        self.lose(reset)
        self.former = True

    def gone(self, error: BaseException) -> None:
        """Wait for the application to move the position, as the topic was made again."""
        self.origin = None
        self.lose(None)
        self.error = error

    def of_topic(self, topic_id: str) -> None:
        """Note that the position belongs to the topic with this id."""
        self.topic_id = topic_id

    def _drop(self) -> None:
        self.version += 1
        self.chunks.clear()
        self.buffered = 0
        self.error = None
        self.trouble_since = None
        self.retry_at = 0.0

    def advance(self, offset: int, epoch: int) -> None:
        """Note that all below ``offset`` was handed out; ``epoch`` is of the batch before it."""
        self.offset = offset
        self.epoch = epoch

    # ------------------------------------------------------------------------------ handing out

    def pause(self) -> None:
        """Stop handing out records, as the application wants it."""
        self.paused = True

    def resume(self) -> None:
        """Go on handing out records, as the application wants it."""
        self.paused = False

    def withhold(self) -> None:
        """Let the partition be neither fetched nor handed out."""
        self.withheld = True

    def release(self) -> None:
        """End the withholding, as the application knows that it has the partition."""
        self.withheld = False

    def consume(self, size: int) -> None:
        """Remove a batch of ``size`` bytes from the buffer."""
        chunk = self.chunks[0]
        chunk.start += size
        if not chunk.left:
            self.chunks.popleft()
            if chunk.sieve is not None:
                size += chunk.sieve.size
        self.buffered -= size

    def put_back(self, data: memoryview, end: tuple[int, int]) -> None:
        """Put a batch back in front that was not handed out whole."""
        self.chunks.appendleft(Chunk(data, 0, self.version, end=end))
        self.buffered += len(data)

    def drop_fetched(self) -> None:
        """Drop what was fetched in advance; an error stays."""
        assert self.offset is not None
        error = self.error
        self.seek(self.offset, self.epoch)
        self.error = error

    def doubt(self) -> bool:
        """Note that the batch at the position is corrupt.

        Return whether the leader was asked for it again already; else it will be.
        """
        assert self.offset is not None
        self.seek(self.offset, self.epoch)
        asked_again = self.doubted == self.offset
        self.doubted = None if asked_again else self.offset
        return asked_again

    def fail(self, error: BaseException) -> None:
        """Tell the application when it comes to this partition."""
        self.error = error

    def take_error(self) -> BaseException:
        """Return the error that is told now; going on afterwards tries again from the position."""
        error = self.error
        assert error is not None
        if self.offset is not None:
            self.seek(self.offset, self.epoch)
        else:
            self.error = None
            self.retry_at = 0.0
        return error

    # ------------------------------------------------------------------------------ fetching

    def answered(self, high_watermark: int, log_start_offset: int) -> None:
        """Note that the leader has answered without an error."""
        self.trouble_since = None
        self.answers += 1
        self.high_watermark = max(high_watermark, -1)
        self.log_start_offset = log_start_offset

    def retry_after(self, when: float) -> None:
        """Fetch nothing before this time of the loop."""
        self.retry_at = when

    def in_trouble(self, now: float) -> None:
        """Note that nothing can be fetched, since now or since before."""
        if self.trouble_since is None:
            self.trouble_since = now

    def trouble_told(self, now: float) -> None:
        """Note that the application has heard of the trouble: its time counts from now on again."""
        self.trouble_since = now

    def fetched(
        self, data: memoryview, next_offset: int, epoch: int, sieve: Sieve | None = None
    ) -> None:
        """Take in ``data``, which begins at the fetch offset and ends before ``next_offset``."""
        self.chunks.append(Chunk(data, 0, self.version, sieve))
        self.buffered += len(data) if sieve is None else len(data) + sieve.size
        self.fetch_offset, self.fetch_epoch = next_offset, epoch

    @property
    def has_data(self) -> bool:
        """Return whether something can be handed out now: records, or an error."""
        if self.paused or self.withheld:
            return False
        return bool(self.chunks) or self.error is not None


class Subscription:
    """The subscription holds the assignment of one consumer; partitions take turns."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, TopicPartitionState] = {}
        self.unasked: dict[TopicPartitionState, None] = {}
        """Where these begin was found in advance: the application has asked for no record since."""
        self._turns: deque[TopicPartitionState] = deque()
        self.departed: list[TopicPartitionState] | None = None
        """What was assigned and is not any more; kept while somebody wants to know."""

    def keep_departed(self) -> None:
        """Keep what is taken away from now on."""
        self.departed = []

    def forget_departed(self) -> None:
        """Forget what was taken away, and keep no more of it."""
        self.departed = None

    def assign(
        self, partitions: Iterable[TopicPartition], reset: Reset | None, *, by_hand: bool = False
    ) -> None:
        """Replace the assignment; partitions that stay keep their positions."""
        wanted = dict.fromkeys(TopicPartition(*tp) for tp in partitions)
        before = self.states
        self.states = {
            tp: before[tp] if tp in before else TopicPartitionState(tp, reset, by_hand)
            for tp in wanted
        }
        for tp, state in before.items():
            if tp not in self.states:
                if self.departed is not None:
                    self.departed.append(state)
                state.version += 1
                state.chunks.clear()
                state.buffered = 0
                self.unasked.pop(state, None)
        self._turns = deque(self.states.values())

    def found(self, state: TopicPartitionState, offset: int, epoch: int, topic_id: str) -> None:
        """Note the position that was found, where reading begins."""
        state.found(offset, epoch, topic_id)
        self.unasked[state] = None

    def asked(self) -> None:
        """Note that the application has asked for records: it begins where positions were found."""
        self.unasked.clear()

    def chosen(self, state: TopicPartitionState) -> None:
        """Note that the application chooses the position itself."""
        self.unasked.pop(state, None)

    def add(self, tp: TopicPartition, reset: Reset | None) -> None:
        """Add one partition."""
        state = self.states[tp] = TopicPartitionState(tp, reset)
        self._turns.append(state)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove some partitions; the others keep their positions and their turns."""
        gone = dict.fromkeys(partitions)
        self.assign([tp for tp in self.states if tp not in gone], None)

    def state(self, tp: TopicPartition) -> TopicPartitionState:
        """Return the state of a partition; raise ClientError when it is not assigned."""
        state = self.states.get(tp)
        if state is None:
            raise ClientError(f"{TopicPartition(*tp)} is not assigned to this consumer")
        return state

    def next_with_data(self) -> TopicPartitionState | None:
        """Return the next partition in turn that has something to hand out, or None."""
        turns = self._turns
        for _ in range(len(turns)):
            state = turns[0]
            turns.rotate(-1)
            if state.has_data:
                return state
        return None

    def without_position(self) -> Sequence[TopicPartitionState]:
        """Return the partitions that wait for a position."""
        return [state for state in self.states.values() if state.offset is None]

    @property
    def buffered(self) -> int:
        """Return how many bytes were fetched and not handed out."""
        return sum(state.buffered for state in self.states.values())
