"""It copies a topic exactly once, as a process: ``python -m integration.copier OPTIONS``.

OPTIONS is the JSON of :class:`CopierOptions`. Records go to the partition of their own number, in
transactions with the positions that they were read at. Some transactions are aborted for no reason,
some take their time. SIGTERM ends it cleanly; whoever takes its transactional id over ends it too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import uvloop

from oncelog import Consumer, Producer, Record, Security, TopicPartition
from oncelog.errors import (
    CommitFailedError,
    OncelogError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
)
from oncelog.producer.transactions.transaction import Transaction

EXIT_FENCED = 3
"""Another process has taken the transactional id over."""

POLL_MS = 100
"""How long a poll waits for records: SIGTERM is heard in between."""

Polled = Mapping[TopicPartition, Sequence[Record]]


@dataclass(frozen=True, slots=True)
class CopierOptions:
    """They tell a copier what to do."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    seed: int
    rate: int
    """Records a second, at most."""
    partitions: list[int] = field(default_factory=list)
    """Those it is assigned; none: the group assigns."""
    transaction_timeout_ms: int = 10_000
    session_timeout_ms: int = 6_000
    abort_part: float = 0.1
    """This part of the transactions is aborted, for no reason."""
    slow_part: float = 0.1
    """This part of the transactions takes up to half a second."""

    def to_json(self) -> str:
        """Return the text that the program takes."""
        return json.dumps(asdict(self))


class OnAWhim(Exception):
    """A transaction is aborted for this reason."""


class Copier:
    """It is one consumer and one producer, and makes transaction after transaction."""

    def __init__(self, options: CopierOptions, security: Security | None = None) -> None:
        self._options = options
        self._security = security
        self._chance = random.Random(options.seed)
        self._began = time.monotonic()
        self.copied = 0
        self.not_committed: list[OncelogError] = []
        """Transactions ended so, though nobody wanted it."""
        self.stop = asyncio.Event()

    async def run(self) -> int:
        """Copy until told to stop; return the exit code."""
        try:
            async with self._consumer() as consumer, self._producer() as producer:
                if self._options.partitions:
                    numbers = self._options.partitions
                    consumer.assign([TopicPartition(self._options.source, n) for n in numbers])
                while not self.stop.is_set():
                    await self._one(consumer, producer)
                    await self._keep_to_the_rate()
        except ProducerFencedError as error:
            print(f"fenced: {error}", flush=True)
            return EXIT_FENCED
        return 0

    def _consumer(self) -> Consumer:
        options = self._options
        topics = [] if options.partitions else [options.source]
        return Consumer(
            *topics,
            bootstrap_servers=options.bootstrap,
            client_id=options.transactional_id,
            group_id=options.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=300,
            security=self._security,
        )

    def _producer(self) -> Producer:
        options = self._options
        return Producer(
            options.bootstrap,
            client_id=options.transactional_id,
            transactional_id=options.transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            security=self._security,
        )

    async def _one(self, consumer: Consumer, producer: Producer) -> None:
        """Run one transaction, whatever becomes of it."""
        most = self._chance.randint(1, max(2, self._options.rate // 3))
        polled: Polled = {}
        if self._chance.random() < 0.5:  # what is in hand already belongs to it as well
            polled = await consumer.getmany(max_records=most, timeout_ms=POLL_MS)
            if not polled:
                return
        try:
            async with producer.transaction(consumer) as txn:
                polled = polled or await consumer.getmany(max_records=most, timeout_ms=POLL_MS)
                await self._copy(polled, txn)
        except OnAWhim:
            return
        except (
            CommitFailedError,
            TransactionAbortableError,
            TransactionOutcomeUnknownError,
        ) as error:
            self.not_committed.append(error)
            print(f"not committed: {error!r}", flush=True)
            return
        self.copied += sum(map(len, polled.values()))

    async def _copy(self, polled: Polled, txn: Transaction) -> None:
        for tp, records in polled.items():
            for record in records:
                await txn.enqueue(self._options.target, record.value, partition=tp.partition)
        if self._chance.random() < self._options.slow_part:
            await asyncio.sleep(self._chance.random() / 2)
        if self._chance.random() < self._options.abort_part:
            raise OnAWhim

    async def _keep_to_the_rate(self) -> None:
        ahead_s = self.copied / self._options.rate - (time.monotonic() - self._began)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)


async def run(options: CopierOptions) -> int:
    """Copy until SIGTERM; return the exit code."""
    copier = Copier(options)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, copier.stop.set)
    return await copier.run()


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return uvloop.run(run(CopierOptions(**json.loads(arguments[0]))))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
