"""The next leader of a coordinator's partition is named, and waited for until it is ready. Pure.

Rules
-----
* It holds for partitions of coordinators whose leader changes on purpose while it serves: at the
  end of a move, back to the preferred replica, away from a broker that is out of service. Whoever
  has to follow a dead leader, or one that stops, is elected at once.
* The broker that is named reads the partition as a follower, and tells in its reports when little
  is left. It is waited for ``coordinator_preload_timeout_ms`` at most, counted from when nothing
  else was missing. Then it leads all the same: one of an older release tells nothing, and a report
  proves nothing [M26].
* Nothing of it is in the store. The next controller names again, and waits anew.
* Who was named is not named any more as soon as the leader has changed, or nobody has asked for it
  in a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.core import Core
from oncelog_controller.state import ClusterPartition
from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from oncelog_protocol.types import NO_BROKER, NO_LEADER, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

COORDINATED = (GROUP_TOPIC, TRANSACTION_TOPIC)
"""The topics whose leaders are coordinators."""

FORGOTTEN_S = 5.0
"""Who was named for something that nobody has asked for in so long is named no more."""


@dataclass(slots=True)
class _NextLeader:
    """It is to lead a partition."""

    partition: ClusterPartition
    again: Callable[[], None] | None
    """It is called when the wait is over; None: whoever asked looks at every event."""
    asked_at: float
    until: float | None = None
    """So long it is waited for; None: something else is missing yet."""
    told_warm: bool = False
    told_late: bool = False


class Preloading:
    """It names the next leaders of coordinators' partitions, and says when they may lead."""

    def __init__(self, core: Core, reports: BrokerReports) -> None:
        self._core = core
        self._reports = reports
        self._named: dict[TopicPartition, _NextLeader] = {}

    def loaded(self) -> None:
        """The store was read: nobody is named."""
        self._named.clear()

    @property
    def deadline(self) -> float | None:
        """Return when :meth:`expire` is wanted, on the loop's clock; None: not at all."""
        return min((self._due(named) for named in self._named.values()), default=None)

    def _due(self, named: _NextLeader) -> float:
        if self._is_news_of_warmth(named):
            return self._core.now
        if named.until is not None and not named.told_late:
            return named.until
        return self._forgotten_at(named)

    @staticmethod
    def _forgotten_at(named: _NextLeader) -> float:
        return max(named.asked_at, named.until or 0.0) + FORGOTTEN_S

    def _is_news_of_warmth(self, named: _NextLeader) -> bool:
        wanted = named.until is not None and not named.told_warm
        return wanted and self.is_warm(named.partition)

    def is_warm(self, partition: ClusterPartition) -> bool:
        """Return whether who is named has told that little is left to read."""
        topic_id, index = partition.topic.topic_id, partition.index
        return self._reports.is_warm(topic_id, index, partition.next_leader)

    def is_awaited(self, partition: ClusterPartition) -> bool:
        """Return whether nothing but the next leader's reading keeps the leader from changing."""
        named = self._named.get(partition.topic_partition)
        return named is not None and named.until is not None and self._core.now < named.until

    # ---- asking

    def prepare(
        self,
        partition: ClusterPartition,
        broker_id: int,
        again: Callable[[], None] | None = None,
    ) -> None:
        """Name who is to lead a partition, some time from now; -1: nobody."""
        if partition.topic.name not in COORDINATED:
            return
        if broker_id in (NO_BROKER, partition.leader):
            self.over(partition)
            return
        name, now = partition.topic_partition, self._core.now
        named = self._named.get(name)
        if named is None or named.partition is not partition:
            named = self._named[name] = _NextLeader(partition, again, now)
        named.asked_at, named.again = now, again
        if partition.next_leader != broker_id:
            self._name(partition, broker_id)
            named.told_warm = False

    def may_lead(
        self,
        partition: ClusterPartition,
        broker_id: int,
        again: Callable[[], None] | None = None,
    ) -> bool:
        """Return whether a broker may be made the leader now. If not, it is named, and ``again`` is
        called when it is time to ask once more."""
        leader = partition.leader
        if partition.topic.name not in COORDINATED or leader in (NO_LEADER, broker_id):
            return True
        if not self._core.cluster.may_join(leader):
            return True  # it does not serve, or not for long
        self.prepare(partition, broker_id, again)
        named = self._named[partition.topic_partition]
        if named.until is None:
            timeout_s = self._core.config.coordinator_preload_timeout_ms / 1000
            named.until = self._core.now + timeout_s
        if self.is_warm(partition):
            return True
        if self._core.now < named.until:
            return False
        logger.warning(
            "coordinator_not_preloaded",
            partition=partition.topic_partition,
            leader=broker_id,
        )
        return True

    def over(self, partition: ClusterPartition) -> None:
        """Name nobody any more for a partition."""
        self._named.pop(partition.topic_partition, None)
        if partition.next_leader != NO_BROKER:
            self._name(partition, NO_BROKER)

    def _name(self, partition: ClusterPartition, broker_id: int) -> None:
        before = partition.next_leader
        partition.name_next_leader(broker_id)
        self._core.order_next_leader(partition, (before, broker_id))

    # ---- time

    def look(self) -> None:
        """Forget those whose partitions have another leader now, or are no more. Call it when no
        write is pending."""
        for name, named in list(self._named.items()):
            partition = named.partition
            if (
                self._core.cluster.partition(*name) is not partition
                or partition.next_leader == NO_BROKER
            ):
                del self._named[name]

    def expire(self) -> None:
        """Tell those who wait that it is time to ask again, and forget what nobody asks for."""
        now = self._core.now
        for named in list(self._named.values()):
            late = named.until is not None and named.until <= now and not named.told_late
            if self._is_news_of_warmth(named) or late:
                named.told_warm, named.told_late = True, named.told_late or late
                if named.again is not None:
                    named.again()
            elif self._forgotten_at(named) <= now:
                self.over(named.partition)
