"""Byte-for-byte comparison of replicas on disk, below the high watermark."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.records.batch import iter_headers


def committed_bytes(log_dir: Path, topic: str, partition: int, high_watermark: int) -> bytes:
    """Every whole batch of one replica that lies below ``high_watermark``, concatenated."""
    directory = log_dir / f"{topic}-{partition}"
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    end = 0
    for position, header in iter_headers(data):
        if header.next_offset > high_watermark:
            break
        end = position + header.size_bytes
    return data[:end]


def assert_replicas_agree(
    log_dirs: dict[int, Path], topic: str, high_watermarks: dict[int, int]
) -> None:
    """All brokers hold the same bytes of each partition below its high watermark."""
    for partition, high_watermark in high_watermarks.items():
        copies = {
            broker: committed_bytes(path, topic, partition, high_watermark)
            for broker, path in sorted(log_dirs.items())
        }
        reference = next(iter(copies.values()))
        assert reference or high_watermark == 0, f"{topic}-{partition} is empty on disk"
        for broker, copy in copies.items():
            assert copy == reference, f"{topic}-{partition} differs on broker {broker}"
