"""A shell runs ``oncelog up``, ``down`` and ``status``."""

from __future__ import annotations

import http.client
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
from confluent_kafka import Producer

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
        cluster.console.kill()
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
def test_clients_of_kafka_are_served_as_well(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--dir", str(directory)]
    assert run_command(["up", *place, "-n", "1", "--json"]) == 0
    assert document(capsys)["kafka_bootstrap"] is None
    assert run_command(["up", *place, "--kafka"]) == 1
    assert "'oncelog down', then 'oncelog up --kafka'" in capsys.readouterr().err
    assert run_command(["down", *place]) == 0
    capsys.readouterr()

    assert run_command(["up", *place, "--kafka", "--json"]) == 0
    started = document(capsys)
    ours, address = started["bootstrap"], started["kafka_bootstrap"]
    assert address not in (None, ours)
    assert run_command(["up", *place, "--kafka"]) == 0  # it runs: the same
    assert f"kafka      {address}\n" in capsys.readouterr().out
    assert run_command(["topics", "create", "t", "--bootstrap", ours]) == 0
    produce_by_kafka(address, "t", b"from Kafka")
    capsys.readouterr()
    consume = ["consume", "t", "--from-beginning", "--number", "1", "--bootstrap", ours]
    assert run_command([*consume, "--json"]) == 0
    assert document(capsys)["value"] == "from Kafka"

    assert run_command(["down", *place, "--json"]) == 0
    assert document(capsys)["kafka_bootstrap"] == address, "it is kept for the next start"


def produce_by_kafka(address: str, topic: str, value: bytes) -> None:
    """Produce one record by confluent-kafka, as soon as the brokers take what it writes."""
    producer = Producer({"bootstrap.servers": address})
    deadline = time.monotonic() + 30
    told: list[Any] = []
    while not told or told[-1] is not None:
        assert time.monotonic() < deadline, told[-1:]
        producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
        producer.flush(10)


def asked(address: str, path: str, **headers: str) -> tuple[int, str, str]:
    """Return status, body and cookie of what a console answers."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        return answer.status, body, answer.headers.get("set-cookie", "").partition(";")[0]
    finally:
        connection.close()


def wait_for_text(path: Path, deadline_s: float = 15.0) -> str:
    """Return what a program writes into a file."""
    deadline = time.monotonic() + deadline_s
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"nobody wrote {path}"
        time.sleep(0.02)
    return path.read_text().strip()


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the person's browser: it writes the address that it is to open into this
    file."""
    program, addresses = tmp_path / "browser", tmp_path / "opened"
    program.write_text(f'#!/bin/sh\necho "$1" > {addresses}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return addresses


@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.slow
def test_a_console_beside_the_brokers(
    directory: Path, opened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = LocalCluster(directory, brokers=1)
    known.console.adopt(free_port(), None)
    known.save()
    place = ["--dir", str(directory)]
    assert run_command(["up", *place, "--console", "--open", "--json"]) == 0
    started = document(capsys)
    row = started["processes"][-1]
    assert (row["name"], row["state"]) == ("console", "running")
    assert wait_for_text(opened) == f"http://{row['http']}"
    status, page, _ = asked(row["http"], "/brokers", accept="application/json")
    assert status == 200
    assert [broker["broker_id"] for broker in json.loads(page)["brokers"]] == [1]

    opened.unlink()
    assert run_command(["up", *place, "--console", "--open", "--json"]) == 0  # it runs: the same
    assert document(capsys)["processes"] == started["processes"]
    assert wait_for_text(opened) == f"http://{row['http']}/"
    assert run_command(["status", *place]) == 0
    assert f"console    http://{row['http']}/" in capsys.readouterr().out

    assert run_command(["down", *place, "--json"]) == 0
    stopped = document(capsys)["processes"][-1]
    assert (stopped["name"], stopped["state"], stopped["http"]) == ("console", "stopped", None)
    assert run_command(["down", *place, "--delete", "--yes"]) == 0
    assert not directory.exists()


@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.slow
def test_the_console_of_a_secured_cluster(
    directory: Path, opened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = LocalCluster(directory, brokers=1, secure=True)
    known.console.adopt(free_port(), None)
    known.save()
    place = ["--dir", str(directory)]
    assert run_command(["up", *place, "--secure", "--console", "--open"]) == 0
    said = capsys.readouterr().out
    assert f"token      {known.console.token_path}" in said
    address = wait_for_text(opened)
    origin, slash, code = address.partition("/sign-in/")
    assert slash, address
    console = origin.removeprefix("http://")
    assert f"console    {origin}/" in said
    assert asked(console, "/brokers", accept="application/json")[0] == 401
    status, _, cookie = asked(console, f"/sign-in/{code}")
    assert status == 303
    status, page, _ = asked(console, "/brokers", accept="application/json", cookie=cookie)
    assert (status, len(json.loads(page)["brokers"])) == (200, 1)
    assert not asked(console, f"/sign-in/{code}")[2], "an address signs in once"
    assert run_command(["down", *place, "--delete", "--yes"]) == 0


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
