"""Spark's progress report in the terms of its user."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row

from pyspark_oncelog.runner.summary import lag_of, offsets_of, summarise

REPORT: dict[str, Any] = {
    "batchId": 7,
    "timestamp": "2026-11-21T15:00:00.000Z",
    "numInputRows": 1200,
    "processedRowsPerSecond": 2400.04,
    "batchDuration": 500,
    "durationMs": {"addBatch": 400, "triggerExecution": 500},
    "eventTime": {"watermark": "2013-05-01T00:00:00.000Z"},
    "stateOperators": [
        {"numRowsTotal": 40, "numRowsDroppedByWatermark": 3},
        {"numRowsTotal": 2, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [{"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}}}],
}


def test_a_batch_with_state() -> None:
    summary = summarise(REPORT)
    assert summary.as_dict() == {
        "batch": 7,
        "rows": 1200,
        "rows_per_s": 2400.0,
        "duration_ms": 500,
        "lag": 4,
        "state_rows": 42,
        "late_rows": 3,
        "misfits": 0,
        "misfit": None,
        "watermark": "2013-05-01T00:00:00.000Z",
        "began_at": "2026-11-21T15:00:00.000Z",
    }
    assert summary.as_line() == (
        "batch 7  1,200 rows  2,400 rows/s  500 ms  lag 4  state 42 rows  "
        "watermark 2013-05-01T00:00:00.000Z  3 rows too late"
    )


def test_what_is_not_there_is_not_shown() -> None:
    report = {"batchId": 0, "durationMs": {"triggerExecution": 90}, "stateOperators": []}
    summary = summarise(report)
    assert (summary.duration_ms, summary.lag, summary.state_rows) == (90, None, None)
    assert summary.as_line() == "batch 0  0 rows  0 rows/s  90 ms"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), None, "x"])
def test_speeds_that_are_none(number: object) -> None:
    assert summarise({"batchId": 0, "processedRowsPerSecond": number}).rows_per_s == 0.0


def test_spark_says_1970_before_there_is_a_watermark() -> None:
    report = {**REPORT, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}
    assert summarise(report).watermark is None


def test_lag_over_several_sources_and_new_partitions() -> None:
    one = {"endOffset": json.dumps({"t": {"0": 5}}), "latestOffset": json.dumps({"t": {"0": 8}})}
    new = {"endOffset": {"u": {"0": 5}}, "latestOffset": {"u": {"0": 5, "1": 2}}}
    rate = {"endOffset": 3, "latestOffset": 4}
    assert lag_of([one, new, rate]) == 5
    assert lag_of([rate]) is None
    assert lag_of([{"endOffset": None, "latestOffset": "no json"}]) is None


def test_offsets_of_this_source_and_of_kafkas() -> None:
    ours = {"version": 1, "topics": {"t": {"id": "x", "offsets": {"0": 5}}, "u": {"id": "y"}}}
    assert offsets_of(ours) == {"t/0": 5}
    assert offsets_of({"t": {"0": 5, "1": 6}, "u": {"0": 1}}) == {"t/0": 5, "t/1": 6, "u/0": 1}
    assert offsets_of({"topics": 3}) == offsets_of([]) == {}


def test_lag_of_this_source() -> None:
    def place(offset: int) -> dict[str, object]:
        return {"version": 1, "topics": {"t": {"id": "x", "offsets": {"0": offset}}}}

    assert lag_of([{"endOffset": place(5), "latestOffset": place(8)}]) == 3


def test_rows_that_do_not_fit() -> None:
    observed = {
        "oncelog misfits: flights": {"records": 3, "first": "value: a: 15.5 is no INT"},
        "oncelog misfits: airports": Row(records=0, first=None),
        "somebody else's": {"records": 7},
    }
    summary = summarise({**REPORT, "observedMetrics": observed})
    assert (summary.misfits, summary.misfit) == (3, "value: a: 15.5 is no INT")
    assert summary.as_line().endswith("3 rows that do not fit, as value: a: 15.5 is no INT")
