"""Metrics of the broker as a process: the loop's lag is seen when it is there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from oncelog_broker.observability.broker_metrics import release
from oncelog_broker.observability.endpoint import Endpoint
from oncelog_runtime.observe import precise_time
from oncelog_runtime.turns import TurnWatch
from support.observed import observed
from support.waiting import eventually


async def test_a_busy_loop_is_seen(tmp_path: Path) -> None:
    async with observed(tmp_path, rack="r1") as seen:
        lag = seen.endpoints[1].exposition.brokers.loop_lag
        await eventually(lambda: lag.count >= 2)
        await asyncio.sleep(0.01)
        time.sleep(0.5)  # noqa: ASYNC251  (that is what is to be seen)
        seen_before = lag.count
        await eventually(lambda: lag.count > seen_before)
        assert lag.sum_s > 0.3
        samples = await seen.metrics()
        cluster_id = seen.cluster.brokers[1].image.cluster_id
        assert samples["oncelog_broker_info"] == {(cluster_id, "r1", release()): 1}
        assert samples["oncelog_broker_state"] == {("active",): 1}
        assert samples["oncelog_broker_ready"][()] == 1
        assert samples["oncelog_tasks"]["replication",] >= 2
        assert 10 < samples["process_open_fds"][()] <= samples["process_max_fds"][()]
        resident = samples["process_resident_memory_bytes"][()]
        assert 10**6 < resident < samples["process_virtual_memory_bytes"][()]
        assert samples["process_cpu_seconds_total"][()] > 0
        started_s = samples["process_start_time_seconds"][()]
        assert time.time() - 86_400 < started_s <= time.time() + 2
        assert set(samples["oncelog_assertions_failed_total"].values()) == {0}


async def test_long_turns_are_counted(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        turns = TurnWatch(lambda held: None)
        endpoint = Endpoint(seen.cluster.brokers[1], precise_time, turns)
        turns.held, turns.held_s = 3, 0.5
        page = b"".join(await endpoint.exposition.scrape()).decode()
        assert 'oncelog_event_loop_held_total{broker="1"} 3' in page
        assert 'oncelog_event_loop_held_seconds_total{broker="1"} 0.5' in page
        await endpoint.exposition.close()


async def test_a_replica_that_contradicts_itself_is_counted(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        await seen.cluster.create_topic("t")
        (partition,) = seen.cluster.brokers[1].replicas.partitions()
        partition.high_watermark = partition.log.log_end_offset + 1
        partition.check_invariants()
        samples = await seen.metrics()
        assert samples["oncelog_assertions_failed_total"]["replication",] == 1
        assert samples["oncelog_failed_replicas"][()] == 1


async def test_coordinators_that_contradict_themselves_are_counted(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        broker = seen.cluster.brokers[1]
        broker.coordination._assertion_failed(ValueError("a group"))
        broker.coordination.engine.breakdowns += 1
        broker.transactions.engine.breakdowns += 3
        failed = (await seen.metrics())["oncelog_assertions_failed_total"]
        assert failed == {
            ("replication",): 0,
            ("controller",): 0,
            ("groups",): 2,
            ("transactions",): 3,
        }
