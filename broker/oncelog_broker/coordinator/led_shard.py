"""One shard is driven here while its partition is led: order, append, replay, replies.

Rules
-----
* One thing happens at a time, each to its end: operations, timers, the news that something is
  committed, unloading. If another comes up meanwhile (a reply may bring the next request at once,
  an append may move the high watermark), it is queued.
* Records are appended first and replayed then; a refused append replays nothing.
* A write is acknowledged, and a read told, once the high watermark is past what it rests on. A
  write that has not heard so in time, or not before the leadership ended, *may have happened*
  (REQUEST_TIMED_OUT); a read has not (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR).
* A coordinator that was deposed may not know it. It cannot commit: so a question that must not be
  answered from the past waits for a *barrier*, a record that says nothing, to be committed. One
  barrier serves all questions that came before it was written.
* An operation that cannot be carried out yet is delayed, with its caller, until the shard lets it
  go on; so many go on in one turn of the loop, right after what they have waited for.
* An exception that no operation means to raise harms that operation alone. One in ``replay`` means
  that memory and log differ: the shard is given up and read anew (``on_broken``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from oncelog_broker.coordinator.ports import KnowsLeaderEpoch, PartitionWriter, Timers
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord, Delay, Result
from oncelog_broker.coordinator.safeguards import CoordinatorSafeguards
from oncelog_broker.coordinator.timers import ShardTimers, TimerOperation
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    InvalidCommitOffsetSizeError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

T = TypeVar("T")

RESUMED_COUNT_MAX = 128
"""So many delayed operations go on in one turn of the loop: 10,000 may wait for one thing."""

_APPEND_REFUSALS = {
    NotLeaderOrFollowerError.code: NotCoordinatorError.code,
    FencedLeaderEpochError.code: NotCoordinatorError.code,
    UnknownTopicOrPartitionError.code: NotCoordinatorError.code,
    NotEnoughReplicasError.code: CoordinatorNotAvailableError.code,
    MessageTooLargeError.code: InvalidCommitOffsetSizeError.code,
    RecordListTooLargeError.code: InvalidCommitOffsetSizeError.code,
    # After a failed write nobody can say what the disk holds.
    StorageError.code: RequestTimedOutError.code,
}


class Shard(Protocol):
    """It is the state of one partition's keys. It is deterministic: what is durable follows from
    the records, in their order."""

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in one record: only this changes durable state, live and when loading. It must not
        fail and answers nobody; timers that it sets are held until all is loaded."""
        ...

    def loaded(self, now_s: float) -> Iterable[Result[Any]] | None:
        """Arm timers, as everything was replayed. The results that are returned are carried out, in
        order, with nobody to reply to. An exception counts as a failed load."""
        ...

    def unload(self, error_code: int) -> None:
        """Tell ``error_code`` to every caller that is parked: this broker coordinates these keys no
        more. The timers have ended."""
        ...


S = TypeVar("S", bound=Shard)

Reply = Callable[[T | None, int], None]
"""It is called once: with the value and 0, or with None and an error code. It must not raise."""


