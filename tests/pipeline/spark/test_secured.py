"""Spark reads and writes a cluster with TLS, passwords and ACLs, and shows the password nowhere."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, Security, UserAlteration
from oncelog.admin.acl_rights import (
    AclResources,
    bindings,
    needed_by_consumer,
    needed_by_producer,
)
from oncelog_broker.config import ListenerConfig
from pipeline.drivers import LIBRARIES
from support.tls_cluster import TlsCluster

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(600)]

PASSWORD = "nobody-may-find-this"
VARIABLE = "ONCELOG_OF_SPARK"
DEADLINE_S = 500
COUNT = 250
SOURCE, STREAMED, BATCHED, GROUP = "in", "streamed", "batched", "progress"


class PasswordCluster(TlsCluster):
    """Brokers prove to each other by certificates who they are, and clients by a password."""

    def __init__(self, directory: Path, brokers: int) -> None:
        given: dict[str, Any] = {"authorizer": "acl", "super_users": ["User:admin"]}
        super().__init__(directory, brokers, **given)

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        internal, external = super().listeners(broker_id, **changed)
        asks: dict[str, Any] = {
            "tls_client_auth": "none",
            "tls_client_ca_file": None,
            "sasl_mechanisms": ["SCRAM-SHA-512"],
        }
        return [internal, external.model_copy(update=asks)]

    @property
    def internal(self) -> str:
        """Return where the admin is known by a certificate."""
        host, port = self.controller.addresses["internal"]
        return f"{host}:{port}"

    def admin(self) -> Security:
        """Return what the admin is given."""
        certificate, key = self.papers.issue("admin")
        return Security(ca_file=self.papers.ca_file, certificate_file=certificate, key_file=key)

    def app(self) -> Security:
        """Return what a client of the application is given, beside Spark."""
        return Security(ca_file=self.papers.ca_file, username="app", password=PASSWORD)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[PasswordCluster]:
    async with PasswordCluster(tmp_path / "cluster", 2) as cluster:
        yield cluster


async def give_rights(cluster: PasswordCluster) -> None:
    """Make the user, the topics, and the ACLs that docs/spark.md names."""
    reads = AclResources(topics=[SOURCE, STREAMED, BATCHED], groups=[GROUP])
    writes = AclResources(topics=[SOURCE, STREAMED, BATCHED])
    commits = AclResources(transactional_ids=["spark-"], prefix=True)
    needs = needed_by_consumer(reads) + needed_by_producer(writes) + needed_by_producer(commits)
    async with Admin(cluster.internal, security=cluster.admin()) as admin:
        new = UserAlteration.create("app", PASSWORD, iterations=4096)
        (await admin.alter_users([new])).raise_for_errors()
        (await admin.create_acls(bindings(needs, ["User:app"]))).raise_for_errors()
        for topic in (SOURCE, STREAMED, BATCHED):
            await admin.create_topics([NewTopic(topic, 2, 2)])
    for topic in (SOURCE, STREAMED, BATCHED):
        await cluster.wait_for_leader(topic)


async def run_driver(cluster: PasswordCluster, place: Path) -> str:
    """Run the driver; return everything that it has written."""
    given = {
        "options": {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": cluster.papers.ca_file,
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.username": "app",
            "oncelog.security.password.env": VARIABLE,
            "groupId": GROUP,
        },
        "source": SOURCE,
        "streamed": STREAMED,
        "batched": BATCHED,
        "checkpoint": str(place / "checkpoint"),
        "event_log": str(place / "events"),
    }
    (place / "events").mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(LIBRARIES), *filter(None, sys.path)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        VARIABLE: PASSWORD,
    }
    driver = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pipeline.secured_driver", json.dumps(given),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment,
    )  # fmt: skip
    try:
        async with asyncio.timeout(DEADLINE_S):
            shown, _ = await driver.communicate()
    finally:
        if driver.returncode is None:
            driver.kill()
            await driver.wait()
    return shown.decode(errors="replace")


async def values(cluster: PasswordCluster, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with (
        asyncio.timeout(60),
        Consumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            security=cluster.app(),
        ) as consumer,
    ):
        while not (lag := await consumer.lag()) or any(lag.values()):
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += [record.value for record in records]
    return sorted(found, key=lambda value: value or b"")


async def test_both_ways_and_the_password_is_nowhere(
    cluster: PasswordCluster, tmp_path: Path
) -> None:
    await give_rights(cluster)
    expected = sorted(b"%d" % number for number in range(COUNT))
    async with Producer(cluster.bootstrap, security=cluster.app()) as producer:
        await producer.send_many(SOURCE, expected)
    shown = await run_driver(cluster, tmp_path / "spark")
    lines = shown.splitlines()
    assert lines[-1] == "done", "\n".join(lines[-60:])
    assert "refused: True False" in lines
    assert "missing: True" in lines
    assert f"rows {COUNT}" in lines
    assert shown.count("== Physical Plan ==") >= 2
    assert PASSWORD not in shown
    assert await values(cluster, STREAMED) == expected, "also after a micro-batch was done again"
    assert await values(cluster, BATCHED) == expected
    kept = {p: p.read_bytes() for p in (tmp_path / "spark").rglob("*") if p.is_file()}
    assert any(b"SparkListenerSQLExecutionStart" in content for content in kept.values())
    for path, content in kept.items():
        assert PASSWORD.encode() not in content, path
