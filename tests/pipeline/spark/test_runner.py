"""Jobs copy from topic to topic, in a session of ours and by ``spark-submit``."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.processes import Processes
from oncelog import Admin, Consumer, NewTopic, Producer
from pyspark_oncelog.runner import job_from, start
from pyspark_oncelog.runner.check import check
from pyspark_oncelog.runner.dataflow import plan
from pyspark_oncelog.runner.failures import explain
from pyspark_oncelog.runner.job import Job
from pyspark_oncelog.runner.run import StopFlag, run
from pyspark_oncelog.runner.view import JsonView, TextView
from support.house import ROOMS, ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.timeout(400),
]

MODULE = """
from pyspark.sql import functions as F

@F.udf("string")
def loud(text):
    return text.upper() + "!"

def shout(words):
    return words.select("key", loud("value").alias("value"))
"""


def topics(processes: Processes, *names: str) -> None:
    async def make() -> None:
        async with Admin(processes.bootstrap) as admin:
            made = await admin.create_topics([NewTopic(name, 2, 3, {}) for name in names])
            made.raise_for_errors()

    asyncio.run(make())


def send(processes: Processes, topic: str, values: list[bytes]) -> None:
    async def work() -> None:
        async with Producer(processes.bootstrap) as producer:
            await producer.send_many(topic, values, keys=values)

    asyncio.run(work())


def received(processes: Processes, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values that are committed, in each partition's order."""

    async def work() -> list[tuple[bytes | None, bytes | None]]:
        found = []
        async with Consumer(
            topic, bootstrap_servers=processes.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            while any((await consumer.lag()).values()):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += [(record.key, record.value) for record in records]
        return found

    return asyncio.run(work())


def job(processes: Processes, directory: Path, name: str, **changes: Any) -> Job:
    """Return a job that copies topic ``<name>-in`` to ``<name>-out``, but for ``changes``."""
    document = {
        "name": name,
        "bootstrap_servers": processes.bootstrap,
        "checkpoint": "state",
        "trigger": "available now",
        "sources": {
            "words": {
                "subscribe": f"{name}-in",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": 4,
                "valueFormat": "string",
            }
        },
        "query": {"sql": "SELECT key, value FROM words"},
        "sink": {"topic": f"{name}-out"},
        **changes,
    }
    return job_from(document, directory=directory)


def test_rows_that_do_not_fit_lose_one_field_and_are_counted(
    spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    topics(processes, "unfit-in", "unfit-out")
    values = [b'{"n": 1, "s": "a"}', b'{"n": 12.0, "s": "b"}', b"nonsense", b'{"n": 4, "s": "d"}']
    send(processes, "unfit-in", values)
    source = {
        "subscribe": "unfit-in",
        "startingOffsets": "earliest",
        "value_format": "json",
        "value_schema": "n INT, s STRING",
    }
    twice = "SELECT a.value.n, b.value.s FROM words a JOIN words b ON a.offset = b.offset"
    given = {"sources": {"words": source}, "query": {"sql": "SELECT value.* FROM words"}}
    both = plan(job(processes, tmp_path, "unfit", **given | {"query": {"sql": twice}}), spark)
    assert both.columns == ["value"]
    out = io.StringIO()
    totals = run(job(processes, tmp_path, "unfit", **given), JsonView(out), spark=spark)
    found = sorted(
        json.dumps(json.loads(value or b"")) for _, value in received(processes, "unfit-out")
    )
    assert found == ['{"n": 1, "s": "a"}', '{"n": 4, "s": "d"}', '{"s": "b"}', "{}"]
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    shown = [event for event in events if event["event"] == "progress"]
    assert sum(event["misfits"] for event in shown) == totals.misfits == events[-1]["misfits"] == 2
    assert {event["misfit"] for event in shown} <= {
        "value: n: 12.0 is no INT",
        "value: 'nonsense' at 0 is no JSON",
        None,
    }


def test_runs_go_on_where_the_last_one_ended(
    spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    topics(processes, "again-in", "again-out")
    again = job(processes, tmp_path, "again")
    assert all(finding.ok for finding in check(again))
    words = [b"%d" % number for number in range(10)]
    send(processes, "again-in", words[:7])
    out = io.StringIO()
    totals = run(again, JsonView(out), spark=spark)
    assert totals.rows == 7
    assert totals.batches >= 2
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events[1:-1]] == ["progress"] * totals.batches
    assert (events[0]["event"], events[0]["jvm_pid"] is not None) == ("started", True)
    assert (events[-1]["event"], events[-1]["rows"]) == ("ended", 7)
    assert events[-2]["lag"] == 0

    send(processes, "again-in", words[7:])
    assert run(again, TextView(io.StringIO())).rows == 3  # in the session that there is
    assert run(again, TextView(io.StringIO()), spark=spark).rows == 0
    assert sorted(received(processes, "again-out")) == [(word, word) for word in words]

    async def lag() -> int | None:
        async with Admin(processes.bootstrap) as admin:
            return (await admin.describe_groups(["again"]))[0].lag

    assert asyncio.run(lag()) == 0
    checkpoint = next(f for f in check(again) if f.about == "checkpoint")
    assert f"query {events[0]['query_id']} goes on after batch" in checkpoint.text


def test_updates_are_written_as_they_come(
    spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    topics(processes, "counts-in", "counts-out")
    counts = job(
        processes,
        tmp_path,
        "counts",
        query={"sql": "SELECT value AS word, count(*) AS n FROM words GROUP BY value"},
        sink={"topic": "counts-out", "key": "word", "output_mode": "update"},
    )
    send(processes, "counts-in", [b"a", b"a", b"b"])
    run(counts, TextView(io.StringIO()), spark=spark)
    send(processes, "counts-in", [b"a"])
    run(counts, TextView(io.StringIO()), spark=spark)
    newest = {key: json.loads(value or b"") for key, value in received(processes, "counts-out")}
    assert newest == {b"a": {"word": "a", "n": 3}, b"b": {"word": "b", "n": 1}}


def test_a_job_is_stopped_from_outside(
    spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    topics(processes, "endless-in", "endless-out")
    send(processes, "endless-in", [b"x"])
    stop = StopFlag()
    out = io.StringIO()

    class Stopping(TextView):
        """It stops the run when the first batch is done."""

        def progress(self, summary: Any) -> None:
            super().progress(summary)
            stop.set()

    endless = job(processes, tmp_path, "endless", trigger="immediately")
    totals = run(endless, Stopping(out), spark=spark, stop=stop)
    assert totals.rows == 1
    assert out.getvalue().splitlines()[-1] == "stopped: 1 batches, 1 rows"
    assert received(processes, "endless-out") == [(b"x", b"x")]


def test_a_query_that_fails_says_why(
    spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    topics(processes, "failing-in")
    send(processes, "failing-in", [b"x"])
    failing = job(processes, tmp_path, "failing")
    query = start(failing, spark)
    with pytest.raises(Exception, match="failing-out") as caught:
        query.awaitTermination(120)
    reason = explain(caught.value)[0]
    assert "failing-out" in reason
    assert "Traceback" not in reason
    assert "\n" not in reason


@pytest.mark.nightly
def test_by_spark_submit_with_a_function_of_ones_own(processes: Processes, tmp_path: Path) -> None:
    topics(processes, "shout-in", "shout-out")
    send(processes, "shout-in", [b"hear", b"this"])
    (tmp_path / "shouting.py").write_text(MODULE)
    (tmp_path / "shout.toml").write_text(
        'checkpoint = "state"\ntrigger = "available now"\n'
        '[sources.words]\nsubscribe = "shout-in"\nstartingOffsets = "earliest"\n'
        'valueFormat = "string"\n'
        '[query]\nfunction = "shouting:shout"\n[sink]\ntopic = "shout-out"\n'
        '[spark]\nmaster = "local[2]"\n[spark.conf]\n"spark.ui.enabled" = false\n'
    )
    path = [str(ROOT / room) for room in sorted(ROOMS)]
    command = [sys.executable, "-m", "oncelog_cli", "pipeline", "run", str(tmp_path / "shout.toml")]
    done = subprocess.run(
        [*command, "--submit", "--json", "-b", processes.bootstrap, "--", "--driver-memory", "1g"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["rows"]) == ("ended", 2)
    expected = [(b"hear", b"HEAR!"), (b"this", b"THIS!")]
    assert sorted(received(processes, "shout-out")) == expected
