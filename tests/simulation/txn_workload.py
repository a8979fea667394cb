"""Transactions run while the world breaks: transfers, mixed sends, copiers, hijackers, shared ones.

*Tellers* have a transactional id each. They book amounts from partitions of ``BANK`` to others (the
sum stays nothing), send to all topics at once, abort, do nothing, dawdle in the middle for longer
than a transaction may take, and crash. *Copiers* are members of a group that copy every record of
the workload's topic to ``COPIES``, in the transaction that commits its offset. *Owners* of shared
transactions have several writers each, of which some fail and are tried again.

Rules: what transactions are and how they end goes to the history through the client library's own
port. A hijacker takes a teller's transactional id over (``hijack``); that the teller then fails for
good is right, and it begins anew. When all is healed (``calm``) nobody crashes, dawdles or is
hijacked, and copiers go on until everything is copied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from oncelog import Admin, Consumer, NewTopic, Producer
from oncelog.consumer.offset_metadata import GroupMetadata
from oncelog.errors import Kind, OncelogError, TransactionOutcomeUnknownError
from oncelog.history_events import HistoryEvent, HistoryRecorder
from oncelog_protocol.errors import TopicAlreadyExistsError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.checkers.copies_match_inputs import copy_of
from simulation.checkers.money_is_conserved import booking_of
from simulation.cluster import SimCluster
from simulation.history import keyed_value_of, value_of
from simulation.late_requests import LateRequests
from simulation.loop import Process, ProcessKilledError, until
from simulation.older_clients import OLDER, Adding, OlderProducer

logger = logging.getLogger("simulation")

BANK = "b"
COPIES = "o"
COPY_GROUP = "copy"
LEDGER = "ledger"
"""A group without members: tellers commit offsets for it, in transactions of nothing else."""

CRASH_EVERY_S = 12.0
COPIED_AT_ONCE = 100
EXPECTED = (OncelogError, OSError, TimeoutError)


class ChangedMindError(Exception):
    """The application aborts."""


class TxnWorkload:
    """It has all transactional clients of a run.

    :param source: the topic that is copied, with its number of partitions.
    :param others: partitions that take part in transactions besides those of the bank.
    """

    def __init__(
        self,
        cluster: SimCluster,
        entropy: SeededEntropy,
        sink: Callable[[HistoryEvent], None],
        *,
        source: str,
        others: list[TopicPartition],
        keyed: str = "",
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.source = source
        self.others = others
        self.keyed = keyed
        """The topic whose records have keys."""
        self.calm = self.over = False
        self.failures: list[BaseException] = []
        self.clients: list[TxnClient] = []
        self.tellers: list[Teller] = []
        self.counts: dict[str, int] = {}
        """What became of transactions, as their clients were told."""
        self.fresh: list[TopicPartition] = []
        """Partitions of topics that were made in the course of the run, the newest last."""
        self.late: LateRequests | None = None
        """Made by the first fault that needs it."""
        self.entropy = entropy
        self.audits = 0
        self._tasks: list[asyncio.Task[None]] = []
        knobs = cluster.knobs
        for number in range(1, knobs.tellers + 1):
            is_older = knobs.older and number == knobs.tellers
            name = f"{OLDER}-{number}" if is_older else f"client-teller-{number}"
            kind = OlderTeller if is_older else Teller
            self.tellers.append(kind(self, name, f"teller-{number}", entropy.fork(name)))
        self.clients += self.tellers
        for number in range(1, knobs.copiers + 1):
            name = f"client-copier-{number}"
            self.clients.append(Copier(self, name, f"copier-{number}", entropy.fork(name)))

    @property
    def topics(self) -> dict[str, int]:
        """Return topics of its own, with their numbers of partitions."""
        knobs = self.cluster.knobs
        counts = {BANK: knobs.accounts if self.tellers else 0}
        counts[COPIES] = knobs.copy_partitions if knobs.copiers else 0
        return {topic: count for topic, count in counts.items() if count}

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return those of its own topics."""
        made = [TopicPartition(topic, p) for topic, n in self.topics.items() for p in range(n)]
        return made + self.fresh

    async def create_topics(self) -> None:
        """Create its own."""
        if not self.topics:
            return
        process = self.cluster.client_process("admin")
        replicas = self.cluster.knobs.replication_factor

        async def create() -> None:
            entropy = self.entropy.fork("admin")
            async with Admin(
                self.cluster.bootstrap, security=self.cluster.security, entropy=entropy
            ) as admin:
                await admin.create_topics(
                    [
                        NewTopic(topic, partitions=count, replication_factor=replicas)
                        for topic, count in self.topics.items()
                    ]
                )

        await process.call(create(), "create topics")
        process.kill()

    async def create_fresh(self, topic: str) -> None:
        """Create one more topic, of one partition, that tellers write to from now on.

        :raises TimeoutError, OSError, OncelogError: it could not be made, or nobody knows.
        """
        process = self.cluster.client_process(f"client-admin-{topic}")
        new = NewTopic(
            topic, partitions=1, replication_factor=self.cluster.knobs.replication_factor
        )

        async def create() -> None:
            entropy = self.entropy.fork(f"admin-{topic}")
            async with Admin(
                self.cluster.bootstrap, security=self.cluster.security, entropy=entropy
            ) as admin:
                (made,) = await admin.create_topics([new])
                if made.error and not isinstance(made.error, TopicAlreadyExistsError):
                    raise made.error

        try:
            async with asyncio.timeout(5.0):
                await process.call(create(), f"create {topic}")
        finally:
            process.kill()
        self.fresh.append(TopicPartition(topic, 0))

    def start(self) -> None:
        """Let the clients work until ``stop``."""
        for client in self.clients:
            self.add(client)

    def add(self, client: TxnClient) -> asyncio.Task[None]:
        """Add one more client."""
        task = self.cluster.loop.create_task(client.live(), name=client.name)
        self._tasks.append(task)
        return task

    async def catch_up(self, ends: Mapping[TopicPartition, int], *, timeout_s: float) -> None:
        """Let copiers commit up to these offsets, and ask what is committed of the ledger.

        :raises TimeoutError: they do not.
        """
        self.calm = True
        wanted = {name: end for name, end in ends.items() if name.topic == self.source and end}
        process = self.cluster.client_process("client-auditor")
        told: dict[TopicPartition, int] = {}

        async def audit() -> None:
            if self.tellers:
                async with self._auditor(LEDGER) as consumer:
                    await consumer.committed([TopicPartition(self.source, 0)])
            while self.cluster.knobs.copiers:
                async with self._auditor(COPY_GROUP) as consumer:
                    found = await consumer.committed(list(wanted))
                told.update({tp: item.offset for tp, item in found.items() if item})
                if all(told.get(tp, 0) >= end for tp, end in wanted.items()):
                    return
                await asyncio.sleep(0.3)

        try:
            async with asyncio.timeout(timeout_s):
                await process.call(audit(), "audit")
        except EXPECTED as error:
            behind = {str(tp): (told.get(tp, 0), end) for tp, end in wanted.items()}
            raise TimeoutError(
                f"within {timeout_s:g} s copiers did not get to the end: {behind}, {error!r}"
            ) from error
        finally:
            process.kill()

    def _auditor(self, group: str) -> Consumer:
        """Start somebody from outside, who asks what a group has committed."""
        self.audits += 1
        return Consumer(
            bootstrap_servers=self.cluster.bootstrap,
            security=self.cluster.security,
            group_id=group,
            entropy=self.entropy.fork(f"auditor-{self.audits}"),
            history=HistoryRecorder(
                "auditor",
                self.sink,
                lambda: self.cluster.loop.now_s,
                client=f"{group}-{self.audits}",
            ),
        )

    async def quieten(self, *, timeout_s: float) -> None:
        """Let every teller and owner end. :raises TimeoutError: one does not."""
        self.calm = True
        lives = [client for client in self.clients if not isinstance(client, Copier)]
        for client in lives:
            client.leaves = True
        await until(
            lambda: all(client.ended for client in lives),
            timeout_s=timeout_s,
            what="tellers and owners ended",
            every_s=0.05,
        )

    async def stop(self, *, timeout_s: float) -> None:
        """Let every client end. :raises TimeoutError: one does not."""
        self.calm = self.over = True
        if not self._tasks:
            return
        _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
        if pending:
            names = ", ".join(sorted(task.get_name() for task in pending))
            raise TimeoutError(f"{names} did not end within {timeout_s:g} s")
        for task in self._tasks:
            task.result()

    def count(self, what: str) -> None:
        """Something has happened."""
        self.counts[what] = self.counts.get(what, 0) + 1


