"""A task has an identity, and one transaction is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.spark_task import spark_task
from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.sink_options import SinkOptions
from pyspark_oncelog.task_identity import TaskIdentity, query_of, this_task, transactional_id

OPTIONS = SinkOptions(bootstrap_servers="a:1", transaction_timeout_ms=1000)


def test_spark_says_who_runs() -> None:
    with spark_task("q", 7, partition=3, attempt=2):
        task = this_task()
    assert task == TaskIdentity(
        query_id="q",
        batch_id=7,
        run_id="run-1",
        stage_id=4,
        partition_id=3,
        attempt_number=2,
        task_attempt_id=132,
    )
    assert task.in_query
    assert task.attempt == "stage-4.partition-3.attempt-2.task-132"


def test_a_ticket_is_of_the_query_and_its_batch() -> None:
    with spark_task("q", 7):
        ticket = this_task().ticket(OPTIONS, 40)
    assert (ticket.transactional_id, ticket.tag, ticket.ordinal) == ("spark-q", 7, 40)
    assert (ticket.bootstrap_servers, ticket.timeout_ms) == ("a:1", 1000)


def test_two_sinks_of_one_query_and_two_queries_with_one_sink_are_different() -> None:
    names = {transactional_id(query, sink) for query in "ab" for sink in (None, "x", "y")}
    assert len(names) == 6
    assert transactional_id("q", None) == "spark-q"
    assert transactional_id("q", "totals") == "spark-q-totals"


def test_a_batch_job_has_no_batch_to_repeat() -> None:
    with spark_task(None, None):
        task = this_task()
    assert not task.in_query
    with pytest.raises(OptionError, match="foreachBatch"):
        task.ticket(OPTIONS, 1)


def test_outside_of_a_task() -> None:
    with pytest.raises(RuntimeError, match="no Spark task"):
        this_task()


def test_the_checkpoint_tells_its_query_where_it_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    assert query_of(None) is None
    assert query_of(str(folder)) is None
    folder.mkdir()
    metadata = folder / "metadata"
    metadata.write_text('{"id":"q-1"}')
    assert query_of(str(folder)) == query_of(folder.as_uri()) == "q-1"
    for text in ("", "[]", "{}", '{"id":7}'):
        metadata.write_text(text)
        assert query_of(str(folder)) is None
    assert query_of("s3://bucket/x") is None
