"""The batch sink's steps are a job of its own, and a write in foreachBatch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from oncelog.errors import ProducerFencedError
from oncelog.shared_transactions.transaction import LAST_TAG
from pipeline.spark_task import SCHEMA, beside, carried, rows, sink_options, spark_task
from pyspark_oncelog.batch_writer import BatchWriter, SinkIdTwiceError
from pyspark_oncelog.driver_notes import FOLDERS
from pyspark_oncelog.option_values import OptionError
from support.fake_cluster import FakeCluster, committed_of

JOB: dict[str, Any] = {"query_id": None, "batch_id": None}
Messages = list[WriterCommitMessage | None]


def planned(cluster: FakeCluster, **options: str) -> BatchWriter:
    """Return the writer as it comes to the tasks and to the commit."""
    return carried(BatchWriter(sink_options(cluster.bootstrap, **options), SCHEMA))


def write(writer: BatchWriter, *parts: bytes, **task: Any) -> Messages:
    messages: Messages = []
    for number, value in enumerate(parts):
        with spark_task(partition=number, **task):
            messages.append(carried(carried(writer).write(iter([rows(value)]))))
    return messages


async def test_a_job_is_visible_as_a_whole_and_again_when_it_runs_again() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")

        def work() -> None:
            for _ in range(2):
                job = planned(cluster)
                write(job, b"loser", **JOB)
                messages = write(job, b"a", b"b", attempt=1, **JOB)
                assert committed_of(cluster, "t").count(b"loser") == 0
                carried(job).commit(messages)
                carried(job).abort(messages)
            assert job._own_ticket().tag == LAST_TAG

        await beside(work)
        assert sorted(map(str, committed_of(cluster, "t"))) == ["b'a'"] * 2 + ["b'b'"] * 2


async def test_two_jobs_at_a_time_do_not_disturb_each_other() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            first, second = planned(cluster), planned(cluster)
            ones, twos = write(first, b"1", **JOB), write(second, b"2", **JOB)
            first.commit(ones)
            second.commit(twos)

        await beside(work)
        assert committed_of(cluster, "t") == [b"1", b"2"]


async def test_a_job_that_fails_leaves_nothing_even_without_a_message() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            job = planned(cluster)
            messages = write(job, b"lost", **JOB)
            carried(job).abort([None])
            with pytest.raises(ProducerFencedError):
                carried(job).commit(messages)
            planned(cluster).commit([])

        await beside(work)
        assert committed_of(cluster, "t") == []


async def test_a_write_in_foreach_batch_is_known_again_by_its_sink_id() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            for batch in (0, 1, 1):  # the second one is replayed
                for sink in ("x", "y"):
                    writer = planned(cluster, sinkId=sink)
                    writer.commit(write(writer, sink.encode(), batch_id=batch))

        await beside(work)
        assert committed_of(cluster, "t") == [b"x", b"y"] * 2


async def test_two_writes_of_one_batch_with_one_sink_id_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def one(value: bytes, **task: Any) -> None:
            writer = planned(cluster, sinkId="s")
            carried(writer).commit(write(writer, value, **task))

        def work() -> None:
            one(b"debits")
            with pytest.raises(SinkIdTwiceError, match="sinkId='s'.*not written"):
                one(b"credits")
            one(b"debits", run_id="run-2")  # after a crash: a repetition
            one(b"more", batch_id=1, run_id="run-2")
            with pytest.raises(SinkIdTwiceError):
                one(b"credits", batch_id=1, run_id="run-2")

        await beside(work)
        assert committed_of(cluster, "t") == [b"debits", b"more"]


async def test_a_write_in_foreach_batch_without_a_sink_id_is_refused() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with pytest.raises(OptionError, match="sinkId"):
                write(planned(cluster), b"a")
            with pytest.raises(OptionError, match="foreachBatch"):
                write(planned(cluster, sinkId="x"), b"a", **JOB)
            writer = planned(cluster, deliveryGuarantee="at-least-once")
            writer.commit(write(writer, b"a"))
            writer.abort([None])

        await beside(work)
        assert committed_of(cluster, "t") == [b"a"]


def test_a_log_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="append"):
        BatchWriter(sink_options("127.0.0.1:1"), SCHEMA, overwrite=True)
