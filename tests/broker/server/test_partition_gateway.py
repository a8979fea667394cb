"""The coordinators' partitions have real replicas: roles, appends, reads, commits."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from oncelog_broker.coordinator import shadows
from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.server import partition_gateway
from oncelog_broker.server.coordinator_records import READ_BYTES
from oncelog_broker.server.partition_gateway import PartitionGateway
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    CorruptMessageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.limits import BATCH_BYTES_MAX
from oncelog_protocol.messages.replication import StopPartition, StopReplicaRequest
from oncelog_protocol.records.batch import EPOCH_OFFSET, LENGTH_OFFSET
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, TopicPartition
from oncelog_runtime.tasks import Tasks
from support.clock import ManualClock
from support.compaction import make_cleaner
from support.coordinators import TextShard
from support.replicas import NOW_MS
from support.replication_cluster import Cluster
from support.waiting import eventually
from unsafe.coordinators import without

TP = TopicPartition("__consumer_offsets", 0)
A1, A2, B1 = (CoordinatorRecord(b"a", v) for v in (b"1", b"2", None))
NOT_HERE = NotCoordinatorError.code


class Coordinators:
    """Every broker of a cluster in one process has an engine."""

    def __init__(self, cluster: Cluster, safeguards: CoordinatorSafeguards = SAFE) -> None:
        self.cluster = cluster
        self.gateways: dict[int, PartitionGateway] = {}
        self.engines: dict[int, CoordinatorEngine[TextShard]] = {}
        self.tasks = Tasks("coordinators")
        for broker_id, node in cluster.nodes.items():
            gateway = self.gateways[broker_id] = PartitionGateway(
                node.replicas, ManualClock(NOW_MS)
            )
            engine = self.engines[broker_id] = CoordinatorEngine(
                name="texts",
                topic=TP.topic,
                writer=gateway,
                make_shard=TextShard,
                tasks=self.tasks,
                commit_timeout_ms=5000,
                safeguards=safeguards,
            )
            engine.set_partition_count(1)
            gateway.attach(engine)

    async def __aenter__(self) -> Coordinators:
        return self

    async def __aexit__(self, *_: object) -> None:
        for engine in self.engines.values():
            engine.close()
        await self.tasks.close()

    async def lead(self, broker_id: int, **options: Any) -> None:
        """Elect, and wait until the shard is loaded."""
        self.cluster.lead(TP, broker_id, **options)
        await eventually(lambda: self.engines[broker_id].refusal("a") == 0)

    async def put(self, broker_id: int, name: str, value: str | None) -> int:
        """Return the error code."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.engines[broker_id].write(
            name, lambda shard: shard.put(name, value), lambda _, code: answer.set_result(code)
        )
        return await answer

    async def get(self, broker_id: int, name: str) -> tuple[str | None, int]:
        """Return (value, error code)."""
        answer: asyncio.Future[tuple[str | None, int]] = asyncio.get_running_loop().create_future()
        self.engines[broker_id].read(
            name,
            lambda shard: shard.values.get(name, "none"),
            lambda value, code: answer.set_result((value, code)),
        )
        return await answer


def name(cluster: Cluster, broker_id: int) -> None:
    """Tell the brokers that can be reached who is to lead soon."""
    order = replace(cluster.orders[TP], is_new=False, next_leader=broker_id)
    for node_id, node in cluster.nodes.items():
        if node.reachable:
            cluster.send_orders(node_id, [order])


async def followed_by(cluster: Cluster, broker_id: int, end: int) -> None:
    """Wait until a follower knows that all below ``end`` is committed."""
    await eventually(lambda: cluster[broker_id].partition(TP).high_watermark == end)


async def read_all(
    gateway: PartitionGateway, epoch: int, then: Callable[[], object] | None = None
) -> list[list[CoordinatorRecord]]:
    found = []
    async for records in gateway.read(TP, epoch):
        found.append(list(records))
        if then is not None:
            then()
    return found


async def test_what_one_coordinator_wrote_the_next_one_knows() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        assert await coordinators.put(1, "a", "2") == 0
        assert await coordinators.get(1, "a") == ("2", 0)
        await coordinators.lead(2)
        assert await coordinators.get(2, "a") == ("2", 0)
        assert coordinators.engines[1].refusal("a") == NOT_HERE
        assert await coordinators.put(1, "a", "3") == NOT_HERE
        assert coordinators.engines[3].refusal("a") == NOT_HERE


