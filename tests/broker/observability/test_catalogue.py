"""The catalogue keeps to Prometheus' conventions, and names each metric once."""

from __future__ import annotations

import re

import pytest

from oncelog_broker.observability import catalogue
from oncelog_broker.observability.catalogue import CATALOGUE, Metric, MetricKind

METRICS = [metric for metrics in CATALOGUE.values() for metric in metrics]


def test_every_metric_of_the_module_is_on_the_page_once() -> None:
    declared = [value for value in vars(catalogue).values() if isinstance(value, Metric)]
    assert sorted(m.name for m in declared) == sorted(m.name for m in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"(oncelog|process)(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert (
        not metric.name.endswith(("_bucket", "_count", "_sum")) or metric.kind is MetricKind.GAUGE
    )
    assert metric.kind is not MetricKind.HISTOGRAM or metric.name.endswith("_seconds")
    assert "_ms" not in metric.name
    assert metric.help.endswith(".")
    assert "broker" not in metric.labels
    assert "le" not in metric.labels
    assert metric.has_broker_label == metric.name.startswith("oncelog_")
