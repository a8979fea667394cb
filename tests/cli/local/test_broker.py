"""One broker of the local cluster has a file, an environment and a life of its own."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from oncelog_broker.config import load_config
from oncelog_cli.local import broker as module
from oncelog_cli.local.broker import LocalBroker, broker_command, broker_environment
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.local.toml_writer import Value


@pytest.fixture
def broker(tmp_path: Path) -> LocalBroker:
    return LocalBroker(7, tmp_path / "broker-7", port=19_092, internal_port=19_093)


def test_a_broker_reads_its_file(broker: LocalBroker, tmp_path: Path) -> None:
    broker.write_config(
        "127.0.0.1:2181/root",
        {"flush": "interval", "num_partitions": 3, "topic_defaults": {"segment_bytes": 1_000_000}},
    )
    config = load_config(str(broker.config_path))
    assert config.broker_id == 7
    assert config.zookeeper_connect == "127.0.0.1:2181/root"
    assert config.log_dirs == [str(tmp_path / "broker-7" / "data")]
    assert config.flush == "interval"
    assert config.num_partitions == 3
    assert config.topic_defaults == {"segment_bytes": 1_000_000}
    assert config.inter_broker_listener == "internal"
    assert [(item.name, item.port) for item in config.listeners] == [
        ("internal", 19_093),
        ("external", 19_092),
    ]


def test_settings_go_over_the_defaults(broker: LocalBroker) -> None:
    broker.write_config("z:1", {"log_dirs": ["/one", "/two"]})
    assert load_config(str(broker.config_path)).log_dirs == ["/one", "/two"]


def test_a_setting_may_be_one_of_a_single_listener(broker: LocalBroker) -> None:
    settings: dict[str, Value] = {"listeners": {"external": {"sasl_mechanisms": ["PLAIN"]}}}
    broker.write_config("z:1", settings, external={"tls_min_version": "1.3"})
    internal, external = tomllib.loads(broker.config_path.read_text())["listeners"]
    assert "sasl_mechanisms" not in internal
    assert (external["sasl_mechanisms"], external["tls_min_version"]) == (["PLAIN"], "1.3")


@pytest.mark.parametrize("listeners", [{"outside": {"port": 1}}, {"external": 1}, "external"])
def test_a_listener_that_a_local_broker_lacks_is_refused(
    broker: LocalBroker, listeners: Value
) -> None:
    with pytest.raises(LocalClusterError, match=r"are internal and external\. Remedy"):
        broker.write_config("z:1", {"listeners": listeners})
    assert not broker.config_path.exists()


def test_command_and_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert broker_command(Path("/c"), Path("/r")) == [
        *(sys.executable, "-m", "oncelog_broker"),
        *("--config", "/c", "--ready-file", "/r"),
    ]
    assert "--ready-file" not in broker_command(Path("/c"))
    assert broker_command(None, settings=["a=1", "b=2"])[3:] == ["--set", "a=1", "--set", "b=2"]
    monkeypatch.setenv("ONCELOG_BROKER_ID", "9")
    monkeypatch.setenv("PYTHONPATH", "/inherited")
    environment = broker_environment()
    assert "ONCELOG_BROKER_ID" not in environment
    assert broker_environment(keep_settings=True)["ONCELOG_BROKER_ID"] == "9"
    *folders, last = environment["PYTHONPATH"].split(os.pathsep)
    assert last == "/inherited"
    assert any((Path(folder) / "oncelog_broker").is_dir() for folder in folders)
    assert all(Path(folder).is_absolute() for folder in folders)


def test_a_missing_broker_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGES", ("oncelog_not_there",))
    with pytest.raises(LocalClusterError, match=r"pip install 'oncelog\[local\]'"):
        broker_environment()


def test_a_broker_that_was_never_started(broker: LocalBroker) -> None:
    assert broker.state == "stopped"
    assert broker.pid is None
    assert broker.address == "127.0.0.1:19092"
    assert broker.stop()
    broker.kill()
    broker.pause()
    broker.resume()
    with pytest.raises(LocalClusterError, match="broker 7 ended"):
        broker.wait_ready(0.1)


def test_only_the_ready_file_of_this_very_process_counts(broker: LocalBroker) -> None:
    broker.directory.mkdir()
    assert not broker.is_ready()
    for text in ("", "[]", json.dumps({"pid": 1})):
        broker.ready_path.write_text(text)
        assert not broker.is_ready()
        assert broker.http_address is None


@pytest.mark.integration
def test_a_broker_that_cannot_start_shows_its_log(broker: LocalBroker) -> None:
    broker.write_config("127.0.0.1:1", {"no_such_setting": 1})
    broker.launch()
    with pytest.raises(LocalClusterError, match=r"(?s)ended with code 2.*no_such_setting"):
        broker.wait_ready(30.0)


@pytest.mark.integration
def test_a_broker_that_takes_too_long(broker: LocalBroker) -> None:
    broker.write_config("127.0.0.1:1", {})
    broker.launch()
    try:
        with pytest.raises(LocalClusterError, match="runs already"):
            broker.launch()
        with pytest.raises(LocalClusterError, match=r"was not ready after 0\.1 s"):
            broker.wait_ready(0.1)
        assert broker.state == "starting"
    finally:
        broker.kill()
    assert broker.state == "stopped"
