"""Transactions over the real engine: markers are done, records committed, brokers elected when the
test says so. Time is the loop's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.ports import MarkerOrder
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.producer_ids import ProducerIdRequests
from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    SavedShared,
    SavedTransaction,
    decode_record,
)
from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.coordinator.transaction.shard import TransactionShard
from oncelog_protocol.errors import CoordinatorNotAvailableError
from oncelog_protocol.messages.shared_transactions import (
    BeginSharedTxnRequest,
    EndSharedTxnRequest,
    JoinTxnRequest,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    EndTxnRequest,
    InitPidRequest,
    TxnTopic,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from support.clock import ManualClock
from support.coordinators import MemoryPartition, MemoryWriter
from support.room_settings import transaction_settings
from support.waiting import eventually

__all__ = ["Answer", "Markers", "ProducerIdCounter", "TransactionWorld", "transaction_world"]

TOPIC = "__transaction_state"


class Answer:
    """One answer arrives here."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __call__(self, value: Any) -> None:
        self.values.append(value)

    @property
    def waits(self) -> bool:
        return not self.values

    @property
    def value(self) -> Any:
        assert len(self.values) == 1, f"answered {len(self.values)} times"
        return self.values[0]

    @property
    def code(self) -> int:
        code: int = self.value.error_code
        return code

    @property
    def producer(self) -> tuple[int, int]:
        value = self.value
        assert value.error_code == 0, value
        return value.producer_id, value.producer_epoch


class Markers:
    """A ``MarkerSender``: orders stay open until the test says they are done."""

    def __init__(self) -> None:
        self.orders: list[MarkerOrder] = []
        self.open: list[tuple[MarkerOrder, Callable[[], None]]] = []
        self.cancelled: list[MarkerOrder] = []
        self.at_once = False
        self.on_send: Callable[[MarkerOrder], None] = lambda _: None

    def send(self, order: MarkerOrder, done: Callable[[], None]) -> Callable[[], None]:
        self.on_send(order)
        self.orders.append(order)
        entry = (order, done)

        def cancel() -> None:
            self.cancelled.append(order)
            self.open = [each for each in self.open if each is not entry]

        if self.at_once:
            done()
        else:
            self.open.append(entry)
        return cancel

    def done(self) -> None:
        """All orders that are open are carried out."""
        opened, self.open = self.open, []
        for _, done in opened:
            done()


class ProducerIdCounter:
    """This ``ProducerIdSource`` gives 1000, 1001 and so on."""

    def __init__(self) -> None:
        self.given = 1000
        self.is_empty = False
        self.gate: asyncio.Event | None = None

    async def take(self) -> int:
        if self.gate is not None:
            await self.gate.wait()
        if self.is_empty:
            raise CoordinatorNotAvailableError("none left")
        self.given += 1
        return self.given - 1


