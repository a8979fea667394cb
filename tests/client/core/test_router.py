"""Calls find their broker by bootstrap, metadata and connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.config import ConnectionOptions
from oncelog.core.connection import CONTROL, DATA
from oncelog.core.router import Router
from oncelog.errors import (
    BrokerUnreachableError,
    ClosedError,
    DeadlineExceededError,
    InvalidRequestError,
    InvalidTopicError,
    NoBrokersAvailableError,
    NotControllerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from oncelog_protocol.messages.admin import DeleteTopicsRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.waiting import eventually

TP = TopicPartition("t", 0)


def make(cluster: FakeCluster | str, **options: Any) -> Router:
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap
    return Router(
        ConnectionOptions(bootstrap_servers=servers, client_id="test", **options),
        entropy=SeededEntropy(1),
    )


def soon(seconds: float = 5) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_start_learns_the_cluster_and_keeps_one_connection() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        assert list(router.cluster.brokers) == [1, 2]
        assert sum(broker.connection_count for broker in cluster.brokers.values()) >= 1
        await router.close()
        await eventually(
            lambda: not any(broker.connection_count for broker in cluster.brokers.values())
        )


async def test_nobody_there_fails_at_once_and_names_the_addresses() -> None:
    async with FakeCluster(2) as cluster:
        addresses = cluster.bootstrap
    router = make(addresses)
    with pytest.raises(NoBrokersAvailableError) as caught:
        await router.start()
    assert [address for address, _ in caught.value.tried] == addresses.split(",")
    assert "connection refused" in str(caught.value)


async def test_one_dead_bootstrap_address_does_not_matter() -> None:
    async with FakeCluster(2) as cluster:
        addresses = cluster.bootstrap
        await cluster.brokers[1].stop()
        cluster.down.append(1)
        router = make(addresses)
        await router.start()
        assert list(router.cluster.brokers) == [2]
        await router.close()


async def test_an_advertised_address_that_leads_nowhere_is_named() -> None:
    async with FakeCluster(1) as cluster, FakeCluster(1) as elsewhere:
        gone = elsewhere.brokers[1].port
        await elsewhere.brokers[1].stop()
        cluster.brokers[1].advertised_port = gone
        with pytest.raises(NoBrokersAvailableError) as caught:
            await make(cluster).start()
        assert f":{gone}" in str(caught.value)
        assert "advertised" in str(caught.value)


async def test_an_address_of_another_cluster_is_refused_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster(2) as mine, FakeCluster(2, cluster_id="other") as other:
        other.create_topic("t")
        router = make(f"127.0.0.1:{mine.brokers[1].port}")
        mine.brokers[2].advertised_port = other.brokers[2].port
        await router.start()
        for _ in range(3):
            with pytest.raises(BrokerUnreachableError) as caught:
                await router.connections.channel(2, DATA)
            await eventually(lambda: router.connections._slots[2, DATA].retry_at < soon(0))
        text = "expected broker 2 of cluster 'fake', found broker 2 of cluster 'other'"
        assert text in str(caught.value)
        assert "check advertised_host" in str(caught.value)
        assert {type(request).__name__ for _, request in other.requests} == {"ApiVersionsRequest"}
        await router.connections.channel(1, DATA)
        await router.close()
    lines = [r.getMessage() for r in caplog.records if text in r.getMessage()]
    assert len(lines) == 1


async def test_an_address_of_another_broker_is_named_and_served_by_nobody() -> None:
    async with FakeCluster(3) as cluster:
        cluster.brokers[2].advertised_port = cluster.brokers[3].port
        router = make(f"127.0.0.1:{cluster.brokers[1].port}")
        await router.start()
        with pytest.raises(BrokerUnreachableError, match="found broker 3 of cluster 'fake'"):
            await router.connections.channel(2, DATA)
        assert router.connections.channel_now(2, DATA) is None
        await router.close()


async def test_a_bootstrap_connection_to_another_broker_is_not_kept_for_this_one() -> None:
    async with FakeCluster(2) as cluster:
        seed = cluster.brokers[2].port
        cluster.brokers[1].advertised_port = seed  # and 2 advertises it rightly
        router = make(f"127.0.0.1:{seed}")
        await router.start()
        assert router.connections.channel_now(1, CONTROL) is None
        with pytest.raises(BrokerUnreachableError, match="expected broker 1 of cluster 'fake'"):
            await router.connections.channel(1, CONTROL)
        await router.close()


async def test_metadata_of_another_cluster_is_not_believed() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        router = make(cluster)
        await router.start()
        strange = cluster.metadata(MetadataRequest(None))
        strange.cluster_id = "other"  # as of a release that says nothing in its first exchange
        cluster.stale_metadata[1] = strange
        router.want("t")
        await router.refresh()
        assert router.cluster.topics == {}
        cluster.stale_metadata.clear()
        await router.topic("t", soon())
        await router.close()


async def test_a_client_that_was_closed_may_be_started_with_another_cluster() -> None:
    async with FakeCluster(1) as cluster, FakeCluster(1, cluster_id="other") as other:
        port = cluster.brokers[1].port
        router = make(cluster)
        await router.start()
        await router.close()
        await cluster.brokers[1].stop()
        other.brokers[1].port = port
        await other.brokers[1].stop()
        await other.brokers[1].start()
        await router.start()
        assert router.cluster.cluster_id == "other"
        await router.close()


async def test_a_topic_is_asked_for_when_it_is_needed() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t", 2)
        router = make(cluster)
        await router.start()
        view = await router.topic("t", soon())
        assert view.partition_count == 2
        await router.close()


async def test_a_topic_that_appears_is_waited_for() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        waiting = asyncio.create_task(router.topic("t", soon()))
        await eventually(lambda: cluster.count(ApiKey.METADATA) > 3)
        cluster.create_topic("t")
        assert (await waiting).partition_count == 1
        await router.close()


async def test_a_topic_that_does_not_appear_is_an_error() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        with pytest.raises((UnknownTopicOrPartitionError, DeadlineExceededError), match="'t'"):
            await router.topic("t", soon(0.2))
        await router.close()


@pytest.mark.parametrize("topic", ["", ".", "a/b", "x" * 250, "\ud800", 7])
async def test_an_illegal_name_is_not_even_asked_for(topic: Any) -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        with pytest.raises(InvalidTopicError):
            await router.topic(topic, soon())
        assert not router.topics
        await router.close()


async def test_a_broker_that_broke_is_asked_last() -> None:
    """After the loss of a connection the next answer comes from somebody else, at once."""
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t")
        router = make(cluster)
        await router.start()
        await router.topic("t", soon())
        for broker in cluster.brokers:
            await router.connections.channel(broker, DATA)
        await cluster.brokers[1].stop()
        cluster.move_leader("t", 0, 2)
        await eventually(lambda: router.connections.channel_now(1, DATA) is None)
        await router.refresh()
        assert router.cluster.leader(TP) == 2
        await router.close()


async def test_a_silent_broker_is_not_waited_for() -> None:
    """A stopped process accepts and says nothing: the next one is asked beside it."""
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        router = make(cluster)
        await router.start()
        await router.topic("t", soon())
        held = cluster.rule(ApiKey.METADATA, Action.HOLD, broker=1, times=1000)
        cluster.move_leader("t", 0, 2)
        for _ in range(4):
            await router.refresh()
        assert router.cluster.leader(TP) == 2
        held.release.set()
        await router.close()


def refused(response: Any) -> Any:
    codes = [topic.error_code for topic in response.topics]
    return NotControllerError() if NotControllerError.code in codes else None


async def test_the_controller_is_followed_when_it_moves() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        router = make(cluster)
        await router.start()
        cluster.controller_id = 2
        response = await router.call_controller(DeleteTopicsRequest(["t"], 1000), soon(), refused)
        assert response.topics[0].error_code == 0
        assert "t" not in cluster.topics
        await router.close()


async def test_without_a_controller_a_call_ends_by_its_deadline() -> None:
    async with FakeCluster(1) as cluster:
        cluster.controller_id = -1
        router = make(cluster)
        await router.start()
        with pytest.raises(DeadlineExceededError, match="no controller") as caught:
            await router.call_controller(DeleteTopicsRequest(["t"], 1000), soon(0.2), refused)
        assert caught.value.definite
        await router.close()


async def test_call_any_goes_on_to_the_next_broker() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        rule = cluster.rule(ApiKey.DESCRIBE_CLUSTER, Action.DROP_BEFORE)
        response = await router.call_any(DescribeClusterRequest(), soon())
        assert response.cluster_id == "fake"
        assert rule.met == 1
        await router.close()


async def test_a_retry_ends_with_what_cannot_be_tried_again_or_by_the_deadline() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        attempts: list[BaseException] = [
            RequestTimedOutError(),
            ConnectionResetError(),
            InvalidRequestError("no"),
        ]

        async def attempt() -> None:
            raise attempts.pop(0)

        with pytest.raises(InvalidRequestError):
            await router.retry(attempt, soon(), "test")

        async def never() -> None:
            raise error_for(RequestTimedOutError.code)

        with pytest.raises(DeadlineExceededError, match="test did not succeed") as caught:
            await router.retry(never, soon(0.1), "test")
        assert not caught.value.definite
        await router.close()


async def test_a_closed_router_says_so() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        waiting = asyncio.create_task(router.refresh())
        await asyncio.sleep(0)
        await router.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await router.connections.channel(1)
        with pytest.raises(ClosedError):
            await router.refresh()


async def test_closing_while_brokers_are_asked_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A question over a connection that is still being made ends without an alarm."""
    met = 0
    async with FakeCluster(3) as cluster:
        for turns in range(12):
            router = make(cluster)
            await router.start()
            for broker in cluster.brokers:
                router.connections.drop_channel(broker, CONTROL, "so that it connects again")
            waiting = asyncio.create_task(router.refresh())
            for _ in range(turns):
                await asyncio.sleep(0)
            met += "connect" in repr(router._tasks) and "ask" in repr(router._tasks)
            await router.close()
            await asyncio.gather(waiting, return_exceptions=True)
            assert router.failure is None
    assert met > 0
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_background_task_that_dies_is_heard() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()

        def broken() -> None:
            raise ZeroDivisionError

        router.on_metadata.append(broken)
        await router.refresh()
        await eventually(lambda: router.failure is not None)
        with pytest.raises(ClosedError) as caught:
            router.raise_if_failed()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        router.on_metadata.clear()
        await router.close()


async def test_all_topics_where_a_pattern_needs_them() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("a")
        cluster.create_topic("b", 2)
        router = make(cluster)
        await router.start()
        router.want("a")
        await router.refresh()
        assert list(router.cluster.topics) == ["a"]
        router.all_topics = True
        router.want("c")
        await router.refresh()
        assert list(router.cluster.errors) == ["c"], "what is wanted and not there is unknown"
        assert sorted(router.cluster.topics) == ["a", "b"]
        await router.close()


async def test_who_wants_to_know_is_not_delayed_as_after_a_failure() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster, retry_backoff_ms=3_600_000, retry_backoff_max_ms=3_600_000)
        await router.start()
        async with asyncio.timeout(30):
            for _ in range(3):
                asked = cluster.count(ApiKey.METADATA)
                await router.refresh_now()
                assert cluster.count(ApiKey.METADATA) == asked + 1
        await router.close()


async def test_brokers_that_failed_come_last() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        await router.connections.channel(1, CONTROL)
        assert router.favoured() == [1, 2]
        await cluster.brokers[1].stop()
        await eventually(lambda: router.favoured() == [2, 1])
        await router.close()
