"""Shared transactions run while the world breaks: an owner, its writers, and winners.

An owner has work to do, batch after batch; the batch's number is the tag. Each batch has some
tasks. A task is one writer, or several one after the other: a writer may fail or die, and then
another one does the work again. The owner commits with one winner a task, or aborts and begins
again, or dies in the middle, and its next life begins with the same tag.

Rules: what a writer sends says which task of which batch it is, as a copy says what it is a copy of
(``copy_of``), so that work that is visible twice shows. A batch is done when its owner was told so:
by the answer to a commit, or by a join that is refused as already committed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from oncelog.errors import (
    ProducerFencedError,
    TransactionAlreadyCommittedError,
    TransactionOutcomeUnknownError,
)
from oncelog.shared_transactions.transaction import Receipt, SharedTransaction, Ticket
from oncelog.shared_transactions.writer import join
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.checkers.copies_match_inputs import copy_of
from simulation.history import HistoryRecorder
from simulation.loop import Process, ProcessKilledError
from simulation.txn_workload import EXPECTED, TxnClient

logger = logging.getLogger("simulation")

ATTEMPTS = 3
PAUSE_S = 1.0
"""The most between two batches."""


class Owner(TxnClient):
    """It is one owner, again and again after each crash. It lives outside of its process, as
    whoever starts jobs on many machines does."""

    tag = 0
    """The batch that is to be committed next."""

    async def live(self) -> None:
        """Batch after batch, until the workload is over."""
        while not self.over:
            self.lives += 1
            process = self.process = self.workload.cluster.client_process(self.name)
            try:
                await self._batch(process, self._entropy.fork(f"life-{self.lives}"))
            except ProcessKilledError:
                pass
            except TransactionAlreadyCommittedError:
                self.workload.count("shared_already")
                self.tag += 1
            except EXPECTED as error:
                self.workload.count(f"shared_{type(error).__name__}")
            except Exception as error:
                self.workload.failures.append(error)
                logger.error("%s raised %r", self.name, error, exc_info=error)
            process.kill()
            if not self.over:
                await asyncio.sleep(PAUSE_S * self._entropy.random())
        self.ended = True

    async def _batch(self, process: Process, entropy: SeededEntropy) -> None:
        workload, knobs = self.workload, self.workload.cluster.knobs
        begin = SharedTransaction.begin(
            bootstrap_servers=workload.cluster.bootstrap,
            security=workload.cluster.security,
            transactional_id=self.transactional_id,
            tag=self.tag,
            timeout_ms=knobs.transaction_timeout_ms,
            client_id=self.name,
            request_timeout_ms=knobs.request_timeout_ms,
            connect_timeout_ms=1000,
            max_block_ms=8000,
            entropy=entropy.fork("owner"),
            history=self.recorder("owner", 1),
        )
        txn = await process.call(begin, "begin")
        tasks = [
            asyncio.ensure_future(self._task(txn.ticket, task, entropy.fork(f"task-{task}")))
            for task in range(entropy.randint(1, 3))
        ]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                with suppress(*EXPECTED, ProcessKilledError):
                    await process.call(txn.abort(), "abort")
                raise result
        receipts = [result for result in done if isinstance(result, Receipt)]
        if not workload.calm and entropy.random() < knobs.txn_abort:
            await process.call(txn.abort(), "abort")
            workload.count("shared_aborted")
            return
        await self._commit(process, txn, receipts, entropy)

    async def _commit(
        self,
        process: Process,
        txn: SharedTransaction,
        receipts: list[Receipt],
        entropy: SeededEntropy,
    ) -> None:
        workload = self.workload
        if not workload.calm and entropy.random() < 0.15:
            workload.cluster.loop.call_later(0.05 * entropy.random(), self.kill)
        while True:
            try:
                end = await process.call(txn.commit(receipts), "commit")
            except TransactionOutcomeUnknownError:
                if entropy.random() < 0.3:
                    return  # the next life is told whether it is committed
                continue
            except ProducerFencedError:
                workload.count("shared_fenced")
                return
            if end.committed:
                workload.count("shared_committed")
                self.tag += 1
            return

    async def _task(self, ticket: Ticket, task: int, entropy: SeededEntropy) -> Receipt:
        """Do the work of one task, by as many writers as it takes."""
        cluster = self.workload.cluster
        error: BaseException = ProcessKilledError("no writer")
        for attempt in range(ATTEMPTS):
            name = f"client-writer-{self.name}-{task}-{attempt}"
            process = cluster.client_process(name)
            chance = entropy.fork(f"{attempt}")
            if not self.workload.calm and chance.random() < 0.15:
                cluster.loop.call_later(0.3 * chance.random(), process.kill)
            try:
                return await process.call(self._write(ticket, task, attempt, chance), name)
            except TransactionAlreadyCommittedError:
                raise
            except (*EXPECTED, ProcessKilledError) as caught:
                error = caught
                self.workload.count("shared_attempt_failed")
            finally:
                process.kill()
        raise error

    async def _write(
        self, ticket: Ticket, task: int, attempt: int, entropy: SeededEntropy
    ) -> Receipt:
        workload = self.workload
        cluster, knobs = workload.cluster, workload.cluster.knobs
        recorder = HistoryRecorder(
            f"{self.name}.{self.lives}",
            workload.sink,
            lambda: cluster.loop.now_s,
            client=f"writer-{task}-{attempt}",
        )
        writer = await join(
            ticket,
            writer=f"{ticket.ordinal}-{task}-{attempt}",
            client_id=self.name,
            linger_ms=knobs.linger_ms,
            batch_size=knobs.batch_size,
            request_timeout_ms=knobs.request_timeout_ms,
            delivery_timeout_ms=knobs.delivery_timeout_ms,
            connect_timeout_ms=1000,
            max_block_ms=5000,
            clock=cluster.client_clock,
            entropy=entropy.fork("writer"),
            history=recorder,
        )
        places = [*workload.partitions, *workload.others]
        places = [place for place in places if place.topic != workload.keyed]
        marked = TopicPartition(*places[task % len(places)])
        work = copy_of(self.value(marked), self.transactional_id, ("work", task), self.tag)
        async with writer:
            await writer.send(marked.topic, work, partition=marked.partition)
            for _ in range(entropy.randint(0, 5)):
                await writer.send(**self.record(entropy.choice(places), entropy))
                await asyncio.sleep(entropy.random() * 0.05)
        return writer.receipt
