"""franz-go's integration tests are run: chains of groups and of transactions.

Each must see each record exactly once."""

from __future__ import annotations

import re
from pathlib import Path

from kafka_suites.fetch import go_tests
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import SuiteResult

MODULE = "github.com/twmb/franz-go"
VERSION = "v1.22.2"
SUM = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
TESTS = "^Test(GroupETL|TxnEtl)$"
RECORDS = 20_000
DEADLINE_S = 300.0
VERDICT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    program = go_tests(MODULE, VERSION, SUM, "./pkg/kgo", kit.report)
    command: list[str | Path] = [
        program,
        "-test.v",
        "-test.run",
        TESTS,
        f"-test.timeout={DEADLINE_S:.0f}s",
    ]
    environment = {
        "KGO_SEEDS": kit.bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    return result_of(kit.run("kgo", command, DEADLINE_S + 30, environment=environment))


def result_of(ended: Ended) -> SuiteResult:
    """Return what ``go test -v`` printed; of a test that has parts, the parts are counted."""
    told = {name: word for word, name in VERDICT.findall(ended.output)}
    parts = {name: word for name, word in told.items() if "/" in name}
    result = SuiteResult()
    for name, word in told.items():
        mine = [each for part, each in parts.items() if part.startswith(f"{name}/")]
        if name not in parts and mine and (word != "FAIL" or "FAIL" in mine):
            continue
        if word == "PASS":
            result.passed.append(name)
        elif word == "SKIP":
            result.skipped[name] = ""
        else:
            result.failed[name] = ended.tail
    if ended.code != 0 and not result.failed:
        result.failed["the whole program"] = ended.tail
    return result
