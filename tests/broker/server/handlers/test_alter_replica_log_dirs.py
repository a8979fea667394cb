"""AlterReplicaLogDirs moves replicas between the directories of the broker that is asked."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from oncelog import Admin
from oncelog_broker.server.handlers.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
)
from oncelog_protocol.messages.admin import AlterReplicaLogDirsRequest
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.server import DenyAll, answer
from support.waiting import eventually

T0 = TopicPartition("t", 0)


async def test_a_replica_moves_while_it_is_led(tmp_path: Path) -> None:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    async with Cluster(tmp_path, 1, log_dirs=dirs) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        await produce(channel, "t", 0, [b"x" * 100, b"y"])
        broker = cluster.brokers[1]
        log = broker.replicas.partition(T0).log
        here, there = log.log_dir.path, next(d for d in dirs if d != log.log_dir.path)
        async with Admin(cluster.bootstrap) as admin:
            asked = await admin.alter_replica_log_dirs(1, {T0: there}, validate_only=True)
            assert [each.bytes_to_copy for each in asked] == [log.size_bytes]
            assert log.log_dir.path == here
            results = await admin.alter_replica_log_dirs(
                1, {T0: there, TopicPartition("t", 7): there, TopicPartition("u", 0): "/none"}
            )
            errors = [type(each.error) for each in results]
            assert errors == [type(None), ReplicaNotAvailableError, LogDirNotFoundError]
            await eventually(lambda: log.log_dir.path == there and broker.logs.moves.is_idle)
            described = {each.path: each for each in await admin.describe_log_dirs()}
            assert [each.partition for each in described[there].replicas] == [T0]
            assert not described[here].replicas
            assert not described[there].future
        await produce(channel, "t", 0, [b"z"])
        assert broker.replicas.partition(T0).high_watermark == 3
        old = next(each for each in broker.logs.dirs if each.path == here)
        old.fail("test", OSError(errno.EIO, "gone"))
        await produce(channel, "t", 0, [b"after the old disk"])
        assert broker.replicas.partition(T0).high_watermark == 4
        channel.close()
        denied = AlterReplicaLogDirsHandler(broker.logs.moves, DenyAll())
        with pytest.raises(ClusterAuthorizationFailedError):
            answer(denied, AlterReplicaLogDirsRequest([]))
