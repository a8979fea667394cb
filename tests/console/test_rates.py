"""What comes in is told by differences; retention and missing leaders do not make it wrong."""

from __future__ import annotations

from oncelog import TopicPartition
from oncelog.admin.results import (
    LogDirDescription,
    PartitionDescription,
    ReplicaDescription,
    TopicDescription,
)
from oncelog_console.rates import POINTS, TopicRates, last_committed, summed, sums_of

TOPICS = (TopicDescription("t", partitions=(PartitionDescription(0, 1, 0, (1, 2), (1, 2), ()),)),)


def held(records: int, size: int, broker: int = 1) -> list[LogDirDescription]:
    replica = ReplicaDescription(TopicPartition("t", 0), size, 0, records + 5, records)
    return [LogDirDescription(broker, "/d", None, replicas=(replica,))]


def test_the_leader_counts_and_no_follower() -> None:
    both = [*held(100, 1000), *held(90, 900, broker=2)]
    assert sums_of(both, TOPICS) == {"t": (100, 1000)}
    assert sums_of(held(90, 900, broker=2), TOPICS) == {}, "the leader did not say"


def test_a_rate_is_a_difference() -> None:
    rates = TopicRates()
    rates.look(10.0, held(100, 1000), TOPICS)
    assert rates.known() == {}, "one look says nothing"
    rates.look(12.0, held(300, 5000), TOPICS)
    rate = rates.known()["t"]
    assert (rate.records, rate.bytes, rate.trend) == (100.0, 2000.0, (100.0,))
    rates.look(14.0, held(300, 700), TOPICS)
    assert (rates.known()["t"].records, rates.known()["t"].bytes) == (0, 0), "retention cut"
    rates.look(16.0, held(300, 700), None)
    assert rates.known()["t"].trend == (100.0, 0.0)


def test_a_trend_is_bounded_and_ends_with_its_topic() -> None:
    rates = TopicRates()
    for number in range(POINTS + 10):
        rates.look(float(number), held(number, 0), TOPICS)
    assert len(rates.known()["t"].trend) == POINTS
    rates.look(1000.0, [], ())
    assert rates.known() == {}


def test_what_a_leader_told_last_is_remembered() -> None:
    tp = TopicPartition("t", 0)
    known = last_committed({}, [*held(100, 0), *held(90, 0, broker=2)], TOPICS)
    assert known == {tp: 100}
    assert last_committed(known, held(90, 0, broker=2), TOPICS) == {tp: 100}, "no leader tells"
    assert last_committed(known, held(40, 0), TOPICS) == {tp: 40}, "a new leader has fewer"
    assert last_committed(known, held(100, 0), ()) == {}, "the topic is gone"


def test_trends_are_summed_by_their_ends() -> None:
    assert summed([(1, 2, 3), (10,), ()]) == (1, 2, 13)
    assert summed([]) == ()
