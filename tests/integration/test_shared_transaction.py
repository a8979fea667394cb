"""Many processes share one transaction; one commit that names its winners ends it for all.

Eight workers write to six partitions. One is killed in the middle of its work, which another
attempt does again. The owner commits with the receipts that it has: readers see the winners'
records, once and whole, nothing of the dead attempt, and nothing before the commit. The same work
cannot be committed twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.copied import settled
from integration.processes import Processes
from integration.shared_worker import ALREADY, WROTE, WorkerOptions
from integration.test_coordinator_killed import coordinator_of
from oncelog import Consumer, Receipt, SharedTransaction, TopicPartition, join
from oncelog.errors import ProducerFencedError, TransactionAlreadyCommittedError
from oncelog_cli.local.process import ManagedProcess, start_process
from support.waiting import eventually

pytestmark = pytest.mark.integration

TOPIC = "shared"
PARTITIONS = 6
WORKERS = 8
RECORDS = 50
LIBRARIES = Path(__file__).parents[1]
EVERY = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh topic."""
    await processes.create_topic(TOPIC, PARTITIONS)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


class Worker:
    """It is one attempt in a process of its own."""

    def __init__(
        self, txn: SharedTransaction, writer: str, directory: Path, *, linger: bool = False
    ) -> None:
        self.writer = writer
        ticket = txn.ticket.to_json()
        options = WorkerOptions(ticket, TOPIC, PARTITIONS, writer, RECORDS, linger)
        path = os.pathsep.join([str(LIBRARIES), *filter(None, sys.path)])
        self.process: ManagedProcess = start_process(
            [sys.executable, "-m", "integration.shared_worker", options.to_json()],
            log_path=directory / f"{writer}.log",
            environment={**os.environ, "PYTHONPATH": path},
        )

    async def said(self, what: str) -> None:
        """Wait until it has said something."""
        async with asyncio.timeout(40):
            while what not in self.process.log_tail():
                assert self.process.is_alive(), self.process.log_tail()
                await asyncio.sleep(0.02)

    async def last_word(self) -> str:
        """Return what it said last, once it has ended well."""
        assert await asyncio.to_thread(self.process.wait, 40), self.process.log_tail()
        assert self.process.exit_code == 0, self.process.log_tail()
        return self.process.log_tail(1)


