"""A group has members, a generation and offsets; some of that is durable, the rest is not. Pure.

Two kinds of facts are kept apart. ``saved``, ``offsets``, ``pending_offsets`` and what is durable
of ``departures`` change only by the shard's ``replay``. The rest (state, members, leader, who
waits) is memory: a new coordinator builds it from ``saved``, without who has gone since. In a
stable group both say the same.

Members are kept in the order in which they joined: the first one leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from oncelog_broker.coordinator.group.departures import Departures
from oncelog_broker.coordinator.group.members import (
    Caller,
    Member,
    Offer,
    restored,
    subscription_of,
)
from oncelog_broker.coordinator.group.records import OffsetRecord, PendingOffset, SavedGroup
from oncelog_broker.coordinator.group.states import GroupState, check_transition
from oncelog_protocol.consumer_protocol import PROTOCOL_TYPE, is_of_kafka
from oncelog_protocol.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    UnknownMemberIdError,
)
from oncelog_protocol.messages.groups import JoinGroupMember, JoinGroupResponse
from oncelog_protocol.types import TopicPartition


class Group:
    """It keeps state and does the bookkeeping; the protocol itself is in ``classic_protocol``."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        """The group is in its state since then, by the wall clock."""
        self.generation = 0
        self.protocol_type: str | None = None
        """None means a simple group, one that nobody has ever joined."""
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """It maps instance ids to member ids."""
        self.pending: dict[str, None] = {}
        """These ids were handed out and have not joined yet (KIP-394)."""
        self.pending_sync: dict[str, None] = {}
        """These members of the generation have not asked for their assignment yet."""
        self.is_initial = False
        """It tells whether the rebalance began with an empty group, and waits for more to come."""
        self.has_new_member = False
        """It tells whether somebody has come since the initial delay was set."""
        self.subscribed_topics: frozenset[str] | None = None
        """These topics are subscribed to by members of the consumer protocol; None when unknown."""
        self.saved: SavedGroup | None = None
        self.departures = Departures(group_id)
        self.offsets: dict[TopicPartition, OffsetRecord] = {}
        self.pending_offsets: dict[TopicPartition, dict[int, PendingOffset]] = {}
        """Offsets in open transactions stand here by producer id, in the order in which they
        came."""
        self.metadata_bytes = 0
        self.joining_count = 0
        self.assigning = -1
        """The assignments of this generation have been handed in."""
        self.timers: dict[str, None] = {}
        """These are the keys of the timers that are set for the group."""
        self._supported: Counter[str] = Counter()

    # ---- durable state

    def replay(self, saved: SavedGroup) -> None:
        """Take over a generation that has become durable."""
        self.saved = saved
        self.departures.replay_generation(saved)

    def replay_deletion(self, *, is_loaded: bool) -> None:
        """Forget the durable generation, as its record was deleted. If no members are left, the
        group was deleted: a new group of this name begins anew."""
        self.saved = None
        self.departures.replay_generation(None)
        if is_loaded and self.state is GroupState.EMPTY:
            self.generation, self.protocol_type = 0, None

    def anew(self, now_ms: int) -> Group:
        """Return a group that has what is durable of this one, and nothing else."""
        group = Group(self.group_id, now_ms)
        group.saved, group.offsets = self.saved, self.offsets
        group.pending_offsets = self.pending_offsets
        group.departures = self.departures.anew()
        return group

    def restore(self, now_ms: int) -> int:
        """Build memory from what is durable, once everything was replayed. Who has gone is no
        member; the next one leads if the leader has gone. Return how many have gone."""
        saved = self.saved
        if saved is None or self.state is not GroupState.EMPTY or self.generation:
            return 0
        self.generation = saved.generation
        self.protocol_type = saved.protocol_type
        self.protocol_name = saved.protocol_name
        self.state_timestamp_ms = saved.state_timestamp_ms
        for entry in saved.members:
            if not self.departures.is_gone(entry.member_id):
                self.add(restored(entry, saved.protocol_name))
        if saved.leader is None or saved.leader in self.members:
            self.leader = saved.leader
        if self.members:
            self.state = GroupState.STABLE
        elif saved.members:
            # It is empty since now, for all that is known: offsets begin to expire.
            self.generation += 1
            self.protocol_name, self.state_timestamp_ms = None, now_ms
        self.subscribed_topics = self._subscribed_topics()
        return len(saved.members) - len(self.members)

    @property
    def is_nothing(self) -> bool:
        """Return whether nothing would be lost by forgetting it."""
        return (
            self.state is GroupState.EMPTY
            and self.saved is None
            and self.departures.is_nothing
            and not (self.members or self.pending or self.offsets or self.pending_offsets)
        )

    @property
    def uses_consumer_protocol(self) -> bool:
        """Return whether the broker can tell what its members are subscribed to."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long a round waits: as long as the most patient member."""
        return max((m.offer.rebalance_timeout_ms for m in self.members.values()), default=0)

    # ---- states and generations

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Go to a state, and remember since when.

        :raises IllegalGroupTransitionError: the state cannot follow, which is a defect of the
            coordinator.
        """
        check_transition(self.state, state)
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_round(self, now_ms: int) -> None:
        """Begin a rebalance, in which all members must join again."""
        self.is_initial = self.state is GroupState.EMPTY
        self.has_new_member = False
        self.move_to(GroupState.PREPARING_REBALANCE, now_ms)

    def wait_for_more(self) -> None:
        """Begin the initial delay again: nobody has come since then."""
        self.has_new_member = False

    def next_generation(self, now_ms: int) -> None:
        """Complete the round: with members there is a generation that must be assigned, else the
        group is empty."""
        self.generation += 1
        self.pending_sync.clear()
        self.is_initial = self.has_new_member = False
        if self.members:
            self.protocol_name = self.choose_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = self.leader = None
            self.move_to(GroupState.EMPTY, now_ms)
        self.subscribed_topics = self._subscribed_topics()

    def enter_generation(self, member: Member) -> Caller[JoinGroupResponse] | None:
        """Return who waits for ``member`` in JoinGroup; it owes a SyncGroup then. None means that
        it has stayed away."""
        caller = self.take_join(member)
        if caller is not None:
            member.begin_generation()
            self.pending_sync[member.member_id] = None
        return caller

    def begin_assigning(self) -> int:
        """Return the generation, whose assignments are handed in now."""
        self.assigning = self.generation
        return self.generation

    def assigned(self, saved: SavedGroup, now_ms: int) -> None:
        """Give the members the assignments of the generation, which are durable now."""
        for entry in saved.members:
            self.members[entry.member_id].assign(entry.assignment)
        self.move_to(GroupState.STABLE, now_ms)

    def to_save(self, assignments: dict[str, bytes]) -> SavedGroup:
        """Return the generation with these assignments, ready to be written down."""
        return SavedGroup(
            self.generation,
            self.protocol_type or "",
            self.protocol_name,
            self.leader,
            self.state_timestamp_ms,
            tuple(
                member.saved(self.protocol_name, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = subscription_of(member.offer.metadata(self.protocol_name))
            if subscription is None:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member may be reading ``topic``; yes, when that cannot be told."""
        if not self.members:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    # ---- protocols

    def supports(
        self, protocol_type: str, names: Iterable[str], without: Member | None = None
    ) -> bool:
        """Return whether a member with these protocols could work with all others (than
        ``without``)."""
        names = list(names)
        if not self.members:
            return bool(protocol_type and names)
        if protocol_type != self.protocol_type:
            return False
        others = len(self.members) - (without is not None)
        own = {name for name, _ in without.offer.protocols} if without is not None else set()
        return any(self._supported[name] - (name in own) == others for name in names)

    def understands(self, offer: Offer, without: Member | None = None) -> bool:
        """Return whether a member with this offer speaks as the others (than ``without``) do.
        Clients of Kafka and ours say the same in different words, under the same names."""
        other = next((member for member in self.members.values() if member is not without), None)
        if other is None or not self.uses_consumer_protocol:
            return True
        return _speaks_kafka(offer) == _speaks_kafka(other.offer)

    def choose_protocol(self) -> str:
        """Return the protocol that most members prefer, of those that all support. Of equals it is
        the one that was voted for first."""
        everybody = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # ---- members

    def admit(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one says what the group's protocol is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        if self.state is GroupState.PREPARING_REBALANCE:
            self.has_new_member = True
        self.add(member)

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        self.members[member.member_id] = member
        self.departures.came(member)
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)

    def set_offer(self, member: Member, offer: Offer) -> None:
        """Replace the offer of a member that joins again."""
        self._count(member, -1)
        member.make_offer(offer)
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Remove a member; if it led, the oldest of the others does. It waits for nothing now."""
        del self.members[member.member_id]
        self.departures.removed(member)
        self.pending_sync.pop(member.member_id, None)
        if member.group_instance_id is not None:
            self.static.pop(member.group_instance_id, None)
        self.take_join(member)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self._count(member, -1)

    def rename(self, member: Member, member_id: str, client_id: str, client_host: str) -> None:
        """Give a static member that comes back another id; it keeps place, assignment and lead."""
        old_id = member.member_id
        self._count(member, -1)
        member.come_back_as(member_id, client_id, client_host)
        self._count(member, 1)
        self.members = {each.member_id: each for each in self.members.values()}
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[member_id] = None

    def _count(self, member: Member, sign: int) -> None:
        self.metadata_bytes += sign * member.metadata_bytes
        for name, _ in member.offer.protocols:
            self._supported[name] += sign
            if not self._supported[name]:
                del self._supported[name]

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Return the member of this id.

        :raises FencedInstanceIdError: another member has taken over the instance id (KIP-345).
        :raises UnknownMemberIdError: it is not of this group, or not any more.
        """
        if group_instance_id is not None:
            owner = self.static.get(group_instance_id)
            if owner is None:
                raise UnknownMemberIdError(f"no member has instance id {group_instance_id!r:.99}")
            if owner != member_id:
                raise FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError
        return member

    def check_generation(self, generation: int) -> None:
        """Check that ``generation`` is the current one.

        :raises IllegalGenerationError: another one is current.
        """
        if generation != self.generation:
            raise IllegalGenerationError(f"generation {generation}, it is {self.generation} now")

    # ---- who waits

    def park_join(self, member: Member, caller: Caller[JoinGroupResponse]) -> None:
        """Let ``member`` take part in the round, with ``caller`` waiting for its answer."""
        if member.joining is None:
            self.joining_count += 1
        member.wait_in_join(caller)

    def take_join(self, member: Member) -> Caller[JoinGroupResponse] | None:
        """Return whoever waits for ``member`` in JoinGroup; the caller of this answers it."""
        caller = member.take_join()
        if caller is not None:
            self.joining_count -= 1
        return caller

    @property
    def has_all_joined(self) -> bool:
        """Return whether nobody is missing from the round."""
        return self.joining_count == len(self.members) and not self.pending

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader takes part in the round; return false when nobody does."""
        leader = None if self.leader is None else self.members.get(self.leader)
        if leader is None or leader.joining is None:
            joined = (m.member_id for m in self.members.values() if m.joining is not None)
            found = next(joined, None)
            if found is None:
                return False
            self.leader = found
        return True

    def joined(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return what ``member`` is told of the current generation; the leader learns of all
        members."""
        members = []
        if member.member_id == self.leader:
            members = [
                JoinGroupMember(
                    each.member_id,
                    each.group_instance_id,
                    each.offer.metadata(self.protocol_name),
                )
                for each in self.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            skip_assignment=skip_assignment and bool(members),
            member_id=member.member_id,
            members=members,
        )


def _speaks_kafka(offer: Offer) -> bool:
    return any(is_of_kafka(metadata) for _, metadata in offer.protocols)
