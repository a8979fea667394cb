"""Some clients of a run write and read Kafka's batches here, as if a listener of Kafka's had taken
their requests.

The door stands before the handlers of Produce and Fetch. What such a client writes becomes Kafka's
on its way in, and what it reads is converted on its way out, by the codec of the product. Its
transactions are asked for in Kafka's words (``kafka_transactions``). All else is that of native
clients, as their retries, so that each checker sees both formats.

Rules:

- whether a client is one of Kafka's is said by the end of its client id, so that nothing is drawn;
- before the cluster takes Kafka's batches such a client writes ours, as an application that changes
  over does; so one producer may write both;
- what does not hold is let through as it is: the broker and the client are to see that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.server.request import AsyncHandler, Buffer, Handler, RequestContext, Respond
from oncelog_controller.features import KAFKA_BATCHES
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.records.batch import KAFKA_MAGIC, parse_header
from oncelog_protocol.records.kafka_conversion import Conversion, to_kafka
from oncelog_protocol.schema import Span
from simulation.kafka_transactions import IdentityDoor, TransactionDoor
from simulation.older_clients import OLDER

TURN_BYTES = 2000
ANSWER_BYTES = 100_000


def speaks_kafka(context: RequestContext) -> bool:
    """Return whether a request is of a client of Kafka's."""
    is_newer = context.client_id[-1:] in "13579" and not context.client_id.startswith(OLDER)
    return is_newer and not context.is_broker


def open_door(broker: Broker) -> None:
    """Put the door before the handlers of a broker that has not been started."""
    install = broker.dispatcher.install

    def with_door(
        handlers: Mapping[ApiKey, Handler], async_handlers: Mapping[ApiKey, AsyncHandler]
    ) -> None:
        doors: dict[ApiKey, Callable[[Handler], Handler]] = {
            ApiKey.PRODUCE: lambda handler: ProduceDoor(handler, broker),
            ApiKey.FETCH: FetchDoor,
            ApiKey.END_TXN: lambda handler: TransactionDoor(handler, broker, speaks_kafka),
            ApiKey.TXN_OFFSET_COMMIT: lambda handler: TransactionDoor(
                handler, broker, speaks_kafka
            ),
        }
        async_doors: dict[ApiKey, Callable[[AsyncHandler], AsyncHandler]] = {
            ApiKey.INIT_PID: lambda handler: IdentityDoor(handler, broker, speaks_kafka)
        }
        install(
            {
                api: doors[api](handler) if api in doors else handler
                for api, handler in handlers.items()
            },
            {
                api: async_doors[api](handler) if api in async_doors else handler
                for api, handler in async_handlers.items()
            },
        )

    broker.dispatcher.install = with_door  # type: ignore[method-assign]


@dataclass(slots=True)
class ProduceDoor:
    """It makes Kafka's batches of what clients of Kafka's write."""

    inner: Handler
    broker: Broker

    def handle(
        self,
        context: RequestContext,
        request: ProduceRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """See ``Handler``."""
        lifecycle = self.broker.lifecycle
        taken = lifecycle is not None and KAFKA_BATCHES in lifecycle.features
        if not (taken and speaks_kafka(context)):
            self.inner.handle(context, request, payload, respond)
            return
        data = bytearray()
        topics = []
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                span = item.batch
                batch = _framed(payload[span.offset : span.offset + span.length])
                items.append(replace(item, batch=Span(len(data), len(batch))))
                data += batch
            topics.append(replace(topic, partitions=items))
        self.inner.handle(
            replace(context, magic=KAFKA_MAGIC),
            replace(request, topics=topics),
            memoryview(data),
            respond,
        )


def _framed(batch: memoryview) -> Buffer:
    try:
        return to_kafka(batch, parse_header(batch))
    except ProtocolError:
        return batch


@dataclass(slots=True)
class FetchDoor:
    """It converts what clients of Kafka's read."""

    inner: Handler

    def handle(
        self,
        context: RequestContext,
        request: FetchRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """See ``Handler``."""
        if not speaks_kafka(context):
            self.inner.handle(context, request, payload, respond)
            return

        def answer(message: Any, payload: Sequence[Buffer] = ()) -> None:
            respond(*converted(message, payload))

        self.inner.handle(context, request, payload, answer)


def converted(
    message: FetchResponse, payload: Sequence[Buffer]
) -> tuple[FetchResponse, Sequence[Buffer]]:
    """Return an answer with all batches in Kafka's format."""
    data = memoryview(b"".join(payload))
    pieces: list[Buffer] = []
    size = 0
    topics = []
    for topic in message.topics:
        answers = []
        for answer in topic.partitions:
            span = answer.records
            if span.length:
                batches = _for_kafka(data[span.offset : span.offset + span.length])
                length = sum(map(len, batches))
                answers.append(replace(answer, records=Span(size, length)))
                pieces += batches
                size += length
            else:
                answers.append(answer)
        topics.append(replace(topic, partitions=answers))
    return replace(message, topics=topics), pieces


def _for_kafka(records: memoryview) -> Sequence[Buffer]:
    conversion = Conversion(records)
    try:
        while not conversion.step(TURN_BYTES, ANSWER_BYTES):
            pass
    except ProtocolError:
        return [records]
    return conversion.pieces
