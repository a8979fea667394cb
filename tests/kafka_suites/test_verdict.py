"""The verdict over suites of others tells what is known, what is new, what could not be judged."""

from __future__ import annotations

import pytest

from kafka_suites.check import PAGE, SUITES, asked_for
from kafka_suites.verdict import (
    KnownFailuresError,
    NotAsExpectedError,
    SuiteResult,
    in_turn,
    judged,
    known_failures,
)

TABLE = """
| suite | test | reason |
|---|---|---|
| one | `test_a` | there is no API 74 |
| one | `test_b` | later |
| two | `0011`, `0013` | needs a script |

More text.
| one | `test_c` | not in the table |
"""
KNOWN = known_failures(TABLE)


def test_the_table_ends_where_it_ends() -> None:
    assert KNOWN == {
        "one": {"test_a": "there is no API 74", "test_b": "later"},
        "two": {"0011": "needs a script", "0013": "needs a script"},
    }


@pytest.mark.parametrize("line", ["| one | test_a | no ticks |", "| one | `test_a` | |", "| x |"])
def test_a_row_of_another_form_is_named(line: str) -> None:
    with pytest.raises(KnownFailuresError, match="this is no"):
        known_failures(f"{TABLE.rstrip().partition('More')[0].rstrip()}\n{line}\n")


def test_a_page_without_the_table_is_no_page() -> None:
    with pytest.raises(KnownFailuresError, match="no table"):
        known_failures("| suite | test |\n")


def test_the_page_of_the_guide_explains_failures_of_suites_that_exist() -> None:
    assert set(known_failures(PAGE.read_text(encoding="utf-8"))) <= set(SUITES)


def test_a_known_failure_is_told_and_is_no_fault() -> None:
    result = SuiteResult(passed=["test_c"], failed={"test_a": "boom"}, skipped={"test_d": "old"})
    line, remarks = judged({"one": result}, KNOWN)
    assert line == {
        "suites": {
            "one": {"run": 2, "passed": 1, "failed": ["test_a"], "skipped": ["test_d: old"]}
        },
        "ok": True,
    }
    assert remarks == ["one: test_a failed, as is known: there is no API 74"]


def test_a_failure_that_nobody_explains_is_a_fault() -> None:
    line, remarks = judged({"two": SuiteResult(passed=["x"], failed={"test_a": "boom"})}, KNOWN)
    assert line["ok"] is False
    assert remarks == ["two: test_a FAILED: boom"]


def test_an_expected_failure_that_passes_is_told() -> None:
    line, remarks = judged({"two": SuiteResult(passed=["0011", "0012"])}, KNOWN)
    assert line["ok"] is True
    assert remarks == ["two: 0011 passed, although docs/kafka.md says that it fails"]


def test_a_suite_that_cannot_be_had_is_a_fault() -> None:
    line, remarks = judged({"one": SuiteResult(missing="there is no go on the PATH")}, KNOWN)
    assert line["ok"] is False
    assert line["suites"]["one"]["skipped"] == ["all of it: there is no go on the PATH"]
    assert remarks == ["one: not run: there is no go on the PATH"]


def test_a_suite_in_which_nothing_ran_has_judged_nothing() -> None:
    line, remarks = judged({"one": SuiteResult(skipped={"test_c": ""})}, KNOWN)
    assert line["ok"] is False
    assert remarks == ["one: no test of it has run"]


def test_what_builds_on_a_failure_is_left_out() -> None:
    played: list[str] = []

    def first(subject: list[str]) -> None:
        subject.append("first")

    def second(subject: list[str]) -> None:
        raise NotAsExpectedError("oh")

    result = in_turn([first, second, first], played)
    assert played == ["first"]
    assert (result.passed, result.failed) == (["first"], {"second": "oh"})
    assert result.skipped == {"first": "second failed"}


def test_brokers_are_killed_only_when_it_is_asked_for() -> None:
    killing = ["franz-go-kills", "tools-kills"]
    gates = asked_for([], kills=False)
    assert {"franz-go", "tools", "kcat"} <= set(gates)
    assert not {*killing, "librdkafka-more"} & set(gates)
    assert asked_for([], kills=True) == [*gates, *killing]
    assert asked_for(["kcat"], kills=True) == ["kcat", *killing]
    assert asked_for(["tools-kills"], kills=False) == ["tools-kills"]
    assert asked_for(killing, kills=True) == killing
