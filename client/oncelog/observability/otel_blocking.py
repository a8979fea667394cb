"""The synchronous clients with OpenTelemetry spans: see ``oncelog.observability.otel``.

Rules: the current span of the calling thread is the parent of what it sends. Spans of work on
records are current in the thread that does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from oncelog import blocking
from oncelog.blocking import _blocking, _closing, _delivering, _delivering_now, _Face
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.record import Record
from oncelog.observability.otel import TracedConsumer as AsyncTracedConsumer
from oncelog.observability.otel import TracedProducer as AsyncTracedProducer
from oncelog.observability.spans import Operation

__all__ = ["TracedConsumer", "TracedProducer"]


class TracedProducer(blocking.Producer):
    """:class:`oncelog.blocking.Producer`, traced as ``otel.TracedProducer``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _Face.__init__(self, AsyncTracedProducer(*args, **options))

    def __enter__(self) -> TracedProducer:
        return cast(TracedProducer, super().__enter__())

    send = _blocking(AsyncTracedProducer.send)
    enqueue = _delivering(AsyncTracedProducer.enqueue)
    send_nowait = _delivering_now(AsyncTracedProducer.send_nowait)
    send_many = _blocking(AsyncTracedProducer.send_many)
    enqueue_many = _blocking(AsyncTracedProducer.enqueue_many)


class TracedConsumer(blocking.Consumer):
    """:class:`oncelog.blocking.Consumer`, traced as ``otel.TracedConsumer``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _Face.__init__(self, AsyncTracedConsumer(*args, **options))

    def __enter__(self) -> TracedConsumer:
        return cast(TracedConsumer, super().__enter__())

    close = _closing(AsyncTracedConsumer.close)
    getone = _blocking(AsyncTracedConsumer.getone)
    getmany = _blocking(AsyncTracedConsumer.getmany)
    getbatch = _blocking(AsyncTracedConsumer.getbatch)
    getbatches = _blocking(AsyncTracedConsumer.getbatches)
    run = _blocking(AsyncTracedConsumer.run)

    @property
    def _traced(self) -> AsyncTracedConsumer:
        return cast(AsyncTracedConsumer, self._client)

    def processing(self, record: Record) -> AbstractContextManager[Operation]:
        """See :meth:`oncelog.observability.otel.TracedConsumer.processing`."""
        return self._traced.processing(record)

    def processing_many(self, records: Sequence[Record]) -> AbstractContextManager[Operation]:
        """See :meth:`oncelog.observability.otel.TracedConsumer.processing_many`."""
        return self._traced.processing_many(records)

    def __iter__(self) -> Iterator[Record]:
        """Records until the consumer is closed, each with its span while the body is at it."""
        for record in super().__iter__():
            with self.processing(record):
                yield record

    def batches(self) -> Iterator[ColumnBatch]:
        """Batches as columns, likewise."""
        for batch in super().batches():
            with self._traced._processing_batch(batch).current():
                yield batch
