"""Brokers coordinate groups: the topic is made on first use, and one outlives another.

Real brokers in one process; requests go over the wire where a client would send them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    NO_ERROR,
    CoordinatorNotAvailableError,
    MemberIdRequiredError,
    NotCoordinatorError,
    RequestTimedOutError,
    error_for,
)
from oncelog_protocol.messages.admin import DeleteTopicsRequest, DeleteTopicsResponse
from oncelog_protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from support.cluster import Cluster
from support.waiting import eventually
from unsafe.coordinators import without

SETTINGS: dict[str, Any] = {"offsets_topic_num_partitions": 8, "min_insync_replicas": 2}


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=3)
        yield cluster


async def find(cluster: Cluster, group: str, *, other_than: int = -1) -> int:
    """Return the group's coordinator, once one can be named and has loaded the group."""
    async with asyncio.timeout(15):
        while True:
            asked = next(iter(cluster.brokers))
            response: FindCoordinatorResponse = await cluster.call(
                asked, FindCoordinatorRequest(group)
            )
            if response.error_code == CoordinatorNotAvailableError.code:
                await asyncio.sleep(0.02)
                continue
            assert response.error_code == 0
            broker = cluster.brokers.get(response.broker_id)
            if response.broker_id == other_than or broker is None:
                await asyncio.sleep(0.02)
                continue
            assert (response.host, response.port) == broker.addresses["external"]
            if broker.coordination.engine.refusal(group) == 0:
                return response.broker_id
            await asyncio.sleep(0.02)


async def commit(
    cluster: Cluster, broker_id: int, group: str, offset: int, topic: str = "t"
) -> int:
    """Return the error code of a commit from outside of the group."""
    answered: asyncio.Future[OffsetCommitResponse] = asyncio.get_running_loop().create_future()
    partitions = [OffsetCommitPartition(0, offset), OffsetCommitPartition(1, offset)]
    cluster.brokers[broker_id].coordination.groups.commit(
        OffsetCommitRequest(group, -1, "", None, [OffsetCommitTopic(topic, partitions)]),
        answered.set_result,
    )
    response = await answered
    codes = [p.error_code for topic in response.topics for p in topic.partitions]
    return response.error_code or max(codes, default=0)


async def commit_at_last(
    cluster: Cluster, broker_id: int, group: str, offset: int, topic: str = "t"
) -> None:
    """Commit again and again while followers are late, as clients do.

    A busy machine keeps a follower for longer than ``replica_lag_time_max_ms``; the leader is then
    alone for a while, and ``min_insync_replicas`` refuses.
    """
    async with asyncio.timeout(20):
        while (code := await commit(cluster, broker_id, group, offset, topic)) != NO_ERROR:
            error = error_for(code)
            if not error.retriable:
                raise error
            await asyncio.sleep(0.02)


async def committed(cluster: Cluster, broker_id: int, group: str) -> dict[str, list[int]]:
    """Return offsets by topic; ask again while the coordinator cannot commit, as clients do."""
    async with asyncio.timeout(20):
        while True:
            answered = asyncio.get_running_loop().create_future()
            cluster.brokers[broker_id].coordination.groups.fetch_offsets(
                OffsetFetchRequest(group, None), answered.set_result
            )
            response: OffsetFetchResponse = await answered
            if response.error_code != CoordinatorNotAvailableError.code:
                break
            await asyncio.sleep(0.02)
    if response.error_code:
        raise error_for(response.error_code)
    return {topic.topic: [p.offset for p in topic.partitions] for topic in response.topics}


async def test_the_topic_is_made_on_first_use(cluster: Cluster) -> None:
    assert GROUP_TOPIC not in cluster.controller.image.topics
    response = await cluster.call(1, FindCoordinatorRequest("g"))
    assert response.error_code == CoordinatorNotAvailableError.code
    coordinator = await find(cluster, "g")
    image = cluster.brokers[1].image
    orders = image.topics[GROUP_TOPIC].partitions
    assert sorted(orders) == list(range(8))
    assert all(sorted(order.replicas) == [1, 2, 3] for order in orders.values())
    assert image.overrides(GROUP_TOPIC)["cleanup_policy"] == "compact"
    assert coordinator == orders[coordinator_partition("g", 8)].leader
    engines = {b: broker.coordination.engine for b, broker in cluster.brokers.items()}
    await eventually(lambda: sum(len(engine.led) for engine in engines.values()) == 8)
    for broker_id, engine in engines.items():
        assert engine.partition_count == 8
        if broker_id != coordinator:
            assert engine.refusal("g") == NotCoordinatorError.code


async def test_who_comes_before_the_other_brokers_leaves_no_topic_of_one_replica(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, 3, **SETTINGS)
    try:
        await cluster.start_broker(1)
        response = await cluster.call(1, FindCoordinatorRequest("g"))
        assert response.error_code == CoordinatorNotAvailableError.code
        assert "is to have 3 replicas" in str(response.error_message)
        for broker_id in (2, 3):
            await cluster.start_broker(broker_id)
        await cluster.converged()
        await find(cluster, "g")
        orders = cluster.brokers[1].image.topics[GROUP_TOPIC].partitions
        assert all(sorted(order.replicas) == [1, 2, 3] for order in orders.values())
    finally:
        await cluster.close()


async def test_every_broker_names_the_same_one_by_the_listener_that_was_asked(
    cluster: Cluster,
) -> None:
    coordinator = await find(cluster, "g")
    for broker_id in cluster.brokers:
        for listener in ("internal", "external"):
            answer = await cluster.call(broker_id, FindCoordinatorRequest("g"), listener=listener)
            assert answer.broker_id == coordinator
            host, port = cluster.brokers[coordinator].addresses[listener]
            assert (answer.host, answer.port) == (host, port)


