"""Tests of coordinators write to internal partitions as lists, and to a shard of texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from oncelog_broker.coordinator.led_shard import LedShard
from oncelog_broker.coordinator.ports import Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import SAFE
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    NotLeaderOrFollowerError,
    error_for,
)
from oncelog_protocol.types import TopicPartition

__all__ = ["TP", "Bench", "MemoryPartition", "MemoryWriter", "TextShard"]

TP = TopicPartition("__consumer_offsets", 0)


class MemoryPartition:
    """An internal partition has batches, and knows who waits and who leads."""

    def __init__(self) -> None:
        self.batches: list[list[CoordinatorRecord]] = []
        self.end_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.cuts = 0
        self.waiting: list[tuple[int, Callable[[int], None]]] = []

    @property
    def records(self) -> list[CoordinatorRecord]:
        """Return all records, in order."""
        return [record for batch in self.batches for record in batch]

    def batches_from(self, offset: int, upto: int | None = None) -> list[list[CoordinatorRecord]]:
        """Return what lies between two offsets, by batch."""
        found, start = [], 0
        for batch in self.batches:
            low = max(offset - start, 0)
            high = len(batch) if upto is None else max(upto - start, 0)
            if some := batch[low:high]:
                found.append(some)
            start += len(batch)
        return found

    def cut(self, offset: int) -> None:
        """Truncate the partition."""
        self.batches = self.batches_from(0, offset)
        self.end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.cuts += 1

    def append(self, records: Sequence[CoordinatorRecord]) -> None:
        """Append one batch more."""
        self.batches.append(list(records))
        self.end_offset += len(records)

    def commit(self, offset: int | None = None) -> None:
        """Move the high watermark, to the log end by default."""
        self.high_watermark = self.end_offset if offset is None else offset
        reached = [w for w in self.waiting if w[0] <= self.high_watermark]
        self.waiting = [w for w in self.waiting if w[0] > self.high_watermark]
        for _, callback in reached:
            callback(0)

    def fail_waiting(self, error_code: int) -> None:
        """Nobody waits any longer."""
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            callback(error_code)


class MemoryFollowed:
    """It is a ``FollowedLog`` over a partition in memory."""

    def __init__(self, partition: MemoryPartition, writer: MemoryWriter) -> None:
        self._partition = partition
        self._writer = writer
        self._cuts = partition.cuts
        self.position = 0

    @property
    def left(self) -> int:
        """Return how much is left to read."""
        return max(self._partition.high_watermark - self.position, 0)

    @property
    def holds(self) -> bool:
        """Return whether the partition was not cut since."""
        return self._partition.cuts == self._cuts

    async def read_on(self) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """Yield what is committed and new."""
        partition, writer = self._partition, self._writer
        for batch in partition.batches_from(self.position, partition.high_watermark):
            if writer.gate is not None:
                await writer.gate.wait()
            self.position += len(batch)
            yield batch
            await asyncio.sleep(0)
            if writer.read_error is not None:
                raise writer.read_error


class MemoryWriter:
    """It is a ``PartitionWriter``. ``auto_commit``: what is appended is committed at once."""

    def __init__(self, *, auto_commit: bool = True) -> None:
        self.auto_commit = auto_commit
        self.partitions: dict[TopicPartition, MemoryPartition] = {}
        self.refuse: ApiError | None = None
        """Raised by every append while it is set."""
        self.refused_count = 0
        self.gate: asyncio.Event | None = None
        """While it is there and not set, reading stands still before each batch."""
        self.read_error: Exception | None = None
        """Raised by reading, after the first batch, while it is set."""

    def partition(self, topic_partition: TopicPartition) -> MemoryPartition:
        """Return a partition; make it when it is first asked for."""
        return self.partitions.setdefault(topic_partition, MemoryPartition())

    def append(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[CoordinatorRecord],
    ) -> int:
        partition = self._led(topic_partition, leader_epoch)
        if self.refuse is not None:
            self.refused_count += 1
            raise self.refuse
        partition.append(records)
        if self.auto_commit:
            partition.commit()
        return partition.end_offset

    def when_committed(
        self, topic_partition: TopicPartition, offset: int, callback: Callable[[int], None]
    ) -> None:
        partition = self.partition(topic_partition)
        if partition.high_watermark >= offset:
            callback(0)
        else:
            partition.waiting.append((offset, callback))

    def end_offset(self, topic_partition: TopicPartition, leader_epoch: int) -> int:
        return self._led(topic_partition, leader_epoch).end_offset

    def follow(self, topic_partition: TopicPartition) -> MemoryFollowed:
        return MemoryFollowed(self.partition(topic_partition), self)

    async def read(
        self, topic_partition: TopicPartition, leader_epoch: int, offset: int = 0
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        for batch in self._led(topic_partition, leader_epoch).batches_from(offset):
            if self.gate is not None:
                await self.gate.wait()
            self._led(topic_partition, leader_epoch)
            yield batch
            await asyncio.sleep(0)
            if self.read_error is not None:
                raise self.read_error

    def fail(self, error_code: int) -> None:
        """Appends are refused with this code from now on; 0 ends that."""
        self.refuse = error_for(error_code) if error_code else None

    def _led(self, topic_partition: TopicPartition, leader_epoch: int) -> MemoryPartition:
        partition = self.partition(topic_partition)
        if partition.leader_epoch > leader_epoch:
            raise NotLeaderOrFollowerError(f"epoch {leader_epoch}, now {partition.leader_epoch}")
        return partition


class TextShard:
    """A shard as small as can be: named texts. It notes what happens to it in ``story``."""

    def __init__(self, partition: int, timers: Timers) -> None:
        self.partition = partition
        self.timers = timers
        self.values: dict[str, str] = {}
        self.story: list[str] = []
        self.parked: list[Callable[[str | None, int], None]] = []
        self.at_load: list[Result[Any]] = []
        self.refuses_to_replay: bytes | None = None

    def replay(self, record: CoordinatorRecord) -> None:
        """Set, or take back."""
        if record.key == self.refuses_to_replay:
            raise ValueError("what is this?")
        name = record.key.decode()
        if record.value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = record.value.decode()

    def loaded(self, now_s: float) -> list[Result[Any]]:
        """Do whatever the test wants done."""
        self.story.append("loaded")
        return self.at_load

    def unload(self, error_code: int) -> None:
        """Tell whoever is parked."""
        self.story.append(f"unloaded {error_code}")
        parked, self.parked = self.parked, []
        for reply in parked:
            reply(None, error_code)

    def put(self, name: str, value: str | None, reply: str | None = "ok") -> Result[str]:
        """Return the result that sets a text; ``reply`` None parks the caller."""
        encoded = None if value is None else value.encode()
        return Result(
            [CoordinatorRecord(name.encode(), encoded)],
            reply,
            on_committed=lambda: self.story.append(f"committed {name}"),
            on_failure=lambda code: self.story.append(f"failed {name} {code}"),
        )


class Bench:
    """It is a loaded shard over memory."""

    def __init__(self, *, auto_commit: bool = False, commit_timeout_s: float = 60.0) -> None:
        self.writer = MemoryWriter(auto_commit=auto_commit)
        self.answers: list[tuple[Any, int]] = []
        self.led = LedShard(
            TP,
            0,
            writer=self.writer,
            make_shard=TextShard,
            commit_timeout_s=commit_timeout_s,
            safeguards=SAFE,
            on_broken=lambda led: led.unload(CoordinatorNotAvailableError.code),
        )
        self.shard = self.led.shard
        self.led.activate(0)

    @property
    def log(self) -> MemoryPartition:
        return self.writer.partition(TP)

    def reply(self, value: Any, code: int) -> None:
        self.answers.append((value, code))

    def put(self, name: str, value: str | None, reply: str | None = "ok") -> None:
        self.led.write(lambda shard: shard.put(name, value, reply), self.reply)

    def get(self, name: str) -> None:
        self.led.read(lambda shard: shard.values.get(name, "none"), self.reply)

    def told(self) -> list[tuple[Any, int]]:
        answers, self.answers = self.answers, []
        return answers
