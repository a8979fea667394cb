"""``oncelog elect-leaders`` runs against real brokers here."""

from __future__ import annotations

from pathlib import Path

from support.cluster import Cluster
from support.shell import oncelog
from support.waiting import eventually


async def test_preferred_replicas_lead_again(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2, auto_leader_rebalance_enable=False) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        away = 1
        await cluster.stop_broker(away)
        await eventually(
            lambda: [cluster.leader("t", number) for number in (0, 1)] == [2, 2],
            timeout_s=15,
            what="the other one leading",
        )
        await cluster.start_broker(away)
        await eventually(
            lambda: all(sorted(cluster.state("t", n).isr) == [1, 2] for n in (0, 1)),
            timeout_s=15,
            what="the whole ISR",
        )
        servers = cluster.bootstrap
        shown = await oncelog("elect-leaders", "--dry-run", "--json", bootstrap=servers)
        assert shown.code == 0
        (row,) = shown.document["partitions"]
        assert (row["leader"], row["preferred"], row["result"]) == (2, 1, "needed")
        shown = await oncelog("elect-leaders", "-t", "t", "--json", bootstrap=servers)
        assert shown.code == 0, shown.err
        assert sorted(row["result"] for row in shown.document["partitions"]) == [
            "elected",
            "not needed",
        ]
        await eventually(
            lambda: sorted(cluster.leader("t", number) for number in (0, 1)) == [1, 2],
            timeout_s=15,
            what="both leading one",
        )
        shown = await oncelog("elect-leaders", "--json", bootstrap=servers)
        assert (shown.code, shown.document["partitions"]) == (0, [])


async def test_unclean(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        servers = cluster.bootstrap
        for wrong in (["--unclean"], ["-t", "t:x"]):
            shown = await oncelog("elect-leaders", *wrong, bootstrap=servers)
            assert (shown.code, shown.out) == (2, "")
        shown = await oncelog("elect-leaders", "-t", "t:7", bootstrap=servers)
        assert shown.code == 1
        assert "no partition 7" in shown.err
        shown = await oncelog("elect-leaders", "-t", "t", "--unclean", "--json", bootstrap=servers)
        assert shown.code == 0
        assert shown.document["partitions"][0]["result"] == "not needed", "it has a leader"

        # The one that leads goes, the other one has been out of the ISR before.
        first = cluster.leader("t")
        other = 3 - first
        await cluster.crash_broker(other)
        await eventually(
            lambda: list(cluster.state("t").isr) == [first], timeout_s=15, what="an ISR of one"
        )
        await cluster.crash_broker(first)
        await cluster.start_broker(other)
        await eventually(
            lambda: cluster.brokers[other].runner.is_active and cluster.leader("t") < 0,
            timeout_s=15,
            what="nobody leading",
        )
        servers = cluster.bootstrap
        named = ("elect-leaders", "-t", "t:0", "--unclean")
        shown = await oncelog(*named, bootstrap=servers)
        assert shown.code == 2, "nobody is there to ask"
        assert "acknowledged" in shown.err
        shown = await oncelog(*named, "--yes", "--json", bootstrap=servers)
        assert shown.code == 0, shown.err
        assert shown.document["partitions"][0]["result"] == "elected"
        await eventually(lambda: cluster.leader("t") == other, timeout_s=15, what="a leader")
