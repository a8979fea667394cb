"""DescribeLogDirs tells space and replicas of each directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import Admin
from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.describe_log_dirs import DescribeLogDirsHandler
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    CorruptMessageError,
    StorageError,
)
from oncelog_protocol.messages.admin import DescribeLogDirsRequest
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.server import DenyAll, answer


async def test_directories_and_what_is_on_them(tmp_path: Path) -> None:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    async with Cluster(tmp_path, 1, log_dirs=dirs) as cluster:
        await cluster.create_topic("t", partitions=2)
        await cluster.create_topic("u")
        channel = await cluster.channel(1)
        await produce(channel, "t", 1, [b"x" * 100, b"y"])
        channel.close()
        broker = cluster.brokers[1]
        handler = DescribeLogDirsHandler(
            broker.files, broker.logs, broker.replicas, AllowAllAuthorizer()
        )
        everything = answer(handler, DescribeLogDirsRequest(None)).log_dirs
        assert [d.path for d in everything] == dirs
        assert sorted(len(d.replicas) for d in everything) == [1, 2]
        assert all(0 < d.free_bytes <= d.total_bytes for d in everything)
        some = answer(handler, DescribeLogDirsRequest(["t"])).log_dirs
        replicas = {r.partition: r for d in some for r in d.replicas}
        assert sorted(replicas) == [0, 1]
        assert replicas[1].log_end_offset == replicas[1].high_watermark == 2
        assert replicas[1].size_bytes > 100 > replicas[0].size_bytes == 0
        partition = broker.replicas.partition(TopicPartition("t", 1))
        partition.corruption_found("a checksum does not match")
        *sound, rotten = answer(handler, DescribeLogDirsRequest(None)).log_dirs
        assert [d.path for d in sound] == dirs
        assert sum(len(d.replicas) for d in sound) == 2
        assert rotten.path == partition.log.log_dir.path
        assert rotten.error_code == CorruptMessageError.code
        assert [(r.topic, r.partition) for r in rotten.replicas] == [("t", 1)]
        async with Admin(cluster.bootstrap) as admin:
            told = {d.path: d for d in await admin.describe_log_dirs()}
            assert [*told] == dirs
            assert told[rotten.path].damaged == (TopicPartition("t", 1),)
            assert told[rotten.path].error is None
            assert sum(len(d.replicas) for d in told.values()) == 3
        broker.logs.dirs[1].online = False
        offline = answer(handler, DescribeLogDirsRequest(None)).log_dirs[1]
        assert (offline.error_code, offline.total_bytes) == (StorageError.code, -1)
        broker.logs.dirs[1].online = True
        denied = DescribeLogDirsHandler(broker.files, broker.logs, broker.replicas, DenyAll())
        with pytest.raises(ClusterAuthorizationFailedError):
            answer(denied, DescribeLogDirsRequest(None))
