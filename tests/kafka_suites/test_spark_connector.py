"""The suite compares what Spark copied with what was written, whatever Spark made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_suites import records, spark_connector
from kafka_suites.guide import shown
from kafka_suites.kit import Kit
from kafka_suites.spark_connector import CONNECTOR, COUNT, PACKAGES, PINNED, SHOUTED, SUITE, Visits
from kafka_suites.verdict import NotAsExpectedError
from oncelog import Record
from oncelog_cli.local.cluster import LocalCluster


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[records.Keyed]:
    """Return what is written."""
    rows: list[records.Keyed] = []
    monkeypatch.setattr(records, "write", lambda servers, topic, more: rows.extend(more))
    return rows


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((0, 0), ""),
        ((1, 0), "1 are missing, and 0 are beyond it"),
        ((0, 1), "0 are missing, and 1 are beyond it"),
    ],
)
def test_a_visit_that_is_lost_or_doubled_is_told(
    more: tuple[int, int],
    told: str,
    tmp_path: Path,
    written: list[records.Keyed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_connector, "environment", lambda listed, report: tmp_path)
    monkeypatch.setattr(spark_connector, "jars", lambda listed, what, report: "a.jar")
    visits = Visits(Kit("there:1", "here:1", tmp_path, print, LocalCluster(tmp_path)))
    visits.write()
    assert len(written) == COUNT
    lost, doubled = more
    read = [
        Record(SHOUTED, 0, offset, 0, key, value.upper(), ())
        for offset, (key, value) in enumerate([*written[lost:], *written[:doubled]])
    ]
    monkeypatch.setattr(records, "read", lambda servers, topic, enough: read)
    if told:
        with pytest.raises(NotAsExpectedError, match=told):
            visits.check()
    else:
        visits.check()


def test_spark_and_its_connector_are_of_one_version() -> None:
    version = PACKAGES.rpartition(":")[2]
    assert f"pyspark=={version}\n" in PINNED.read_text()
    rows = [line.split() for line in CONNECTOR.read_text().splitlines()]
    assert all(int(size) > 0 and len(bytes.fromhex(digest)) == 64 for _, size, digest in rows)
    assert any(path.endswith(f"spark-sql-kafka-0-10_2.13-{version}.jar") for path, _, _ in rows)
    assert all(PACKAGES in each.command for each in shown(SUITE))
