"""Invariants of consumer groups are checked on what is durable: [I18], [I19], [I20], [I22], [I29].

Every generation of a group is a record of the internal topic before any member hears of it, so the
committed records, in their order, are the history of all groups, whoever coordinated them.

- [I18]: no partition is assigned to two members of a generation;
- [I19]: what is assigned is subscribed; of a subscribed topic every partition is assigned, or is
  left out because its owner still has to give it up;
- [I20]: in a cooperative group nobody is given what another member of the generation still owns, by
  the newest claim of all;
- [I22]: durable generations do not go back while a group exists;
- [I29]: a member that has gone is in no generation any more.

[I21] is the broker's own, always on (``coordinator/group/invariants.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    SavedGroup,
    SavedMember,
    decode_record,
)
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord
from oncelog_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
)
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.types import TopicPartition
from simulation.compacted_canon import CompactedCanon
from simulation.store_view import InvariantViolation
from simulation.truth import Truth

__all__ = ["GroupInvariants"]


class GroupInvariants:
    """It takes in what is committed to the internal topic, once."""

    def __init__(self) -> None:
        self.generations: dict[str, int] = {}
        """The durable generation of each group."""
        self._gone: dict[str, set[str]] = {}
        """Who has gone from each group, and was not forgotten yet."""
        self._taken: dict[TopicPartition, tuple[CompactedCanon, int]] = {}

    def check(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Look at the records that have come in since the last call.

        :raises InvariantViolation: [I18], [I19], [I20], [I22] or [I29].
        """
        for name, truth in truths.items():
            canon = truth.canon
            if name.topic != GROUP_TOPIC or not isinstance(canon, CompactedCanon):
                continue
            before, count = self._taken.get(name, (canon, 0))
            if before is not canon:
                self._gone.clear()
                self.generations.clear()  # records were lost where that is permitted
                count = 0
            offsets = canon.offsets
            if count == len(offsets):
                continue
            for offset in offsets[count:]:
                record = canon.records[offset]
                if record.key not in (None, BARRIER.key):
                    fact = decode_record(CoordinatorRecord(record.key, record.value))
                    if isinstance(fact, GroupFact):
                        self.take(fact, _partitions(truths))
                    elif isinstance(fact, DepartedFact):
                        self.take_departure(fact)
            self._taken[name] = canon, len(offsets)

    def take(self, fact: GroupFact, partitions: Mapping[str, int]) -> None:
        """Take one generation, or the end of a group; ``partitions`` is how many topics have."""
        saved = fact.saved
        if saved is None:
            self.generations.pop(fact.group, None)
            self._gone.pop(fact.group, None)
            return
        before = self.generations.get(fact.group, -1)
        if saved.generation < before:
            _fail("I22", fact, f"generation {saved.generation} follows {before}")
        self.generations[fact.group] = saved.generation
        back = self._gone.get(fact.group, set()).intersection(m.member_id for m in saved.members)
        if back:
            _fail("I29", fact, f"{min(back)} is a member, and had gone")
        if saved.protocol_type == PROTOCOL_TYPE and saved.members:
            _check_assignments(fact, saved, partitions)

    def take_departure(self, fact: DepartedFact) -> None:
        """Take one departure; that it is taken back makes nobody a member again."""
        if fact.generation is not None:
            self._gone.setdefault(fact.group, set()).add(fact.member_id)


def _check_assignments(fact: GroupFact, saved: SavedGroup, partitions: Mapping[str, int]) -> None:
    wants = {m.member_id: decode_subscription(m.subscription) for m in saved.members}
    owners: dict[TopicPartition, SavedMember] = {}
    for member in saved.members:
        for partition in decode_assignment(member.assignment).partitions:
            other = owners.setdefault(partition, member)
            if other is not member:
                _fail("I18", fact, f"{partition} is {other.member_id}'s and {member.member_id}'s")
            if partition.topic not in wants[member.member_id].topics:
                _fail("I19", fact, f"{member.member_id} is not subscribed to {partition}")
    claims = _claims(wants)
    cooperative = "cooperative" in (saved.protocol_name or "")
    if cooperative:
        for partition, member in owners.items():
            claimants = claims.get(partition, [])
            if len(claimants) == 1 and claimants[0] != member.member_id:
                text = f"{partition} is {member.member_id}'s, while {claimants[0]} still owns it"
                _fail("I20", fact, text)
    seen = {partition.topic for partition in owners}
    for topic in sorted({t for w in wants.values() for t in w.topics if t in seen}):
        for number in range(partitions.get(topic, 0)):
            partition = TopicPartition(topic, number)
            if partition not in owners and not (cooperative and partition in claims):
                _fail("I19", fact, f"{partition} is nobody's")


def _claims(wants: Mapping[str, ConsumerSubscription]) -> dict[TopicPartition, list[str]]:
    """Return, by partition, who says in the newest generation to own it."""
    newest: dict[TopicPartition, tuple[int, list[str]]] = {}
    for member_id, subscription in wants.items():
        for partition in subscription.owned:
            generation, claimants = newest.get(partition, (-2, []))
            if subscription.generation > generation:
                newest[partition] = subscription.generation, [member_id]
            elif subscription.generation == generation:
                claimants.append(member_id)
    return {partition: claimants for partition, (_, claimants) in newest.items()}


def _partitions(truths: Iterable[TopicPartition]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in truths:
        counts[name.topic] = counts.get(name.topic, 0) + 1
    return counts


def _fail(id: str, fact: GroupFact, text: str) -> None:
    generation = -1 if fact.saved is None else fact.saved.generation
    raise InvariantViolation(id, f"group {fact.group}, generation {generation}: {text}")
