"""A shell runs ``oncelog up``, ``down`` and ``status``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.local.broker import broker_environment
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import free_port
from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_cli.main import run_command


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A test's cluster goes into this directory; nothing of it survives the test."""
    place = tmp_path / "cluster"
    yield place
    if (place / "cluster.json").exists():
        cluster = LocalCluster.load(place)
        for broker in cluster.brokers.values():
            broker.kill()
        if cluster.zookeeper is not None:
            cluster.zookeeper.kill()


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what the command before printed, which must be exactly one JSON document."""
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("command", ["status", "down"])
def test_without_a_cluster(
    command: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([command, "--dir", str(directory)]) == 1
    captured = capsys.readouterr()
    assert "oncelog up" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--brokers", "0"], "--brokers"),
        (["--set", "flush"], "KEY=VALUE"),
        (["--set", "flush=commit", "--set", "flush=commit"], "twice"),
        (["--zookeeper", "nonsense:0"], "HOST:PORT"),
    ],
)
def test_wrong_arguments_start_nothing(
    arguments: list[str], word: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["up", "--dir", str(directory), *arguments]) in (1, 2)
    assert word in capsys.readouterr().err
    assert not list(directory.glob("broker-*"))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--zookeeper", "other:2181"], "another ZooKeeper"),
        (["--port", "30000"], "has ports already"),
    ],
)
def test_what_cannot_change_is_refused(
    arguments: list[str], word: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LocalCluster(directory, brokers=2, base_port=21_000).save()
    assert run_command(["up", "--dir", str(directory), *arguments]) == 2
    assert word in capsys.readouterr().err


def test_fewer_brokers_are_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LocalCluster(directory, brokers=2).save()
    assert run_command(["up", "--dir", str(directory), "--brokers", "1"]) == 1
    assert "cannot shrink" in capsys.readouterr().err


def test_deleting_asks_first(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LocalCluster(directory, brokers=1).save()
    assert run_command(["down", "--dir", str(directory), "--delete"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert directory.exists()
    assert run_command(["down", "--dir", str(directory), "--delete", "--yes"]) == 0
    assert not directory.exists()


def test_status_of_a_stopped_cluster(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LocalCluster(directory, brokers=1, base_port=21_000).save()
    assert run_command(["status", "--dir", str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "PID", "ADDRESS"]
    assert lines[2].split() == ["broker-1", "stopped", "-", "127.0.0.1:21000"]
    assert run_command(["status", "--dir", str(directory), "--json"]) == 0
    found = document(capsys)
    assert found["_command"] == "status"
    assert found["_version"] == 1
    assert found["processes"][1]["state"] == "stopped"


def check_metrics(
    started: dict[str, Any], scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What needs the brokers' metrics works as the cluster stands: a configuration of Prometheus,
    and a support bundle."""
    bootstrap = ["--bootstrap", started["bootstrap"]]
    served = [row["http"] for row in started["processes"][1:]]
    assert all(address.startswith("127.0.0.1:") for address in served)
    assert run_command(["generate", "prometheus-config", *bootstrap]) == 0
    listed = ", ".join(f'"{address}"' for address in served)
    assert f"targets: [{listed}]" in capsys.readouterr().out
    bundle = scratch / "bundle.zip"
    assert run_command(["support-bundle", *bootstrap, "--output", str(bundle)]) == 0
    with zipfile.ZipFile(bundle) as parts:
        for broker_id in (1, 2):
            assert b"oncelog_" in parts.read(f"metrics/broker-{broker_id}.prom")
    assert not capsys.readouterr().err.count("metrics/")


@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.slow
def test_up_status_down(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--dir", str(directory)]
    assert run_command(["up", *place, "-n", "1", "--set", "flush=interval", "--json"]) == 0
    started = document(capsys)
    assert started["_command"] == "up"
    assert [row["state"] for row in started["processes"]] == ["running", "running"]
    assert 'flush = "interval"' in (directory / "broker-1" / "broker.toml").read_text()

    assert run_command(["up", *place, "--json"]) == 0  # it runs: the same again
    assert document(capsys)["processes"] == started["processes"]

    assert run_command(["up", *place, "-n", "2", "--json"]) == 0  # one more
    grown = document(capsys)
    assert grown["processes"][:2] == started["processes"]
    assert grown["processes"][2]["state"] == "running"

    check_metrics(grown, directory.parent, capsys)

    assert run_command(["down", *place, "--json"]) == 0
    stopped = document(capsys)
    assert stopped["clean"]
    assert {row["state"] for row in stopped["processes"]} == {"stopped"}


@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.slow
def test_foreground_ends_with_a_signal(directory: Path, zookeeper: ZooKeeperServer) -> None:
    command = [sys.executable, "-m", "oncelog_cli", "up", "--dir", str(directory), "--foreground"]
    command += ["-n", "1", "--zookeeper", f"{zookeeper.address}/foreground"]
    command += ["--port", str(free_port())]
    folders = [str(Path(__file__).parents[3] / room) for room in ("cli", "client")]
    environment = broker_environment()
    environment["PYTHONPATH"] = os.pathsep.join([*folders, environment["PYTHONPATH"]])
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl+C stops the cluster" in line:
                break
        assert said[-1].startswith("running"), said
        assert LocalCluster.load(directory).is_running()
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert "broker 1 stopped" in rest
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 5
    while LocalCluster.load(directory).is_running():
        assert time.monotonic() < deadline
        time.sleep(0.01)
