"""``oncelog pipeline`` becomes the runner, with what it was told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.profiles import Profile, Profiles, save_profiles
from support.shell import COMMAND, environment

JOB = """
checkpoint = "state"
[sources.a]
subscribe = "t"
[query]
sql = "SELECT * FROM a"
[sink]
topic = "u"
"""


def shell(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process, since it becomes another program."""
    return subprocess.run(
        [*COMMAND, "pipeline", *arguments],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def test_help_names_the_commands() -> None:
    done = shell("--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("run", "check", "demo"))


def test_the_exit_code_is_the_runners(job_file: Path) -> None:
    done = shell("run", str(job_file.with_name("none.toml")))
    assert done.returncode == 2
    assert "none.toml: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_says_what_is_wrong(job_file: Path) -> None:
    done = shell("check", str(job_file), "--json", "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 1
    wrong = {f["about"]: f["text"] for f in json.loads(done.stdout)["findings"] if not f["ok"]}
    assert "127.0.0.1:1" in wrong["cluster"]


def test_a_local_cluster_is_found(job_file: Path, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "local", brokers=1, base_port=21_000)
    cluster.save()
    done = shell("check", str(job_file), ONCELOG_DIR=str(cluster.directory))
    assert done.returncode == 1
    assert "127.0.0.1:21000" in done.stdout


def test_arguments_of_spark_submit_go_through(job_file: Path, tmp_path: Path) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    submit.chmod(0o755)
    extra = ["--", "--num-executors", "2"]
    done = shell("run", str(job_file), "--submit", "-b", "here:1", *extra, SPARK_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2:4] == ["--num-executors", "2"]
    assert lines[-2:] == ["--bootstrap", "here:1"]


def test_a_profile_that_is_named_goes_before_the_file(job_file: Path, bare_home: Path) -> None:
    save_profiles(Profiles(profiles={"p": Profile("127.0.0.1:2")}))
    done = shell("check", str(job_file), "--profile", "p")
    assert done.returncode == 1
    assert "127.0.0.1:2" in done.stdout
    done = shell("run", str(job_file), "-X", "acks=1")
    assert done.returncode == 2
    assert "stand in its file" in done.stderr


def test_a_wrong_option_is_refused(job_file: Path) -> None:
    done = shell("run", str(job_file), "--sumbit")
    assert done.returncode == 2
    assert "--sumbit" in done.stderr


def test_a_profile_says_how_connections_are_secured(job_file: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "mine")}
    path = tmp_path / "mine" / "oncelog" / "profiles.toml"
    security = {"ca_file": "/no/such/ca.pem", "username": "app", "password_file": "/no/such/p"}
    save_profiles(Profiles("p", None, {"p": Profile("127.0.0.1:1", "", {}, security)}), path)
    done = shell("check", str(job_file), **home)
    assert done.returncode == 1
    assert "/no/such/ca.pem is not there" in done.stdout
    shown = {"username": "app", "password": "s3cret"}
    save_profiles(Profiles("p", None, {"p": Profile("127.0.0.1:1", "", {}, shown)}), path)
    done = shell("check", str(job_file), **home)
    assert done.returncode == 2
    assert "the profile has a password" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
