"""Shadows are shards that a broker reads while another one leads, so that it can serve at once.

Rules
-----
* A shadow serves nobody, and its timers are held. It reads what is committed of its follower's log,
  in the same small turns as a load, and looks for more as long as this broker is named the next
  leader.
* It is *warm* when little is left. That is told to the controller, which waits for it; it proves
  nothing.
* Whoever is elected takes the shadow and reads on to the log's end [B29], if the log holds what was
  read [B31]. If it does not, the shadow is thrown away, and the partition is read from its start.
* Nothing depends on a shadow: one that fails is thrown away, and made anew after a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, NamedTuple

from oncelog_broker.coordinator.led_shard import LedShard, S
from oncelog_broker.coordinator.ports import FollowedLog, PartitionWriter
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.coordinator.safeguards import CoordinatorSafeguards
from oncelog_protocol.errors import ApiError, NotCoordinatorError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

REPLAY_COUNT_MAX = 300
"""So many records are replayed in one turn of the loop, which takes some milliseconds."""

LOOK_S = 0.1
"""A shadow looks this often for what was committed since."""

AGAIN_S = 1.0
"""A shadow that failed is made anew after this pause."""

WARM_RECORDS = 1_000
"""A shadow is warm when fewer records are left to read."""


class Taken(NamedTuple, Generic[S]):
    """It is what was read of a partition whose shadow was taken."""

    led: LedShard[S]
    rest: Sequence[CoordinatorRecord]
    """These were read, and are to be replayed before anything else."""
    offset: int
    """What follows begins here."""


@dataclass(slots=True, eq=False)
class _Shadow(Generic[S]):
    led: LedShard[S]
    log: FollowedLog
    rest: Sequence[CoordinatorRecord] = ()
    task: asyncio.Task[None] | None = None


class Shadows(Generic[S]):
    """It keeps the shadows of one internal topic.

    :param make: makes a shard that is being loaded, of a partition and a leader epoch.
    """

    def __init__(
        self,
        *,
        name: str,
        topic: str,
        writer: PartitionWriter,
        make: Callable[[int, int], LedShard[S]],
        tasks: Tasks,
        safeguards: CoordinatorSafeguards,
    ) -> None:
        self._name = name
        self._topic = topic
        self._writer = writer
        self._make = make
        self._tasks = tasks
        self._safeguards = safeguards
        self._kept: dict[int, _Shadow[S]] = {}

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that have a shadow here."""
        return sorted(self._kept)

    @property
    def warm(self) -> list[int]:
        """Return the partitions whose shadows have little left to read."""
        return [number for number in self.partitions if self._is_warm(self._kept[number])]

    def _is_warm(self, shadow: _Shadow[S]) -> bool:
        left = shadow.log.left
        return left is not None and left + len(shadow.rest) < WARM_RECORDS

    def keep(self, partition: int, leader_epoch: int) -> None:
        """Keep a shadow of a partition from now on; it is harmless when there is one."""
        if partition not in self._kept and not self._tasks.closed:
            self._begin(partition, leader_epoch, 0.0)

    def take(self, partition: int) -> Taken[S] | None:
        """Give a shadow to the leader that this broker is now; None: there is none, or the log does
        not hold any more what was read."""
        shadow = self._kept.get(partition)
        if shadow is None:
            return None
        if not self._safeguards.adopts(shadow.log.holds):
            self.drop(partition, "the log was cut")
            return None
        self._forget(partition)
        logger.info(
            "coordinator_shadow_adopted",
            coordinator=self._name,
            partition=shadow.led.topic_partition,
            offset=shadow.log.position,
        )
        return Taken(shadow.led, shadow.rest, shadow.log.position)

    def drop(self, partition: int, reason: str) -> None:
        """Throw a shadow away; it is harmless when there is none."""
        shadow = self._kept.get(partition)
        if shadow is None:
            return
        self._forget(partition)
        logger.info(
            "coordinator_shadow_thrown_away",
            coordinator=self._name,
            partition=shadow.led.topic_partition,
            offset=shadow.log.position,
            reason=reason,
        )
        shadow.led.unload(NotCoordinatorError.code)

    def close(self) -> None:
        """Throw all shadows away."""
        for partition in self.partitions:
            self.drop(partition, "the broker stops")

    def _forget(self, partition: int) -> None:
        task = self._kept.pop(partition).task
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    # ---- reading

    def _begin(self, partition: int, leader_epoch: int, pause_s: float) -> None:
        topic_partition = TopicPartition(self._topic, partition)
        try:
            log = self._writer.follow(topic_partition)
        except ApiError as error:
            logger.debug("coordinator_not_shadowed", partition=topic_partition, error=error)
            return
        shadow = self._kept[partition] = _Shadow(self._make(partition, leader_epoch), log)
        shadow.task = self._tasks.spawn(f"shadow {topic_partition}", self._read(shadow, pause_s))

    async def _read(self, shadow: _Shadow[S], pause_s: float) -> None:
        led = shadow.led
        partition = led.topic_partition.partition
        await asyncio.sleep(pause_s)
        try:
            while self._safeguards.adopts(shadow.log.holds):
                await self._read_on(shadow)
                await asyncio.sleep(LOOK_S)
            reason, pause_s = "the log was cut", 0.0
        except ApiError as error:
            reason, pause_s = str(error), AGAIN_S
        except Exception:
            logger.exception(
                "coordinator_shadow_failed", coordinator=self._name, partition=led.topic_partition
            )
            reason, pause_s = "it failed", AGAIN_S
        self.drop(partition, reason)
        if not self._tasks.closed:
            self._begin(partition, led.leader_epoch, pause_s)

    async def _read_on(self, shadow: _Shadow[S]) -> None:
        async with aclosing(shadow.log.read_on()) as batches:
            async for records in batches:
                shadow.rest = records
                while shadow.rest:
                    some = shadow.rest[:REPLAY_COUNT_MAX]
                    shadow.led.replay(some)
                    shadow.rest = shadow.rest[REPLAY_COUNT_MAX:]
                    await asyncio.sleep(0)
