"""These tests run ``oncelog cluster`` and ``log-dirs`` against real brokers."""

from __future__ import annotations

from pathlib import Path

from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.hand_records import produce
from support.shell import oncelog


async def test_the_cluster(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2, rack="cellar") as cluster:
        shown = await oncelog("cluster", bootstrap=cluster.bootstrap)
        assert shown.code == 0
        assert "LISTENERS" in shown.out
        assert "cellar" in shown.out
        shown = await oncelog("cluster", "--json", bootstrap=cluster.bootstrap)
        document = shown.document
        assert document["controller_id"] == cluster.controller.broker_id
        assert [broker["broker_id"] for broker in document["brokers"]] == [1, 2]
        assert [broker["is_controller"] for broker in document["brokers"]].count(True) == 1
        first = document["brokers"][0]
        assert first["rack"] == "cellar"
        host, port = cluster.brokers[1].addresses["external"]
        assert first["listeners"]["external"] == {"host": host, "port": port}
        assert set(first["listeners"]) == {"external", "internal"}
        assert (first["state"], first["http"]) == ("active", "")


async def test_where_the_metrics_of_brokers_are() -> None:
    async with AdminCluster(2) as cluster:
        shown = await oncelog("cluster", "describe", "-f", "wide", bootstrap=cluster.bootstrap)
        *_, head, first, second = [line.split() for line in shown.out.splitlines()]
        assert head[-2:] == ["STATE", "HTTP"]
        assert (first[-2:], second[-2:]) == (["active", "-"], ["active", "127.0.0.1:9642"])


async def test_log_directories(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        await cluster.create_topic("u")
        channel = await cluster.channel(cluster.leader("t", 1))
        await produce(channel, "t", 1, [b"x" * 1000])
        channel.close()
        shown = await oncelog("log-dirs", "t", "--json", bootstrap=cluster.bootstrap)
        assert shown.code == 0
        rows = shown.document["log_dirs"]
        assert [(row["broker_id"], row["path"]) for row in rows] == [
            (1, str(tmp_path / "broker-1")),
            (2, str(tmp_path / "broker-2")),
        ]
        for row in rows:
            assert row["replica_count"] == 2
            assert [replica["partition"] for replica in row["replicas"]] == [0, 1]
            assert row["size_bytes"] >= 1000
            assert 0 < row["free_bytes"] <= row["total_bytes"]

        shown = await oncelog("log-dirs", "--replicas", bootstrap=cluster.bootstrap)
        assert len(shown.out.splitlines()) == 1 + 2 * 2 + 1
        shown = await oncelog("log-dirs", "-r", "[tx]", "--json", bootstrap=cluster.bootstrap)
        matching = shown.document["log_dirs"]
        assert [row["replicas"] for row in matching] == [row["replicas"] for row in rows]
        shown = await oncelog("log-dirs", "--broker", "2", "--json", bootstrap=cluster.bootstrap)
        assert [row["broker_id"] for row in shown.document["log_dirs"]] == [2]


async def test_a_broker_that_is_not_there_is_one_failure(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        shown = await oncelog(
            *("log-dirs", "--broker", "1", "--broker", "7", "--json"), bootstrap=cluster.bootstrap
        )
        assert shown.code == 1
        assert [row["broker_id"] for row in shown.document["log_dirs"]] == [1]
        assert shown.document["errors"][0]["item"] == "broker 7"
