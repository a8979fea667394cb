"""The runner's command line is tried without starting Spark: what it says and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_oncelog.runner.command import main, with_bootstrap, with_security
from pyspark_oncelog.runner.job import JobError
from pyspark_oncelog.runner.job_file import job_from, load_job
from support.house import ROOT

JOB = """
checkpoint = "state"
[sources.a]
subscribe = "t"
[query]
sql = "SELECT * FROM a"
[sink]
topic = "u"
"""


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The job needs no brokers."""
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def test_a_job_that_is_none(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job_file.write_text(JOB + "\n[snik]\n")
    assert main(["run", str(job_file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: {job_file}: 'snik' is not known: did you mean 'sink'?\n"
    assert main(["run", str(job_file), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["event"], document["ok"]) == ("failed", False)
    assert "snik" in document["errors"][0]


def test_brokers_must_be_named(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job_file)]) == 2
    assert "which cluster?" in capsys.readouterr().err


def test_brokers_by_command_line_file_and_variable() -> None:
    document = {
        "name": "j",
        "checkpoint": "s",
        "sources": {"a": {"subscribe": "t"}},
        "query": {"sql": "S"},
        "sink": {"topic": "u"},
    }
    silent = job_from(document)
    named = job_from({**document, "bootstrap_servers": "file:1"})
    variable = {"ONCELOG_BOOTSTRAP": "variable:1"}
    assert with_bootstrap(named, "line:1", variable).bootstrap_servers == "line:1"
    assert with_bootstrap(named, None, variable).bootstrap_servers == "file:1"
    assert with_bootstrap(silent, None, variable).bootstrap_servers == "variable:1"
    assert with_bootstrap(silent, None, {}).bootstrap_servers is None


def run_here(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m pyspark_oncelog`` in a process of its own."""
    rooms = [str(ROOT / room) for room in ("pipeline", "client", "protocol", "runtime")]
    return subprocess.run(
        [sys.executable, "-m", "pyspark_oncelog", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(rooms), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java(job_file: Path) -> None:
    """In a process of its own: in this one Spark may run already, which needs no other Java."""
    done = run_here("run", str(job_file), "--bootstrap", "here:1", JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert "JAVA_HOME is /nowhere" in done.stderr


def test_arguments_of_spark_submit_need_it(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--", "--num-executors", "2"], ["--num-executors", "2"]):
        with pytest.raises(SystemExit) as leaving:
            main(["run", str(job_file), "--bootstrap", "here:1", *arguments])
        assert leaving.value.code == 2
    assert "--submit" in capsys.readouterr().err


def test_security_of_brokers_that_the_file_does_not_name(job_file: Path, tmp_path: Path) -> None:
    job = with_bootstrap(load_job(job_file), "here:1", {})
    told = ["ca_file=/ca.pem", "username=app", "password_file=/p=1"]
    assert with_security(job, told).security == {
        "oncelog.security.ca.file": "/ca.pem",
        "oncelog.security.username": "app",
        "oncelog.security.password.file": "/p=1",
    }
    by_url = with_bootstrap(job, "oncelogs://here:1?ca_file=/c", {})
    assert with_security(by_url, told).security == {}
    job_file.write_text(JOB + '\n[security]\nca_file = "/own.pem"\n')
    assert with_security(load_job(job_file), told).security == {
        "oncelog.security.ca.file": "/own.pem"
    }
    with pytest.raises(JobError, match="--security tls: must be NAME=VALUE"):
        with_security(job, ["tls"])


@pytest.mark.parametrize("own", [True, False])
def test_security_is_not_for_brokers_that_the_file_names(
    job_file: Path, own: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    named = 'bootstrap_servers = "127.0.0.1:1"\n' if own else ""
    job_file.write_text(named + JOB)
    given = [] if own else ["--bootstrap", "127.0.0.1:1"]
    assert main(["check", str(job_file), *given, "--security", "ca_file=/no/such.pem"]) == 1
    assert ("/no/such.pem is not there" in capsys.readouterr().out) is not own


def test_it_becomes_spark_submit(job_file: Path, tmp_path: Path) -> None:
    home = tmp_path / "spark"
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    submit.chmod(0o755)
    arguments = ["run", str(job_file), "--submit", "--json", "--bootstrap", "here:1"]
    arguments += ["--security", "tls=true"]
    done = run_here(*arguments, "--", "--num-executors", "2", SPARK_HOME=str(home))
    assert done.returncode == 7
    lines = done.stdout.splitlines()
    assert lines[:4] == ["--name", "job", "--num-executors", "2"]
    assert lines[4].endswith("pyspark_oncelog/__main__.py")
    passed = ["--bootstrap", "here:1", "--security", "tls=true"]
    assert lines[5:] == ["run", str(job_file), "--submitted", "--json", *passed]


def test_check(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(job_file)]) == 1
    assert "ERROR  cluster" in capsys.readouterr().out
    assert main(["check", str(job_file), "--json"]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert not document["ok"]
    assert list(document)[:2] == ["_command", "_version"]
    assert [error["item"] for error in document["errors"]] == [
        line.split(":")[1].strip() for line in shown.err.splitlines()
    ]
    assert {"PySpark", "Java"} <= {f["about"] for f in document["findings"] if f["ok"]}


def test_importing_the_runner_is_light() -> None:
    script = (
        "import sys, pyspark_oncelog.runner as r; r.load_job(sys.argv[1]); "
        "print(*sorted({'pyspark', 'oncelog', 'pyarrow', 'py4j'} & set(sys.modules)))"
    )
    path = ROOT / "cli/oncelog_cli/demo/delays.toml"
    assert load_job(path).name == "delays"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "pipeline")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
