"""A job that runs in this process gets its Spark session from here.

Rules: what the job says goes over these defaults, and under ``spark-submit`` nothing is set here.
Defaults are for one machine only: a local master, everything on 127.0.0.1, no UI, and as many
shuffle partitions as cores (each holds a part of the state in files of its own; Spark's 200 are
for clusters). A stateful pipeline keeps the number it first ran with, in its checkpoint.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_oncelog.runner.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
LOG_LEVEL = "ERROR"
"""The level for who wants to see what Spark says of itself."""
QUIET = "OFF"
"""The level unless somebody asks: of what ends a job the runner tells the cause, once, and Spark
tells it in every layer, with the frames of two languages."""
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
"""Spark's own are chatty, and say at start where they come from."""


def settings(job: Job, *, cores: int | None = None) -> dict[str, str]:
    """Return the settings with which the session is built.

    :param cores: of this machine.
    """
    master = job.spark.master or LOCAL_MASTER
    found = {"spark.master": master, "spark.app.name": job.name}
    if master.startswith("local"):
        found |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": str(max(2, cores or os.cpu_count() or 2)),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        }
    if job.spark.py_files:
        found["spark.submit.pyFiles"] = ",".join(job.spark.py_files)
    if job.spark.archives:
        found["spark.archives"] = ",".join(job.spark.archives)
    return {**found, **job.spark.conf}


def make_session(job: Job, *, submitted: bool = False, verbose: bool = False) -> SparkSession:
    """Return a new session, or the one that there is.

    :param submitted: ``spark-submit`` has set everything.
    :param verbose: Spark's own errors are shown.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if not submitted:
        if (job.spark.master or LOCAL_MASTER).startswith("local"):
            # Or Spark looks for this machine's name in the network, and warns of what it finds.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for key, value in settings(job).items():
            builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    level = job.spark.log_level or (LOG_LEVEL if verbose else QUIET)
    session.sparkContext.setLogLevel(level.upper())
    return session
