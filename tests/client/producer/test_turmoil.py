"""Everything happens at once, from a seed: errors, lost connections, moving leaders, dying brokers.

Whatever happens, of each partition's records those that were written first are in the order of
sending, what was acknowledged is there, and what failed definitely is not.
"""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Producer
from oncelog.errors import (
    CorruptMessageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OncelogError,
    RequestTimedOutError,
    StorageError,
    UnknownTopicOrPartitionError,
    is_definite,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

ERRORS = [
    CorruptMessageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    StorageError,
    UnknownTopicOrPartitionError,
]
ACTIONS = [Action.ERROR, Action.ERROR_AFTER, Action.DROP_BEFORE, Action.DROP_AFTER]
PARTITIONS = 3


async def make_trouble(cluster: FakeCluster, entropy: SeededEntropy, over: asyncio.Event) -> None:
    while not over.is_set():
        # Trouble that nobody has met yet must not pile up: then nothing would ever work again.
        cluster.rules = [rule for rule in cluster.rules if rule.met < rule.times][-3:]
        what = entropy.randint(0, 9)
        if what < 7:
            action = entropy.choice(ACTIONS)
            # A broker that has appended does not say that it has not, and the other way round.
            honest = [e for e in ERRORS if e.definite is (action is Action.ERROR)]
            cluster.rule(
                entropy.choice([ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA]),
                action,
                error=entropy.choice(honest),
                times=entropy.randint(1, 4),
            )
        elif what < 9:
            partition = entropy.randint(0, PARTITIONS - 1)
            cluster.move_leader("t", partition, entropy.choice([-1, 1, 2, 3]))
            await asyncio.sleep(0.005)
            cluster.move_leader("t", partition, entropy.randint(1, 3))
        else:
            broker = cluster.brokers[entropy.randint(1, 3)]
            await broker.stop()
            await asyncio.sleep(0.01)
            await broker.start()
        await asyncio.sleep(0.002 * entropy.random())


@pytest.mark.parametrize("seed", range(6))
async def test_order_and_honesty(seed: int) -> None:
    entropy = SeededEntropy(seed)
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", PARTITIONS)
        cluster.latency_s = 0.002
        over = asyncio.Event()
        producer = Producer(
            cluster.bootstrap,
            linger_ms=entropy.choice([0, 1]),
            batch_size=entropy.choice([100, 1000]),
            entropy=entropy.fork("producer"),
        )
        await producer.start()
        trouble = asyncio.create_task(make_trouble(cluster, entropy.fork("trouble"), over))
        sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        deliveries = []
        for number in range(1500):
            partition = entropy.randint(0, PARTITIONS - 1)
            value = b"%06d" % number
            sent[partition].append(value)
            deliveries.append(
                (partition, value, await producer.enqueue("t", value, partition=partition))
            )
            if number % 10 == 0:
                await asyncio.sleep(0.002)
        over.set()
        await trouble
        cluster.rules.clear()
        outcomes: list[tuple[int, bytes, OncelogError | None]] = []
        for partition, value, delivery in deliveries:
            try:
                await delivery
                outcomes.append((partition, value, None))
            except OncelogError as error:
                outcomes.append((partition, value, error))
        await producer.close()
        logs = [partition.values() for partition in cluster.topics["t"]]
    for partition, log in enumerate(logs):
        first = list(dict.fromkeys(log))
        there = set(first)
        assert first == [value for value in sent[partition] if value in there]
    acknowledged = 0
    for partition, value, failure in outcomes:
        if failure is None:
            acknowledged += 1
            assert value in logs[partition]
        elif is_definite(failure):
            assert value not in logs[partition]
    assert acknowledged > 1000