@pytest.mark.parametrize(
    "rotten_byte",
    [
        pytest.param(-1, id="in the records"),
        pytest.param(22, id="the batch passes for a control batch"),
        pytest.param(7, id="the batch passes for one further behind"),
    ],
)
async def test_rot_that_loading_finds_is_the_replicas_trouble(rotten_byte: int) -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        partition = cluster[1].replicas.partition(TP)
        where = rotten_byte % partition.log.size_bytes
        cluster[1].files.corrupt(partition.log.segments.active.path, where, mask=0x20)
        with pytest.raises(StorageError):
            await read_all(coordinators.gateways[1], partition.leader_epoch)
        assert cluster[1].broken == 1, "another one shall lead"
        cluster[1].broken = 0


@pytest.mark.parametrize("bit", range(8))
async def test_no_flipped_bit_of_a_batch_is_believed_by_loading(bit: int) -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        for value in ("1", "2"):
            assert await coordinators.put(1, "a", value) == 0
        partition, files = cluster[1].replicas.partition(TP), cluster[1].files
        assert await read_all(coordinators.gateways[1], partition.leader_epoch) == [[A1, A2]]
        path = partition.log.segments.active.path
        size = partition.log.segments.active.header_at(0)[1].size_bytes
        believed = []
        for position in range(size):
            files.corrupt(path, position, mask=1 << bit)
            try:
                if await read_all(coordinators.gateways[1], partition.leader_epoch) == [[A1, A2]]:
                    believed.append(position)
            except StorageError:
                assert partition.repair.corruption
            except CorruptMessageError:
                pass  # nothing at all was read
            else:
                assert believed[-1:] == [position]
            files.corrupt(path, position, mask=1 << bit)
        # Of what no checksum covers a coordinator asks only the offsets.
        assert believed == list(range(EPOCH_OFFSET, EPOCH_OFFSET + 4))
        cluster[1].broken = 0


async def test_a_batch_that_seems_to_go_on_behind_what_was_read_does_not_hold_loading_up() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        partition = cluster[1].replicas.partition(TP)
        cluster[1].files.corrupt(partition.log.segments.active.path, LENGTH_OFFSET + 2, mask=1)
        with pytest.raises(StorageError, match="none"):
            await read_all(coordinators.gateways[1], partition.leader_epoch)
        assert cluster[1].broken == 1, "another one shall lead"
        cluster[1].broken = 0


async def test_other_topics_are_no_coordinators_business() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        cluster.lead(TopicPartition("t", 0), 1)
        assert coordinators.engines[1].led == []


async def test_a_reply_waits_for_every_replica_in_sync() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        cluster[2].cut()
        cluster[3].cut()
        answer = asyncio.ensure_future(coordinators.put(1, "a", "1"))
        await eventually(lambda: cluster[1].partition(TP).log.log_end_offset == 1)
        assert not answer.done()
        for broker_id in (2, 3):
            cluster[broker_id].reachable = True
        assert await answer == 0


async def test_a_leadership_lost_with_writes_on_their_way() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        cluster[2].cut()
        cluster[3].cut()
        write = asyncio.ensure_future(coordinators.put(1, "a", "2"))
        read = asyncio.ensure_future(coordinators.get(1, "a"))
        await eventually(lambda: cluster[1].partition(TP).log.log_end_offset == 2)
        cluster.lead(TP, 2)
        assert await write == RequestTimedOutError.code
        assert await read == (None, NOT_HERE)
        for broker_id in (2, 3):
            cluster[broker_id].reachable = True
        await eventually(lambda: coordinators.engines[2].refusal("a") == 0)
        assert await coordinators.get(2, "a") == ("1", 0)


async def test_too_few_replicas_refuse_before_anything_is_written() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1, isr=[1], configs={"min_insync_replicas": "2"})
        cluster[2].cut()
        cluster[3].cut()
        gateway = coordinators.gateways[1]
        with pytest.raises(NotEnoughReplicasError):
            gateway.append(TP, 0, [A1])
        assert gateway.end_offset(TP, 0) == 0


