"""A member of a group offers protocols, may be silent for so long, and waits for answers. Pure.

A member that waits in JoinGroup or SyncGroup cannot give a sign of life (requests on one connection
are answered in order), so its session does not run meanwhile; the round's own timer does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog_broker.coordinator.group.records import SavedMember
from oncelog_protocol.consumer_protocol import (
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    is_of_kafka,
)
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

T = TypeVar("T")


class Caller(Generic[T]):
    """A caller waits for one answer. Only the first one counts: the shard may give up a caller whom
    a later event would answer again."""

    __slots__ = ("_respond",)

    def __init__(self, respond: Callable[[T], None]) -> None:
        self._respond: Callable[[T], None] | None = respond

    @property
    def waits(self) -> bool:
        """Return whether no answer was given yet."""
        return self._respond is not None

    def answer(self, response: T) -> None:
        """Give the answer, if none was given."""
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(response)


@dataclass(slots=True)
class Offer:
    """An offer is what a JoinGroup says of its member, apart from who it is."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """These are (name, metadata) of each assignor, the preferred first."""

    @property
    def metadata_bytes(self) -> int:
        """Return about how many bytes of memory the offer takes."""
        return sum(len(name) + len(metadata) for name, metadata in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what is offered for ``protocol``; nothing for one that is not offered."""
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Member:
    """It is one member; ``assignment`` is that of the current generation, once it is durable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    offer: Offer
    assignment: bytes = b""
    is_new: bool = False
    """It tells whether the member has not been in a generation yet."""
    joining: Caller[JoinGroupResponse] | None = None
    syncing: Caller[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        """Return whether it has an instance id, and keeps its place while it restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def metadata_bytes(self) -> int:
        """Return about how many bytes an answer about the member holds: its names and what it
        offers."""
        names = (self.member_id, self.group_instance_id or "", self.client_id, self.client_host)
        return sum(map(len, names)) + self.offer.metadata_bytes

    @property
    def is_waiting(self) -> bool:
        """Return whether it is parked, so that its session does not run."""
        return self.joining is not None or self.syncing is not None

    def make_offer(self, offer: Offer) -> None:
        """Replace the offer of a member that joins again."""
        self.offer = offer

    def come_back_as(self, member_id: str, client_id: str, client_host: str) -> None:
        """Take another id after a restart (KIP-345): it is the same member."""
        self.member_id, self.client_id, self.client_host = member_id, client_id, client_host
        self.is_new = False

    def begin_generation(self) -> None:
        """Note that it takes part in a generation, for the first time or again."""
        self.is_new = False

    def assign(self, assignment: bytes) -> None:
        """Take over the assignment that is durable; it is empty when the generation gives none."""
        self.assignment = assignment

    def wait_in_join(self, caller: Caller[JoinGroupResponse]) -> None:
        """Let it take part in the round, with ``caller`` waiting for its answer."""
        self.joining = caller

    def take_join(self) -> Caller[JoinGroupResponse] | None:
        """Return whoever waits for it in JoinGroup; the caller of this answers it."""
        caller, self.joining = self.joining, None
        return caller

    def wait_in_sync(self, caller: Caller[SyncGroupResponse]) -> Caller[SyncGroupResponse] | None:
        """Let it wait for its assignment; return the call before, which is to be answered."""
        earlier, self.syncing = self.syncing, caller
        return earlier

    def take_sync(self) -> Caller[SyncGroupResponse] | None:
        """Return whoever waits for it in SyncGroup; the caller of this answers it."""
        caller, self.syncing = self.syncing, None
        return caller

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that it prefers.

        :raises StopIteration: it can work with none, which the caller has excluded.
        """
        return next(name for name, _ in self.offer.protocols if name in candidates)

    def saved(self, protocol: str | None, assignment: bytes) -> SavedMember:
        """Return what is written down of the member."""
        return SavedMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.offer.session_timeout_ms,
            self.offer.rebalance_timeout_ms,
            self.offer.metadata(protocol),
            assignment,
        )


def restored(saved: SavedMember, protocol: str | None) -> Member:
    """Return the member as a new coordinator knows it; its offer is only the chosen protocol."""
    protocols = () if protocol is None else ((protocol, saved.subscription),)
    return Member(
        saved.member_id,
        saved.group_instance_id,
        saved.client_id,
        saved.client_host,
        Offer(saved.session_timeout_ms, saved.rebalance_timeout_ms, protocols),
        saved.assignment,
    )


def subscription_of(metadata: bytes) -> ConsumerSubscription | None:
    """Return what a member of the consumer protocol subscribes to, a client of ours or of Kafka;
    None when the bytes do not say."""
    try:
        return decode_subscription(metadata)
    except InvalidRequestError:
        return None


def owes_partitions(metadata: bytes, assignment: bytes) -> bool:
    """Return whether a member of the consumer protocol said that it owns partitions that its
    assignment lacks. In a cooperative group they are given to nobody before the member has joined
    once more (KIP-429)."""
    wanted = subscription_of(metadata)
    if wanted is None:
        return False
    try:
        return not set(wanted.owned) <= set(decode_assignment(assignment).partitions)
    except InvalidRequestError:
        return False


def wants_the_same(old: bytes, new: bytes) -> bool:
    """Return whether an assignor would give the same for both. The subscription of a member of the
    consumer protocol counts; what it owned before it was restarted does not."""
    if old == new:
        return True
    before, after = subscription_of(old), subscription_of(new)
    if before is None or after is None or is_of_kafka(new):
        return False  # assignors of Kafka's clients tell each other more, in bytes of their own
    return sorted(before.topics) == sorted(after.topics) and before.rack == after.rack
