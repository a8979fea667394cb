"""Tests of the log room share logs over memory files, without a loop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.partition_meta import PartitionMeta, encode_meta
from oncelog_broker.log.recovery import LoadedLog, load_log
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.topic_config import TopicConfig, parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import Buffer, Files
from support.clock import ManualClock
from support.room_settings import log_settings

__all__ = [
    "DATA",
    "DIRECTORY",
    "NOW_MS",
    "SMALL",
    "TP",
    "batch",
    "catch_up",
    "fill",
    "follower_batches",
    "make_log",
    "make_log_dir",
    "offsets_in",
    "reload_log",
    "started",
    "sync",
    "topic_config",
    "values_in",
]

DATA = "/data"
NOW_MS = 1_700_000_000_000
TP = TopicPartition("orders", 0)


def topic_config(**overrides: object) -> TopicConfig:
    """Return defaults, but for what is given."""
    return parse_topic_config({name: str(value) for name, value in overrides.items()})


SMALL = topic_config(segment_bytes=1024, index_interval_bytes=200)
DIRECTORY = f"{DATA}/{TP}"


def batch(
    *values: bytes | None,
    timestamps: Sequence[int] | int = NOW_MS,
    keys: Sequence[bytes | None] | None = None,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> memoryview:
    """Return a client's batch, writable; ``producer`` is its id, epoch and the batch's sequence."""
    producer_id, epoch, sequence = producer
    return memoryview(
        encode_batch(
            list(values) or [b"v"],
            timestamps=timestamps,
            keys=keys,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def follower_batches(*specs: tuple[int, int, int]) -> memoryview:
    """Return what a leader sends: batches of (base offset, records, leader epoch)."""
    data = bytearray()
    for base_offset, count, epoch in specs:
        data += encode_batch(
            [b"%d" % (base_offset + number) for number in range(count)],
            timestamps=NOW_MS,
            base_offset=base_offset,
            leader_epoch=epoch,
        )
    return memoryview(data)


def new_dir(path: str, **given: Any) -> LogDir:
    """Return a directory of a broker that was told nothing, but for what is given."""
    told = {"flush_interval_ms": 1000, "checkpoint_interval_ms": 5000, "producer_ids_max": 100_000}
    return LogDir(path, **{**told, **given})


def make_log_dir(
    files: Files,
    path: str = DATA,
    clock: ManualClock | None = None,
    *,
    producer_ids_max: int = 100_000,
) -> LogDir:
    """Return a directory that is made but not locked; its flusher has no loop: see :func:`sync`."""
    files.make_dirs(path)
    files.sync_dir(os.path.dirname(path))
    return new_dir(
        path,
        files=files,
        clock=clock or ManualClock(NOW_MS),
        headroom_bytes=0,
        producer_ids_max=producer_ids_max,
    )


def make_log(
    files: Files,
    config: TopicConfig | None = None,
    *,
    log_dir: LogDir | None = None,
    topic_partition: TopicPartition = TP,
) -> PartitionLog:
    """Return a new log whose names are durable."""
    config = config or topic_config()
    log_dir = log_dir or make_log_dir(files)
    directory = f"{log_dir.path}/{topic_partition}"
    files.make_dirs(directory)
    loaded = LoadedLog.empty(log_dir.pool, directory, "topic-id", config.index_interval_bytes)
    log = PartitionLog(log_dir, topic_partition, config, loaded)
    log_dir.logs[topic_partition] = log
    meta = files.open(f"{directory}/partition.json", create=True)
    if not meta.size():
        meta.append([encode_meta(topic_partition, PartitionMeta("topic-id"))])
    log.created(meta)
    sync(log)
    return log


def reload_log(
    files: Files,
    config: TopicConfig | None = None,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
) -> PartitionLog:
    """Load the log that :func:`make_log` made, as a broker does that starts."""
    config = config or topic_config()
    log_dir = make_log_dir(files)
    loaded = load_log(
        log_dir.pool,
        f"{DATA}/{TP}",
        interval_bytes=config.index_interval_bytes,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        now_ms=NOW_MS,
    )
    assert loaded is not None
    log = PartitionLog(log_dir, TP, config, loaded)
    log_dir.logs[TP] = log
    return log


def fill(log: PartitionLog, count: int, epoch: int = 0, size: int = 120) -> None:
    """Append batches of one record as leader; each value begins with its offset."""
    for _ in range(count):
        log.append_as_leader(batch(b"%06d" % log.log_end_offset + b"." * size), epoch)


async def started(files: Files) -> LogManager:
    """Return the logs of a broker that has just started over a disk."""
    logs = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=(DATA,), headroom_bytes=0),
        broker_id=1,
    )
    await logs.start("cluster")
    return logs


def sync(log: PartitionLog) -> None:
    """Run the sync rounds that are due, on the spot."""
    log.log_dir.flusher.sync_now()


def values_in(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    """Return every value from an offset on; check checksums, and that offsets are unbroken."""
    values: list[bytes | None] = []
    position = log.log_start_offset if offset is None else offset
    while position < log.log_end_offset:
        data = memoryview(log.read(position, 1 << 20, upto=log.log_end_offset))
        assert len(data)
        for start, header in iter_headers(data):
            columns = decode_batch(data[start : start + header.size_bytes])
            for record, value in zip(columns.offsets(), columns.values, strict=True):
                if record >= position:
                    assert record == position
                    values.append(value)
                    position += 1
    return values


def offsets_in(data: Buffer) -> list[int]:
    """Return base offsets of the batches in what a read returned; it must be whole batches."""
    found = list(iter_headers(data))
    if found:
        position, header = found[-1]
        assert position + header.size_bytes == len(data)
    return [header.base_offset for _, header in found]


def catch_up(log: PartitionLog, leader: PartitionLog) -> None:
    """Append, as a follower, what the leader has more."""
    while log.log_end_offset < leader.log_end_offset:
        data = leader.read(log.log_end_offset, 700, upto=leader.log_end_offset)
        log.append_as_follower(memoryview(bytearray(data)))
