"""kafka-python's integration tests are run from its source distribution.

The distribution lacks two modules of its tests, and wants a folder where Kafka's scripts would be:
stand-ins for them are laid beside a copy of it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

from kafka_suites.fetch import sdist
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import SuiteResult

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
KAFKA = "4.0.0"
"""Its tests take the brokers for this release of Kafka."""
MODULES = ("consumer", "producer", "admin")
TEST_S = 60
DEADLINE_S = 420.0
SERVICE = '''"""Brokers that run elsewhere: nothing is to be started or ended."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = open


class SpawnedService:
    pass
'''


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    place = kit.folder / "kafka-python"
    shutil.copytree(sdist("kafka_python", VERSION, SHA256, kit.report), place)
    (place / "test/__init__.py").touch()
    (place / "test/service.py").write_text(SERVICE, encoding="utf-8")
    (place / "servers" / KAFKA / "kafka-bin").mkdir(parents=True)
    report = kit.folder / "report.xml"
    modules = [f"test/integration/test_{name}_integration.py" for name in MODULES]
    options = ["-q", "-p", "no:cacheprovider", "--tb=line", "--show-capture=no"]
    options += [f"--junitxml={report}", f"--timeout={TEST_S}", "--timeout-method=signal"]
    first = kit.bootstrap.partition(",")[0]
    environment = {"KAFKA_URI": f"kafka://{first}", "KAFKA_VERSION": KAFKA, "PYTHONPATH": ""}
    command = [sys.executable, "-m", "pytest", *options, *modules]
    return result_of(
        kit.run("pytest", command, DEADLINE_S, environment=environment, cwd=place), report
    )


def result_of(ended: Ended, report: Path) -> SuiteResult:
    """Return what a report in JUnit's form tells."""
    result = SuiteResult()
    if not report.exists():
        result.failed["the whole program"] = ended.tail
        return result
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        skipped = case.find("skipped")
        trouble = [each for each in case if each.tag in ("failure", "error")]
        if skipped is not None:
            result.skipped[name] = skipped.get("message", "")
        elif trouble:
            result.failed[name] = trouble[0].get("message", "")[:600]
        else:
            result.passed.append(name)
    return result
