"""Files that suites need are pinned, and those that cannot be had are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_suites.fetch import KAFKA_JARS, Edit, NotAvailableError, environment, jars, need, run
from oncelog_cli.local.process import free_port


def test_every_jar_of_kafka_is_pinned() -> None:
    rows = [line.split() for line in KAFKA_JARS.read_text().splitlines()]
    names = [path.rpartition("/")[2] for path, _, _ in rows]
    assert len(set(names)) == len(names) > 90
    assert all(int(size) > 0 and len(bytes.fromhex(digest)) == 64 for _, size, digest in rows)


def test_a_jar_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ONCELOG_MAVEN_REPOSITORY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "java").touch(mode=0o755)
    said: list[str] = []
    with pytest.raises(NotAvailableError, match=r"hash4j-.*jar cannot be fetched"):
        jars(KAFKA_JARS, "Kafka", said.append)
    assert said[0].startswith("fetching Kafka once: ")


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotAvailableError, match="there is no surely-no-program on the PATH"):
        need("sh", "surely-no-program")


def test_what_does_not_fetch_says_why() -> None:
    assert run(["echo", "here"], 10.0) == "here\n"
    with pytest.raises(NotAvailableError, match="echo gone >&2; exit 3: gone"):
        run(["sh", "-c", "echo gone >&2; exit 3"], 10.0)
    with pytest.raises(NotAvailableError, match="sleep"):
        run(["sleep", "60"], 0.01)


@pytest.mark.slow
def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pinned, said = tmp_path / "nothing-1.txt", list[str]()
    pinned.write_text("# nothing but Python\n")
    programs = environment(pinned, said.append)
    assert run([programs / "python", "-c", "import sys; print(sys.prefix)"], 60.0).strip() == str(
        programs.parent
    )
    assert environment(pinned, said.append) == programs
    assert said == ["installing nothing-1 and what it needs once"]


@pytest.mark.slow
def test_what_pip_does_not_get_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    pinned = tmp_path / "more-1.txt"
    pinned.write_text("surely-no-package==1.0\n")
    for _ in range(2):  # what is begun is not taken for whole
        with pytest.raises(NotAvailableError, match="surely-no-package==1.0"):
            environment(pinned, print)


def test_a_line_of_a_module_is_changed_if_it_is_there_once(tmp_path: Path) -> None:
    source = tmp_path / "a_test.go"
    source.write_text("one\ntwo\n")
    edit = Edit("a_test.go", "two", "2")
    edit.apply(tmp_path)
    assert source.read_text() == "one\n2\n"
    for text in ("one\n", "two two\n"):
        source.write_text(text)
        with pytest.raises(NotAvailableError, match="'two' is not there once"):
            edit.apply(tmp_path)
