"""``oncelog perf`` measures what it says, at a real broker; how fast that is does not matter
here."""

from __future__ import annotations

from pathlib import Path

from oncelog_cli.commands.perf import percentiles
from support.cluster import Cluster
from support.shell import oncelog


async def test_write_read_and_both(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=2)
        servers = cluster.bootstrap
        shown = await oncelog(
            *("perf", "produce", "t", "-n", "600", "--size", "1000", "--json"), bootstrap=servers
        )
        assert shown.code == 0, shown.err
        written = shown.document
        assert (written["records"], written["value_bytes"]) == (600, 1000)
        assert 0 < written["p50_ms"] <= written["p99_ms"] <= written["max_ms"]
        shown = await oncelog("perf", "consume", "t", "--json", bootstrap=servers)
        assert shown.code == 0, shown.err
        assert shown.document["records"] == 600
        assert shown.document["mib_per_second"] > 0
        shown = await oncelog("perf", "latency", "t", "-n", "5", bootstrap=servers)
        assert shown.code == 0, shown.err
        assert shown.out.splitlines()[1].split()[0] == "5"
        shown = await oncelog(
            *("perf", "produce", "t", "--rate", "50", "--duration", "100ms", "--json"),
            bootstrap=servers,
        )
        assert 0 < shown.document["records"] <= 7
        assert shown.document["max_ms"] > 0
        shown = await oncelog("perf", "consume", "t", "--duration", "x", bootstrap=servers)
        assert shown.code == 2


def test_percentiles() -> None:
    row = percentiles([n / 1000 for n in range(1, 102)])
    assert row == {"mean_ms": 51, "p50_ms": 51, "p95_ms": 96, "p99_ms": 100, "max_ms": 101}
    assert set(percentiles([]).values()) == {None}
