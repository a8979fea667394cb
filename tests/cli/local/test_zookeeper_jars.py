"""ZooKeeper's jars are fetched from a Maven repository once, and never used unless they are
those."""

from __future__ import annotations

import functools
import hashlib
import http.server
import importlib.util
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.local import zookeeper
from oncelog_cli.local.process import LocalClusterError, free_port
from oncelog_cli.local.zookeeper import ZooKeeperServer, find_install, four_letter_word
from oncelog_cli.local.zookeeper_jars import JARS, Jar, jars_directory, zookeeper_jars

CONTENTS = {"a/b/one.jar": b"1" * 5000, "c/two.jar": b"2"}
FEW = tuple(
    Jar(path, len(content), hashlib.sha512(content).hexdigest())
    for path, content in CONTENTS.items()
)


class Repository:
    """This Maven repository on this machine serves a folder, and notes what was asked of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.address = ""

    def put(self, path: str, content: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)

    def fetch(self, place: Path, said: list[str] | None = None) -> list[Path]:
        """Fetch the few jars into ``place``."""
        report = ([] if said is None else said).append
        environment = {"ONCELOG_MAVEN_REPOSITORY": self.address}
        return zookeeper_jars(environment, report, directory=place, jars=FEW)


@contextmanager
def served(root: Path) -> Iterator[Repository]:
    repository = Repository(root)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append(self.path)
            super().do_GET()

        def log_message(self, *arguments: Any) -> None: ...

    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        repository.address = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            yield repository
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    (tmp_path / "repository").mkdir()
    with served(tmp_path / "repository") as made:
        for path, content in CONTENTS.items():
            made.put(path, content)
        yield made


def test_jars_are_fetched_once(repository: Repository, tmp_path: Path) -> None:
    place, said = tmp_path / "cache" / "zookeeper", list[str]()
    found = repository.fetch(place, said)
    assert {file.name: file.read_bytes() for file in found} == {
        "one.jar": CONTENTS["a/b/one.jar"],
        "two.jar": CONTENTS["c/two.jar"],
    }
    assert len(said) == 1
    assert repository.address.rstrip("/") in said[0]
    assert str(place) in said[0]
    assert repository.asked == ["/a/b/one.jar", "/c/two.jar"]
    assert repository.fetch(place, said) == found
    assert (len(repository.asked), len(said)) == (2, 1)
    assert sorted(file.name for file in place.iterdir()) == ["one.jar", "two.jar"]


def test_a_damaged_jar_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    one, two = repository.fetch(tmp_path)
    one.write_bytes(b"3" * one.stat().st_size)
    assert repository.fetch(tmp_path) == [one, two]
    assert one.read_bytes() == CONTENTS["a/b/one.jar"]
    assert repository.asked[2:] == ["/a/b/one.jar"]


@pytest.mark.parametrize("content", [b"", b"1" * 4999, b"1" * 5001, b"1" * 4999 + b"2"])
def test_a_jar_that_is_another_is_not_used(
    repository: Repository, tmp_path: Path, content: bytes
) -> None:
    repository.put("a/b/one.jar", content)
    with pytest.raises(LocalClusterError, match=r"a/b/one\.jar is not the file that belongs there"):
        repository.fetch(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_fetched_is_named(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "c/two.jar").unlink()
    with pytest.raises(LocalClusterError, match=r"c/two\.jar cannot be fetched: .*404"):
        repository.fetch(tmp_path / "cache")
    repository.put("c/two.jar", CONTENTS["c/two.jar"])
    repository.fetch(tmp_path / "cache")
    assert repository.asked.count("/a/b/one.jar") == 1  # what came before is kept


@pytest.mark.parametrize("address", ["maven.example", "ftp://maven.example", "/a/folder"])
def test_a_repository_is_an_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(LocalClusterError, match="ONCELOG_MAVEN_REPOSITORY=.* is no address"):
        zookeeper_jars({"ONCELOG_MAVEN_REPOSITORY": address}, print, directory=tmp_path)


def test_a_folder_that_cannot_be_made_is_named(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LocalClusterError, match=r"one\.jar cannot be kept in "):
        repository.fetch(tmp_path / "file" / "cache")


def bare_machine(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Pretend that the machine has a Java, and neither ZooKeeper nor PySpark."""
    package = zookeeper._package_directory
    monkeypatch.setattr(zookeeper, "_installed", lambda environ: None)
    monkeypatch.setattr(
        zookeeper, "_package_directory", lambda name: None if name == "pyspark" else package(name)
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))


def test_no_zookeeper_names_the_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_machine(monkeypatch, tmp_path)
    nobody = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("ONCELOG_MAVEN_REPOSITORY", nobody)
    with pytest.raises(LocalClusterError) as failure:
        find_install()
    text = str(failure.value)
    assert f"no ZooKeeper on this machine, and {nobody}/{JARS[0].path} cannot be fetched" in text
    for remedy in ("ONCELOG_MAVEN_REPOSITORY", "pyspark", "ZOOKEEPER_HOME", "--zookeeper"):
        assert remedy in text


@pytest.mark.zookeeper
def test_the_fetched_jars_are_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars and their digests are real: PySpark ships the same files."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    shipped = Path(spec.submodule_search_locations[0]) / "jars"
    if not all((shipped / jar.name).exists() for jar in JARS):
        pytest.skip("this PySpark ships other releases of the jars")
    bare_machine(monkeypatch, tmp_path / "cache")
    for jar in JARS:
        (tmp_path / "maven" / jar.path).parent.mkdir(parents=True)
        shutil.copy(shipped / jar.name, tmp_path / "maven" / jar.path)
    said: list[str] = []
    server = ZooKeeperServer(tmp_path / "zk")
    with served(tmp_path / "maven") as maven:
        monkeypatch.setenv("ONCELOG_MAVEN_REPOSITORY", maven.address)
        try:
            server.start(report=said.append)
            assert four_letter_word(server.port, "srvr").startswith("Zookeeper version: 3.9.5")
            again = find_install(report=said.append)
        finally:
            server.stop()
    assert again.class_path.split(os.pathsep) == [str(jars_directory() / jar.name) for jar in JARS]
    assert len(maven.asked) == len(JARS)
    assert [text.partition(":")[0] for text in said] == ["fetching ZooKeeper 3.9.5 once"]
