"""The log lacks one of its rules here, for tests that prove that the rule is needed.

What a rule decides is overridden in a subclass of ``LogSafeguards``. Where a rule is in the order
of what is written, the disk that the log is given leaves a step out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from oncelog_broker.log.open_transactions import AbortedRow
from oncelog_broker.log.producer_state import (
    BATCHES_MAX,
    ProducerEntry,
    ProducerState,
    RememberedBatch,
    next_sequence,
)
from oncelog_broker.log.safeguards import LogSafeguards
from oncelog_protocol.records.batch import TRANSACTIONAL_BIT, BatchHeader
from oncelog_protocol.records.control import Marker
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.clock import WallClock
from oncelog_runtime.files import File, Files

# ---- what a log finds at a start, and what its directories say


class CorruptionIsCutOff(LogSafeguards):
    """Corruption is taken for the torn tail of a crash, and truncated with all that follows."""

    def synced_offsets(
        self, checkpointed: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Nothing was ever synced."""
        return {}

    def has_all_writes(self, same_run: bool) -> bool:
        """Any of it may be missing."""
        return False


class UnsyncedStays(LogSafeguards):
    """Unsynced data of an earlier process is only synced."""

    def rewrites_unsynced(self, may_be_cached: bool) -> bool:
        """A sync is enough."""
        return False


class OnlyStopsLose(LogSafeguards):
    """A directory that failed is sound when it comes back, if the machine has not stopped."""

    def may_have_lost(self, counted_unsynced: bool) -> bool:
        """All is there."""
        return False


class VouchesSinceAnyLoss(LogSafeguards):
    """It vouches for all partitions in a directory since the directory lost nothing."""

    def vouched_since(self, since: int, made_epoch: int) -> int:
        """Return the directory's, whenever the partition was made there."""
        return since


class CopiesUnsynced(LogSafeguards):
    """The copy of a log takes the log's place before it is synced."""

    def syncs_before_swap(self) -> bool:
        """Return that it does not."""
        return False


class LeavesUnmarked(LogSafeguards):
    """A log that goes to another directory says nothing where it was."""

    def marks_moved(self) -> bool:
        """Return that it does not."""
        return False


class OneNameOneLog(LogSafeguards):
    """Two logs of one name are taken for copies of one log, also if their topics differ."""

    def tells_topics_apart(self) -> bool:
        """Return that it does not."""
        return False


class BelievingClock(CheckedClock):
    """A leap of one wall clock is believed."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall clock's time."""
        wall_ms = self._wall.now_ms()
        self._ahead = wall_ms - self._monotonic_s() * 1000
        return wall_ms

    def expiry_ms(self) -> int:
        """Return the wall clock's time."""
        return self.now_ms()

    def stamp_of(self, latest_ms: int) -> int:
        """Return the wall clock's time."""
        return latest_ms


class WallClockBelieved(LogSafeguards):
    """What is old by the wall clock expires."""

    def clock(
        self, wall: WallClock, monotonic_s: Callable[[], float], on_leap: Callable[[int], None]
    ) -> CheckedClock:
        """Return a clock that is not held against others."""
        return BelievingClock(wall, monotonic_s, on_leap=on_leap)


# ---- producers


class NobodyRemembered(ProducerState):
    """Nothing is remembered of producers, and so nothing is checked."""

    window = 0

    def check(self, header: BatchHeader, content: int) -> RememberedBatch | None:
        """All may be appended."""
        return None


class FourRemembered(ProducerState):
    """One batch fewer is remembered than a producer may have unanswered."""

    window = BATCHES_MAX - 1


class ContentIgnored(ProducerState):
    """A batch with the same sequences passes for a repeat."""

    def check(self, header: BatchHeader, content: int) -> RememberedBatch | None:
        """Take whatever the batch holds, and in a newer epoch as well."""
        entry = self.producers.get(header.producer_id)
        if entry is not None and header.producer_epoch >= entry.epoch:
            first = header.base_sequence
            end = next_sequence(first, header.last_offset_delta)
            for batch in reversed(entry.batches):
                if (batch.first_sequence, batch.last_sequence) == (first, end):
                    return batch
        return super().check(header, content)


