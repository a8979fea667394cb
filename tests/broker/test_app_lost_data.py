"""Whole brokers that lose their disks, or what they had not synced: nothing that was acknowledged
goes while a complete replica can be had (KIP-966, F8, F10, F12)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import DataLoss, PartitionState
from oncelog_controller.store import NodeStat
from oncelog_protocol.messages.admin import ElectionTarget, ElectLeadersRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import SystemFiles
from support.cluster import Cluster, fetch_values, produce
from support.waiting import eventually


class Machines(SystemFiles):
    """Files on machines that a test can restart: what was not synced may be gone then."""

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


@pytest.mark.asyncio
@pytest.mark.parametrize("trusting", [False, True], ids=["safe", "trusting"])
async def test_the_last_replica_standing_comes_back_with_an_empty_disk(
    tmp_path: Path, trusting: bool
) -> None:
    """The one whose ISR was too small to commit without it is complete, and leads."""
    switches = ControllerSafeguards(trust_only_complete_replicas=not trusting)
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("flush", "boot"), [("interval", "first"), ("commit", "second")], ids=["kill", "power cut"]
)
async def test_all_are_gone_at_once_and_nothing_is_lost(
    tmp_path: Path, flush: str, boot: str
) -> None:
    """F8, F9: killed processes leave the page cache; flush=commit needs none."""
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


@pytest.mark.asyncio
async def test_an_expired_session_costs_no_trust(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", flush="interval")
        assert await send(cluster, b"a") == 0
        broker = cluster.brokers[1]
        before, session = broker.broker_epoch, cluster.stores[1].session_id
        assert session is not None
        cluster.zookeeper.expire(session)
        await eventually(lambda: broker.broker_epoch > before)
        said = claim(cluster, 1)
        assert (said.loss, said.until) == (DataLoss.NONE, before)
        await eventually(lambda: state(cluster).leader_epoch == 1)
        await eventually(lambda: cluster.state("t").leader_epoch == 1)
        assert state(cluster).isr == (1,)
        log = broker.logs.get(TopicPartition("t", 0))
        assert log is not None
        assert log.log_dir.counts_unsynced
        assert await read(cluster) == [b"a"]
