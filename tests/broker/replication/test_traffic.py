"""Traffic by topic: counts never fall, and there are never more of them than was said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.replication.traffic import OTHERS, TrafficTable


def test_topics_beyond_the_most_share_one_count_and_stay_there() -> None:
    table = TrafficTable(topics_max=2)
    traffic = {name: table.acquire(name) for name in ("a", "b", "c", "d")}
    assert traffic["c"] is traffic["d"] is table.others
    assert [name for name, _ in table.by_topic()] == ["a", "b", OTHERS]
    table.release("a")
    assert table.acquire("c") is table.others, "it is counted there as long as it is here"
    assert table.acquire("e") is not table.others, "there is room again"


def test_a_topic_counts_in_one_place_for_all_its_replicas() -> None:
    table = TrafficTable()
    first, second = table.acquire("t"), table.acquire("t")
    assert first is second
    first.bytes_in += 5
    table.release("t")
    assert dict(table.by_topic())["t"].bytes_in == 5
    table.release("t")
    assert "t" not in dict(table.by_topic())
    assert table.total().bytes_in == 5


def test_none_at_all() -> None:
    table = TrafficTable(topics_max=0)
    table.acquire("t").messages_in += 1
    assert [(name, each.messages_in) for name, each in table.by_topic()] == [(OTHERS, 1)]


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.integers(0, 9)), max_size=60)
)
def test_totals_never_fall_and_nothing_is_lost(steps: list[tuple[str, bool, int]]) -> None:
    table = TrafficTable(topics_max=2)
    held: dict[str, list[object]] = {}
    expected = 0
    for topic, comes, size in steps:
        if comes:
            traffic = table.acquire(topic)
            held.setdefault(topic, []).append(traffic)
            traffic.replicated_in += size
            expected += size
        elif held.get(topic):
            held[topic].pop()
            table.release(topic)
        assert table.total().replicated_in == expected
        assert len(list(table.by_topic())) <= 3
