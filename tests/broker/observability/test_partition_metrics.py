"""These metrics tell of replication; they are bounded in number and in time."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, TopicPartition
from oncelog_broker.observability import page
from oncelog_broker.observability.exposition import Exposition
from oncelog_broker.observability.page import SLICE_S
from oncelog_broker.replication.traffic import OTHERS
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.observed import observed
from support.waiting import eventually

PARTITION_METRICS = [
    "start_offset",
    "high_watermark",
    "log_end_offset",
    "last_stable_offset_lag",
    "size_bytes",
    "replicas",
    "in_sync_replicas",
    "leader_is_preferred",
    "producers",
    "open_transactions",
]


async def test_records_in_and_out_are_counted_by_topic(tmp_path: Path) -> None:
    async with observed(tmp_path, 2) as seen:
        await seen.cluster.create_topic("t", replication_factor=2, min_insync_replicas=2)
        await seen.cluster.create_topic("u")
        leader = seen.cluster.leader("t")
        other = 3 - leader
        channel = await seen.cluster.channel(leader)
        for _ in range(3):
            await produce(channel, "t", 0, [b"x" * 100] * 5)
        assert len(await fetch_values(channel, "t", 0)) == 15
        channel.close()
        at_leader = await seen.metrics(leader)
        size = at_leader["oncelog_partition_size_bytes"]["0", "t"]
        assert size > 1500
        assert at_leader["oncelog_topic_messages_in_total"]["t",] == 15
        assert at_leader["oncelog_topic_bytes_in_total"]["t",] == size
        assert at_leader["oncelog_topic_bytes_out_total"]["t",] == size
        assert at_leader["oncelog_replication_bytes_out_total"][()] == size
        assert at_leader["oncelog_partition_high_watermark"]["0", "t"] == 15
        assert at_leader["oncelog_partition_in_sync_replicas"]["0", "t"] == 2
        at_follower = await seen.metrics(other)
        assert at_follower["oncelog_replication_bytes_in_total"][()] == size
        assert at_follower["oncelog_topic_messages_in_total"]["t",] == 0
        for metrics in (at_leader, at_follower):
            assert metrics["oncelog_catch_up_pace_bytes"]["in",] > 0
            assert metrics["oncelog_catch_up_pace_bytes"]["out",] > 0
            assert sum(metrics["oncelog_catch_up_bytes_total"].values()) == 0, "nobody was far"
        assert at_follower["oncelog_partition_log_end_offset"]["0", "t"] == 15
        assert ("0", "t") not in at_follower.get("oncelog_partition_high_watermark", {})


async def test_what_a_new_replica_fetches_is_counted_at_both_ends(tmp_path: Path) -> None:
    async with observed(tmp_path, 2) as seen:
        await seen.cluster.create_topic("t")
        leader = seen.cluster.leader("t")
        other = 3 - leader
        channel = await seen.cluster.channel(leader)
        await produce(channel, "t", 0, [b"x" * 100] * 5)
        channel.close()
        size = (await seen.metrics(leader))["oncelog_partition_size_bytes"]["0", "t"]
        async with Admin(seen.cluster.bootstrap) as admin:
            outcomes = await admin.alter_partition_reassignments(
                {TopicPartition("t", 0): [leader, other]}, allow_replication_factor_change=True
            )
            outcomes.raise_for_errors()
        in_sync = seen.cluster.brokers[leader].replicas.partition(TopicPartition("t", 0))
        await eventually(lambda: len(in_sync.isr) == 2)
        at_leader, at_other = await seen.metrics(leader), await seen.metrics(other)
        assert at_leader["oncelog_catch_up_bytes_total"]["out",] == size
        assert at_other["oncelog_catch_up_bytes_total"]["in",] == size


async def test_what_replication_says_when_a_broker_is_lost_and_comes_back(tmp_path: Path) -> None:
    async with observed(tmp_path, 3) as seen:
        cluster = seen.cluster
        await cluster.create_topic("at", partitions=3, replication_factor=3, min_insync_replicas=2)
        await cluster.create_topic(
            "under", partitions=3, replication_factor=3, min_insync_replicas=3
        )
        await cluster.create_topic("alone", replication_factor=1)

        async def sums() -> dict[str, float]:
            pages = [await seen.metrics(broker_id) for broker_id in sorted(cluster.brokers)]
            names = ("under_replicated", "under_min_isr", "at_min_isr", "leader")
            return {n: sum(p[f"oncelog_{n}_partitions"][()] for p in pages) for n in names}

        assert await sums() == {
            "under_replicated": 0,
            "under_min_isr": 0,
            "at_min_isr": 0,
            "leader": 7,
        }, "three of three are needed by 'under'; a single replica is not 'at min ISR'"
        # A controller takes its count of leader changes with it.
        stay = {cluster.leader("alone"), cluster.controller.broker_id}
        lost = next(b for b in cluster.brokers if b not in stay)
        await cluster.stop_broker(lost)

        def led() -> bool:
            return all(
                cluster.state(topic, p).leader not in (lost, -1) and
                lost not in cluster.state(topic, p).isr
                for topic in ("at", "under") for p in range(3)
            )  # fmt: skip

        await eventually(led, timeout_s=15)
        assert await sums() == {
            "under_replicated": 6,
            "under_min_isr": 3,
            "at_min_isr": 3,
            "leader": 7,
        }
        await cluster.start_broker(lost)
        await seen.attach(lost)
        await eventually(
            lambda: all(
                len(cluster.state(t, p).isr) == 3 for t in ("at", "under") for p in range(3)
            ),
            timeout_s=15,
        )
        pages = [await seen.metrics(broker_id) for broker_id in sorted(cluster.brokers)]
        assert sum(page["oncelog_isr_expands_total"][()] for page in pages) >= 6
        assert sum(page["oncelog_isr_shrinks_total"][()] for page in pages) >= 1
        assert sum(page["oncelog_leaderships_taken_total"][()] for page in pages) >= 7
        controller = next(page for page in pages if page["oncelog_active_controller"][()])
        assert controller["oncelog_leader_changes_total"][()] >= 1


async def test_the_number_of_series_is_bounded(tmp_path: Path) -> None:
    """Whole topics are shown, by name, as long as there is room; all others are summed."""
    bounds: dict[str, Any] = {"metrics_topics_max": 2, "metrics_partitions_max": 5}
    async with observed(tmp_path, **bounds) as seen:
        for topic, partitions in (("a", 3), ("b", 4), ("c", 2), ("d", 1), ("e", 2)):
            await seen.cluster.create_topic(topic, partitions=partitions)
        channel = await seen.cluster.channel(1)
        for topic in "abcde":
            await produce(channel, topic, 0, [b"x"] * 3)
        channel.close()
        samples = await seen.metrics()
        for name in PARTITION_METRICS:
            series = samples[f"oncelog_partition_{name}"]
            assert sorted({topic for _, topic in series}) == [OTHERS, "a", "c"]
            assert len(series) == 3 + 2 + 1
        assert samples["oncelog_partition_high_watermark"]["", OTHERS] == 9
        assert samples["oncelog_partition_replicas"]["", OTHERS] == 7
        assert samples["oncelog_topic_messages_in_total"] == {
            ("a",): 3,
            ("b",): 3,
            (OTHERS,): 9,
        }
        assert samples["oncelog_partitions"][()] == 12, "sums know no bound"


async def test_thousands_of_partitions_do_not_hold_up_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is measured in CPU time of this thread, so that a busy machine changes nothing; and as in
    a broker's process the garbage collector does not look at what was there before."""
    async with Cluster(tmp_path, metrics_partitions_max=10_000) as cluster:
        await cluster.create_topic("t", partitions=20)
        broker = cluster.brokers[1]
        exposition = Exposition(broker, time.thread_time)
        once = broker.replicas.partitions()
        broker.replicas.partitions = lambda: once * 250  # type: ignore[method-assign]
        gc.collect()
        gc.freeze()
        try:
            pieces = await exposition.scrape()
        finally:
            gc.unfreeze()
        lines = b"".join(pieces).count(b"\n")
        assert lines > 5000 * len(PARTITION_METRICS)
        assert SLICE_S <= exposition.longest_slice_s < 0.020
        monkeypatch.setattr(page, "SLICE_S", 10.0)
        began = time.thread_time()
        await exposition.scrape()
        assert time.thread_time() - began > 0.020, "without turns it would be one long slice"
        await exposition.close()
