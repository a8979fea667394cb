"""Round robin gives the partitions of all topics, in order, to one member after the other. Pure.

Even over all topics together, where range is even per topic. Members that do not want a topic are
passed over; with unequal subscriptions the shares may then be uneven (Kafka's RoundRobinAssignor).
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.consumer.assignors.base import Assignor, RebalanceProtocol, assignments, subscribers
from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """The assignor follows the text of this module."""

    name = "roundrobin"
    protocol: RebalanceProtocol = "eager"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign partitions. The turn goes on from one topic to the next."""
        names = sorted(members)
        shares: dict[str, list[TopicPartition]] = {member: [] for member in names}
        turn = 0
        for topic, wanting in subscribers(partitions, members).items():
            wants = frozenset(wanting)
            for number in range(partitions[topic]):
                while names[turn % len(names)] not in wants:
                    turn += 1
                shares[names[turn % len(names)]].append(TopicPartition(topic, number))
                turn += 1
        return assignments(shares)
