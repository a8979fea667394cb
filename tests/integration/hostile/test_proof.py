"""The proof counts what ran, and what did not run is not proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.hostile.check import marked, told
from integration.hostile.proof import Ran, Tables, canary, judged, p99, ran, waits

TABLES = Tables(
    frozenset({"1", "2"}), frozenset({"x"}), frozenset({"security.a"}), frozenset({"FETCH"})
)
MATRIX_TEST = Ran("test_matrix_acls::test[FETCH]", True, {"matrix": ['["FETCH", 7, 0]']})
ALL = [
    MATRIX_TEST,
    Ran("t::one", True, {"hostile": ["1", "2"]}),
    Ran("t::two", True, {"hostile": ["2"], "cve": ["x"]}),
]
CAUGHT = {"security.a": True}


def test_all_that_is_proved_is_counted() -> None:
    counts, faults = judged(ALL, TABLES, CAUGHT)
    assert counts == {
        "apis": 1,
        "matrix_cells": 7,
        "matrix_failed": 0,
        "hostile_cases": 2,
        "hostile_failed": 0,
        "cve_tests": 1,
        "ablations_caught": 1,
        "ablations": ["security.a"],
        "ok": True,
    }
    assert faults == []


@pytest.mark.parametrize(
    ("tests", "caught", "fault"),
    [
        (ALL[1:], CAUGHT, "no cell of the matrix asks FETCH"),
        (ALL[:2], CAUGHT, "CVE x is not proved"),
        (ALL, {}, "the lack of security.a is not caught"),
        (ALL, {**CAUGHT, "security.b": False}, "the lack of security.b is not caught"),
        ([*ALL, Ran("t::c", False, {"ablation": ["a"]})], CAUGHT, "the lack of security.a is not"),
        ([*ALL, Ran("t::d", False, {"hostile": ["1"]})], CAUGHT, "hostile row 1 is not proved"),
        ([MATRIX_TEST, ALL[2]], CAUGHT, "hostile row 1 is not proved"),
        ([*ALL, Ran("test_matrix::e", False)], CAUGHT, "test_matrix::e failed"),
    ],
)
def test_what_is_not_proved_is_said(tests: list[Ran], caught: dict[str, bool], fault: str) -> None:
    counts, faults = judged(tests, TABLES, caught)
    assert not counts["ok"]
    assert any(each.startswith(fault) for each in faults), faults


def test_cells_that_failed_are_counted() -> None:
    wrong = Ran("test_matrix_acls::test[FETCH]", False, {"matrix": ['["FETCH", 7, 2]']})
    broken = Ran("test_matrix_acls::test[PRODUCE]", False)
    counts, _ = judged([wrong, broken, *ALL[1:]], TABLES, CAUGHT)
    assert (counts["matrix_cells"], counts["matrix_failed"], counts["ok"]) == (7, 3, False)


def test_what_has_not_come_to_its_end_is_not_proved() -> None:
    counts, faults = judged(ALL, TABLES, CAUGHT, ["pytest ended"])
    assert (counts["ok"], faults) == (False, ["pytest ended"])


def test_the_simulator_tells_by_its_last_line_what_it_caught() -> None:
    printed = 'security.a: caught\n{"seeds_needed": {"security.a": 1}}\n'
    assert told(["security.a", "security.b"], 1, printed) == (
        {"security.a": True, "security.b": False},
        [],
    )


@pytest.mark.parametrize("printed", ["", "security.a: caught\n", "[]\n", "{}\n", "7\n"])
def test_a_simulator_that_does_not_come_to_its_end_is_a_fault(printed: str) -> None:
    caught, faults = told(["security.a"], 3, printed)
    assert caught == {"security.a": False}
    assert faults == ["the simulator ended with code 3, and its last line is not its summary"]


def test_a_switch_that_a_test_catches_is_caught() -> None:
    test = Ran("t::c", True, {"ablation": ["a"]})
    counts, faults = judged([*ALL, test], TABLES, {})
    assert (counts["ablations_caught"], faults) == (1, [])


REPORT = """<testsuites><testsuite>
<testcase classname="m" name="a"><properties>
<property name="hostile" value="1"/><property name="hostile" value="2"/></properties></testcase>
<testcase classname="m" name="b"><failure message="no"/></testcase>
<testcase classname="m" name="c"><skipped message="no Java"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    first, second = ran(path)
    assert (first.name, first.passed, first.of("hostile")) == ("m::a", True, ["1", "2"])
    assert (second.passed, second.of("hostile")) == (False, ())


def test_the_waits_of_a_bystander_are_compared() -> None:
    assert p99([float(n) for n in range(1, 201)]) == 198.0
    calm = Ran("m::test[1-silent]", True, {"quiet_ms": ["[1.0, 2.0]"], "laps_ms": ["[4.0, 1.0]"]})
    loud = Ran("m::test[2-slow]", True, {"quiet_ms": ["[2.0]"], "laps_ms": ["[2.0, 5.0]"]})
    measured = waits([calm, loud, Ran("m::test[3-unmeasured]", False)])
    assert [str(each) for each in measured] == [
        "canary, 1-silent: p99 of 2 4.0 ms, 2.0 times quiet; longest 4.0 ms",
        "canary, 2-slow: p99 of 2 5.0 ms, 2.5 times quiet, more than twice; longest 5.0 ms",
    ]
    assert canary(measured) == {"canary_quiet_p99_ms": 2.0, "canary_attack_p99_ms": 5.0}
    assert canary([]) == {}


def test_modules_that_prove_something_are_found() -> None:
    names = {path.name for path in marked()}
    assert {"test_matrix.py", "test_matrix_acls.py", "test_scram.py", "test_attacks.py"} <= names
    assert "test_segment.py" not in names
