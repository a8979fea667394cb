"""Produce, v0: append one batch to each of several partitions, answer when it is held as asked.

``acks`` 0: no answer. 1: when this broker holds it (with ``flush=commit``: synced). -1 (all): when
the high watermark has passed it, that is when every in-sync replica holds it.

Whole-request errors: INVALID_REQUIRED_ACKS, INVALID_REQUEST (a partition twice). Per partition:
TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC (a client writes to an internal topic), whatever the
partition and the log refuse, NOT_ENOUGH_REPLICAS before and NOT_ENOUGH_REPLICAS_AFTER_APPEND after
the append, NOT_LEADER_OR_FOLLOWER when the leadership ends while the request is parked,
REQUEST_TIMED_OUT.

Nothing here is done per record. The batch goes from the receive buffer to the log as a view; it is
gone when ``handle`` returns.
"""

from __future__ import annotations

import logging

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.replication.waiters import Deadline, Waiter
from oncelog_broker.server.authorizer import TOPIC, WRITE, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    ProtocolError,
    RequestTimedOutError,
    StorageError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from oncelog_protocol.types import INTERNAL_TOPICS, Acks, TopicPartition

logger = logging.getLogger(__name__)

_ACKS = frozenset((Acks.NONE, Acks.LEADER, Acks.ALL))


class _Parked:
    """A produce request whose batches are appended and not all acknowledged."""

    __slots__ = ("deadline", "pending", "respond", "response", "waiters")

    def __init__(self, response: ProduceResponse, respond: Respond) -> None:
        self.response = response
        self.respond = respond
        self.pending = 0
        self.waiters: list[tuple[_PartitionAnswer, Waiter]] = []
        self.deadline: Deadline | None = None

    def one_done(self) -> None:
        """A partition's answer is known."""
        self.pending -= 1
        if self.pending == 0:
            if self.deadline is not None:
                self.deadline.cancel()
            self.respond(self.response)

    def expired(self) -> None:
        """Time is up for the partitions that still wait; their records may yet be committed."""
        self.deadline = None
        logger.debug("a produce has waited its time, %d partitions are not held", self.pending)
        for answer, waiter in self.waiters:
            if not answer.done:
                waiter.cancel()
                answer(RequestTimedOutError.code)


class _PartitionAnswer:
    """The callback of one partition of a parked request."""

    __slots__ = ("answer", "done", "parked")

    def __init__(self, parked: _Parked, answer: ProducePartitionResponse) -> None:
        self.parked = parked
        self.answer = answer
        self.done = False

    def __call__(self, error_code: int) -> None:
        self.done = True
        if error_code:
            self.answer.error_code = error_code
            self.answer.base_offset = -1
        self.parked.one_done()


class ProduceHandler:
    """Serves Produce."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: ProduceRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Append, then answer or park.

        :raises InvalidRequiredAcksError, InvalidRequestError: nothing was appended.
        """
        if request.acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks {request.acks}")
        _check_once(request)
        now = self._replicas.now()
        response = ProduceResponse()
        parked = _Parked(response, respond)
        # One more than there are partitions, so that the answer cannot leave before all are tried.
        parked.pending = 1
        for topic in request.topics:
            refusal = self._topic_refusal(context, topic.topic)
            answers: list[ProducePartitionResponse] = []
            for item in topic.partitions:
                answer = ProducePartitionResponse(item.partition)
                answers.append(answer)
                if refusal is not None:
                    answer.error_code = refusal.code
                    answer.error_message = str(refusal)
                else:
                    key = TopicPartition(topic.topic, item.partition)
                    self._append(key, item, request.acks, payload, parked, answer, now)
            response.topics.append(ProduceTopicResponse(topic.topic, answers))
        if request.acks == Acks.NONE:
            respond(None)
            return
        if parked.pending > 1:
            wait_s = min(max(request.timeout_ms, 0), limits.ACK_TIMEOUT_MS_MAX) / 1000
            parked.deadline = self._replicas.deadlines.add(now + wait_s, parked.expired)
        parked.one_done()

    def _topic_refusal(self, context: RequestContext, topic: str) -> ApiError | None:
        if topic in INTERNAL_TOPICS and not context.internal:
            return InvalidTopicError(f"{topic} is internal")
        if not self._authorizer.authorize(context, WRITE, TOPIC, topic):
            return TopicAuthorizationFailedError(f"may not write to {topic}")
        return None

    def _append(
        self,
        topic_partition: TopicPartition,
        item: ProducePartition,
        acks: int,
        payload: memoryview,
        parked: _Parked,
        answer: ProducePartitionResponse,
        now: float,
    ) -> None:
        span = item.batch
        try:
            partition = self._replicas.partition(topic_partition)
            append = partition.append_as_leader(
                payload[span.offset : span.offset + span.length], acks, now
            )
        except ApiError as error:
            answer.error_code = error.code
            answer.error_message = str(error)
            return
        except ProtocolError as error:
            answer.error_code = CorruptMessageError.code
            answer.error_message = str(error)
            return
        except OSError as error:
            logger.error("%s: append failed: %s", topic_partition, error)
            answer.error_code = StorageError.code
            return
        answer.base_offset = append.base_offset
        answer.log_append_time_ms = append.log_append_time_ms
        answer.log_start_offset = partition.log.log_start_offset
        if acks == Acks.NONE:
            return
        callback = _PartitionAnswer(parked, answer)
        parked.pending += 1
        end = append.last_offset + 1
        if acks == Acks.ALL:
            waiter = partition.when_committed(end, callback)
        else:
            waiter = partition.when_synced(end, callback)
        if waiter is not None:
            parked.waiters.append((callback, waiter))


def _check_once(request: ProduceRequest) -> None:
    """One batch per partition and request: more would have no defined order."""
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return
    seen = {(topic.topic, item.partition) for topic in topics for item in topic.partitions}
    if len(seen) != sum(len(topic.partitions) for topic in topics):
        raise InvalidRequestError("a partition occurs twice")
