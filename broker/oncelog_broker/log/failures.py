"""What a log does when its files fail it.

Rules:

- a failed write is cut back to the last whole batch, or the directory stops: the file goes on
  behind the last batch otherwise, and an append would land there (B14, D7);
- a full disk, and a want of descriptors or memory, say nothing about the disk: the call fails, the
  log goes on (D8). Any other error stops the directory for good;
- bytes that do not hold are damage of this log alone.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NoReturn

from oncelog_protocol.errors import CorruptMessageError, StorageError
from oncelog_protocol.records.batch import CorruptBatchError

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog
    from oncelog_broker.log.segment import Segment

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
"""Errors that say nothing about the disk."""


def append_failed(log: PartitionLog, segment: Segment, error: OSError) -> NoReturn:
    """Cut back to the last whole batch, or stop the directory. Raises StorageError."""
    log.epochs.truncate_from_end(log.log_end_offset + 1)
    try:
        segment.cut_unnoted()
    except OSError as second:
        # Whatever the reason: a full disk or a want of memory is no excuse here.
        log.log_dir.fail(f"cut back {log.topic_partition}", second)
        raise StorageError(f"{log.topic_partition}: append failed: {error}") from second
    if error.errno in _DISK_FULL:
        log.log_dir.disk_is_full()
        raise StorageError(f"{log.log_dir.path} is full") from error
    failed(log, "append", error)


def failed(log: PartitionLog, what: str, error: Exception) -> NoReturn:
    """Note what an error means for the log, or for its directory. Raises StorageError."""
    if isinstance(error, CorruptBatchError | CorruptMessageError):
        log.damage = str(error)
        raise StorageError(f"{log.topic_partition}: {error}") from error
    if not isinstance(error, OSError) or error.errno not in _DISK_FULL | _PASSING:
        log.log_dir.fail(f"{what} {log.topic_partition}", error)
    raise StorageError(f"{log.topic_partition}: {what} failed: {error}") from error


def refuse(log: PartitionLog) -> NoReturn:
    """The log is damaged or its directory offline. Raises StorageError."""
    reason = log.damage or f"{log.log_dir.path} is offline: {log.log_dir.failure}"
    raise StorageError(f"{log.topic_partition}: {reason}")
