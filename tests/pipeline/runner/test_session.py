"""These tests check what a session is built with; sessions themselves are made in test_run."""

from __future__ import annotations

from pyspark_oncelog.runner.job import Job, Query, Sink, Source, SparkSettings
from pyspark_oncelog.runner.session import LOG_SETTINGS, settings


def job(**given: object) -> Job:
    """Return a job with Spark's settings."""
    return Job(
        name="delays",
        sources=(Source("a", {}),),
        query=Query(sql="SELECT 1"),
        sink=Sink({}),
        checkpoint="/s",
        spark=SparkSettings(**given),  # type: ignore[arg-type]
    )


def test_on_one_machine() -> None:
    found = settings(job(), cores=6)
    assert found["spark.master"] == "local[*]"
    assert found["spark.app.name"] == "delays"
    assert found["spark.sql.shuffle.partitions"] == "6"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert LOG_SETTINGS.exists()


def test_what_the_job_says_goes_over_it() -> None:
    conf = {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"}
    found = settings(job(master="local[2]", conf=conf, py_files=("a.py", "b.py")), cores=6)
    assert found["spark.master"] == "local[2]"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.submit.pyFiles"] == "a.py,b.py"


def test_a_cluster_has_its_own_defaults() -> None:
    found = settings(job(master="spark://host:7077", archives=("env.tar.gz#e",)), cores=6)
    assert found == {
        "spark.master": "spark://host:7077",
        "spark.app.name": "delays",
        "spark.archives": "env.tar.gz#e",
    }
