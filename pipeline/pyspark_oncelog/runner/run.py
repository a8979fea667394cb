"""A job is run to its end here: the session, the query, its progress, signals.

Rules: SIGTERM and SIGINT stop the query between two looks at it; a batch that was under way is
done again at the next start, exactly once all the same. Only the main thread takes signals.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark_oncelog.runner.dataflow import start
from pyspark_oncelog.runner.environment import prepare
from pyspark_oncelog.runner.job import Job
from pyspark_oncelog.runner.session import make_session
from pyspark_oncelog.runner.summary import BatchSummary, summarise
from pyspark_oncelog.runner.view import RunView, Started, Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.25
"""How often progress and signals are looked at."""


class StopFlag:
    """Set by a signal, or by whoever runs a job from a thread."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.wanted = False
        """Whether the job is to stop."""

    def set(self, number: int | None = None) -> None:
        """Ask the job to stop.

        :param number: the signal that asked.
        """
        self.wanted = True
        self.signal = number


def run(
    job: Job,
    view: RunView,
    *,
    spark: SparkSession | None = None,
    submitted: bool = False,
    stop: StopFlag | None = None,
    verbose: bool = False,
) -> Totals:
    """Run a job until it has read what there is (``available now``), is told to stop, or fails.

    :param spark: a session to run in, which stays open; else the one that is active in this
        process, which does too; without any, one is made and closed.
    :param stop: ends the job when it is set.
    :param verbose: a session that is made here shows Spark's own errors.
    :raises JobError: the job does not fit.
    :raises EnvironmentProblem: Spark cannot run here.
    :raises pyspark.errors.PySparkException: the query failed.
    """
    flag = stop or StopFlag()
    totals = Totals()
    with _signals(flag):
        found = spark or _active_session()
        if found is not None:
            _run_in(found, job, view, flag, totals)
            return totals
        version, java = ("", None) if submitted else prepare()
        if java is not None:
            view.say(f"starting Spark {version} on Java {java.major} ...")
        try:
            session = make_session(job, submitted=submitted, verbose=verbose)
            _run_in(session, job, view, flag, totals, quiet=lambda: _silence(session))
        except Exception:
            if not flag.wanted:
                raise
            # Who stops a whole group of processes has stopped Spark's JVM as well: it ended first.
            view.ended(totals, "stopped")
        finally:
            _close()
        return totals


def _run_in(
    spark: SparkSession,
    job: Job,
    view: RunView,
    stop: StopFlag,
    totals: Totals,
    quiet: Callable[[], None] = lambda: None,
) -> None:
    if stop.wanted:
        view.ended(totals, "stopped")
        return
    # Again, for a new Spark context has taken SIGINT for itself.
    with _signals(stop):
        query = start(job, spark)
        event = Started(
            name=job.name,
            query_id=str(query.id),
            run_id=str(query.runId),
            pid=os.getpid(),
            jvm_pid=_jvm_pid(spark),
            checkpoint=job.checkpoint,
        )
        try:
            view.started(event)
            watch(query, view, totals, stop, quiet)
        except BaseException:
            with suppress(Exception):  # the failure's own exception is the one that counts
                query.stop()
            raise


def watch(
    query: Any,
    view: RunView,
    totals: Totals,
    stop: StopFlag,
    quiet: Callable[[], None] = lambda: None,
) -> None:
    """Tell ``view`` of every micro-batch of a ``StreamingQuery`` until it ends; ``totals`` grows.

    :param quiet: called before the query is stopped.
    :raises pyspark.errors.PySparkException: the query failed.
    """
    seen = -1

    def tell() -> None:
        nonlocal seen
        for summary in _news(query, seen):
            seen = summary.batch
            totals.add(summary)
            view.progress(summary)

    while True:
        try:
            ended = query.awaitTermination(LOOK_S)
        except Exception:
            with suppress(Exception):  # Spark's JVM may be gone
                tell()
            raise
        tell()
        if ended:
            view.ended(totals, "done")
            return
        if stop.wanted:
            quiet()
            query.stop()
            tell()
            view.ended(totals, "stopped")
            return


def _news(query: Any, seen: int) -> Iterator[BatchSummary]:
    """Yield batches after ``seen``.

    The last report is cheap to ask for; all hundred that Spark keeps only when some were missed.
    """
    last = _document(query.lastProgress)
    if last is None or int(last["batchId"]) <= seen:
        return
    reports = [last]
    if int(last["batchId"]) > seen + 1:
        reports = [d for d in map(_document, query.recentProgress) if d is not None]
    for report in reports:
        if int(report["batchId"]) > seen and _is_batch(report):
            yield summarise(report)


def _is_batch(report: dict[str, Any]) -> bool:
    """Return False for a report of a batch to come, which has done no work yet.

    A query gives such reports while it waits for data.
    """
    return "addBatch" in (report.get("durationMs") or {})


def _document(progress: Any) -> dict[str, Any] | None:
    if progress is None:
        return None
    if isinstance(progress, dict):
        return progress
    parsed: dict[str, Any] = json.loads(progress.json)
    return parsed


def _active_session() -> SparkSession | None:
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _silence(session: SparkSession) -> None:
    """Spark takes a query that is stopped in a batch for one that fails, and tells at length."""
    with suppress(Exception):
        session.sparkContext.setLogLevel("OFF")


def _close() -> None:
    session = _active_session()
    with suppress(Exception):  # its JVM may be gone
        if session is not None:
            session.stop()


def _jvm_pid(spark: SparkSession) -> int | None:
    try:
        jvm: Any = spark._jvm
        return int(jvm.java.lang.ProcessHandle.current().pid())
    except Exception:  # Spark Connect has no JVM to ask
        return None


@contextmanager
def _signals(flag: StopFlag) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        flag.set(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["StopFlag", "run", "watch"]
