"""Range gives each member a run of neighbouring partitions of each topic. Pure.

Topics with equal counts and subscribers are cut at the same places, so that partition n of one and
partition n of another are with one member: what joins of streams need. The price is that the first
members get more when the counts do not divide (Kafka's RangeAssignor).
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.consumer.assignors.base import Assignor, RebalanceProtocol, assignments, subscribers
from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition


class RangeAssignor(Assignor):
    """The assignor follows the text of this module."""

    name = "range"
    protocol: RebalanceProtocol = "eager"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign partitions; the first ``count % members`` members of a topic get one more."""
        shares: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
        for topic, wanting in subscribers(partitions, members).items():
            each, more = divmod(partitions[topic], len(wanting))
            start = 0
            for index, member in enumerate(wanting):
                end = start + each + (index < more)
                shares[member].extend(TopicPartition(topic, n) for n in range(start, end))
                start = end
        return assignments(shares)
