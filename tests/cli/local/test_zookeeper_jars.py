"""ZooKeeper's jars from a Maven repository are a server."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from oncelog_cli.local import zookeeper
from oncelog_cli.local.process import LocalClusterError, free_port
from oncelog_cli.local.zookeeper import ZooKeeperServer, find_install, four_letter_word
from oncelog_cli.local.zookeeper_jars import JARS, jars_directory
from support.maven import served


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
