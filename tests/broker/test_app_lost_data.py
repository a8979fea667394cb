"""Whole brokers lose their disks, or what they had not synced: nothing that was acknowledged goes
while a complete replica can be had (KIP-966)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.log.checkpoint import CONTINUITY
from oncelog_broker.log.continuity_record import ContinuityRecord
from oncelog_controller import znodes
from oncelog_controller.safeguards import SAFE
from oncelog_controller.state import DataLoss, PartitionState
from oncelog_controller.store import NodeStat
from oncelog_protocol.messages.admin import ElectionTarget, ElectLeadersRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import SystemFiles
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.waiting import eventually
from unsafe.controller import without


class Machines(SystemFiles):
    """A test can restart these machines: what was not synced may be gone then."""

    boot = "first"

    def boot_id(self) -> str:
        return self.boot


def state(cluster: Cluster) -> PartitionState:
    data = cluster.zookeeper.data(znodes.state_path("t", 0))
    assert data is not None
    return znodes.decode_state("t", 0, data, NodeStat(0, 0))


def claim(cluster: Cluster, broker_id: int) -> Any:
    data = cluster.zookeeper.data(znodes.broker_path(broker_id))
    assert data is not None
    return znodes.decode_broker(broker_id, data, NodeStat(0, 0)).data


async def send(cluster: Cluster, *values: bytes, acks: int = -1) -> int:
    channel = await cluster.channel(cluster.leader("t"))
    answer = await produce(channel, "t", 0, list(values), acks=acks)
    channel.close()
    return answer.error_code


async def read(cluster: Cluster) -> list[bytes | None]:
    channel = await cluster.channel(cluster.leader("t"))
    values = await fetch_values(channel, "t", 0)
    channel.close()
    return values


async def expired(cluster: Cluster, broker_id: int) -> None:
    """The broker has lost its session, and registered again."""
    broker, before = cluster.brokers[broker_id], cluster.brokers[broker_id].broker_epoch
    cluster.zookeeper.expire(cluster.machine(broker_id).session_id)
    await eventually(lambda: broker.broker_epoch > before)


async def alone(cluster: Cluster) -> int:
    """One broker is left of the ISR, the others have stopped one after another; its id."""
    await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
    await eventually(lambda: len(state(cluster).isr) == 3)
    assert await send(cluster, b"a", b"b") == 0
    last = cluster.leader("t")
    for broker_id in [b for b in (1, 2, 3) if b != last]:
        await cluster.stop_broker(broker_id)
    await eventually(lambda: state(cluster).isr == (last,))
    return last


@pytest.mark.parametrize("trusting", [False, True], ids=["safe", "trusting"])
async def test_the_last_replica_standing_comes_back_with_an_empty_disk(
    tmp_path: Path, trusting: bool
) -> None:
    """The one whose ISR was too small to commit without it is complete, and leads."""
    switches = without("trust_only_complete_replicas") if trusting else SAFE
    async with Cluster(tmp_path, 3, options={"controller_safeguards": switches}) as cluster:
        last = await alone(cluster)
        (eligible,) = state(cluster).elr
        assert await send(cluster, b"c") != 0, "NOT_ENOUGH_REPLICAS"
        await cluster.crash_broker(last)
        shutil.rmtree(tmp_path / f"broker-{last}")
        # It does not know its old session any more, and has to wait for its end.
        await eventually(lambda: cluster.zookeeper.data(znodes.broker_path(last)) is None)
        await cluster.start_broker(last)
        if trusting:
            await eventually(lambda: state(cluster).leader == last, timeout_s=10)
            await cluster.start_broker(eligible)
            await cluster.converged()
            await eventually(lambda: cluster.leader("t") == last)
            assert await read(cluster) == [], "acknowledged records are lost"
            return
        await eventually(lambda: state(cluster).last_known_elr == (last,), timeout_s=10)
        assert state(cluster).leader == -1
        await cluster.start_broker(eligible)
        await eventually(lambda: state(cluster).leader == eligible)
        await cluster.converged()
        await eventually(lambda: len(state(cluster).isr) == 2, timeout_s=10)
        assert await read(cluster) == [b"a", b"b"]
        assert await send(cluster, b"d") == 0
        assert state(cluster).unclean_epoch == -1


async def test_a_power_cut_under_flush_interval_is_owned_up_to(tmp_path: Path) -> None:
    files = Machines()
    async with Cluster(tmp_path, 2, files=files) as cluster:
        await cluster.create_topic(
            "t", replication_factor=2, min_insync_replicas=2, flush="interval"
        )
        await eventually(lambda: len(state(cluster).isr) == 2)
        assert await send(cluster, b"a") == 0
        for broker_id in (1, 2):
            await cluster.crash_broker(broker_id)
        files.boot = "second"
        for broker_id in (1, 2):
            await cluster.start_broker(broker_id)
        await cluster.converged()
        assert claim(cluster, 1).loss is claim(cluster, 2).loss is DataLoss.TAIL
        await eventually(lambda: state(cluster).last_known_elr == (1, 2))
        assert (state(cluster).leader, state(cluster).isr) == (-1, ())
        request = ElectLeadersRequest(True, [ElectionTarget("t", 0)])
        response = await cluster.call(cluster.controller.broker_id, request)
        assert response.partitions[0].error_code == 0
        await eventually(lambda: cluster.leader("t") > 0)
        await eventually(lambda: len(state(cluster).isr) == 2, timeout_s=10)
        assert state(cluster).unclean_epoch > 0
        assert await send(cluster, b"b") == 0


@pytest.mark.parametrize(
    ("flush", "boot"), [("interval", "first"), ("commit", "second")], ids=["kill", "power cut"]
)
async def test_all_are_gone_at_once_and_nothing_is_lost(
    tmp_path: Path, flush: str, boot: str
) -> None:
    """Killed processes leave the page cache; flush=commit needs none."""
    files = Machines()
    async with Cluster(tmp_path, 3, files=files) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2, flush=flush)
        await eventually(lambda: len(state(cluster).isr) == 3)
        assert await send(cluster, b"a", b"b") == 0
        for broker_id in (1, 2, 3):
            await cluster.crash_broker(broker_id)
        files.boot = boot
        for broker_id in (3, 1, 2):
            await cluster.start_broker(broker_id)
        await cluster.converged()
        await eventually(lambda: state(cluster).leader > 0, timeout_s=10)
        await eventually(lambda: cluster.leader("t") > 0)
        assert await read(cluster) == [b"a", b"b"]
        assert state(cluster).unclean_epoch == -1
        assert all(claim(cluster, b).loss is DataLoss.NONE for b in (1, 2, 3))


async def test_the_partitions_on_sound_disks_are_led_when_one_was_replaced(tmp_path: Path) -> None:
    """The only replica of half of the partitions is gone; the others are as they were."""
    disks = [tmp_path / "disk-a", tmp_path / "disk-b"]
    async with Cluster(tmp_path, 1, log_dirs=[str(disk) for disk in disks]) as cluster:
        await cluster.create_topic("t", partitions=4)
        channel = await cluster.channel(1)
        for number in range(4):
            assert (await produce(channel, "t", number, [b"a"])).error_code == 0
        channel.close()
        names = [TopicPartition("t", number) for number in range(4)]
        logs = [cluster.brokers[1].logs.get(name) for name in names]
        sound = [log is not None and log.log_dir.path == str(disks[0]) for log in logs]
        assert sorted(sound) == [False, False, True, True]
        await cluster.stop_broker(1)
        shutil.rmtree(disks[1])
        await cluster.start_broker(1)
        wanted = [1 if each else -1 for each in sound]
        for life in range(2):
            (listed,) = claim(cluster, 1).listed
            (numbers,) = listed.partitions.values()
            assert sorted(numbers) == [n for n in range(4) if sound[n]]
            await eventually(lambda: [cluster.leader("t", n) for n in range(4)] == wanted)
            if life == 0:  # what was lost has been made again, empty, and is not vouched for
                await expired(cluster, 1)
        channel = await cluster.channel(1)
        assert await fetch_values(channel, "t", sound.index(True)) == [b"a"]
        channel.close()


@pytest.mark.parametrize("disks", [1, 2])
async def test_what_a_directory_may_have_lost_is_noted_as_soon_as_it_fails(
    tmp_path: Path, disks: int
) -> None:
    """The broker is killed in that moment; the next life finds the note."""
    paths = [tmp_path / f"disk-{number}" for number in range(disks)]
    async with Cluster(tmp_path, 1, log_dirs=[str(path) for path in paths]) as cluster:
        await cluster.create_topic("t", flush="interval")
        assert await send(cluster, b"a") == 0
        broker = cluster.brokers[1]
        log = broker.logs.get(TopicPartition("t", 0))
        assert log is not None
        failed = log.log_dir
        assert failed.counts_unsynced
        failed.fail("sync", OSError("broken"))
        await asyncio.sleep(0)  # the one turn in which the broker is told
        noted = ContinuityRecord.decode((paths[-1] / CONTINUITY).read_bytes()).failed
        assert noted == {failed.directory_id: True}


async def test_an_expired_session_costs_no_trust(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", flush="interval")
        assert await send(cluster, b"a") == 0
        broker = cluster.brokers[1]
        before = broker.broker_epoch
        await expired(cluster, 1)
        said = claim(cluster, 1)
        assert (said.loss, said.until) == (DataLoss.NONE, before)
        await eventually(lambda: state(cluster).leader_epoch == 1)
        await eventually(lambda: cluster.state("t").leader_epoch == 1)
        assert state(cluster).isr == (1,)
        log = broker.logs.get(TopicPartition("t", 0))
        assert log is not None
        assert log.log_dir.counts_unsynced
        assert await read(cluster) == [b"a"]
