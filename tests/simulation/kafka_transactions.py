"""The doors of transactions are here, where some clients of a run ask in Kafka's words.

What a native client asks becomes the bytes of a newer client of Kafka's (KIP-890), is read by the
product's codec, translated by it as behind a listener of Kafka's, and served by the broker's own
handler. The answer goes the same way back. So all checkers of transactions judge the translation.

Rules:

- Kafka's TxnOffsetCommit names no ids of topics. The native client knows them and its history
  counts on them, so they are put back behind the translation;
- an error of a whole TxnOffsetCommit comes back for each partition. It is one of the whole again
  for the native client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.router import TRANSLATIONS
from oncelog_broker.kafka.wire.codec import decode, encode
from oncelog_broker.kafka.wire.declaration import KafkaMessage, KafkaRequest
from oncelog_broker.kafka.wire.messages.end_txn import KafkaEndTxnRequest
from oncelog_broker.kafka.wire.messages.init_producer_id import KafkaInitProducerIdRequest
from oncelog_broker.kafka.wire.messages.txn_offset_commit import (
    KafkaTxnOffsetCommitRequest,
    KafkaTxnOffsetCommitRequestPartition,
    KafkaTxnOffsetCommitRequestTopic,
)
from oncelog_broker.server.request import AsyncHandler, Buffer, Handler, RequestContext, Respond
from oncelog_broker.server.request_dispatcher import refusal
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import (
    ApiError,
    InconsistentTopicIdError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopicResponse,
)

NEWER = 5
"""In this version of each of the three APIs newer clients ask."""

OF_ONE_PARTITION = {
    each.code
    for each in (
        InconsistentTopicIdError,
        OffsetMetadataTooLargeError,
        TopicAuthorizationFailedError,
        UnknownTopicOrPartitionError,
    )
}


# ---- there and back


def init_to_kafka(request: InitPidRequest) -> KafkaRequest:
    """Return the request in Kafka's words."""
    return KafkaInitProducerIdRequest(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )


def init_from_kafka(answer: Any) -> InitPidResponse:
    """Return the answer in ours."""
    return InitPidResponse(answer.error_code, None, answer.producer_id, answer.producer_epoch)


def end_to_kafka(request: EndTxnRequest) -> KafkaRequest:
    """Return the request in Kafka's words."""
    return KafkaEndTxnRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, request.commit
    )


def end_from_kafka(answer: Any) -> EndTxnResponse:
    """Return the answer in ours."""
    return EndTxnResponse(answer.error_code, None, answer.producer_id, answer.producer_epoch)