class TransactionWorld:
    """It is one broker that coordinates the only partition, or not."""

    def __init__(
        self,
        tasks: Tasks,
        config: TransactionConfig,
        safeguards: CoordinatorSafeguards,
        commit_timeout_ms: int,
    ) -> None:
        self.tasks = tasks
        self.safeguards = safeguards
        self.commit_timeout_ms = commit_timeout_ms
        self.writer = MemoryWriter()
        self.markers = Markers()
        self.ids = ProducerIdCounter()
        self.clock = ManualClock()
        self.config = config
        self.shards: list[TransactionShard] = []
        self._make_engine()

    def _make_engine(self) -> None:
        make_shard = partial(
            TransactionShard,
            config=self.config,
            clock=self.clock,
            markers=self.markers,
            producer_ids=ProducerIdRequests(self.ids, self.tasks),
            safeguards=self.safeguards,
        )

        def made(*arguments: Any) -> TransactionShard:
            self.shards.append(make_shard(*arguments))
            return self.shards[-1]

        self.engine: CoordinatorEngine[TransactionShard] = CoordinatorEngine(
            name="transactions",
            topic=TOPIC,
            writer=self.writer,
            make_shard=made,
            tasks=self.tasks,
            commit_timeout_ms=self.commit_timeout_ms,
            safeguards=self.safeguards,
        )
        self.engine.set_partition_count(1)
        self.transactions = TransactionCoordinator(self.engine, self.config)

    # ---- the log and who leads

    @property
    def shard(self) -> TransactionShard:
        return self.shards[-1]

    @property
    def partition(self) -> MemoryPartition:
        return self.writer.partition(TopicPartition(TOPIC, 0))

    async def elected(self, epoch: int) -> None:
        self.partition.leader_epoch = epoch
        self.engine.elected(0, epoch)
        await eventually(lambda: self.engine.refusal("t") == 0, what="a loaded shard")

    async def moved(self, epoch: int, *, keeps: int | None = None) -> None:
        """The coordinator moves away and, as ``epoch``, back: what is not committed is lost, but
        for ``keeps`` batches of it."""
        self.engine.resigned(0, epoch)
        self.truncate(keeps or 0)
        await self.elected(epoch)

    def fork(self, *, keeps: int) -> TransactionWorld:
        """Return the world of the next coordinator, yet to be elected, with its own copy of the log
        as ``moved`` leaves it. This one does not know that, goes on, and can commit nothing."""
        following = TransactionWorld(
            self.tasks, self.config, self.safeguards, self.commit_timeout_ms
        )
        following.markers, following.ids, following.clock = self.markers, self.ids, self.clock
        following._make_engine()
        following.writer.auto_commit = False
        log = following.partition
        log.batches, log.end_offset = list(self.partition.batches), self.partition.end_offset
        log.high_watermark = self.partition.high_watermark
        following.truncate(keeps)
        self.writer.auto_commit = False
        return following

    def truncate(self, keeps: int = 0) -> None:
        """Cut what is not committed, but for its first ``keeps`` batches."""
        partition = self.partition
        partition.waiting = []
        end, kept = 0, []
        for batch in partition.batches:
            if end + len(batch) > partition.high_watermark:
                if keeps < 1:
                    break
                keeps -= 1
            end += len(batch)
            kept.append(batch)
        partition.batches = kept
        partition.end_offset = end

    def saved(self, transactional_id: str = "t") -> SavedTransaction | SavedShared | None:
        txn = self.shard.transactions.get(transactional_id)
        return None if txn is None else txn.saved

    def states(self, transactional_id: str = "t") -> list[str]:
        """Return all that the log says of the id, in order."""
        return self.states_below(self.partition.end_offset, transactional_id)

    def states_below(self, offset: int, transactional_id: str = "t") -> list[str]:
        """Return what the log says of the id below ``offset``, in order."""
        records = self.partition.records[:offset]
        facts = [decode_record(record) for record in records if record.value]
        return [
            fact.saved.state.label
            for fact in facts
            if isinstance(fact, IdFact) and fact.transactional_id == transactional_id and fact.saved
        ]

    # ---- ordinary transactions

    def init(
        self,
        producer: tuple[int, int] = (-1, -1),
        *,
        transactional_id: str = "t",
        timeout_ms: int = 60_000,
    ) -> Answer:
        answer = Answer()
        self.transactions.init_pid(InitPidRequest(transactional_id, timeout_ms, *producer), answer)
        return answer

    async def inited(self, **options: Any) -> tuple[int, int]:
        answer = self.init(**options)
        await eventually(lambda: not answer.waits)
        return answer.producer

    def add(
        self,
        producer: tuple[int, int],
        *partitions: int,
        topic: str = "a",
        transactional_id: str = "t",
        verify_only: bool = False,
        by_number: bool = False,
    ) -> Answer:
        answer = Answer()
        topics = [TxnTopic(topic, list(partitions or (0,)))]
        self.transactions.add_partitions(
            AddedTransaction(transactional_id, *producer, topics, verify_only),
            answer,
            by_number=by_number,
        )
        return answer

    def end(
        self,
        producer: tuple[int, int],
        commit: bool = True,
        *,
        transactional_id: str = "t",
        by_number: bool = False,
    ) -> Answer:
        answer = Answer()
        request = EndTxnRequest(transactional_id, *producer, commit)
        self.transactions.end_txn(request, answer, by_number=by_number)
        return answer

    async def completed(self, transactional_id: str = "t") -> None:
        """The markers are written, and COMPLETE too."""

        def at_rest() -> bool:
            self.markers.done()
            saved = self.saved(transactional_id)
            return saved is not None and saved.state.is_complete

        await eventually(at_rest, what="a complete transaction")

    # ---- shared transactions

    def begin_shared(self) -> int:
        answer = Answer()
        self.transactions.begin_shared(BeginSharedTxnRequest(), answer)
        ordinal: int = answer.value.ordinal
        return ordinal

    def join(
        self,
        ordinal: int,
        tag: int,
        writer: str = "w",
        *,
        timeout_ms: int = 60_000,
        transactional_id: str = "t",
    ) -> Answer:
        answer = Answer()
        self.transactions.join(
            JoinTxnRequest(transactional_id, ordinal, tag, writer, timeout_ms), answer
        )
        return answer

    async def joined(self, *arguments: Any, **options: Any) -> tuple[int, int]:
        answer = self.join(*arguments, **options)
        await eventually(lambda: not answer.waits)
        return answer.producer

    def end_shared(
        self,
        ordinal: int,
        tag: int,
        winners: Sequence[int] | None = None,
        *,
        transactional_id: str = "t",
    ) -> Answer:
        """Commit for these winners; None: abort."""
        answer = Answer()
        self.transactions.end_shared(
            EndSharedTxnRequest(
                transactional_id, ordinal, tag, winners is not None, list(winners or ())
            ),
            answer,
        )
        return answer


@asynccontextmanager
async def transaction_world(
    *,
    commit_timeout_ms: int = 60_000,
    safeguards: CoordinatorSafeguards = SAFE,
    **config: int,
) -> AsyncIterator[TransactionWorld]:
    """Make a world whose coordinator is elected in epoch 1."""
    failures: list[str] = []
    tasks = Tasks("test", lambda name, error: failures.append(f"{name}: {error!r}"))
    world = TransactionWorld(
        tasks,
        transaction_settings(**config),
        safeguards,
        commit_timeout_ms,
    )
    try:
        await world.elected(1)
        yield world
    finally:
        world.engine.close()
        await tasks.close()
    assert not failures
