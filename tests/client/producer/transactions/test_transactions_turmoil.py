"""Everything happens to transactions at once, from a seed: lost answers, moving leaders and
coordinators, dying brokers, time-outs.

Whatever happens, of a transaction that was committed everything is visible, once and in order, with
its offset; of one that certainly was not, nothing; of all others everything or nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from oncelog import Producer, TopicPartition
from oncelog.errors import (
    NotLeaderOrFollowerError,
    NoTransactionError,
    OncelogError,
    RequestTimedOutError,
    is_definite,
)
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotEnoughReplicasError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.transactional import GROUP, ID, make

PARTITIONS = 3
TP = TopicPartition("in", 0)
REFUSED: dict[ApiKey, list[type[ApiError]]] = {
    ApiKey.PRODUCE: [NotEnoughReplicasError, CoordinatorNotAvailableError],
    ApiKey.END_TXN: [NotCoordinatorError, ConcurrentTransactionsError],
    ApiKey.TXN_OFFSET_COMMIT: [CoordinatorLoadInProgressError, ConcurrentTransactionsError],
    ApiKey.INIT_PID: [CoordinatorNotAvailableError],
    ApiKey.FIND_COORDINATOR: [CoordinatorNotAvailableError],
}
UNSURE: dict[ApiKey, list[type[ApiError]]] = {
    ApiKey.PRODUCE: [NotLeaderOrFollowerError, RequestTimedOutError],
    ApiKey.END_TXN: [RequestTimedOutError],
    ApiKey.TXN_OFFSET_COMMIT: [RequestTimedOutError],
    ApiKey.INIT_PID: [RequestTimedOutError],
    ApiKey.FIND_COORDINATOR: [CoordinatorNotAvailableError],
}
ACTIONS = [Action.ERROR, Action.ERROR_AFTER, Action.DROP_BEFORE, Action.DROP_AFTER]


async def make_trouble(cluster: FakeCluster, entropy: SeededEntropy, over: asyncio.Event) -> None:
    while not over.is_set():
        cluster.rules = [rule for rule in cluster.rules if rule.met < rule.times][-4:]
        what = entropy.randint(0, 19)
        if what < 12:
            api, action = entropy.choice(list(REFUSED)), entropy.choice(ACTIONS)
            honest = REFUSED if action is Action.ERROR else UNSURE
            times = entropy.randint(1, 4)
            cluster.rule(api, action, error=entropy.choice(honest[api]), times=times)
        elif what < 15:
            cluster.move_leader("t", entropy.randint(0, PARTITIONS - 1), entropy.randint(1, 3))
        elif what < 17:
            cluster.transactions.broker_id = entropy.randint(1, 3)
        elif what < 18:
            if ID in cluster.transactions.ids and cluster.transactions.ids[ID].state == "Ongoing":
                cluster.transactions.time_out(ID)
        else:
            broker = cluster.brokers[entropy.randint(1, 3)]
            await broker.stop()
            await asyncio.sleep(0.01)
            await broker.start()
        await more_requests(cluster, entropy.randint(1, 12), over)


async def more_requests(cluster: FakeCluster, count: int, over: asyncio.Event) -> None:
    """Trouble comes by requests, not by the clock: a slow machine has no more of it."""
    enough = len(cluster.requests) + count
    while len(cluster.requests) < enough and not over.is_set():
        await asyncio.sleep(0.001)


@dataclass
class Attempt:
    """It is one transaction as its producer saw it."""

    number: int
    values: list[tuple[int, bytes]] = field(default_factory=list)
    error: BaseException | None = None
    committed: bool = False


async def attempt(producer: Producer, number: int, entropy: SeededEntropy) -> Attempt:
    """Write some records and an offset in one transaction; some are aborted on purpose."""
    made = Attempt(number)
    try:
        async with producer.transaction() as block:
            for index in range(entropy.randint(1, 12)):
                partition = entropy.randint(0, PARTITIONS - 1)
                value = b"%05d-%02d" % (number, index)
                made.values.append((partition, value))
                await block.enqueue("t", value, partition=partition)
                if entropy.random() < 0.1:
                    await asyncio.sleep(0.003)
            await block.send_offsets({TP: number}, GROUP)
            if entropy.random() < 0.15:
                await block.abort()
                raise KeyError
    except KeyError as error:
        made.error = NoTransactionError("aborted on purpose")
        made.error.__cause__ = error
    except OncelogError as error:
        made.error = error
    else:
        made.committed = True
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
async def test_all_or_nothing_and_honesty(seed: int) -> None:
    entropy = SeededEntropy(seed)
    attempts: list[Attempt] = []
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", PARTITIONS)
        over = asyncio.Event()
        async with make(
            cluster,
            linger_ms=entropy.choice([0, 1]),
            batch_size=entropy.choice([60, 1000]),
            delivery_timeout_ms=entropy.choice([60, 5_000]),
            retry_backoff_max_ms=20,
            entropy=entropy.fork("producer"),
        ) as producer:
            trouble = asyncio.create_task(make_trouble(cluster, entropy.fork("trouble"), over))
            for number in range(120):
                made = await attempt(producer, number, entropy)
                attempts.append(made)
            over.set()
            await trouble
            cluster.rules.clear()
            last = await attempt(producer, 10**4, SeededEntropy(7))
            while not last.committed:
                last = await attempt(producer, 10**4, SeededEntropy(7))
        visible = [partition.committed_values() for partition in cluster.topics["t"]]
        offset = cluster.transactions.committed["g", TP].offset
    shown: list[Attempt] = []
    for made in attempts:
        there = [value in visible[partition] for partition, value in made.values]
        assert all(there) or not any(there), f"{made} is torn"
        if made.committed:
            assert all(there), f"{made} is lost"
        elif is_definite(made.error or KeyError()):
            assert not any(there), f"{made} is not aborted"
        if any(there):
            shown.append(made)
    shown.append(last)
    for number, values in enumerate(visible):
        assert values == [value for made in shown for at, value in made.values if at == number]
    assert offset == last.number
    assert sum(made.committed for made in attempts) > 20
    assert sum(not made.committed for made in attempts) > 5
