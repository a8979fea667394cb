"""Members vote, some of what they say is written down, and one answers for another."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group.members import (
    Caller,
    Member,
    Offer,
    owes_partitions,
    restored,
    subscription_of,
    wants_the_same,
)
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.messages.groups import SyncGroupResponse
from oncelog_protocol.types import TopicPartition
from support.group_world import subscribed

OFFER = Offer(10_000, 60_000, (("sticky", b"s"), ("range", b"rr")))


def test_a_caller_is_answered_once() -> None:
    given: list[int] = []
    caller = Caller(given.append)
    assert caller.waits
    caller.answer(1)
    caller.answer(2)
    assert given == [1]
    assert not caller.waits


def test_a_member_votes_for_its_first_choice() -> None:
    member = Member("m", None, "c", "h", OFFER)
    assert member.vote({"range", "sticky"}) == "sticky"
    assert member.vote({"range"}) == "range"


def test_what_an_offer_holds() -> None:
    assert OFFER.metadata_bytes == len("stickysrangerr")
    assert (OFFER.metadata("range"), OFFER.metadata("x"), OFFER.metadata(None)) == (b"rr", b"", b"")


def test_a_member_is_restored_with_what_was_chosen() -> None:
    member = Member("m", "i", "c", "h", OFFER)
    again = restored(member.saved("range", b"mine"), "range")
    assert again.offer == Offer(10_000, 60_000, (("range", b"rr"),))
    assert (again.member_id, again.group_instance_id, again.assignment) == ("m", "i", b"mine")
    assert (again.client_id, again.client_host, again.is_static) == ("c", "h", True)


def full(*topics: str, owned: int = 0, rack: str | None = None, data: bytes = b"") -> bytes:
    return encode_subscription(
        ConsumerSubscription(topics, (TopicPartition("t", owned),), owned, rack, data)
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (b"opaque", b"opaque", True),
        (b"opaque", b"other", False),
        (full("a", "b"), full("b", "a", owned=3), True),
        (full("a", data=b"1"), full("a", data=b"2"), True),
        (full("a"), full("a", "b"), False),
        (full("a"), full("a", rack="r"), False),
        (full("a"), b"opaque", False),
    ],
)
def test_wants_the_same(old: bytes, new: bytes, same: bool) -> None:
    assert wants_the_same(old, new) is same


@pytest.mark.parametrize(
    ("owned", "assigned", "owes"),
    [("", "", False), ("0", "0", False), ("0", "0 1", False), ("0 1", "0", True), ("0", "", True)],
)
def test_owes_what_it_was_not_given_again(owned: str, assigned: str, owes: bool) -> None:
    def partitions(text: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition("t", int(number)) for number in text.split())

    wanted = encode_subscription(ConsumerSubscription(("t",), partitions(owned), 3))
    given = encode_assignment(ConsumerAssignment(partitions(assigned)))
    assert owes_partitions(wanted, given) is owes
    assert not owes_partitions(b"\xc1", given)
    assert not owes_partitions(wanted, b"\xc1")


def test_subscriptions_are_looked_into() -> None:
    subscription = subscription_of(subscribed("t", "u"))
    assert subscription is not None
    assert subscription.topics == ("t", "u")
    assert subscription_of(b"\xc1") is None


def test_only_the_last_call_waits_and_is_taken_once() -> None:
    member = Member("m", "i", "c", "h", OFFER)
    first, second = Caller[SyncGroupResponse](lambda _: None), Caller[SyncGroupResponse](print)
    assert member.wait_in_sync(first) is None
    assert member.wait_in_sync(second) is first
    assert member.is_waiting
    assert member.take_sync() is second
    assert member.take_sync() is None
    assert not member.is_waiting
