"""These tests check the command line of spark-submit."""

from __future__ import annotations

import pytest

from pyspark_oncelog.runner.job import Job, JobError, Query, Sink, Source, SparkSettings
from pyspark_oncelog.runner.submit import submit_command


def job(checkpoint: str = "/state", **settings: object) -> Job:
    """Return a job with Spark's settings."""
    return Job(
        name="delays",
        sources=(Source("a", {}),),
        query=Query(sql="SELECT * FROM a"),
        sink=Sink({"topic": "t"}),
        checkpoint=checkpoint,
        spark=SparkSettings(**settings),  # type: ignore[arg-type]
    )


def test_everything_goes_along() -> None:
    whole = job(
        master="spark://host:7077",
        conf={"spark.executor.memory": "4g", "spark.x": "a b"},
        py_files=("a.py", "b.zip"),
        archives=("env.tar.gz#environment",),
    )
    command = submit_command(
        "spark-submit",
        "/p/__main__.py",
        whole,
        "jobs/delays.toml",
        arguments=["--json"],
        extra=["--num-executors", "4"],
    )
    assert command == [
        "spark-submit", "--name", "delays", "--master", "spark://host:7077",
        "--conf", "spark.executor.memory=4g", "--conf", "spark.x=a b",
        "--py-files", "a.py,b.zip", "--archives", "env.tar.gz#environment",
        "--num-executors", "4",
        "/p/__main__.py", "run", "jobs/delays.toml", "--submitted", "--json",
    ]  # fmt: skip


def test_in_cluster_mode_the_file_goes_along() -> None:
    remote = job("s3a://bucket/state", deploy_mode="cluster")
    command = submit_command("spark-submit", "/p/__main__.py", remote, "jobs/delays.toml")
    assert command[command.index("--files") + 1] == "jobs/delays.toml"
    assert command[-3:] == ["run", "delays.toml", "--submitted"]


@pytest.mark.parametrize("extra", [["--deploy-mode", "cluster"], ["--deploy-mode=cluster"]])
def test_in_cluster_mode_a_local_checkpoint_is_refused(extra: list[str]) -> None:
    with pytest.raises(JobError, match="checkpoint must be a URI"):
        submit_command("spark-submit", "/p/__main__.py", job(), "delays.toml", extra=extra)
