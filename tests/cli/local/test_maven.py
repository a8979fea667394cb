"""Jars are fetched from a Maven repository once, and never used unless they are those."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_cli.local.maven import Jar, jars_in
from oncelog_cli.local.process import LocalClusterError
from support.maven import Repository, served

CONTENTS = {"a/b/one.jar": b"1" * 5000, "c/two.jar": b"2"}
FEW = tuple(
    Jar(path, len(content), hashlib.sha512(content).hexdigest())
    for path, content in CONTENTS.items()
)


def fetch(repository: Repository, place: Path, said: list[str] | None = None) -> list[Path]:
    """Fetch the few jars into ``place``."""
    report = ([] if said is None else said).append
    return jars_in(place, FEW, "two", {"ONCELOG_MAVEN_REPOSITORY": repository.address}, report)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    (tmp_path / "repository").mkdir()
    with served(tmp_path / "repository") as made:
        for path, content in CONTENTS.items():
            made.put(path, content)
        yield made


def test_jars_are_fetched_once(repository: Repository, tmp_path: Path) -> None:
    place, said = tmp_path / "cache" / "zookeeper", list[str]()
    found = fetch(repository, place, said)
    assert {file.name: file.read_bytes() for file in found} == {
        "one.jar": CONTENTS["a/b/one.jar"],
        "two.jar": CONTENTS["c/two.jar"],
    }
    assert len(said) == 1
    assert repository.address.rstrip("/") in said[0]
    assert str(place) in said[0]
    assert repository.asked == ["/a/b/one.jar", "/c/two.jar"]
    assert fetch(repository, place, said) == found
    assert (len(repository.asked), len(said)) == (2, 1)
    assert sorted(file.name for file in place.iterdir()) == ["one.jar", "two.jar"]


def test_a_damaged_jar_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    one, two = fetch(repository, tmp_path)
    one.write_bytes(b"3" * one.stat().st_size)
    assert fetch(repository, tmp_path) == [one, two]
    assert one.read_bytes() == CONTENTS["a/b/one.jar"]
    assert repository.asked[2:] == ["/a/b/one.jar"]


@pytest.mark.parametrize("content", [b"", b"1" * 4999, b"1" * 5001, b"1" * 4999 + b"2"])
def test_a_jar_that_is_another_is_not_used(
    repository: Repository, tmp_path: Path, content: bytes
) -> None:
    repository.put("a/b/one.jar", content)
    with pytest.raises(LocalClusterError, match=r"a/b/one\.jar is not the file that belongs there"):
        fetch(repository, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_fetched_is_named(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "c/two.jar").unlink()
    with pytest.raises(LocalClusterError, match=r"c/two\.jar cannot be fetched: .*404"):
        fetch(repository, tmp_path / "cache")
    repository.put("c/two.jar", CONTENTS["c/two.jar"])
    fetch(repository, tmp_path / "cache")
    assert repository.asked.count("/a/b/one.jar") == 1  # what came before is kept


@pytest.mark.parametrize("address", ["maven.example", "ftp://maven.example", "/a/folder"])
def test_a_repository_is_an_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(LocalClusterError, match="ONCELOG_MAVEN_REPOSITORY=.* is no address"):
        jars_in(tmp_path, FEW, "two", {"ONCELOG_MAVEN_REPOSITORY": address}, print)


def test_a_folder_that_cannot_be_made_is_named(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LocalClusterError, match=r"one\.jar cannot be kept in "):
        fetch(repository, tmp_path / "file" / "cache")
