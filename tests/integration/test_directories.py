"""One of a broker's two directories fails while a replica moves between them, in real processes.

The broker goes on with the other directory, and nothing that was acknowledged is lost. A volume
that vanishes is what fails: the directory has another name from one moment to the next. What moves
is a large replica that nobody writes to; small ones, which are written, wait behind it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.processes import DEADLINE_S, Processes
from integration.workload import Workload
from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog_broker.log.move_marks import write_moved
from oncelog_runtime.files import SystemFiles
from support.waiting import in_thread

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC, PARTITIONS = "orders", 4
BROKER = 1
LARGE, RECORD, COUNT = "large", b"\0" * 100_000, 60
SETTINGS = {"replica_catch_up_max_bytes_per_second": 100_000, "log_checkpoint_interval_ms": 500}
"""A copy of the large replica takes a minute."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Start a cluster of three, of which one broker has two directories."""
    running = Processes(tmp_path_factory.mktemp("directories") / "cluster", settings=SETTINGS)
    running.cluster.start()
    try:
        _add_directory(running)
        yield running
    finally:
        running.cluster.stop()


def _add_directory(running: Processes) -> None:
    broker = running.cluster.broker(BROKER)
    assert broker.stop()
    one, two = str(broker.data_path), str(broker.directory / "data2")
    config = broker.config_path.read_text()
    assert config.count(f'"{one}"') == 1
    broker.config_path.write_text(config.replace(f'"{one}"', f'"{one}", "{two}"'))
    running.cluster.start_broker(BROKER)


async def fill(cluster: Processes) -> None:
    """Make the large topic, and write it."""
    await cluster.create_topic(LARGE, 1)
    async with Producer(cluster.bootstrap, acks="all") as producer:
        for _ in range(COUNT):
            await producer.enqueue(LARGE, RECORD, partition=0)
        await producer.flush()


async def values_of(cluster: Processes) -> list[bytes | None]:
    """Return what the large topic holds."""
    found: list[bytes | None] = []
    async with Consumer(
        LARGE, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        async with asyncio.timeout(DEADLINE_S):
            while len(found) < COUNT:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [record.value for record in records]
    return found


async def places(admin: Admin) -> dict[tuple[str, int], str]:
    """Return in which directory of the broker each partition is."""
    described = await admin.describe_log_dirs([BROKER], topics=[TOPIC, LARGE])
    return {
        (replica.partition.topic, replica.partition.partition): each.path
        for each in described
        for replica in each.replicas
    }


def left_of_moves(log_dir: Path) -> list[Path]:
    """Return what a move has left in a directory."""
    return [*log_dir.glob("*-future"), *log_dir.glob("*/moved.json"), *log_dir.glob("*/swap.json")]


def kept_aside(log_dir: Path) -> list[Path]:
    """Return the segments of the copy of the large replica that was put aside."""
    return list(log_dir.glob(f"{LARGE}-0.*-stray/*.log"))


async def test_a_replica_whose_new_directory_is_lost_is_fetched_again(cluster: Processes) -> None:
    """The broker stops in the course of a move, and the disk to which the replica goes is replaced:
    the old copy has lacked records since, for all that anybody knows."""
    await fill(cluster)
    async with cluster.admin() as admin:
        source = Path((await places(admin))[LARGE, 0])
    await cluster.stop_cleanly(BROKER)
    directories = (cluster.cluster.broker(BROKER).data_path, source.parent / "data2")
    (target,) = set(directories) - {source}
    goes_to = json.loads((target / "meta.json").read_text())["directory_id"]
    await in_thread(write_moved, SystemFiles(), f"{source}/{LARGE}-0", goes_to)
    await in_thread(shutil.rmtree, target)
    await in_thread(target.mkdir)
    async with Producer(cluster.bootstrap, acks="all") as producer:
        await producer.send(LARGE, RECORD, partition=0)
    await cluster.restart(BROKER)
    await cluster.wait_isr(LARGE, 3)
    async with cluster.admin() as admin:
        described = await admin.describe_log_dirs([BROKER], topics=[LARGE])
    (replica,) = [each for log_dir in described for each in log_dir.replicas]
    assert (replica.log_start_offset, replica.log_end_offset) == (0, COUNT + 1)
    assert replica.size_bytes > (COUNT + 1) * len(RECORD)
    (segment,) = await in_thread(kept_aside, source)
    await cluster.delete_topic(LARGE)
    await in_thread(shutil.rmtree, segment.parent)  # by hand: no broker ever does


@pytest.mark.parametrize("fails", ["source", "target"])
async def test_a_directory_fails_while_a_replica_moves(cluster: Processes, fails: str) -> None:
    await cluster.create_topic(TOPIC, PARTITIONS)
    await fill(cluster)
    async with cluster.admin() as admin:
        before = await places(admin)
        source = before[LARGE, 0]
        (target,) = set(before.values()) - {source}
        failed = Path(source if fails == "source" else target)
        async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load:
            wishes = {TopicPartition(*name): target for name in before if before[name] == source}
            (await admin.alter_replica_log_dirs(BROKER, wishes)).raise_for_errors()

            async def moves(admin: Admin) -> bool | None:
                described = await admin.describe_log_dirs([BROKER], topics=[LARGE])
                copied = [each.size_bytes for log_dir in described for each in log_dir.future]
                return any(copied) or None

            await cluster.eventually("a copy is being made", moves)
            gone = failed.with_name(f"{failed.name}-gone")
            await in_thread(failed.rename, gone)

            async def goes_on(admin: Admin) -> bool | None:
                described = await admin.describe_log_dirs([BROKER])
                offline = [each.path for each in described if each.error is not None]
                found = {
                    (topic.topic, partition.partition): partition
                    for topic in await admin.describe_topics([TOPIC, LARGE])
                    for partition in topic.partitions
                }
                there = {name for name, each in found.items() if BROKER in each.isr}
                sound = {name for name, path in before.items() if path != str(failed)}
                led = all(each.leader >= 0 for each in found.values())
                return (offline == [str(failed)] and there == sound and led) or None

            await cluster.eventually("it goes on with the other directory", goes_on)
            await load.wait_for(100)
            assert cluster.cluster.broker(BROKER).state == "running"
        assert not load.failed
    await cluster.stop_cleanly(BROKER)
    await in_thread(gone.rename, failed)
    await cluster.restart(BROKER)
    await cluster.wait_isr(TOPIC, 3)
    await cluster.wait_isr(LARGE, 3)
    assert await values_of(cluster) == [RECORD] * COUNT
    await load.verify(await cluster.replicas(TOPIC))
    async with cluster.admin() as admin:
        assert await places(admin) == before
    assert not await in_thread(left_of_moves, failed)
    await cluster.delete_topic(TOPIC)
    await cluster.delete_topic(LARGE)
