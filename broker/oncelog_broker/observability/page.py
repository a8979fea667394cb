"""A page of metrics is written bit by bit in Prometheus' text format by ``prometheus_client``.

Each metric of the catalogue is a collector in a registry of the page's own, which refuses names
that clash; the library writes it. Two rules are ours. Partitions are walked once for all of their
metrics, so samples are kept by metric, because a format wants all series of a metric together. And
making a page takes turns: whoever fills it asks after each partition whether the event loop has
waited long enough. For that a metric is written whenever it has ``CHUNK`` samples, which also keeps
few of them in memory: the library needs some 10 us for one, and ten thousands of them are shown. (A
thread would not do: it holds the interpreter's lock, and the loop would wait for it all the same.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from oncelog_broker.observability.catalogue import CATALOGUE, Metric, MetricKind
from oncelog_runtime.observe import Histogram, Stopwatch

SLICE_S = 0.004
"""A page may be worked at so long before others have their turn."""

CHUNK = 100
"""So many samples of one metric are written at a time: it takes a millisecond, by which a slice may
be too long."""

_BOUNDS = [*map(floatToGoString, Histogram.BOUNDS_S), "+Inf"]

_Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
_FAMILIES: dict[MetricKind, type[_Family]] = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.HISTOGRAM: HistogramMetricFamily,
}


def label_values(*values: object) -> tuple[str, ...]:
    """Return labels as they are shown, to be used for many samples with the same ones."""
    return tuple(map(str, values))


class MetricCollector:
    """It gathers what is not yet written of one metric, as collectors of ``prometheus_client``
    do.

    :param broker: the value of the label of that name, for metrics that have it.
    """

    __slots__ = ("_constant", "_family", "_metric", "_names", "pieces")

    def __init__(self, metric: Metric, broker: str) -> None:
        own = metric.has_broker_label
        self._metric = metric
        self._names = ("broker", *metric.labels) if own else metric.labels
        self._constant: tuple[str, ...] = (broker,) if own else ()
        self._family = self._new_family()
        self.pieces: list[bytes] = []
        """These pieces are written."""

    def _new_family(self) -> _Family:
        metric = self._metric
        return _FAMILIES[metric.kind](metric.name, metric.help, labels=self._names)

    def describe(self) -> Sequence[_Family]:
        """Return the names that this takes, for a registry."""
        return [self._new_family()]

    def collect(self) -> Sequence[_Family]:
        """Return what is to be written, for ``generate_latest``."""
        return [self._family] if self._family.samples else []

    def _labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        values = (*self._constant, *labels)
        if len(values) != len(self._names):
            # The library would leave out what it has no name for.
            raise ValueError(f"{self._metric.name} has the labels {self._names}, not {values}")
        return values

    def add(self, labels: Sequence[str], value: float) -> bool:
        """Add one sample; return true when it is time to write."""
        family = self._family
        if isinstance(family, HistogramMetricFamily):
            raise TypeError(f"{self._metric.name} is a histogram")
        family.add_metric(self._labels(labels), value)
        return len(family.samples) >= CHUNK

    def add_histogram(self, labels: Sequence[str], histogram: Histogram) -> bool:
        """Add all series of one histogram; return true when it is time to write."""
        family = self._family
        if not isinstance(family, HistogramMetricFamily):
            raise TypeError(f"{self._metric.name} is no histogram")
        buckets = list(zip(_BOUNDS, histogram.cumulative(), strict=True))
        family.add_metric(self._labels(labels), buckets, histogram.sum_s)
        return len(family.samples) >= CHUNK

    def write(self) -> None:
        """Add to the pieces what has come since the last time."""
        text = generate_latest(self)
        if self.pieces:
            text = text.split(b"\n", 2)[2]  # HELP and TYPE may be said but once
        self.pieces.append(text)
        self._family = self._new_family()


class MetricsPage:
    """A page is made anew for every scrape.

    :param stopwatch: what slices are measured with.
    """

    def __init__(self, broker_id: int, stopwatch: Stopwatch) -> None:
        self.registry = CollectorRegistry()
        self._collectors: dict[Metric, MetricCollector] = {}
        for metrics in CATALOGUE.values():
            for metric in metrics:
                collector = MetricCollector(metric, str(broker_id))
                self.registry.register(collector)
                self._collectors[metric] = collector
        self._full: dict[MetricCollector, None] = {}
        self._stopwatch = stopwatch
        self._since = stopwatch()
        self.longest_slice_s = 0.0
        """The loop was kept waiting at most so long."""

    def _collector(self, metric: Metric) -> MetricCollector:
        collector = self._collectors.get(metric)
        if collector is None:
            raise LookupError(f"not in the catalogue: {metric.name}")
        return collector

    def add(self, metric: Metric, value: float, *labels: object) -> None:
        """Add one sample; labels come in the order of the catalogue."""
        self.add_at(metric, label_values(*labels), value)

    def add_at(self, metric: Metric, labels: Sequence[str], value: float) -> None:
        """Add one sample with labels from ``label_values``."""
        collector = self._collector(metric)
        if collector.add(labels, value):
            self._full[collector] = None

    def add_histogram(self, metric: Metric, histogram: Histogram, *labels: object) -> None:
        """Add all series of one histogram; labels come in the order of the catalogue."""
        collector = self._collector(metric)
        if collector.add_histogram(label_values(*labels), histogram):
            self._full[collector] = None

    async def turn(self) -> None:
        """Write what is due, and let others run if that is due."""
        await self._breathe()
        while self._full:
            collector, _ = self._full.popitem()
            collector.write()
            await self._breathe()

    async def _breathe(self) -> None:
        worked_s = self._stopwatch() - self._since
        if worked_s >= SLICE_S:
            self.longest_slice_s = max(self.longest_slice_s, worked_s)
            await asyncio.sleep(0)
            self._since = self._stopwatch()

    async def finish(self) -> list[bytes]:
        """Return the page, in pieces, in the order of the catalogue."""
        pieces: list[bytes] = []
        for collector in self._collectors.values():
            if collector.collect():
                collector.write()
                await self._breathe()
            pieces += collector.pieces
        return pieces


__all__ = ["CHUNK", "CONTENT_TYPE", "SLICE_S", "MetricCollector", "MetricsPage", "label_values"]
