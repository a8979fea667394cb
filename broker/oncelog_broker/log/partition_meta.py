"""A partition's directory says in ``partition.json`` to which topic its log belongs.

Owns that file. Rules:

- it is written when the log is made, and synced with its first sync round. A power cut may take
  what that round had not covered: a file that cannot be read says nothing;
- it says when this broker made the log: under which broker epoch, and as which of the logs that
  one process made. A controller names the topics of one name in their order, so the log that was
  made last is of the newest topic [D18];
- a directory that names no topic, and has no byte in a segment, never was a log: a disk without
  room, or a crash, came between its making and its first sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oncelog_broker.log.checkpoint import (
    PARTITION_META,
    CheckpointError,
    decode_document,
    encode_document,
)
from oncelog_protocol.types import NO_EPOCH, TopicPartition
from oncelog_runtime.files import Files

_VERSION = 1


class PartitionMeta(NamedTuple):
    """A partition's directory says this of itself."""

    topic_id: str = ""
    """It is empty when nobody knows."""
    made_epoch: int = NO_EPOCH
    """The log was made here under this broker epoch; -1: before logs knew it."""
    made_number: int = 0
    """It counts what one process made; 0: before logs knew it."""

    def is_outlived_by(self, other: PartitionMeta) -> bool:
        """Return whether the topic was surely deleted before this broker made the ``other`` log of
        that name [D18]."""
        return (
            "" not in (self.topic_id, other.topic_id)
            and self.topic_id != other.topic_id
            and self.made_epoch != NO_EPOCH
            and (self.made_epoch, self.made_number) < (other.made_epoch, other.made_number)
        )


def encode_meta(topic_partition: TopicPartition, meta: PartitionMeta) -> bytes:
    """Return what ``partition.json`` holds."""
    document = {
        "version": _VERSION,
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        **meta._asdict(),
    }
    return encode_document(document)


def read_meta(files: Files, directory: str) -> PartitionMeta:
    """Read what ``directory`` says of itself. Raises CheckpointError, OSError."""
    data = files.read_bytes(f"{directory}/{PARTITION_META}")
    try:
        said = decode_document(PARTITION_META, data)
        return PartitionMeta(
            str(said["topic_id"]),
            int(said.get("made_epoch", NO_EPOCH)),
            int(said.get("made_number", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{PARTITION_META}: {error!r}") from error


def known_meta(files: Files, directory: str) -> PartitionMeta:
    """Return what ``directory`` says of itself; one without a topic id when that cannot be read.
    Raises OSError."""
    try:
        return read_meta(files, directory)
    except (CheckpointError, FileNotFoundError):
        return PartitionMeta()


def never_was_a_log(meta: PartitionMeta, log_sizes: Iterable[int]) -> bool:
    """Return whether a directory was made for a log, and never became one. ``log_sizes`` are those
    of its segments, in bytes."""
    return not meta.topic_id and not any(log_sizes)
