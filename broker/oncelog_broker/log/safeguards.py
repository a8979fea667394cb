"""Rules of the log can be switched off here, so that tests prove that they are needed.

Production code never changes one: the default is the only safe value. The rules of replication, and
the list of all switches of the broker, are in ``replication.safeguards``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from oncelog_broker.log.producer_state import BATCHES_MAX, ProducerState
from oncelog_runtime.files import Files


@dataclass(frozen=True, slots=True)
class LogSafeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    sync_directories: bool = True
    """A new, renamed or removed name is durable before anything is built on it [D4] [D5].
    Off: files are synced, the directories that name them are not."""

    keep_damaged_logs: bool = True
    """Synced data that does not hold any more is corruption: the replica goes out of service and is
    fetched again [D2]. Off: corruption is taken for the torn tail of a crash, and truncated with
    all that follows."""

    rewrite_unsynced: bool = True
    """Unsynced data that a process finds of an earlier one is written again before it is synced, as
    long as the machine has not restarted: a sync that failed may have dropped it, unseen. Off: it
    is only synced."""

    distrust_failed_directories: bool = True
    """A directory that failed when offsets had counted there unsynced is said to have lost them,
    also if the machine has not stopped since: a volume that is mounted again has forgotten what a
    failed sync left. So is one in which a log ends below its checkpointed high watermark. Off: only
    a stop of the machine counts."""

    give_up_hung_disks: bool = True
    """A directory in which a sync does not end is offline after a while, and its replicas go
    elsewhere. Off: it is waited for."""

    vouch_since_made: bool = True
    """A directory vouches for a partition only since that was made there: it may have been in
    another one before, which is gone. Off: since the directory lost nothing."""

    swap_in_order: bool = True
    """A compacted segment is synced before it takes the place of those that it was made of, and
    these are removed only when the new name is durable [B26]. Off: the old segments go first, and
    the new one is not synced."""

    remember_producers: bool = True
    """A batch that is in the log already is not appended again [K1]. Off: nothing is remembered of
    producers, and so nothing is checked."""

    remember_five_batches: bool = True
    """A producer's last batches are remembered, as many as it may have unanswered [K1]. Off: one
    fewer, so that a retry of the oldest is refused though it is in the log."""

    compare_content: bool = True
    """A repeat is the same batch of the same producer epoch [K1]. Off: any with the same sequences
    passes for one."""

    followers_know_producers: bool = True
    """A follower remembers what it appends, for the day on which it leads [I14]. Off: a new leader
    knows of no producer what others have appended."""

    abort_index_before_lso: bool = True
    """The range of an aborted transaction is known before the last stable offset passes it [I15].
    Off: only when the next one comes."""

    verify_transactions: bool = True
    """The first batch of a transaction is appended only after its coordinator knows of the
    partition, under a guard that ends with the transaction (KIP-890, [K13]). Off: unasked."""

    markers_need_newer_epoch: bool = True
    """A marker ends a transaction only if its epoch is above that of its data [K14]. Off:
    an equal one does too."""

    check_clock: bool = True
    """The wall clock is held against the monotonic clock and against those of other brokers before
    anything expires by it. Off: a leap of one clock is believed."""

    def producer_state(self) -> ProducerState:
        """Return an empty state, for a log with these safeguards."""
        window = BATCHES_MAX if self.remember_five_batches else BATCHES_MAX - 1
        return ProducerState(
            window=window if self.remember_producers else 0,
            compare_content=self.compare_content,
            markers_need_newer_epoch=self.markers_need_newer_epoch,
        )


DEFAULT_SAFEGUARDS = LogSafeguards()
"""The log is meant to run with these."""


def guarded(files: Files, safeguards: LogSafeguards) -> Files:
    """Return the files as these safeguards have them: the same object, unless names are not
    synced."""
    if safeguards.sync_directories:
        return files
    return cast(Files, _NamesUnsynced(files))


class _NamesUnsynced:
    """Nobody syncs the directories of these files: for tests only."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def sync_dir(self, path: str) -> None:
        """Leave the names to luck."""

    def write_atomic_now(self, path: str, data: bytes) -> None:
        """Write as the port says, but leave out its last step."""
        temporary = f"{path}.tmp"
        file = self._files.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([data])
            file.sync()
        finally:
            file.close()
        self._files.rename(temporary, path)

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Write as ``write_atomic_now`` does."""
        self.write_atomic_now(path, data)
