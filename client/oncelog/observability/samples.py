"""Exporters get a snapshot as named samples. Pure.

Rules: names are Prometheus', ``oncelog_client_`` and the field's name; labels are few and bounded:
``client_id``, and ``topic`` or ``topic`` and ``partition`` where a figure is of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from oncelog.observability.metrics import ClientMetrics, Latency
from oncelog_protocol.types import TopicPartition

__all__ = ["PREFIX", "Sample", "samples"]

PREFIX = "oncelog_client_"
Kind = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """A sample is one figure with its name and labels."""

    name: str
    kind: Kind
    value: float | Latency
    labels: Mapping[str, str]


def samples(metrics: ClientMetrics) -> Iterator[Sample]:
    """Yield all figures of a snapshot; those of topics and partitions have labels."""
    labels = {"client_id": metrics.client_id}
    for field in fields(metrics):
        value = getattr(metrics, field.name)
        if field.name == "client_id" or value is None:
            continue
        name = PREFIX + field.name
        if isinstance(value, Latency):
            yield Sample(f"{name}_seconds", "histogram", value, labels)
        elif isinstance(value, Mapping):
            yield from _by_key(name, value, labels)
        else:
            kind: Kind = "counter" if field.name.endswith("_total") else "gauge"
            yield Sample(name, kind, value, labels)


def _by_key(
    name: str, figures: Mapping[object, float], labels: Mapping[str, str]
) -> Iterator[Sample]:
    kind: Kind = "counter" if name.endswith("_totals") else "gauge"
    name = name.removesuffix("s") if kind == "counter" else name
    for key, value in figures.items():
        if isinstance(key, TopicPartition):
            where = {"topic": key.topic, "partition": str(key.partition)}
        else:
            where = {"topic": str(key)}
        yield Sample(name, kind, value, {**labels, **where})
