"""Sticky gives even shares, and moves as few partitions as that takes. Pure.

Rules
-----
* A partition is claimed by the member that had it last; of two claims the one of the newer
  generation holds (KIP-792), of two of one generation that of the first member by name.
* Members that all want the same topics get shares that differ by one at most, and no more
  partitions move than that takes. What a member gives up is taken from its topics in turn, so that
  no topic ends up with one member alone.
* With unequal subscriptions: where one member has two more than another, none of its partitions is
  of a topic that the other wants (the balance of Kafka's StickyAssignor).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from oncelog.consumer.assignors.base import RebalanceProtocol, assignments, subscribers
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_subscription,
    encode_subscription,
)
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.types import TopicPartition

Claims = Mapping[str, tuple[int, Sequence[TopicPartition]]]
"""Member to (generation, partitions that it had in it)."""
Shares = dict[str, list[TopicPartition]]


class StickyAssignor:
    """The assignor is for members that give up everything before they join, and say what it was."""

    name = "sticky"
    protocol: RebalanceProtocol = "eager"

    def subscription_user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], generation: int
    ) -> bytes:
        """Return the last assignment, since at the time of joining nothing is owned any more."""
        return encode_subscription(
            ConsumerSubscription((), owned=tuple(previous), generation=generation)
        )

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign partitions by the rules of the module."""
        claims = {member: _previous(members[member]) for member in sorted(members)}
        return assignments(share_out(partitions, members, claims))


def _previous(subscription: ConsumerSubscription) -> tuple[int, Sequence[TopicPartition]]:
    if subscription.user_data:
        try:
            told = decode_subscription(subscription.user_data)
            return told.generation, told.owned
        except InvalidRequestError:
            pass  # an assignor of that name which is not ours: it claims what it owns
    return subscription.generation, subscription.owned


def share_out(
    partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription], claims: Claims
) -> Shares:
    """Assign every partition of every topic that somebody wants to one member that wants it."""
    wanting = subscribers(partitions, members)
    shares: Shares = {member: [] for member in sorted(members)}
    holder = holders(claims)
    for tp in sorted(holder):
        if tp.partition < partitions.get(tp.topic, 0) and tp.topic in members[holder[tp]].topics:
            shares[holder[tp]].append(tp)
    alike = all(len(names) == len(members) for names in wanting.values())
    if alike and members:
        _trim(shares, sum(partitions[topic] for topic in wanting))
    _fill(shares, wanting, partitions)
    if not alike:
        while _level(shares, wanting, holder):
            pass
    return shares


def holders(claims: Claims) -> dict[TopicPartition, str]:
    """Return the member that has each claimed partition, by the rules of the module."""
    newest: dict[TopicPartition, tuple[int, str]] = {}
    for member in sorted(claims):
        generation, claimed = claims[member]
        for tp in claimed:
            if tp not in newest or newest[tp][0] < generation:
                newest[tp] = (generation, member)
    return {tp: member for tp, (_, member) in newest.items()}


def _trim(shares: Shares, total: int) -> None:
    """Take what is above its even share; those with most keep the places of one more."""
    each, more = divmod(total, len(shares))
    for member in sorted(shares, key=lambda name: -len(shares[name])):
        held = shares[member]
        quota = each
        if more and len(held) > each:
            quota += 1
            more -= 1
        if len(held) > quota:
            shares[member] = _by_turns(held)[:quota]


def _by_turns(held: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the first partition of each topic, then the second of each, and so on."""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, TopicPartition]] = []
    for tp in held:
        rank = seen.get(tp.topic, 0)
        seen[tp.topic] = rank + 1
        ranked.append((rank, tp))
    return [tp for _, tp in sorted(ranked)]


def _fill(
    shares: Shares, wanting: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> None:
    """Give what nobody has to the members with the least, topics with few takers first."""
    taken = {tp for held in shares.values() for tp in held}
    for topic in sorted(wanting, key=lambda name: (len(wanting[name]), name)):
        free = [
            tp
            for tp in (TopicPartition(topic, number) for number in range(partitions[topic]))
            if tp not in taken
        ]
        if not free:
            continue
        least = [(len(shares[member]), member) for member in wanting[topic]]
        heapq.heapify(least)
        for tp in free:
            count, member = least[0]
            shares[member].append(tp)
            heapq.heapreplace(least, (count + 1, member))


def _level(
    shares: Shares, wanting: Mapping[str, Sequence[str]], holder: Mapping[TopicPartition, str]
) -> bool:
    """Take partitions from members with most and give them to those with least, topic by topic.
    Return True if any moved.

    Each move makes the sum of the squares of the counts smaller, so this comes to an end.
    """
    moved = False
    of_topic: dict[str, dict[str, list[TopicPartition]]] = {topic: {} for topic in wanting}
    for member, held in shares.items():
        for tp in held:
            of_topic[tp.topic].setdefault(member, []).append(tp)
    for topic, names in wanting.items():
        having = of_topic[topic]
        while having:
            least = min(names, key=lambda name: (len(shares[name]), name))
            most = min(having, key=lambda name: (-len(shares[name]), name))
            if len(shares[most]) < len(shares[least]) + 2:
                break
            # Rather one that has to move anyhow than one that could stay where it is.
            tp = max(having[most], key=lambda tp: (holder.get(tp) != most, tp))
            having[most].remove(tp)
            if not having[most]:
                del having[most]
            shares[most].remove(tp)
            shares[least].append(tp)
            having.setdefault(least, []).append(tp)
            moved = True
    return moved
