"""The broker as a process: exit codes, the ready file, signals, logs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.__main__ import make_store
from oncelog_broker.config import BrokerConfig
from oncelog_broker.log import checkpoint
from oncelog_cli.local.zookeeper import ZooKeeperServer

NOBODY = "127.0.0.1:1"


def write_config(tmp_path: Path, **settings: Any) -> Path:
    """Settings as TOML; values are JSON, which TOML reads for what is used here."""
    given = {
        "broker_id": 1,
        "log_dirs": [str(tmp_path / "data")],
        "zookeeper_connect": NOBODY,
        **settings,
    }
    path = tmp_path / "broker.toml"
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in given.items() if v is not None))
    return path


def command(config: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "oncelog_broker", "--config", str(config), *more]


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ONCELOG_")}
    return {**clean, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def run(config: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(config, *more), capture_output=True, text=True, timeout=60, env=environment()
    )


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", {"brokers_id": 1}, "brokers_id: there is no such setting"),
    ("wrong type", {"num_partitions": "many"}, "num_partitions: input should be a valid integer"),
    ("no zookeeper", {"zookeeper_connect": None}, "zookeeper_connect: is required"),
]


@pytest.mark.parametrize(("name", "settings", "says"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistakes_in_the_configuration_exit_with_2_and_create_nothing(
    tmp_path: Path, name: str, settings: dict[str, Any], says: str
) -> None:
    config = write_config(tmp_path, **settings)
    done = run(config)
    assert done.returncode == 2
    assert done.stderr.startswith(f"configuration error: {config}: {says}")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_exits_with_2_before_zookeeper_is_asked(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        path = write_config(tmp_path, log_format="json")
        port = taken.getsockname()[1]
        path.write_text(path.read_text() + f'[[listeners]]\nname = "internal"\nport = {port}\n')
        done = run(path)
    assert done.returncode == 2
    assert "listeners.0: cannot listen on 127.0.0.1" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_missing_file_exits_with_2(tmp_path: Path) -> None:
    done = run(tmp_path / "none.toml")
    assert done.returncode == 2
    assert "no such configuration file" in done.stderr


def test_without_zookeeper_it_exits_with_1_and_says_so(tmp_path: Path) -> None:
    done = run(write_config(tmp_path, zookeeper_connection_timeout_ms=200))
    assert done.returncode == 1
    assert f"no contact with ZooKeeper at {NOBODY}" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_signal_while_starting_ends_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(write_config(tmp_path, zookeeper_connection_timeout_ms=60_000, log_level="debug")),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    # The first line of the log comes after the signal handlers stand.
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 0, rest


def test_the_store_takes_hosts_and_chroot_apart() -> None:
    config = BrokerConfig(broker_id=1, log_dirs=["/d"], zookeeper_connect="a:1,b:2/x/y")
    assert make_store(config) is not None


@pytest.mark.zookeeper
def test_a_life_from_ready_file_to_sigterm(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """Twice, so that what the first left behind is found by the second."""
    config = write_config(
        tmp_path, zookeeper_connect=f"{zookeeper.address}/test-main", log_format="json"
    )
    ready = tmp_path / "ready.json"
    for life in range(2):
        process = subprocess.Popen(
            command(config, "--ready-file", str(ready)),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        deadline = time.monotonic() + 30
        while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        document = json.loads(ready.read_text())
        assert (document["broker_id"], document["pid"]) == (1, process.pid)
        with socket.create_connection(tuple(document["listeners"]["external"]), 5):
            pass
        process.send_signal(signal.SIGTERM if life else signal.SIGINT)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0, log
        lines = [json.loads(line) for line in log.splitlines()]
        assert all({"event", "level", "timestamp", "broker"} <= line.keys() for line in lines)
        assert "Traceback" not in log
        assert not ready.exists()
        assert (tmp_path / "data" / checkpoint.CLEAN_SHUTDOWN).exists()
