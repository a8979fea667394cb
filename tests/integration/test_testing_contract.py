"""One suite of what clients see holds on the cluster for tests (``oncelog.testing``) and on real
processes with files, ZooKeeper and sockets of their own: whoever tests with the one runs on the
other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import pytest

from integration.processes import Processes
from oncelog import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from oncelog.config import Address
from oncelog.core.connection import open_channel
from oncelog.errors import (
    ApiError,
    InvalidConfigError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    MessageTooLargeError,
    NoBrokersAvailableError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.registry import REQUESTS
from oncelog_testing import Cluster

pytestmark = pytest.mark.integration
Value = bytes | None


class World(Protocol):
    """Three brokers are here, whatever they are made of."""

    @property
    def bootstrap(self) -> str: ...
    async def leader(self, topic: str, partition: int) -> int: ...
    async def kill(self, broker: int) -> None: ...
    async def start(self, broker: int) -> None: ...
    async def stop_cleanly(self, broker: int) -> None: ...


class OfMemory:
    """It is a cluster for tests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster.aio

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    async def leader(self, topic: str, partition: int) -> int:
        return await self._cluster.leader(topic, partition)

    async def kill(self, broker: int) -> None:
        await self._cluster.kill(broker)

    async def start(self, broker: int) -> None:
        await self._cluster.start_broker(broker)

    async def stop_cleanly(self, broker: int) -> None:
        await self._cluster.stop_broker(broker)


