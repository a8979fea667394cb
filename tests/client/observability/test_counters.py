"""These tests check what a client counts."""

from __future__ import annotations

from oncelog.observability.counters import TOPICS_MAX, Counters


def test_topics_are_counted_by_themselves_up_to_a_bound() -> None:
    counters = Counters()
    for number in range(TOPICS_MAX + 10):
        counters.sent(f"t{number}", 2, 0.001)
        counters.given_up(f"t{number}", 1)
    counters.consumed("t0", 5)
    counters.consumed("t0", -2)
    assert len(counters.topics) == TOPICS_MAX
    assert (counters.topics["t0"].records, counters.topics["t0"].errors) == (5, 1)
    assert counters.records_sent == 2 * (TOPICS_MAX + 10)
    assert counters.record_errors == TOPICS_MAX + 10
    assert counters.records_consumed == 3
    assert counters.delivery_latency.count == counters.batches_sent
