"""An exchange is one request of Kafka's: it asks our handlers, and answers in Kafka's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oncelog_broker.kafka.error_codes import kafka_code
from oncelog_broker.kafka.transactional_clients import ends_by_epoch, ends_by_number
from oncelog_broker.kafka.wire.declaration import KafkaMessage
from oncelog_broker.server.connection import ResponseSlot
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import Buffer, RequestContext
from oncelog_broker.server.request_dispatcher import RequestDispatcher, refusal
from oncelog_protocol import schema
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import InvalidRequestError, LocalProtocolError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Then = Callable[[Any, Sequence[Buffer]], None]
"""It is called with the answer of one of our handlers, and with its payload."""


class KafkaExchange:
    """It is given to the translation of one API, and answered once."""

    __slots__ = (
        "_dispatcher",
        "_incoming",
        "_numbers",
        "_slot",
        "context",
        "image",
        "mechanisms",
        "record_errors",
    )

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        image: MetadataImage,
        context: RequestContext,
        incoming: IncomingRequest,
        slot: ResponseSlot,
        *,
        mechanisms: tuple[Mechanism, ...] = (),
        numbers: bool = False,
    ) -> None:
        """``numbers``: transactions may end by number."""
        self._dispatcher = dispatcher
        self._incoming = IncomingRequest(
            incoming.api_key,
            incoming.api_version,
            incoming.correlation_id,
            incoming.client_id,
            None,
            incoming.payload,
        )
        self._slot = slot
        self.mechanisms = mechanisms
        """Clients of the listener authenticate by one of these."""
        self.image = image
        """It tells names of topics by their ids, and the reverse."""
        self.record_errors: dict[TopicPartition, Sequence[int]] = {}
        """Which records of a batch were refused, by number."""
        self._numbers = numbers
        by_number = numbers and ends_by_number(
            incoming.api_key, incoming.api_version, context.connection.software
        )
        self.context = context.told(
            context.api_version,
            magic=KAFKA_MAGIC,
            by_number=by_number,
            record_errors=self.record_errors,
        )

    @property
    def version(self) -> int:
        """Return the version of Kafka's API that was asked in."""
        return self._incoming.api_version

    @property
    def has_transactions(self) -> bool:
        """Return whether the client may have transactions; of an API that they need."""
        if self._numbers:
            return True
        software = self.context.connection.software
        return ends_by_epoch(self._incoming.api_key, self.version, software)

    def code(self, code: int) -> int:
        """Return an error code as the client knows it."""
        return kafka_code(self._incoming.api_key, self.version, code)

    def ask(self, request: Request, then: Then) -> None:
        """Have our handler serve ``request``; ``then`` gets its answer, now or later. A request
        above one of our limits is refused as a whole."""
        version = type(request).versions[1]
        try:
            schema.encode(request, version)
        except LocalProtocolError as exc:
            then(refusal(request, InvalidRequestError.code, str(exc)), ())
            return
        asked = self._incoming
        native = IncomingRequest(
            int(request.api_key),
            version,
            asked.correlation_id,
            asked.client_id,
            request,
            asked.payload,
        )
        context = self.context.told(
            version,
            magic=KAFKA_MAGIC,
            by_number=self.context.by_number,
            record_errors=self.record_errors,
        )
        self._dispatcher.dispatch(context, native, _Awaited(self, then))

    def ask_all(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        """Ask several at once; ``then`` gets all answers, in the order of the requests."""
        answers: list[Any] = [None] * len(requests)
        missing = len(requests)

        def one(index: int, answer: Any, payload: Sequence[Buffer]) -> None:
            nonlocal missing
            answers[index] = answer
            missing -= 1
            if not missing:
                then(answers)

        if not requests:
            then(answers)
        for index, request in enumerate(requests):
            self.ask(request, partial(one, index))

    def answer(
        self, message: KafkaMessage, payload: Sequence[Buffer] = (), *, counted: Any = None
    ) -> None:
        """Answer the client.

        :param counted: the answer of ours whose errors are counted, if ``message`` has none.
        """
        self._slot(message, payload, counted=counted)

    def end(self, *, close_after: bool = False) -> None:
        """End the request without an answer."""
        self._slot(None, close_after=close_after)

    def refuse(self, reason: str) -> None:
        """Close the connection, for what the client asks or has become of it."""
        self._slot.abort(reason)

    def failed(self, error: Exception) -> None:
        """Close the connection, as the answer cannot be told in Kafka's words."""
        logger.error("kafka_answer_failed", api_key=self._incoming.api_key, error=error)
        self._slot.abort("an answer cannot be told in Kafka's words")


class _Awaited:
    """It stands in the place of the client before one of our handlers."""

    __slots__ = ("_exchange", "_then", "done", "holding")

    def __init__(self, exchange: KafkaExchange, then: Then) -> None:
        self._exchange = exchange
        self._then = then
        self.done = False
        self.holding = False

    def __call__(
        self, message: Any, payload: Sequence[Buffer] = (), *, close_after: bool = False
    ) -> None:
        if self.done:
            raise RuntimeError("a request is answered twice")
        self.done = True
        if message is None:
            self._exchange.end(close_after=close_after)
            return
        try:
            self._then(message, payload)
        except Exception as exc:
            self._exchange.failed(exc)

    def abort(self, reason: str) -> None:
        """Close the connection at once instead."""
        self._exchange.refuse(reason)
