"""Kafka Connect runs stand-alone: what a file gets comes out of a topic into another file.

``docs/kafka.md`` shows the files of settings that are written here.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from kafka_suites.fetch import kafka_jars
from kafka_suites.kafka_tools import JVM
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import SuiteResult
from oncelog_cli.local.process import free_port

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
LINES = 1_000
DEADLINE_S = 120.0
POLL_S = 0.2


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    class_path = kafka_jars(kit.report)
    files = written(kit.folder, kit.bootstrap)
    command = ["java", *JVM, LOGGING, "-cp", class_path, MAIN, *map(str, files)]
    source, sink = kit.folder / "in.txt", kit.folder / "out.txt"
    result, wanted, failed = SuiteResult(), "", False
    log = kit.folder / "connect.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            command,
            cwd=kit.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            for test in ("a_file_is_copied", "lines_that_are_added_are_copied"):
                more = "".join(f"{test} {number}\n" for number in range(LINES))
                with source.open("a", encoding="utf-8") as file:
                    file.write(more)
                wanted += more
                failed = failed or not came(sink, wanted, worker)
                if failed:
                    result.failed[test] = Ended(worker.poll(), log.read_text()).tail
                else:
                    result.passed.append(test)
        finally:
            worker.terminate()
            worker.wait()
    return result


def written(folder: Path, bootstrap: str) -> list[Path]:
    """Write the settings of the worker, of its source and of its sink; return their files."""
    settings = {
        "worker": {
            "bootstrap.servers": bootstrap,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://127.0.0.1:{free_port()}",
        },
        "source": {
            "name": "lines-in",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(folder / "in.txt"),
            "topic": "lines",
        },
        "sink": {
            "name": "lines-out",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(folder / "out.txt"),
            "topics": "lines",
        },
    }
    files = []
    for name, values in settings.items():
        files.append(folder / f"{name}.properties")
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        files[-1].write_text(text, encoding="utf-8")
    return files


def came(file: Path, wanted: str, worker: subprocess.Popen[bytes]) -> bool:
    """Wait until a file holds the lines, in whatever order partitions were read."""
    deadline = time.monotonic() + DEADLINE_S
    lines = sorted(wanted.splitlines())
    while time.monotonic() < deadline and worker.poll() is None:
        if file.exists() and sorted(file.read_text(encoding="utf-8").splitlines()) == lines:
            return True
        time.sleep(POLL_S)
    return False