class TxnClient:
    """It is one transactional client, again and again after each crash."""

    kind: ClassVar[type[Producer]] = Producer

    def __init__(
        self, workload: TxnWorkload, name: str, transactional_id: str, entropy: SeededEntropy
    ) -> None:
        self.workload = workload
        self.name = name
        self.transactional_id = transactional_id
        self.lives = 0
        self.leaves = False
        """It shall end, and not come back."""
        self.ended = False
        self.dawdles = False
        """It leaves transactions open for long."""
        self.process: Process | None = None
        self._present: Producer | None = None
        """It is the producer of its present life."""
        self._entropy = entropy
        self._sent = 0

    @property
    def over(self) -> bool:
        """Return whether it shall not begin anything more."""
        return self.workload.over or self.leaves

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        if self.process is not None and self.process.alive:
            self.workload.cluster.loop.trace(f"crash {self.name}")
            self.process.kill()

    async def live(self) -> None:
        """Run, crash, run, until the workload is over."""
        workload = self.workload
        loop = workload.cluster.loop
        while not self.over:
            self.lives += 1
            process = self.process = workload.cluster.client_process(self.name)
            crash_s = CRASH_EVERY_S * (0.2 + 1.6 * self._entropy.random())
            life = loop.create_task(process.call(self._work(), self.name))
            done, _ = await asyncio.wait([life], timeout=crash_s)
            if not (done or workload.calm or self.leaves):
                self.kill()
            try:
                await life
            except ProcessKilledError:
                pass
            except Exception as error:
                workload.failures.append(error)
                logger.error("%s raised %r", self.name, error, exc_info=error)
            process.kill()
            if not self.over:
                await asyncio.sleep(0.3 * self._entropy.random())
        self.ended = True

    async def _work(self) -> None:
        entropy = self._entropy.fork(f"life-{self.lives}")
        part = 0
        while not self.over:
            part += 1
            try:
                await self._part(entropy.fork(f"part-{part}"), part)
            except EXPECTED as error:
                self.workload.count(type(error).__name__)
                await asyncio.sleep(0.2)

    async def _part(self, entropy: SeededEntropy, part: int) -> None:
        raise NotImplementedError

    def recorder(self, kind: str, part: int) -> HistoryRecorder:
        """Return what takes down what a client of its present life tells the history."""
        loop = self.workload.cluster.loop
        return HistoryRecorder(
            f"{self.name}.{self.lives}",
            self.workload.sink,
            lambda: loop.now_s,
            client=f"{kind}-{part}",
        )

    def producer(self, entropy: SeededEntropy, part: int) -> Producer:
        """Make a producer with the client's transactional id."""
        cluster = self.workload.cluster
        knobs = cluster.knobs
        producer = self._present = self.kind(
            cluster.bootstrap,
            security=cluster.security,
            client_id=self.name,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=knobs.transaction_timeout_ms,
            entropy=entropy.fork("producer"),
            clock=cluster.client_clock,
            history=self.recorder("producer", part),
            linger_ms=knobs.linger_ms,
            batch_size=knobs.batch_size,
            retry_backoff_ms=knobs.retry_backoff_ms,
            request_timeout_ms=knobs.request_timeout_ms,
            delivery_timeout_ms=knobs.delivery_timeout_ms,
            max_in_flight_requests_per_connection=knobs.max_in_flight,
            max_block_ms=10_000,
            connect_timeout_ms=1000,
        )
        producer._safeguards = knobs.producer_safeguards()
        return producer

    def value(self, place: TopicPartition) -> bytes:
        """Return the next value for a partition."""
        self._sent += 1
        return value_of(place.topic, place.partition, self.name, self._sent)

    def record(self, place: TopicPartition, entropy: SeededEntropy) -> dict[str, Any]:
        """Return the next record for a partition, as arguments of ``send``."""
        where = {"topic": place.topic, "partition": place.partition}
        if place.topic != self.workload.keyed:
            return {**where, "value": self.value(place)}
        key = f"key-{entropy.randint(1, self.workload.cluster.knobs.keys)}".encode()
        self._sent += 1
        value = keyed_value_of(place.topic, place.partition, self.name, self._sent, key)
        return {**where, "value": value + b"/", "key": key}


