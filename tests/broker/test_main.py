"""The broker is a process: exit codes, the ready file, signals, logs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from oncelog.blocking import Admin as BlockingAdmin
from oncelog_broker.__main__ import log_held, main
from oncelog_broker.log import checkpoint
from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_runtime.turns import LongTurn

NOBODY = "127.0.0.1:1"


def write_config(tmp_path: Path, **settings: Any) -> Path:
    """Write settings as TOML; values are JSON, which TOML reads for what is used here."""
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
        command(config, *more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
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


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ONCELOG_")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_variables")
def test_config_check_names_every_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(write_config(tmp_path, broker_id="one", zookeeper_connect=None))
    monkeypatch.setenv("ONCELOG_NUM_PARTITION", "3")
    assert main(["config", "check", "--config", config, "--set", "rack=${X}"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("configuration error: ") for line in lines)
    assert main(["--config", config, "config", "check", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.err == ""
    assert [each["key"] for each in json.loads(shown.out)["errors"]] == [
        "broker_id",
        "num_partition",
        "zookeeper_connect",
    ]


@pytest.mark.usefixtures("no_variables")
def test_config_show_names_origins_and_needs_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_BROKER_ID", "7")
    monkeypatch.setenv("ONCELOG_LOG_DIRS", "/nowhere")
    monkeypatch.setenv("ONCELOG_SERVICE_HOST", "x")
    arguments = ["--set", f"zookeeper_connect={NOBODY}", "config", "show"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["key"]: row for row in document["settings"]}
    assert rows["broker_id"]["origin"] == "environment ONCELOG_BROKER_ID"
    assert rows["zookeeper_connect"]["value"] == NOBODY
    assert document["ignored"] == ["ONCELOG_SERVICE_HOST"]
    assert main(arguments) == 0
    assert "environment ONCELOG_LOG_DIRS" in capsys.readouterr().out
    assert main(["config", "check", "--set", f"zookeeper_connect={NOBODY}"]) == 0
    assert capsys.readouterr().out == "the settings are valid\n"


def test_what_it_runs_with_is_in_its_log(tmp_path: Path) -> None:
    config = write_config(tmp_path, zookeeper_connection_timeout_ms=100)
    done = run(config, "--set", "rack=north")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if '"settings"' in line]
    assert "rack=north" in line
    assert "zookeeper_connection_timeout_ms=100" in line
    assert "num_partitions" not in line


def test_a_missing_file_exits_with_2(tmp_path: Path) -> None:
    done = run(tmp_path / "none.toml")
    assert done.returncode == 2
    assert "no such configuration file" in done.stderr


def test_without_zookeeper_it_exits_with_1_and_says_so(tmp_path: Path) -> None:
    done = run(write_config(tmp_path, zookeeper_connection_timeout_ms=200))
    assert done.returncode == 1
    last = json.loads(done.stderr.splitlines()[-1])
    assert (last["event"], last["address"]) == ("zookeeper_unreachable", NOBODY)
    assert not (tmp_path / "data").exists()


def fetch(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET of the broker's HTTP port."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def http_address(process: subprocess.Popen[str]) -> str:
    """Return where the log of a broker says that its metrics and probes are."""
    assert process.stderr is not None
    lines = (json.loads(line) for line in iter(process.stderr.readline, ""))
    said = next(line for line in lines if line["event"] == "http_listens")
    return f"{said['host']}:{said['port']}"


def test_a_start_can_be_watched_and_a_signal_ends_it(tmp_path: Path) -> None:
    config = write_config(
        tmp_path, zookeeper_connection_timeout_ms=60_000, log_level="debug", metrics_port=0
    )
    process = subprocess.Popen(
        command(config),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        # That line of the log comes after the signal handlers stand.
        address = http_address(process)
        deadline = time.monotonic() + 30
        while b'"connecting"' not in fetch(address, "/startupz")[1]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert fetch(address, "/startupz")[0] == 503
        assert fetch(address, "/readyz")[0] == 503
        assert fetch(address, "/livez")[0] == 200, "no ZooKeeper is no reason to restart a broker"
        assert fetch(address, "/metrics")[0] == 200
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
        assert process.returncode == 0, rest
    finally:
        process.kill()
        process.wait()


def test_two_signals_at_once_end_it_at_once(tmp_path: Path) -> None:
    """The HTTP server takes no signal for itself. Both come while the process cannot run."""
    config = write_config(tmp_path, zookeeper_connection_timeout_ms=60_000, metrics_port=0)
    process = subprocess.Popen(
        command(config), stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        address = http_address(process)
        assert fetch(address, "/livez")[0] == 200
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        _, rest = process.communicate(timeout=30)
        assert process.returncode == 1, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()


def test_without_an_http_port_none_of_it_is_loaded() -> None:
    script = (
        "import sys, oncelog_broker.__main__;"
        "print([m for m in ('anyio', 'prometheus_client', 'starlette', 'uvicorn')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_taken_http_port_exits_with_2_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run(write_config(tmp_path, metrics_port=other.getsockname()[1]))
    assert done.returncode == 2
    assert "metrics_port: cannot listen on 127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("held", "level"),
    [
        (LongTurn(0.06, 0.055, "a > b"), "WARNING"),
        (LongTurn(0.06, 0.001, "a > b"), "INFO"),
        (LongTurn(1.5, 0.0, ""), "WARNING"),
    ],
    ids=["work", "a slow machine", "a disk that hangs"],
)
def test_a_long_turn_of_the_loop_is_logged(
    held: LongTurn, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        log_held(held)
    (line,) = caplog.records
    assert line.levelname == level
    assert f"held_ms={held.seconds * 1000:.0f} " in line.getMessage()
    assert held.ran in line.getMessage()


@pytest.mark.zookeeper
def test_a_first_user_is_made_instead_of_running(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    connect = f"{zookeeper.address}/test-main-users"
    config = write_config(tmp_path, zookeeper_connect=connect, authorizer="acl")
    password = tmp_path / "password"
    password.write_text("a long password\n")
    password.chmod(0o600)
    done = run(config, "--add-user", "admin", "--password-file", str(password))
    assert (done.returncode, done.stdout, done.stderr) == (0, "added admin\n", "")
    again = run(config, "--add-user", "admin", "--password-file", str(password))
    assert (again.returncode, again.stdout) == (3, "")
    assert again.stderr == "error: there is a user admin already\n"
    nobody = run(config, "--add-user", "app")
    assert nobody.returncode == 2
    assert "there is nobody to ask for the password" in nobody.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
@pytest.mark.zookeeper
def test_zookeeper_is_secured_and_opened_instead_of_running(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    password = tmp_path / "password"
    password.write_text("a long password\n")
    password.chmod(0o600)
    connect = f"{zookeeper.address}/test-main-secured"
    identity = {"zookeeper_user": "oncelog", "zookeeper_password_file": str(password)}
    settings = {"zookeeper_connect": connect, "authorizer": "acl", **identity}
    config = write_config(tmp_path, **settings)
    assert run(config, "--add-user", "admin", "--password-file", str(password)).returncode == 0
    too_early = run(config, "--secure-zookeeper")
    assert too_early.returncode == 2
    assert "zookeeper_acl: is open" in too_early.stderr
    config = write_config(tmp_path, **settings, zookeeper_acl="creator")
    done = run(config, "--secure-zookeeper")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"changed \d+ nodes: all are for the brokers alone\n", done.stdout)
    again = run(config, "--secure-zookeeper")
    assert again.stdout == "changed 0 nodes: all are for the brokers alone\n"
    config = write_config(tmp_path, **{**settings, **dict.fromkeys(identity)})
    nobody = run(config)
    assert nobody.returncode == 1
    assert "zookeeper_access_denied" in nobody.stderr
    config = write_config(tmp_path, **settings)
    done = run(config, "--open-zookeeper")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" nodes: all are for everybody\n")


@pytest.mark.zookeeper
def test_a_life_from_ready_file_to_sigterm(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """It is done twice, so that the second finds what the first left behind."""
    config = write_config(
        tmp_path,
        zookeeper_connect=f"{zookeeper.address}/test-main",
        log_format="json",
        metrics_port=0,
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
        http = "{}:{}".format(*document["http"])
        assert fetch(http, "/readyz")[0] == 200
        page = fetch(http, "/metrics")[1]
        assert b"oncelog_active_controller{" in page
        assert b"oncelog_event_loop_held_total{" in page
        address = "{}:{}".format(*document["listeners"]["external"])
        with BlockingAdmin(address) as admin:
            # The second life finds what the first one has set.
            if life == 0:
                admin.alter_broker_configs({None: {"log_level": "warning"}}).raise_for_errors()
            while "log_level" not in admin.describe_configs(brokers=[None])[0].settings:
                assert time.monotonic() < deadline
        process.send_signal(signal.SIGTERM if life else signal.SIGINT)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0, log
        lines = [json.loads(line) for line in log.splitlines()]
        assert all({"event", "level", "timestamp", "broker"} <= line.keys() for line in lines)
        assert "Traceback" not in log
        assert "uvicorn" not in log
        assert ("broker_serves" in log) == (life == 0)
        assert "stop_requested" not in log, "that is below the level that was set while it ran"
        assert not ready.exists()
        assert (tmp_path / "data" / checkpoint.CLEAN_SHUTDOWN).exists()
