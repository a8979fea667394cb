"""These tests check the local cluster's state file, and run a real cluster from start to stop."""

from __future__ import annotations

import asyncio
import json
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog import Admin
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import LocalClusterError, free_port
from oncelog_cli.local.zookeeper import ZooKeeperServer


def test_state_survives_in_the_file(tmp_path: Path) -> None:
    cluster = LocalCluster(
        tmp_path, brokers=3, base_port=21_000, settings={"flush": "interval", "n": {"a": 1}}
    )
    cluster.brokers[2].internal_port = 22_000
    cluster.save()
    loaded = LocalCluster.load(tmp_path)
    assert loaded.bootstrap == "127.0.0.1:21000,127.0.0.1:21001,127.0.0.1:21002"
    assert loaded.brokers[2].internal_port == 22_000
    assert loaded.settings == {"flush": "interval", "n": {"a": 1}}
    assert loaded.zookeeper is not None
    assert loaded.external_zookeeper is None
    assert loaded.status() == cluster.status()
    assert not loaded.is_running()


def test_an_external_zookeeper_is_remembered(tmp_path: Path) -> None:
    LocalCluster(tmp_path, brokers=1, zookeeper="zk:2181/root").save()
    loaded = LocalCluster.load(tmp_path)
    assert loaded.zookeeper is None
    assert loaded.zookeeper_connect == "zk:2181/root"


def test_no_cluster_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="oncelog up"):
        LocalCluster.load(tmp_path)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"version": 99}'])
def test_a_state_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(LocalClusterError, match=r"cluster\.json"):
        LocalCluster.load(tmp_path)


def test_a_stale_state_file_touches_nobody(tmp_path: Path) -> None:
    """The pids in it belong to others after a reboot."""
    cluster = LocalCluster(tmp_path, brokers=1)
    cluster.save()
    state = json.loads(cluster.state_path.read_text())
    state["brokers"][0] |= {"pid": 1, "started": "before the reboot"}
    cluster.state_path.write_text(json.dumps(state))
    loaded = LocalCluster.load(tmp_path)
    assert not loaded.is_running()
    assert loaded.status()["processes"][1]["pid"] is None
    assert loaded.stop()


def test_ports_of_metrics_are_kept_and_absent_unless_wanted(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, metrics=True)
    for broker in cluster.brokers.values():
        cluster._choose_ports(broker)
        broker.write_config("zk:2181", {})
    ports = [broker.metrics_port for broker in cluster.brokers.values()]
    others = {port for b in cluster.brokers.values() for port in (b.port, b.internal_port)}
    assert len({0, *ports, *others}) == 7
    assert f"metrics_port = {ports[0]}\n" in cluster.brokers[1].config_path.read_text()
    cluster.save()
    loaded = LocalCluster.load(tmp_path)
    assert loaded.metrics
    assert [broker.metrics_port for broker in loaded.brokers.values()] == ports
    cluster.brokers[1].write_config("zk:2181", {"metrics_port": 0})  # what is set goes first
    assert "metrics_port = 0\n" in cluster.brokers[1].config_path.read_text()
    loaded.metrics = False  # from now on without
    loaded._choose_ports(loaded.brokers[1])
    assert not loaded.brokers[1].metrics_port
    plain = LocalCluster(tmp_path / "plain", brokers=1)
    plain._choose_ports(plain.brokers[1])
    plain.brokers[1].write_config("zk:2181", {})
    assert "metrics_port" not in plain.brokers[1].config_path.read_text()


def test_ports_for_clients_of_kafka_are_kept_and_absent_unless_wanted(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, metrics=True)
    assert LocalCluster(tmp_path, brokers=1).kafka_bootstrap is None
    cluster.serve_kafka()
    for broker in cluster.brokers.values():
        cluster._choose_ports(broker)
        broker.write_config("zk:2181", {"listeners": {"kafka": {"advertised_host": "here"}}})
    every = [port for broker in cluster.brokers.values() for port in broker.ports]
    assert len({0, *every}) == 9
    addresses = ",".join(f"127.0.0.1:{b.kafka_port}" for b in cluster.brokers.values())
    assert cluster.kafka_bootstrap == addresses
    config = tomllib.loads(cluster.brokers[1].config_path.read_text())
    port = cluster.brokers[1].kafka_port
    listener = {"name": "kafka", "host": "127.0.0.1", "port": port, "protocol": "kafka"}
    assert config["listeners"][-1] == {**listener, "advertised_host": "here"}
    cluster.save()
    loaded = LocalCluster.load(tmp_path)
    assert (loaded.kafka, loaded.kafka_bootstrap) == (True, addresses)


def test_a_state_file_of_an_older_release(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1)
    cluster.save()
    state = json.loads(cluster.state_path.read_text())
    del state["brokers"][0]["metrics_port"], state["brokers"][0]["kafka_port"]
    cluster.state_path.write_text(json.dumps(state))
    loaded = LocalCluster.load(tmp_path)
    assert not loaded.metrics
    assert not loaded.kafka