class Watcher:
    """It reads committed records all the while, and another reader looks how far they go: ``async
    with Watcher(...)``."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.seen: Counter[tuple[int, bytes]] = Counter()
        self._offsets: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self._ends: set[tuple[int, int]] = set()

    async def __aenter__(self) -> Watcher:
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._look())]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self) -> None:
        async with Consumer(bootstrap_servers=self._bootstrap) as consumer:
            while True:
                ends = await consumer.end_offsets(EVERY)
                self._ends.update((tp.partition, end) for tp, end in ends.items())
                await asyncio.sleep(0.002)

    async def _read(self) -> None:
        async with Consumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(EVERY)
            async for record in consumer:
                self.seen[record.partition, record.value or b""] += 1
                self._offsets[record.partition].append(record.offset)

    async def sees(self, wanted: Counter[tuple[int, bytes]]) -> None:
        """Wait until it has come to the end; then it must have seen exactly this."""
        async with asyncio.timeout(40):
            while sum(self.seen.values()) < sum(wanted.values()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)
        assert self.seen == wanted

    def saw_all_or_none(self) -> bool:
        """Return whether at every look each partition showed all records or none."""
        below = {(p, sum(o < end for o in self._offsets[p])) for p, end in self._ends}
        return below == {(p, n) for p, found in self._offsets.items() for n in (0, len(found))}


def written_by(*writers: str) -> Counter[tuple[int, bytes]]:
    """Return all records of these attempts, once each."""
    return Counter(
        (partition, b"%s/%d" % (writer.encode(), number))
        for writer in writers
        for partition in range(PARTITIONS)
        for number in range(RECORDS)
    )


async def begin(cluster: Processes, name: str, tag: int) -> SharedTransaction:
    return await SharedTransaction.begin(
        bootstrap_servers=cluster.bootstrap, transactional_id=name, tag=tag
    )


async def work(txn: SharedTransaction, directory: Path) -> dict[str, Receipt]:
    """All workers do their shares; worker 3 dies half-way and is done again. Their receipts."""
    doomed = Worker(txn, "worker-3.dead", directory, linger=True)
    workers = [Worker(txn, f"worker-{n}", directory) for n in range(WORKERS) if n != 3]
    await doomed.said(WROTE)
    doomed.process.kill()
    workers.append(Worker(txn, "worker-3.again", directory))
    return {w.writer: Receipt.from_json(await w.last_word()) for w in workers}


async def attempt(txn: SharedTransaction, name: str) -> Receipt:
    """Make one attempt, in this process."""
    async with await join(txn.ticket, writer=name) as writer:
        for partition in range(PARTITIONS):
            values = [b"%s/%d" % (name.encode(), number) for number in range(RECORDS)]
            await writer.send_many(TOPIC, values, partition=partition)
    return writer.receipt


async def test_eight_workers_and_one_commit(cluster: Processes, tmp_path: Path) -> None:
    async with Watcher(cluster.bootstrap) as watcher:
        txn = await begin(cluster, "eight", 1)
        receipts = await work(txn, tmp_path)
        assert len(receipts) == WORKERS
        assert not watcher.seen
        end = await txn.commit(winners=receipts.values())
        assert (end.committed, end.already) == (True, False)
        await watcher.sees(written_by(*receipts))
        await settled(cluster.bootstrap, EVERY)
        await eventually(watcher.saw_all_or_none)
        # Done again, by whoever: it is committed already.
        assert (await txn.commit(winners=receipts.values())).already
        again = await begin(cluster, "eight", 1)
        with pytest.raises(TransactionAlreadyCommittedError):
            await join(again.ticket, writer="worker-0.again")
        assert ALREADY in await Worker(again, "worker-1.again", tmp_path).last_word()
        await watcher.sees(written_by(*receipts))


async def test_losers_are_not_seen(cluster: Processes) -> None:
    """Two attempts at everything, both whole: the owner takes one of each."""
    txn = await begin(cluster, "losers", 1)
    receipts = [await attempt(txn, f"part-{n}.{a}") for n in range(3) for a in range(2)]
    winners = [receipts[0], receipts[3], receipts[4]]
    async with Watcher(cluster.bootstrap) as watcher:
        await txn.commit(winners=winners)
        await watcher.sees(written_by(*(receipt.writer for receipt in winners)))
        await settled(cluster.bootstrap, EVERY)
        assert watcher.seen == written_by(*(receipt.writer for receipt in winners))


async def test_a_new_owner_fences_the_old_one(cluster: Processes) -> None:
    """The owner dies with its work done; another begins anew, and the late commit is refused."""
    old = await begin(cluster, "owners", 1)
    receipt = await attempt(old, "old")
    new = await begin(cluster, "owners", 1)
    second = await attempt(new, "new")
    with pytest.raises(ProducerFencedError):
        await old.commit(winners=[receipt])
    async with Watcher(cluster.bootstrap) as watcher:
        await new.commit(winners=[second])
        await watcher.sees(written_by("new"))
        await settled(cluster.bootstrap, EVERY)
        assert watcher.seen == written_by("new")


@pytest.mark.parametrize("moment", ["before", "while", "after"])
async def test_the_coordinator_is_killed_around_the_commit(cluster: Processes, moment: str) -> None:
    name = f"killed-{moment}"
    txn = await begin(cluster, name, 1)
    winners = [await attempt(txn, f"winner-{number}") for number in range(3)]
    await attempt(txn, "loser")
    victim = await coordinator_of(cluster, name)
    if moment == "before":
        cluster.kill(victim)
    committing = asyncio.create_task(txn.commit(winners=winners))
    if moment == "while":
        await asyncio.sleep(0.002)  # it may be decided by then, or not
        cluster.kill(victim)
    assert (await committing).committed
    if moment == "after":
        cluster.kill(victim)
    await cluster.restart(victim)
    wanted = written_by(*(receipt.writer for receipt in winners))
    async with Watcher(cluster.bootstrap) as watcher:
        await watcher.sees(wanted)
        await settled(cluster.bootstrap, EVERY)
        assert watcher.seen == wanted
