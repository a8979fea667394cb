"""Reports of kafka-python's tests are read."""

from __future__ import annotations

from pathlib import Path

from kafka_suites.kafka_python import result_of
from kafka_suites.kit import Ended

REPORT = """<testsuites><testsuite>
<testcase classname="test.integration.test_a" name="test_fine[gzip]"/>
<testcase classname="test.integration.test_a" name="test_bad"><failure message="no API"/></testcase>
<testcase classname="test.integration.test_b" name="test_set"><error message="none"/></testcase>
<testcase classname="test.integration.b" name="test_old"><skipped message="needs 4.1"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    result = result_of(Ended(1, ""), tmp_path / "report.xml")
    assert result.passed == ["test_fine[gzip]"]
    assert result.failed == {"test_bad": "no API", "test_set": "none"}
    assert result.skipped == {"test_old": "needs 4.1"}


def test_no_report_is_a_failure(tmp_path: Path) -> None:
    result = result_of(Ended(None, "hung  here"), tmp_path / "report.xml")
    assert result.failed == {"the whole program": "it did not end in time: hung here"}
