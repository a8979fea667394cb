"""Documents of ``dump-log --remote`` are made by hand here."""

from __future__ import annotations

from typing import Any

__all__ = ["batch", "log_document", "segment"]


def segment(base: int, after: int, **given: Any) -> dict[str, Any]:
    """Return a segment of those offsets."""
    return {
        "base_offset": base,
        "next_offset": after,
        "size_bytes": (after - base) * 100,
        "record_count": after - base,
        "max_timestamp_ms": 1_000,
        "retention_timestamp_ms": 1_000,
        "created_ms": 1_000,
        "first_epoch": 1,
        "last_epoch": 1,
        "index_entries": 2,
        **given,
    }


def batch(base: int, count: int = 2, **given: Any) -> dict[str, Any]:
    """Return a batch of so many records."""
    return {
        "segment": 0,
        "position": base * 100,
        "base_offset": base,
        "last_offset": base + count - 1,
        "record_count": count,
        "size_bytes": count * 100,
        "leader_epoch": 1,
        "codec": "none",
        "timestamp_type": "create_time",
        "base_timestamp_ms": 1_000,
        "max_timestamp_ms": 1_000,
        "producer_id": None,
        "producer_epoch": None,
        "base_sequence": None,
        "transactional": False,
        "marker": None,
        **given,
    }


def log_document(**given: Any) -> dict[str, Any]:
    """Return a log of two segments, with nothing asked for but its lists."""
    return {
        "topic": "orders",
        "partition": 3,
        "broker_id": 1,
        "is_leader": True,
        "leader_epoch": 1,
        "is_damaged": False,
        "log_start_offset": 0,
        "last_stable_offset": 18,
        "high_watermark": 20,
        "synced_offset": 20,
        "log_end_offset": 20,
        "size_bytes": 2_000,
        "segments": [segment(0, 10), segment(10, 20)],
        "epochs": [{"leader_epoch": 1, "start_offset": 0}],
        "aborted": [],
        "next_offset": None,
        "producer_snapshots": [10],
        "index": [],
        "batches": [],
        "next_batch": None,
        "unreadable": None,
        "found": None,
        **given,
    }
