"""A local cluster is a ZooKeeper and N brokers under one directory.

::

    <directory>/cluster.json          what belongs to the cluster: ports, pids, start marks
    <directory>/cluster.lock          held while a command changes the cluster
    <directory>/zookeeper/            see ``zookeeper.py``
    <directory>/broker-<id>/          see ``broker.py``
    <directory>/console/              see ``console.py``; only where there was one
    <directory>/tls/                  see ``secured.py``; these two are there only in a secured one
    <directory>/admin.password

Ports are chosen once and kept, so that a broker that restarts is found where it was. The state
file is replaced whole after every change; processes in it are known by pid *and* start mark, so a
stale file is harmless. Calls block.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oncelog_cli.local import secured
from oncelog_cli.local.broker import READY_DEADLINE_S, STOP_DEADLINE_S, LocalBroker
from oncelog_cli.local.console import LocalConsole
from oncelog_cli.local.process import (
    LocalClusterError,
    ManagedProcess,
    ProcessIdentity,
    free_port,
    port_is_free,
)
from oncelog_cli.local.toml_writer import Value
from oncelog_cli.local.zookeeper import ZooKeeperServer, check_external

STATE_VERSION = 1
BROKERS_DEFAULT = 3
Progress = Callable[[str], None]


def _silent(message: str) -> None:
    """Do nothing with progress that nobody looks at."""


class LocalCluster:
    """All processes of this cluster are on this machine.

    :param directory: everything is under it; made when missing.
    :param brokers: how many; ids count from 1.
    :param zookeeper: ``host:port[,...][/chroot]`` of one that runs already; None starts one.
    :param base_port: brokers listen for clients on this port and the following; 0 takes free ones.
    :param settings: over the defaults in every broker's file.
    :param metrics: whether every broker has a port with metrics and probes, a free one of this
        machine's loopback, which it keeps.
    :param secure: whether every listener speaks TLS, and serves only whom it knows.
    :param kafka: whether every broker has a listener for clients of Kafka, on a free port that it
        keeps.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = BROKERS_DEFAULT,
        zookeeper: str | None = None,
        base_port: int = 0,
        settings: Mapping[str, Value] | None = None,
        metrics: bool = False,
        secure: bool = False,
        kafka: bool = False,
    ) -> None:
        self.directory = directory.absolute()
        self.external_zookeeper = zookeeper
        self.zookeeper = (
            None if zookeeper is not None else ZooKeeperServer(self.directory / "zookeeper")
        )
        self.settings: dict[str, Value] = dict(settings or {})
        self.metrics = metrics
        self.secure = secure
        self.kafka = kafka
        self.brokers: dict[int, LocalBroker] = {}
        self.console = LocalConsole(self.directory / "console")
        """It has a port if there was ever one."""
        self._seen = ""
        """The state file as this object last read or wrote it."""
        for broker_id in range(1, brokers + 1):
            self._add(broker_id, base_port + broker_id - 1 if base_port else 0)

    def _add(self, broker_id: int, port: int) -> None:
        self.brokers[broker_id] = LocalBroker(
            broker_id, self.directory / f"broker-{broker_id}", port=port, internal_port=0
        )

    # ------------------------------------------------------------------ state file

    @property
    def state_path(self) -> Path:
        """Return the path of the state file."""
        return self.directory / "cluster.json"

    @classmethod
    def load(cls, directory: Path) -> LocalCluster:
        """Return the cluster whose state file lies in ``directory``.

        :raises LocalClusterError: there is none, or it cannot be understood.
        """
        path = directory / "cluster.json"
        try:
            text = path.read_text(encoding="utf-8")
            state = json.loads(text)
        except FileNotFoundError:
            raise LocalClusterError(
                f"no local cluster in {directory}. Remedy: start one with 'oncelog up', or name "
                "its directory with --dir"
            ) from None
        except (OSError, ValueError) as error:
            raise LocalClusterError(f"{path} cannot be read: {error}") from error
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            raise LocalClusterError(
                f"{path} was not written by this release. Remedy: stop the cluster with the "
                "release that started it, or remove the directory"
            )
        cluster = cls(
            directory,
            brokers=0,
            zookeeper=state["external_zookeeper"],
            secure=state.get("secure", False),
        )
        cluster.settings = dict(state["settings"])
        cluster._take_processes(state, text)
        return cluster

    def expose_metrics(self, wanted: bool) -> None:
        """Say whether brokers have a port for metrics and probes from their next start on."""
        self.metrics = wanted

    def serve_kafka(self) -> None:
        """Have brokers listen for clients of Kafka from their next start on.

        :raises LocalClusterError: one runs that does not.
        """
        for broker in self.brokers.values():
            if broker.is_alive() and not broker.kafka_port:
                raise LocalClusterError(
                    f"broker {broker.broker_id} runs without a listener for clients of Kafka."
                    " Remedy: 'oncelog down', then 'oncelog up --kafka'"
                )
        self.kafka = True

    def _take_processes(self, state: Mapping[str, Any], text: str) -> None:
        self._seen = text
        if self.zookeeper is not None and state["zookeeper"] is not None:
            process = _process(state["zookeeper"], self.zookeeper.log_path)
            self.zookeeper.adopt(state["zookeeper"]["port"], process)
        for entry in state["brokers"]:
            if entry["id"] not in self.brokers:
                self._add(entry["id"], entry["port"])
            broker = self.brokers[entry["id"]]
            ports = (entry.get("metrics_port", 0), entry.get("kafka_port", 0))
            broker.place(entry["port"], entry["internal_port"], *ports)
            self.metrics = self.metrics or broker.metrics_port > 0
            self.kafka = self.kafka or broker.kafka_port > 0
            broker.adopt(_process(entry, broker.log_path))
        known = state.get("console")
        if known is not None:
            self.console.adopt(known["port"], _process(known, self.console.log_path))

    def _catch_up(self) -> None:
        """Take in the state file again, before changing the cluster; call this locked.

        Another command may have started or stopped processes since the file was read, as while a
        question waited for its answer: what it wrote is what runs.
        """
        try:
            text = self.state_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        if text != self._seen:
            self._take_processes(json.loads(text), text)

    def save(self) -> None:
        """Replace the state file."""
        zookeeper: dict[str, Any] | None = None
        if self.zookeeper is not None:
            zookeeper = {"port": self.zookeeper.port, **_identity(self.zookeeper.process)}
        console = {"port": self.console.port, **_identity(self.console.process)}
        state = {
            "version": STATE_VERSION,
            "bootstrap": self.bootstrap,
            "secure": self.secure,
            "external_zookeeper": self.external_zookeeper,
            "zookeeper": zookeeper,
            "settings": self.settings,
            "brokers": [
                {
                    "id": broker.broker_id,
                    "port": broker.port,
                    "internal_port": broker.internal_port,
                    "metrics_port": broker.metrics_port,
                    "kafka_port": broker.kafka_port,
                    **_identity(broker.process),
                }
                for broker in self.brokers.values()
            ],
            "console": console if self.console.port else None,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(state, indent=2) + "\n"
        temporary = self.state_path.with_suffix(".json.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.state_path)
        self._seen = text

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other commands from changing the cluster meanwhile.

        :raises LocalClusterError: another command is at it.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "cluster.lock").open("w", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LocalClusterError(
                    f"another command is starting or stopping the cluster in {self.directory}"
                ) from None
            yield

    # ------------------------------------------------------------------ addresses and state

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers for clients, comma separated."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def kafka_bootstrap(self) -> str | None:
        """Return the addresses of all brokers for clients of Kafka, comma separated; None if there
        are none."""
        found = [broker.kafka_address for broker in self.brokers.values()]
        return ",".join(address for address in found if address is not None) or None

    @property
    def tls_directory(self) -> Path:
        """Return where the CA and the certificates of a secured cluster are."""
        return secured.tls_directory(self.directory)

    @property
    def zookeeper_connect(self) -> str:
        """Return the address of ZooKeeper that brokers are given."""
        if self.zookeeper is not None:
            chroot = secured.ZOOKEEPER_CHROOT if self.secure else ""
            return f"{self.zookeeper.address}{chroot}"
        return self.external_zookeeper or ""

    def is_running(self) -> bool:
        """Return whether any process of the cluster lives."""
        own = [] if self.zookeeper is None else [self.zookeeper]
        every = (*own, *self.brokers.values(), self.console)
        return any(process.is_alive() for process in every)

    def status(self) -> dict[str, Any]:
        """Return what runs where, as plain values."""
        rows: list[dict[str, Any]] = []
        if self.zookeeper is not None:
            process = self.zookeeper.process if self.zookeeper.is_alive() else None
            rows.append(
                {
                    "name": "zookeeper",
                    "state": "stopped" if process is None else "running",
                    "pid": None if process is None else process.pid,
                    "address": self.zookeeper.address,
                    "http": None,
                    "log": str(self.zookeeper.log_path),
                    "data": str(self.zookeeper.directory / "data"),
                }
            )
        for broker in self.brokers.values():
            state = broker.state
            rows.append(
                {
                    "name": f"broker-{broker.broker_id}",
                    "state": state,
                    "pid": None if state == "stopped" else broker.pid,
                    "address": broker.address,
                    "http": None if state == "stopped" else broker.http_address,
                    "log": str(broker.log_path),
                    "data": str(broker.data_path),
                }
            )
        if self.console.port:
            state = self.console.state
            rows.append(
                {
                    "name": "console",
                    "state": state,
                    "pid": None if state == "stopped" else self.console.pid,
                    "address": self.console.address,
                    "http": None if state == "stopped" else self.console.address,
                    "log": str(self.console.log_path),
                    "data": None,
                }
            )
        return {
            "directory": str(self.directory),
            "bootstrap": self.bootstrap,
            "kafka_bootstrap": self.kafka_bootstrap,
            "zookeeper": self.zookeeper_connect,
            "secure": self.secure,
            "processes": rows,
        }

    # ------------------------------------------------------------------ life

    def start(self, *, deadline_s: float = READY_DEADLINE_S, progress: Progress = _silent) -> None:
        """Start ZooKeeper and every broker that does not run, and wait until all serve.

        :raises LocalClusterError: with the log of what failed. What this call started is ended
            again. A first start that fails leaves nothing behind; otherwise data and logs stay.
        """
        found = self._existing()
        with self.lock():
            self._catch_up()
            begun: list[Callable[[], object]] = []
            try:
                self._make_secrets(progress)
                self._start_zookeeper(begun, progress)
                self._write_configs()
                self._make_admin(progress)
                self._launch_brokers(begun, progress)
                deadline = time.monotonic() + deadline_s
                for broker in self.brokers.values():
                    broker.wait_ready(max(deadline - time.monotonic(), 0.1))
                    progress(f"broker {broker.broker_id} serves at {broker.address}")
            except BaseException:
                for undo in reversed(begun):
                    undo()
                if self.state_path in found:
                    self.save()
                else:
                    self._remove(found)
                raise

    def _existing(self) -> set[Path]:
        """Return the paths of this cluster that exist, its directory included."""
        return {path for path in (self.directory, *self._owned()) if path.exists()}

    def _owned(self) -> list[Path]:
        """Return the paths of everything that a cluster keeps in its directory."""
        brokers = (broker.directory for broker in self.brokers.values())
        files = (self.directory / "cluster.json", self.directory / "cluster.lock")
        secrets = secured.owned(self.directory)
        return [self.directory / "zookeeper", self.console.directory, *secrets, *brokers, *files]

    def _remove(self, but: Collection[Path] = ()) -> None:
        """Remove what belongs to the cluster, and the directory when nothing is left in it."""
        for path in self._owned():
            if path in but:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self.directory not in but:
            try:
                self.directory.rmdir()
            except OSError:
                pass  # somebody keeps other files there: not ours to remove

    def _make_secrets(self, progress: Progress) -> None:
        made = secured.make_missing(self.directory, self.brokers) if self.secure else []
        if made:
            progress(f"made certificates in {self.tls_directory}: {', '.join(made)}")
        if self.secure and self.zookeeper is not None:
            secured.make_zookeeper_password(self.directory)

    def _start_zookeeper(self, begun: list[Callable[[], object]], progress: Progress) -> None:
        if self.zookeeper is None:
            check_external(self.external_zookeeper or "")
            return
        if self.zookeeper.is_alive():
            return
        progress("starting ZooKeeper")
        self.zookeeper.start(report=progress)
        begun.append(self.zookeeper.kill)
        self.save()
        progress(f"ZooKeeper serves at {self.zookeeper.address}")

    def _write_configs(self) -> None:
        """Write the settings of every broker that is about to start."""
        for broker in self.brokers.values():
            if broker.is_alive():
                continue
            self._choose_ports(broker)
            connect, settings = self.zookeeper_connect, self._broker_settings()
            if self.secure:
                internal, external = secured.listener_settings(self.directory, broker.broker_id)
                broker.write_config(connect, settings, internal=internal, external=external)
            else:
                broker.write_config(connect, settings)

    def _make_admin(self, progress: Progress) -> None:
        """Make the user of a secured cluster that may do everything, if it is not there."""
        broker = next(iter(self.brokers.values()))
        if self.secure and secured.make_admin(self.directory, broker.add_user):
            progress(f"made the user {secured.ADMIN}")

    def _launch_brokers(self, begun: list[Callable[[], object]], progress: Progress) -> None:
        for broker in self.brokers.values():
            if broker.is_alive():
                continue
            progress(f"starting broker {broker.broker_id}")
            broker.launch()
            begun.append(broker.kill)
        self.save()

    def _broker_settings(self) -> dict[str, Value]:
        replicas = max(1, min(3, len(self.brokers)))
        return {
            "default_replication_factor": replicas,
            "offsets_topic_replication_factor": replicas,
            "transaction_state_log_replication_factor": replicas,
            **self._security_settings(),
            **self.settings,
        }

    def _security_settings(self) -> dict[str, Value]:
        if not self.secure:
            return {}
        # Somebody else's ZooKeeper is reached as its owner says, by settings of his.
        own = {} if self.zookeeper is None else secured.zookeeper_settings(self.directory)
        return {**secured.security_settings(), **own}

    def _choose_ports(self, broker: LocalBroker) -> None:
        every = self.brokers.values()
        taken = {port for b in every for port in b.ports}
        if broker.port and not port_is_free(broker.port):
            raise LocalClusterError(
                f"port {broker.port} for broker {broker.broker_id} is in use. Remedy: another "
                "--port, or none for free ones"
            )
        port = broker.port or _free_port_not_in(taken)
        taken.add(port)
        internal = _kept_or_free(broker.internal_port, taken)
        metrics = _kept_or_free(broker.metrics_port, taken) if self.metrics else 0
        kafka = _kept_or_free(broker.kafka_port, taken) if self.kafka else 0
        broker.place(port, internal, metrics, kafka)

    def start_console(
        self, profile: str | None, *, open_browser: bool = False, progress: Progress = _silent
    ) -> bool:
        """Start the console of a cluster that serves, and wait until it answers.

        :param profile: the admin's, for a secured cluster.
        :param open_browser: the console opens a browser.
        :returns: False if it runs already.
        :raises LocalClusterError: with its log. Its process is ended again; brokers go on.
        """
        with self.lock():
            self._catch_up()
            if self.console.is_alive():
                return False
            self.console.launch(self.bootstrap, profile, open_browser=open_browser)
            self.save()
            try:
                self.console.wait_ready()
            except BaseException:
                self.console.kill()
                raise
        progress(f"the console is at {self.console.url}")
        return True

    def stop(self, *, deadline_s: float = STOP_DEADLINE_S, progress: Progress = _silent) -> bool:
        """Stop the console, all brokers, then ZooKeeper; what does not end in time is killed.

        :returns: whether everything ended by itself.
        """
        with self.lock():
            self._catch_up()
            if self.console.is_alive():
                self.console.stop()
                progress("the console stopped")
            clean = self._stop_brokers(deadline_s, progress)
            if self.zookeeper is not None and self.zookeeper.process is not None:
                progress("stopping ZooKeeper")
                self.zookeeper.stop()
            self.save()
        return clean

    def _stop_brokers(self, deadline_s: float, progress: Progress) -> bool:
        running = [b for b in self.brokers.values() if b.state != "stopped"]
        for broker in running:
            assert broker.process is not None
            broker.process.terminate()
        deadline = time.monotonic() + deadline_s
        clean = True
        for broker in running:
            assert broker.process is not None
            if not broker.process.wait(max(deadline - time.monotonic(), 0.1)):
                progress(f"broker {broker.broker_id} did not stop in time: killing it")
                broker.kill()
                clean = False
            broker.ready_path.unlink(missing_ok=True)
            progress(f"broker {broker.broker_id} stopped")
        return clean

    def delete(self) -> None:
        """Remove data, logs and state.

        :raises LocalClusterError: something of it still runs.
        """
        if self.is_running():
            raise LocalClusterError(f"the cluster in {self.directory} still runs")
        self._remove()

    # ------------------------------------------------------------------ one broker

    def broker(self, broker_id: int) -> LocalBroker:
        """Return one broker by id.

        :raises LocalClusterError: there is none.
        """
        try:
            return self.brokers[broker_id]
        except KeyError:
            known = ", ".join(str(i) for i in self.brokers)
            raise LocalClusterError(f"no broker {broker_id} here, only {known}") from None

    def start_broker(self, broker_id: int, deadline_s: float = READY_DEADLINE_S) -> None:
        """Start one broker again, with its ports and data, and wait until it serves."""
        broker = self.broker(broker_id)
        broker.launch()
        self.save()
        broker.wait_ready(deadline_s)

    def grow(self, brokers: int) -> None:
        """Have ``brokers`` of them from the next start on.

        :raises LocalClusterError: fewer than there are.
        """
        if brokers < len(self.brokers):
            raise LocalClusterError(
                f"the cluster in {self.directory} has {len(self.brokers)} brokers and cannot "
                "shrink. Remedy: 'oncelog down --delete' first, or another --dir"
            )
        for broker_id in range(len(self.brokers) + 1, brokers + 1):
            self._add(broker_id, 0)


def _kept_or_free(port: int, taken: set[int]) -> int:
    """Return a broker's port if it has one that is free; else a free one, which is taken then."""
    if port and port_is_free(port):
        return port
    found = _free_port_not_in(taken)
    taken.add(found)
    return found


def _free_port_not_in(taken: set[int]) -> int:
    while True:
        port = free_port()
        if port not in taken:
            return port


def _identity(process: ManagedProcess | None) -> dict[str, Any]:
    if process is None:
        return {"pid": None, "started": None}
    return {"pid": process.identity.pid, "started": process.identity.started}


def _process(entry: Mapping[str, Any], log_path: Path) -> ManagedProcess | None:
    if entry["pid"] is None:
        return None
    return ManagedProcess(ProcessIdentity(entry["pid"], entry["started"]), log_path)
