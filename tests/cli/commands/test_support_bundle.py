"""``oncelog support-bundle`` runs beside real brokers, and beside none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from oncelog_cli.bundle import MANIFEST
from support.cluster import Cluster
from support.hand_records import produce
from support.shell import oncelog


def read(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


async def test_a_cluster_and_its_logs(tmp_path: Path) -> None:
    local = tmp_path / "local"
    (local / "broker-1").mkdir(parents=True)
    (local / "cluster.json").write_text("{}")
    (local / "broker-1" / "broker.toml").write_text('broker_id = 1\nssl_password = "hunter2"\n')
    (local / "broker-1" / "broker.log").write_text("it began\n")
    async with Cluster(tmp_path / "data") as cluster:
        await cluster.create_topic("t", retention_ms=77)
        channel = await cluster.channel(1)
        await produce(channel, "t", 0, [b"a private record"])
        channel.close()
        await channel.wait_closed()
        file = tmp_path / "bundle.zip"
        wish = ("support-bundle", "-o", str(file), "--dir", str(local), "--json")
        shown = await oncelog(*wish, bootstrap=cluster.bootstrap)
        assert shown.code == 0, shown.err
        assert shown.document["file"] == str(file)
        again = await oncelog(*wish, bootstrap=cluster.bootstrap)
        assert again.code == 2, "it is not written over"
    found = read(file)
    assert json.loads(found["topics.json"])[0]["topic"] == "t"
    assert json.loads(found["topic-configs.json"])[0]["settings"] == {
        "retention_ms": ["77", "topic"]
    }
    assert json.loads(found["cluster.json"])["brokers"][0]["broker_id"] == 1
    assert "broker_id" in json.loads(found["broker-configs.json"])[0]["settings"]
    assert found["local/broker-1/broker.log"] == "it began\n"
    assert not any(word in text for text in found.values() for word in ("hunter2", "private"))
    manifest = json.loads(found[MANIFEST])
    failed = {part["name"]: part["error"] for part in manifest["parts"] if part["error"]}
    assert set(failed) == {"metrics/broker-1.prom"}, failed
    assert "metrics_port" in failed["metrics/broker-1.prom"]


async def test_nobody_answers(tmp_path: Path) -> None:
    file = tmp_path / "bundle.zip"
    shown = await oncelog(
        *("support-bundle", "-o", str(file), "--dir", str(tmp_path), "--no-logs"),
        bootstrap="127.0.0.1:1",
    )
    assert (shown.code, "127.0.0.1:1" in shown.err) == (1, True)
    found = read(file)
    assert set(found) == {"versions.json", MANIFEST}
    (part,) = [part for part in json.loads(found[MANIFEST])["parts"] if part["error"]]
    assert part["name"] == "cluster"
