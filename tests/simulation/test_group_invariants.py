"""Invariants of groups are tried on generations that were written down."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    SavedGroup,
    SavedMember,
)
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.types import TopicPartition
from simulation.group_invariants import GroupInvariants
from simulation.store_view import InvariantViolation

COUNTS = {"x": 2, "y": 1}
RANGE, COOPERATIVE = "range", "cooperative-sticky"


def names(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name[0], int(name[1:])) for name in text.split())


def generation(
    number: int, members: dict[str, tuple[str, str]], protocol: str = RANGE, topics: str = "x"
) -> GroupFact:
    """Write members with what they get and what they say to own, as in "x0 x1"; an owner's claim is
    of the generation before, unless "@" and another stand behind it."""
    saved = []
    for member, (gets, owns) in members.items():
        owned, _, claimed = owns.partition("@")
        subscription = ConsumerSubscription(
            tuple(topics), names(owned), int(claimed or number - 1) if owned else -1
        )
        saved.append(
            SavedMember(
                member, None, "c", "h", 1000, 1000,
                encode_subscription(subscription),
                encode_assignment(ConsumerAssignment(names(gets))),
            )
        )  # fmt: skip
    leader = next(iter(members), None)
    return GroupFact("g", SavedGroup(number, "consumer", protocol, leader, 0, tuple(saved)))


def take(*facts: GroupFact | DepartedFact) -> None:
    invariants = GroupInvariants()
    for fact in facts:
        if isinstance(fact, DepartedFact):
            invariants.take_departure(fact)
        else:
            invariants.take(fact, COUNTS)


def gone(member: str, generation: int | None) -> DepartedFact:
    return DepartedFact("g", member, generation)


EMPTY = GroupFact("g", SavedGroup(2, "consumer", None, None, 0, ()))

GOOD: dict[str, list[GroupFact | DepartedFact]] = {
    "shared out": [generation(1, {"a": ("x0", ""), "b": ("x1", "")})],
    "one has nothing": [generation(1, {"a": ("x0 x1", ""), "b": ("", "")})],
    "left out until it is given up": [
        generation(1, {"a": ("x0 x1", "")}, COOPERATIVE),
        generation(2, {"a": ("x0", "x0 x1"), "b": ("", "")}, COOPERATIVE),
        generation(3, {"a": ("x0", "x0"), "b": ("x1", "")}, COOPERATIVE),
    ],
    "an older claim counts for nothing": [
        generation(5, {"a": ("", "x1@2"), "b": ("x0 x1", "x0 x1@4")}, COOPERATIVE)
    ],
    "the claim of an eager member counts for nothing": [
        generation(2, {"a": ("x0", "x1"), "b": ("x1", "x0")})
    ],
    "a static member has come back under another id": [
        generation(1, {"a": ("x0 x1", "")}),
        generation(1, {"a2": ("x0 x1", "")}),
    ],
    "a member has gone and another has come": [
        generation(1, {"a": ("x0 x1", "")}),
        gone("a", 1),
        generation(2, {"b": ("x0 x1", "")}),
        gone("a", None),
    ],
    "begun anew after its end": [
        generation(7, {"a": ("x0 x1", "")}),
        EMPTY._replace(saved=None),
        generation(1, {"a": ("x0 x1", "")}),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_what_may_be(name: str) -> None:
    take(*GOOD[name])


BAD: dict[str, tuple[str, list[GroupFact | DepartedFact]]] = {
    "two owners": ("I18", [generation(1, {"a": ("x0 x1", ""), "b": ("x1", "")})]),
    "not subscribed": ("I19", [generation(1, {"a": ("x0 x1 y0", "")})]),
    "left out": ("I19", [generation(1, {"a": ("x0", ""), "b": ("", "")})]),
    "left out though nobody owns it": (
        "I19",
        [generation(2, {"a": ("x0", "x0"), "b": ("", "")}, COOPERATIVE)],
    ),
    "handed over before it is given up": (
        "I20",
        [generation(2, {"a": ("x0", "x0 x1"), "b": ("x1", "")}, COOPERATIVE)],
    ),
    "a member is back that had gone": (
        "I29",
        [
            generation(1, {"a": ("x0 x1", "")}),
            gone("a", 1),
            generation(2, {"b": ("x0 x1", "")}),
            gone("a", None),
            generation(3, {"a": ("x0 x1", "")}),
        ],
    ),
    "generations go back": (
        "I22",
        [generation(3, {"a": ("x0 x1", "")}), EMPTY],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_must_never_be(name: str) -> None:
    id, facts = BAD[name]
    with pytest.raises(InvariantViolation) as caught:
        take(*facts)
    assert caught.value.id == id