def offsets_to_kafka(request: TxnOffsetCommitRequest) -> KafkaRequest:
    """Return the request in Kafka's words."""
    return KafkaTxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        [
            KafkaTxnOffsetCommitRequestTopic(
                topic.topic,
                [
                    KafkaTxnOffsetCommitRequestPartition(
                        part.partition, part.offset, part.leader_epoch, part.metadata
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def offsets_from_kafka(answer: Any) -> TxnOffsetCommitResponse:
    """Return the answer in ours."""
    codes = {part.error_code for topic in answer.topics for part in topic.partitions}
    if len(codes) == 1 and not codes & {0, *OF_ONE_PARTITION}:
        return TxnOffsetCommitResponse(codes.pop())
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitTopicResponse(
                topic.name,
                [
                    TxnOffsetCommitPartitionResponse(part.partition_index, part.error_code)
                    for part in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
    )


WORDS: dict[int, tuple[Callable[[Any], KafkaRequest], Callable[[Any], Any]]] = {
    ApiKey.INIT_PID: (init_to_kafka, init_from_kafka),
    ApiKey.END_TXN: (end_to_kafka, end_from_kafka),
    ApiKey.TXN_OFFSET_COMMIT: (offsets_to_kafka, offsets_from_kafka),
}
"""How each of the three is told in Kafka's words, and its answer in ours."""


def with_ids(request: Any, native: Any) -> Any:
    """Return what the translation asks, with the ids of topics that the client had named."""
    if not isinstance(native, TxnOffsetCommitRequest):
        return native
    topics = [
        replace(topic, topic_id=named.topic_id)
        for topic, named in zip(native.topics, request.topics, strict=True)
    ]
    return replace(native, topics=topics)


def on_the_wire(message: KafkaMessage) -> Any:
    """Return the message as its reader has it."""
    data = b"".join(bytes(each) for each in encode(message, NEWER, []))
    return decode(type(message), NEWER, memoryview(data), 0)


# ---- the doors


@dataclass(slots=True)
class Slot:
    """It stands in the place of the connection: it takes Kafka's answer, and tells it natively."""

    api: ApiKey
    respond: Callable[[Any], None]
    abort: Callable[[str], None]

    def __call__(
        self,
        message: KafkaMessage | None,
        payload: Sequence[Buffer] = (),
        *,
        close_after: bool = False,
        counted: Any = None,
    ) -> None:
        """Answer."""
        self.respond(None if message is None else WORDS[self.api][1](on_the_wire(message)))


@dataclass(slots=True)
class Asking:
    """It stands in the place of the dispatcher: it is given what the translation asks of ours."""

    served: Callable[[RequestContext, Any, Any], None]

    def dispatch(self, context: RequestContext, incoming: IncomingRequest, respond: Any) -> None:
        """Have ``served`` serve it."""
        self.served(context, incoming.message, respond)


def ask(broker: Broker, context: RequestContext, request: Any, asking: Asking, slot: Slot) -> None:
    """Ask in Kafka's words."""
    api = request.api_key
    message = on_the_wire(WORDS[api][0](request))
    incoming = IncomingRequest(api, NEWER, 0, context.client_id, message, memoryview(b""))
    stand_ins: Any = (asking, slot)
    exchange = KafkaExchange(stand_ins[0], broker.image, context, incoming, stand_ins[1])
    TRANSLATIONS[api](exchange, message)


@dataclass(slots=True)
class TransactionDoor:
    """It stands before EndTxn and TxnOffsetCommit."""

    inner: Handler
    broker: Broker
    speaks_kafka: Callable[[RequestContext], bool]

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """See ``Handler``."""
        if not self.speaks_kafka(context):
            self.inner.handle(context, request, payload, respond)
            return

        def served(asked: RequestContext, native: Any, answer: Any) -> None:
            try:
                self.inner.handle(asked, with_ids(request, native), memoryview(b""), answer)
            except ApiError as error:
                answer(refusal(native, error.code, str(error)))

        slot = Slot(request.api_key, respond, aborting(context))
        ask(self.broker, context, request, Asking(served), slot)


@dataclass(slots=True)
class IdentityDoor:
    """It stands before InitPid."""

    inner: AsyncHandler
    broker: Broker
    speaks_kafka: Callable[[RequestContext], bool]

    async def handle_async(self, context: RequestContext, request: InitPidRequest) -> Any:
        """See ``AsyncHandler``."""
        if request.transactional_id is None or not self.speaks_kafka(context):
            return await self.inner.handle_async(context, request)
        asked: list[tuple[RequestContext, Any, Any]] = []
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        slot = Slot(ApiKey.INIT_PID, told.set_result, aborting(context))
        ask(self.broker, context, request, Asking(lambda *each: asked.append(each)), slot)
        for native_context, native, answer in asked:
            try:
                answer(await self.inner.handle_async(native_context, native))
            except ApiError as error:
                answer(refusal(native, error.code, str(error)))
        return await told


def aborting(context: RequestContext) -> Callable[[str], None]:
    """Return what is done where a translation fails, which it never may."""

    def abort(reason: str) -> None:
        raise AssertionError(f"{context.client_id}: {reason}")

    return abort
