"""Requests of old transactions arrive late, or again, and change nothing (KIP-890).

What Jepsen found in Bufstream and in Kafka's own protocol: a delayed Produce or EndTxn ended up in
a later transaction. Here a proxy keeps every request of a transactional producer, and sends it
again over other connections up to three transactions later, in the middle of them and between
them; or lets it arrive only then. Real brokers, real sockets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from integration.copied import read_all, settled
from integration.proxied import ProxiedCluster
from oncelog import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from oncelog.errors import TransactionAbortableError
from oncelog_protocol.messages.base import ApiKey
from support.frame_proxy import Captured

# One loop for the module: the proxies run on it.
pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

PARTITIONS = 3
LATER = 3
"""How many transactions later a request comes again."""
GROUP = "positions"
SOURCE = TopicPartition("source", 0)
KINDS = (ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PID)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxiedCluster]:
    """Three brokers run behind proxies."""
    proxied = ProxiedCluster(tmp_path_factory.mktemp("proxied"))
    await proxied.start()
    await asyncio.to_thread(proxied.cluster.start)
    async with Admin(proxied.bootstrap) as admin:
        (await admin.create_topics([NewTopic(SOURCE.topic, 1, 3)])).raise_for_errors()
    yield proxied
    await asyncio.to_thread(proxied.cluster.stop)
    await proxied.close()


@pytest_asyncio.fixture(loop_scope="module")
async def topic(cluster: ProxiedCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = re.sub(r"\W", "-", str(request.node.name))
    async with Admin(cluster.bootstrap) as admin:
        new = NewTopic(name, PARTITIONS, 3, {"min_insync_replicas": "2"})
        (await admin.create_topics([new])).raise_for_errors()
    cluster.forget()
    yield name
    cluster.forget()


class Story:
    """Transactions follow one after the other; it knows what must be seen of them."""

    def __init__(self, cluster: ProxiedCluster, topic: str, producer: Producer) -> None:
        self.cluster = cluster
        self.topic = topic
        self.producer = producer
        self.number = 0
        self.wanted: dict[int, list[bytes]] = {p: [] for p in range(PARTITIONS)}
        self.offset = 0

    async def begin(self) -> None:
        """Open a transaction and write to all partitions; all is acknowledged."""
        await self.producer.begin_transaction()
        for partition in range(PARTITIONS):
            await self.producer.send(self.topic, self.value(partition), partition=partition)

    def value(self, partition: int) -> bytes:
        """Return what the present transaction writes there."""
        return b"%d/%d" % (partition, self.number)

    async def end(self, *, commit: bool) -> None:
        """End it, with an offset in it."""
        if commit:
            offsets = {SOURCE: OffsetAndMetadata(self.number)}
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap, group_id=GROUP
            ) as consumer:
                await self.producer.send_offsets(offsets, consumer.group_metadata())
            await self.producer.commit_transaction()
            self.committed()
        else:
            await self.producer.abort_transaction()
        self.number += 1

    def committed(self) -> None:
        """The present transaction is visible from now on."""
        self.offset = self.number
        for partition, values in self.wanted.items():
            values.append(self.value(partition))

    async def check(self) -> None:
        """Exactly the committed transactions are visible, and none is left open."""
        every = [TopicPartition(self.topic, p) for p in range(PARTITIONS)]
        where = self.cluster.bootstrap
        await settled(where, every)
        assert await read_all(where, self.topic, PARTITIONS) == self.wanted

    async def check_offset(self) -> None:
        """The group has the offset of the last commit."""
        async with Admin(self.cluster.bootstrap) as admin:
            found = await admin.list_group_offsets(GROUP, [SOURCE], require_stable=True)
        known = found[SOURCE]
        assert known is not None
        assert known.offset == self.offset


async def again(requests: list[Captured]) -> None:
    """Send all of them, each over a connection of its own. Brokers may refuse them as they like."""
    await asyncio.gather(*(request.send_again() for request in requests))


def producer(cluster: ProxiedCluster, name: str, **options: Any) -> Producer:
    return Producer(cluster.bootstrap, transactional_id=name, linger_ms=0, **options)


async def test_whatever_is_sent_again_changes_nothing(cluster: ProxiedCluster, topic: str) -> None:
    """It repeats every request of the last three transactions, in the next one and later."""
    pattern = [True, False, True, True, False, False, True, True]
    async with producer(cluster, topic) as sending:
        story = Story(cluster, topic, sending)
        captured: list[list[Captured]] = []
        for commit in pattern:
            cluster.forget()
            await story.begin()
            await again([c for batch in captured[-LATER:] for c in batch])
            await story.end(commit=commit)
            captured.append(cluster.captured(*KINDS))
            await again([c for batch in captured[-LATER - 1 :] for c in batch])
        await story.check()
        await story.check_offset()
    assert sum(map(len, captured)) >= len(pattern) * (PARTITIONS + 1)


@pytest.mark.parametrize("later", range(1, LATER + 1))
async def test_a_produce_that_arrives_late(cluster: ProxiedCluster, topic: str, later: int) -> None:
    """It never arrived in its time; its transaction was aborted, others followed."""
    async with producer(cluster, topic) as sending:
        story = Story(cluster, topic, sending)
        await story.begin()
        await story.end(commit=True)
        cluster.withhold(ApiKey.PRODUCE, 1)
        await sending.begin_transaction()
        lost = await sending.enqueue(topic, b"late", partition=0)
        async with asyncio.timeout(10):
            while not any(c.withheld for c in cluster.captured(ApiKey.PRODUCE)):
                await asyncio.sleep(0.01)
        await sending.abort_transaction()
        assert lost.done()
        assert lost.exception() is not None
        late = [c for c in cluster.captured(ApiKey.PRODUCE) if c.withheld]
        story.number += 1
        for turn in range(1, later + 1):
            await story.begin()
            if turn == later:
                await again(late)
            await story.end(commit=turn % 2 == 1)
        await again(late)
        await story.check()


@pytest.mark.parametrize("later", range(1, LATER + 1))
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_an_end_that_arrives_late(
    cluster: ProxiedCluster, topic: str, commit: bool, later: int
) -> None:
    """The producer asked again over another connection, and went on; the first one comes then."""
    async with producer(cluster, topic, request_timeout_ms=500) as sending:
        story = Story(cluster, topic, sending)
        await story.begin()
        cluster.withhold(ApiKey.END_TXN, 1)
        await story.end(commit=commit)
        late = [c for c in cluster.captured(ApiKey.END_TXN) if c.withheld]
        assert len(late) == 1
        for turn in range(1, later + 1):
            await story.begin()
            if turn == later:
                await again(late)
            await story.end(commit=turn % 2 == 0)
        await again(late)
        await story.check()


async def test_an_end_that_arrives_after_the_time_out(cluster: ProxiedCluster, topic: str) -> None:
    """The coordinator has aborted the transaction meanwhile: the late commit commits nothing."""
    options = {"request_timeout_ms": 2000, "transaction_timeout_ms": 500}
    async with producer(cluster, topic, **options) as sending:
        story = Story(cluster, topic, sending)
        await story.begin()
        cluster.withhold(ApiKey.END_TXN, 1)
        with pytest.raises(TransactionAbortableError):
            await sending.commit_transaction()
        late = [c for c in cluster.captured(ApiKey.END_TXN) if c.withheld]
        await sending.abort_transaction()
        story.number += 1
        await story.begin()
        await again(late)
        await story.end(commit=True)
        await again(late)
        await story.check()
