"""A pipeline is one declarative file: sources, a query, a sink, a trigger, a checkpoint.

From Python the same::

    from pyspark_oncelog.runner import job_from, load_job, run_job

    run_job("job.toml")
    run_job(job_from({"sources": {...}, "query": {"function": f}, ...}))
    query = start(load_job("job.toml"), spark)   # a StreamingQuery of your own session

Importing this package imports neither PySpark nor the client.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_oncelog.runner.job import Job, JobError
from pyspark_oncelog.runner.job_file import job_from, load_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyspark_oncelog.runner.view import Totals

__all__ = ["Job", "JobError", "job_from", "load_job", "run_job", "start"]


def run_job(job: Job | Path | str, *, spark: SparkSession | None = None) -> Totals:
    """Run a job in this process until it ends, with its progress on stderr.

    :param job: a job, or the path of its file.
    :param spark: a session to run in, which stays open; else the one that is active in this
        process, which does too; without any, one is made and closed.
    :raises JobError: the job does not fit.
    :raises EnvironmentProblem: Spark cannot run here.
    :raises pyspark.errors.PySparkException: the query failed.
    """
    from pyspark_oncelog.runner.run import run
    from pyspark_oncelog.runner.view import TextView

    return run(_job(job), TextView(sys.stderr), spark=spark)


def start(job: Job | Path | str, spark: SparkSession) -> StreamingQuery:
    """Start a job in a session of yours, and return the query while it runs.

    :raises JobError: the job does not fit.
    """
    from pyspark_oncelog.runner.dataflow import start as begin

    return begin(_job(job), spark)


def _job(job: Job | Path | str) -> Job:
    return job if isinstance(job, Job) else load_job(job)
