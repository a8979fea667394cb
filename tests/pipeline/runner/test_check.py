"""A check finds much without Spark, and without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark_oncelog.runner.check import Finding, check, topics_of
from pyspark_oncelog.runner.job import Job, Source
from pyspark_oncelog.runner.job_file import job_from
from support.cluster import Cluster


def job(directory: Path, **changes: Any) -> Job:
    """Return a job that is right, but for ``changes``."""
    document = {
        "name": "copy",
        "checkpoint": "state",
        "sources": {"a": {"subscribe": "t"}},
        "query": {"sql": "SELECT * FROM a"},
        "sink": {"topic": "u"},
        **changes,
    }
    return job_from(document, directory=directory)


def bad(findings: list[Finding]) -> list[str]:
    """Return what is wrong, and about what."""
    return [f"{f.about}: {f.text}" for f in findings if not f.ok]


def test_machine_and_options(tmp_path: Path) -> None:
    wrong = job(
        tmp_path,
        bootstrap_servers="127.0.0.1:1",
        sources={"a": {"subscribe": "t", "startingOffset": "earliest"}},
        sink={"topic": "u", "acks": "1"},
    )
    findings = check(wrong, submitted=True)
    good = {f.about for f in findings if f.ok}
    assert {"PySpark", "Java", "spark-submit"} <= good
    problems = bad(findings)
    assert any(p.startswith("a: ") and "startingOffsets" in p for p in problems)
    assert any(p.startswith("sink: ") and "acks" in p for p in problems)
    assert any(p.startswith("cluster: ") and "127.0.0.1:1" in p for p in problems)


def test_schemas_are_shown_as_they_were_written(tmp_path: Path) -> None:
    topic = {"subscribe": "t", "valueFormat": "json", "value_schema": "id BIGINT, name STRNG"}
    file = {"format": "csv", "batch": True, "path": "x", "schema": "a CHAR(2), b: INT c"}
    wrong = job(tmp_path, bootstrap_servers="127.0.0.1:1", sources={"a": topic, "f": file})
    problems = [problem for problem in bad(check(wrong)) if "chema" in problem]
    assert problems == [
        "a: valueSchema: STRNG is no type\n  id BIGINT, name STRNG\n                  ^",
        "f: schema: this is not expected here\n  a CHAR(2), b: INT c\n                    ^",
    ]


def test_a_cluster_must_be_named(tmp_path: Path) -> None:
    assert "cluster: no brokers are named" in " ".join(bad(check(job(tmp_path))))


def test_a_function_that_does_not_fit(tmp_path: Path) -> None:
    def takes_b(b: Any) -> None: ...

    rate = {"format": "rate"}
    noop = {"format": "noop"}
    wrong = job(tmp_path, sources={"a": rate}, sink=noop, query={"function": takes_b})
    (problem,) = bad(check(wrong))
    assert "'b' is no source" in problem
    right = job(tmp_path, sources={"b": rate}, sink=noop, query={"function": takes_b})
    assert bad(check(right)) == []


def test_security_is_looked_at(tmp_path: Path) -> None:
    security = {"ca_file": "ca.pem", "username": "app", "password": "s3cret"}
    wrong = job(tmp_path, bootstrap_servers="127.0.0.1:1", security=security)
    problems = bad(check(wrong))
    assert [problem.partition(":")[0] for problem in problems] == ["a", "sink", "cluster"]
    assert all("in the query plan" in problem for problem in problems)
    assert "s3cret" not in " ".join(problems)
    missing = job(tmp_path, bootstrap_servers="127.0.0.1:1", security={"ca_file": "ca.pem"})
    (problem,) = bad(check(missing))
    assert f"{tmp_path / 'ca.pem'} is not there on" in problem


async def test_topics_of_a_cluster(tmp_path: Path) -> None:
    import asyncio

    async with Cluster(tmp_path / "cluster") as cluster:
        await cluster.create_topic("t")
        servers = cluster.bootstrap
        found = await asyncio.to_thread(check, job(tmp_path, bootstrap_servers=servers))
        assert [f.text for f in found if f.about == "a"][-1] == "topic t is there"
        assert bad(found) == [
            "sink: there is no topic u. Remedy: oncelog topics create u --partitions N"
        ]
        await cluster.create_topic("u")
        found = await asyncio.to_thread(check, job(tmp_path, bootstrap_servers=servers))
        assert bad(found) == []


def test_what_the_checkpoint_says(tmp_path: Path) -> None:
    new = job(tmp_path, sources={"a": {"format": "rate"}}, sink={"format": "noop"})

    def said() -> Finding:
        (found,) = [f for f in check(new) if f.about == "checkpoint"]
        return found

    assert "is new" in said().text
    place = tmp_path / "state"
    (place / "commits").mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": "query-id"}))
    assert "query-id goes on before its first batch ended" in said().text
    for batch in (8, 9, 10):
        (place / "commits" / str(batch)).write_text("")
    assert "query-id goes on after batch 10" in said().text
    (place / "metadata").write_text("{")
    assert not said().ok


def test_topics_that_a_source_names() -> None:
    assert topics_of(Source("a", {"Subscribe": "t, u"})) == ["t", "u"]
    assert topics_of(Source("a", {"assign": '{"v": [0], "t": [1]}'})) == ["t", "v"]
    assert topics_of(Source("a", {"assign": "{"})) == []
    assert topics_of(Source("a", {"subscribepattern": "t.*"})) == []
    assert topics_of(Source("a", {"subscribe": "t"}, format="kafka")) == []


def test_a_finding_in_a_line() -> None:
    assert Finding(True, "Java", "version 17").as_line() == "ok     Java         version 17"
    assert Finding(False, "Java", "none").as_line() == "ERROR  Java         none"