async def test_only_in_the_epoch_that_is_meant() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        gateway = coordinators.gateways[1]
        with pytest.raises(UnknownTopicOrPartitionError):
            gateway.append(TP, 0, [A1])
        heard: list[int] = []
        gateway.when_committed(TP, 0, heard.append)
        await coordinators.lead(1)
        await coordinators.lead(1)
        assert gateway.append(TP, 1, [A1, A2]) == 2
        for epoch in (0, 2):
            with pytest.raises(NotLeaderOrFollowerError):
                gateway.append(TP, epoch, [A1])
            with pytest.raises(NotLeaderOrFollowerError):
                gateway.end_offset(TP, epoch)
            with pytest.raises(NotLeaderOrFollowerError):
                await read_all(gateway, epoch)
        coordinators.gateways[2].when_committed(TP, 0, heard.append)
        assert heard == [NotLeaderOrFollowerError.code] * 2


async def test_a_write_too_large_for_a_batch() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        for size in (2_000_000, BATCH_BYTES_MAX + 1):
            with pytest.raises(MessageTooLargeError):
                gateway.append(TP, 0, [CoordinatorRecord(b"a", bytes(size))])
        assert gateway.end_offset(TP, 0) == 0


async def test_reading_goes_from_log_start_to_log_end_in_order() -> None:
    """It reads also what is not committed, tombstones too, in several reads, and nothing of control
    batches or of records without a key."""
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        big = CoordinatorRecord(b"big", bytes(READ_BYTES))
        gateway.append(TP, 0, [A1, B1])
        gateway.append(TP, 0, [big])
        keyless = encode_batch([b"x"], timestamps=NOW_MS)
        partition = cluster[1].partition(TP)
        partition.append_as_leader(memoryview(keyless), Acks.ALL, 0.0)
        half = encode_batch([b"x", b"y"], keys=[None, b"k"], timestamps=NOW_MS)
        partition.append_as_leader(memoryview(half), Acks.ALL, 0.0)
        gateway.append(TP, 0, [A2])
        found = await read_all(gateway, 0)
        assert [r for records in found for r in records] == [
            A1, B1, big, CoordinatorRecord(b"k", b"y"), A2,
        ]  # fmt: skip
        assert len(found) > 1


async def test_a_log_that_starts_inside_a_batch() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        end = gateway.append(TP, 0, [A1, A2, B1])
        log = cluster[1].partition(TP).log
        await eventually(lambda: cluster[1].partition(TP).high_watermark == end)
        log.advance_log_start(1)
        assert await read_all(gateway, 0) == [[A2, B1]]


