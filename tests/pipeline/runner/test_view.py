"""A running job tells people lines, and programs JSON lines."""

from __future__ import annotations

import io
import json

from pyspark_oncelog.runner.summary import summarise
from pyspark_oncelog.runner.view import JsonView, RunView, Started, TextView, Totals

STARTED = Started("delays", "query-id", "run-id", 10, 11, "/state")
BATCH = summarise({"batchId": 3, "numInputRows": 1000, "batchDuration": 20})


def story(view: RunView) -> None:
    """Tell of a run that is stopped, and of one that fails."""
    totals = Totals()
    view.say("starting")
    view.started(STARTED)
    totals.add(BATCH)
    view.progress(BATCH)
    view.ended(totals, "stopped")
    view.failed(totals, ["this", "that"])


def test_text() -> None:
    out = io.StringIO()
    story(TextView(out))
    assert out.getvalue().splitlines() == [
        "starting",
        "delays runs: query query-id, checkpoint /state",
        "  batch 3  1,000 rows  0 rows/s  20 ms",
        "stopped: 1 batches, 1,000 rows",
        "error: this",
        "error: that",
        "failed after 1 batches, 1,000 rows",
    ]


def test_json() -> None:
    out = io.StringIO()
    story(JsonView(out))
    started, progress, ended, failed = map(json.loads, out.getvalue().splitlines())
    assert started == {
        "event": "started",
        "name": "delays",
        "query_id": "query-id",
        "run_id": "run-id",
        "pid": 10,
        "jvm_pid": 11,
        "checkpoint": "/state",
    }
    assert (progress["event"], progress["batch"], progress["rows"]) == ("progress", 3, 1000)
    assert ended["event"] == "ended"
    assert ended["ok"]
    assert (ended["batches"], ended["rows"], ended["reason"]) == (1, 1000, "stopped")
    assert failed["errors"] == ["this", "that"]


def test_late_rows_are_not_passed_over_in_silence() -> None:
    out = io.StringIO()
    TextView(out).ended(Totals(2, 10, 3, 4), "done")
    told = "3 rows came too late, 4 rows did not fit their schema"
    assert out.getvalue() == f"done: 2 batches, 10 rows, {told}\n"
