"""What ``go test -v`` prints is read."""

from __future__ import annotations

from kafka_suites.franz_go import result_of
from kafka_suites.kit import Ended

PRINTED = """=== RUN   TestGroupETL
    helpers_test.go:855: --- nothing
--- {whole}: TestGroupETL (16.39s)
    --- SKIP: TestGroupETL/range/848 (0.00s)
    --- PASS: TestGroupETL/range (15.32s)
    --- {part}: TestGroupETL/sticky (15.32s)
{whole}
"""


def test_only_the_parts_of_a_test_are_counted() -> None:
    result = result_of(Ended(0, PRINTED.format(whole="PASS", part="PASS")))
    assert result.passed == ["TestGroupETL/range", "TestGroupETL/sticky"]
    assert (result.failed, result.skipped) == ({}, {"TestGroupETL/range/848": ""})


def test_a_part_that_fails_is_the_failure() -> None:
    result = result_of(Ended(1, PRINTED.format(whole="FAIL", part="FAIL")))
    assert list(result.failed) == ["TestGroupETL/sticky"]


def test_a_test_that_fails_outside_of_its_parts_is_one() -> None:
    result = result_of(Ended(1, PRINTED.format(whole="FAIL", part="PASS")))
    assert list(result.failed) == ["TestGroupETL"]


def test_a_program_that_says_nothing_has_failed() -> None:
    for code in (2, None):
        assert list(result_of(Ended(code, "panic: oh")).failed) == ["the whole program"]
