"""Clients meet faults in front of a broker's handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog import Consumer, Producer, TopicPartition, blocking
from oncelog.errors import DeliveryTimeoutError, MessageTooLargeError, UnknownTopicOrPartitionError
from oncelog_protocol.messages.base import ApiKey
from oncelog_testing import Cluster
from oncelog_testing.faults import Fault, FaultAction, FaultPlan, Match


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def test_errors_that_may_be_tried_again_are(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with (
        oncelog_cluster.fail_next("produce", "NOT_LEADER_OR_FOLLOWER", count=2) as fault,
        blocking.Producer(oncelog_cluster.bootstrap) as producer,
    ):
        producer.send(oncelog_topic, b"x")
        assert (fault.hits, fault.active) == (2, False)
    assert values(oncelog_cluster, oncelog_topic) == [b"x"]


def test_errors_that_are_final_arrive(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with (
        oncelog_cluster.fail_next("produce", MessageTooLargeError, topic=oncelog_topic),
        blocking.Producer(oncelog_cluster.bootstrap) as producer,
        pytest.raises(MessageTooLargeError),
    ):
        producer.send(oncelog_topic, b"x")
    assert values(oncelog_cluster, oncelog_topic) == [], "nothing was carried out"


@pytest.mark.parametrize(("idempotent", "copies"), [(True, 1), (False, 2)])
def test_a_lost_reply_hides_what_happened(
    oncelog_cluster: Cluster, oncelog_topic: str, idempotent: bool, copies: int
) -> None:
    """The fault is real: a producer without sequence numbers writes twice."""
    bootstrap = oncelog_cluster.bootstrap
    with (
        oncelog_cluster.drop_reply("produce") as fault,
        blocking.Producer(bootstrap, enable_idempotence=idempotent) as producer,
    ):
        producer.send(oncelog_topic, b"x")
        assert fault.hits == 1
    assert values(oncelog_cluster, oncelog_topic) == [b"x"] * copies


def test_a_lost_request_did_not_happen(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with (
        oncelog_cluster.drop_request("produce", count=2) as fault,
        blocking.Producer(oncelog_cluster.bootstrap, enable_idempotence=False) as producer,
    ):
        producer.send(oncelog_topic, b"x")
        assert fault.hits == 2
    assert values(oncelog_cluster, oncelog_topic) == [b"x"]


async def test_a_delay_is_of_the_clusters_time(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    cluster = oncelog_cluster.aio
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        await producer.send(oncelog_topic, b"first")
        with cluster.delay("produce", 3600) as fault:
            sending = asyncio.ensure_future(producer.send(oncelog_topic, b"late"))
            await cluster.wait_for_hits(fault)
            await cluster.wait_for_records(oncelog_topic, 2)  # it was carried out at once
            assert not sending.done()
            await cluster.advance(3601)
            await asyncio.wait_for(sending, 10)


async def test_held_requests_go_on_in_their_order(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    cluster = oncelog_cluster.aio
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        await producer.send(oncelog_topic, b"0")
        with cluster.hold("produce", topic=oncelog_topic) as fault:
            sending = []
            for number in range(1, 5):
                sending.append(asyncio.ensure_future(producer.send(oncelog_topic, b"%d" % number)))
                await cluster.wait_for_hits(fault, number)
            assert len(await cluster.records(oncelog_topic)) == 1
        await asyncio.gather(*sending)
    written = [record.value for record in await cluster.records(oncelog_topic)]
    assert written == [b"0", b"1", b"2", b"3", b"4"]


def test_a_topic_that_is_not_there_yet(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    fault = oncelog_cluster.fail_next("metadata", "UNKNOWN_TOPIC_OR_PARTITION", count=None)
    with (
        pytest.raises(UnknownTopicOrPartitionError),
        blocking.Consumer(
            oncelog_topic, bootstrap_servers=oncelog_cluster.bootstrap, max_block_ms=200
        ),
    ):
        pass
    assert fault.hits
    fault.remove()
    with blocking.Consumer(oncelog_topic, bootstrap_servers=oncelog_cluster.bootstrap):
        pass


async def test_a_fetch_that_fails_is_made_again(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    cluster = oncelog_cluster.aio
    await cluster.produce(oncelog_topic, ["a", "b"])
    faults = [
        cluster.fail_next("fetch", "NOT_LEADER_OR_FOLLOWER", topic=oncelog_topic),
        cluster.drop_reply("fetch", topic=oncelog_topic),
    ]
    async with Consumer(
        oncelog_topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"a", b"b"]
    assert [fault.hits for fault in faults] == [1, 1]


def test_a_commit_that_fails(
    oncelog_cluster: Cluster, oncelog_topic: str, oncelog_name: str
) -> None:
    oncelog_cluster.produce(oncelog_topic, ["a"])
    fault = oncelog_cluster.fail_next("offset_commit", "COORDINATOR_NOT_AVAILABLE", 2, group="g2")
    other = oncelog_cluster.fail_next("offset_commit", "UNKNOWN_MEMBER_ID", group="another")
    with blocking.Consumer(
        oncelog_topic,
        bootstrap_servers=oncelog_cluster.bootstrap,
        group_id="g2",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        assert consumer.getone().value == b"a"
        consumer.commit()
    assert (fault.hits, other.hits) == (2, 0)
    assert [o.committed.offset for o in oncelog_cluster.group("g2").offsets] == [1]


@pytest.mark.parametrize(
    ("which", "hits"),
    [
        ({}, 1),
        ({"topic": "another"}, 0),
        ({"client_id": "me"}, 1),
        ({"client_id": "you"}, 0),
        ({"broker": 1}, 1),
        ({"transactional_id": "t"}, 0),
    ],
    ids=str,
)
def test_which_requests_are_meant(
    oncelog_cluster: Cluster, oncelog_topic: str, which: dict[str, Any], hits: int
) -> None:
    with oncelog_cluster.fail_next("produce", "NOT_LEADER_OR_FOLLOWER", **which) as fault:
        oncelog_cluster.produce(oncelog_topic, ["the cluster's own are not"])
        with blocking.Producer(oncelog_cluster.bootstrap, client_id="me") as producer:
            producer.send(oncelog_topic, b"x")
        assert fault.hits == hits
    assert not oncelog_cluster.faults


@pytest.mark.oncelog(brokers=2)
def test_requests_between_brokers_are_meant_only_if_told(
    oncelog_cluster: Cluster, oncelog_topic: str
) -> None:
    clients = oncelog_cluster.drop_reply("fetch", count=None)
    oncelog_cluster.produce(oncelog_topic, ["a"])
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    assert clients.hits == 0
    all_of_them = oncelog_cluster.drop_reply("fetch", count=3, between_brokers=True)
    clients.remove()
    oncelog_cluster.produce(oncelog_topic, ["b"])
    oncelog_cluster.wait_for_hits(all_of_them, 3)
    oncelog_cluster.wait_until_caught_up(oncelog_topic)


def test_a_delivery_that_never_succeeds(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with (
        oncelog_cluster.fail_next("produce", "NOT_ENOUGH_REPLICAS", count=None),
        blocking.Producer(oncelog_cluster.bootstrap, delivery_timeout_ms=200) as producer,
        pytest.raises(DeliveryTimeoutError, match="not enough replicas|NOT_ENOUGH|in-sync"),
    ):
        producer.send(oncelog_topic, b"x")
    assert values(oncelog_cluster, oncelog_topic) == []


def test_faults_that_cannot_be_meant(oncelog_cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="did you mean 'produce'"):
        oncelog_cluster.fail_next("product", "STORAGE_ERROR")
    with pytest.raises(ValueError, match="is not an error"):
        oncelog_cluster.fail_next("produce", "OOPS")
    fail_next: Any = oncelog_cluster.fail_next
    with pytest.raises(TypeError, match=r"by \['topics'\]; by \['between_brokers', 'broker'"):
        fail_next("produce", "STORAGE_ERROR", topics=["a"])
    with pytest.raises(ValueError, match=r"no broker 9; brokers are \[1\]"):
        oncelog_cluster.drop_reply("produce", broker=9)
    with pytest.raises(ValueError, match="count=0"):
        oncelog_cluster.drop_reply("produce", count=0)
    with pytest.raises(ValueError, match="seconds=-1"):
        oncelog_cluster.delay("produce", -1)
    assert not oncelog_cluster.faults


def at_once(work: Callable[[], None]) -> None:
    work()


def test_a_hold_has_no_count_and_lets_go_once() -> None:
    plan = FaultPlan(at_once)
    with pytest.raises(ValueError, match="overtake"):
        Fault(plan, Match(), FaultAction.HOLD, count=1)
    gone_on: list[int] = []
    fault = Fault(plan, Match(), FaultAction.HOLD)
    for number in range(3):
        fault.hold(lambda n=number: gone_on.append(n))  # type: ignore[misc]
    plan.clear()
    fault.remove()
    assert (gone_on, plan.faults) == ([0, 1, 2], ())


def test_a_fault_says_what_it_is() -> None:
    plan = FaultPlan(at_once)
    match = Match(api=ApiKey.PRODUCE, topic="t")
    assert repr(Fault(plan, match, FaultAction.DELAY, seconds=2)) == (
        "<delay 2 s api=produce, topic=t; 0 hits>"
    )
    assert repr(Fault(plan, Match(), FaultAction.DROP_REPLY, count=3)) == (
        "<drop after any request; 0 of 3 hits>"
    )


def test_partitions_of_other_topics_are_not_hit(
    oncelog_cluster: Cluster, oncelog_topic: str, oncelog_name: str
) -> None:
    """A request about two topics is one request: it is met as a whole."""
    other = oncelog_cluster.create_topic(oncelog_name + "-other")
    with oncelog_cluster.fail_next("list_offsets", "NOT_LEADER_OR_FOLLOWER", topic=other) as fault:
        with blocking.Consumer(bootstrap_servers=oncelog_cluster.bootstrap) as consumer:
            assert consumer.end_offsets([TopicPartition(oncelog_topic, 0)])
            assert fault.hits == 0
            assert consumer.end_offsets([TopicPartition(other, 0)])
        assert fault.hits == 1
