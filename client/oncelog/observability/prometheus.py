"""A collector tells Prometheus the metrics of clients.  Use it as
``REGISTRY.register(ClientCollector(producer, consumer))``.

Rules: ``prometheus_client`` is the program's own; this module is imported by nobody else. Figures
are read when Prometheus asks. Clients that are closed keep telling their last figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from oncelog.observability.metrics import ClientMetrics, Latency
from oncelog.observability.samples import Sample, samples

__all__ = ["ClientCollector"]


class Measured(Protocol):
    """Any client can be measured, synchronous or not."""

    def metrics(self) -> ClientMetrics: ...


class ClientCollector(Collector):
    """A collector has the figures of some clients; tell them apart by their ``client_id``."""

    def __init__(self, *clients: Measured) -> None:
        self._clients = list(clients)

    def add(self, client: Measured) -> None:
        """Collect the figures of this client too, from now on."""
        self._clients.append(client)

    def remove(self, client: Measured) -> None:
        """Leave out this client from now on."""
        self._clients.remove(client)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: a registry must not ask clients that have not been started."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield one family a name, with the figures of every client."""
        families: dict[str, Any] = {}
        for client in self._clients:
            for sample in samples(client.metrics()):
                family = families.get(sample.name)
                if family is None:
                    family = families[sample.name] = _family(sample)
                _add(family, sample)
        yield from families.values()


def _family(sample: Sample) -> Metric:
    text = f"Of an Oncelog client: {sample.name}."
    labels = list(sample.labels)
    if sample.kind == "histogram":
        return HistogramMetricFamily(sample.name, text, labels=labels)
    make = CounterMetricFamily if sample.kind == "counter" else GaugeMetricFamily
    return make(sample.name, text, labels=labels)


def _add(family: Any, sample: Sample) -> None:
    labels = list(sample.labels.values())
    if isinstance(sample.value, Latency):
        buckets = [(repr(bound), count) for bound, count in sample.value.buckets]
        buckets.append(("+Inf", sample.value.count))
        family.add_metric(labels, buckets, sample.value.sum_s)
    else:
        family.add_metric(labels, sample.value)
