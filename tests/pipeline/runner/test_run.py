"""A query is watched, and stopped by a signal; it is a script here, Spark's is in
tests/pipeline/spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyspark_oncelog.runner.run import StopFlag, _signals, watch
from pyspark_oncelog.runner.summary import BatchSummary
from pyspark_oncelog.runner.view import Started, Totals


def done(batch: int, rows: int = 10) -> dict[str, Any]:
    """Return the report of a micro-batch."""
    return {"batchId": batch, "numInputRows": rows, "durationMs": {"addBatch": 1}}


def idle(batch: int) -> dict[str, Any]:
    """Return the report of a query that waits for data."""
    return {"batchId": batch, "numInputRows": 0, "durationMs": {"latestOffset": 1}}


@dataclass
class Scripted:
    """Its every look brings the next reports; it ends after the last."""

    script: list[list[dict[str, Any]]]
    then: Callable[[], None] = lambda: None
    recentProgress: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815 - Spark's
    ends: bool = True
    stopped: bool = False

    def awaitTermination(self, timeout: float) -> bool:
        if self.script:
            self.recentProgress += self.script.pop(0)
            return False
        self.then()
        return self.ends

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Notes:
    """This view remembers."""

    batches: list[int] = field(default_factory=list)
    reason: str = ""

    def say(self, text: str) -> None: ...

    def started(self, event: Started) -> None: ...

    def progress(self, summary: BatchSummary) -> None:
        self.batches.append(summary.batch)

    def ended(self, totals: Totals, reason: str) -> None:
        self.reason = reason

    def failed(self, totals: Totals, problems: Sequence[str]) -> None: ...


def test_every_batch_is_told_once_though_several_come_between_two_looks() -> None:
    notes, totals = Notes(), Totals()
    script = [[], [done(0)], [done(0)], [done(1), done(2), done(3)], [idle(4)], [done(4)]]
    watch(Scripted(script), notes, totals, StopFlag())
    assert notes.batches == [0, 1, 2, 3, 4]
    assert notes.reason == "done"
    assert (totals.batches, totals.rows) == (5, 50)


def test_waiting_is_no_batch() -> None:
    notes, totals = Notes(), Totals()
    watch(
        Scripted([[idle(0)], [idle(0)], [done(0), idle(1)], [idle(1)]]), notes, totals, StopFlag()
    )
    assert notes.batches == [0]


def test_a_restart_begins_where_the_checkpoint_is() -> None:
    notes = Notes()
    watch(Scripted([[done(17)], [done(18)]]), notes, Totals(), StopFlag())
    assert notes.batches == [17, 18]


def test_a_flag_stops_it() -> None:
    notes, stop = Notes(), StopFlag()
    query = Scripted([[done(0)]], ends=False)
    query.then = stop.set
    before = []
    watch(query, notes, Totals(), stop, lambda: before.append(query.stopped))
    assert query.stopped
    assert before == [False]
    assert notes.reason == "stopped"


def test_a_failure_comes_after_its_batches() -> None:
    class Failed(Exception):
        """A query fails with this."""

    def fail() -> None:
        raise Failed

    notes = Notes()
    with pytest.raises(Failed):
        watch(Scripted([[done(0)]], then=fail), notes, Totals(), StopFlag())
    assert (notes.batches, notes.reason) == ([0], "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_set_the_flag_and_nothing_is_left(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = StopFlag()
    with _signals(stop):
        os.kill(os.getpid(), number)
        assert stop.signal == number
    assert stop.wanted
    assert signal.getsignal(number) is before