class Teller(TxnClient):
    """Books, sends to everything at once, changes its mind."""

    async def _part(self, entropy: SeededEntropy, part: int) -> None:
        producer = self.producer(entropy, part)
        async with producer:
            while not self.over:
                await self._go_on(producer, entropy)
                await asyncio.sleep(entropy.random() * 0.2)
                if not self.workload.calm and entropy.random() < 1 / 60:
                    return

    async def _go_on(self, producer: Producer, entropy: SeededEntropy) -> None:
        """Run one transaction; what is not fatal is no reason for another producer."""
        try:
            await self._transact(producer, entropy)
        except EXPECTED as error:
            if getattr(error, "kind", Kind.FATAL) is Kind.FATAL or entropy.random() < 0.1:
                raise
            self.workload.count(type(error).__name__)

    async def _transact(self, producer: Producer, entropy: SeededEntropy) -> None:
        workload = self.workload
        aborts = entropy.random() < workload.cluster.knobs.txn_abort
        try:
            if entropy.random() < 0.5:
                async with producer.transaction() as txn:
                    await self._fill(txn, entropy)
                    if aborts:
                        raise ChangedMindError
            else:
                await producer.begin_transaction()
                try:
                    await self._fill(producer, entropy)
                except EXPECTED:
                    await producer.abort_transaction()
                    raise
                if aborts:
                    await producer.abort_transaction()
                    workload.count("aborted")
                    return
                await self._commit(producer, entropy)
            workload.count("committed")
        except ChangedMindError:
            workload.count("aborted")

    @staticmethod
    async def _commit(producer: Producer, entropy: SeededEntropy) -> None:
        """Commit as an application that reads the manual."""
        while True:
            try:
                return await producer.commit_transaction()
            except TransactionOutcomeUnknownError:
                if entropy.random() < 0.5:
                    raise  # the next transaction begins with settling it
            except EXPECTED as error:
                if getattr(error, "kind", None) is Kind.ABORTABLE:
                    await producer.abort_transaction()
                raise

    async def _fill(self, txn: Any, entropy: SeededEntropy) -> None:
        """Send the records of one transaction."""
        workload = self.workload
        draw = entropy.random()
        if draw < 0.45:
            await self._transfer(txn, entropy)
        elif draw < 0.9:
            everything = workload.partitions[: workload.cluster.knobs.accounts] + workload.others
            for _ in range(entropy.randint(1, 8)):
                place = entropy.choice(everything)
                if workload.fresh and entropy.random() < 0.4:
                    place = workload.fresh[-1]
                if place.topic != BANK:
                    await txn.send(**self.record(place, entropy))
                await self._dawdle(entropy)
        elif draw < 0.95:  # offsets alone
            self._sent += 1
            place = TopicPartition(workload.source, 0)
            await txn.send_offsets({place: self._sent}, GroupMetadata(LEDGER))

    async def _transfer(self, txn: Any, entropy: SeededEntropy) -> None:
        accounts = self.workload.cluster.knobs.accounts
        targets = entropy.randint(1, 3)
        amounts = [entropy.randint(1, 100) for _ in range(targets)]
        for amount in (-sum(amounts), *amounts):
            place = TopicPartition(BANK, entropy.randint(0, accounts - 1))
            value = booking_of(self.value(place), amount)
            await txn.send(place.topic, value=value, partition=place.partition)
            await self._dawdle(entropy)

    async def _dawdle(self, entropy: SeededEntropy) -> None:
        if self.workload.calm or self.leaves:
            return
        draw = entropy.random()
        if draw < (0.3 if self.dawdles else 0.01):  # longer than a transaction may take
            timeout_s = self.workload.cluster.knobs.transaction_timeout_ms / 1000
            await asyncio.sleep(timeout_s * (0.8 + entropy.random()))
        elif draw < 0.3:
            await asyncio.sleep(entropy.random() * 0.1)


