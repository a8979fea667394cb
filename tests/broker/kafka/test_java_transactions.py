"""A copier of Kafka's is run in Java; it aborts many of its transactions.

``TransactionalMessageCopier`` is a judge that Kafka's system tests use: it reads a topic in a
group, writes what it has read to another one, and commits the positions with it. What readers of
committed records see in the end is the input: each record once, in order. A client of ours does the
same work before and after it, in the same group and under the same transactional id.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncelog import Consumer, Producer, TopicPartition
from oncelog_bench.peers.kafka_cluster import cache_directory, fetch_jars
from support.kafka_cluster import KafkaCluster
from support.kafka_readers import read_with_confluent
from support.waiting import in_thread

pytestmark = [pytest.mark.slow]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
WAIT_S = 240.0


class ChangedMindError(Exception):
    """The application aborts."""


@pytest.fixture(scope="module")
def jars() -> Path:
    """Return the folder of Kafka's jars."""
    if shutil.which("java") is None:
        pytest.skip("Kafka's tools need `java` on the PATH")
    try:
        return fetch_jars(cache_directory())
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        pytest.skip(f"Kafka's jars cannot be had: {error}")


async def copied(jars: Path, servers: str, count: int, size: int) -> None:
    """Copy ``count`` records from the topic "in" to "out", ``size`` in a transaction. As a member
    of a group the copier goes on to the end of its input, whatever the count."""
    options = {
        "broker-list": servers, "input-topic": "in", "input-partition": 0, "output-topic": "out",
        "max-messages": count, "consumer-group": "copiers", "transactional-id": "copier",
        "transaction-size": size,
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in options.items()]
    switches = ("--enable-random-aborts", "--use-group-metadata", "--group-mode")
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", COPIER, *words, *switches]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(WAIT_S):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, told.decode()[-4000:]


async def prepare(cluster: KafkaCluster) -> None:
    """Make both topics."""
    for topic in ("in", "out"):
        await cluster.create_topic(topic, replication_factor=3, min_insync_replicas=2)


async def write(cluster: KafkaCluster, values: Sequence[bytes]) -> None:
    """Write some of the input."""
    host, port = cluster.brokers[1].addresses["external"]
    async with Producer(f"{host}:{port}") as producer:
        await producer.send_many("in", values, partition=0)


async def copied_natively(cluster: KafkaCluster, count: int, size: int) -> None:
    """Copy as the Java client does, by a client of ours: same group, same transactional id. Every
    second transaction is aborted."""
    host, port = cluster.brokers[1].addresses["external"]
    servers = f"{host}:{port}"
    done = turn = 0
    async with (
        Consumer(
            "in",
            bootstrap_servers=servers,
            group_id="copiers",
            max_poll_records=size,
            auto_offset_reset="earliest",
        ) as ins,
        Producer(servers, transactional_id="copier") as producer,
    ):
        async with asyncio.timeout(WAIT_S):
            while done < count:
                turn += 1
                read = 0
                with contextlib.suppress(ChangedMindError):
                    async with producer.transaction(ins) as txn:
                        for records in (await ins.getmany(timeout_ms=200)).values():
                            read += len(records)
                            for record in records:
                                await txn.enqueue("out", record.value, partition=0)
                        if turn % 2:
                            raise ChangedMindError
                    done += read


async def read_natively(cluster: KafkaCluster) -> list[bytes]:
    """Return what a client of ours sees of the copies."""
    host, port = cluster.brokers[1].addresses["external"]
    found: list[bytes] = []
    where = TopicPartition("out", 0)
    async with Consumer(bootstrap_servers=f"{host}:{port}", auto_offset_reset="earliest") as out:
        out.assign([where])
        (end,) = (await out.end_offsets([where])).values()
        while await out.position(where) < end:
            for records in (await out.getmany(timeout_ms=200)).values():
                found += [record.value or b"" for record in records]
    return found


async def judge(cluster: KafkaCluster, values: list[bytes]) -> None:
    """Check that each record is seen once and in order, though more was written."""
    servers = cluster.kafka_servers
    assert await read_natively(cluster) == values
    committed = await in_thread(read_with_confluent, servers, "out", "read_committed")
    assert committed == values
    written = await in_thread(read_with_confluent, servers, "out", "read_uncommitted")
    assert len(written) >= len(values)
    assert set(written) == set(values)


async def test_each_record_is_copied_once_by_clients_of_both_kinds_in_turn(
    tmp_path: Path, jars: Path
) -> None:
    values = [b"%d" % index for index in range(500)]
    async with KafkaCluster(tmp_path, 3) as cluster:
        await prepare(cluster)
        await write(cluster, values[:400])
        await copied_natively(cluster, 100, size=20)
        await copied(jars, cluster.kafka_servers, 300, size=40)
        await write(cluster, values[400:])
        await copied_natively(cluster, 100, size=20)
        await judge(cluster, values)


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_each_record_is_copied_once_while_brokers_die(tmp_path: Path, jars: Path) -> None:
    values = [b"%d" % index for index in range(10_000)]
    async with KafkaCluster(tmp_path, 3) as cluster:
        await prepare(cluster)
        await write(cluster, values)
        copying = asyncio.ensure_future(copied(jars, cluster.kafka_servers, len(values), size=100))
        turn = 0
        while not copying.done():
            broker_id = turn % 3 + 1
            turn += 1
            await _silent(copying, 3)
            if not copying.done():
                await cluster.crash_broker(broker_id)
                await _silent(copying, 1)
                await cluster.start_broker(broker_id)
                await cluster.converged()
        await copying
        assert turn > 1
        await judge(cluster, values)


async def _silent(copying: asyncio.Future[None], seconds: float) -> None:
    """Return when the copier has ended, or after a while of its work."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(copying)
    except TimeoutError:
        return
