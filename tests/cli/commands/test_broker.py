"""``oncelog broker`` hands over to the broker, and says what its settings are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.shell import COMMAND, environment, oncelog

GOOD = 'broker_id = 1\nlog_dirs = ["/nowhere"]\nzookeeper_connect = "127.0.0.1:1"\n'


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return str(path)


def test_broker_hands_over_file_and_settings_and_gives_back_the_exit_code(tmp_path: Path) -> None:
    config = write(tmp_path, GOOD)
    done = subprocess.run(
        [*COMMAND, "broker", "--config", config, "--set", "num_partitions=none"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "flag --set num_partitions: num_partitions: " in done.stderr
    assert "Traceback" not in done.stderr


async def test_config_check(tmp_path: Path) -> None:
    config = write(tmp_path, GOOD)
    shown = await oncelog("broker", "config", "check", "--config", config)
    assert (shown.code, shown.out) == (0, "the settings are valid\n")
    wrong = ["--config", config, "--set", "rack=${X}", "--set", "flush=now", "--json"]
    shown = await oncelog("broker", "config", "check", *wrong)
    assert shown.code == 2
    document = shown.document
    assert document["_command"] == "broker config check"
    assert [each["item"] for each in document["errors"]] == ["flush", "rack"]
    assert document["mistakes"][0]["origin"] == "flag --set flush"
    assert "rack" in shown.err


async def test_config_show(tmp_path: Path) -> None:
    config = write(tmp_path, GOOD)
    shown = await oncelog("broker", "config", "show", "--config", config)
    assert shown.code == 0
    keys = [line.split()[0] for line in shown.out.splitlines()[1:]]
    assert keys == ["broker_id", "log_dirs", "zookeeper_connect"]
    assert f"file {config}" in shown.out
    shown = await oncelog("broker", "config", "show", "--config", config, "--all", "--json")
    rows = {row["key"]: row for row in shown.document["settings"]}
    assert rows["log_level"]["origin"] == "default"
    assert rows["log_level"]["dynamic"]


async def test_config_show_of_a_running_broker(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        shown = await oncelog(
            "broker", "config", "show", "--broker", "1", "--json", bootstrap=cluster.bootstrap
        )
        rows = {row["key"]: row for row in shown.document["settings"]}
        assert rows["broker_id"]["origin"] == "broker"
        assert rows["broker_id"]["value"] == "1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "rack=x", "config", "check"],
        ["config", "show", "--broker", "1", "--set", "rack=x"],
    ],
)
async def test_options_that_make_no_sense_together(arguments: list[str]) -> None:
    shown = await oncelog("broker", *arguments)
    assert shown.code == 2
    assert "Traceback" not in shown.err
