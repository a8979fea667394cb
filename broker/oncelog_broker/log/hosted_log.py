"""A directory sees the logs that lie in it through this type, and they know the directory."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from oncelog_broker.log.flusher import Syncable
from oncelog_broker.log.segment import Segment
from oncelog_protocol.types import TopicPartition


class LogCheckpoint(NamedTuple):
    """The directory's checkpoints are to say this of one log."""

    recovery_point: int
    log_start_offset: int
    clean_rows: list[tuple[int, int]]
    truncation_mark: int
    """It is the number of the mark that these checkpoints make needless; 0 means that there is
    none."""


class HousedFiles(NamedTuple):
    """The files of a log are in another directory, copied to its end."""

    segments: list[Segment]
    unsynced: list[Segment]
    """Some of each of these is not synced."""
    made_epoch: int
    """The copy was made under this broker epoch."""
    epochs_revision: int
    """The disk holds this revision of the epoch history."""
    end_offset: int
    """The disk says that offsets below it are synced."""
    log_start_offset: int
    """The disk says that the log begins here."""


class HostedLog(Syncable, Protocol):
    """It is a log, as seen from its directory; ``PartitionLog`` is one."""

    topic_partition: TopicPartition
    topic_id: str
    made_epoch: int
    directory: str
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    truncation_mark: int

    def tell(self) -> None:
        """Tell how far the log is synced, if that is news."""
        ...

    def begin_checkpoint(self) -> LogCheckpoint:
        """Capture what checkpoints are to say; from now on the disk may hold it."""
        ...

    @property
    def epochs_changed(self) -> bool:
        """Return whether the epoch history differs from the one on disk."""
        ...

    def encode_epochs(self) -> tuple[int, bytes]:
        """Return the revision of the epoch history, and the content of its file."""
        ...

    def epochs_written(self, revision: int) -> None:
        """Note that the disk holds this revision of the epoch history."""
        ...

    def high_watermark_written(self, high_watermark: int) -> None:
        """Note that the disk holds this high watermark."""
        ...

    def remove_mark(self, mark: int) -> bool:
        """Remove a truncation mark, unless the log was truncated again since; return whether it was
        removed. Raises OSError."""
        ...

    def keep_up(self) -> bool:
        """Write what is missing of indexes and producers, if that is much; return whether it
        was."""
        ...

    def snapshot_producers(self) -> None:
        """Begin to write what is known of producers."""
        ...

    def release(self) -> None:
        """Give up the descriptors, writing nothing."""
        ...

    def close(self) -> None:
        """Write what the next start reads, give up the descriptors. Raises OSError."""
        ...
