"""``oncelog up --secure``: one command, and then nobody is served without a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.local import secured
from oncelog_cli.local.cluster import LocalCluster
from support.http_get import get
from support.shell import Shown, oncelog

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cluster goes here, and profiles beside it; no process survives the test."""
    use_profiles(tmp_path / "mine", monkeypatch)
    for name in ("ONCELOG_PROFILE", "ONCELOG_OPTIONS", "ONCELOG_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "secured"
    yield place
    if (place / "cluster.json").exists():
        cluster = LocalCluster.load(place)
        for broker in cluster.brokers.values():
            broker.kill()
        assert cluster.zookeeper is not None
        cluster.zookeeper.kill()


def use_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))


async def done(*arguments: str, stdin: bytes = b"") -> Shown:
    """Run a command, which must succeed."""
    shown = await oncelog(*arguments, stdin=stdin)
    assert shown.code == 0, shown.err
    return shown


async def check_use() -> None:
    """Everything works by the profile: no command says where the cluster is, or who this is."""
    await done("topics", "create", "orders", "-p", "2", "-r", "2")
    await done("produce", "orders", stdin=b"tea\nmilk\njam\n")
    await done("produce", "orders", "--transactional-id", "t", stdin=b"all\n")
    shown = await done("consume", "orders", "--group", "g", "--from-beginning", "--until-end")
    assert sorted(shown.out.split()) == ["all", "jam", "milk", "tea"]
    shown = await done("groups", "list", "--json")
    assert [each["group"] for each in shown.document["groups"]] == ["g"]


async def check_looks(started: dict[str, Any], directory: Path) -> None:
    """Who looks at the cluster sees it: status, health, metrics, and its certificates."""
    place = ("--dir", str(directory))
    assert (await done("status", *place, "--json")).document["profile"] == "secured"
    assert (await done("cluster", "health", "--json")).document["status"] == "ok"
    first = started["processes"][1]
    await done("broker", "health", "--address", first["http"])
    host, _, port = first["http"].partition(":")
    answer = await get((host, int(port)), "/metrics")
    assert "oncelog_" in answer.text
    ca = str(directory / "tls" / "ca.pem")
    shown = await done("tls", "check", first["address"], "--ca", ca, "--json")
    assert shown.document["certificates"][0]["user"] == "User:broker-1"


async def check_refusals(started: dict[str, Any], directory: Path) -> None:
    """Who shows no certificate of the CA is told what is missing; who shows one has no rights."""
    tls, bootstrap = directory / "tls", started["bootstrap"]
    ca = ("-X", f"ca_file={tls / 'ca.pem'}")
    shown = await oncelog("topics", "list", *ca, bootstrap=bootstrap)
    assert (shown.code, shown.out) == (1, "")
    assert "set certificate_file and key_file" in shown.err
    shown = await oncelog("topics", "list", "-X", "request_timeout_ms=5000", bootstrap=bootstrap)
    assert (shown.code, shown.out) == (1, "")
    shown = await oncelog("topics", "list", "-X", "tls=true", bootstrap=bootstrap)
    assert shown.code == 1
    assert "not signed by a trusted CA" in shown.err
    await done("tls", "make", "--dir", str(tls), "--client", "app")
    files = secured.client_security(tls, "app").items()
    app = [part for name, path in files for part in ("-X", f"{name}={path}")]
    shown = await oncelog("topics", "list", *app, "--json", bootstrap=bootstrap)
    assert (shown.code, shown.document["topics"]) == (0, [])
    shown = await oncelog("produce", "orders", *app, stdin=b"beer\n", bootstrap=bootstrap)
    assert shown.code == 1
    shown = await oncelog("topics", "create", "own", *app, bootstrap=bootstrap)
    assert shown.code == 1
    assert "may not do this" in shown.err


async def test_a_secured_cluster_from_nothing_to_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--dir", str(directory))
    started = (await done("up", *place, "--secure", "-n", "2", "--json")).document
    assert (started["secure"], started["profile"]) == (True, "secured")
    await check_use()
    await check_looks(started, directory)
    use_profiles(tmp_path / "others", monkeypatch)
    await check_refusals(started, directory)
    use_profiles(tmp_path / "mine", monkeypatch)

    assert (await done("down", *place, "--json")).document["clean"]
    again = (await done("up", *place, "--json")).document  # it stays secured
    assert (again["secure"], again["bootstrap"]) == (True, started["bootstrap"])
    shown = await done("consume", "orders", "--from-beginning", "--until-end")
    assert sorted(shown.out.split()) == ["all", "jam", "milk", "tea"]

    await done("down", *place, "--delete", "--yes")
    assert (await done("profile", "list", "--json")).document["profiles"] == []
    assert not LocalCluster(directory).state_path.exists()
