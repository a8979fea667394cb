"""A trace's context travels in the headers of records (W3C ``traceparent``, ``tracestate``).

Rules: the program's global propagator chooses the headers. Headers that a record has already are
left alone: who relays records keeps the context of who made them. Anybody may write headers: those
that cannot be read count as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter

from oncelog.producer.checks import Headers

__all__ = ["VALUE_BYTES_MAX", "context_of", "link_of", "with_context"]

VALUE_BYTES_MAX = 16 * 1024
"""Longer headers are no context: W3C's baggage, the longest, has 8 KiB."""

Carrier = Sequence[tuple[str, bytes | None]]


class _HeaderReader(Getter[Carrier]):
    """Headers are read by name; the first of a name counts."""

    def get(self, carrier: Carrier, key: str) -> list[str] | None:
        for name, value in carrier:
            if name == key and value is not None and len(value) <= VALUE_BYTES_MAX:
                try:
                    return [value.decode()]
                except UnicodeDecodeError:
                    return None
        return None

    def keys(self, carrier: Carrier) -> list[str]:
        return [name for name, _ in carrier]


class _HeaderWriter(Setter[list[tuple[str, bytes | None]]]):
    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_READER = _HeaderReader()
_WRITER = _HeaderWriter()


def with_context(headers: Headers | None, context: Context) -> Headers:
    """Return ``headers`` and the context, unless they carry one already."""
    added: list[tuple[str, bytes | None]] = []
    propagate.inject(added, context, _WRITER)
    if not headers:
        return added
    names = {name for name, _ in headers}
    if names.intersection(name for name, _ in added):
        return headers
    return [*headers, *added]


def context_of(headers: Iterable[tuple[str, bytes | None]]) -> Context:
    """Return the context in the headers of a record; it is empty where there is none."""
    return propagate.extract(tuple(headers), Context(), _READER)


def link_of(headers: Iterable[tuple[str, bytes | None]]) -> trace.Link | None:
    """Return a link to the span that wrote the record, or None if its headers name none."""
    span = trace.get_current_span(context_of(headers)).get_span_context()
    return trace.Link(span) if span.is_valid else None
