"""Headers carry the context of a trace."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from oncelog.observability.propagation import VALUE_BYTES_MAX, context_of, link_of, with_context

SPAN = SpanContext(0xABCDEF, 0x1234, is_remote=False, trace_flags=TraceFlags(1))
CONTEXT = trace.set_span_in_context(NonRecordingSpan(SPAN), Context())
TRACEPARENT = b"00-00000000000000000000000000abcdef-0000000000001234-01"


def test_there_and_back() -> None:
    headers = with_context([("a", b"1")], CONTEXT)
    assert headers == [("a", b"1"), ("traceparent", TRACEPARENT)]
    found = trace.get_current_span(context_of(headers)).get_span_context()
    assert (found.trace_id, found.span_id, found.is_remote) == (0xABCDEF, 0x1234, True)
    link = link_of(headers)
    assert link is not None
    assert link.context.span_id == 0x1234


def test_a_context_that_is_there_is_left_alone() -> None:
    headers = [("traceparent", b"somebody else's")]
    assert with_context(headers, CONTEXT) is headers


def test_nothing_is_added_without_a_span() -> None:
    assert list(with_context(None, Context())) == []
    assert list(with_context([("a", None)], Context())) == [("a", None)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff\xfe",
        b"00-zz-zz-01",
        b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
        b"x" * (VALUE_BYTES_MAX + 1),
        TRACEPARENT[:-1],
    ],
)
def test_what_cannot_be_read_counts_as_not_there(value: bytes | None) -> None:
    headers = [("traceparent", value), ("tracestate", b"\x00"), ("baggage", b"=;=,")]
    assert link_of(headers) is None
