"""The admin client lists and describes transactions, finds those that hang, and aborts them.

Rules
-----
* A transactional id is asked about at its coordinator, producers at the leaders of partitions;
  lists are those of all brokers, and a broker that cannot say (all) is named beside the list.
* A transaction hangs when it is open in a partition, has been silent for longer than any may last,
  and no coordinator has it as its open one with that partition in it (KIP-664). Who has not heard
  of all coordinators does not say that one hangs; and what was found is looked at once more in the
  end, for transactions end meanwhile.
* What a coordinator knows is ended by it, wherever it reaches; only what none knows is ended by a
  marker in one partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, BrokerError, checked_states, known
from oncelog.admin.partition_producers import describe_producers
from oncelog.admin.results import Results
from oncelog.admin.transaction_results import (
    TRANSACTION_STATES,
    Candidate,
    FencedProducer,
    HangingTransaction,
    HangingTransactions,
    PartitionProducers,
    ProducerDescription,
    TransactionAbort,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
    WriterDescription,
)
from oncelog.core.coordinators import Refused, as_api_error, attempt_deadline, refused_at_top
from oncelog.core.partition_leaders import leader_of
from oncelog.errors import (
    ApiError,
    ConfigurationError,
    DeadlineExceededError,
    InvalidTxnStateError,
    TransactionalIdNotFoundError,
    error_about,
    error_for,
)
from oncelog_protocol.messages import transaction_admin as wire
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.shared_transactions import EndSharedTxnRequest
from oncelog_protocol.messages.transactions import InitPidRequest, TxnTopic
from oncelog_protocol.types import TopicPartition

TRANSACTION_TIMEOUT_MS_MAX = 900_000
"""The longest that a transaction may last, unless the brokers' ``transaction_max_timeout_ms`` says
else: what has been silent for longer should have been ended."""

FENCING_TIMEOUT_MS = 60_000
"""Time-out of the transactions of the producer that is made only to fence another."""

AT_ONCE = 32
"""Questions under way at one time."""


class TransactionAdmin(AdminCalls):
    """``Admin`` gets its calls about transactions and producers from this class."""

    # ------------------------------------------------------------------------------ looking

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        older_than_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> TransactionListings:
        """Return the transactional ids of the cluster, by name.

        Filters keep ids in one of the ``states``, ids of one of the producers (also as the writer
        of a shared transaction), and ids whose transaction has been open for ``older_than_ms``.
        Brokers that did not answer, or still load some of them, are in ``unanswered``.
        """
        wanted = checked_states(states, TRANSACTION_STATES)
        if older_than_ms is not None and older_than_ms < 0:
            raise ConfigurationError(f"older_than_ms={older_than_ms}: must be from 0 on")
        request = wire.ListTransactionsRequest(
            wanted,
            list(dict.fromkeys(producer_ids)),
            -1 if older_than_ms is None else older_than_ms,
        )
        answers, unanswered = await self._listed(request, self._deadline(timeout_ms))
        listed: dict[str, TransactionListing] = {}
        for broker_id, answer in answers:
            for item in answer.transactions:
                self._txn_coordinators.learn(item.transactional_id, broker_id)
                listed[item.transactional_id] = TransactionListing(
                    item.transactional_id,
                    item.state,
                    None if item.shared else known(item.producer_id),
                    item.shared,
                    broker_id,
                )
        return TransactionListings((listed[name] for name in sorted(listed)), unanswered)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[TransactionDescription]:
        """Return state, producer, age and partitions of transactional ids, in the order of asking.

        Errors of items: TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, or why
        the coordinator did not answer in time.
        """
        answers = await self._ask_each(
            transactional_ids,
            lambda name: wire.DescribeTransactionsRequest([name]),
            self._deadline(timeout_ms),
            _refused,
        )
        return Results(
            TransactionDescription(name, answer)
            if isinstance(answer, ApiError)
            else _described(answer.transactions[0], self._txn_coordinators.known(name))
            for name, answer in answers
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[PartitionProducers]:
        """Return the producers that the leaders of partitions remember, in the order of asking.

        Errors of items: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, or why the leader
        did not answer in time.
        """
        return Results(
            await describe_producers(self._router, partitions, self._deadline(timeout_ms))
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        topics: Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS_MAX,
        timeout_ms: int = TIMEOUT_MS,
    ) -> HangingTransactions:
        """Return transactions that are open in partitions and that no coordinator will end.

        The search covers ``partitions`` and all of ``topics``; with neither it covers the whole
        cluster. ``broker_id`` restricts it to partitions which that broker leads. A transaction is
        reported only when it has been silent for longer than ``max_transaction_timeout_ms``. A
        value below the brokers' maximum would report transactions that are only slow.
        """
        deadline = self._deadline(timeout_ms)
        chosen = await self._looked_at(partitions, topics, broker_id, deadline)
        errors: list[ApiError] = []
        candidates: list[Candidate] = []
        latest_ms = self._clock.now_ms() - max_transaction_timeout_ms
        for answer in await self.describe_producers(chosen, timeout_ms=self._left_ms(deadline)):
            if answer.error is not None:
                errors.append(answer.error)
            for producer in answer.producers:
                is_open = producer.txn_start_offset is not None
                if is_open and (producer.last_timestamp_ms or 0) <= latest_ms:
                    candidates.append(Candidate(answer.partition, producer))
        if not candidates:
            return HangingTransactions((), errors=errors)
        unanswered = await self._look_up(candidates, deadline)
        left = [candidate for candidate in candidates if not candidate.known]
        still, failed = await self._still_open(left, deadline)
        errors += failed
        if unanswered:
            return HangingTransactions((), unanswered, undecided=still, errors=errors)
        return HangingTransactions(still, errors=errors)

    # ------------------------------------------------------------------------------ ending

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[FencedProducer]:
        """Abort the open transactions of these ids, and fence their producers.

        A fenced producer gets ProducerFencedError from its next call on. The call returns when the
        transactions have ended in all partitions.

        Errors of items: INVALID_TXN_STATE (the id belongs to shared transactions),
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST, or why the coordinator did not
        answer in time.
        """
        answers = await self._ask_each(
            transactional_ids,
            lambda name: InitPidRequest(name, FENCING_TIMEOUT_MS),
            self._deadline(timeout_ms),
        )
        return Results(
            FencedProducer(name, answer)
            if isinstance(answer, ApiError)
            else FencedProducer(name, None, answer.producer_id, answer.producer_epoch)
            for name, answer in answers
        )

    async def abort_transaction(
        self,
        transaction: HangingTransaction | TopicPartition,
        *,
        producer_id: int | None = None,
        start_offset: int | None = None,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> TransactionAbort:
        """End a transaction that is open in a partition.

        It is given as a result of ``find_hanging_transactions``, by its producer, or by the offset
        at which it begins. If a coordinator knows it, that coordinator aborts it in all its
        partitions and fences the producer. Otherwise the leader writes an abort marker into this
        partition, and refuses later records of the transaction.

        :param validate_only: only find out how it would be ended.
        :raises InvalidTxnStateError: no such transaction is open there (any more).
        :raises ApiError, ClientError: it could not be ended, or a broker did not say whether it
            knows the transaction.
        """
        deadline = self._deadline(timeout_ms)
        if isinstance(transaction, HangingTransaction):
            tp = transaction.partition
            producer_id = transaction.producer.producer_id
            start_offset = transaction.producer.txn_start_offset
        else:
            tp = TopicPartition(*transaction)
        if producer_id is None and start_offset is None:
            raise ConfigurationError("say which transaction: producer_id or start_offset")
        producer = await self._open_in(tp, producer_id, start_offset, deadline)
        candidate = Candidate(tp, producer)
        for error in (await self._look_up([candidate], deadline)).values():
            if not candidate.known:
                raise error
        aborted = TransactionAbort(
            tp,
            producer.producer_id,
            producer.producer_epoch,
            candidate.transactional_id if candidate.known else None,
        )
        if validate_only:
            return aborted
        if aborted.transactional_id is not None:
            await self._end_by_coordinator(aborted.transactional_id, deadline)
        else:
            await self._end_by_marker(aborted, deadline)
        return aborted

    # ------------------------------------------------------------------------------ steps

    async def _ask_each(
        self,
        transactional_ids: Iterable[str],
        request_for: Callable[[str], Request],
        deadline: float,
        refused: Refused = refused_at_top,
    ) -> list[tuple[str, Any]]:
        """Return each id with its coordinator's answer, or an ApiError, in the order of asking."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> tuple[str, Any]:
            async with slots:
                try:
                    return name, await self._txn_coordinators.call(
                        name, request_for(name), deadline, refused
                    )
                except (ApiError, DeadlineExceededError) as error:
                    return name, as_api_error(name, error)

        return await asyncio.gather(*(one(name) for name in dict.fromkeys(transactional_ids)))

    async def _open_in(
        self,
        tp: TopicPartition,
        producer_id: int | None,
        start_offset: int | None,
        deadline: float,
    ) -> ProducerDescription:
        """Return the producer whose open transaction is meant, or raise InvalidTxnStateError."""
        (answer,) = await self.describe_producers([tp], timeout_ms=self._left_ms(deadline))
        if answer.error is not None:
            raise answer.error
        for producer in answer.producers:
            if (
                producer.txn_start_offset is not None
                and producer_id in (None, producer.producer_id)
                and start_offset in (None, producer.txn_start_offset)
            ):
                return producer
        what = f"of producer {producer_id}" if producer_id is not None else "so"
        where = "" if start_offset is None else f" from offset {start_offset} on"
        raise InvalidTxnStateError(f"{tp}: no transaction {what} is open{where}")

    async def _end_by_coordinator(self, transactional_id: str, deadline: float) -> None:
        (found,) = await self.describe_transactions(
            [transactional_id], timeout_ms=self._left_ms(deadline)
        )
        if found.error is not None:
            raise found.error
        if not found.shared:
            fenced = await self.fence_producers(
                [transactional_id], timeout_ms=self._left_ms(deadline)
            )
            fenced.raise_for_errors()
            return
        request = EndSharedTxnRequest(
            transactional_id, found.ordinal or 0, found.tag or 0, False, []
        )
        await self._txn_coordinators.call(transactional_id, request, deadline)

    async def _end_by_marker(self, aborted: TransactionAbort, deadline: float) -> None:
        tp = aborted.partition
        request = wire.AbortTransactionRequest(
            tp.topic, tp.partition, aborted.producer_id, aborted.producer_epoch
        )

        async def attempt() -> None:
            response = await self._router.call_broker(
                leader_of(self._router, tp), request, attempt_deadline(deadline)
            )
            if response.error_code:
                raise error_about(tp, response.error_code)

        await self._router.retry(attempt, deadline, "AbortTransaction")

    async def _look_up(
        self, candidates: Sequence[Candidate], deadline: float
    ) -> Mapping[int, BrokerError]:
        """Set ``known`` on each candidate that a coordinator knows.

        It returns the errors of brokers that could not say, if some candidate is not known.
        """
        producer_ids = dict.fromkeys(each.producer.producer_id for each in candidates)
        listed = await self.list_transactions(
            producer_ids=producer_ids, timeout_ms=self._left_ms(deadline)
        )
        names = [item.transactional_id for item in listed]
        described = await self.describe_transactions(names, timeout_ms=self._left_ms(deadline))
        unanswered = dict(listed.unanswered)
        for item in described:
            if item.error is not None and item.error.code != TransactionalIdNotFoundError.code:
                # It is known of by this name, and nobody says what it is doing.
                coordinator = self._txn_coordinators.known(item.transactional_id)
                unanswered.setdefault(-1 if coordinator is None else coordinator, item.error)
            for candidate in candidates:
                candidate.match(item)
        return unanswered

    async def _still_open(
        self, candidates: Sequence[Candidate], deadline: float
    ) -> tuple[list[HangingTransaction], list[ApiError]]:
        partitions = dict.fromkeys(each.partition for each in candidates)
        if not partitions:
            return [], []
        again = await self.describe_producers(partitions, timeout_ms=self._left_ms(deadline))
        now = {
            (answer.partition, producer.producer_id, producer.txn_start_offset)
            for answer in again
            for producer in answer.producers
        }
        still = [
            HangingTransaction(each.partition, each.producer, each.transactional_id)
            for each in candidates
            if (each.partition, each.producer.producer_id, each.producer.txn_start_offset) in now
        ]
        return still, [answer.error for answer in again if answer.error is not None]

    async def _looked_at(
        self,
        partitions: Iterable[TopicPartition] | None,
        topics: Iterable[str] | None,
        broker_id: int | None,
        deadline: float,
    ) -> list[TopicPartition]:
        if topics is None and partitions is None:
            # All of them, also internal ones, as committed offsets may hang as well.
            response = await self._metadata(None, deadline)
            topics = sorted(topic.topic for topic in response.topics)
        chosen = await self._chosen(partitions, topics, deadline)
        if broker_id is not None:
            for topic in dict.fromkeys(tp.topic for tp in chosen):
                await self._router.topic(topic, deadline)
            return [tp for tp in chosen if self._router.cluster.leader(tp) == broker_id]
        return list(chosen)


def _refused(response: Any) -> ApiError | None:
    """Return the error after which a coordinator is asked again; what cannot heal stays."""
    if response.error_code:
        return refused_at_top(response)
    (item,) = response.transactions
    error = error_for(item.error_code) if item.error_code else None
    return error if error is not None and error.retriable else None


def _described(item: wire.DescribedTransaction, coordinator: int | None) -> TransactionDescription:
    name = item.transactional_id
    if item.error_code:
        return TransactionDescription(name, error_about(name, item.error_code))
    partitions = dict.fromkeys(_partitions(item.topics))
    for writer in item.writers:
        partitions.update(dict.fromkeys(_partitions(writer.topics)))
    return TransactionDescription(
        name,
        None,
        item.state,
        coordinator,
        None if item.shared else known(item.producer_id),
        None if item.shared else known(item.producer_epoch),
        known(item.timeout_ms),
        known(item.start_ms),
        tuple(sorted(partitions)),
        item.shared,
        known(item.ordinal),
        known(item.tag),
        known(item.last_committed_tag),
        tuple(
            WriterDescription(w.writer, w.producer_id, tuple(sorted(_partitions(w.topics))))
            for w in item.writers
        ),
    )


def _partitions(topics: Iterable[TxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]
