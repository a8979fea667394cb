"""A compacted segment takes the place of those that it was made of.

Owns the order of the steps, in which a crash at any of them leaves the log as it was or as it is to
be, also one of the machine (B26; Kafka has one more name on the way, because Windows cannot rename
over a file):

1. it is written as ``<base>.cleaned.log``, with indexes, and synced: a start removes such files;
2. the index files of the *first* of the old segments are removed, and in one step the new log is
   renamed over that segment's: it begins at the same offset, and ends where the last of them does;
3. the directory is synced;
4. only then the other old segments are renamed to ``.deleted``, and unlinked after
   ``file_delete_delay_ms``. A start that finds a segment reach over the ones behind it up to one
   that begins where it ends, knows that it has replaced them.

From step 2 on the log in memory has the new segment. Between 2 and 4 the loop goes on, so whoever
cuts the log in that time comes to :func:`settle` first: what was replaced must not be found behind
a cut.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from oncelog_broker.log.invariants import InvariantError
from oncelog_broker.log.segment import Segment

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog


def swap_in(
    log: PartitionLog,
    run: Sequence[Segment],
    segment: Segment,
    markers_gone: Collection[int] = (),
) -> None:
    """Step 2. ``segment`` is synced and closed, ``run`` is in the log; ``markers_gone``: offsets of
    those that the new one lacks. Raises OSError, CorruptMessageError, InvariantError, and then the
    log is as it was."""
    first, last = run[0], run[-1]
    if (segment.base_offset, segment.next_offset) != (first.base_offset, last.next_offset):
        raise InvariantError(f"{segment!r} was to replace {first!r} to {last!r}")
    settle(log)
    bases = [old.base_offset for old in run]
    log.aborted.preload(bases)
    for old in run:
        old.release()  # the name of the first will be another file
    segment.take_place()
    log.segments.replace(run, segment)
    log.aborted.replaced(bases, markers_gone)
    log.size_bytes = log.segments.size_bytes()
    log.swaps += 1
    log.replaced = list(run[1:])


def settle(log: PartitionLog) -> None:
    """Steps 3 and 4, here and now, if they are due. Blocks. Raises OSError."""
    if log.replaced:
        sync_names(log)
        drop_replaced(log)


def sync_names(log: PartitionLog) -> None:
    """Step 3. Blocks. Raises OSError, EIO whatever the reason: a sync that failed proves nothing,
    and is no passing trouble."""
    try:
        log.log_dir.files.sync_dir(log.directory)
    except FileNotFoundError:
        raise  # the log is being deleted
    except OSError as error:
        raise OSError(errno.EIO, f"sync failed: {error}", log.directory) from error


def drop_replaced(log: PartitionLog) -> None:
    """Step 4. Raises OSError."""
    replaced, log.replaced = log.replaced, []
    trash: list[str] = []
    for segment in replaced:
        trash += segment.discard()
    log.log_dir.remove_later(trash, log.config.file_delete_delay_ms)
