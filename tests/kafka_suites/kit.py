"""A suite is given this: three brokers with a listener for clients of Kafka, and a scratch folder.

Programs of others are run here with a deadline, their output kept in a file beside the cluster.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


class Kit:
    """It holds all that a suite works with.

    :param bootstrap: where clients of Kafka find the brokers, comma separated.
    :param folder: a directory of the suite's own.
    """

    def __init__(self, bootstrap: str, folder: Path, report: Report) -> None:
        self.bootstrap = bootstrap
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


@dataclass(frozen=True, slots=True)
class Suite:
    """This is one suite of others."""

    run: Callable[[Kit], SuiteResult]
    nightly: bool = False
    """Whether it takes so long that it runs only when it is asked for."""


@contextmanager
def brokers(directory: Path) -> Iterator[LocalCluster]:
    """Start three brokers with a listener for clients of Kafka; they are stopped at the end."""
    cluster = LocalCluster(directory, brokers=BROKERS, settings=SETTINGS, kafka=True)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