class ShardState(Enum):
    """A shard is LOADING, then ACTIVE or FAILED, at last UNLOADED."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """It could not be read; a new attempt follows."""
    UNLOADED = "unloaded"


@dataclass(slots=True, eq=False)
class _PendingCommit:
    """It is answered when ``offset`` is committed."""

    offset: int
    is_write: bool
    deadline_s: float
    finish: Callable[[int], None]
    done: bool = False


def append_refusal(error: ApiError) -> int:
    """Return what a caller is told when an append was refused; COORDINATOR_NOT_AVAILABLE by
    default."""
    return _APPEND_REFUSALS.get(error.code, CoordinatorNotAvailableError.code)


class LedShard(Generic[S]):
    """It owns a shard, and the order in which things happen to it."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        *,
        writer: PartitionWriter,
        make_shard: Callable[[int, Timers], S],
        commit_timeout_s: float,
        safeguards: CoordinatorSafeguards,
        on_broken: Callable[[LedShard[S]], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        """It is the present epoch, which grows while the leader stays (``leads_on``)."""
        self.state = ShardState.LOADING
        self.refusal_code = NO_ERROR
        """Callers are told this code in state FAILED."""
        self.end_offset = -1
        """All below this offset was loaded or appended."""
        self.timers = ShardTimers(self._timer_due)
        self.shard = make_shard(topic_partition.partition, self.timers)
        self._tell_epoch()
        self._writer = safeguards.writer(writer)
        self._commit_timeout_s = commit_timeout_s
        self._safeguards = safeguards
        self._behind_barrier: list[tuple[Callable[[S], Any], Reply[Any]]] = []
        self._barrier_under_way = False
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._events: deque[Callable[[], None]] = deque()
        self._running = False
        self._pending: deque[_PendingCommit] = deque()
        self._delayed: dict[Callable[[ApiError | None], None], Reply[Any]] = {}
        self._resumed: deque[Callable[[], None]] = deque()
        """These delayed operations are to go on."""
        self._timeout: asyncio.TimerHandle | None = None
        self._timeout_s = 0.0
        """The timer is due at this loop time. The timer itself is not asked: with uvloop, what is
        due within a millisecond has no time."""

    @property
    def serves(self) -> bool:
        """Return whether operations may run."""
        if self.state is ShardState.LOADING:
            return self._safeguards.serves_while_loading()
        return self.state is ShardState.ACTIVE

    @property
    def pending_count(self) -> int:
        """Return how many writes and reads wait for a commit."""
        return sum(not pending.done for pending in self._pending)

    def leads_on(self, leader_epoch: int) -> None:
        """Take over a newer epoch of the same leader, who was leader all the time."""
        self.leader_epoch = leader_epoch
        self._tell_epoch()

    def _tell_epoch(self) -> None:
        shard: object = self.shard
        if isinstance(shard, KnowsLeaderEpoch):
            shard.led_in(self.leader_epoch)

    # ---- loading

    def replay(self, records: Iterable[CoordinatorRecord]) -> None:
        """Take in records that were read back, in their order."""
        replay = self.shard.replay
        for record in records:
            if record.key != BARRIER.key:
                replay(record)

    def activate(self, end_offset: int) -> None:
        """Begin to serve, since all below ``end_offset`` was replayed. If ``loaded`` raises, that
        is passed on; the shard does not serve then."""
        results = list(self.shard.loaded(self._loop.time()) or ())
        self.end_offset = max(end_offset, self.end_offset)
        self.state = ShardState.ACTIVE
        for result in results:
            self._submit(partial(self._carry_out, result, _nobody))
        self.timers.start()

    def fail(self, error_code: int) -> None:
        """Note that the shard could not be loaded."""
        if self.state is ShardState.LOADING:
            self.state = ShardState.FAILED
            self.refusal_code = error_code

    # ---- serving

    def write(self, operation: Callable[[S], Result[T]], reply: Reply[T]) -> None:
        """See ``CoordinatorEngine.write``."""
        self._submit(partial(self._write, operation, reply))

    def read(self, operation: Callable[[S], T], reply: Reply[T]) -> None:
        """See ``CoordinatorEngine.read``."""
        self._submit(partial(self._read, operation, reply))

    def read_confirmed(self, operation: Callable[[S], T], reply: Reply[T]) -> None:
        """See ``CoordinatorEngine.read_confirmed``."""
        self._submit(partial(self._read_confirmed, operation, reply))

    def unload(self, error_code: int) -> None:
        """Stop running operations, as the leadership has ended; callers that wait are told in
        turn."""
        if self.state is ShardState.UNLOADED:
            return
        self.state = ShardState.UNLOADED
        self.timers.close()
        self._submit(partial(self._unload, error_code))

    # ---- one thing at a time

    def _submit(self, event: Callable[[], None]) -> None:
        self._events.append(event)
        if self._running:
            return
        self._running = True
        try:
            while self._events:
                try:
                    self._events.popleft()()
                except Exception:
                    logger.exception("coordinator_step_failed", partition=self.topic_partition)
        finally:
            self._running = False

    def _write(self, operation: Callable[[S], Result[T]], reply: Reply[T]) -> None:
        if not self.serves:
            return reply(None, NotCoordinatorError.code)
        try:
            result = operation(self.shard)
        except Exception as error:
            return reply(None, self._failure(error))
        self._carry_out(result, reply)

    def _read(self, operation: Callable[[S], T], reply: Reply[T]) -> None:
        if not self.serves:
            return reply(None, NotCoordinatorError.code)
        try:
            value = operation(self.shard)
        except Exception as error:
            return reply(None, self._failure(error))
        if self.end_offset < 0:
            return reply(value, NO_ERROR)

        def finish(code: int) -> None:
            reply(None if code else value, code)

        self._when_committed(False, finish)

    def _read_confirmed(self, operation: Callable[[S], T], reply: Reply[T]) -> None:
        if not self.serves:
            return reply(None, NotCoordinatorError.code)
        self._behind_barrier.append((operation, reply))
        if not self._barrier_under_way:
            self._write_barrier()

    def _write_barrier(self) -> None:
        """Write a barrier for all that wait now; whoever comes later waits for the next one."""
        waiting, self._behind_barrier = self._behind_barrier, []
        self._barrier_under_way = True

        def passed(_: object, error_code: int) -> None:
            self._barrier_under_way = False
            if error_code == RequestTimedOutError.code:
                error_code = CoordinatorNotAvailableError.code  # for a question that is definite
            for operation, reply in waiting:
                if error_code:
                    reply(None, error_code)
                else:
                    self.read(operation, reply)
            if self._behind_barrier:
                self._submit(self._write_barrier)

        self._write(lambda _: Result(self._safeguards.barrier(), True), passed)

    def _timer_due(self, operation: TimerOperation, again: Callable[[], None] | None) -> None:
        def reply(_value: None, error_code: int) -> None:
            if error_code and again is not None:
                again()

        self._submit(partial(self._write, lambda _: operation(), reply))

    def _failure(self, error: Exception) -> int:
        if isinstance(error, ApiError):
            return error.code
        logger.error(
            "coordinator_operation_failed",
            partition=self.topic_partition,
            error=error,
            exc_info=error,
        )
        return UnknownServerError.code

    def _carry_out(self, result: Result[T], reply: Reply[T]) -> None:
        """Append and replay the records of a result, and have it answered."""
        if result.delay is not None:
            reply = self._delay(result.delay, reply)
        if not result.records:
            if result.rests_on_log and self.end_offset >= 0:
                return self._when_committed(True, partial(_finish, result, reply))
            if result.on_committed is not None:
                result.on_committed()
            if result.reply is not None:
                reply(result.reply, NO_ERROR)
            return
        finish = partial(_finish, result, reply)
        try:
            end_offset = self._writer.append(
                self.topic_partition, self.leader_epoch, result.records
            )
        except ApiError as error:
            logger.info("coordinator_append_refused", partition=self.topic_partition, error=error)
            return finish(append_refusal(error))
        except Exception:
            logger.exception("coordinator_append_failed", partition=self.topic_partition)
            return finish(RequestTimedOutError.code)
        self.end_offset = max(end_offset, self.end_offset)
        try:
            self.replay(result.records)
        except Exception:
            logger.critical(
                "coordinator_replay_failed", partition=self.topic_partition, exc_info=True
            )
            finish(RequestTimedOutError.code)
            return self._on_broken(self)
        self._when_committed(True, finish)

    # ---- delayed operations

    def _delay(self, delay: Delay[T], reply: Reply[T]) -> Reply[T]:
        """Have the operation go on when it may. Return what is told if that comes to nothing, as
        the records before it are not committed."""

        def go_on(error: ApiError | None) -> None:
            if self._delayed.pop(go_on, None) is None:
                return
            self._resumed.append(partial(self._write, lambda _: delay.operation(error), reply))
            if len(self._resumed) == 1 and self._running:
                self._submit(self._run_resumed)
            elif len(self._resumed) == 1:
                self._loop.call_soon(self._submit, self._run_resumed)

        def refused(_value: T | None, error_code: int) -> None:
            if self._delayed.pop(go_on, None) is not None:
                delay.until.discard(go_on)
                reply(None, error_code)

        self._delayed[go_on] = reply
        delay.until.add(go_on)
        return refused

    def _run_resumed(self) -> None:
        for _ in range(min(len(self._resumed), RESUMED_COUNT_MAX)):
            self._submit(self._resumed.popleft())
        if self._resumed:
            self._loop.call_soon(self._submit, self._run_resumed)

    # ---- waiting for commits

    def _when_committed(self, is_write: bool, finish: Callable[[int], None]) -> None:
        """Have ``finish`` called when all that was appended so far is committed, or with what a
        caller is told if not."""
        deadline_s = self._loop.time() + self._commit_timeout_s
        pending = _PendingCommit(self.end_offset, is_write, deadline_s, finish)
        self._pending.append(pending)
        self._writer.when_committed(
            self.topic_partition, self.end_offset, partial(self._commit_heard, pending)
        )
        if self._timeout is None and not pending.done:
            self._arm(deadline_s)

    def _commit_heard(self, pending: _PendingCommit, error_code: int) -> None:
        self._submit(partial(self._settle, pending, error_code))

    def _settle(self, pending: _PendingCommit, error_code: int) -> None:
        if pending.done:
            return
        pending.done = True
        queue = self._pending
        while queue and queue[0].done:
            queue.popleft()
        if error_code == NO_ERROR:
            pending.finish(NO_ERROR)
        elif pending.is_write:
            pending.finish(RequestTimedOutError.code)
        elif error_code in (NotLeaderOrFollowerError.code, NotCoordinatorError.code):
            pending.finish(NotCoordinatorError.code)
        else:
            pending.finish(CoordinatorNotAvailableError.code)

    def _time_out(self) -> None:
        self._timeout = None
        now_s = max(self._loop.time(), self._timeout_s)
        late = []
        for pending in self._pending:
            if pending.deadline_s > now_s:
                break
            if not pending.done:
                late.append(pending)
        if late:
            logger.warning(
                "coordinator_answers_late",
                partition=self.topic_partition,
                answers=len(late),
                offset=late[-1].offset,
            )
        for pending in late:
            self._commit_heard(pending, RequestTimedOutError.code)
        if self._pending and self._timeout is None:
            self._arm(self._pending[0].deadline_s)

    def _arm(self, deadline_s: float) -> None:
        self._timeout_s = deadline_s
        self._timeout = self._loop.call_at(deadline_s, self._time_out)

    def _unload(self, error_code: int) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        for pending in list(self._pending):
            self._settle(pending, NotCoordinatorError.code)
        self.shard.unload(error_code)
        while self._resumed:
            self._resumed.popleft()()  # tells that this is not the coordinator any more
        delayed, self._delayed = self._delayed, {}
        for reply in delayed.values():
            reply(None, error_code)

    def __repr__(self) -> str:
        return (
            f"<LedShard {self.topic_partition} {self.state.value} epoch={self.leader_epoch}"
            f" end={self.end_offset}>"
        )


def _finish(result: Result[T], reply: Reply[T], error_code: int) -> None:
    """Tell the shard, then the caller, unless the shard answers it."""
    if error_code == NO_ERROR:
        if result.on_committed is not None:
            result.on_committed()
        if result.reply is not None:
            reply(result.reply, NO_ERROR)
        return
    if result.on_failure is not None:
        result.on_failure(error_code)
    if result.reply is not None or result.on_failure is None or result.delay is not None:
        reply(None, error_code)


def _nobody(_value: object, _error_code: int) -> None:
    """Drop the reply to what no request asked for."""
