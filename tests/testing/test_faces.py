"""Brokers, disks and the metadata store have faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog import Producer, blocking
from oncelog.errors import OncelogError, PartialSendError
from oncelog_testing import AsyncCluster, Cluster, ClusterClosedError, NotRunningError
from oncelog_testing.faces import Scoped


def test_what_is_scoped_is_undone_once() -> None:
    undone: list[str] = []
    with Scoped(lambda: undone.append("x")) as scoped:
        assert undone == []
    scoped.undo()
    assert undone == ["x"]


@pytest.mark.oncelog(brokers=3)
@pytest.mark.parametrize("leads", ["leader", "controller"])
def test_a_paused_broker_is_replaced_and_comes_back(
    oncelog_cluster: Cluster, oncelog_topic: str, leads: str
) -> None:
    oncelog_cluster.produce(oncelog_topic, ["before"])
    paused = oncelog_cluster.controller
    oncelog_cluster.move_leader(oncelog_topic, to=paused)
    if leads == "leader":
        oncelog_cluster.move_leader(oncelog_topic)
        paused = oncelog_cluster.leader(oncelog_topic)
    with oncelog_cluster.pause(paused):
        oncelog_cluster.advance(3)  # past its session
        oncelog_cluster.eventually(lambda: oncelog_cluster.controller != paused)
        oncelog_cluster.eventually(lambda: oncelog_cluster.leader(oncelog_topic) != paused)
        assert paused in oncelog_cluster.brokers, "it does not know"
        with blocking.Producer(oncelog_cluster.bootstrap, connect_timeout_ms=200) as producer:
            producer.send(oncelog_topic, b"meanwhile")
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    values = [record.value for record in oncelog_cluster.records(oncelog_topic)]
    assert values == [b"before", b"meanwhile"]


def test_without_other_brokers_a_pause_is_a_pause(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    with blocking.Producer(oncelog_cluster.bootstrap) as producer:
        producer.send(oncelog_topic, b"x")
        with oncelog_cluster.pause(1) as pause:
            delivery = producer.enqueue(oncelog_topic, b"y")
            oncelog_cluster.wait_for_hits(oncelog_cluster.faults[0])
            pause.undo()
            delivery.result(10)
    assert len(oncelog_cluster.records(oncelog_topic)) == 2


@pytest.mark.oncelog(brokers=3)
async def test_followers_that_are_cut_off_leave_the_isr(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    cluster = oncelog_cluster.aio
    leader = await cluster.leader(oncelog_topic)
    others = [broker for broker in cluster.brokers if broker != leader]
    with cluster.partition([leader]):
        async with Producer(cluster.bootstrap) as producer:
            sending = await producer.enqueue(oncelog_topic, b"x")
            await cluster.advance(10)
            if cluster.controller == leader:
                await sending  # the leader goes on alone
                assert await cluster.isr(oncelog_topic) == (leader,)
            else:
                assert await cluster.isr(oncelog_topic) != (leader,), "the controller is away"
            assert set(others) < set(cluster.brokers)
    await cluster.wait_until_caught_up(oncelog_topic)
    assert len(await cluster.isr(oncelog_topic)) == 3
    assert len(await cluster.records(oncelog_topic)) == 1


@pytest.mark.oncelog(brokers=3)
def test_a_broker_that_is_cut_off_from_everybody_is_deposed(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    leader = oncelog_cluster.leader(oncelog_topic)
    with oncelog_cluster.partition([leader], metadata_store=True):
        oncelog_cluster.advance(3)
        oncelog_cluster.eventually(lambda: oncelog_cluster.leader(oncelog_topic) != leader)
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    assert leader in oncelog_cluster.isr(oncelog_topic)


def test_a_full_disk_refuses_and_recovers(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with oncelog_cluster.disk_full(1), pytest.raises(PartialSendError, match="is full"):
        oncelog_cluster.produce(oncelog_topic, ["x"], timeout_s=0.2)
    oncelog_cluster.produce(oncelog_topic, ["y"])
    assert [record.value for record in oncelog_cluster.records(oncelog_topic)] == [b"y"]
    assert not oncelog_cluster.dirty


@pytest.mark.oncelog(brokers=3)
def test_a_sync_that_fails_ends_the_broker(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    leader = oncelog_cluster.leader(oncelog_topic)
    with oncelog_cluster.disk_fails(leader, "sync"):
        oncelog_cluster.produce(oncelog_topic, ["x"])
    assert leader not in oncelog_cluster.brokers
    with pytest.raises(NotRunningError, match="failed with BrokerFailedError"):
        oncelog_cluster.expire_session(leader)
    oncelog_cluster.heal()
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    assert len(oncelog_cluster.isr(oncelog_topic)) == 3
    assert len(oncelog_cluster.records(oncelog_topic)) == 1


@pytest.mark.oncelog(flush_inline_bytes_max=0)
async def test_a_slow_disk_takes_the_clusters_time(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    cluster = oncelog_cluster.aio
    async with Producer(cluster.bootstrap) as producer:
        await producer.send(oncelog_topic, b"quick")
        with cluster.slow_disk(1, 8):
            sending = await producer.enqueue(oncelog_topic, b"slow")
            await cluster.eventually(lambda: cluster.core.running()[0].logs.all() != [])
            await cluster.advance(5)
            assert not sending.done()
            await cluster.advance(20)
            await sending


def test_without_the_metadata_store_records_flow(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    with oncelog_cluster.without_metadata_store():
        oncelog_cluster.produce(oncelog_topic, ["x"])
        with (
            blocking.Admin(oncelog_cluster.bootstrap) as admin,
            pytest.raises(OncelogError),
        ):
            admin.create_topics(["another"], timeout_ms=200).raise_for_errors()
    oncelog_cluster.produce(oncelog_topic, ["y"])
    assert len(oncelog_cluster.records(oncelog_topic)) == 2


@pytest.mark.parametrize(
    "fault",
    [
        lambda cluster: cluster.disk_full(1),
        lambda cluster: cluster.disk_fails(1),
        lambda cluster: cluster.slow_disk(1, 1),
    ],
)
def test_real_disks_have_no_faults(tmp_path: Path, fault: Callable[[Cluster], Scoped]) -> None:
    with Cluster(directory=tmp_path) as cluster:
        with pytest.raises(ValueError, match="leave out directory="):
            fault(cluster)
        with pytest.raises(NotRunningError, match="leave out directory="):
            cluster.kill(1, power_loss=True)


def test_a_cluster_that_is_not_open() -> None:
    for face in (Cluster(), AsyncCluster()):
        with pytest.raises(ClusterClosedError, match="not open"):
            _ = face.bootstrap
        with pytest.raises(ClusterClosedError, match="not open"):
            face.fail_next("produce", "STORAGE_ERROR")
        with pytest.raises(ClusterClosedError, match="not open"):
            face.now(lambda: None)
        assert not face.dirty
