"""A real Spark session shows a job's plan: views, query, columns for the sink. Nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_oncelog.runner.dataflow import outgoing, plan, read
from pyspark_oncelog.runner.job import Job, JobError
from pyspark_oncelog.runner.job_file import job_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.integration]

TICKS = {"format": "rate", "rowsPerSecond": 10}


def job(tmp_path: Path, **changes: Any) -> Job:
    """Return a job from Spark's own clock to nowhere."""
    document = {
        "name": "ticks",
        "checkpoint": "state",
        "sources": {"ticks": TICKS},
        "query": {"sql": "SELECT value AS number, timestamp FROM ticks"},
        "sink": {"topic": "t"},
        **changes,
    }
    return job_from(document, directory=tmp_path)


def types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def test_rows_without_a_value_become_json(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'x' AS name, 3 AS n, CAST(NULL AS INT) AS m")
    (row,) = outgoing(job(tmp_path), frame).collect()
    assert row.asDict() == {"value": '{"name":"x","n":3}'}
    keyed = job(tmp_path, sink={"topic": "t", "key": "n"})
    (row,) = outgoing(keyed, frame).collect()
    assert row.asDict() == {"key": "3", "value": '{"name":"x","n":3}'}
    keyed = job(tmp_path, sink={"topic": "t", "key": ["n", "name"]})
    (row,) = outgoing(keyed, frame).collect()
    assert row.key == '{"n":3,"name":"x"}'


def test_rows_with_a_value_stay(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'k' AS key, 'v' AS value, 'u' AS topic")
    assert outgoing(job(tmp_path), frame).columns == ["key", "value", "topic"]
    frame = spark.sql("SELECT 'v' AS value, 7 AS id")
    (row,) = outgoing(job(tmp_path, sink={"key": "id"}), frame).collect()
    assert row.asDict() == {"value": "v", "key": "7"}


def test_headers_are_never_null(spark: SparkSession, tmp_path: Path) -> None:
    kind = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
    frame = spark.sql(f"SELECT 'v' AS value, CAST(NULL AS {kind}) AS headers")
    made = outgoing(job(tmp_path), frame)
    assert types(made)["headers"] == "array<struct<key:string,value:binary>>"
    assert made.collect()[0].headers == []


@pytest.mark.parametrize(
    ("sql", "key", "words"),
    [
        ("SELECT 1 AS a", ["a", "b"], r"\[sink\] key 'b': no such column; there are a"),
        ("SELECT 1 AS a, 2 AS key", "a", "a column 'key' as well"),
    ],
)
def test_keys_that_do_not_fit(
    sql: str, key: Any, words: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match=words):
        outgoing(job(tmp_path, sink={"topic": "t", "key": key}), spark.sql(sql))


def test_sql_with_arguments_and_a_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("id,name\n1,one\n")
    names = {"format": "csv", "batch": True, "path": str(tmp_path / "names.csv"), "header": True}
    sql = "SELECT name FROM ticks JOIN names ON value = id WHERE value > :least"
    joined = job(
        tmp_path,
        sources={"ticks": TICKS, "names": {**names, "schema": "id BIGINT, name STRING"}},
        query={"sql": sql, "args": {"least": 0}},
        sink={"topic": "t", "key": "name"},
    )
    assert types(plan(joined, spark)) == {"key": "string", "value": "string"}


def test_select_and_watermark(spark: SparkSession, tmp_path: Path) -> None:
    ticks = {
        **TICKS,
        "select": ["value % 2 AS odd", "timestamp AS at"],
        "watermark": {"column": "at", "delay": "1 minute"},
    }
    windows = job(
        tmp_path,
        sources={"ticks": ticks},
        query={
            "sql": "SELECT window(at, '1 minute').start AS minute, odd, count(*) AS n FROM ticks "
            "GROUP BY window(at, '1 minute'), odd"
        },
        sink={"format": "console"},
    )
    assert list(types(plan(windows, spark))) == ["minute", "odd", "n"]
    wrong = job(tmp_path, sources={"ticks": {**ticks, "select": ["value"]}})
    with pytest.raises(JobError, match=r"\[sources.ticks\] watermark 'at': no such column"):
        read(wrong, wrong.sources[0], spark)


def test_a_function(spark: SparkSession, tmp_path: Path) -> None:
    def doubled(ticks: DataFrame, spark: SparkSession) -> DataFrame:
        return ticks.selectExpr("value * 2 AS twice")

    made = plan(job(tmp_path, query={"function": doubled}), spark)
    assert types(made) == {"value": "string"}
    with pytest.raises(JobError, match="returned int, no data frame"):
        plan(job(tmp_path, query={"function": lambda ticks: 3}), spark)


def test_a_result_without_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no stream in it"):
        plan(job(tmp_path, query={"sql": "SELECT 1 AS value"}), spark)
