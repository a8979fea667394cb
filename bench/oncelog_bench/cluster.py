"""A local cluster for benchmarks, driven from outside through the ``oncelog`` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class LocalCluster:
    """``oncelog up`` in a directory of its own; ends only what it started."""

    def __init__(self, directory: Path, *, brokers: int = 3, configs: dict[str, str] | None = None):
        self.directory = directory
        self.bootstrap = ""
        self.broker_ids = list(range(1, brokers + 1))
        self._configs = configs or {}

    def __enter__(self) -> LocalCluster:
        extra = [
            part for key, value in self._configs.items() for part in ("--set", f"{key}={value}")
        ]
        self._run("up", "--brokers", str(len(self.broker_ids)), *extra)
        status = self.status()
        self.broker_ids = [broker["broker_id"] for broker in status["brokers"]]
        self.bootstrap = status["bootstrap"]
        return self

    def __exit__(self, *exc: object) -> None:
        self._run("down")

    def status(self) -> dict[str, Any]:
        """What ``oncelog status --json`` says."""
        loaded: dict[str, Any] = json.loads(self._run("status"))
        return loaded

    def pid(self, broker_id: int) -> int:
        """Process id of a running broker."""
        for broker in self.status()["brokers"]:
            if broker["broker_id"] == broker_id:
                return int(broker["pid"])
        raise LookupError(f"no broker {broker_id}")

    def pids(self) -> list[int]:
        """Process ids of all brokers."""
        return [int(broker["pid"]) for broker in self.status()["brokers"]]

    def remember_pids(self) -> dict[int, int]:
        """Broker id to process id, read before the clock starts."""
        return {b["broker_id"]: int(b["pid"]) for b in self.status()["brokers"]}

    def kill(self, pid: int) -> None:
        """SIGKILL one broker process of this cluster."""
        os.kill(pid, signal.SIGKILL)

    def restart(self, broker_id: int) -> None:
        """Start a killed broker again and wait until it is ready."""
        self._run("up", "--broker", str(broker_id))

    def _run(self, verb: str, *arguments: str) -> str:
        command = [sys.executable, "-m", "oncelog_cli.main", verb, "--dir", str(self.directory)]
        done = subprocess.run(
            [*command, "--json", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 10):
            raise RuntimeError(f"oncelog {verb} failed ({done.returncode}): {done.stderr.strip()}")
        return done.stdout
