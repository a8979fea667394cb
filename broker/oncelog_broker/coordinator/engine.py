"""The engine loads and unloads the shards of one internal topic as leaderships come and go.

A coordinator (of groups, of transactions) is a ``Shard`` class and operations on it. The engine
finds the shard of a key, reads it back, runs its operations one by one, writes their records and
holds their replies until the records are committed. That is the same for all coordinators.

Rules
-----
* A shard is there from one election to the end of that leadership, be it for a moment: then it is
  read anew from the log. Old news of epochs are ignored.
* Nothing is served before the whole partition was read [B29], in the order of the log, tombstones
  and all (KAFKA-5600). COORDINATOR_LOAD_IN_PROGRESS is said while that goes on and never else. A
  load that fails is begun again, after a pause, as long as the epoch holds (KAFKA-9307).
* Caches are rebuilt from the log only, never from a side file [K16]. A partition that this broker
  is to lead soon is read before: see ``shadows``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from oncelog_broker.coordinator.led_shard import LedShard, Reply, S, Shard, ShardState
from oncelog_broker.coordinator.ports import PartitionWriter, Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.shadows import REPLAY_COUNT_MAX, Shadows
from oncelog_protocol.coordinators import coordinator_partition
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

__all__ = ["CoordinatorEngine", "LedShard", "Reply", "Shard", "ShardState"]

logger = get_logger(__name__)

T = TypeVar("T")

RELOAD_S = 0.1
RELOAD_S_MAX = 10.0
"""A load that failed is repeated after a pause, which doubles up to this maximum."""


class CoordinatorEngine(Generic[S]):
    """It keeps the led shards of one internal topic.

    :param name: what it coordinates, for logs.
    :param make_shard: makes an empty shard of a partition; its timers are held until it is loaded.
    :param commit_timeout_ms: how long a reply waits for the high watermark.
    """

    def __init__(
        self,
        *,
        name: str,
        topic: str,
        writer: PartitionWriter,
        make_shard: Callable[[int, Timers], S],
        tasks: Tasks,
        commit_timeout_ms: int,
        safeguards: CoordinatorSafeguards = SAFE,
    ) -> None:
        self.name = name
        self.topic = topic
        self.partition_count: int | None = None
        """The topic has so many partitions; None as long as there is no such topic."""
        self.breakdowns = 0
        """Memory and log of a shard have differed so often. Each time is a defect."""
        self._writer = writer
        self._make_shard = make_shard
        self._tasks = tasks
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._safeguards = safeguards
        self._led: dict[int, LedShard[S]] = {}
        self._shadows: Shadows[S] = Shadows(
            name=name,
            topic=topic,
            writer=writer,
            make=self._make_led,
            tasks=tasks,
            safeguards=safeguards,
        )
        self._closed = False

    # ---- which shard

    def set_partition_count(self, count: int | None) -> None:
        """Take over from the cluster's metadata how many partitions the topic has; None if it does
        not exist. A count that changes is logged as an error."""
        if count != self.partition_count and None not in (count, self.partition_count):
            logger.error(
                "coordinator_topic_grew",
                coordinator=self.name,
                topic=self.topic,
                before=self.partition_count,
                after=count,
            )
        self.partition_count = count

    def refusal(self, key: str) -> int:
        """Return 0 when this broker coordinates ``key`` and has loaded it, or the error code that
        says why not: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, or COORDINATOR_NOT_AVAILABLE
        when its partition cannot be read."""
        led = self._led_for(key)
        return led if isinstance(led, int) else NO_ERROR

    @property
    def loading(self) -> bool:
        """Return whether some shard is being loaded."""
        return any(led.state is ShardState.LOADING for led in self._led.values())

    @property
    def led(self) -> list[LedShard[S]]:
        """Return the shards of this broker in whatever state, by partition."""
        return [self._led[partition] for partition in sorted(self._led)]

    @property
    def warm(self) -> list[int]:
        """Return the partitions that this broker does not lead yet, and could almost serve at
        once."""
        return self._shadows.warm

    def _led_for(self, key: str) -> LedShard[S] | int:
        if self.partition_count is None:
            return NotCoordinatorError.code
        return self._led_at(coordinator_partition(key, self.partition_count))

    def _led_at(self, partition: int) -> LedShard[S] | int:
        led = self._led.get(partition)
        if led is None:
            return NotCoordinatorError.code
        if led.serves:
            return led
        if led.state is ShardState.LOADING:
            return CoordinatorLoadInProgressError.code
        return led.refusal_code

    # ---- operations

    def write(self, key: str, operation: Callable[[S], Result[T]], reply: Reply[T]) -> None:
        """Run ``operation`` on the shard of ``key``, append the records of its result in one batch,
        replay them, and give its reply once they are committed.

        ``reply`` is called once, often before this returns: ``(value, 0)`` or ``(None, code)``. A
        refusal (the shard is not here, the operation raised an ApiError, the append was refused)
        has changed nothing, except REQUEST_TIMED_OUT: the records may yet be committed, and stay
        replayed if they were appended.

        A result without records is given at once. One whose ``reply`` is None has parked its
        caller, whom the shard answers itself: ``reply`` is not called then when its records are
        committed, ``on_committed`` is; and when they are not, ``on_failure`` is, with the code that
        the caller would get. (Only a result that has no ``on_failure`` either leaves that to
        ``reply``.)
        """
        led = self._led_for(key)
        if isinstance(led, int):
            reply(None, led)
        else:
            led.write(operation, reply)

    def write_partition(
        self, partition: int, operation: Callable[[S], Result[T]], reply: Reply[T]
    ) -> None:
        """Run an operation as :meth:`write` does, for what concerns a partition and not a key of it
        (the marker of a transaction)."""
        led = self._led_at(partition)
        if isinstance(led, int):
            reply(None, led)
        else:
            led.write(operation, reply)

    def read(self, key: str, operation: Callable[[S], T], reply: Reply[T]) -> None:
        """Reply with the result of ``operation`` on the shard of ``key``, once everything that it
        may rest on is committed: nobody sees what may be lost again.

        ``reply`` gets ``(value, 0)`` or ``(None, code)``, as with :meth:`write`; the codes are
        definite.
        """
        led = self._led_for(key)
        if isinstance(led, int):
            reply(None, led)
        else:
            led.read(operation, reply)

    def read_confirmed(self, key: str, operation: Callable[[S], T], reply: Reply[T]) -> None:
        """Read as :meth:`read` does, and never from the past: this broker has shown that it
        coordinated ``key`` after it was asked, by a write that was committed."""
        led = self._led_for(key)
        if isinstance(led, int):
            reply(None, led)
        else:
            led.read_confirmed(operation, reply)

    def all_shards(self, operation: Callable[[S], T]) -> list[T]:
        """Return the result of ``operation`` on every loaded shard, by partition. It is not held
        until committed."""
        return [operation(led.shard) for led in self.led if led.serves]

    def write_all(self, operation: Callable[[S], Result[T]]) -> None:
        """Run an operation that nobody asked for on every loaded shard, each for itself. If an
        append is refused, the operation takes up again in ``on_failure`` what must not be lost."""
        for led in self.led:
            if led.serves:
                led.write(operation, _nobody)

    # ---- leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Begin to load ``partition``, which this broker leads in ``leader_epoch``. It is harmless
        when that is known; an older epoch is ignored. If the shard is loaded already and only the
        epoch is newer (a follower has died), the shard is kept: nobody else has written in between,
        and what was appended stays in the log. A load under way begins anew. What was read of the
        partition while it was followed is not read again [B31]."""
        if self._closed or self._tasks.closed:
            return
        led = self._led.get(partition)
        if led is not None:
            if leader_epoch <= led.leader_epoch:
                return
            if led.state is ShardState.ACTIVE:
                led.leads_on(leader_epoch)
                return
            self._give_up(led, NotCoordinatorError.code)
        taken = self._shadows.take(partition)
        if taken is None:
            self._begin(partition, leader_epoch, RELOAD_S)
            return
        taken.led.leads_on(leader_epoch)
        self._led[partition] = taken.led
        self._spawn_load(taken.led, RELOAD_S, taken.rest, taken.offset)

    def resigned(self, partition: int, leader_epoch: int, *, is_next: bool = False) -> None:
        """Give up ``partition``, which this broker does not lead in ``leader_epoch``; older news
        are ignored. With ``is_next`` it is to lead soon, and gets ready."""
        led = self._led.get(partition)
        if led is not None:
            if leader_epoch < led.leader_epoch:
                return
            self._give_up(led, NotCoordinatorError.code)
        if not is_next:
            self._shadows.drop(partition, "another broker is to lead")
        elif not self._closed:
            self._shadows.keep(partition, leader_epoch)

    def close(self) -> None:
        """Give up everything, for good; callers that wait are told NOT_COORDINATOR."""
        self._closed = True
        self._shadows.close()
        for led in self.led:
            self._give_up(led, NotCoordinatorError.code)

    def _give_up(self, led: LedShard[S], error_code: int) -> None:
        del self._led[led.topic_partition.partition]
        logger.info("coordinator_resigned", coordinator=self.name, shard=led)
        led.unload(error_code)

    # ---- loading

    def _make_led(self, partition: int, leader_epoch: int) -> LedShard[S]:
        return LedShard(
            TopicPartition(self.topic, partition),
            leader_epoch,
            writer=self._writer,
            make_shard=self._make_shard,
            commit_timeout_s=self._commit_timeout_s,
            safeguards=self._safeguards,
            on_broken=self._broken,
        )

    def _begin(self, partition: int, leader_epoch: int, pause_s: float) -> None:
        led = self._led[partition] = self._make_led(partition, leader_epoch)
        self._spawn_load(led, pause_s)

    def _spawn_load(
        self,
        led: LedShard[S],
        pause_s: float,
        first: Sequence[CoordinatorRecord] = (),
        offset: int = 0,
    ) -> None:
        self._tasks.spawn(f"load {led.topic_partition}", self._load(led, pause_s, first, offset))

    async def _load(
        self, led: LedShard[S], pause_s: float, first: Sequence[CoordinatorRecord], offset: int
    ) -> None:
        started_s = asyncio.get_running_loop().time()
        try:
            count = await self._replay_all(led, first, offset)
        except ApiError as error:
            logger.warning(
                "coordinator_load_delayed",
                coordinator=self.name,
                partition=led.topic_partition,
                error=error,
            )
            code = _load_refusal(error)
        except Exception:
            logger.exception(
                "coordinator_load_failed", coordinator=self.name, partition=led.topic_partition
            )
            code = CoordinatorNotAvailableError.code
        else:
            if self._is_current(led):
                logger.info(
                    "coordinator_loaded",
                    coordinator=self.name,
                    partition=led.topic_partition,
                    leader_epoch=led.leader_epoch,
                    records=count,
                    seconds=round(asyncio.get_running_loop().time() - started_s, 3),
                )
            return
        if not self._is_current(led):
            return
        led.fail(code)
        await asyncio.sleep(pause_s)
        if self._is_current(led):
            self._give_up(led, code)
            partition = led.topic_partition.partition
            self._begin(partition, led.leader_epoch, min(2 * pause_s, RELOAD_S_MAX))

    async def _replay_all(
        self, led: LedShard[S], first: Sequence[CoordinatorRecord], offset: int
    ) -> int:
        """Replay ``first``, and then the partition from ``offset`` on; return the number of
        records. The shard serves then, unless it was given up."""
        count = turn_count = 0
        async with aclosing(self._read(led, first, offset)) as batches:
            async for records in batches:
                for start in range(0, len(records), REPLAY_COUNT_MAX):
                    if not self._is_current(led):
                        return count
                    some = records[start : start + REPLAY_COUNT_MAX]
                    led.replay(some)
                    count += len(some)
                    turn_count += len(some)
                    if turn_count >= REPLAY_COUNT_MAX:
                        turn_count = 0
                        await asyncio.sleep(0)
        if self._is_current(led):
            led.activate(self._writer.end_offset(led.topic_partition, led.leader_epoch))
        return count

    async def _read(
        self, led: LedShard[S], first: Sequence[CoordinatorRecord], offset: int
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        if first:
            yield first
        reading = self._writer.read(led.topic_partition, led.leader_epoch, offset)
        async with aclosing(reading) as batches:
            async for records in batches:
                yield records

    def _is_current(self, led: LedShard[S]) -> bool:
        return self._led.get(led.topic_partition.partition) is led

    def _broken(self, led: LedShard[S]) -> None:
        """Read the log again, since memory and log differ."""
        self.breakdowns += 1
        if self._is_current(led):
            self._give_up(led, NotCoordinatorError.code)
            if not (self._closed or self._tasks.closed):
                self._begin(led.topic_partition.partition, led.leader_epoch, RELOAD_S)


def _load_refusal(error: ApiError) -> int:
    """Return what callers are told of a partition that cannot be loaded."""
    not_here = (NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownTopicOrPartitionError)
    if isinstance(error, not_here):
        return NotCoordinatorError.code
    return CoordinatorNotAvailableError.code


def _nobody(_value: object, _error_code: int) -> None:
    """Drop the reply to what no request asked for."""
