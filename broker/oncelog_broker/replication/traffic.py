"""Traffic is counted per topic, in plain numbers. Pure.

Only so many topics are counted by themselves; all that come later share one count, so that neither
memory nor the series of a monitoring system grow with the number of topics. A topic stays where it
was counted first for as long as it has a replica here: no count ever falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OTHERS = "(other)"
"""It stands for the name of a topic; no topic can be called so."""

TOPICS_MAX = 1000


@dataclass(slots=True, eq=False)
class TopicTraffic:
    """One topic is counted here, or all that have no count of their own. Counts only grow."""

    bytes_in: int = 0
    """Clients appended batches of so many bytes."""
    messages_in: int = 0
    """Clients appended so many records."""
    bytes_out: int = 0
    """Consumers were sent batches of so many bytes."""
    replicated_in: int = 0
    """Batches of so many bytes were fetched from leaders."""
    replicated_out: int = 0
    """Followers were sent batches of so many bytes."""

    def produced(self, size_bytes: int, records: int) -> None:
        """Count a client's batch that was appended."""
        self.bytes_in += size_bytes
        self.messages_in += records

    def consumed(self, size_bytes: int) -> None:
        """Count batches that a consumer was sent."""
        self.bytes_out += size_bytes

    def fetched_from_leader(self, size_bytes: int) -> None:
        """Count batches that a leader has sent."""
        self.replicated_in += size_bytes

    def sent_to_follower(self, size_bytes: int) -> None:
        """Count batches that a follower was sent."""
        self.replicated_out += size_bytes

    def add(self, other: TopicTraffic) -> None:
        """Take over what another one has counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TrafficTable:
    """It keeps the traffic of all topics with replicas here."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self.others = TopicTraffic()
        """All other topics are counted here together."""
        self._own: dict[str, TopicTraffic] = {}
        self._replicas: dict[str, int] = {}
        self._gone = TopicTraffic()

    def count_by_itself(self, topics_max: int) -> None:
        """Count so many topics by themselves; this holds for those that come from now on."""
        self._topics_max = topics_max

    def acquire(self, topic: str) -> TopicTraffic:
        """Return the counts of ``topic`` for a replica that has just been made."""
        count = self._replicas.get(topic, 0)
        self._replicas[topic] = count + 1
        if not count and len(self._own) < self._topics_max:
            self._own[topic] = TopicTraffic()
        return self._own.get(topic, self.others)

    def release(self, topic: str) -> None:
        """Note that a replica of ``topic`` is gone; with the last one its counts go."""
        count = self._replicas.get(topic, 0) - 1
        if count > 0:
            self._replicas[topic] = count
            return
        self._replicas.pop(topic, None)
        traffic = self._own.pop(topic, None)
        if traffic is not None:
            self._gone.add(traffic)

    def by_topic(self) -> Iterator[tuple[str, TopicTraffic]]:
        """Yield the topics by name, then all others together."""
        for topic in sorted(self._own):
            yield topic, self._own[topic]
        yield OTHERS, self.others

    def total(self) -> TopicTraffic:
        """Return the sum over all topics that there ever were."""
        total = TopicTraffic()
        for _, traffic in self.by_topic():
            total.add(traffic)
        total.add(self._gone)
        return total
