"""Spark takes the streaming sink's steps each in another process: each has another copy here of
what Spark would carry there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog.errors import ProducerFencedError
from oncelog_protocol.messages.base import ApiKey
from pipeline.spark_task import QUERY, SCHEMA, beside, carried, rows, sink_options, spark_task
from pyspark_oncelog.commit_message import Outcome, TaskMessage
from pyspark_oncelog.driver_notes import FOLDERS
from pyspark_oncelog.sink_schema import SinkSchemaError
from pyspark_oncelog.stream_writer import StreamWriter
from support.fake_cluster import Action, FakeCluster, committed_of

Messages = list[WriterCommitMessage | None]


class Run:
    """It is one run of a query: it does what the driver and its tasks do in a micro-batch."""

    def __init__(self, cluster: FakeCluster, **options: str) -> None:
        self._options = sink_options(cluster.bootstrap, **options)

    def planned(self) -> StreamWriter:
        """Return what the tasks get."""
        writer = StreamWriter(self._options, SCHEMA)
        first, second = carried(writer), carried(writer)
        assert first._ordinal == second._ordinal
        return first

    def write(self, planned: StreamWriter, batch: int, *parts: bytes, **task: Any) -> Messages:
        """Run all tasks of a batch."""
        messages: Messages = []
        for number, value in enumerate(parts):
            with spark_task(batch_id=batch, partition=number, **task):
                messages.append(carried(carried(planned).write(iter([rows(value)]))))
        return messages

    def commit(self, messages: Messages, batch: int) -> None:
        """Take the driver's last step, by an object that knows nothing of the others."""
        writer = StreamWriter(self._options, SCHEMA)
        writer.commit(messages, batch)
        assert writer._ordinal is None

    def abort(self, messages: Messages, batch: int) -> None:
        StreamWriter(self._options, SCHEMA).abort(messages, batch)


async def test_batches_one_after_the_other_with_attempts_that_lose() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster)
            for batch in range(3):
                planned = run.planned()
                run.write(planned, batch, b"loser", b"loser")
                run.commit(run.write(planned, batch, b"a", b"b", attempt=1), batch)

        await beside(work)
        assert sorted(map(str, committed_of(cluster, "t"))) == ["b'a'"] * 3 + ["b'b'"] * 3


async def test_a_batch_is_replayed_after_a_crash_behind_the_commit() -> None:
    """Killed between the broker's commit and Spark's own log: the same batch comes again."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster)
            run.commit(run.write(run.planned(), 0, b"a", b"b"), 0)
            again = Run(cluster)
            messages = again.write(again.planned(), 0, b"a", b"b")
            again.commit(messages, 0)
            again.commit(again.write(again.planned(), 1, b"c"), 1)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a", b"b", b"c"]
        assert cluster.partition("t").values() == [b"a", b"b", b"c"]  # skipped, not written


async def test_a_batch_is_replayed_after_a_crash_before_the_commit() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster)
            lost = run.write(run.planned(), 0, b"a", b"b")
            again = Run(cluster)
            again.commit(again.write(again.planned(), 0, b"a", b"b"), 0)
            with pytest.raises(ProducerFencedError):
                run.commit(lost, 0)  # the old driver was only slow
            run.abort(lost, 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a", b"b"]


async def test_spark_aborts_when_the_answer_to_a_commit_is_lost() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster)
            messages = run.write(run.planned(), 0, b"a")
            cluster.rule(ApiKey.END_SHARED_TXN, Action.DROP_AFTER)
            run.commit(messages, 0)
            run.abort(messages, 0)
            run.commit(messages, 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a"]


async def test_a_failed_batch_is_aborted_for_readers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster)
            messages = run.write(run.planned(), 0, b"lost")
            run.abort([None, *messages], 0)
            run.abort([None, None], 0)
            run.commit(run.write(run.planned(), 0, b"found"), 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"found"]


async def test_readers_do_not_wait_for_a_batch_of_which_no_task_could_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    (tmp_path / "metadata").write_text(json.dumps({"id": QUERY}))
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster, checkpointLocation=str(tmp_path))
            lost = run.write(run.planned(), 0, b"lost")
            run.abort([None], 0)
            with pytest.raises(ProducerFencedError):
                run.commit(lost, 0)
            messages = run.write(run.planned(), 0, b"found")
            run.commit(messages, 0)
            run.abort([None], 0)
            run.abort([], 1)
            run.commit(run.write(run.planned(), 1, b"next"), 1)

        await beside(work)
        assert committed_of(cluster, "t") == [b"found", b"next"]


async def test_an_old_driver_does_not_end_what_a_newer_one_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are fenced, as they should be, and none has a ticket to tell."""
    (tmp_path / "metadata").write_text(json.dumps({"id": QUERY}))
    for name in ("old", "new"):
        (tmp_path / name).mkdir()

    def driver(name: str) -> None:
        monkeypatch.setenv(FOLDERS, str(tmp_path / name))

    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            old = Run(cluster, checkpointLocation=str(tmp_path))
            new = Run(cluster, checkpointLocation=str(tmp_path))
            driver("old")
            planned_old = old.planned()
            driver("new")
            planned_new = new.planned()
            driver("old")
            old.abort([None], 0)  # before the new one has bound its ordinal
            driver("new")
            messages = new.write(planned_new, 0, b"a", b"b")
            driver("old")
            with pytest.raises(ProducerFencedError):
                old.write(planned_old, 0, b"a", b"b")
            old.abort([None, None], 0)
            driver("new")
            new.commit(messages, 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a", b"b"]


async def test_a_driver_that_has_planned_nothing_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDERS, str(tmp_path / "gone"))
    (tmp_path / "metadata").write_text(json.dumps({"id": QUERY}))
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster, checkpointLocation=str(tmp_path))
            messages = run.write(run.planned(), 0, b"a")
            run.abort([None], 0)
            run.commit(messages, 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a"]


async def test_two_sinks_of_one_query_do_not_see_each_other() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            for sink in ("a", "b"):
                run = Run(cluster, sinkId=sink)
                run.commit(run.write(run.planned(), 0, sink.encode()), 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a", b"b"]


async def test_without_transactions_no_ordinal_is_asked_for() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            run = Run(cluster, deliveryGuarantee="at-least-once")
            planned = run.planned()
            assert planned._ordinal is None
            messages = run.write(planned, 0, b"a")
            run.commit(messages, 0)
            run.abort(messages, 0)

        await beside(work)
        assert committed_of(cluster, "t") == [b"a"]


def test_messages_of_another_batch_are_refused() -> None:
    options = sink_options("127.0.0.1:1")
    ticket = '{"bootstrap_servers":"a:1","transactional_id":"x","ordinal":1,"tag":4,"timeout_ms":1}'
    message = TaskMessage(Outcome.WRITTEN, 1, ticket)
    with pytest.raises(RuntimeError, match="batch 4, Spark commits 5"):
        StreamWriter(options, SCHEMA).commit([message], 5)


def test_schema_mistakes_are_told_before_anything_runs() -> None:
    assert issubclass(StreamWriter, DataSourceStreamArrowWriter)
    with pytest.raises(SinkSchemaError, match="value"):
        StreamWriter(sink_options("127.0.0.1:1"), StructType(SCHEMA.fields[:1]))
