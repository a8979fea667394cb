"""The synchronous clients write OpenTelemetry spans as ``oncelog.observability.otel`` does.

Rules: the current span of the calling thread is the parent of what it sends. Spans of work on
records are current in the thread that does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from oncelog import blocking, face
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.record import Record
from oncelog.observability.otel import TracedConsumer as AsyncTracedConsumer
from oncelog.observability.otel import TracedProducer as AsyncTracedProducer
from oncelog.observability.otel import processing_batch
from oncelog.observability.spans import Operation

__all__ = ["TracedConsumer", "TracedProducer"]


class TracedProducer(blocking.Producer):
    """The producer is an :class:`oncelog.blocking.Producer`, traced as ``otel.TracedProducer``."""

    @face.making(AsyncTracedProducer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        face.BlockingClient.__init__(self, AsyncTracedProducer(*args, **options))


class TracedConsumer(blocking.Consumer):
    """The consumer is an :class:`oncelog.blocking.Consumer`, traced as ``otel.TracedConsumer``."""

    @face.making(AsyncTracedConsumer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        face.BlockingClient.__init__(self, AsyncTracedConsumer(*args, **options))

    @property
    def _traced(self) -> AsyncTracedConsumer:
        return cast(AsyncTracedConsumer, self._client)

    def processing(self, record: Record) -> AbstractContextManager[Operation]:
        """Return the span of the work on a record; see ``otel.TracedConsumer.processing``."""
        return self._traced.processing(record)

    def processing_many(self, records: Sequence[Record]) -> AbstractContextManager[Operation]:
        """Return the span of the work on records; see ``otel.TracedConsumer.processing_many``."""
        return self._traced.processing_many(records)

    def __iter__(self) -> Iterator[Record]:
        """Yield records until the consumer is closed, each with a span for the loop's body."""
        for record in super().__iter__():
            with self.processing(record):
                yield record

    def until_idle(self, seconds: float) -> Iterator[Record]:
        """Yield records until none has come for ``seconds``, each with its span."""
        for record in super().until_idle(seconds):
            with self.processing(record):
                yield record

    def batches(self) -> Iterator[ColumnBatch]:
        """Yield batches as columns, each with its span."""
        for batch in super().batches():
            with processing_batch(self._traced, batch):
                yield batch
