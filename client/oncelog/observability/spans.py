"""One client's spans and durations are named by OpenTelemetry's conventions for messaging.

Rules: a client's calls are ``send`` and ``receive``, an application's work on records ``process``.
What was called fails by its exception, which the span records and lets go on. Durations go to
``messaging.client.operation.duration`` and ``messaging.process.duration``, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from oncelog.consumer.record import RecordHeaders
from oncelog.observability.propagation import link_of
from oncelog_runtime.clock import monotonic_s

__all__ = ["LINKS_MAX", "Attributes", "Operation", "Telemetry", "links_of"]

SCOPE = "oncelog"
LINKS_MAX = 128
"""Links of one span, as many as OpenTelemetry keeps by default."""

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The bounds of the histograms, as OpenTelemetry's conventions name them."""

Attributes = Mapping[str, str | int]


def links_of(columns: Iterable[RecordHeaders]) -> list[Link]:
    """Return links to the spans that wrote records, each once, the first LINKS_MAX."""
    found: dict[tuple[int, int], Link] = {}
    for headers in columns:
        link = link_of(headers) if headers else None
        if link is not None:
            found.setdefault((link.context.trace_id, link.context.span_id), link)
            if len(found) >= LINKS_MAX:
                break
    return list(found.values())


class Operation:
    """An operation is a span under way, and its duration."""

    __slots__ = ("_attributes", "_began", "_histogram", "context", "span")

    def __init__(
        self,
        span: Span,
        parent: Context | None,
        histogram: metrics.Histogram,
        attributes: Attributes,
    ) -> None:
        self.span = span
        self.context = trace.set_span_in_context(span, parent)
        self._histogram = histogram
        self._attributes = attributes
        self._began = _now_s()

    def end(self, error: BaseException | None = None, **told: str | int) -> None:
        """End the span. ``told`` becomes attributes, with dots for underscores."""
        attributes = dict(self._attributes)
        for name, value in told.items():
            self.span.set_attribute(name.replace("_", "."), value)
        if error is not None:
            attributes["error.type"] = type(error).__qualname__
            self.span.set_attribute("error.type", type(error).__qualname__)
            self.span.record_exception(error)
            self.span.set_status(Status(StatusCode.ERROR, str(error)))
        self._histogram.record(_now_s() - self._began, attributes)
        self.span.end()

    @contextmanager
    def failing(self) -> Iterator[Operation]:
        """End the span if the block raises; else it goes on."""
        try:
            yield self
        except BaseException as error:
            self.end(error)
            raise

    @contextmanager
    def current(self, *, ends: bool = True) -> Iterator[Operation]:
        """Make the span current in the block, and end it there (without ``ends``, if it raises)."""
        token = contexts.attach(self.context)
        try:
            yield self
        except GeneratorExit:  # a loop was left: nothing has failed
            self.end()
            raise
        except BaseException as error:
            self.end(error)
            raise
        else:
            if ends:
                self.end()
        finally:
            contexts.detach(token)


class Telemetry:
    """One client's spans are made here."""

    def __init__(
        self,
        client_id: str,
        group_id: str | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        """Use these providers; by default use the program's."""
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        histogram = partial(
            meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=BOUNDS_S
        )
        self._operation = histogram(
            "messaging.client.operation.duration", description="Duration of a call of the client."
        )
        self._process = histogram(
            "messaging.process.duration",
            description="Duration of the application's work on records.",
        )
        self._common: dict[str, str | int] = {
            "messaging.system": "oncelog",
            "messaging.client.id": client_id,
        }
        if group_id is not None:
            self._common["messaging.consumer.group.name"] = group_id

    def begin(
        self,
        name: str,
        kind: SpanKind,
        topic: str | None,
        *,
        parent: Context | None = None,
        links: Sequence[Link] = (),
        start_time_ms: int | None = None,
        attributes: Attributes | None = None,
    ) -> Operation:
        """Begin ``send``, ``receive`` or ``process``, which the caller ends."""
        shared = {
            **self._common,
            "messaging.operation.name": name,
            "messaging.operation.type": name,
        }
        if topic is not None:
            shared["messaging.destination.name"] = topic
        span = self._tracer.start_span(
            name if topic is None else f"{name} {topic}",
            context=parent,
            kind=kind,
            attributes={**shared, **(attributes or {})},
            links=links,
            start_time=None if start_time_ms is None else start_time_ms * 1_000_000,
        )
        histogram = self._process if name == "process" else self._operation
        return Operation(span, parent, histogram, shared)


def _now_s() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # a handler's thread
        return monotonic_s()