async def test_one_broker_alone_and_min_insync_of_two(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1, **SETTINGS) as cluster:
        assert await find(cluster, "g") == 1
        assert cluster.brokers[1].image.overrides(GROUP_TOPIC)["min_insync_replicas"] == "1"
        await commit_at_last(cluster, 1, "g", 5)
        assert await committed(cluster, 1, "g") == {"t": [5, 5]}


@pytest.mark.parametrize("how", ["stopped", "crashed"])
async def test_offsets_outlive_their_coordinator(cluster: Cluster, how: str) -> None:
    coordinator = await find(cluster, "g")
    for offset in range(1, 6):
        await commit_at_last(cluster, coordinator, "g", offset)
    if how == "stopped":
        await cluster.stop_broker(coordinator)
    else:
        await cluster.crash_broker(coordinator)
    successor = await find(cluster, "g", other_than=coordinator)
    assert await committed(cluster, successor, "g") == {"t": [5, 5]}
    await commit_at_last(cluster, successor, "g", 6)
    await cluster.start_broker(coordinator)
    await eventually(lambda: cluster.leader(GROUP_TOPIC, coordinator_partition("g", 8)) > 0)
    assert await committed(cluster, await find(cluster, "g"), "g") == {"t": [6, 6]}


async def test_everything_outlives_a_stop_of_all(cluster: Cluster) -> None:
    coordinator = await find(cluster, "g")
    await commit_at_last(cluster, coordinator, "g", 7)
    ids = list(cluster.brokers)
    for broker_id in ids:
        await cluster.stop_broker(broker_id)
    await asyncio.gather(*(cluster.start_broker(broker_id) for broker_id in ids))
    await cluster.converged()
    assert await committed(cluster, await find(cluster, "g"), "g") == {"t": [7, 7]}


async def test_who_waits_for_a_commit_when_the_broker_stops_is_told(cluster: Cluster) -> None:
    coordinator = await find(cluster, "g")
    for broker_id in [b for b in cluster.brokers if b != coordinator]:
        await cluster.crash_broker(broker_id)
    waiting = asyncio.ensure_future(commit(cluster, coordinator, "g", 1))
    log = cluster.brokers[coordinator].logs
    await eventually(
        lambda: any(
            each.topic_partition.topic == GROUP_TOPIC and each.log_end_offset for each in log.all()
        )
    )
    engine = cluster.brokers[coordinator].coordination.engine
    await cluster.stop_broker(coordinator, clean=False)
    assert await waiting == RequestTimedOutError.code
    assert engine.led == []


async def test_who_is_parked_when_the_leadership_goes_is_told_to_look_elsewhere(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "group_initial_rebalance_delay_ms": 60_000}
    async with Cluster(tmp_path, 3, **settings) as cluster:
        coordinator = await find(cluster, "g")
        channel = await cluster.channel(coordinator)
        first = await channel.call(join("g", ""), timeout_s=10)
        assert first.message.error_code == MemberIdRequiredError.code
        parked = asyncio.ensure_future(
            channel.call(join("g", first.message.member_id), timeout_s=60)
        )
        groups = cluster.brokers[coordinator].coordination.groups
        await eventually(lambda: groups.list_groups([]).groups)
        await cluster.stop_broker(coordinator)
        answer: JoinGroupResponse = (await parked).message
        assert answer.error_code == NotCoordinatorError.code
        channel.close()
        await channel.wait_closed()
        assert await find(cluster, "g", other_than=coordinator)


def join(group: str, member_id: str) -> JoinGroupRequest:
    offered = [GroupProtocol("range", b"")]
    return JoinGroupRequest(group, 30_000, 30_000, member_id, None, "consumer", offered)


async def test_switches_reach_the_coordinators(tmp_path: Path) -> None:
    options = {"coordinator_safeguards": without("replies_wait_for_commit")}
    async with Cluster(tmp_path, 3, options=options, **SETTINGS) as cluster:
        coordinator = await find(cluster, "g")
        for broker_id in [b for b in cluster.brokers if b != coordinator]:
            await cluster.crash_broker(broker_id)
        await commit_at_last(cluster, coordinator, "g", 1)


async def test_offsets_of_a_deleted_topic_are_dropped(cluster: Cluster) -> None:
    await cluster.create_topic("gone", partitions=2, replication_factor=3)
    coordinator = await find(cluster, "g")
    await commit_at_last(cluster, coordinator, "g", 1)
    await commit_at_last(cluster, coordinator, "g", 2, "gone")
    assert await committed(cluster, coordinator, "g") == {"gone": [2, 2], "t": [1, 1]}
    response: DeleteTopicsResponse = await cluster.call(
        cluster.controller.broker_id, DeleteTopicsRequest(["gone"], 10_000)
    )
    assert response.topics[0].error_code == 0
    async with asyncio.timeout(10):
        while await committed(cluster, coordinator, "g") != {"t": [1, 1]}:
            await asyncio.sleep(0.02)


async def test_a_deleted_internal_topic_is_made_again_and_is_empty(cluster: Cluster) -> None:
    coordinator = await find(cluster, "g")
    await commit_at_last(cluster, coordinator, "g", 1)
    response: DeleteTopicsResponse = await cluster.call(
        cluster.controller.broker_id,
        DeleteTopicsRequest([GROUP_TOPIC], 10_000),
        listener="internal",
    )
    assert response.topics[0].error_code == 0
    engines = [broker.coordination.engine for broker in cluster.brokers.values()]
    await eventually(lambda: not any(engine.led for engine in engines))
    await eventually(lambda: all(engine.partition_count is None for engine in engines))
    assert await committed(cluster, await find(cluster, "g"), "g") == {}
