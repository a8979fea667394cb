"""Placement follows its rule, keeps balance, and respects racks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.placement import place_replicas, start_at
from oncelog_protocol.errors import InvalidReplicationFactorError


def plain(*ids: int) -> list[tuple[int, str | None]]:
    return [(broker_id, None) for broker_id in ids]


def test_replica_j_of_partition_i_is_on_broker_i_plus_j() -> None:
    placed = place_replicas(plain(10, 20, 30), first=0, count=4, replication_factor=2, start=1)
    assert placed == [[20, 30], [30, 10], [10, 20], [20, 30]]


def test_a_growth_goes_on() -> None:
    whole = place_replicas(plain(1, 2, 3), first=0, count=6, replication_factor=2, start=2)
    rest = place_replicas(plain(1, 2, 3), first=4, count=2, replication_factor=2, start=2)
    assert whole[4:] == rest


def test_racks_alternate() -> None:
    brokers: list[tuple[int, str | None]] = [(1, "a"), (2, "a"), (3, "b"), (4, "b")]
    placed = place_replicas(brokers, first=0, count=4, replication_factor=2, start=0)
    assert placed == [[1, 3], [3, 2], [2, 4], [4, 1]]


def test_without_all_racks_racks_do_not_count() -> None:
    brokers: list[tuple[int, str | None]] = [(1, "a"), (2, "a"), (3, None)]
    placed = place_replicas(brokers, first=0, count=1, replication_factor=2, start=0)
    assert placed == [[1, 2]]


@pytest.mark.parametrize("factor", [-1, 0, 4])
def test_impossible_factors(factor: int) -> None:
    with pytest.raises(InvalidReplicationFactorError, match="3 brokers"):
        place_replicas(plain(1, 2, 3), first=0, count=1, replication_factor=factor, start=0)


def test_where_a_topic_began() -> None:
    racks: list[tuple[int, str | None]] = [(1, "a"), (2, "a"), (3, "b")]
    assert start_at(plain(5, 6, 7), 6) == 1
    assert start_at(racks, 3) == 1, "the ring alternates racks"
    assert start_at(plain(5, 6), 9) == 0


cluster = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from("abcd")),
    min_size=1,
    max_size=12,
    unique_by=lambda broker: broker[0],
)


@given(cluster, st.booleans(), st.integers(1, 40), st.integers(0, 100), st.data())
def test_properties(
    brokers: list[tuple[int, str]], racked: bool, count: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    given_brokers = [(broker_id, rack if racked else None) for broker_id, rack in brokers]
    placed = place_replicas(
        given_brokers, first=0, count=count, replication_factor=factor, start=start
    )
    racks = dict(brokers)
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        if racked:
            reached = {racks[broker_id] for broker_id in replicas}
            assert len(reached) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed)
    shares = [leaders.get(broker_id, 0) for broker_id in racks]
    assert max(shares) - min(shares) <= 1
    if not racked:
        held = Counter(broker_id for replicas in placed for broker_id in replicas)
        loads = [held.get(broker_id, 0) for broker_id in racks]
        assert max(loads) - min(loads) <= factor


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 20))
def test_equal_racks_hold_equal_shares(
    rack_count: int, per_rack: int, turns: int, start: int
) -> None:
    brokers = [
        (rack * 10 + index, "abcd"[rack]) for rack in range(rack_count) for index in range(per_rack)
    ]
    count = turns * len(brokers)
    placed = place_replicas(
        brokers, first=0, count=count, replication_factor=rack_count, start=start
    )
    held = Counter(broker_id for replicas in placed for broker_id in replicas)
    assert set(held.values()) == {turns * rack_count}
