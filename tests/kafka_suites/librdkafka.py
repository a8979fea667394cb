"""librdkafka's own tests are built from the crate that carries its source, and run one by one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kafka_suites.fetch import BUILD_S, crate, need, run
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import SuiteResult

CRATE = "rdkafka-sys"
VERSION = "4.10.0+2.12.1"
SHA256 = "e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77"
WITHOUT = ("--disable-ssl", "--disable-gssapi", "--disable-curl", "--disable-zstd")
DEADLINE_S = 180.0
GATE = "0001 0005 0008 0012 0017 0030 0033 0045 0085 0090"
"""Two producers, order, acks, produce and consume, codecs, commits, subscriptions, headers,
idempotence."""
MORE = (
    "0002 0003 0007 0011 0013 0014 0015 0018 0019 0021 0022 0026 0029 0031 0034 0036 0039 0040 "
    "0041 0042 0044 0048 0049 0050 0051 0056 0061 0063 0064 0065 0067 0069 0070 0073 0074 0082 "
    "0083 0089 0092 0093 0099 0102 0107 0112 0118 0119 0120 0121 0122 0129 0130 0137"
)
ROW = re.compile(r"^\|\s*(\d{4}_\S+)\s*\|\s*(\w+)\s*\|[^|]*\|?(.*)$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def gate(kit: Kit) -> SuiteResult:
    """Run the ten that say most, in their short form.

    :raises NotAvailableError: it cannot be had or built here.
    """
    return _run(kit, GATE, "-Q")


def more(kit: Kit) -> SuiteResult:
    """Run all others that need brokers and none of Kafka's scripts.

    :raises NotAvailableError: it cannot be had or built here.
    """
    return _run(kit, MORE)


def _run(kit: Kit, numbers: str, *options: str) -> SuiteResult:
    tests = built(kit)
    config = kit.folder / "test.conf"
    config.write_text(f"metadata.broker.list={kit.bootstrap}\ntest.topic.random=true\n")
    libraries = os.pathsep.join(str(tests.parent / each) for each in ("src", "src-cpp"))
    environment = {"LD_LIBRARY_PATH": libraries, "TEST_KAFKA_VERSION": "4.1.0"}
    environment["RDKAFKA_TEST_CONF"] = str(config)
    result = SuiteResult()
    for number in numbers.split():
        ended = kit.run(
            number,
            [tests / "test-runner", "-p1", *options],
            DEADLINE_S,
            environment={**environment, "TESTS": number},
            cwd=tests,
        )
        note(result, number, ended)
    return result


def built(kit: Kit) -> Path:
    """Return the directory of the tests, built.

    :raises NotAvailableError: it cannot be had or built here.
    """
    source = crate(CRATE, VERSION, SHA256, kit.report) / "librdkafka"
    tests = source / "tests"
    if not (tests / "test-runner").exists():
        need("gcc", "g++", "make")
        kit.report("building librdkafka and its tests once: it takes some minutes")
        run(["./configure", *WITHOUT], BUILD_S, cwd=source)
        run(["make", "-j2", "libs"], BUILD_S, cwd=source)
        run(["make", "-j2", "-C", "tests", "build"], BUILD_S, cwd=source)
    return tests


def note(result: SuiteResult, number: str, ended: Ended) -> None:
    """Add to a result what the program printed of one test."""
    output = COLOUR.sub("", ended.output)
    told = {word: why.strip() for _, word, why in ROW.findall(output)}
    if ended.code != 0 or "FAILED" in told or not told:
        result.failed[number] = Ended(ended.code, output).tail
    elif "PASSED" in told:
        result.passed.append(number)
    else:
        result.skipped[number] = "; ".join(why for why in told.values() if why)
