"""Documents say what would move between directories, what was begun, and how far it is."""

from __future__ import annotations

from oncelog import Admin, TopicPartition
from oncelog.admin.results import (
    FutureReplicaDescription,
    LogDirDescription,
    ReplicaDescription,
)
from oncelog_cli.documents.dir_moves import (
    begun_dir_moves,
    listed_dir_moves,
    planned_dir_moves,
)
from oncelog_cli.group_offsets import Chosen
from support.admin_cluster import AdminCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_what_is_there_already_is_left_alone_and_what_is_refused_is_a_failure() -> None:
    async with AdminCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create_topic("t", 2)
        there = await planned_dir_moves(admin, Chosen(("t",)), 1, "/data")
        assert [row["result"] for row in there.document["partitions"]] == ["nothing to do"] * 2
        begun = await begun_dir_moves(admin, there.document["partitions"])
        assert [row["result"] for row in begun.document["partitions"]] == ["nothing to do"] * 2
        refused = await planned_dir_moves(admin, Chosen(partitions=(T0,)), 1, "/none")
        assert [each.item for each in refused.failures] == ["t-0"]
        (row,) = refused.document["partitions"]
        assert (row["result"], row["error"]) == ("refused", "LOG_DIR_NOT_FOUND")


class TwoDirectories:
    """It stands for an admin whose brokers say this of their directories."""

    async def describe_log_dirs(self, **options: object) -> list[LogDirDescription]:
        """Return one broker's two directories; a replica goes from one to the other."""
        replicas = (ReplicaDescription(T0, 100, 0, 9, 9), ReplicaDescription(T1, 5, 0, 1, 1))
        future = (FutureReplicaDescription(T0, 60, 4),)
        return [
            LogDirDescription(1, "/a", None, replicas=replicas),
            LogDirDescription(1, "/b", None, future=future),
        ]


async def test_how_far_it_is() -> None:
    (row,) = await listed_dir_moves(TwoDirectories())  # type: ignore[arg-type]
    assert (row["topic"], row["partition"], row["broker"]) == ("t", 0, 1)
    assert (row["log_dir"], row["target"]) == ("/a", "/b")
    assert (row["bytes_done"], row["bytes_total"], row["offset_lag"]) == (60, 100, 4)
