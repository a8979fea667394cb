"""The cluster has real brokers that start, crash, stop and pause as processes do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oncelog import Consumer, Producer
from oncelog_broker.app import Broker
from oncelog_broker.log.checkpoint import CLEAN_SHUTDOWN
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import DATA, EPOCH_MS, STOP_S, SimCluster
from simulation.knobs import Knobs
from simulation.loop import until
from simulation.play import play_cluster
from simulation.workload import TOPIC
from unsafe.replication import without

KNOBS = Knobs(partitions=1, clock_rate_spread=0.1, clock_offset_s=1000.0)


def state(cluster: SimCluster) -> dict[str, Any]:
    """Return that of the only partition."""
    data = cluster.partition_state(TOPIC, 0)
    assert data is not None
    result: dict[str, Any] = json.loads(data)
    return result


def serving(cluster: SimCluster) -> list[int]:
    return sorted(cluster.serving)


def leads(partition: Partition) -> bool:
    return partition.is_leader


async def soon(cluster: SimCluster, what: str, ids: list[int]) -> None:
    await until(lambda: serving(cluster) == ids, timeout_s=20, what=what)


async def send(cluster: SimCluster, *values: bytes) -> None:
    """Send from a client process of its own."""
    process = cluster.client_process("sender")

    async def work() -> None:
        async with Producer(
            cluster.bootstrap, entropy=SeededEntropy(1), clock=cluster.client_clock, acks="all"
        ) as producer:
            for value in values:
                await producer.send(TOPIC, value=value, partition=0)

    await process.call(work())
    process.kill()


async def read(cluster: SimCluster, count: int) -> list[bytes | None]:
    """Read from a client process of its own."""
    process = cluster.client_process("reader")

    async def work() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with Consumer(
            bootstrap_servers=cluster.bootstrap,
            entropy=SeededEntropy(1),
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            while len(values) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    values += [record.value for record in records]
        return values

    values = await process.call(work())
    process.kill()
    return values


def test_a_cluster_starts_and_works() -> None:
    async def scene(cluster: SimCluster) -> None:
        assert serving(cluster) == cluster.ids == [1, 2, 3]
        assert cluster.settled()
        names = [process.name for i in cluster.ids if (process := cluster.process(i))]
        assert names == ["broker-1", "broker-2", "broker-3"]
        await send(cluster, b"one", b"two")
        assert await read(cluster, 2) == [b"one", b"two"]
        assert sorted(state(cluster)["isr"]) == [1, 2, 3]
        assert len(cluster.zookeeper.sessions()) == 3

    play_cluster(scene, KNOBS)


def test_each_host_has_clocks_of_its_own() -> None:
    async def scene(cluster: SimCluster) -> None:
        process = {i: cluster.process(i) for i in cluster.ids}
        rates = [p.rate for p in process.values() if p]
        assert len(set(rates)) == 3
        assert all(0.95 <= rate <= 1.05 for rate in rates)
        assert [p.offset_s for p in process.values() if p] == [1000.0, 2000.0, 3000.0]
        now_ms = EPOCH_MS + int(cluster.loop.now_s * 1000)
        errors = [clock.now_ms() - now_ms for clock in cluster.clocks.values()]
        assert len(set(errors)) == 3
        assert all(-500 <= error <= 500 for error in errors)
        before = cluster.clocks[1].now_ms()
        await asyncio.sleep(2)
        assert cluster.clocks[1].now_ms() == pytest.approx(before + 2000, abs=1)

    play_cluster(scene, KNOBS)


def test_a_killed_broker_keeps_its_disk_and_stays_down_until_started() -> None:
    async def scene(cluster: SimCluster) -> None:
        down: list[int] = []
        made: list[tuple[int, Broker]] = []
        cluster.on_down.append(down.append)
        cluster.on_broker.append(lambda i, broker: made.append((i, broker)))
        await send(cluster, b"kept")
        victim = state(cluster)["leader"]
        former, files = cluster.brokers[victim], cluster.disks[victim].contents()
        cluster.crash_broker(victim)
        cluster.crash_broker(victim)
        assert down == [victim]
        assert victim not in cluster.brokers
        assert cluster.process(victim) is None
        assert cluster.disks[victim].contents() == files
        await asyncio.sleep(60)
        assert made == []
        assert state(cluster)["leader"] != victim
        assert victim not in state(cluster)["isr"]
        assert len(cluster.zookeeper.sessions()) == 2
        cluster.start_broker(victim)
        await soon(cluster, "it is back", [1, 2, 3])
        assert [i for i, _ in made] == [victim]
        assert cluster.brokers[victim] is made[0][1] is not former
        await until(lambda: victim in state(cluster)["isr"], timeout_s=20, what="in sync again")
        assert await read(cluster, 1) == [b"kept"]

    play_cluster(scene, KNOBS)


def test_a_broker_that_fails_is_started_again() -> None:
    async def scene(cluster: SimCluster) -> None:
        epoch = cluster.brokers[1].broker_epoch
        cluster.crash_broker(1, hold=False)
        await soon(cluster, "it is back by itself", [1, 2, 3])
        assert cluster.brokers[1].broker_epoch > epoch
        # So is one whose start fails, again and again.
        cluster.crash_broker(1)
        cluster.disks[1].set_open_max(0)
        cluster.start_broker(1)
        lives = cluster._lives[1]
        await asyncio.sleep(10)
        assert serving(cluster) == [2, 3]
        assert cluster._lives[1] > lives + 3
        cluster.disks[1].set_open_max(None)
        await soon(cluster, "it is back", [1, 2, 3])

    play_cluster(scene, KNOBS)


def test_a_power_cut_loses_what_was_not_synced() -> None:
    async def scene(cluster: SimCluster) -> None:
        await send(cluster, b"x" * 100)
        path = next(p for p in cluster.disks[1].paths(DATA) if p.endswith(".log"))
        bytes_by_way = {}
        for name, power in (("kill", False), ("power", True)):
            file = cluster.disks[1].open(path)
            file.append([b"not synced"])
            size = file.size()
            cluster.crash_broker(1, power=power)
            bytes_by_way[name] = cluster.disks[1].size(path) - size
            cluster.start_broker(1)
            await soon(cluster, "it is back", [1, 2, 3])
        assert bytes_by_way == {"kill": 0, "power": -len(b"not synced")}

    play_cluster(scene, KNOBS)


def test_a_broker_that_stops_says_goodbye() -> None:
    async def scene(cluster: SimCluster) -> None:
        leader = state(cluster)["leader"]
        await cluster.stop_broker(leader)
        assert cluster.process(leader) is None
        assert cluster.disks[leader].exists(f"{DATA}/0/{CLEAN_SHUTDOWN}")
        assert len(cluster.zookeeper.sessions()) == 2, "it closed its session"
        assert state(cluster)["leader"] != leader
        await asyncio.sleep(10)
        assert serving(cluster) == [i for i in (1, 2, 3) if i != leader]
        cluster.start_broker(leader)
        await soon(cluster, "it is back", [1, 2, 3])
        await cluster.stop_broker(leader, hold=False)
        await soon(cluster, "it is back by itself", [1, 2, 3])

    play_cluster(scene, KNOBS)


def test_a_broker_that_does_not_stop_is_killed() -> None:
    async def scene(cluster: SimCluster) -> None:
        cluster.pause_broker(2)
        began = cluster.loop.now_s
        await cluster.stop_broker(2)
        assert cluster.loop.now_s - began == pytest.approx(STOP_S)
        assert cluster.process(2) is None
        assert not cluster.disks[2].exists(f"{DATA}/0/{CLEAN_SHUTDOWN}")
        await cluster.stop_broker(2)

    play_cluster(scene, KNOBS)


def test_a_paused_broker_loses_its_session_and_comes_back() -> None:
    async def scene(cluster: SimCluster) -> None:
        leader = state(cluster)["leader"]
        session, epoch = cluster.stores[leader].session_id, cluster.brokers[leader].broker_epoch
        cluster.pause_broker(leader)
        cluster.pause_broker(leader)
        await asyncio.sleep(10)
        assert session not in cluster.zookeeper.sessions()
        assert state(cluster)["leader"] != leader
        partition = cluster.brokers[leader].replicas.partition(TopicPartition(TOPIC, 0))
        assert leads(partition), "it has not heard"
        assert cluster.stores[leader].session_id == session
        cluster.resume_broker(leader)
        cluster.resume_broker(leader)
        await until(lambda: leader in state(cluster)["isr"], timeout_s=20, what="in sync")
        assert cluster.stores[leader].session_id != session
        assert cluster.brokers[leader].broker_epoch > epoch
        assert leads(partition) == (state(cluster)["leader"] == leader)

    play_cluster(scene, KNOBS)


def test_sessions_can_be_cut_joined_and_ended() -> None:
    async def scene(cluster: SimCluster) -> None:
        session = cluster.stores[1].session_id
        cluster.cut_from_zookeeper(1)
        await asyncio.sleep(0.5)
        cluster.join_zookeeper(1)
        await asyncio.sleep(5)
        assert cluster.stores[1].session_id == session, "back in time"
        cluster.expire(1)
        await asyncio.sleep(5)
        second = cluster.stores[1].session_id
        assert second in cluster.zookeeper.sessions()
        assert second != session
        cluster.cut_from_zookeeper(1)
        await asyncio.sleep(10)
        assert second not in cluster.zookeeper.sessions()
        cluster.join_zookeeper(1)
        await asyncio.sleep(5)
        assert cluster.stores[1].session_id in cluster.zookeeper.sessions()
        for act in (cluster.cut_from_zookeeper, cluster.expire, cluster.join_zookeeper):
            cluster.crash_broker(1)
            act(1)  # nobody is there: nothing happens

    play_cluster(scene, KNOBS)


def test_wiped_disks_are_empty_and_fill_again() -> None:
    async def scene(cluster: SimCluster) -> None:
        await send(cluster, b"everywhere")
        cluster.crash_broker(3, power=True)
        cluster.wipe_disks(3)
        assert cluster.disks[3].paths() == []
        cluster.start_broker(3)
        await until(lambda: 3 not in state(cluster)["isr"], timeout_s=20, what="it is out")
        await until(lambda: 3 in state(cluster)["isr"], timeout_s=20, what="it is back")
        replica = cluster.brokers[3].replicas.partition(TopicPartition(TOPIC, 0))
        assert replica.log.log_end_offset == 1

    play_cluster(scene, KNOBS)


def test_a_slow_disk_slows_one_broker() -> None:
    async def scene(cluster: SimCluster) -> None:
        process = cluster.process(1)
        assert process is not None
        assert max(process.job_delay(print) for _ in range(100)) < 0.01
        cluster.sync_stall_s[1] = 5.0
        assert max(process.job_delay(print) for _ in range(100)) > 4.0
        other = cluster.process(2)
        assert other is not None
        assert max(other.job_delay(print) for _ in range(100)) < 0.01

    play_cluster(scene, KNOBS)


def test_clients_are_processes_on_hosts_of_their_own() -> None:
    async def scene(cluster: SimCluster) -> None:
        first = cluster.client_process("client-7")
        assert first.name in cluster.network.hosts
        with pytest.raises(AssertionError, match="runs already"):
            cluster.client_process("client-7")
        first.kill()
        assert cluster.client_process("client-7").alive

    play_cluster(scene, KNOBS)


def test_rules_are_switched_off_in_every_broker() -> None:
    async def scene(cluster: SimCluster) -> None:
        cluster.crash_broker(1, hold=False)
        await soon(cluster, "it is back", [1, 2, 3])
        partition = TopicPartition(TOPIC, 0)
        for broker in cluster.brokers.values():
            safeguards = broker.replicas.partition(partition).safeguards
            assert not safeguards.truncates(True)

    play_cluster(scene, KNOBS, safeguards={"safeguards": without("truncate_on_divergence")})


@pytest.mark.parametrize("flush", ["commit", "interval"])
@pytest.mark.parametrize("log_dirs", [1, 2])
def test_knobs_reach_the_brokers(flush: str, log_dirs: int) -> None:
    knobs = Knobs(partitions=2, flush=flush, log_dirs=log_dirs, segment_bytes=2048)

    async def scene(cluster: SimCluster) -> None:
        for broker in cluster.brokers.values():
            assert broker.config.flush == flush
            assert len(broker.logs.dirs) == log_dirs
            for partition in broker.replicas.partitions():
                assert partition.log.config.segment_bytes == 2048

    play_cluster(scene, knobs)
