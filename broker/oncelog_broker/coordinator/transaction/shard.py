"""A shard holds the transactional ids of one partition of ``__transaction_state``.

It has operations, and the replay of records. Operations answer requests and change nothing durable.
Only ``replay`` does, for records that were appended a moment ago as for those of years. An
operation that raises has changed nothing. Rules:

- no answer is given before everything that it may rest on is committed, be it a yes without a
  record (a repeat) or a no;
- a no that is final for its caller is told once a record written since is committed: a coordinator
  that was deposed and does not know it condemns nobody for what was true once;
- an open transaction ends in time: by its timer, which counts from its first record, also when the
  coordinator changes; the date is believed within the bounds of the time-out;
- requests that wait for the end of a transaction go on in the order of coming, as soon as it is
  complete in memory: what is written after it in the log cannot be committed without it;
- that wait ends ``transaction_wait_ms`` after the end was *decided*, not after the request came:
  markers that hang (a partition is down) must not hold up, again and again, whoever asks on the
  same connection for other transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from oncelog_broker.coordinator.ports import MarkerSenderPort, Timers
from oncelog_broker.coordinator.result import (
    CoordinatorRecord,
    Delay,
    DelayedOperations,
    RecordFormatError,
    Result,
)
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.transaction import descriptions, ordinary, shared
from oncelog_broker.coordinator.transaction.completion import AGAIN_S, TransactionCompletion
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.ordinary import (
    Now,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
)
from oncelog_broker.coordinator.transaction.producer_ids import ProducerIdRequests
from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    OrdinalsFact,
    Saved,
    SavedShared,
    SavedTransaction,
    WriterFact,
    decode_record,
    id_record,
    ordinals_record,
    writer_record,
)
from oncelog_broker.coordinator.transaction.states import (
    Ending,
    StillEndingError,
    TxnState,
    check_transition,
)
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidTxnStateError,
    Kind,
    PolicyViolationError,
    TransactionalIdNotFoundError,
)
from oncelog_protocol.messages.shared_transactions import (
    BeginSharedTxnResponse,
    EndSharedTxnRequest,
    EndSharedTxnResponse,
    JoinTxnRequest,
    JoinTxnResponse,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    ListedTransaction,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsResult,
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

R = TypeVar("R")

EXPIRY_KEY = "expiry"
EXPIRED_COUNT_MAX = 2_000
"""So many ids are forgotten in one batch; the rest follows."""


@dataclass(frozen=True, slots=True)
class PendingRequest(Generic[R]):
    """A client, a partition leader or a timer wants this of a transactional id.

    :param operation: is carried out on the shard, with a new producer id or None; maybe again and
        again, until it neither waits nor lacks an id.
    :param refused: makes the answer that says an error, or raises it.
    """

    transactional_id: str
    operation: Callable[[TransactionShard, int | None], Result[R]]
    refused: Callable[[ApiError], R]


class TransactionShard:
    """It keeps transactional ids and carries out operations on them.

    :param timers: as the engine's: what is due runs as an operation of this shard.
    """

    def __init__(
        self,
        partition: int,
        timers: Timers,
        *,
        config: TransactionConfig,
        clock: CautiousClock,
        markers: MarkerSenderPort,
        producer_ids: ProducerIdRequests,
        safeguards: CoordinatorSafeguards = SAFE,
    ) -> None:
        self.partition = partition
        self.transactions: dict[str, TransactionMetadata] = {}
        self.last_ordinal = 0
        self._timers = timers
        self._config = config
        self._clock = clock
        self._safeguards = safeguards
        self._is_loaded = False
        self._producer_ids = producer_ids
        self._completion = TransactionCompletion(
            timers,
            safeguards.marker_sender(markers),
            clock,
            self.transactions.get,
            self._resume,
        )

    def led_in(self, leader_epoch: int) -> None:
        """Take over the leader epoch: markers carry it as their coordinator epoch."""
        self._completion.led_in(leader_epoch)

    # ---- durable state

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in one record. An unreadable one was not written by a coordinator: it is left alone,
        for the ids of a partition must not all hang on it.

        :raises IllegalTxnTransitionError: a live record that cannot follow what is there.
        """
        try:
            fact = decode_record(record)
        except RecordFormatError as error:
            logger.error("transaction_record_unreadable", shard=self.partition, error=error)
            return
        if isinstance(fact, IdFact):
            self._replay_id(fact)
        elif isinstance(fact, WriterFact):
            txn = self._known_or_new(fact.transactional_id)
            txn.set_writer(fact.producer_id, fact.saved)
        elif isinstance(fact, OrdinalsFact):
            self.last_ordinal = max(self.last_ordinal, fact.last_ordinal)
        else:
            logger.warning("transaction_record_of_newer_release", key=record.key[:64])

    def _known_or_new(self, transactional_id: str) -> TransactionMetadata:
        txn = self.transactions.get(transactional_id)
        if txn is None:
            txn = self.transactions[transactional_id] = TransactionMetadata(transactional_id)
        return txn

    def _replay_id(self, fact: IdFact) -> None:
        transactional_id, saved = fact
        txn = self._known_or_new(transactional_id)
        old = txn.saved
        if self._is_loaded:
            txn.check(saved)
        txn.replay(saved)
        if saved is None:
            del self.transactions[transactional_id]
        if self._is_loaded:
            self._changed(txn, old)

    def _changed(self, txn: TransactionMetadata, old: Saved | None) -> None:
        """Let timers, markers and callers that wait follow a live change."""
        saved = txn.saved
        is_open = saved is not None and saved.state is TxnState.ONGOING
        was_open = old is not None and old.state is TxnState.ONGOING
        if saved is not None and is_open and not was_open:
            self._arm(txn, saved.timeout_ms / 1000)
        elif was_open and not is_open:
            self._timers.cancel(_timeout_key(txn.transactional_id))
        if saved is not None and saved.state.is_prepared:
            txn.decided(self._timers.now_s())
            send = partial(self._completion.decided, txn.transactional_id, saved)
            return self._safeguards.prepared(send)
        if old is not None and old.state.is_prepared:
            txn.stop_markers()
        if txn.delayed:
            self._resume(txn)

    def _resume(self, txn: TransactionMetadata) -> None:
        """Let go on what waits for the end of a transaction."""
        self._timers.cancel(_wait_key(txn.transactional_id))
        txn.delayed.resume()

    def loaded(self, now_s: float) -> Sequence[Result[None]]:
        """Go on with what is open or decided. Decided transactions get their markers (again)."""
        self._is_loaded = True
        decided = []
        for txn in list(self.transactions.values()):
            saved = txn.saved
            if saved is None:
                del self.transactions[txn.transactional_id]
                continue
            txn.forget_old_writers()
            if saved.state is TxnState.ONGOING:
                left_ms = saved.start_ms + saved.timeout_ms - self._clock.now_ms()
                self._arm(txn, min(max(left_ms, 0), saved.timeout_ms) / 1000)
            elif saved.state.is_prepared:
                txn.decided(now_s)
                decided.append(self._completion.settle(txn.transactional_id))
        self._set_expiry()
        return decided

    def unload(self, error_code: int) -> None:
        """Forget all ids, since nothing of this shard is coordinated here any more. The next
        coordinator goes on with the markers."""
        for txn in self.transactions.values():
            txn.stop_markers()
        self.transactions.clear()

    # ---- requests, now or later

    def carry_out(self, request: PendingRequest[R], fresh_id: int | None = None) -> Result[R]:
        """Carry out ``request``, now or when it can be; a no is told as the module says."""
        try:
            result = request.operation(self, fresh_id)
        except StillEndingError:
            txn = self.transactions[request.transactional_id]
            return self._when_complete(Result(), txn, txn.decided_s, request, fresh_id)
        except ProducerIdNeededError:
            return self._with_producer_id(request)
        except ApiError as error:
            return self._refusal(request, error)
        if result.reply is not None:
            return result
        # It ends another transaction, and goes on when that is complete.
        txn = self.transactions[request.transactional_id]
        return self._when_complete(result, txn, self._timers.now_s(), request, fresh_id)

    def _when_complete(
        self,
        result: Result[R],
        txn: TransactionMetadata,
        decided_s: float,
        request: PendingRequest[R],
        fresh_id: int | None,
    ) -> Result[R]:
        """Have ``request`` carried out after ``result``, when the transaction is complete."""
        if len(txn.delayed) >= self._config.shared_txn_writers_max:
            error = ConcurrentTransactionsError("too many wait already")
            return replace(result, reply=request.refused(error))

        def too_long() -> Result[None]:
            error = ConcurrentTransactionsError("the last transaction is still being ended")
            txn.delayed.refuse(error)
            return Result()

        left_s = decided_s + self._config.transaction_wait_ms / 1000 - self._timers.now_s()
        self._timers.set(_wait_key(txn.transactional_id), left_s, too_long)
        return replace(result, delay=self._delay(txn.delayed, request, lambda: fresh_id))

    def _with_producer_id(self, request: PendingRequest[R]) -> Result[R]:
        """Have ``request`` carried out with a new producer id."""
        delayed = DelayedOperations()
        fetched: list[int] = []

        def arrived(producer_id: int | None) -> None:
            if producer_id is None:
                delayed.refuse(CoordinatorNotAvailableError("no producer id can be had now"))
            else:
                fetched.append(producer_id)
                delayed.resume()

        self._producer_ids.request(arrived)
        return Result(delay=self._delay(delayed, request, fetched.pop))

    def _delay(
        self,
        until: DelayedOperations,
        request: PendingRequest[R],
        fresh_id: Callable[[], int | None],
    ) -> Delay[R]:
        def go_on(error: ApiError | None) -> Result[R]:
            if error is not None:
                return Result(reply=request.refused(error))
            return self.carry_out(request, fresh_id())

        return Delay(until, go_on)

    def _refusal(self, request: PendingRequest[R], error: ApiError) -> Result[R]:
        if error.kind is Kind.RETRIABLE:
            return Result(reply=request.refused(error))
        return Result(self._safeguards.barrier(), request.refused(error), rests_on_log=True)

    def _now(self, fresh_id: int | None = None) -> Now:
        return Now(self._clock.now_ms(), fresh_id)

    def _saved(self, transactional_id: str) -> Saved | None:
        txn = self.transactions.get(transactional_id)
        return None if txn is None else txn.present

    def _ordinary(self, transactional_id: str) -> SavedTransaction | None:
        saved = self._saved(transactional_id)
        if isinstance(saved, SavedShared):
            raise InvalidTxnStateError("the id belongs to shared transactions")
        return saved

    def _shared(self, transactional_id: str) -> SavedShared | None:
        saved = self._saved(transactional_id)
        if isinstance(saved, SavedTransaction):
            raise InvalidTxnStateError("the id belongs to ordinary transactions")
        return saved

    def _check_room(self, saved: Saved | None) -> None:
        if saved is None and len(self.transactions) >= self._config.transactional_ids_max:
            raise PolicyViolationError(
                f"partition {self.partition} has {len(self.transactions)} transactional ids"
            )

    def _changing(
        self,
        transactional_id: str,
        states: Sequence[Saved],
        reply: R | None,
        more: Sequence[CoordinatorRecord] = (),
    ) -> Result[R]:
        """Return the result that writes these states of the id, in order, and ``more`` with
        them."""
        old = self._saved(transactional_id)
        if states:
            self._check_room(old)
        before = None if old is None else old.state
        for saved in states:
            check_transition(before, saved.state)
            before = saved.state
        if old is not None and states and self.transactions[transactional_id].completed:
            states = (old, *states)
        records = (*(id_record(transactional_id, saved) for saved in states), *more)
        if states and states[-1].state.is_prepared:
            return self._completion.prepared(records, reply, transactional_id, states[-1])
        return Result(records, reply, rests_on_log=True)

    # ---- ordinary transactions

    def init(self, request: InitPidRequest, fresh_id: int | None) -> Result[InitPidResponse]:
        """Carry out InitPid.

        :raises ApiError: those of ``InitPidResponse``.
        :raises StillEndingError, ProducerIdNeededError: not now.
        """
        transactional_id = request.transactional_id or ""
        saved = self._ordinary(transactional_id)
        self._check_room(saved)
        named = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        step = ordinary.init(saved, named, request.transaction_timeout_ms, self._now(fresh_id))
        if step.goes_on:
            return self._changing(transactional_id, step.states, None)
        last = step.states[-1] if step.states else saved
        assert last is not None
        answer = InitPidResponse(NO_ERROR, None, last.producer_id, last.producer_epoch)
        return self._changing(transactional_id, step.states, answer)

    def add(
        self, added: AddedTransaction, *, by_number: bool = False
    ) -> Result[AddPartitionsResult]:
        """Carry out one transaction of AddPartitionsToTxn; ``by_number``: it is asked by a client
        whose transactions end by number.

        :raises ApiError: those of ``AddPartitionsResult``.
        :raises StillEndingError: not now.
        """
        transactional_id = added.transactional_id
        saved = self._saved(transactional_id)
        producer = ProducerIdAndEpoch(added.producer_id, added.producer_epoch)
        partitions = [
            TopicPartition(topic.topic, partition)
            for topic in added.topics
            for partition in topic.partitions
        ]
        answer = AddPartitionsResult(transactional_id)
        if isinstance(saved, SavedShared):
            txn = self.transactions[transactional_id]
            writer = shared.add(
                saved,
                txn.writers,
                producer,
                partitions,
                verify_only=added.verify_only,
                partition_count_max=self._config.txn_partitions_max,
            )
            if writer is None:
                return Result((), answer, rests_on_log=True)
            if txn.partition_count + len(partitions) > self._config.shared_txn_partitions_max:
                raise PolicyViolationError("the writers have too many partitions together")
            record = writer_record(transactional_id, added.producer_id, writer)
            return Result((record,), answer)
        step = ordinary.add(
            saved,
            producer,
            partitions,
            verify_only=added.verify_only,
            partition_count_max=self._config.txn_partitions_max,
            now_ms=self._clock.now_ms(),
            by_number=by_number,
            refused=self._safeguards.missing,
        )
        if added.verify_only and saved is not None:
            answer.number = saved.number
        return self._changing(transactional_id, step.states, answer)

    def end(
        self, request: EndTxnRequest, fresh_id: int | None, *, by_number: bool = False
    ) -> Result[EndTxnResponse]:
        """Carry out EndTxn; ``by_number``: it is asked by a client whose transactions end so.

        :raises ApiError: those of ``EndTxnResponse``.
        :raises StillEndingError, ProducerIdNeededError: not now.
        """
        transactional_id = request.transactional_id
        saved = self._ordinary(transactional_id)
        producer, now = _producer(request), self._now(fresh_id)
        if by_number:
            step = ordinary.end_by_number(saved, producer, request.commit, now.now_ms)
        else:
            step = self._safeguards.end(saved, producer, request.commit, now)
        last = step.states[-1] if step.states else saved
        assert last is not None
        answer = EndTxnResponse(NO_ERROR, None, last.producer_id, last.producer_epoch)
        return self._changing(transactional_id, step.states, answer)

    # ---- shared transactions

    def begin_shared(self) -> Result[BeginSharedTxnResponse]:
        """Carry out BeginSharedTxn: give out the next ordinal."""
        ordinal = self.last_ordinal + 1
        return Result((ordinals_record(ordinal),), BeginSharedTxnResponse(NO_ERROR, None, ordinal))

    def last_committed_tag(self, transactional_id: str) -> int:
        """Return the last committed tag of an id of shared transactions; -1 means none."""
        saved = self._saved(transactional_id)
        return saved.last_committed_tag if isinstance(saved, SavedShared) else -1

    def join(self, request: JoinTxnRequest, fresh_id: int | None) -> Result[JoinTxnResponse]:
        """Carry out JoinTxn.

        :raises ApiError: those of ``JoinTxnResponse``.
        :raises StillEndingError, ProducerIdNeededError: not now.
        """
        transactional_id = request.transactional_id
        saved = self._shared(transactional_id)
        self._check_room(saved)
        txn = self.transactions.get(transactional_id)
        joined = shared.join(
            saved,
            {} if txn is None else txn.names,
            request.ordinal,
            request.tag,
            request.writer,
            request.transaction_timeout_ms,
            self._now(fresh_id),
            writer_count_max=self._config.shared_txn_writers_max,
        )
        states = () if joined.state is None else (joined.state,)
        if joined.producer_id < 0:
            return self._changing(transactional_id, states, None)
        last_tag = self.last_committed_tag(transactional_id)
        answer = JoinTxnResponse(NO_ERROR, None, joined.producer_id, shared.WRITER_EPOCH, last_tag)
        more = []
        if joined.writer is not None:
            more.append(writer_record(transactional_id, joined.producer_id, joined.writer))
        return self._changing(transactional_id, states, answer, more)

    def end_shared(self, request: EndSharedTxnRequest) -> Result[EndSharedTxnResponse]:
        """Carry out EndSharedTxn.

        :raises ApiError: those of ``EndSharedTxnResponse``.
        :raises StillEndingError: not now.
        """
        transactional_id = request.transactional_id
        saved = self._shared(transactional_id)
        txn = self.transactions.get(transactional_id)
        ended = shared.end(
            saved,
            {} if txn is None else txn.writers,
            request.ordinal,
            request.tag,
            request.commit,
            request.winners,
            self._clock.now_ms(),
        )
        if ended.goes_on:
            return self._changing(transactional_id, ended.states, None)
        answer = EndSharedTxnResponse(NO_ERROR, None, ended.committed, ended.already)
        return self._changing(transactional_id, ended.states, answer)

    # ---- looking at them

    def list(self, request: ListTransactionsRequest) -> list[ListedTransaction]:
        """List the ids that the request asks for, with the age of their transactions."""
        return descriptions.listed(self.transactions.values(), request, self._clock.now_ms())

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Describe one id for DescribeTransactions.

        :raises TransactionalIdNotFoundError: it is not known.
        """
        txn = self.transactions.get(transactional_id)
        if txn is None or txn.saved is None:
            raise TransactionalIdNotFoundError
        return descriptions.described(txn)

    # ---- time

    def _arm(self, txn: TransactionMetadata, delay_s: float) -> None:
        transactional_id = txn.transactional_id
        saved = txn.saved
        assert saved is not None
        due = partial(self._time_is_over, transactional_id, _name(saved))
        self._timers.set(_timeout_key(transactional_id), delay_s, due, retry_s=AGAIN_S)

    def _time_is_over(self, transactional_id: str, name: object) -> Result[bool]:
        """Abort the transaction ``name``, whose timer has run out, if it is still open."""

        def end(_: TransactionShard, fresh_id: int | None) -> Result[bool]:
            saved = self._saved(transactional_id)
            # While an id was fetched, or an append was refused, something else may have ended it.
            if saved is None or not _is_open(saved, name):
                return Result((), True)
            logger.info("transaction_timed_out", transactional_id=transactional_id)
            now = self._now(fresh_id)
            ended: Saved
            if isinstance(saved, SavedTransaction):
                ended = self._safeguards.timed_out(saved, now)
            else:
                ended = saved.prepared(False, Ending.TIMEOUT, (), now.now_ms)
            return self._changing(transactional_id, (ended,), True)

        def refused(error: ApiError) -> bool:
            raise error  # it is tried again

        return self.carry_out(PendingRequest(transactional_id, end, refused))

    def _set_expiry(self) -> None:
        interval_ms = self._config.transactional_id_expiration_check_interval_ms
        self._timers.set(EXPIRY_KEY, interval_ms / 1000, self._expire)

    def _expire(self) -> Result[None]:
        """Forget ids that were idle for too long, but for shared ones that have a last tag."""
        old_ms = self._clock.expiry_ms() - self._config.transactional_id_expiration_ms
        old = [
            txn.transactional_id
            for txn in self.transactions.values()
            if _may_be_forgotten(txn.saved, old_ms)
        ]
        now = old[:EXPIRED_COUNT_MAX]
        self._set_expiry()
        if now:
            logger.info("transactional_ids_expired", shard=self.partition, count=len(now))
        records = [id_record(transactional_id, None) for transactional_id in now]
        if len(now) == len(old):
            return Result(records)
        return Result(records, on_committed=lambda: self._timers.soon(self._expire))


def _name(saved: Saved) -> object:
    """This tells one transaction of an id from the next."""
    if isinstance(saved, SavedShared):
        return saved.ordinal
    return ordinary.present(saved), saved.number


def _producer(request: EndTxnRequest) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def _may_be_forgotten(saved: Saved | None, old_ms: int) -> bool:
    if saved is None or saved.changed_ms > old_ms:
        return False
    if isinstance(saved, SavedShared) and not shared.may_be_forgotten(saved):
        return False
    return saved.state is TxnState.EMPTY or saved.state.is_complete


def _is_open(saved: Saved | None, name: object) -> bool:
    return saved is not None and saved.state is TxnState.ONGOING and _name(saved) == name


def _timeout_key(transactional_id: str) -> str:
    return f"timeout {transactional_id}"


def _wait_key(transactional_id: str) -> str:
    return f"wait {transactional_id}"
