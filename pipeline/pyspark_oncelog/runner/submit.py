"""A job is submitted by a command line of ``spark-submit``. Pure.

The main program is this package's ``__main__.py``; it finds master and settings set already. In
cluster mode the driver runs elsewhere: the job's file goes along, and is opened by its bare name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark_oncelog.runner.job import Job, JobError

CLUSTER = "cluster"


def submit_command(
    program: str,
    main: str,
    job: Job,
    job_file: str,
    *,
    arguments: Sequence[str] = (),
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the command line to execute.

    :param program: ``spark-submit``.
    :param main: the Python file that it runs.
    :param arguments: of the main program, after the file's name.
    :param extra: more options of ``spark-submit``; they come last and win.
    :raises JobError: what cannot be submitted.
    """
    spark = job.spark
    command = [program, "--name", job.name]
    if spark.master is not None:
        command += ["--master", spark.master]
    if spark.deploy_mode is not None:
        command += ["--deploy-mode", spark.deploy_mode]
    for key, value in spark.conf.items():
        command += ["--conf", f"{key}={value}"]
    if spark.py_files:
        command += ["--py-files", ",".join(spark.py_files)]
    if spark.archives:
        command += ["--archives", ",".join(spark.archives)]
    in_cluster = CLUSTER in (spark.deploy_mode, _option(extra, "--deploy-mode"))
    if in_cluster:
        if "://" not in job.checkpoint:
            # The driver may start on another node each time, and would begin anew there.
            raise JobError(
                ["with deploy_mode 'cluster' checkpoint must be a URI that every node reaches"]
            )
        command += ["--files", job_file]
    shown = Path(job_file).name if in_cluster else job_file
    return [*command, *extra, main, "run", shown, "--submitted", *arguments]


def _option(arguments: Sequence[str], name: str) -> str | None:
    found = None
    for index, argument in enumerate(arguments):
        if argument == name and index + 1 < len(arguments):
            found = arguments[index + 1]
        elif argument.startswith(f"{name}="):
            found = argument.partition("=")[2]
    return found