class OfProcesses:
    """It has real processes."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    @property
    def bootstrap(self) -> str:
        return self._processes.bootstrap

    async def leader(self, topic: str, partition: int) -> int:
        return await self._processes.leader(topic, partition)

    async def kill(self, broker: int) -> None:
        self._processes.kill(broker)

    async def start(self, broker: int) -> None:
        await self._processes.restart(broker)

    async def stop_cleanly(self, broker: int) -> None:
        await self._processes.stop_cleanly(broker)


@pytest.fixture(scope="module")
def memory() -> Iterator[OfMemory]:
    with Cluster(brokers=3) as cluster:
        yield OfMemory(cluster)


@pytest.fixture(params=["memory", "processes"])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        found: World = request.getfixturevalue("memory")
        return found
    return OfProcesses(request.getfixturevalue("processes"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name: str = request.node.originalname
    return name.removeprefix("test_").replace("_", "-")


async def create(world: World, topic: str, partitions: int = 1, **configs: str) -> str:
    async with Admin(world.bootstrap) as admin:
        new = NewTopic(topic, partitions, 3, {"min_insync_replicas": "2", **configs})
        (await admin.create_topics([new])).raise_for_errors()
    return topic


def reader(world: World, *topics: str, **options: object) -> Consumer:
    given = {"auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=world.bootstrap, **given)  # type: ignore[arg-type]


async def values(world: World, topic: str, **options: object) -> list[Value]:
    """Return all that a new consumer reads, up to the end as it is now."""
    async with reader(world, topic, **options) as consumer:
        found: list[Value] = []
        ends = await consumer.end_offsets(await consumer.partitions_for(topic))
        async with asyncio.timeout(30):
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += [record.value for record in records]
        return found


async def test_records_come_back_as_they_were(world: World, topic: str) -> None:
    await create(world, topic, 2, retention_ms="-1")  # a record of 1970 would not stay for long
    async with Producer(world.bootstrap, compression_type="zstd") as producer:
        headers = [("a", b"1"), ("a", None)]
        sent = await producer.send(
            topic, b"v", key=b"k", headers=headers, timestamp_ms=1234, partition=1
        )
        assert (sent.partition, sent.offset, sent.timestamp_ms) == (1, 0, 1234)
        await producer.send_many(topic, [b"%d" % n for n in range(500)], partition=0)
    async with reader(world, topic) as consumer:
        found = [await consumer.getone() for _ in range(501)]
        one = TopicPartition(topic, 1)
        assert await consumer.beginning_offsets([one]) == {one: 0}
        assert (await consumer.offsets_for_times({one: 1234}))[one] is not None
        assert (await consumer.offsets_for_times({one: 1235}))[one] is None
    (special,) = [record for record in found if record.partition == 1]
    assert special[2:] == (0, 1234, b"k", b"v", (("a", b"1"), ("a", None)))
    assert [r.value for r in found if r.partition == 0] == [b"%d" % n for n in range(500)]


REFUSED: list[tuple[type[Exception], Callable[[Admin, str], Awaitable[object]]]] = [
    (TopicAlreadyExistsError, lambda admin, name: admin.create_topics([name])),
    (InvalidTopicError, lambda admin, name: admin.create_topics(["a/b"])),
    (InvalidReplicationFactorError, lambda admin, _: admin.create_topics([NewTopic("x", 1, 4)])),
    (InvalidConfigError, lambda admin, name: admin.alter_configs({name: {"flush": "maybe"}})),
    (UnknownTopicOrPartitionError, lambda admin, name: admin.delete_topics(["nowhere"])),
    (UnknownTopicOrPartitionError, lambda admin, name: admin.create_partitions({"nowhere": 2})),
]


async def test_what_is_refused(world: World, topic: str) -> None:
    await create(world, topic, 1, max_message_bytes="2000")
    async with Admin(world.bootstrap) as admin:
        for error, ask in REFUSED:
            with pytest.raises(error):
                (await ask(admin, topic)).raise_for_errors()  # type: ignore[attr-defined]
    async with Producer(world.bootstrap) as producer:
        with pytest.raises(MessageTooLargeError):
            await producer.send(topic, bytes(3000))
    async with reader(world, topic, auto_offset_reset="none") as consumer:
        consumer.seek(TopicPartition(topic, 0), 10)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()
    with pytest.raises(NoBrokersAvailableError):
        await Admin("127.0.0.1:1").start()


async def test_both_speak_the_same(world: World) -> None:
    """They have every API that clients know, in the same versions, on the same cluster shape."""
    host, port = world.bootstrap.split(",")[0].rsplit(":", 1)
    channel = await open_channel(Address(host, int(port)), "contract", 10)
    versions = dict(channel.versions)
    channel.close()
    await channel.wait_closed()
    assert versions == {key: request.versions[1] for key, request in REQUESTS.items()}
    async with Admin(world.bootstrap) as admin:
        cluster = await admin.describe_cluster()
        assert [broker.broker_id for broker in cluster.brokers] == [1, 2, 3]
        assert cluster.controller_id in (1, 2, 3)
        assert all(sorted(b.listeners) == ["external", "internal"] for b in cluster.brokers)
        settings = (await admin.describe_configs(brokers=[1])).raise_for_errors()[0]
        assert {"broker_id", "log_dirs", "flush"} <= set(settings.settings)


async def test_a_group_shares_and_goes_on(world: World, topic: str) -> None:
    await create(world, topic, 2)
    options = {"group_id": topic, "heartbeat_interval_ms": 100, "session_timeout_ms": 6000}
    async with Producer(world.bootstrap) as producer:
        for partition in (0, 1):
            await producer.send_many(topic, [b"a", b"b"], partition=partition)
    found: dict[int, list[Value]] = {0: [], 1: []}

    async def read(consumer: Consumer) -> None:
        async for record in consumer:
            found[record.partition].append(record.value)

    async with reader(world, topic, **options) as first, reader(world, topic, **options) as second:
        tasks = [asyncio.ensure_future(read(each)) for each in (first, second)]
        async with asyncio.timeout(30):
            while not all(len(each.assignment()) == 1 for each in (first, second)):
                await asyncio.sleep(0.02)
            while not all(len(values) >= 2 for values in found.values()):
                await asyncio.sleep(0.02)
    await asyncio.gather(*tasks)
    assert found == {0: [b"a", b"b"], 1: [b"a", b"b"]}
    async with reader(world, group_id=topic) as third:
        third.assign([TopicPartition(topic, 0)])
        await third.commit({TopicPartition(topic, 0): OffsetAndMetadata(2, metadata="here")})
        committed = await third.committed([TopicPartition(topic, 0)])
        (known,) = committed.values()
        assert known is not None
        assert (known.offset, known.metadata) == (2, "here")
        assert known.topic_id  # of the topic that there is
    async with Admin(world.bootstrap) as admin:
        described = (await admin.describe_groups([topic])).raise_for_errors()[0]
        assert (described.state, described.members) == ("Empty", ())
        (await admin.delete_groups([topic])).raise_for_errors()


async def abandon(producer: Producer, topic: str) -> None:
    """Begin a transaction that its program gives up."""
    try:
        async with producer.transaction():
            await producer.send(topic, b"aborted", partition=0)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass


async def test_transactions_hold_together(world: World, topic: str) -> None:
    await create(world, topic, 2)
    async with Producer(world.bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            for partition in (0, 1):
                await producer.send(topic, b"committed", partition=partition)
        await abandon(producer, topic)
        assert await values(world, topic) == [b"committed"] * 2
        everything = await values(world, topic, isolation_level="read_uncommitted")
        assert sorted(everything, key=str) == [b"aborted", b"committed", b"committed"]
        async with Producer(world.bootstrap, transactional_id=topic):
            with pytest.raises((ProducerFencedError, ApiError)):
                async with producer.transaction():
                    await producer.send(topic, b"fenced", partition=0)
    assert await values(world, topic) == [b"committed"] * 2


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_leader_goes_and_nothing_is_lost(world: World, topic: str, how: str) -> None:
    topic = await create(world, f"{topic}-{how}")
    async with Producer(world.bootstrap) as producer:
        await producer.send_many(topic, [b"%d" % n for n in range(100)])
        leader = await world.leader(topic, 0)
        going = asyncio.ensure_future(
            world.kill(leader) if how == "killed" else world.stop_cleanly(leader)
        )
        await producer.send_many(topic, [b"%d" % n for n in range(100, 200)])
        await going
        await producer.send_many(topic, [b"%d" % n for n in range(200, 300)])
    await world.start(leader)
    assert await values(world, topic) == [b"%d" % n for n in range(300)]


async def test_what_is_too_old_goes(world: World, topic: str) -> None:
    await create(world, topic, 1, retention_ms="1000", segment_bytes="2048")
    async with Producer(world.bootstrap) as producer:
        for _ in range(5):
            await producer.send(topic, bytes(1500), timestamp_ms=1000)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=world.bootstrap) as consumer, asyncio.timeout(30):
        while (await consumer.beginning_offsets([tp]))[tp] == 0:
            await asyncio.sleep(0.02)
