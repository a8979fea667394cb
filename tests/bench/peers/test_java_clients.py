"""What Kafka's own programs print is read: rates of the whole run, and whether all is there."""

from __future__ import annotations

import pytest

from oncelog_bench.peers.java_clients import consumed_rate, produced_rate

PRODUCED = """\
310021 records sent, 62004.2 records/sec (5.91 MB/sec), 12.1 ms avg latency, 310.0 ms max latency.
500000 records sent, 81234.5 records/sec (7.75 MB/sec), 9.80 ms avg latency, 310.00 ms max latency,\
 4 ms 50th, 20 ms 95th, 80 ms 99th, 200 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,\
 rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-27 20:00:00:000, 2026-11-27 20:00:05:000, 19.0735, 3.8147, 200001, 40000.2,\
 3000, 2000, 9.5367, 100000.5
"""


def test_the_rate_of_a_producer_is_that_of_its_whole_run() -> None:
    assert produced_rate(PRODUCED, 500_000) == 81234.5


@pytest.mark.parametrize(
    "printed", ["", PRODUCED.splitlines()[0], PRODUCED.replace("500000", "499999")]
)
def test_a_producer_that_has_not_sent_all_has_no_rate(printed: str) -> None:
    with pytest.raises(RuntimeError, match="500000 records were to be sent"):
        produced_rate(printed, 500_000)


@pytest.mark.parametrize("before", ["", "WARN something of its logging\n"])
def test_the_rate_of_a_consumer_leaves_out_the_joining_of_its_group(before: str) -> None:
    assert consumed_rate(before + CONSUMED, 200_000) == 100000.5


@pytest.mark.parametrize("printed", ["", CONSUMED.splitlines()[0], CONSUMED])
def test_a_consumer_that_has_not_read_all_has_no_rate(printed: str) -> None:
    with pytest.raises(RuntimeError, match="200002 records were to be read"):
        consumed_rate(printed, 200_002)