async def test_a_log_that_is_loaded_is_not_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone that went meanwhile would leave the older value, which was read already."""
    monkeypatch.setattr(partition_gateway, "READ_BYTES", 1000)
    settings = {"cleanup_policy": "compact", "segment_bytes": "1024", "delete_retention_ms": "0"}
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1, configs=settings)
        for name, value in (("a", "old"), ("a", None), ("b", "new")):
            for number in range(20):
                assert await coordinators.put(1, name, value and f"{value} {number}") == 0
        log = cluster[1].partition(TP).log
        log.roll()
        cleaner = make_cleaner(log)

        async def compact() -> int:
            before = cleaner.passes
            while await cleaner.clean_dirtiest():
                pass
            return cleaner.passes - before

        found: dict[bytes, bytes | None] = {}
        async with aclosing(coordinators.gateways[1].read(TP, 0)) as batches:
            async for records in batches:
                found |= {record.key: record.value for record in records}
                assert await compact() == 0
        assert found[b"a"] is None
        assert await compact() > 0, "nobody reads it any more"


async def test_a_compacted_partition_is_the_same_to_its_coordinators() -> None:
    settings = {"cleanup_policy": "compact", "segment_bytes": "2048"}
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1, configs=settings)
        for number in range(200):
            assert await coordinators.put(1, f"k{number % 7}", str(number)) == 0
        assert await coordinators.put(1, "k0", None) == 0
        expected = dict(coordinators.engines[1].led[0].shard.values)
        log = cluster[1].partition(TP).log
        size = log.size_bytes
        log.roll()
        cleaner = make_cleaner(log)
        while await cleaner.clean_dirtiest():
            pass
        assert log.size_bytes < size / 2
        cluster.lead(TP, 2)
        await coordinators.lead(1)
        assert coordinators.engines[1].led[0].shard.values == expected
        assert sorted(expected) == [f"k{number}" for number in range(1, 7)]


async def test_what_is_appended_while_reading_is_not_read() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        gateway.append(TP, 0, [A1])
        found = await read_all(gateway, 0, lambda: gateway.append(TP, 0, [A2]))
        assert found == [[A1]]


async def test_reading_ends_with_the_leadership() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        for _ in range(3):
            gateway.append(TP, 0, [CoordinatorRecord(b"a", bytes(READ_BYTES))])
        with pytest.raises(NotLeaderOrFollowerError):
            await read_all(gateway, 0, lambda: cluster.lead(TP, 2))


async def test_what_cannot_be_read_is_no_end() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        gateway = coordinators.gateways[1]
        gateway.append(TP, 0, [A1])
        partition = cluster[1].partition(TP)
        partition.read_for_consumer = lambda *_, **__: b""  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="nothing at offset 0 of 1"):
            await read_all(gateway, 0)


async def test_a_deleted_topic_is_given_up_and_its_successor_is_empty() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        stop = StopReplicaRequest(9, 1, 0, [StopPartition(TP.topic, "id", TP.partition, -2, True)])
        for node in cluster.nodes.values():
            await node.replicas.stop_replicas(stop)
        assert coordinators.engines[1].refusal("a") == NOT_HERE
        assert coordinators.engines[1].led == []
        del cluster.orders[TP]
        await coordinators.lead(1, topic_id="another")
        assert await coordinators.get(1, "a") == ("none", 0)


async def test_a_directory_that_fails_ends_the_leadership() -> None:
    async with Cluster(dirs=["/d", "/e"]) as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        partition = cluster[1].partition(TP)
        partition.log.log_dir.fail("read", OSError(errno.EIO, "it is gone"))
        await eventually(lambda: coordinators.engines[1].refusal("a") == NOT_HERE)


async def test_a_leader_that_stays_while_its_epoch_grows() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        cluster[3].cut()
        write = asyncio.ensure_future(coordinators.put(1, "a", "1"))
        await eventually(lambda: cluster[1].partition(TP).log.log_end_offset == 1)
        cluster.lead(TP, 1, isr=[1, 2])
        assert await write == 0
        assert await coordinators.put(1, "a", "2") == 0
        cluster[3].reachable = True


async def test_the_next_leader_has_read_the_partition_when_it_is_elected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="oncelog_broker.coordinator.shadows")
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "1") == 0
        name(cluster, 2)
        gateways = coordinators.gateways
        await eventually(lambda: gateways[2].warm == [("id", TP.partition)])
        assert (gateways[1].warm, gateways[3].warm) == ([], [])
        await coordinators.lead(2)
        assert await coordinators.get(2, "a") == ("1", 0)
        assert "coordinator_shadow_adopted" in caplog.text
        assert gateways[2].warm == []


@pytest.mark.parametrize(
    ("safeguards", "value"),
    [
        pytest.param(SAFE, "new", id="the rule"),
        pytest.param(without("adopt_uncut_only"), "lost", id="without it a commit goes back"),
    ],
)
async def test_a_log_that_was_cut_is_read_anew(
    safeguards: CoordinatorSafeguards, value: str
) -> None:
    """Broker 2 has read what an unclean election then takes away."""
    async with Cluster() as cluster, Coordinators(cluster, safeguards) as coordinators:
        await coordinators.lead(1)
        assert await coordinators.put(1, "a", "old") == 0
        await followed_by(cluster, 3, 1)
        cluster[3].cut()
        cluster.lead(TP, 1, isr=[1, 2], to=[1, 2])
        assert await coordinators.put(1, "a", "lost") == 0
        name(cluster, 2)
        await followed_by(cluster, 2, 2)
        await eventually(lambda: coordinators.gateways[2].warm == [("id", TP.partition)])
        await asyncio.sleep(2 * shadows.LOOK_S)

        cluster[1].cut()
        cluster[3].reachable = True
        cluster.lead(TP, 3, isr=[3], to=[3])
        await eventually(lambda: coordinators.engines[3].refusal("a") == 0)
        assert await coordinators.put(3, "a", "new") == 0
        follow = replace(cluster.orders[TP], next_leader=2)
        cluster.send_orders(2, [follow])
        await cluster.isr_is(TP, 2, 3)
        await followed_by(cluster, 2, 2)
        await coordinators.lead(2, to=[2, 3])
        assert await coordinators.get(2, "a") == (value, 0)
        cluster[2].partition(TP).committed_records_truncated = 0
        cluster[1].reachable = True


async def test_loading_is_said_while_it_is_so() -> None:
    async with Cluster() as cluster, Coordinators(cluster) as coordinators:
        await coordinators.lead(2)
        cluster.lead(TP, 1)
        assert coordinators.engines[1].refusal("a") == CoordinatorLoadInProgressError.code
        await eventually(lambda: coordinators.engines[1].refusal("a") == 0)