def test_growing_and_not_shrinking(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2)
    cluster.grow(4)
    assert list(cluster.brokers) == [1, 2, 3, 4]
    with pytest.raises(LocalClusterError, match="cannot shrink"):
        cluster.grow(3)


def test_only_one_command_at_a_time(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    with cluster.lock(), pytest.raises(LocalClusterError, match="another command"):
        LocalCluster(tmp_path).start()


def test_unknown_broker(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="no broker 9 here, only 1, 2"):
        LocalCluster(tmp_path, brokers=2).broker(9)


def test_a_dead_external_zookeeper_fails_before_anything_starts(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1, zookeeper=f"127.0.0.1:{free_port()}")
    with pytest.raises(LocalClusterError, match="no ZooKeeper answers"):
        cluster.start()
    assert not list(tmp_path.iterdir())


def test_a_first_start_that_fails_keeps_what_it_found(tmp_path: Path) -> None:
    """The state file may be lost, and data be there all the same."""
    cluster = LocalCluster(tmp_path, brokers=1, zookeeper=f"127.0.0.1:{free_port()}")
    cluster.brokers[1].data_path.mkdir(parents=True)
    with pytest.raises(LocalClusterError, match="no ZooKeeper answers"):
        cluster.start()
    assert cluster.brokers[1].data_path.exists()
    assert not cluster.state_path.exists()


def test_delete_keeps_what_is_not_ours(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c", brokers=1)
    cluster.save()
    (cluster.brokers[1].directory).mkdir()
    (tmp_path / "c" / "notes.txt").write_text("mine")
    cluster.delete()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["notes.txt"]
    (tmp_path / "c" / "notes.txt").unlink()
    cluster.delete()
    assert not (tmp_path / "c").exists()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "cluster", brokers=2)
    yield made
    for broker in made.brokers.values():
        broker.kill()
    if made.zookeeper is not None:
        made.zookeeper.kill()


async def broker_ids(bootstrap: str) -> list[int]:
    async with Admin(bootstrap) as admin:
        return [broker.broker_id for broker in (await admin.describe_cluster()).brokers]


def states(cluster: LocalCluster) -> list[str]:
    return [row["state"] for row in cluster.status()["processes"]]


@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.slow
def test_from_start_to_stop(cluster: LocalCluster) -> None:
    said: list[str] = []
    cluster.start(progress=said.append)
    assert states(cluster) == ["running", "running", "running"]
    assert any("broker 2 serves at" in line for line in said)
    assert asyncio.run(broker_ids(cluster.bootstrap)) == [1, 2]

    seen = LocalCluster.load(cluster.directory)  # as another command sees it
    assert seen.status() == cluster.status()
    with pytest.raises(LocalClusterError, match="still runs"):
        seen.delete()
    seen.start()  # everything runs: nothing to do
    assert seen.status() == cluster.status()

    address = cluster.broker(2).address
    cluster.broker(2).kill()
    assert states(cluster) == ["running", "running", "stopped"]
    cluster.start_broker(2)
    assert cluster.broker(2).address == address
    cluster.broker(1).pause()
    assert states(cluster) == ["running", "paused", "running"]
    cluster.broker(1).resume()
    assert cluster.broker(1).stop()
    cluster.start_broker(1)
    assert states(cluster) == ["running", "running", "running"]

    before = cluster.bootstrap
    assert LocalCluster.load(cluster.directory).stop()
    assert states(cluster) == ["stopped", "stopped", "stopped"]
    again = LocalCluster.load(cluster.directory)
    again.start()
    assert again.bootstrap == before
    assert again.stop()
    again.delete()
    assert not cluster.directory.exists()


@pytest.mark.integration
@pytest.mark.zookeeper
def test_a_failed_start_leaves_nothing_running(cluster: LocalCluster) -> None:
    cluster.settings["no_such_setting"] = 1
    with pytest.raises(LocalClusterError, match="no_such_setting"):
        cluster.start()
    assert not cluster.is_running()
    assert not cluster.directory.exists()


@pytest.mark.integration
@pytest.mark.zookeeper
def test_a_later_start_that_fails_keeps_data_and_logs(cluster: LocalCluster) -> None:
    cluster.start()
    cluster.stop()
    cluster.settings["no_such_setting"] = 1
    with pytest.raises(LocalClusterError, match="no_such_setting"):
        cluster.start()
    again = LocalCluster.load(cluster.directory)
    assert not again.is_running()
    assert again.brokers[1].log_path.exists()
    assert any(again.brokers[1].data_path.iterdir())


@pytest.mark.integration
@pytest.mark.zookeeper
def test_a_port_in_use_is_named(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    port = free_port()
    cluster = LocalCluster(
        tmp_path, brokers=1, zookeeper=f"{zookeeper.address}/ports", base_port=port
    )
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(LocalClusterError, match=f"port {port} for broker 1 is in use"),
    ):
        cluster.start()
    assert not cluster.is_running()
