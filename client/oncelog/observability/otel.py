"""``TracedProducer`` and ``TracedConsumer`` are clients that write OpenTelemetry spans.

They are used as ``Producer`` and ``Consumer`` are; whoever uses those pays nothing. The extra
``oncelog[otel]`` brings OpenTelemetry's API; without an SDK set up by the program they write
nothing.

Rules
-----
* A send is one span, whose context travels in the record's headers; ``send_many`` is one span for
  all its records. It ends with the acknowledgement; that of ``enqueue_many``, when all are in line.
* What is done with one record (``async for``, ``run``) is a span that continues the trace of who
  wrote it. What is done with many (``getmany``, ``getbatch``, ``getbatches``, ``batches``) links to
  those who wrote them.
* In a loop over records or batches the span is current in the loop's body and ends when the loop
  comes back for more, or the consumer is closed. What the body raises, only ``run`` and
  ``processing`` see.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar, Unpack

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.consumer import Consumer
from oncelog.consumer.outgoing import ProducerRecord
from oncelog.consumer.record import Record, RecordHeaders
from oncelog.consumer.run_options import RunOptions
from oncelog.observability.propagation import context_of, with_context
from oncelog.observability.spans import Operation, Telemetry, links_of
from oncelog.producer.partition_queue import Delivery, watch
from oncelog.producer.producer import Producer
from oncelog.producer.record_metadata import BatchMetadata, RecordMetadata
from oncelog.producer.send_options import ColumnOptions, RecordOptions
from oncelog_protocol.types import TopicPartition

__all__ = ["TracedConsumer", "TracedProducer", "observe"]

T = TypeVar("T")


class TracedProducer(Producer):
    """A traced producer writes a span for each send; see :class:`oncelog.Producer`.

    :param tracer_provider: default: the program's; :param meter_provider: likewise.
    """

    def __init__(
        self,
        /,
        *args: Any,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._telemetry = Telemetry(
            self._router.options.client_id, None, tracer_provider, meter_provider
        )

    async def send(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send one record in a span; see :meth:`oncelog.Producer.send`."""
        with self._begin(topic, value).failing() as operation:
            written = await (await super().enqueue(topic, value, **_with(operation, options)))
        _end_at(operation, written)
        return written

    async def enqueue(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Put one record in line in a span; see :meth:`oncelog.Producer.enqueue`."""
        with self._begin(topic, value).failing() as operation:
            delivery = await super().enqueue(topic, value, **_with(operation, options))
        watch(delivery, partial(_delivered, operation))
        return delivery

    def send_nowait(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Put one record in line at once, in a span; see :meth:`oncelog.Producer.send_nowait`."""
        with self._begin(topic, value).failing() as operation:
            delivery = super().send_nowait(topic, value, **_with(operation, options))
        watch(delivery, partial(_delivered, operation))
        return delivery

    async def send_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> BatchMetadata:
        """Send a list of records in one span; see :meth:`oncelog.Producer.send_many`."""
        with self._begin_many(topic, len(values)).current() as operation:
            return await super().send_many(
                topic, values, **_all_with(operation, options, len(values))
            )

    async def enqueue_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> None:
        """Put a list of records in line in one span; see :meth:`oncelog.Producer.enqueue_many`."""
        with self._begin_many(topic, len(values)).current() as operation:
            await super().enqueue_many(topic, values, **_all_with(operation, options, len(values)))

    def _begin(self, topic: str, value: bytes | None) -> Operation:
        size = len(value) if isinstance(value, bytes) else 0
        attributes = {"messaging.message.body.size": size}
        return self._telemetry.begin("send", SpanKind.PRODUCER, topic, attributes=attributes)

    def _begin_many(self, topic: str, count: int) -> Operation:
        attributes = {"messaging.batch.message_count": count}
        return self._telemetry.begin("send", SpanKind.PRODUCER, topic, attributes=attributes)


def _end_at(operation: Operation, written: RecordMetadata) -> None:
    operation.end(
        messaging_destination_partition_id=str(written.partition),
        messaging_oncelog_offset=written.offset,
    )


def _delivered(operation: Operation, outcome: RecordMetadata | BaseException) -> None:
    """End the span with the delivery, without looking at its outcome for the application."""
    if isinstance(outcome, BaseException):
        operation.end(outcome)
    else:
        _end_at(operation, outcome)


def _with(operation: Operation, options: RecordOptions) -> RecordOptions:
    return {**options, "headers": with_context(options.get("headers"), operation.context)}


def _all_with(operation: Operation, options: ColumnOptions, count: int) -> ColumnOptions:
    headers, context = options.get("headers"), operation.context
    if headers is None:
        return {**options, "headers": [with_context(None, context)] * count}
    return {**options, "headers": [with_context(each, context) for each in headers]}


class TracedConsumer(Consumer):
    """A traced consumer has spans for reads and handlers; see :class:`oncelog.Consumer`.

    :param tracer_provider: default: the program's; :param meter_provider: likewise.
    """

    def __init__(
        self,
        /,
        *topics: str,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*topics, **options)
        self._telemetry = Telemetry(
            self._router.options.client_id,
            self._core.group_options.group_id,
            tracer_provider,
            meter_provider,
        )
        self._body: tuple[Operation, Context] | None = None
        """The span of a loop's body, and the context around the loop."""

    def processing(self, record: Record) -> AbstractContextManager[Operation]:
        """Return the span of the work on a record that ``getone`` or ``getmany`` has handed out.

        Use it as ``with consumer.processing(record): ...``.
        """
        return self._processing(record).current()

    def processing_many(self, records: Sequence[Record]) -> AbstractContextManager[Operation]:
        """Return the span of the work on several records. It links to those who wrote them."""
        topics = dict.fromkeys(record.topic for record in records)
        operation = self._telemetry.begin(
            "process",
            SpanKind.CONSUMER,
            next(iter(topics)) if len(topics) == 1 else None,
            links=links_of(record.headers for record in records),
            attributes={"messaging.batch.message_count": len(records)},
        )
        return operation.current()

    # ------------------------------------------------------------------------------ loops

    def __aiter__(self) -> AsyncIterator[Record]:
        return _Loop(self, super().__aiter__(), self._processing)

    def until_idle(self, seconds: float) -> AsyncIterator[Record]:
        """Yield records, each with a span; see :meth:`oncelog.Consumer.until_idle`."""
        return _Loop(self, super().until_idle(seconds), self._processing)

    def batches(self) -> AsyncIterator[ColumnBatch]:
        """Yield batches, each with a span; see :meth:`oncelog.Consumer.batches`."""
        return _Loop(self, super().batches(), self._processing_batch)

    def _processing(self, record: Record) -> Operation:
        return self._telemetry.begin(
            "process",
            SpanKind.CONSUMER,
            record.topic,
            parent=context_of(record.headers),
            attributes={
                "messaging.destination.partition.id": str(record.partition),
                "messaging.oncelog.offset": record.offset,
                "messaging.message.body.size": len(record.value or b""),
            },
        )

    def _processing_batch(self, batch: ColumnBatch) -> Operation:
        return self._telemetry.begin(
            "process",
            SpanKind.CONSUMER,
            batch.topic,
            links=links_of(batch.headers or ()),
            attributes={
                "messaging.destination.partition.id": str(batch.partition),
                "messaging.batch.message_count": len(batch),
            },
        )

    def _enter_body(self, operation: Operation) -> None:
        self._body = (operation, contexts.get_current())
        contexts.attach(operation.context)

    def _leave_body(self) -> None:
        """End the span of the loop's body.
        Its context may be another task's by now: it is put back only where the span is current.
        """
        body, self._body = self._body, None
        if body is not None:
            operation, around = body
            if trace.get_current_span() is operation.span:
                contexts.attach(around)
            operation.end()

    async def close(self) -> None:
        """End the span of a loop's body, and close; see :meth:`oncelog.Consumer.close`."""
        self._leave_body()
        await super().close()

    # ------------------------------------------------------------------------------ lists

    async def getone(self) -> Record:
        """Return the next record; see :meth:`oncelog.Consumer.getone`."""
        self._leave_body()
        return await super().getone()

    async def getmany(
        self, *, max_records: int | None = None, timeout_ms: int = 0
    ) -> dict[TopicPartition, list[Record]]:
        """Return the records that are there; see :meth:`oncelog.Consumer.getmany`."""
        return await self._receive(
            super().getmany(max_records=max_records, timeout_ms=timeout_ms),
            lambda found: [
                _Received(tp.topic, [record.headers for record in records], len(records))
                for tp, records in found.items()
            ],
        )

    async def getbatch(self) -> ColumnBatch:
        """Return the next batch; see :meth:`oncelog.Consumer.getbatch`."""
        return await self._receive(super().getbatch(), lambda batch: _received([batch]))

    async def getbatches(
        self,
        partition: TopicPartition,
        end_offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 16 * 1024 * 1024,
        timeout_ms: int = 60_000,
    ) -> list[ColumnBatch]:
        """Return batches of one partition; see :meth:`oncelog.Consumer.getbatches`."""
        limits = {"max_records": max_records, "max_bytes": max_bytes, "timeout_ms": timeout_ms}
        return await self._receive(super().getbatches(partition, end_offset, **limits), _received)

    async def _receive(
        self, call: Coroutine[Any, Any, T], parts_of: Callable[[T], list[_Received]]
    ) -> T:
        """Make a call, and write its span when it is over: no answer without records has one."""
        self._leave_body()
        began_ms = self._clock.now_ms()
        found = await call
        parts = parts_of(found)
        if parts:
            topics = {part.topic for part in parts}
            self._telemetry.begin(
                "receive",
                SpanKind.CLIENT,
                topics.pop() if len(topics) == 1 else None,
                links=links_of(chain.from_iterable(part.headers for part in parts)),
                start_time_ms=began_ms,
                attributes={"messaging.batch.message_count": sum(part.records for part in parts)},
            ).end()
        return found

    # ------------------------------------------------------------------------------ run

    def _run_options(self, handler: Callable[[Any], object], options: dict[str, Any]) -> RunOptions:
        """Let each attempt have a span, whose context goes with what the handler returns."""
        self._leave_body()
        if callable(handler):
            decode = options.get("decode")
            if decode is None or (callable(decode) and not inspect.iscoroutinefunction(decode)):
                options["decode"] = partial(_carried, decode)
                handler = _traced_handler(handler, self._processing)
        return super()._run_options(handler, options)


class _Received(NamedTuple):
    """A call handed out records of a topic, with these headers."""

    topic: str
    headers: Iterable[RecordHeaders]
    records: int


def _received(batches: Iterable[ColumnBatch]) -> list[_Received]:
    return [_Received(batch.topic, batch.headers or (), len(batch)) for batch in batches]


class _Carried(NamedTuple):
    """A traced handler is given the record, for its headers, and what it is called with."""

    record: Record
    payload: Any


def _carried(decode: Callable[[Record], Any] | None, record: Record) -> _Carried:
    return _Carried(record, record if decode is None else decode(record))


def _traced_handler(
    handler: Callable[[Any], Any], processing: Callable[[Record], Operation]
) -> Callable[[_Carried], Any]:
    """Wrap the handler in a span for each call; its kind stays: see ``RunOptions.is_async``."""
    kinds = (handler, getattr(handler, "__call__", None))  # noqa: B004 - an object's own

    async def generated(carried: _Carried) -> object:
        with processing(carried.record).current() as operation:
            return _onward([item async for item in handler(carried.payload)], operation.context)

    async def awaited(carried: _Carried) -> object:
        with processing(carried.record).current() as operation:
            return _onward(await handler(carried.payload), operation.context)

    def called(carried: _Carried) -> object:
        operation = processing(carried.record)
        with operation.current(ends=False):
            returned = handler(carried.payload)
            if inspect.isgenerator(returned):
                returned = list(returned)
        if inspect.isawaitable(returned):  # a plain function that returns a coroutine
            return later(operation, returned)
        operation.end()
        return _onward(returned, operation.context)

    async def later(operation: Operation, rest: Awaitable[object]) -> object:
        with operation.current():
            return _onward(await rest, operation.context)

    if any(inspect.isasyncgenfunction(each) for each in kinds):
        return generated
    return awaited if any(inspect.iscoroutinefunction(each) for each in kinds) else called


def _onward(returned: object, context: Context) -> object:
    """Let what a handler returns for the log continue the trace; return anything else as it is."""
    if isinstance(returned, ProducerRecord):
        return returned._replace(headers=with_context(returned.headers, context))
    if isinstance(returned, list):
        return [_onward(item, context) for item in returned]
    return returned


class _Loop(AsyncIterator[T]):
    """The iterator yields items one by one, each with its span while the loop's body is at it."""

    def __init__(
        self,
        consumer: TracedConsumer,
        items: AsyncIterator[T],
        processing: Callable[[T], Operation],
    ) -> None:
        self._consumer = consumer
        self._items = items
        self._processing = processing

    async def __anext__(self) -> T:
        self._consumer._leave_body()
        item = await anext(self._items)
        self._consumer._enter_body(self._processing(item))
        return item

    async def aclose(self) -> None:
        """End the span of the loop's body, and close the items as an asynchronous generator."""
        self._consumer._leave_body()
        if isinstance(self._items, AsyncGenerator):
            await self._items.aclose()


def processing_batch(
    consumer: TracedConsumer, batch: ColumnBatch
) -> AbstractContextManager[Operation]:
    """Return the span of the batch that the application is at."""
    return consumer._processing_batch(batch).current()


def observe(
    client: Producer | Consumer, meter_provider: metrics.MeterProvider | None = None
) -> None:
    """Let a meter read a client's counters, traced or not.

    They are ``messaging.client.sent.messages``, ``messaging.client.consumed.messages`` and, of
    consumers, ``oncelog.consumer.lag``.
    """
    meter = metrics.get_meter("oncelog", meter_provider=meter_provider)
    client_id = client.metrics().client_id
    common = {"messaging.system": "oncelog", "messaging.client.id": client_id}

    def by_topic(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        totals: Mapping[str, int] = client.metrics().topic_record_totals
        for topic, count in totals.items():
            yield metrics.Observation(
                count, {**common, "messaging.destination.name": topic, **operation}
            )

    def lag(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        assert isinstance(client, Consumer)
        for (topic, partition), behind in client.metrics().records_lag.items():
            where = {
                "messaging.destination.name": topic,
                "messaging.destination.partition.id": str(partition),
            }
            yield metrics.Observation(behind, {**common, **where})

    if isinstance(client, Consumer):
        operation = {"messaging.operation.name": "receive"}
        name, text = "messaging.client.consumed.messages", "Records handed out."
        meter.create_observable_gauge(
            "oncelog.consumer.lag", [lag], unit="{message}", description="Offsets behind."
        )
    else:
        operation = {"messaging.operation.name": "send"}
        name, text = "messaging.client.sent.messages", "Records acknowledged."
    meter.create_observable_counter(name, [by_topic], unit="{message}", description=text)
