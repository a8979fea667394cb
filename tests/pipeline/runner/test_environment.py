"""Spark can run, is too old, or is missing; the text always says what to do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_oncelog.runner import environment
from pyspark_oncelog.runner.environment import (
    EnvironmentProblem,
    find_java,
    java_major,
    prepare,
    pyspark_version,
    spark_submit,
    version_tuple,
    wrapped_home,
)


def program(path: Path, text: str) -> Path:
    """Write a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def java(home: Path, version: str) -> Path:
    """Write a Java that says its version, and else its arguments."""
    quoted = f'echo "openjdk version \\"{version}\\" 2024" >&2'
    program(home / "bin" / "java", f'[ "$1" = -version ] && {quoted} || printf "%s\\n" "$@"')
    return home


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_versions_of_java(text: str, major: int | None) -> None:
    assert java_major(text) == major


@pytest.mark.parametrize(
    ("text", "numbers"), [("4.3.0", (4, 3, 0)), ("4.3.0.dev1", (4, 3, 0)), ("x", ())]
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert version_tuple(text) == numbers


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = java(tmp_path / "home", "21.0.1")
    other = java(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.major) == (str(home), 21)
    found = find_java({"PATH": f"{other / 'bin'}:/usr/bin:/bin"})
    assert (found.home, found.major) == (None, 17)


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    home = java(tmp_path, "1.8.0_392")
    with pytest.raises(EnvironmentProblem, match="is Java 8, Spark needs 17 .*Remedy"):
        find_java({"JAVA_HOME": str(home)})


def test_a_java_home_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="no bin/java. Remedy"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_does_not_work(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "exit 1")
    with pytest.raises(EnvironmentProblem, match="does not say its version"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_bundled_java", lambda: None)
    with pytest.raises(EnvironmentProblem, match=r"needs Java 17 or newer. Remedy: install a Java"):
        find_java({"PATH": str(tmp_path)})


def test_the_wheels_java_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = java(tmp_path / "wheel", "25.0.2") / "bin" / "java"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "_bundled_java", lambda: bundled)
    found = find_java({"PATH": str(tmp_path)})
    assert (found.home, found.major) == (str(tmp_path / "cache" / "oncelog" / "java"), 25)


def test_the_wrapper_drops_one_flag_and_keeps_the_rest(tmp_path: Path) -> None:
    bundled = java(tmp_path / "wheel", "25.0.2") / "bin" / "java"
    home = wrapped_home(bundled, tmp_path / "cache")
    assert wrapped_home(bundled, tmp_path / "cache") == home
    command = [str(home / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector"]
    done = subprocess.run([*command, "", "x*"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "", "x*"]
    other = java(tmp_path / "newer", "26") / "bin" / "java"
    assert wrapped_home(other, tmp_path / "cache") == home
    assert str(other) in (home / "bin" / "java").read_text()


def test_what_is_here_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    spark, found = prepare()
    assert version_tuple(spark) >= (4, 2)
    assert found.major >= 17
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.delenv("PYSPARK_PYTHON")


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_package_that_is_missing(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == package else find(name),
    )
    with pytest.raises(EnvironmentProblem, match=r"is not installed. Remedy: pip install 'oncelog"):
        pyspark_version()


def test_a_pyspark_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "version", lambda name: "4.0.1")
    with pytest.raises(EnvironmentProblem, match=r"4.0.1 is too old, 4.2 is needed"):
        pyspark_version()


def test_spark_submit(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    submit = program(home / "bin" / "spark-submit", "true")
    assert spark_submit({"SPARK_HOME": str(home)}) == str(submit)
    assert spark_submit({"PATH": str(submit.parent)}) == str(submit)
    assert spark_submit({"PATH": str(tmp_path)}).endswith("pyspark/bin/spark-submit")
    with pytest.raises(EnvironmentProblem, match=r"no bin/spark-submit. Remedy"):
        spark_submit({"SPARK_HOME": str(tmp_path)})
