"""These metrics tell of lag in records and in time, of bounds, states and ages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from oncelog import Consumer, Producer
from oncelog_broker.replication.traffic import OTHERS
from oncelog_runtime.clock import SystemWallClock
from support.hand_records import produce
from support.observed import Observed, observed
from support.waiting import eventually

SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 2,
    "metrics_lag_interval_ms": 60_000,
}
"""The interval is longer than any test: ends are asked for when a test says so."""

COMMITTED = {"a": 1, "b": 2, "c": 3, "d": 4}
"""Groups, and how far they have read."""


async def commit_at(seen: Observed, group: str, records: int) -> None:
    """Commit for a group that has read so many records of t-0, and has no member any more."""
    async with Consumer(
        "t",
        bootstrap_servers=seen.cluster.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
    ) as consumer:
        for _ in range(records):
            await consumer.getone()
        await consumer.commit()


async def test_lag_in_records_and_in_time(tmp_path: Path) -> None:
    async with observed(tmp_path, **SETTINGS) as seen:
        await seen.cluster.create_topic("t")
        channel = await seen.cluster.channel(1)
        await produce(channel, "t", 0, [b"x"] * 10)
        groups = seen.endpoints[1].exposition.groups
        await commit_at(seen, "g", 10)
        samples = await seen.metrics()
        assert samples["oncelog_consumergroup_current_offset"]["g", "0", "t"] == 10
        assert "oncelog_consumergroup_lag" not in samples, "nobody has asked for ends yet"
        await groups.ask_ends()
        samples = await seen.metrics()
        assert samples["oncelog_consumergroup_lag"]["g", "0", "t"] == 0
        assert samples["oncelog_consumergroup_lag_seconds"]["g", "0", "t"] == 0
        await produce(channel, "t", 0, [b"x"] * 5)
        await groups.ask_ends()
        async with asyncio.timeout(15):  # nobody reads: the lag grows in time, and not in records
            while samples["oncelog_consumergroup_lag_seconds"]["g", "0", "t"] < 0.25:
                await asyncio.sleep(0.02)
                samples = await seen.metrics()
        assert samples["oncelog_consumergroup_lag"]["g", "0", "t"] == 5
        assert samples["oncelog_consumergroup_lag_sum"]["g",] == 5
        age = samples["oncelog_consumergroup_lag_seconds"]["g", "0", "t"]
        assert samples["oncelog_consumergroup_lag_seconds_max"]["g",] == age
        assert samples["oncelog_consumergroup_members"]["g",] == 0
        assert samples["oncelog_consumer_groups"]["Empty",] == 1
        channel.close()


async def test_a_new_coordinator_knows_old_lag(tmp_path: Path) -> None:
    """Records of an hour ago that nobody has read are an hour late, whoever has looked before."""
    async with observed(tmp_path, **SETTINGS) as seen:
        await seen.cluster.create_topic("t", partitions=2)
        hour_ago = SystemWallClock().now_ms() - 3_600_000
        async with Producer(seen.cluster.bootstrap) as producer:
            for partition in range(2):
                await producer.send("t", b"first", partition=partition, timestamp_ms=hour_ago - 1)
            for _ in range(3):
                await producer.send("t", b"late", partition=0, timestamp_ms=hour_ago)
        await commit_at(seen, "g", 2)
        await seen.endpoints[1].exposition.groups.ask_ends()
        ages = (await seen.metrics())["oncelog_consumergroup_lag_seconds"]
        lags = (await seen.metrics())["oncelog_consumergroup_lag"]
        late = {key for key, lag in lags.items() if lag}
        assert late
        for key in lags:
            expected = 3600.0 if key in late else 0.0
            assert expected * 0.7 <= ages[key] <= expected * 1.5


async def test_ends_of_other_brokers_partitions_are_asked_at_the_interval(tmp_path: Path) -> None:
    settings = {**SETTINGS, "metrics_lag_interval_ms": 100}
    async with observed(tmp_path, 2, **settings) as seen:
        await seen.cluster.create_topic("t", partitions=4)
        async with Producer(seen.cluster.bootstrap) as producer:
            for partition in range(4):
                await producer.send_many("t", [b"x"] * 6, partition=partition)
        await commit_at(seen, "g", 4)

        async def lag() -> float | None:
            pages = [await seen.metrics(broker_id) for broker_id in (1, 2)]
            told = [page.get("oncelog_consumergroup_lag_sum", {}) for page in pages]
            assert sum(("g",) in each for each in told) <= 1, "the coordinator alone tells"
            return next((each["g",] for each in told if ("g",) in each), None)

        async with asyncio.timeout(15):
            while await lag() != 20:
                await asyncio.sleep(0.02)


async def test_groups_beyond_the_most_are_shown_together(tmp_path: Path) -> None:
    async with observed(tmp_path, **SETTINGS, metrics_groups_max=2) as seen:
        await seen.cluster.create_topic("t")
        channel = await seen.cluster.channel(1)
        await produce(channel, "t", 0, [b"x"] * 10)
        channel.close()
        for group, number in COMMITTED.items():
            await commit_at(seen, group, number)
        await seen.endpoints[1].exposition.groups.ask_ends()
        samples = await seen.metrics()
        lags = samples["oncelog_consumergroup_lag_sum"]
        own = {key[0] for key in lags} - {OTHERS}
        assert len(own) == 2
        assert own < set(COMMITTED)
        assert {key[0] for key in samples["oncelog_consumergroup_lag"]} == own
        left = {group: 10 - number for group, number in COMMITTED.items()}
        assert all(lags[group,] == left[group] for group in own)
        assert lags[OTHERS,] == sum(left[group] for group in COMMITTED.keys() - own)
        assert sum(samples["oncelog_consumer_groups"].values()) == 4


async def test_partitions_of_groups_are_bounded_too(tmp_path: Path) -> None:
    async with observed(tmp_path, **SETTINGS, metrics_partitions_max=0) as seen:
        await seen.cluster.create_topic("t")
        channel = await seen.cluster.channel(1)
        await produce(channel, "t", 0, [b"x"] * 2)
        channel.close()
        await commit_at(seen, "g", 1)
        await seen.endpoints[1].exposition.groups.ask_ends()
        samples = await seen.metrics()
        assert "oncelog_consumergroup_lag" not in samples
        assert samples["oncelog_consumergroup_lag_sum"]["g",] == 1


async def test_open_transactions_have_an_age(tmp_path: Path) -> None:
    async with observed(tmp_path, **SETTINGS) as seen:
        await seen.cluster.create_topic("t")
        async with Producer(seen.cluster.bootstrap, transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"1")
            await producer.send("t", b"2")
            await asyncio.sleep(0.05)
            samples = await seen.metrics()
            assert samples["oncelog_transactional_ids"]["Ongoing",] == 1
            assert 0.05 <= samples["oncelog_open_transaction_age_seconds_max"][()] < 60
            assert samples["oncelog_partition_open_transactions"]["0", "t"] == 1
            assert samples["oncelog_partition_last_stable_offset_lag"]["0", "t"] == 2
            assert samples["oncelog_coordinator_partitions"]["transactions", "active"] == 2
            await producer.commit_transaction()
            coordinator = seen.cluster.brokers[1].transactions.engine

            def complete() -> bool:
                ids = [i for shard in coordinator.all_shards(lambda s: s.transactions) for i in
                       shard.values()]  # fmt: skip
                return all(i.saved is not None and i.saved.state.is_complete for i in ids)

            await eventually(complete)
            samples = await seen.metrics()
            assert samples["oncelog_transactional_ids"]["CompleteCommit",] == 1
            assert samples["oncelog_open_transaction_age_seconds_max"][()] == 0
            assert samples["oncelog_transaction_ending_seconds_max"][()] == 0
