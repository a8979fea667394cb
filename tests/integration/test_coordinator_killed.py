"""The coordinator of a transaction is killed at each of its steps: it is decided once, the
same way everywhere, and the producer is told the truth.

The steps: begun; a partition added; all added; the end asked for; the end decided; the first marker
written; all markers written. The last ones are caught by looking at readers' ends, so a kill may
come a little later than its name says; the simulator kills at the very point.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.copied import read_all, settled
from integration.group_peer import Peer
from integration.processes import Processes
from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION, FindCoordinatorRequest

pytestmark = pytest.mark.integration

TOPIC = "decided"
PARTITIONS = 3

SOURCE = TopicPartition(TOPIC, 0)
EVERY = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]

STEPS = [
    "begun",
    "a partition added",
    "all added",
    "end asked for",
    "end decided",
    "first marker",
    "last marker",
]


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh topic."""
    await processes.create_topic(TOPIC, PARTITIONS)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


async def coordinator_of(cluster: Processes, transactional_id: str) -> int:
    """Return the broker that coordinates the id."""
    async with Peer(cluster.cluster.broker(cluster.broker_ids[0]).port) as peer:
        async with asyncio.timeout(30):
            while True:
                request = FindCoordinatorRequest(transactional_id, COORDINATOR_TRANSACTION)
                found = await peer.ask(request)
                if not found.error_code:
                    return int(found.broker_id)
                await asyncio.sleep(0.05)


class Killing:
    """In the middle of one transaction its coordinator dies."""

    def __init__(
        self, cluster: Processes, producer: Producer, group: str, step: str, victim: int
    ) -> None:
        self.cluster = cluster
        self.group = group
        self.producer = producer
        self.step = step
        self.victim = victim
        others = [b for b in cluster.broker_ids if b != victim]
        self.survivors = ",".join(cluster.cluster.broker(b).address for b in others)

    def at(self, step: str) -> None:
        """Kill, if this is the step."""
        if step == self.step:
            self.cluster.kill(self.victim)

    async def play(self, *, commit: bool) -> None:
        await self.producer.begin_transaction()
        self.at("begun")
        for tp in EVERY:
            await self.producer.send(TOPIC, b"%d/1" % tp.partition, partition=tp.partition)
            self.at("a partition added" if tp.partition == 0 else "")
        async with Consumer(bootstrap_servers=self.survivors, group_id=self.group) as consumer:
            await self.producer.send_offsets({SOURCE: 7}, consumer.group_metadata())
        self.at("all added")
        end = self.producer.commit_transaction if commit else self.producer.abort_transaction
        if self.step == "end asked for":
            ending = asyncio.create_task(end())
            await asyncio.sleep(0.001)  # the request leaves; the answer may have come, or not
            self.at("end asked for")
            await ending
        else:
            await end()
        self.at("end decided")
        if self.step in ("first marker", "last marker"):
            await self.watch_markers(1 if self.step == "first marker" else PARTITIONS)
            self.at(self.step)

    async def watch_markers(self, count: int) -> None:
        """Wait until so many partitions have no open transaction."""
        async with (
            Consumer(bootstrap_servers=self.survivors) as committed,
            Consumer(bootstrap_servers=self.survivors, isolation_level="read_uncommitted") as every,
            asyncio.timeout(20),
        ):
            while True:
                stable, ends = await committed.end_offsets(EVERY), await every.end_offsets(EVERY)
                if sum(stable[tp] == ends[tp] for tp in EVERY) >= count:
                    return


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("step", STEPS)
async def test_it_is_decided_once_and_everywhere(
    cluster: Processes, step: str, commit: bool
) -> None:
    name = f"{step}-{commit}"
    wanted: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    async with Producer(cluster.bootstrap, transactional_id=name, linger_ms=0) as producer:
        victim = await coordinator_of(cluster, name)
        await Killing(cluster, producer, name, step, victim).play(commit=commit)
        # The next one goes on under the coordinator that took over.
        async with producer.transaction() as txn:
            for tp in EVERY:
                await txn.send(TOPIC, b"%d/2" % tp.partition, partition=tp.partition)
        await cluster.restart(victim)
    for number, values in wanted.items():
        values += [b"%d/1" % number] if commit else []
        values.append(b"%d/2" % number)
    await settled(cluster.bootstrap, EVERY)
    assert await read_all(cluster.bootstrap, TOPIC, PARTITIONS) == wanted
    async with Admin(cluster.bootstrap) as admin:
        offsets = await admin.list_group_offsets(name, [SOURCE], require_stable=True)
        assert (offsets[SOURCE] is not None) == commit
        described = (await admin.describe_transactions([name]))[0]
    assert described.state in ("PrepareCommit", "CompleteCommit")
