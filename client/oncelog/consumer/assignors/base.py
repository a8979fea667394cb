"""An assignor is the rule by which a group's leader distributes partitions. Pure.

Rules
-----
* Every member of a group must be able to lead it, so an assignor depends on nothing but its
  arguments: the same ones give the same shares, in every process, in whatever order they come.
* A member gets partitions of topics that it subscribed to, and no partition goes to two.
* Topics that do not exist are left out: they are shared out when they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition

RebalanceProtocol = Literal["eager", "cooperative"]


class Assignor(Protocol):
    """An own assignor has these members; the option ``partition_assignment_strategy`` takes it.

    :ivar name: what the group agrees on: members of one group need one name in common.
    :ivar protocol: "eager": members give everything up before they join. "cooperative": they keep
        what they have until they are told otherwise, and ``assign`` must not give a partition that
        one member owns to another before the first has given it up (KIP-429).
    """

    @property
    def name(self) -> str:
        """Return the assignor's name in the group."""
        ...

    @property
    def protocol(self) -> RebalanceProtocol:
        """Return whether members that use it rebalance eagerly or cooperatively."""
        ...

    def subscription_user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], generation: int
    ) -> bytes:
        """Return what a member tells the leader's assignor beside its subscription: here nothing.

        ``previous`` is what the member was assigned last, in ``generation`` (-1: never), also when
        it had to give it up in order to join.
        """
        return b""

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign partitions to members. The result names every member.

        :param partitions: the partition count of each topic that exists.
        :param members: each member's subscription by its id.
        """
        ...


def assignments(
    shares: Mapping[str, Sequence[TopicPartition]],
) -> dict[str, ConsumerAssignment]:
    """Convert each member's partitions into its assignment on the wire, in order."""
    return {
        member: ConsumerAssignment(tuple(sorted(partitions)))
        for member, partitions in shares.items()
    }


def subscribers(
    partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
) -> dict[str, list[str]]:
    """Return the members that want each existing topic, with topics and members in order."""
    wanting: dict[str, list[str]] = {}
    for member in sorted(members):
        for topic in dict.fromkeys(members[member].topics):
            if partitions.get(topic, 0) > 0:
                wanting.setdefault(topic, []).append(member)
    return dict(sorted(wanting.items()))
