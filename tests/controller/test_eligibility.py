"""The tables of KIP-966 decide which replica is complete, and this is noted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.eligibility import Members, admissions, sift, untrusted, with_isr
from oncelog_controller.state import (
    ClusterPartition,
    DataClaim,
    DataLoss,
    KeptPartitions,
    PartitionState,
    Topic,
)
from oncelog_protocol.topic_config import parse_topic_config
from support.controller_driver import registration

REPLICAS = (1, 2, 3, 4)
ISR_TABLE: list[tuple[str, Members, tuple[int, ...], int, Members]] = [
    ("large enough", Members((1, 2, 3)), (1, 2), 2, Members((1, 2))),
    ("below min ISR", Members((1, 2, 3)), (1,), 2, Members((1,), (2, 3))),
    ("further below", Members((1,), (2, 3)), (2,), 2, Members((2,), (1, 3))),
    ("growing, still below", Members((1,), (2, 3)), (1, 4), 3, Members((1, 4), (2, 3))),
    ("grown", Members((1,), (2,), (3,)), (1, 4), 2, Members((1, 4))),
    ("from the last known", Members((), (), (2, 3)), (3,), 2, Members((3,), (), (2,))),
    ("in the order of the replicas", Members((4, 3, 1)), (4,), 2, Members((4,), (1, 3))),
]


@pytest.mark.parametrize(
    ("before", "isr", "min_isr", "after"), [r[1:] for r in ISR_TABLE], ids=[r[0] for r in ISR_TABLE]
)
def test_isr_changes(before: Members, isr: tuple[int, ...], min_isr: int, after: Members) -> None:
    assert with_isr(REPLICAS, before, isr, min_isr) == after


def state(isr: tuple[int, ...], elr: tuple[int, ...], last: tuple[int, ...]) -> PartitionState:
    return PartitionState(-1, 1, isr, 1, 1, elr, last, tuple((b, b * 10) for b in REPLICAS))


SIFT_TABLE: list[tuple[str, PartitionState, set[int], set[int], Members]] = [
    ("all is well", state((1,), (2,), (3,)), {1, 2}, set(), Members((1,), (2,), (3,))),
    ("lost in the ISR", state((1, 2), (), ()), {1, 2}, {2}, Members((1,), (), (2,))),
    ("lost in the ELR", state((1,), (2,), ()), {1, 2}, {2}, Members((1,), (), (2,))),
    ("all lost", state((2, 1), (), (3,)), {1, 2}, {1, 2}, Members((), (), (1, 2, 3))),
    ("found again", state((), (), (1, 3)), {1, 3}, {3}, Members((), (1,), (3,))),
    ("still away", state((), (), (1,)), set(), set(), Members((), (), (1,))),
]


@pytest.mark.parametrize(
    ("before", "present", "lost", "after"),
    [r[1:] for r in SIFT_TABLE],
    ids=[r[0] for r in SIFT_TABLE],
)
def test_data_that_is_lost_and_found(
    before: PartitionState, present: set[int], lost: set[int], after: Members
) -> None:
    assert sift(REPLICAS, before, present, lost) == after


lists = st.permutations(REPLICAS).flatmap(
    lambda order: st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)).map(
        lambda cuts: (
            tuple(order[: min(cuts)]),
            tuple(sorted(order[min(cuts) : sorted(cuts)[1]])),
            tuple(sorted(order[sorted(cuts)[1] : max(cuts)])),
        )
    )
)
some = st.frozensets(st.sampled_from(REPLICAS))


@given(lists, some, some)
def test_nobody_is_in_two_lists_and_nobody_is_forgotten(
    members: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    present: frozenset[int],
    lost: frozenset[int],
) -> None:
    before = state(*members)
    after = sift(REPLICAS, before, present, lost)
    found = [*after.isr, *after.elr, *after.last_known_elr]
    assert sorted(found) == sorted({*members[0], *members[1], *members[2]})
    assert not {*after.isr, *after.elr} & lost
    assert sift(REPLICAS, state(after.isr, after.elr, after.last_known_elr), present, lost) == after


def test_who_is_not_trusted() -> None:
    topic = Topic("t", "id", parse_topic_config({}))
    partition = ClusterPartition(topic, 0, REPLICAS)
    kept = DataClaim(0, None, DataLoss.NONE)
    brokers = {
        1: registration(1, 100, data=kept),
        2: registration(2, 100, data=DataClaim(21, None, DataLoss.NONE)),
        3: registration(3, 100, data=DataClaim()),
    }
    assert untrusted(partition, brokers) == frozenset()
    partition.state = state((1, 2), (3,), ())
    assert untrusted(partition, brokers) == {2, 3}
    partition.state = state((1,), (4,), (2,))
    assert untrusted(partition, brokers) == {2}, "who is away is not judged"
    listed = (KeptPartitions(20, None, {"id": frozenset([0])}),)
    brokers[2] = registration(2, 100, data=DataClaim(listed=listed))
    assert untrusted(partition, brokers) == frozenset(), "its directory has kept it"


def test_what_is_noted() -> None:
    kept = DataClaim(0, None, DataLoss.NONE)
    brokers = {b: registration(b, 100 + b, data=kept) for b in (1, 3, 4)}
    partition = ClusterPartition(Topic("t", "id", parse_topic_config({})), 0, REPLICAS)
    assert admissions(partition, Members((1, 3)), (1, 3), brokers) == ((1, 101), (3, 103))
    partition.state = state((1, 2), (3,), (4,))
    after = Members((1, 2), (3,), (4,))
    assert admissions(partition, after, (), brokers) == ((1, 101), (2, 20), (3, 103), (4, 40)), (
        "complete members by their present life, but for those that are away or last known"
    )
    lost = {4: registration(4, 104, data=DataClaim())}
    assert admissions(partition, Members((4,)), (4,), lost) == ((4, 104),), "it has fetched it all"
    assert admissions(partition, Members((4,)), (), lost) == ((4, 40),)
