"""Operations are spans with durations and links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode

from oncelog.observability.propagation import with_context
from oncelog.observability.spans import LINKS_MAX, Telemetry, links_of
from support.spans import Written


def test_an_operation_has_the_names_of_the_conventions() -> None:
    written = Written()
    telemetry = Telemetry("c", "g", **written.options)
    telemetry.begin("send", SpanKind.PRODUCER, "orders").end(messaging_oncelog_offset=7)
    span = written.span("send orders")
    assert span.kind is SpanKind.PRODUCER
    assert dict(span.attributes or {}) == {
        "messaging.system": "oncelog",
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.oncelog.offset": 7,
    }
    (point,) = written.points("messaging.client.operation.duration")
    assert (point.count, point.attributes["messaging.destination.name"]) == (1, "orders")
    assert written.points("messaging.process.duration") == []


def test_the_span_is_current_in_its_block_and_tells_of_an_error() -> None:
    written = Written()
    operation = Telemetry("c", **written.options).begin("process", SpanKind.CONSUMER, None)

    def work() -> None:
        with operation.current():
            assert trace.get_current_span() is operation.span
            raise KeyError("why")

    with pytest.raises(KeyError):
        work()
    assert trace.get_current_span() is not operation.span
    span = written.span("process")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "KeyError"
    assert [event.name for event in span.events] == ["exception"]
    (point,) = written.points("messaging.process.duration")
    assert point.attributes["error.type"] == "KeyError"


def test_a_block_may_leave_the_end_to_others() -> None:
    written = Written()
    operation = Telemetry("c", **written.options).begin("process", SpanKind.CONSUMER, "t")
    with operation.current(ends=False):
        pass
    assert written.spans() == []
    operation.end()
    assert len(written.spans()) == 1


def test_a_loop_that_is_left_is_no_error() -> None:
    written = Written()
    telemetry = Telemetry("c", **written.options)

    def loop() -> Iterator[int]:
        with telemetry.begin("process", SpanKind.CONSUMER, "t").current():
            yield 1

    items: Any = loop()
    next(items)
    items.close()
    assert written.span("process t").status.status_code is StatusCode.UNSET


def test_links_are_told_once_and_are_not_too_many() -> None:
    written = Written()
    headers = []
    for _ in range(LINKS_MAX + 3):
        span = written.tracer.start_span("w", context=Context())
        headers.append(tuple(with_context(None, trace.set_span_in_context(span))))
    assert len(links_of([headers[0], (), headers[1], headers[0]])) == 2
    assert len(links_of(headers)) == LINKS_MAX
    assert links_of([(), (("a", b"b"),)]) == []
