"""``oncelog topics clone`` runs against a real broker here."""

from __future__ import annotations

from pathlib import Path

from support.cluster import Cluster
from support.shell import oncelog


async def test_a_topic_like_another(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        servers = cluster.bootstrap
        await cluster.create_topic("t", partitions=2, retention_ms=-1, segment_bytes=20_000_000)
        lines = b"".join(b'{"key":"k%d","value":"v%d","partition":0}\n' % (n, n) for n in range(5))
        shown = await oncelog("produce", "t", "-j", "-H", "a=b", stdin=lines, bootstrap=servers)
        assert shown.code == 0, shown.err
        shown = await oncelog("topics", "clone", "t", "copy", "--dry-run", bootstrap=servers)
        assert shown.code == 0
        shown = await oncelog(
            *("topics", "clone", "t", "copy", "--records", "-c", "retention.ms=5", "--json"),
            bootstrap=servers,
        )
        assert shown.code == 0, shown.err
        document = shown.document
        assert (document["partition_count"], document["records"]) == (2, 5)
        assert document["configs"] == [
            {"key": "retention_ms", "value": "5"},
            {"key": "segment_bytes", "value": "20000000"},
        ]
        copied, source = [
            (await oncelog("consume", topic, "-e", "--json", bootstrap=servers)).json_lines
            for topic in ("copy", "t")
        ]
        assert copied == [{**record, "topic": "copy"} for record in source]
        shown = await oncelog("topics", "clone", "t", "copy", "--json", bootstrap=servers)
        assert shown.code == 1
        assert shown.document["errors"][0]["error"] == "TOPIC_ALREADY_EXISTS"
        shown = await oncelog("topics", "clone", "t", "more", "-p", "5", bootstrap=servers)
        assert shown.out.splitlines()[1].split() == ["more", "5", "1", "2", "0"]
        shown = await oncelog(
            "topics", "clone", "t", "x", "-p", "5", "--records", bootstrap=servers
        )
        assert shown.code == 2
        shown = await oncelog("topics", "clone", "none", "x", bootstrap=servers)
        assert shown.code == 1
