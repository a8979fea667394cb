"""Produce, v0, appends one batch to each of several partitions; it answers when they are held.

``acks`` 0: no answer. 1: when this broker holds it (with ``flush=commit``: synced). -1 (all): when
the high watermark has passed it, that is when every in-sync replica holds it.

Whole-request errors: INVALID_REQUIRED_ACKS (with a transactional id: all but -1), INVALID_REQUEST
(a partition twice, an empty or reserved transactional id), TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
CLUSTER_AUTHORIZATION_FAILED (a batch has a producer id, and IDEMPOTENT_WRITE is denied),
THROTTLING_QUOTA_EXCEEDED (``producer_byte_rate`` is 0; who exceeds another one has its batches
written, and its connection is held).
Per partition: TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC (a client writes to an internal topic),
INVALID_REQUEST (a batch of a transaction without a transactional id, or the reverse),
UNSUPPORTED_FOR_MESSAGE_FORMAT (another format than the listener's, or Kafka's before every broker
can read it),
INVALID_PRODUCER_ID_MAPPING (the producer id is of another principal), whatever the
partition, the log and the transaction coordinator refuse, NOT_ENOUGH_REPLICAS before and
NOT_ENOUGH_REPLICAS_AFTER_APPEND after the append, NOT_LEADER_OR_FOLLOWER when the leadership ends
while the request is delayed, REQUEST_TIMED_OUT.

Nothing here is done per record, except that Kafka's batches for compacted topics are looked at for
keys. The batch goes from the receive buffer to the log as a view; it is gone when ``handle``
returns. Only what must wait is copied: for a transaction coordinator, see
``transactions.verified_appends``, or until its keys have been looked at, see ``key_checks``. Of a
request of the second kind nothing is appended before all of it is looked at, and what came behind
it on its connection is not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from oncelog_broker.log.validator import begin_key_check
from oncelog_broker.replication.purgatory import Deadline, DelayedOperation
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    IDEMPOTENT_WRITE,
    TOPIC,
    WRITE,
    Authorizer,
)
from oncelog_broker.server.client_quotas import NO_QUOTAS, Quotas
from oncelog_broker.server.handlers.key_checks import KeyCheckQueue, WaitingRequest, step_all
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.peer_identity import ANONYMOUS
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.ports import Verifier
from oncelog_broker.transactions.verified_appends import TxnBatch, VerifiedAppends
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    ProtocolError,
    RequestTimedOutError,
    StorageError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
)
from oncelog_protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from oncelog_protocol.quotas import PRODUCER_BYTE_RATE
from oncelog_protocol.records.batch import (
    ATTRIBUTES_LOW_OFFSET,
    KAFKA_MAGIC,
    PRODUCER_OFFSET,
    TRANSACTIONAL_BIT,
)
from oncelog_protocol.types import INTERNAL_TOPICS, Acks, TopicPartition
from oncelog_runtime.structured_logging import get_logger

if TYPE_CHECKING:
    from oncelog_broker.log.key_check import KeyCheck
    from oncelog_broker.log.log_producers import TxnGuard

logger = get_logger(__name__)

_ACKS = frozenset((Acks.NONE, Acks.LEADER, Acks.ALL))


@dataclass(slots=True, eq=False)
class _DelayedProduce:
    """Not all batches of the request are acknowledged, or not yet appended."""

    acks: int
    wait_s: float
    response: ProduceResponse
    respond: Respond
    context: RequestContext
    checks: Mapping[TopicPartition, KeyCheck]
    """Of these batches the keys have been looked at."""
    # One more than there are partitions, so that the answer cannot leave before all are tried.
    pending: int = 1
    operations: list[tuple[_PartitionAnswer, DelayedOperation]] = field(
        init=False, default_factory=list
    )
    deadline: Deadline | None = None

    def one_done(self) -> None:
        """Count a partition whose answer is known; the last one answers the request."""
        self.pending -= 1
        if self.pending == 0:
            if self.deadline is not None:
                self.deadline.cancel()
            self.respond(self.response)

    def expired(self) -> None:
        """Answer the partitions that still wait, as their time is up; their records may yet be
        committed."""
        self.deadline = None
        logger.debug("produce_waited", partitions=self.pending)
        for answer, operation in self.operations:
            if not answer.done:
                operation.cancel()
                answer(RequestTimedOutError.code)


@dataclass(slots=True, eq=False)
class _PartitionAnswer:
    """It is the callback of one partition of a delayed request."""

    delayed: _DelayedProduce
    answer: ProducePartitionResponse
    done: bool = False

    def __call__(self, error_code: int) -> None:
        self.done = True
        if error_code:
            self.answer.error_code = error_code
            self.answer.base_offset = -1
        self.delayed.one_done()


class ProduceHandler:
    """It serves Produce."""

    def __init__(
        self,
        replicas: ReplicaManager,
        authorizer: Authorizer,
        verifier: Verifier,
        quotas: Quotas = NO_QUOTAS,
        takes_kafka: Callable[[], bool] = lambda: False,
    ) -> None:
        """``takes_kafka`` tells whether every broker of the cluster can read Kafka's batches."""
        self._replicas = replicas
        self._takes_kafka = takes_kafka
        self._authorizer = authorizer
        self._quotas = quotas
        self._appends = VerifiedAppends(replicas, verifier)
        self._waiting = KeyCheckQueue()

    def handle(
        self,
        context: RequestContext,
        request: ProduceRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Append, then answer now or later.

        :raises ApiError: nothing was appended, see the module.
        """
        if request.acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks {request.acks}")
        if request.transactional_id is not None:
            if request.acks != Acks.ALL:
                raise InvalidRequiredAcksError("what is written in a transaction needs acks=all")
            check_transactional_id(self._authorizer, context, request.transactional_id)
        _check_once(request)
        self._quotas.charge(context, PRODUCER_BYTE_RATE, len(payload))
        if request.acks != Acks.NONE and self._quotas.is_stopped(context, PRODUCER_BYTE_RATE):
            raise ThrottlingQuotaExceededError("producer_byte_rate is 0")
        self._check_producer_ids(context, request, payload)
        checks = self._checks(context, request, payload)
        if step_all(checks.values()):
            self._append_all(context, request, payload, respond, checks)
            return
        # They take long. Nothing is appended before all are done; the receive buffer is gone then.
        payload = memoryview(bytearray(payload))
        checks = self._checks(context, request, payload)
        go_on = context.connection.keep_behind(len(payload))

        def then() -> None:
            self._append_all(context, request, payload, respond, checks)
            go_on()

        def failed() -> None:
            context.connection.end()
            respond(None)

        is_gone = partial(_is_gone, context)
        self._waiting.add(WaitingRequest(list(checks.values()), is_gone, then, failed))

    def _checks(
        self, context: RequestContext, request: ProduceRequest, payload: memoryview
    ) -> dict[TopicPartition, KeyCheck]:
        """Return the checks for keys that batches of Kafka need before they are appended, of those
        that are not refused anyway."""
        checks: dict[TopicPartition, KeyCheck] = {}
        if context.magic != KAFKA_MAGIC or not self._takes_kafka():
            return checks
        for topic in request.topics:
            for item in topic.partitions:
                key = TopicPartition(topic.topic, item.partition)
                partition = self._replicas.held(key)
                if partition is None or partition.leader is None:
                    continue
                span = item.batch
                batch = payload[span.offset : span.offset + span.length]
                check = begin_key_check(batch, partition.log.config, context.magic)
                if check is not None and self._may_write(context, topic.topic):
                    checks[key] = check
        return checks

    def _may_write(self, context: RequestContext, topic: str) -> bool:
        if topic in INTERNAL_TOPICS and not context.is_broker:
            return False
        return self._authorizer.decision(context, WRITE, TOPIC, topic).allowed

    def _append_all(
        self,
        context: RequestContext,
        request: ProduceRequest,
        payload: memoryview,
        respond: Respond,
        checks: Mapping[TopicPartition, KeyCheck],
    ) -> None:
        """Append every batch, then answer now or later."""
        wait_s = min(max(request.timeout_ms, 0), limits.ACK_TIMEOUT_MS_MAX) / 1000
        delayed = _DelayedProduce(request.acks, wait_s, ProduceResponse(), respond, context, checks)
        for topic in request.topics:
            refusal = self._topic_refusal(context, topic.topic)
            answers: list[ProducePartitionResponse] = []
            for item in topic.partitions:
                answer = ProducePartitionResponse(item.partition)
                answers.append(answer)
                span = item.batch
                batch = payload[span.offset : span.offset + span.length]
                key = TopicPartition(topic.topic, item.partition)
                if refusal is not None:
                    _refuse(answer, refusal)
                elif _is_transactional(batch) != (request.transactional_id is not None):
                    _refuse(answer, InvalidRequestError("transactional bit or id, not both"))
                elif request.transactional_id is not None:
                    named = request.transactional_id
                    self._append_verified(context, named, key, batch, delayed, answer)
                else:
                    self._append(key, batch, delayed, answer)
            delayed.response.topics.append(ProduceTopicResponse(topic.topic, answers))
        if request.acks == Acks.NONE:
            respond(None)
            return
        if delayed.operations:
            self._arm(delayed)
        delayed.one_done()

    def _check_producer_ids(
        self, context: RequestContext, request: ProduceRequest, payload: memoryview
    ) -> None:
        """Check whether the principal may number its batches. WRITE on a topic implies that, and
        is asked for with each, so only a DENY counts here.

        :raises ClusterAuthorizationFailedError: it may not, and there is a batch with a number.
        """
        if not self._authorizer.denies(context, IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME):
            return
        for topic in request.topics:
            for item in topic.partitions:
                span = item.batch
                if _has_producer_id(payload[span.offset : span.offset + span.length]):
                    # The denial goes on record.
                    self._authorizer.authorize(context, IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)
                    raise ClusterAuthorizationFailedError("may not write with a producer id")

    def _topic_refusal(self, context: RequestContext, topic: str) -> ApiError | None:
        if topic in INTERNAL_TOPICS and not context.is_broker:
            return InvalidTopicError(f"topic {topic!r} is internal")
        if not self._authorizer.authorize(context, WRITE, TOPIC, topic):
            return TopicAuthorizationFailedError(f"not allowed to write to topic {topic!r}")
        if context.magic == KAFKA_MAGIC and not self._takes_kafka():
            return UnsupportedForMessageFormatError("not every broker can read Kafka's batches yet")
        return None

    def _append_verified(
        self,
        context: RequestContext,
        transactional_id: str,
        topic_partition: TopicPartition,
        batch: memoryview,
        delayed: _DelayedProduce,
        answer: ProducePartitionResponse,
    ) -> None:
        """Append a batch of a transaction, once it is known to be one."""
        delayed.pending += 1

        def append(view: memoryview, guard: TxnGuard | None) -> None:
            self._append(topic_partition, view, delayed, answer, guard)
            if delayed.operations and delayed.deadline is None and delayed.pending > 1:
                self._arm(delayed)
            delayed.one_done()

        def refuse(error: ApiError) -> None:
            _refuse(answer, error)
            delayed.one_done()

        submitted = TxnBatch(
            transactional_id,
            topic_partition,
            batch,
            append=append,
            refuse=refuse,
            is_gone=partial(_is_gone, context),
            by_number=context.by_number,
        )
        try:
            self._appends.submit(submitted)
        except ApiError as error:
            refuse(error)
        except ProtocolError as error:
            refuse(CorruptMessageError(str(error)))

    def _arm(self, delayed: _DelayedProduce) -> None:
        """Begin the time that the replicas have."""
        if delayed.deadline is None:
            delayed.deadline = self._replicas.deadlines.add(
                self._replicas.now() + delayed.wait_s, delayed.expired
            )

    def _append(
        self,
        topic_partition: TopicPartition,
        batch: memoryview,
        delayed: _DelayedProduce,
        answer: ProducePartitionResponse,
        guard: TxnGuard | None = None,
    ) -> None:
        acks, context = delayed.acks, delayed.context
        user = None if context.principal == ANONYMOUS else context.principal
        try:
            partition = self._replicas.partition(topic_partition)
            now = self._replicas.now()
            append = partition.append_as_leader(
                batch, acks, now, guard, user, context.magic, delayed.checks.get(topic_partition)
            )
        except ApiError as error:
            _refuse(answer, error)
            if isinstance(error, InvalidRecordError) and context.record_errors is not None:
                context.record_errors[topic_partition] = error.records
            return
        except ProtocolError as error:
            _refuse(answer, CorruptMessageError(str(error)))
            return
        except OSError as error:
            logger.error("produce_append_failed", partition=topic_partition, error=error)
            answer.error_code = StorageError.code
            return
        if not append.repeated:
            partition.traffic.produced(append.size_bytes, append.record_count)
        answer.base_offset = append.base_offset
        answer.log_append_time_ms = append.log_append_time_ms
        answer.log_start_offset = partition.log.log_start_offset
        if acks == Acks.NONE:
            return
        callback = _PartitionAnswer(delayed, answer)
        delayed.pending += 1
        end = append.last_offset + 1
        if acks == Acks.ALL:
            operation = partition.when_committed(end, callback)
        else:
            operation = partition.when_synced(end, callback)
        if operation is not None:
            delayed.operations.append((callback, operation))


def _is_transactional(batch: memoryview) -> bool:
    """Return whether the bit in its header says so; a batch that is too short for one is not."""
    return len(batch) > ATTRIBUTES_LOW_OFFSET and bool(
        batch[ATTRIBUTES_LOW_OFFSET] & TRANSACTIONAL_BIT
    )


def _has_producer_id(batch: memoryview) -> bool:
    """Return whether its header names a producer; the id's sign stands first, and none is -1."""
    return len(batch) > PRODUCER_OFFSET and batch[PRODUCER_OFFSET] < 0x80


def _is_gone(context: RequestContext) -> bool:
    return context.connection.closed


def _refuse(answer: ProducePartitionResponse, error: ApiError) -> None:
    answer.error_code = error.code
    answer.error_message = str(error)


def _check_once(request: ProduceRequest) -> None:
    """Refuse more than one batch per partition and request: they would have no defined order."""
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return
    seen = {(topic.topic, item.partition) for topic in topics for item in topic.partitions}
    if len(seen) != sum(len(topic.partitions) for topic in topics):
        raise InvalidRequestError("a partition occurs twice")
