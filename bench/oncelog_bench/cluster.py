"""Benchmarks drive a local cluster from outside, through the ``oncelog`` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class BenchCluster:
    """A local cluster is ``oncelog up`` in a directory of its own; it ends only what it started.

    :param configs: settings of every broker, as ``--set`` takes them.
    :param secure: whether it is ``oncelog up --secure``; its profile lies beside the directory.
    :param kafka: whether it is ``oncelog up --kafka``.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        configs: dict[str, str] | None = None,
        secure: bool = False,
        kafka: bool = False,
    ):
        self.directory = directory
        self.bootstrap = ""
        self.kafka_bootstrap = ""
        """Where clients of Kafka find the brokers, if they may."""
        self.broker_ids = list(range(1, brokers + 1))
        self._configs = configs or {}
        self._options = [*(["--secure"] if secure else []), *(["--kafka"] if kafka else [])]

    def __enter__(self) -> BenchCluster:
        settings = [
            part for key, value in self._configs.items() for part in ("--set", f"{key}={value}")
        ]
        status = self._up("--brokers", str(len(self.broker_ids)), *self._options, *settings)
        self.bootstrap = str(status["bootstrap"])
        self.kafka_bootstrap = str(status["kafka_bootstrap"] or "")
        return self

    def __exit__(self, *exc: object) -> None:
        self._run("down")

    def pids(self) -> dict[int, int]:
        """Return the process ids of the brokers that run, by broker id."""
        return {
            int(process["name"].removeprefix("broker-")): int(process["pid"])
            for process in self._run("status")["processes"]
            if process["name"].startswith("broker-") and process["pid"] is not None
        }

    def all_pids(self) -> list[int]:
        """Return the process ids of all that runs of the cluster: the brokers and ZooKeeper."""
        running = (process["pid"] for process in self._run("status")["processes"])
        return [int(pid) for pid in running if pid is not None]

    def kill(self, pid: int) -> None:
        """Kill one broker process of this cluster by SIGKILL."""
        os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        """Start what does not run, and wait until it serves. Blocks."""
        self._up()

    def _up(self, *arguments: str) -> dict[str, Any]:
        # A scraper's port costs an idle broker a third of its CPU, and is not what is measured.
        return self._run("up", "--no-metrics", *arguments)

    def command(self, *arguments: str) -> None:
        """Run ``oncelog`` with arguments on this cluster.

        :raises RuntimeError: it failed; the text says why.
        """
        self._json(*arguments, "--bootstrap", self.bootstrap)

    def _run(self, verb: str, *arguments: str) -> dict[str, Any]:
        return self._json(verb, "--dir", str(self.directory), *arguments)

    def _json(self, *arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "oncelog_cli.main", *arguments, "--json"]
        # Profiles of clusters that are measured are none of the user's.
        profiles = self.directory.with_name(f"{self.directory.name}-profiles")
        environment = {**os.environ, "XDG_CONFIG_HOME": str(profiles)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            what = " ".join(arguments[:2])
            raise RuntimeError(f"oncelog {what} failed ({done.returncode}): {done.stderr.strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def make_certificates(place: Path) -> Path:
    """Make a CA, a certificate ``broker`` of this machine's loopback and one of a client ``app``.

    Return ``place``, the directory that has them.
    """
    make = ["tls", "make", "--dir", str(place), "--broker", "broker=127.0.0.1", "--client", "app"]
    command = [sys.executable, "-m", "oncelog_cli.main", *make]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return place