class OlderTeller(Teller):
    """Its transactions end by number."""

    kind = OlderProducer

    async def _fill(self, txn: Any, entropy: SeededEntropy) -> None:
        """Add each partition before something is sent to it."""
        within_s = self.workload.cluster.knobs.delivery_timeout_ms / 1000
        producer = self._present
        assert isinstance(producer, OlderProducer)
        await super()._fill(Adding(txn, producer, within_s), entropy)


class Hijacker(Teller):
    """Somebody else has a teller's transactional id: a few transactions, and gone."""

    async def _part(self, entropy: SeededEntropy, part: int) -> None:
        async with self.producer(entropy, part) as producer:
            for _ in range(entropy.randint(1, 3)):
                if not self.over:
                    await self._transact(producer, entropy)
        self.leaves = True

    async def _work(self) -> None:
        await super()._work()
        self.leaves = True


class Copier(TxnClient):
    """It is a member of a group that copies what it reads, exactly once."""

    bounces = False
    """It leaves its group after every transaction, and joins anew."""

    most = COPIED_AT_ONCE
    """Records in a transaction: fewer after one that took too long."""

    async def _part(self, entropy: SeededEntropy, part: int) -> None:
        consumer = self._consumer(entropy, part)
        async with self.producer(entropy, part) as producer, consumer:
            while not self.over:
                found = await consumer.getmany(
                    timeout_ms=200,
                    max_records=min(self.most, entropy.choice([1, 10, COPIED_AT_ONCE])),
                )
                if found:
                    most, self.most = self.most, max(1, self.most // 2)
                    await self._copy(producer, consumer, found, entropy)
                    self.most = min(COPIED_AT_ONCE, most + 5)
                if self.bounces:
                    return
                pause_s = 0.02 if self.workload.calm else 0.3
                await asyncio.sleep(entropy.random() * pause_s)
                if not self.workload.calm and entropy.random() < 1 / 80:
                    return

    def _consumer(self, entropy: SeededEntropy, part: int) -> Consumer:
        cluster = self.workload.cluster
        knobs = cluster.knobs
        return Consumer(
            self.workload.source,
            bootstrap_servers=cluster.bootstrap,
            security=cluster.security,
            client_id=self.name,
            group_id=COPY_GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=knobs.session_timeout_ms,
            heartbeat_interval_ms=knobs.heartbeat_interval_ms,
            max_poll_interval_ms=knobs.max_poll_interval_ms,
            fetch_max_wait_ms=200,
            request_timeout_ms=knobs.request_timeout_ms,
            connect_timeout_ms=1000,
            max_block_ms=5000,
            clock=cluster.client_clock,
            entropy=entropy.fork("consumer"),
            history=self.recorder("consumer", part),
        )

    async def _copy(
        self,
        producer: Producer,
        consumer: Consumer,
        found: Mapping[TopicPartition, Any],
        entropy: SeededEntropy,
    ) -> None:
        workload = self.workload
        partitions = workload.cluster.knobs.copy_partitions
        aborts = not workload.calm and entropy.random() < workload.cluster.knobs.txn_abort / 3
        try:
            async with producer.transaction(consumer) as txn:
                for source, records in found.items():
                    place = TopicPartition(COPIES, source.partition % partitions)
                    for record in records:
                        value = copy_of(self.value(place), COPY_GROUP, source, record.offset)
                        await txn.enqueue(place.topic, value=value, partition=place.partition)
                if aborts:
                    raise ChangedMindError
            workload.count("copied")
        except ChangedMindError:
            workload.count("aborted")
