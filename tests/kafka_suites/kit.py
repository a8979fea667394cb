"""A suite is given this: three brokers with a listener for clients of Kafka, and a scratch folder.

Programs of others are run here with a deadline, their output kept in a file beside the cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka_suites.fetch import Report
from kafka_suites.verdict import SuiteResult
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.toml_writer import Value

BROKERS = 3
SETTINGS: Mapping[str, Value] = {
    "authorizer": "acl",
    "super_users": ["User:ANONYMOUS"],
    "auto_create_topics_enable": True,
    "num_partitions": 4,
    "group_initial_rebalance_delay_ms": 300,
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
}
"""Whoever asks may do everything, and ACLs can be made. Topics make themselves, as in Kafka; two
suites count on four partitions of them. Groups come together sooner than by default, as many of
them are made."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program of others came to its end."""

    code: int | None
    """Its exit code; None when it was ended for its deadline."""
    output: str
    """All that it printed, on both channels."""

    @property
    def tail(self) -> str:
        """Return the end of what it printed, on one line."""
        late = "" if self.code is not None else "it did not end in time: "
        return late + " ".join(self.output.split())[-600:]


class Running:
    """It is a program of others, and runs until it is told to stop."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def so_far(self) -> Ended:
        """Return what it has printed; the code is None as long as it runs."""
        printed = self._log.read_text(encoding="utf-8", errors="replace")
        return Ended(self._process.poll(), printed)

    def stop(self, seconds: float) -> Ended:
        """Tell it to stop, as a service is told; one that does not is killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return Ended(None, self.so_far.output)
        return self.so_far

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


class Kit:
    """It holds all that a suite works with.

    :param bootstrap: where clients of Kafka find the brokers, comma separated.
    :param oncelog: where ours find them.
    :param folder: a directory of the suite's own.
    :param cluster: the brokers themselves, for a suite that harms them.
    """

    def __init__(
        self, bootstrap: str, oncelog: str, folder: Path, report: Report, cluster: LocalCluster
    ) -> None:
        self.bootstrap = bootstrap
        self.oncelog = oncelog
        self.cluster = cluster
        self.folder = folder
        self.report = report

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        seconds: float,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        text: str = "",
    ) -> Ended:
        """Run a program to its end; what it prints is kept in ``name``.log.

        :param environment: over this program's own.
        :param text: what it reads.
        """
        log = self.folder / f"{name}.log"
        with log.open("w+", encoding="utf-8", errors="replace") as file:
            try:
                done = subprocess.run(
                    list(map(str, command)),
                    cwd=cwd or self.folder,
                    env={**os.environ, **(environment or {})},
                    input=text.encode(),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    check=False,
                )
                code: int | None = done.returncode
            except subprocess.TimeoutExpired:
                code = None
        return Ended(code, log.read_text(encoding="utf-8", errors="replace"))

    @contextmanager
    def running(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Iterator[Running]:
        """Start a program beside what is done here; it is killed if it still runs at the end.

        :param environment: over this program's own.
        """
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=cwd or self.folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            started = Running(process, log)
            try:
                yield started
            finally:
                started.kill()


@dataclass(frozen=True, slots=True)
class Suite:
    """This is one suite of others."""

    run: Callable[[Kit], SuiteResult]
    nightly: bool = False
    """Whether it takes so long that it runs only when it is asked for."""
    kills: bool = False
    """Whether brokers are killed meanwhile."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    """Its brokers have these, over ``SETTINGS``."""


@contextmanager
def brokers(directory: Path, settings: Mapping[str, Value]) -> Iterator[LocalCluster]:
    """Start three brokers with a listener for clients of Kafka; they are stopped at the end.

    :param settings: over ``SETTINGS``.
    """
    every = {**SETTINGS, **settings}
    cluster = LocalCluster(directory, brokers=BROKERS, settings=every, kafka=True)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
