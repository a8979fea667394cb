"""Followers that are far behind fetch apart from those that are near, and no faster than is good.

Rules
-----
* A follower fetches from each leader over two connections, its *lanes*. What is in sync, or nearly,
  is on the main one; what is far behind is on the other. So a far replica never stands before near
  ones in an answer that producers wait for (KAFKA-4313 is what a throttle for all of them does).
* Members of the ISR and of the ELR are never on the catch-up lane, nor throttled [N104]. The
  follower knows them by its order, and the leader by its own ISR, which is newer: it spends no
  tokens for them.
* On the catch-up lane the leader says how much is left, and with less than ``replica_near_bytes``
  the replica goes over to the main one. It stays there for its leader epoch: the last part of the
  way is not throttled, so every copy ends if the leader's disk is faster than its writers.
* A replica is on the catch-up lane when it is empty, when it was there in the epoch before, and
  when an answer on the main one shows that it is far behind.
* Each broker has two paces for its catch-up lanes, in bytes a second: one for what it fetches, one
  for what it is asked for. They are found: while this broker's loop runs its timers in time, a
  pace grows; when they are late, or the syncs of a disk take several times as long as before, it
  shrinks. It never goes below ``replica_catch_up_min_bytes_per_second``, nor above
  ``replica_catch_up_max_bytes_per_second``, if that is set. A fetch asks for what the pace allows
  now, so nothing is fetched that would wait in memory.
* What one answer carries is read, sent and appended in one turn of the loop each. Where others use
  a disk of this broker, an answer is small: 4 MiB are a turn of some milliseconds at either end,
  and an acknowledgement waits for several of them.

Only the loop's time is looked at, so a simulated cluster repeats itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_broker.replication.sync_times import SyncTimes
from oncelog_protocol.messages.fetch import NOT_KNOWN, FetchPartitionResponse
from oncelog_protocol.types import FetchLane, TopicPartition

ENOUGH_BYTES = 256 * 1024
"""A fetch waits until the pace allows so much: many small ones would cost more than they bring."""
PIECE_BYTES_BESIDE_OTHERS = 512 * 1024
"""So much is carried at once where others use a disk."""
START_BYTES_PER_SECOND = 32 * 1024 * 1024
MOST_BYTES_PER_SECOND = 4 * 1024 * 1024 * 1024
GROWTH_BYTES_PER_SECOND = 4 * 1024 * 1024
SHRINKING = 0.7
BURST_S = 0.25
"""What was not fetched in so long is not made up for."""
TICK_S = 0.05
JUDGE_S = 0.25
LATE_S = 0.01
"""A loop whose timer is later than this has too much to do."""


WAIT = -1
LOOK_AGAIN_S = 1.0
"""A lane that waits for its pace looks again after so long: settings may allow more by then."""


class ReplicaLanes:
    """It says over which lane each replica is fetched from its leader; nobody else decides it."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._near: dict[TopicPartition, int] = {}
        """Replicas that came near stand here with the leader epoch in which they did."""

    def first(self, partition: Partition, before: FetchLane | None) -> FetchLane:
        """Return the lane on which a replica begins to follow.

        :param before: the lane on which it followed until now; None: it did not follow.
        """
        may_be_far = before is FetchLane.CATCH_UP or not partition.log.log_end_offset
        return FetchLane.CATCH_UP if may_be_far and not self._stays(partition) else FetchLane.MAIN

    def after(
        self, partition: Partition, answer: FetchPartitionResponse, records: int
    ) -> FetchLane:
        """Return the lane on which a replica goes on after an answer that it has taken.

        :param records: the answer had so many offsets.
        """
        if self._stays(partition):
            return FetchLane.MAIN
        left = answer.high_watermark - partition.log.log_end_offset
        if bytes_left(answer, left, records) >= self._config.replica_near_bytes:
            return FetchLane.CATCH_UP
        self._near[partition.topic_partition] = partition.leader_epoch
        return FetchLane.MAIN

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a replica that is here no more."""
        self._near.pop(topic_partition, None)

    def _stays(self, partition: Partition) -> bool:
        """Return whether a replica is on the main lane for as long as the leader epoch lasts."""
        return partition.safeguards.is_spared(partition.counted) or (
            self._near.get(partition.topic_partition) == partition.leader_epoch
        )


def bytes_left(answer: FetchPartitionResponse, records_left: int, records: int) -> int:
    """Return how many bytes a follower lacks after an answer, about. A leader that does not say it
    (on the main lane, or in version 0) is believed to have records like those of the answer.

    :param records_left: offsets from the follower's end to the leader's high watermark.
    :param records: the answer had so many offsets.
    """
    if answer.bytes_left != NOT_KNOWN:
        return answer.bytes_left
    return records_left * answer.records.length // max(1, records) if records_left > 0 else 0


class Tokens:
    """They bound what one answer of a leader carries on the catch-up lane, but not what it carries
    for followers that the ISR or the ELR counts on [N104]."""

    def __init__(self, pace: Pace, replica_id: int, now: float) -> None:
        self._pace = pace
        self._replica_id = replica_id
        self._left_bytes = pace.room_bytes(now)

    def most(self, partition: Partition | None, offset: int, room_bytes: int) -> int:
        """Return how much of ``room_bytes`` may be used for records from ``offset`` on; WAIT:
        nothing now. ``partition`` None: there are no records in the answer."""
        if partition is None or offset >= partition.log.log_end_offset or self._spares(partition):
            return room_bytes
        return min(room_bytes, self._left_bytes) if self._left_bytes > 0 else WAIT

    def sent(self, partition: Partition | None, size_bytes: int) -> None:
        """Note that so much goes."""
        if partition is None or self._spares(partition):
            self._pace.spare(size_bytes)
        else:
            self._left_bytes -= size_bytes
            self._pace.spend(size_bytes)

    def _spares(self, partition: Partition) -> bool:
        return partition.leader is None or partition.leader.spares(self._replica_id)


class Pace:
    """It says how much the catch-up lanes of one broker may carry, one way. Call ``start`` in the
    loop."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self.bytes_per_second: float = START_BYTES_PER_SECOND
        """It is the pace of now."""
        self.carried_bytes = 0
        """The lanes have carried so much."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room_bytes = 0.0
        self._filled_s = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self._asked = False
        self._latest_s = 0.0
        self._judged_s = 0.0
        self._disks: list[SyncTimes] = []

    def watch_disk(self) -> Callable[[float, float], None]:
        """Watch one more disk; return what is to be called with the seconds of each of its sync
        rounds, and with the loop's time at its end."""
        times = SyncTimes()
        self._disks.append(times)
        return times.note

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go by this loop."""
        self._loop = loop
        self._filled_s = loop.time()

    def close(self) -> None:
        """Look at the loop no more."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def room_bytes(self, now: float) -> int:
        """Return how much may be carried at once now; 0 when it is too little to begin with."""
        self._asked = True
        if self._tick is None and self._loop is not None:
            self._latest_s, self._judged_s = 0.0, now
            for disk in self._disks:
                disk.copying_began(now)
            self._arm(self._loop, now)
        self._fill(now)
        if self._room_bytes < self._enough_bytes:
            return 0
        room_bytes = int(self._room_bytes)
        if any(disk.is_used for disk in self._disks):
            return min(room_bytes, PIECE_BYTES_BESIDE_OTHERS)
        return room_bytes

    def ready_at(self, now: float) -> float:
        """Return when to ask again, in the loop's time: when there is enough room, or sooner."""
        self._fill(now)
        wait_s = max(0.0, self._enough_bytes - self._room_bytes) / self.bytes_per_second + 0.001
        return now + min(wait_s, LOOK_AGAIN_S)

    def spend(self, size_bytes: int) -> None:
        """Note that so much was carried. One batch goes whole, so it may be more than was
        allowed."""
        self._room_bytes -= size_bytes
        self.carried_bytes += size_bytes

    def spare(self, size_bytes: int) -> None:
        """Note that so much was carried for a replica that is not held back."""
        self.carried_bytes += size_bytes

    @property
    def _enough_bytes(self) -> float:
        return min(ENOUGH_BYTES, self._burst_bytes)

    @property
    def _burst_bytes(self) -> float:
        """One byte at least: who may not ask for one never asks for the batch that goes whole."""
        return max(1.0, self.bytes_per_second * BURST_S)

    def _fill(self, now: float) -> None:
        self._clamp()
        rate, passed_s = self.bytes_per_second, now - self._filled_s
        self._room_bytes = min(self._room_bytes + rate * passed_s, self._burst_bytes)
        self._filled_s = now

    def _clamp(self) -> None:
        most = self._config.replica_catch_up_max_bytes_per_second or MOST_BYTES_PER_SECOND
        least = min(most, self._config.replica_catch_up_min_bytes_per_second)
        self.bytes_per_second = min(max(self.bytes_per_second, least), most)

    def _arm(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        due_s = now + TICK_S
        self._tick = loop.call_at(due_s, self._ticked, loop, due_s)

    def _ticked(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        now = loop.time()
        self._latest_s = max(self._latest_s, now - due_s)
        if now - self._judged_s >= JUDGE_S:
            if not self._asked:
                self._tick = None  # nobody is far behind
                for disk in self._disks:
                    disk.copying_ended(now)
                return
            slow = [disk.take_slow() for disk in self._disks]  # all are asked, to begin anew
            self.judge(self._latest_s, slow_syncs=any(slow))
            self._asked, self._latest_s, self._judged_s = False, 0.0, now
        self._arm(loop, now)

    def judge(self, late_s: float, *, slow_syncs: bool = False) -> None:
        """Change the pace, as timers of the loop were late by so much at most, and syncs took
        longer than they had before."""
        self._clamp()
        if late_s > LATE_S or slow_syncs:
            self.bytes_per_second *= SHRINKING
        else:
            self.bytes_per_second += GROWTH_BYTES_PER_SECOND
        self._clamp()


class Paces:
    """These are the paces of one broker. Call ``start`` in the loop."""

    def __init__(self, config: ReplicaConfig) -> None:
        self.fetched = Pace(config)
        """It bounds what replicas here fetch that are far behind."""
        self.sent = Pace(config)
        """It bounds what replicas elsewhere are sent that are far behind leaders here."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go by this loop."""
        self.fetched.start(loop)
        self.sent.start(loop)

    def watch_disk(self) -> Callable[[float, float], None]:
        """See ``Pace``: what is returned tells both."""
        note_fetched, note_sent = self.fetched.watch_disk(), self.sent.watch_disk()

        def note(seconds: float, now: float) -> None:
            note_fetched(seconds, now)
            note_sent(seconds, now)

        return note

    def close(self) -> None:
        """Look at the loop no more."""
        self.fetched.close()
        self.sent.close()
