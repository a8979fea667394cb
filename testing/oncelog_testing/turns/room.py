"""A broker's logs and replicas in a directory, without sockets: orders and fetches come by call.

Owns what every measured operation begins with: so many partitions, logs of a size, producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oncelog_broker.config import BrokerConfig
from oncelog_broker.live_config import put_in_force
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import Buffer
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.room_configs import log_config, replica_config
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResponse,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    TopicOverrides,
)
from oncelog_protocol.records.batch import stamp
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SystemEntropy
from oncelog_runtime.files import SystemFiles

__all__ = ["BATCH_BYTES", "Room", "batch_of", "until"]

ME, OTHER = 1, 2
BATCH_BYTES = 4096
PARTITIONS_PER_TOPIC = 50
WRITE_BYTES = 4 * 1024 * 1024
NOT_SOON_MS = 3_600_000
"""Leaders here are silent, and disks may have others to serve: neither is given up for it."""


Answer = Callable[[Any, BaseException | None], None]


class SilentPeers:
    """It is a controller and leaders that never answer; fetches that were sent are kept."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[tuple[Any, Answer]] = asyncio.Queue(100)

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        """Wait for ever: there is no answer."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError(items)

    async def open(self, broker_id: int) -> SilentPeers:
        """Return itself, connected."""
        return self

    @property
    def closed(self) -> bool:
        """Return False: it never closes."""
        return False

    def send(
        self,
        request: Any,
        payload: Sequence[Buffer] = (),
        *,
        callback: Answer,
    ) -> None:
        """Keep it."""
        self.sent.put_nowait((request, callback))

    def close(self, reason: str = "") -> None:
        """Nothing is to be closed."""


class Room:
    """It is one broker from its log directory up to its replicas."""

    def __init__(self, path: Path, **settings: Any) -> None:
        told = BrokerConfig(broker_id=ME, log_dirs=[str(path)])
        self.silence = SilentPeers()
        self.clock = CheckedClock(SystemWallClock(), asyncio.get_running_loop().time)
        self.epoch = 0
        self.logs = LogManager(
            files=SystemFiles(),
            clock=self.clock,
            entropy=SystemEntropy(),
            config=replace(
                log_config(told),
                log_dir_sync_timeout_ms=NOT_SOON_MS,
                **{"topic_defaults": {}, **settings},
            ),
            broker_id=ME,
        )
        self.replicas = ReplicaManager(
            broker_id=ME,
            logs=self.logs,
            clock=self.clock,
            entropy=SystemEntropy(),
            config=replace(replica_config(told), replica_fetch_wait_max_ms=NOT_SOON_MS),
            isr_port=self.silence,
            connector=self.silence,
        )

    async def start(self) -> None:
        """Load what is there."""
        self.clock.heard([], 1)  # there is nobody else to ask for the time
        await self.logs.start("cluster")
        await self.replicas.start()

    async def stop(self) -> None:
        """Stop cleanly, as a broker does."""
        await self.replicas.stop()
        await self.logs.stop(clean=True, broker_epoch=1)

    def order(
        self, count: int, *, leader: int = ME, full: bool = True, alone: bool = True
    ) -> LeaderAndIsrRequest:
        """Return an order of so many partitions, in topics of 50, led by ``leader`` in the present
        epoch; the other replica is the other broker's, and in the ISR where that leads or where it
        is not ``alone``, so that nothing is committed."""
        isr = [ME] if leader == ME and alone else [ME, OTHER]
        states, names = [], []
        for number in range(count):
            topic = f"topic-{number // PARTITIONS_PER_TOPIC:05d}"
            if number % PARTITIONS_PER_TOPIC == 0:
                names.append(topic)
            states.append(
                LeaderAndIsrPartition(
                    topic,
                    f"id of {topic}",
                    number % PARTITIONS_PER_TOPIC,
                    leader,
                    self.epoch,
                    isr,
                    0,
                    isr,
                    False,
                )
            )
        return LeaderAndIsrRequest(
            1, 1, 1, full, states, [], [TopicOverrides(name, 0, [], []) for name in names]
        )

    def elect(self) -> None:
        """Begin the next leader epoch: orders from now on are of it."""
        self.epoch += 1

    def set_log_settings(self, **settings: Any) -> None:
        """Put other settings of logs in force, as a broker does that the controller tells of them.
        Nobody is told: that is measured by itself."""
        put_in_force(self.logs.config, replace(self.logs.config, **settings))

    async def synced(self) -> None:
        """Return when nothing is dirty."""
        for log_dir in self.logs.dirs:
            await log_dir.flusher.drain()

    def partition(self, number: int = 0) -> Partition:
        """Return the replica with this number."""
        topic = f"topic-{number // PARTITIONS_PER_TOPIC:05d}"
        return self.replicas.partition(TopicPartition(topic, number % PARTITIONS_PER_TOPIC))

    async def fill(self, size_bytes: int, producers: int = 0) -> None:
        """Grow partition 0, which this broker must follow, with batches of 4 KiB, each of the next
        of so many producers. Once the producers are all known the rest has no producer."""
        log = self.partition().log
        value = b"x" * (BATCH_BYTES - 100)
        plain = encode_batch([value], timestamps=self.clock.now_ms())
        producer, count = 0, WRITE_BYTES // BATCH_BYTES
        while log.size_bytes < size_bytes:
            data = bytearray()
            for offset in range(log.log_end_offset, log.log_end_offset + count):
                batch = plain
                if producer < producers:
                    batch = encode_batch(
                        [value],
                        timestamps=self.clock.now_ms(),
                        producer_id=producer,
                        producer_epoch=0,
                        base_sequence=0,
                    )
                    producer += 1
                start = len(data)
                data += batch
                stamp(memoryview(data), start, offset, 0)
            log.append_as_follower(memoryview(data))
            await self.synced()


def batch_of(
    room: Room, size_bytes: int = 100, producer: int = -1, sequence: int = 0
) -> memoryview:
    """Return a client's batch."""
    return memoryview(
        encode_batch(
            [b"x" * size_bytes],
            timestamps=room.clock.now_ms(),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
        )
    )


async def until(condition: Callable[[], object]) -> None:
    """Return when it holds. It is asked in every turn, and must cost nothing."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)
