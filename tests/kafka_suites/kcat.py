"""Debian's kcat is run: it lists, produces and consumes, also as ``docs/kafka.md`` shows it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kafka_suites.fetch import NotAvailableError, debian
from kafka_suites.guide import difference
from kafka_suites.kafka_tools import has
from kafka_suites.kit import Kit
from kafka_suites.verdict import NotAsExpectedError, SuiteResult

PACKAGES = ("kcat", "librdkafka1", "libyajl2")
DEADLINE_S = 60.0


class Kcat:
    """kcat is run against brokers."""

    def __init__(self, kit: Kit) -> None:
        """:raises NotAvailableError: it cannot be had here, or does not start."""
        self._kit = kit
        self._environment: dict[str, str] = {}
        self._runs = 0
        self._program = self._found()
        version = kit.run("version", [self._program, "-V"], 10.0, environment=self._environment)
        if version.code != 0:
            raise NotAvailableError(f"kcat does not start: {version.tail}")

    def _found(self) -> str | Path:
        installed = shutil.which("kcat")
        if installed is not None:
            return installed
        place = debian(PACKAGES, self._kit.report)
        libraries = {str(file.parent) for file in place.rglob("*.so.*")}
        self._environment["LD_LIBRARY_PATH"] = ":".join(sorted(libraries))
        return place / "usr/bin/kcat"

    def run(self, *arguments: str, text: str = "") -> str:
        """Run it; return what it printed.

        :raises NotAsExpectedError: it ended with an error, or not in time.
        """
        self._runs += 1
        ended = self._kit.run(
            f"{self._runs:02d}",
            [self._program, "-b", self._kit.bootstrap, *arguments],
            DEADLINE_S,
            environment=self._environment,
            text=text,
        )
        if ended.code != 0:
            raise NotAsExpectedError(ended.tail)
        return ended.output

    def play_the_guide(self) -> str:
        """Return what the guide shows otherwise than it is; "" for nothing."""
        folders = f"{Path(self._program).parent}:{os.environ['PATH']}"
        return difference(self._kit, "kcat.py", {**self._environment, "PATH": folders})


def produced_and_consumed(codec: str, kcat: Kcat) -> None:
    """Lines with keys and a header come out as they went in, whatever the codec."""
    topic = f"kcat-{codec}"
    lines = [f"key-{number}:value {number}" for number in range(100)]
    writing = ["-P", "-t", topic, "-p", "0", "-K", ":", "-H", "from=kcat", "-z", codec]
    kcat.run(*writing, text="\n".join(lines) + "\n")
    printed = kcat.run(
        "-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "beginning", "-f", "%k:%s %h\\n"
    )
    if printed.splitlines() != [f"{line} from=kcat" for line in lines]:
        raise NotAsExpectedError(f"came out: {printed[-300:]}")


def listed(kcat: Kcat) -> None:
    """Brokers and topics are listed."""
    kcat.run("-P", "-t", "kcat-listed", text="x\n")
    has(kcat.run("-L"), "3 brokers:", '"kcat-listed" with 4 partitions')


def grouped(kcat: Kcat) -> None:
    """A group of one reads all of a topic."""
    kcat.run("-P", "-t", "kcat-grouped", text="a\nb\nc\n")
    printed = kcat.run(
        "-G", "kcat-group", "-q", "-e", "-X", "auto.offset.reset=earliest", "kcat-grouped"
    )
    if sorted(printed.split()) != ["a", "b", "c"]:
        raise NotAsExpectedError(f"came out: {printed[-300:]}")


def asked_for_a_time(kcat: Kcat) -> None:
    """The offset of a time long ago is the first."""
    kcat.run("-P", "-t", "kcat-times", "-p", "0", text="a\nb\n")
    has(kcat.run("-Q", "-t", "kcat-times:0:1"), "kcat-times [0] offset 0")


def the_guide(kcat: Kcat) -> None:
    """What the guide shows is what happens."""
    if wrong := kcat.play_the_guide():
        raise NotAsExpectedError(wrong)


CODECS: Sequence[str] = ("none", "gzip", "snappy", "lz4", "zstd")


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    kcat, result = Kcat(kit), SuiteResult()
    tests: dict[str, Callable[[Kcat], None]] = {
        test.__name__: test for test in (listed, grouped, asked_for_a_time, the_guide)
    }
    for codec in CODECS:
        tests[f"produced_and_consumed[{codec}]"] = partial(produced_and_consumed, codec)
    for name, test in tests.items():
        result.play(name, test, kcat)
    return result