class FollowersDeaf(ProducerState):
    """A follower remembers nothing of what others append, but for transactions."""

    def followed(self, header: BatchHeader, now_ms: int, *, append_time: bool) -> None:
        """Listen to transactions alone."""
        if header.attributes & TRANSACTIONAL_BIT:
            super().followed(header, now_ms, append_time=append_time)


class RangesLate(ProducerState):
    """The range of an aborted transaction is known when the next one comes."""

    def __init__(self) -> None:
        super().__init__()
        self._late: AbortedRow | None = None

    def marked(self, marker: Marker, now_ms: int) -> AbortedRow | None:
        """Return the range that the marker before this one has aborted."""
        row, self._late = self._late, super().marked(marker, now_ms)
        return row

    def truncate(self, end: int) -> list[int]:
        """Forget that range, which may be gone."""
        self._late = None
        return super().truncate(end)

    def empty(self) -> ProducerState:
        """A replay of the log knows better."""
        return ProducerState()


class NothingVerified(ProducerState):
    """The first batch of a transaction is appended unasked."""

    def opens_transaction(self, header: BatchHeader) -> bool:
        """No batch needs a guard."""
        return False


class EqualEpochsEnd(ProducerState):
    """A marker of the epoch of the data ends a transaction."""

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        number: int = NO_TXN_NUMBER,
    ) -> bool:
        """Take the marker of an earlier one too."""
        entry = self.producers.get(producer_id)
        if (
            entry is not None
            and number < 0
            and producer_epoch == entry.epoch
            and coordinator_epoch >= entry.coordinator_epoch
        ):
            return True
        return super().check_marker(producer_id, producer_epoch, coordinator_epoch, number)


class NumbersIgnored(ProducerState):
    """A marker with a number ends whatever is open under its epoch."""

    def _is_newer(self, entry: ProducerEntry, number: int) -> bool:
        """Take the marker of an earlier one too."""
        return True


class Remembering(LogSafeguards):
    """Logs keep another state of producers."""

    __slots__ = ("_state",)

    def __init__(self, state: type[ProducerState]) -> None:
        self._state = state

    def producer_state(self) -> ProducerState:
        """Return the state that was chosen."""
        return self._state()


# ---- disks that leave out a step


class NamesUnsynced:
    """Files are synced, the directories that name them are not."""

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


class CompactedUnsynced:
    """A compacted segment takes the place of others before it is synced."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file that is not synced, if it is to replace another."""
        file = self._files.open(path, create=create)
        return cast(File, _Unsynced(file)) if ".cleaned." in path else file


class _Unsynced:
    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        """Leave it to luck."""


UNSAFE: dict[str, LogSafeguards] = {
    "keep_damaged_logs": CorruptionIsCutOff(),
    "rewrite_unsynced": UnsyncedStays(),
    "distrust_failed_directories": OnlyStopsLose(),
    "vouch_since_made": VouchesSinceAnyLoss(),
    "sync_before_swap": CopiesUnsynced(),
    "mark_moved": LeavesUnmarked(),
    "tell_topics_apart": OneNameOneLog(),
    "check_clock": WallClockBelieved(),
    "remember_producers": Remembering(NobodyRemembered),
    "remember_five_batches": Remembering(FourRemembered),
    "compare_content": Remembering(ContentIgnored),
    "followers_know_producers": Remembering(FollowersDeaf),
    "abort_index_before_lso": Remembering(RangesLate),
    "verify_transactions": Remembering(NothingVerified),
    "markers_need_newer_epoch": Remembering(EqualEpochsEnd),
    "markers_need_newer_number": Remembering(NumbersIgnored),
}
"""Rules by the switch that turns them off."""

UNSAFE_FILES: dict[str, Callable[[Files], Any]] = {
    "sync_directories": NamesUnsynced,
    "swap_in_order": CompactedUnsynced,
}
"""The files that a log is given instead of its disk, by the switch."""


def without(switch: str) -> LogSafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]
