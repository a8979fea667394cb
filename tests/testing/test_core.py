"""A cluster for tests has topics, brokers, leaders, groups and time, and waits for all of them."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Consumer, Producer, blocking
from oncelog.errors import (
    InvalidConfigError,
    InvalidProducerEpochError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from oncelog_testing import Cluster, NotRunningError
from oncelog_testing.core import STEP_S_MAX

DAY_S = 86_400


def test_topics_and_records(oncelog_cluster: Cluster, oncelog_name: str) -> None:
    topic = oncelog_cluster.create_topic(
        oncelog_name, partitions=2, configs={"retention_ms": 3_600_000}
    )
    oncelog_cluster.produce(topic, ["a", b"b", ("key", "c"), ("key", None), None], partition=1)
    records = oncelog_cluster.records(topic)
    assert [(r.partition, r.offset, r.key, r.value) for r in records] == [
        (1, 0, None, b"a"),
        (1, 1, None, b"b"),
        (1, 2, b"key", b"c"),
        (1, 3, b"key", None),
        (1, 4, None, None),
    ]
    with pytest.raises(TopicAlreadyExistsError):
        oncelog_cluster.create_topic(topic)
    with pytest.raises(InvalidConfigError):
        oncelog_cluster.create_topic(topic + "2", configs={"retention_ms": "long"})
    oncelog_cluster.delete_topic(topic)
    with blocking.Admin(oncelog_cluster.bootstrap) as admin:
        assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        oncelog_cluster.delete_topic(topic)


def test_records_that_do_not_come(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    oncelog_cluster.produce(oncelog_topic, ["a"])
    assert len(oncelog_cluster.wait_for_records(oncelog_topic, 1)) == 1
    with pytest.raises(TimeoutError, match=r"having 2 records; it has 1\. brokers up: \[1\]"):
        oncelog_cluster.wait_for_records(oncelog_topic, 2, timeout_s=0.1)


async def test_records_that_come_later(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    cluster = oncelog_cluster.aio
    waiting = asyncio.ensure_future(cluster.wait_for_records(oncelog_topic, 3))
    for value in ("a", "b", "c"):
        await cluster.produce(oncelog_topic, [value])
    assert [record.value for record in await waiting] == [b"a", b"b", b"c"]


# -- time ----------------------------------------------------------------------------------------


def test_retention_after_a_week(oncelog_cluster: Cluster, oncelog_name: str) -> None:
    """Written before and after: only what is old enough goes."""
    configs = {"retention_ms": 7 * DAY_S * 1000}
    topic = oncelog_cluster.create_topic(oncelog_name, configs=configs)
    oncelog_cluster.produce(topic, ["old"])
    oncelog_cluster.advance(6 * DAY_S)
    assert len(oncelog_cluster.records(topic)) == 1
    oncelog_cluster.advance(2 * DAY_S)
    assert oncelog_cluster.records(topic) == []
    oncelog_cluster.produce(topic, ["new"])  # stamped by the cluster's clock
    oncelog_cluster.advance(60)
    assert [record.value for record in oncelog_cluster.records(topic)] == [b"new"]


def test_a_silent_member_leaves_its_group(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    oncelog_cluster.produce(oncelog_topic, ["a"])
    with blocking.Consumer(
        oncelog_topic,
        bootstrap_servers=oncelog_cluster.bootstrap,
        group_id="silent",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=60_000,
    ) as consumer:
        consumer.getone()
        consumer.commit()  # a group without members and offsets is forgotten
        with oncelog_cluster.hold("heartbeat", group="silent"):
            oncelog_cluster.wait_for_group("silent", members=1)
            oncelog_cluster.advance(50)
            assert len(oncelog_cluster.group("silent").members) == 1
            oncelog_cluster.advance(11)
            assert oncelog_cluster.group("silent").state == "Empty"


async def test_a_transaction_that_takes_too_long(
    oncelog_cluster: Cluster, oncelog_topic: str, oncelog_name: str
) -> None:
    cluster = oncelog_cluster.aio
    async with Producer(
        cluster.bootstrap, transactional_id=oncelog_name, transaction_timeout_ms=60_000
    ) as producer:
        transaction = producer.transaction()
        await transaction.__aenter__()
        await producer.send(oncelog_topic, b"never seen")
        await cluster.advance(61)
        with pytest.raises(InvalidProducerEpochError) as late:
            await producer.send(oncelog_topic, b"too late")
        await transaction.__aexit__(type(late.value), late.value, None)
    assert await cluster.records(oncelog_topic) == []


def test_time_goes_forward(oncelog_cluster: Cluster) -> None:
    before = oncelog_cluster.clock.now_ms()
    with pytest.raises(ValueError, match="time goes forward"):
        oncelog_cluster.advance(-1)
    assert not oncelog_cluster.dirty
    oncelog_cluster.advance(3600)
    assert oncelog_cluster.clock.now_ms() >= before + 3_600_000
    assert oncelog_cluster.dirty


@pytest.mark.oncelog(brokers=3)
@pytest.mark.parametrize(("step_s_max", "suspected"), [(STEP_S_MAX, False), (float("inf"), True)])
def test_nobody_is_suspected_for_a_leap(
    oncelog_cluster: Cluster,
    oncelog_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    step_s_max: float,
    suspected: bool,
) -> None:
    """The bound is needed: without it followers give up their leaders, and connect anew."""
    monkeypatch.setattr("oncelog_testing.loop.STEPS_MAX", 10)
    monkeypatch.setattr("oncelog_testing.core.STEP_S_MAX", step_s_max)
    oncelog_cluster.produce(oncelog_topic, ["a"])
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    before = connections(oncelog_cluster)
    oncelog_cluster.advance(300)
    assert (connections(oncelog_cluster) > before) == suspected
    assert oncelog_cluster.core.state(oncelog_topic).leader_epoch == 0


def connections(cluster: Cluster) -> int:
    """Count those between brokers, since the beginning."""
    listeners = [broker.listeners["internal"] for broker in cluster.core.running()]
    return sum(listener.counters.accepted for listener in listeners)


# -- brokers and leaders ---------------------------------------------------------------------------


@pytest.mark.oncelog(brokers=3)
def test_a_killed_leader_is_replaced(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with blocking.Producer(oncelog_cluster.bootstrap) as producer:
        producer.send(oncelog_topic, b"before")
        leader = oncelog_cluster.leader(oncelog_topic)
        oncelog_cluster.kill(leader)
        producer.send(oncelog_topic, b"after")
    assert oncelog_cluster.leader(oncelog_topic) != leader
    assert leader not in oncelog_cluster.brokers
    assert leader not in oncelog_cluster.isr(oncelog_topic)
    with pytest.raises(NotRunningError, match=f"broker {leader} does not run: start it first"):
        oncelog_cluster.kill(leader)
    oncelog_cluster.start_broker(leader)
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    assert len(oncelog_cluster.isr(oncelog_topic)) == 3
    with pytest.raises(NotRunningError, match=f"broker {leader} runs already"):
        oncelog_cluster.start_broker(leader)
    values = [record.value for record in oncelog_cluster.records(oncelog_topic)]
    assert values == [b"before", b"after"]


@pytest.mark.oncelog(brokers=3)
def test_leaders_move_where_they_are_told(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    leader = oncelog_cluster.leader(oncelog_topic)
    moved = oncelog_cluster.move_leader(oncelog_topic)
    assert moved != leader
    assert oncelog_cluster.leader(oncelog_topic) == moved
    third = next(b for b in oncelog_cluster.brokers if b not in (leader, moved))
    assert oncelog_cluster.move_leader(oncelog_topic, to=third) == third
    assert oncelog_cluster.move_leader(oncelog_topic, to=third) == third
    assert len(oncelog_cluster.isr(oncelog_topic)) == 3
    with pytest.raises(ValueError, match="broker 7 is not in sync"):
        oncelog_cluster.move_leader(oncelog_topic, to=7)
    with pytest.raises(UnknownTopicOrPartitionError):
        oncelog_cluster.move_leader("nowhere")


def test_a_leader_without_a_second_stays(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with pytest.raises(ValueError, match="nobody but its leader"):
        oncelog_cluster.move_leader(oncelog_topic)


@pytest.mark.oncelog(brokers=3)
def test_an_expired_session(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    controller = oncelog_cluster.controller
    oncelog_cluster.expire_session(controller)
    assert oncelog_cluster.controller != controller
    oncelog_cluster.produce(oncelog_topic, ["a"])
    oncelog_cluster.restart(oncelog_cluster.controller)
    oncelog_cluster.wait_until_caught_up(oncelog_topic)
    assert len(oncelog_cluster.records(oncelog_topic)) == 1


def test_what_is_waited_for_is_named(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    fault = oncelog_cluster.hold("heartbeat")
    with pytest.raises(TimeoutError) as late:
        oncelog_cluster.wait_for_hits(fault, timeout_s=0.05)
    assert "faults in force: [<hold api=heartbeat; 0 hits>]" in str(late.value)
    with pytest.raises(TimeoutError, match="leaders of nowhere"):
        oncelog_cluster.wait_for_leader("nowhere", timeout_s=0.05)
    with pytest.raises(TimeoutError, match=r"group g9 in state Stable, 2 members; last seen: "):
        oncelog_cluster.wait_for_group("g9", members=2, timeout_s=0.05)
    oncelog_cluster.kill(1)
    with pytest.raises(TimeoutError, match=rf"replicas of {oncelog_topic}.*down: \[1\]"):
        oncelog_cluster.wait_until_caught_up(oncelog_topic, timeout_s=0.05)
    with pytest.raises(NotRunningError, match="no broker of the cluster runs"):
        _ = oncelog_cluster.bootstrap


async def test_groups(oncelog_cluster: Cluster, oncelog_name: str) -> None:
    cluster = oncelog_cluster.aio
    topic = await cluster.create_topic(oncelog_name, partitions=2)
    await cluster.produce(topic, ["a", "b"], partition=0)

    def consumer() -> Consumer:
        return Consumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id="two",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        )

    async with consumer() as first, consumer() as second:

        async def read(consumer: Consumer) -> None:
            async for _ in consumer:  # partitions are given up inside of a poll
                pass

        reading = [asyncio.ensure_future(read(each)) for each in (first, second)]
        found = await cluster.wait_for_group("two", members=2, partitions=2)
        assert sorted(len(member.partitions) for member in found.members) == [1, 1]
        await cluster.wait_for_group("two", members=2, lag=0)
    await asyncio.gather(*reading)
    assert (await cluster.wait_for_group("two", state="Empty")).members == ()


@pytest.mark.oncelog(brokers=2)
def test_heal_and_reset(oncelog_cluster: Cluster, oncelog_topic: str) -> None:
    with blocking.Consumer(
        oncelog_topic, bootstrap_servers=oncelog_cluster.bootstrap, group_id="gone"
    ) as consumer:
        consumer.getmany(timeout_ms=10)
        consumer.commit()
    oncelog_cluster.hold("produce")
    oncelog_cluster.disk_full(1)
    oncelog_cluster.pause(1)
    oncelog_cluster.without_metadata_store()
    oncelog_cluster.kill(2)
    oncelog_cluster.heal()
    assert not oncelog_cluster.faults
    assert oncelog_cluster.brokers == [1, 2]
    oncelog_cluster.produce(oncelog_topic, ["a"])
    oncelog_cluster.reset()
    with blocking.Admin(oncelog_cluster.bootstrap) as admin:
        assert admin.list_topics() == []
        assert [group.group_id for group in admin.list_groups()] == []
