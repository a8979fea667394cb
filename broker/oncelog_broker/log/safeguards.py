"""The rules of the log without which records would be lost are methods here.

Each is the safe decision, and the only one that the product has. Tests hand in others, to see that
the loss is noticed: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog_broker.log.producer_state import ProducerState
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.clock import WallClock


class LogSafeguards:
    """It decides for the logs of a broker."""

    __slots__ = ()

    def synced_offsets(
        self, checkpointed: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Return up to where logs were surely synced. What does not hold below is corruption: the
        replica goes out of service and is fetched again [D2]."""
        return checkpointed

    def has_all_writes(self, same_run: bool) -> bool:
        """Return whether all that was written must be there yet, as the machine surely ran on since
        [D2]."""
        return same_run

    def rewrites_unsynced(self, may_be_cached: bool) -> bool:
        """Return whether unsynced data of an earlier process is written again before it is synced:
        a sync that failed may have dropped it, unseen, while the page cache had it."""
        return may_be_cached

    def may_have_lost(self, counted_unsynced: bool) -> bool:
        """Return whether a directory is said to have lost data when it failed or fell short: if
        offsets had counted there unsynced, also if the machine has not stopped since. A volume that
        is mounted again has forgotten what a failed sync left."""
        return counted_unsynced

    def vouched_since(self, since: int, made_epoch: int) -> int:
        """Return since when a directory that lost nothing since ``since`` vouches for a partition:
        it may have been in another one before it was made there, which is gone."""
        return max(since, made_epoch)

    def marks_moved(self) -> bool:
        """Return whether a log that goes to another directory says so where it was."""
        return True

    def tells_topics_apart(self) -> bool:
        """Return whether a start knows the log of a deleted topic beside one of the topic that has
        its name now [D18]."""
        return True

    def syncs_before_swap(self) -> bool:
        """Return whether the copy of a log is synced before it takes the log's place."""
        return True

    def producer_state(self) -> ProducerState:
        """Return an empty state of producers for a log."""
        return ProducerState()

    def clock(
        self,
        wall: WallClock,
        monotonic_s: Callable[[], float],
        on_leap: Callable[[int], None],
    ) -> CheckedClock:
        """Return the clock by which things expire: no leap of one wall clock is believed."""
        return CheckedClock(wall, monotonic_s, on_leap=on_leap)


SAFE = LogSafeguards()
"""The log runs with these."""
