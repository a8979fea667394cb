"""Start and stop a local Apache Kafka (KRaft, combined mode) for comparison.

The jars come from Maven (``pom.xml`` beside this file); flags are those of Kafka's own start
scripts with a 1 GB heap. Only processes started here are ever ended.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path

_JVM = (
    "-server",
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

_LOG4J = """Configuration:
  Appenders:
    File:
      name: F
      fileName: ${sys:klog}
      PatternLayout:
        pattern: '[%d] %p %m (%c)%n'
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: F
"""


def fetch_jars(directory: Path) -> Path:
    """Get Kafka's jars into ``directory`` once, and return the folder that holds them.

    :raises RuntimeError: there is no Maven or no Java on this machine.
    """
    jars = directory / "libs"
    if any(jars.glob("kafka_2.13-*.jar")):
        return jars
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise RuntimeError("the Kafka peer needs `mvn` and `java` on the PATH")
    pom = Path(__file__).with_name("pom.xml")
    directory.mkdir(parents=True, exist_ok=True)
    goal = "dependency:copy-dependencies"
    subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={jars}"], check=True
    )
    return jars


class KafkaCluster:
    """The cluster has N combined broker and controller processes on free loopback ports.

    :param certificates: a directory with ``broker.pem``, ``broker.key`` and ``ca.pem``; each broker
        has a listener for TLS with them, beside the plain one.
    """

    def __init__(
        self, directory: Path, jars: Path, certificates: Path, *, brokers: int = 3
    ) -> None:
        self._directory = directory
        self._classpath = str(jars / "*")
        self._certificates = certificates
        self._ports = _free_ports(3 * brokers)
        self._count = brokers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports[:brokers])
        self.tls_bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports[-brokers:])

    def __enter__(self) -> KafkaCluster:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        (self._directory / "log4j2.yaml").write_text(_LOG4J)
        cluster_id = _kafka_id()
        directory_ids = [_kafka_id() for _ in range(self._count)]
        voters = ",".join(
            f"{index + 1}@127.0.0.1:{self._ports[self._count + index]}:{directory_ids[index]}"
            for index in range(self._count)
        )
        for index in range(self._count):
            self._format(index, cluster_id, voters)
        for index in range(self._count):
            self._start(index)
        for port in self._ports[: self._count]:
            _wait_port(port)
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the brokers."""
        return [process.pid for process in self._processes]

    def _java(self, index: int, main: str, log: str) -> list[str]:
        home = self._directory / str(index + 1)
        return [
            "java",
            *_JVM,
            f"-Dklog={home / log}",
            f"-Dlog4j2.configurationFile={self._directory / 'log4j2.yaml'}",
            "-cp",
            self._classpath,
            main,
        ]

    def _format(self, index: int, cluster_id: str, voters: str) -> None:
        home = self._directory / str(index + 1)
        home.mkdir()
        plain, control, tls = (self._ports[index + turn * self._count] for turn in range(3))
        voters_ports = self._ports[self._count : 2 * self._count]
        controllers = ",".join(f"127.0.0.1:{port}" for port in voters_ports)
        config = {
            "process.roles": "broker,controller",
            "node.id": index + 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{control},"
            f"SSL://127.0.0.1:{tls}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._key_store(home),
            "ssl.enabled.protocols": "TLSv1.3",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": home / "data",
            "offsets.topic.replication.factor": min(3, self._count),
            "transaction.state.log.replication.factor": min(3, self._count),
            "transaction.state.log.min.isr": min(2, self._count),
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
        }
        properties = home / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        command = self._java(index, "kafka.tools.StorageTool", "format.log")
        command += ["format", "-t", cluster_id, "-c", str(properties)]
        command += ["--initial-controllers", voters]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _key_store(self, home: Path) -> Path:
        """Write a broker's key and certificate into one file, as Kafka wants PEM (KIP-651)."""
        store = home / "broker.store.pem"
        parts = (self._certificates / name for name in ("broker.key", "broker.pem"))
        store.write_text("".join(part.read_text() for part in parts))
        return store

    def _start(self, index: int) -> None:
        home = self._directory / str(index + 1)
        command = [*self._java(index, "kafka.Kafka", "server.log"), str(home / "server.properties")]
        with (home / "out").open("wb") as out:
            self._processes.append(
                subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
            )


def _kafka_id() -> str:
    """Make a cluster or directory id in Kafka's form; it must not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait_port(port: int, limit_s: float = 90) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.3).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not open port {port}") from error
            time.sleep(0.1)


def cache_directory() -> Path:
    """Return the directory that keeps the jars between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "oncelog" / "kafka-peer"
