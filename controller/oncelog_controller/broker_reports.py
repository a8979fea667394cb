"""The controller keeps here what each broker has told of its disks, replicas and copies. Pure.

Rules
-----
* Nothing of it is in the store: the next controller hears it within one interval of the brokers.
  So nothing may be decided by it that would be wrong if it were older, or not known at all.
* A report counts for the life of a broker that sent it. One of an earlier life is refused, and
  what a broker told is forgotten when it goes or registers anew.
* A report of everything replaces the one before when its last page has come; until then the one
  before holds. Pages that continue a report are taken in their order, or not at all.
* A broker of a release without BrokerReport, and one that was not heard yet, is not known: -1 or
  None. Figures are as of ``as_of``, so those of two brokers may be some seconds apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_controller.state import BrokerRegistration
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
)
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    COPYING,
    GONE,
    UNKNOWN,
    BrokerReportRequest,
    ReportedCopy,
    ReportedDirectory,
    ReportedTopic,
)

PACE_KEPT_S = 3600.0
"""So long after the last copy it is known how fast a broker copies."""
PACE_WEIGHT = 0.25
"""The last second or two of a copy count for so much, what was before for the rest."""


class ReportedReplica(NamedTuple):
    """It is one replica, as its broker told of it."""

    size_bytes: int
    in_bytes_per_s: int
    """Appended by clients, or fetched from the leader; -1: not known yet."""
    out_bytes_per_s: int
    """Sent to consumers, followers are not counted; -1: not known yet."""
    directory: int
    """The place of its directory in what :meth:`BrokerReports.disks` returns."""


class CopyProgress(NamedTuple):
    """It says how far the copies of one partition are, all of them together."""

    bytes_total: int
    """-1: not known."""
    bytes_done: int
    """-1: not known."""
    bytes_per_s: int
    """They come nearer by so much, as the slowest of them lets all of them be done: a copy fetches
    more than is written to the leader meanwhile. 0: one does not come nearer. -1: not known."""
    reason: str
    """It says what hinders one of them; "": nothing does."""

    @property
    def bytes_left(self) -> int:
        """Return how many bytes are to be copied yet; -1: not known."""
        return UNKNOWN if self.bytes_total < 0 else self.bytes_total - self.bytes_done

    @property
    def seconds_left(self) -> int:
        """Return how long the rest takes at this pace; -1 when that is not known, or when the
        copies do not come nearer."""
        if self.bytes_left <= 0:
            return self.bytes_left
        return -(-self.bytes_left // self.bytes_per_s) if self.bytes_per_s > 0 else UNKNOWN


@dataclass(slots=True)
class _Held:
    """It is what one life of a broker has told."""

    broker_epoch: int
    number: int
    """The last page that was taken."""
    as_of: float | None = None
    """When a whole report was last complete; None: not yet."""
    directories: tuple[ReportedDirectory, ...] = ()
    topics: dict[str, dict[int, ReportedReplica]] = field(default_factory=dict)
    """Replicas by topic id and number."""
    copies: dict[tuple[str, int], ReportedCopy] = field(default_factory=dict)
    warm: frozenset[tuple[str, int]] = frozenset()

    def take(self, request: BrokerReportRequest, now: float) -> None:
        """Take in one page."""
        self.number = request.number
        for topic in request.topics:
            self._take_topic(topic)
        if request.last:
            self.as_of = now
            self.directories = tuple(request.directories)
            self.copies = {(each.topic_id, each.partition): each for each in request.copies}
            self.warm = frozenset(
                (w.topic_id, number) for w in request.warm for number in w.partitions
            )

    def _take_topic(self, topic: ReportedTopic) -> None:
        replicas = self.topics.setdefault(topic.topic_id, {})
        columns = (topic.sizes, topic.in_rates, topic.out_rates, topic.directories)
        replicas.update(zip(topic.partitions, map(ReportedReplica, *columns), strict=True))
        if GONE in topic.sizes:
            for partition, size in zip(topic.partitions, topic.sizes, strict=True):
                if size == GONE:
                    replicas.pop(partition, None)
        if not replicas:
            del self.topics[topic.topic_id]


class BrokerReports:
    """It keeps the reports of one term of a controller. Times are seconds of the loop's clock."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._coming: dict[int, _Held] = {}
        """Reports of everything whose last page has not come."""
        self._paces: dict[int, tuple[float, float]] = {}
        """By broker: bytes a second of all its copies together, and as of when."""

    # ---- what comes in

    def take(
        self,
        request: BrokerReportRequest,
        brokers: Mapping[int, BrokerRegistration],
        now: float,
    ) -> None:
        """Take in one page of a report; ``brokers`` are the registered ones.

        :raises NotControllerError: its registration is newer than what is known here.
        :raises StaleBrokerEpochError: an earlier life of the broker sent it, or one that is gone.
        :raises InvalidRequestError: its columns differ in length, or it is too large.
        :raises InvalidUpdateVersionError: it does not continue what was told before.
        """
        broker_id = request.broker_id
        broker = brokers.get(broker_id)
        if broker is not None and request.broker_epoch > broker.broker_epoch:
            raise NotControllerError
        if broker is None or request.broker_epoch < broker.broker_epoch:
            raise StaleBrokerEpochError
        _check_shape(request)
        if request.continues == ANEW:
            self._coming[broker_id] = _Held(request.broker_epoch, request.number)
        page_of = self._coming.get(broker_id) or self._held.get(broker_id)
        if page_of is None or (request.continues != ANEW and page_of.number != request.continues):
            self._coming.pop(broker_id, None)
            raise InvalidUpdateVersionError
        page_of.take(request, now)
        if request.last:
            self._coming.pop(broker_id, None)
            self._held[broker_id] = page_of
            self._note_pace(broker_id, page_of, now)

    def _note_pace(self, broker_id: int, held: _Held, now: float) -> None:
        rate = float(sum(max(copy.bytes_per_s, 0) for copy in held.copies.values()))
        if rate > 0:
            before, at = self._paces.get(broker_id, (rate, now))
            if now - at <= PACE_KEPT_S:
                rate = PACE_WEIGHT * rate + (1 - PACE_WEIGHT) * before
            self._paces[broker_id] = (rate, now)

    def keep(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Forget what brokers told that are not registered any more, or have registered anew."""
        for table in (self._held, self._coming):
            for broker_id, held in list(table.items()):
                broker = brokers.get(broker_id)
                if broker is None or broker.broker_epoch != held.broker_epoch:
                    del table[broker_id]

    # ---- what is known

    def as_of(self, broker_id: int) -> float | None:
        """Return when a broker's last report was complete; None: it has told nothing."""
        held = self._held.get(broker_id)
        return None if held is None else held.as_of

    def disks(self, broker_id: int) -> tuple[ReportedDirectory, ...] | None:
        """Return the log directories of a broker, also those offline; None: not known."""
        held = self._held.get(broker_id)
        return None if held is None else held.directories

    def replica(self, topic_id: str, partition: int, broker_id: int) -> ReportedReplica | None:
        """Return what a broker told of its replica; None: it has none, or that is not known."""
        held = self._held.get(broker_id)
        return None if held is None else held.topics.get(topic_id, {}).get(partition)

    def replica_bytes(self, topic_id: str, partition: int, broker_id: int) -> int:
        """Return the size of a broker's replica. It is 0 where a broker that was heard has none;
        -1 where the broker was not heard."""
        replica = self.replica(topic_id, partition, broker_id)
        if replica is not None:
            return replica.size_bytes
        return 0 if broker_id in self._held else UNKNOWN

    def partition_bytes(self, topic_id: str, partition: int, holders: Iterable[int]) -> int:
        """Return the size of the first of ``holders`` that has told of its replica; -1: none has.
        Whoever asks names the leader first: others may lack something."""
        for broker_id in holders:
            replica = self.replica(topic_id, partition, broker_id)
            if replica is not None:
                return replica.size_bytes
        return UNKNOWN

    def rate(self, topic_id: str, partition: int, leader: int) -> int:
        """Return how many bytes a second clients write to a partition, as its leader has told; -1:
        not known."""
        replica = self.replica(topic_id, partition, leader)
        return UNKNOWN if replica is None else replica.in_bytes_per_s

    def copy(self, topic_id: str, partition: int, broker_id: int) -> ReportedCopy | None:
        """Return what a broker told of its replica that is not in the ISR; None: nothing."""
        held = self._held.get(broker_id)
        return None if held is None else held.copies.get((topic_id, partition))

    def is_warm(self, topic_id: str, partition: int, broker_id: int) -> bool:
        """Return whether a broker has told that it has read a coordinator's partition that it does
        not lead yet, all but the last records."""
        held = self._held.get(broker_id)
        return held is not None and (topic_id, partition) in held.warm

    def seconds_to_copy(self, size_bytes: int, brokers: Collection[int], now: float) -> int:
        """Return how long a copy of so many bytes takes on each of ``brokers``, one after another
        at its pace of the last hour; the slowest counts. -1: nobody has copied in that time, or
        the size is not known.

        A broker that has not copied anything is taken to be as fast as the others.
        """
        recent = {b: pace for b, (pace, at) in self._paces.items() if now - at <= PACE_KEPT_S}
        if size_bytes <= 0 or not brokers:
            return UNKNOWN if size_bytes < 0 else 0
        if not recent:
            return UNKNOWN
        mean = sum(recent.values()) / len(recent)
        slowest = min(recent.get(broker_id, mean) for broker_id in brokers)
        return max(1, round(size_bytes / slowest))

    def progress(
        self,
        topic_id: str,
        partition: int,
        leader: int,
        added: Iterable[int],
        in_sync: Collection[int],
    ) -> CopyProgress:
        """Return how far those are that a move adds to the replicas of a partition.

        A copy knows how many offsets it lacks, not how many bytes. So what is left is the size of
        the leader's log less that of the copy's: both begin at the same offset, and hold the same
        batches. It is off by what retention or compaction has taken at one side only, and by what
        came between the two reports. Members of the ISR are done.
        """
        total = self.partition_bytes(topic_id, partition, (leader,))
        written = max(self.rate(topic_id, partition, leader), 0)
        wanted = done = 0
        under_way: list[tuple[int, int]] = []
        reason = COPYING
        for broker_id in added:
            size = self.replica_bytes(topic_id, partition, broker_id)
            if broker_id in in_sync:
                size = total
            else:
                copy = self.copy(topic_id, partition, broker_id)
                speed = UNKNOWN if copy is None else copy.bytes_per_s
                nearer = UNKNOWN if speed < 0 else max(speed - written, 0)
                under_way.append((max(total - max(size, 0), 0), nearer))
                reason = reason or (COPYING if copy is None else copy.reason)
            wanted += total
            done = UNKNOWN if size < 0 or done < 0 else done + min(size, total)
        rate = _rate_of_all(under_way)
        if total < 0 or done < 0:
            return CopyProgress(UNKNOWN, UNKNOWN, rate, reason)
        return CopyProgress(wanted, done, rate, reason)


def _rate_of_all(copies: Collection[tuple[int, int]]) -> int:
    """Return the rate by which all copies are done when the slowest is.

    :param copies: of each what is left, and by how much that becomes less in a second; -1: not
        known.
    """
    if any(nearer < 0 for _, nearer in copies):
        return UNKNOWN
    left = [(size, nearer) for size, nearer in copies if size > 0]
    if not left:
        return sum(nearer for _, nearer in copies)
    if any(nearer == 0 for _, nearer in left):
        return 0
    slowest_s = max(size / nearer for size, nearer in left)
    return round(sum(size for size, _ in left) / slowest_s)


def _check_shape(request: BrokerReportRequest) -> None:
    told = 0
    for topic in request.topics:
        count = len(topic.partitions)
        columns = (topic.sizes, topic.in_rates, topic.out_rates, topic.directories)
        if any(len(column) != count for column in columns):
            raise InvalidRequestError("the columns of a report differ in length")
        told += count
    warm = sum(len(each.partitions) for each in request.warm)
    if max(told, len(request.copies), warm) > limits.REPORT_REPLICAS_MAX:
        raise InvalidRequestError("a page of a report has too many replicas, or warm partitions")
