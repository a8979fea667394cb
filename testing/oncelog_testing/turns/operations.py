"""A broker's operations are measured here at full size.
It has 4,000 partitions, a segment of 1 GB, and 100,000 producers.

What is not measured (filling a log) may take turns of any length.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.consumer_fetch import ConsumerFetch
from oncelog_broker.server.broker_reporter import BrokerReporter
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol import limits
from oncelog_protocol.connection import Reply
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.broker_reports import BrokerReportResponse
from oncelog_protocol.messages.fetch import (
    EpochEnd,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from oncelog_protocol.messages.replication import StopPartition, StopReplicaRequest
from oncelog_protocol.packing import pack
from oncelog_protocol.schema import encode
from oncelog_protocol.types import Acks, IsolationLevel
from oncelog_runtime.files import SystemFiles
from oncelog_testing.turns.meter import TurnMeter
from oncelog_testing.turns.room import (
    BATCH_BYTES,
    ME,
    NOT_SOON_MS,
    OTHER,
    PARTITIONS_PER_TOPIC,
    Room,
    batch_of,
    until,
)

__all__ = ["Size", "many_partitions", "one_large_log", "waiting_readers"]

REQUESTS_PER_TURN = 10
"""Appends of different requests that one turn of a busy loop holds."""
ROOM_FOR_SEGMENTS = 1024
LONG_MS = 10**13


class Size:
    """It says how large the world is: ``full`` for the record, smaller ones to see that it runs."""

    def __init__(
        self,
        partitions: int = 4000,
        log_bytes: int = 2**30,
        producers: int = 100_000,
        controlled: int = 10_000,
        brokers: int = 100,
    ) -> None:
        self.partitions = partitions
        self.log_bytes = log_bytes
        self.producers = producers
        self.readers = max(10, partitions // 20)
        self.controlled = controlled
        """Partitions of the cluster of a controller, on so many ..."""
        self.brokers = brokers


async def many_partitions(meter: TurnMeter, home: Path, size: Size) -> None:
    """Measure orders, sync rounds, passes over all logs, evictions, elections, deletions."""
    room = Room(home / "many", open_segments_max=2 * size.partitions)
    await room.start()
    with meter.operation("LeaderAndIsr, new partitions"):
        await room.replicas.apply_leader_and_isr(room.order(size.partitions))
        await room.synced()
    with meter.operation("LeaderAndIsr, full, repeated"):
        await room.replicas.apply_leader_and_isr(room.order(size.partitions))
    room.elect()
    with meter.operation("LeaderAndIsr, full, new epoch"):
        await room.replicas.apply_leader_and_isr(room.order(size.partitions))
    with meter.operation("a sync round of all partitions"):
        await _write_everywhere(room, size.partitions)
    with meter.operation("checkpoints"):
        for log in room.logs.all():
            log.log_dir.checkpoint_due()
        await room.logs.dirs[0].write_checkpoints()
    with meter.operation("retention"):
        await room.logs.apply_retention()
    with meter.operation("a look at who lags"):
        await room.replicas.check_lag_once()
    with meter.operation("two reports to the controller"):
        reporter = _reporter(room)
        await reporter.report()
        await reporter.report()  # rates are known now, so all is told again
    await _change_settings(meter, room, size)
    await _cut_followers(meter, room, size)
    with meter.operation("checkpoints behind many cuts"):
        await room.logs.dirs[0].write_checkpoints()
    await _stop_replicas(meter, room, size)
    await room.stop()
    room = Room(home / "evicting", open_segments_max=min(ROOM_FOR_SEGMENTS, size.partitions // 2))
    await room.start()
    await room.replicas.apply_leader_and_isr(room.order(size.partitions))
    await room.synced()
    with meter.operation("appends to more partitions than open segments"):
        for _ in range(2):
            await _write_everywhere(room, size.partitions)
    room.set_log_settings(topic_defaults={"retention_bytes": "0"})
    room.replicas.settings_changed()
    last = room.partition(size.partitions - 1).log
    await until(lambda: last.config.retention_bytes == 0)
    with meter.operation("retention that deletes in all partitions"):
        await room.logs.apply_retention()
        await room.synced()
    assert last.log_start_offset == last.log_end_offset
    with meter.operation("clean stop with all partitions"):
        await room.stop()


class _Controller:
    """It takes every report, once it is encoded; its broker has not registered."""

    broker_epoch = -1

    async def call_once(self, request: Request, *, timeout_s: float) -> BrokerReportResponse:
        """Answer in another turn."""
        pack(encode(request, 0))
        await asyncio.sleep(0)
        return BrokerReportResponse()


def _reporter(room: Room) -> BrokerReporter:
    controller = _Controller()
    return BrokerReporter(
        ME,
        files=SystemFiles(),
        logs=room.logs,
        replicas=room.replicas,
        image=MetadataImage("cluster"),
        epoch=controller,
        controller=controller,
        interval_ms=lambda: NOT_SOON_MS,
    )


async def _write_everywhere(room: Room, partitions: int) -> None:
    loop = asyncio.get_running_loop()
    left = partitions
    acknowledged = loop.create_future()

    def committed(code: int) -> None:
        nonlocal left
        assert code == 0
        left -= 1
        if not left:
            acknowledged.set_result(None)

    for number in range(partitions):
        partition = room.partition(number)
        append = partition.append_as_leader(batch_of(room, 1000), Acks.ALL, loop.time())
        partition.when_committed(append.last_offset + 1, committed)
        if number % REQUESTS_PER_TURN == 0:
            await asyncio.sleep(0)
    await acknowledged


async def _change_settings(meter: TurnMeter, room: Room, size: Size) -> None:
    """Change a default of topics that all of them have: every log gets another."""
    room.set_log_settings(topic_defaults={"retention_ms": "1000000"})
    with meter.operation("settings of all partitions"):
        room.logs.settings_changed()
        room.replicas.settings_changed()
        last = room.partition(size.partitions - 1).log
        await until(lambda: last.config.retention_ms == 1_000_000)


async def _cut_followers(meter: TurnMeter, room: Room, size: Size) -> None:
    """The other broker is elected everywhere, and has nothing of what was written last."""
    room.elect()
    with meter.operation("LeaderAndIsr, full, all to follow"):
        order = room.order(size.partitions, leader=OTHER)
        await room.replicas.apply_leader_and_isr(order)
    room.replicas.registered(2)
    named = 0
    while named < size.partitions:
        # Until one fetch names them all, as the first one on a new connection does.
        request, callback = await room.silence.sent.get()
        named = sum(len(topic.partitions) for topic in request.topics)
        if named < size.partitions:
            callback(Reply(0, FetchResponse(0, []), memoryview(b"")), None)
    cut = [
        FetchTopicResponse(
            topic.topic,
            [
                FetchPartitionResponse(each.partition, diverging=EpochEnd(0, 0))
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    with meter.operation("truncation of all followers"):
        callback(Reply(0, FetchResponse(0, cut), memoryview(b"")), None)
        for number in range(size.partitions):
            await until(partial(_is_empty, room.partition(number).log))
        await room.synced()


def _is_empty(log: PartitionLog) -> bool:
    return log.log_end_offset == 0


async def _stop_replicas(meter: TurnMeter, room: Room, size: Size) -> None:
    count = size.partitions // 4
    stops = [
        StopPartition(each.topic, each.topic_id, each.partition, -2, True)
        for each in room.order(count).partitions
    ]
    with meter.operation("StopReplica of a quarter of them"):
        results = await room.replicas.stop_replicas(StopReplicaRequest(1, 1, 1, stops))
    assert not any(result.error_code for result in results)


async def one_large_log(meter: TurnMeter, home: Path, size: Size) -> None:
    """Measure a log of one full segment, and everything that is known of its producers."""
    settings = {"topic_defaults": {"segment_bytes": str(2**31 - 1)}}
    room = Room(home / "large", **settings)
    await room.start()
    await room.replicas.apply_leader_and_isr(room.order(1, leader=OTHER))
    # One less than a partition remembers: another one comes below.
    await room.fill(size.log_bytes, size.producers - 1)
    with meter.operation("checkpoints of a log with all producers"):
        room.logs.dirs[0].checkpoint_due()
        await room.logs.dirs[0].write_checkpoints()
        await asyncio.sleep(0)
    log = room.partition().log
    _drop_from_page_cache(log.segments.active.path)
    with meter.operation("the largest read, cold"):
        log.read(0, limits.FETCH_BYTES_MAX, upto=log.log_end_offset)
    with meter.operation("clean stop with all producers"):
        await room.stop()
    room = Room(home / "large", **settings)
    await room.start()
    room.elect()
    with meter.operation("LeaderAndIsr, one large log"):
        await room.replicas.apply_leader_and_isr(room.order(1, alone=False))
    partition, now = room.partition(), asyncio.get_running_loop().time()
    with meter.operation("first append after a start"):
        partition.append_as_leader(batch_of(room), Acks.ALL, now)
        await room.synced()
    end = partition.log.log_end_offset
    with meter.operation("append of a new producer"):
        partition.append_as_leader(batch_of(room, producer=size.producers), Acks.ALL, now)
        await room.synced()
    with meter.operation("truncation that takes all of a producer"):
        partition.log.truncate_to(end)
        await asyncio.sleep(0.2)
        await room.synced()
    with meter.operation("roll of a log with all producers"):
        partition.log.roll()
        await asyncio.sleep(0.2)
        await room.synced()
    with meter.operation("retention of a log with all producers"):
        await room.logs.apply_retention()
    await _read_without_index(meter, room)
    await _read_again(meter, room, size)
    room.set_log_settings(producer_id_expiration_ms=-LONG_MS)
    with meter.operation("retention that forgets all producers"):
        await room.logs.apply_retention()
    assert not partition.log.producers.count
    await room.stop()


async def _read_without_index(meter: TurnMeter, room: Room) -> None:
    """The index of the large segment is lost; somebody reads it until that is possible."""
    log = room.partition().log
    segment = log.segments[0]
    segment.close()
    segment.remove_index_files()
    offset = log.log_end_offset // 2
    found: list[int] = []

    def is_read() -> bool:
        with suppress(StorageError):
            found.append(len(log.read(offset, BATCH_BYTES, upto=log.log_end_offset)))
        return bool(found)

    with meter.operation("read of a large segment without index"):
        await until(is_read)


async def _read_again(meter: TurnMeter, room: Room, size: Size) -> None:
    """Have producers read again: of one nothing is left that is remembered, and older batches may
    be in the log."""
    room.elect()
    await room.replicas.apply_leader_and_isr(room.order(1, leader=OTHER))
    log = room.partition().log
    keep = log.log_end_offset // 3
    batch = batch_of(room, producer=size.producers + 1, sequence=5)
    log.append_as_leader(batch, room.epoch)
    await room.synced()
    with meter.operation("truncation behind which producers are read again"):
        log.truncate_to(keep)
        await until(lambda: not log.producers.is_reading)
        await room.synced()
    assert log.producers.count >= min(keep, size.producers - 1)
    # And from a snapshot.
    log.producers.snapshot()
    await until(lambda: not log.log_dir.slices)
    log.append_as_leader(batch, room.epoch)
    await room.synced()
    with meter.operation("truncation behind which a snapshot is read"):
        log.truncate_to(log.log_end_offset - 1)
        await until(lambda: not log.producers.is_reading)
        await room.synced()
    assert log.producers.count >= min(keep, size.producers - 1)


def _drop_from_page_cache(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


async def waiting_readers(meter: TurnMeter, home: Path, size: Size) -> None:
    """Consumers wait at every partition of two topics; in one of them a transaction is open."""
    room = Room(home / "readers", topic_defaults={"flush": "interval"})
    await room.start()
    count = 2 * PARTITIONS_PER_TOPIC
    await room.replicas.apply_leader_and_isr(room.order(count))
    loop = asyncio.get_running_loop()
    partition = room.partition()
    partition.log.producers.state.transactions.began(0)
    topics: dict[str, FetchTopic] = {}
    for order in room.order(count).partitions:
        topic = topics.setdefault(order.topic, FetchTopic(order.topic, [], ""))
        topic.partitions.append(FetchPartition(order.partition, 0, 2**20, -1, -1, -1))
    fetches = []
    for _ in range(size.readers):
        request = FetchRequest(
            *(-1, -1, limits.FETCH_WAIT_MS_MAX, 1, 2**20),
            *(int(IsolationLevel.READ_COMMITTED), -1, list(topics.values()), []),
        )
        fetches.append(
            ConsumerFetch.start(
                request,
                lambda *answer: None,
                lookup=room.replicas.partition,
                deadlines=room.replicas.deadlines,
                now=loop.time(),
            )
        )
    with meter.operation("appends where read_committed fetches wait"):
        for _ in range(20):
            partition.append_as_leader(batch_of(room), Acks.LEADER, loop.time())
            for _ in range(4):
                await asyncio.sleep(0)
    for fetch in fetches:
        fetch.close()
    await room.stop()
