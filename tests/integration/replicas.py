"""Replicas are read from disk here, as the checkers of replicas take them."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.records.batch import iter_headers
from simulation.checkers.replicas import AllReplicas, Replicas, entries_of


def committed_bytes(log_dir: Path, topic: str, partition: int, high_watermark: int) -> bytes:
    """Return every whole batch of one replica that lies below ``high_watermark``, concatenated."""
    directory = log_dir / f"{topic}-{partition}"
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    end = 0
    for position, header in iter_headers(data):
        if header.next_offset > high_watermark:
            break
        end = position + header.size_bytes
    return data[:end]


def replicas_on_disk(
    log_dirs: dict[int, Path], topic: str, high_watermarks: dict[int, int]
) -> AllReplicas:
    """Return all brokers' committed bytes of each partition; none is empty, unless all are."""
    found = {}
    for partition, high_watermark in high_watermarks.items():
        logs = {
            broker: entries_of(committed_bytes(path, topic, partition, high_watermark))
            for broker, path in sorted(log_dirs.items())
        }
        assert any(logs.values()) or high_watermark == 0, f"{topic}-{partition} is empty on disk"
        found[topic, partition] = Replicas(high_watermark, logs)
    return found
