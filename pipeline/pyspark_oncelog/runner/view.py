"""A running job tells what happens: in lines for people, or JSON lines for programs.

Events of the JSON lines, in order: ``started`` (query id, run id, pids), ``progress`` (one a
micro-batch), then ``ended`` or ``failed``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TextIO

from pyspark_oncelog.runner.summary import BatchSummary


@dataclass(frozen=True, slots=True)
class Started:
    """This can be known of a query when it runs."""

    name: str
    query_id: str
    """The id lives as long as the checkpoint; the sink's transactions are named after it."""
    run_id: str
    pid: int
    """This process."""
    jvm_pid: int | None
    """The Java process of the driver."""
    checkpoint: str


@dataclass(slots=True)
class Totals:
    """A run has done so much so far."""

    batches: int = 0
    rows: int = 0
    late_rows: int = 0
    misfits: int = 0
    """Records of which something did not fit its schema, and is NULL."""

    def add(self, summary: BatchSummary) -> None:
        """Add one batch."""
        self.batches += 1
        self.rows += summary.rows
        self.late_rows += summary.late_rows
        self.misfits += summary.misfits


class RunView(Protocol):
    """A run tells a view what happens."""

    def say(self, text: str) -> None:
        """Write a remark."""

    def started(self, event: Started) -> None:
        """Tell that the query runs."""

    def progress(self, summary: BatchSummary) -> None:
        """A micro-batch is done."""

    def ended(self, totals: Totals, reason: str) -> None:
        """The query has ended as it should."""

    def failed(self, totals: Totals, problems: Sequence[str]) -> None:
        """The query, or the job, has failed."""


class TextView:
    """A person gets lines of text."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, text: str) -> None:
        """Print it."""
        print(text, file=self._out, flush=True)

    def started(self, event: Started) -> None:
        """Name, query id, checkpoint."""
        self.say(f"{event.name} runs: query {event.query_id}, checkpoint {event.checkpoint}")

    def progress(self, summary: BatchSummary) -> None:
        """Print one line a batch."""
        self.say(f"  {summary.as_line()}")

    def ended(self, totals: Totals, reason: str) -> None:
        """Print the totals."""
        late = f", {totals.late_rows:,} rows came too late" if totals.late_rows else ""
        unfit = f", {totals.misfits:,} rows did not fit their schema" if totals.misfits else ""
        self.say(f"{reason}: {totals.batches:,} batches, {totals.rows:,} rows{late}{unfit}")

    def failed(self, totals: Totals, problems: Sequence[str]) -> None:
        """Print one line a problem, the cause first; then what was done."""
        for problem in problems:
            self.say(f"error: {problem}")
        if totals.batches:
            self.say(f"failed after {totals.batches:,} batches, {totals.rows:,} rows")


class JsonView:
    """A program gets one JSON document a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _emit(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}, ensure_ascii=False, default=str)
        print(line, file=self._out, flush=True)

    def say(self, text: str) -> None:
        """Remarks are for people: nothing."""

    def started(self, event: Started) -> None:
        """Print the event ``started``."""
        self._emit("started", **asdict(event))

    def progress(self, summary: BatchSummary) -> None:
        """Print the event ``progress``."""
        self._emit("progress", **summary.as_dict())

    def ended(self, totals: Totals, reason: str) -> None:
        """Print the event ``ended``."""
        self._emit("ended", ok=True, reason=reason, **asdict(totals))

    def failed(self, totals: Totals, problems: Sequence[str]) -> None:
        """Print the event ``failed``."""
        self._emit("failed", ok=False, errors=list(problems), **asdict(totals))
