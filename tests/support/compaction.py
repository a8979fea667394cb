"""Here is what tests of compaction share: keyed logs, and what a reader makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog_broker.log.cleaner import Cleaner
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.records.batch import BatchHeader, iter_headers
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import TopicPartition
from support.crash_points import run_inline
from support.logs import NOW_MS, batch, sync, topic_config
from support.room_settings import cleaner_settings

__all__ = [
    "COMPACTED",
    "Kept",
    "append",
    "clean",
    "headers_in",
    "make_cleaner",
    "newest_in",
    "records_in",
]

COMPACTED = topic_config(
    cleanup_policy="compact",
    segment_bytes=2048,
    index_interval_bytes=300,
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
)


class Kept(NamedTuple):
    """It is one record, as a reader gets it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    epoch: int


def append(
    log: PartitionLog,
    *records: tuple[bytes, bytes | None],
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    timestamps: Sequence[int] | int = NOW_MS,
) -> int:
    """Append one batch of (key, value), as leader; return its base offset."""
    data = batch(
        *[value for _, value in records],
        keys=[key for key, _ in records],
        codec=codec,
        timestamps=timestamps,
    )
    return log.append_as_leader(data, epoch).base_offset


def headers_in(log: PartitionLog) -> list[BatchHeader]:
    """Return every batch of a log from its start; check that offsets are unbroken."""
    found: list[BatchHeader] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = log.read(position, 1 << 20, upto=log.log_end_offset)
        assert len(data), f"nothing to read at {position}"
        for _, header in iter_headers(data):
            assert header.base_offset <= position < header.next_offset
            found.append(header)
            position = header.next_offset
    return found


def records_in(log: PartitionLog, offset: int | None = None) -> list[Kept]:
    """Return every record from an offset on, or from the log start, as a reader gets them."""
    found: list[Kept] = []
    position = log.log_start_offset if offset is None else offset
    while position < log.log_end_offset:
        data = memoryview(log.read(position, 1 << 20, upto=log.log_end_offset))
        assert len(data), f"nothing to read at {position}"
        for start, header in iter_headers(data):
            columns = decode_batch(data[start : start + header.size_bytes])
            keys = columns.keys or [None] * len(columns)
            rows = zip(
                columns.offsets(), keys, columns.values, columns.timestamp_list(), strict=True
            )
            found += [Kept(*row, header.leader_epoch) for row in rows if row[0] >= position]
            assert header.next_offset > position
            position = header.next_offset
    return found


def newest_in(records: Sequence[Kept]) -> dict[bytes | None, Kept]:
    """Return the newest record of each key whose newest record has a value."""
    newest = {record.key: record for record in records}
    return {key: record for key, record in newest.items() if record.value is not None}


def make_cleaner(
    log: PartitionLog,
    *,
    high_watermark: int | None = None,
    damage: list[str] | None = None,
    dedupe_buffer_bytes: int = 1 << 20,
) -> Cleaner:
    """Make a cleaner for one log, of which all is committed unless something else is said."""

    def marks() -> dict[TopicPartition, int]:
        mark = log.log_end_offset if high_watermark is None else high_watermark
        return {log.topic_partition: mark}

    found = [] if damage is None else damage
    return Cleaner(
        clock=log.log_dir.clock,
        config=cleaner_settings(dedupe_buffer_bytes=dedupe_buffer_bytes, cpu_percent=100),
        logs=lambda: [log],
        high_watermarks=marks,
        on_damage=lambda _, text: found.append(text),
    )


def clean(
    log: PartitionLog, cleaner: Cleaner | None = None, config: TopicConfig = COMPACTED
) -> int:
    """Sync, and compact until nothing is left to do; return the number of passes."""
    log.reconfigure(config)
    sync(log)
    worker = cleaner or make_cleaner(log)

    async def go() -> int:
        passes = 0
        while await worker.clean_dirtiest():
            passes += 1
            assert passes < 100
        return passes

    return run_inline(go())
