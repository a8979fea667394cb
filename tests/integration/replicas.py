"""Replicas are read from disk here, as the checkers of replicas take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from oncelog_protocol.records.batch import iter_headers
from simulation.checkers.replicas import AllReplicas, Replicas, entries_of

Place = tuple[int, int]
"""It is the number of a partition, and a broker."""


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
    places: Mapping[Place, Path],
    topic: str,
    high_watermarks: dict[int, int],
    holders: Mapping[int, Sequence[int]],
) -> AllReplicas:
    """Return the committed bytes of each partition at its replicas.

    :param places: the log directory of each replica.
    :param holders: the brokers that have each partition.
    """
    found = {}
    for partition, high_watermark in high_watermarks.items():
        logs = {
            broker: entries_of(
                committed_bytes(places[partition, broker], topic, partition, high_watermark)
            )
            for broker in sorted(holders[partition])
        }
        assert any(logs.values()) or high_watermark == 0, f"{topic}-{partition} is empty on disk"
        found[topic, partition] = Replicas(high_watermark, logs)
    return found
