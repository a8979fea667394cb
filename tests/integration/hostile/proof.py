"""The proof of security is judged here, by the reports of the tests that ran.

It knows nothing of what should be so but the tables: ``rows.toml`` and the registry of APIs. What
has no test that ran, and passed, is not proved.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.registry import REQUESTS

__all__ = ["MATRIX", "QUIET", "Ran", "Tables", "judged", "p99", "ran", "timings"]

MATRIX = "test_matrix"
"""The modules of the matrix begin so."""
QUIET = "quiet"
"""The bystander of this test has nobody beside it."""


@dataclass(frozen=True)
class Ran:
    """It is one test that ran."""

    name: str
    passed: bool
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """It holds what a test proves, by the mark's name, and what it has recorded, by its name."""

    def of(self, mark: str) -> Sequence[str]:
        return self.marks.get(mark, ())


def ran(path: Path) -> Iterator[Ran]:
    """Yield the tests of a report in JUnit's form; those that were skipped did not run."""
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        marks: dict[str, list[str]] = {}
        for each in case.iter("property"):
            marks.setdefault(each.get("name", ""), []).append(each.get("value", ""))
        passed = case.find("failure") is None and case.find("error") is None
        yield Ran(f"{case.get('classname')}::{case.get('name')}", passed, marks)


@dataclass(frozen=True)
class Tables:
    """It is all that must be proved."""

    rows: frozenset[str]
    cves: frozenset[str]
    ablations: frozenset[str]
    apis: frozenset[str] = frozenset(ApiKey(api).name for api in REQUESTS)

    @classmethod
    def read(cls) -> Tables:
        """Return what rows.toml has."""
        table = tomllib.loads((Path(__file__).parent / "rows.toml").read_text())
        return cls(
            frozenset(str(row["number"]) for row in table["row"]),
            frozenset(cve["id"] for cve in table["cve"]),
            frozenset(each["name"] for each in table["ablation"]),
        )


def judged(
    tests: Iterable[Ran], tables: Tables, caught: Mapping[str, bool]
) -> tuple[dict[str, Any], list[str]]:
    """Return the counts, and what is not proved, in words.

    :param caught: switches that the simulator has tried, and whether the lack of the rule showed.
    """
    every = list(tests)
    faults = [f"{test.name} failed" for test in every if not test.passed]
    cells, failed, apis = _matrix(every)
    faults += [f"no cell of the matrix asks {api}" for api in sorted(tables.apis - apis)]
    hostile = [test for test in every if test.of("hostile")]
    rows = tables.rows - _proved(hostile, "hostile")
    faults += [f"hostile row {row} is not proved" for row in sorted(rows, key=int)]
    cves = [test for test in every if test.of("cve")]
    lost = sorted(tables.cves - _proved(cves, "cve"))
    faults += [f"CVE {cve} is not proved" for cve in lost]
    switches = _switches(every, caught)
    missed = sorted(name for name in tables.ablations | switches.keys() if not switches.get(name))
    faults += [f"the lack of {name} is not caught" for name in missed]
    counts: dict[str, Any] = {
        "apis": len(apis),
        "matrix_cells": cells,
        "matrix_failed": failed,
        "hostile_cases": len(hostile),
        "hostile_failed": sum(not test.passed for test in hostile) + len(rows),
        "cve_tests": sum(test.passed for test in cves),
        "ablations_caught": sum(switches.values()),
    }
    return {**counts, "ok": not faults}, faults


def _proved(tests: Iterable[Ran], mark: str) -> set[str]:
    """Return what has tests, all of which have passed."""
    every = list(tests)
    failed = {each for test in every if not test.passed for each in test.of(mark)}
    return {each for test in every for each in test.of(mark)} - failed


def _matrix(tests: Iterable[Ran]) -> tuple[int, int, set[str]]:
    """Return how many cells there were, how many failed, and the APIs that they ask."""
    cells, failed, apis = 0, 0, set[str]()
    for test in tests:
        counted = [json.loads(each) for each in test.of("matrix")]
        for api, asked, wrong in counted:
            apis.add(api)
            cells += asked
            failed += wrong
        if MATRIX in test.name and not test.passed and not any(wrong for _, _, wrong in counted):
            failed += 1  # it has failed before it could count, or has no cells
    return cells, failed, apis


def _switches(tests: Iterable[Ran], caught: Mapping[str, bool]) -> dict[str, bool]:
    """Return whether each switch is caught: by the simulator or by tests, and nowhere missed."""
    found = dict(caught)
    for test in tests:
        for name in test.of("ablation"):
            full = name if name.startswith("security.") else f"security.{name}"
            found[full] = found.get(full, True) and test.passed
    return found


# ---- how long the bystander waits


def p99(laps_s: Sequence[float]) -> float:
    """Return the time within which 99 of 100 laps ended."""
    return sorted(laps_s)[math.ceil(len(laps_s) * 0.99) - 1]


def timings(tests: Iterable[Ran]) -> Iterator[str]:
    """Yield a line for each attack: the bystander's p99 beside that of a quiet run."""
    laps = {
        test.name: [float(each) for text in test.of("laps_ms") for each in json.loads(text)]
        for test in tests
        if test.of("laps_ms")
    }
    quiet = [p99(found) for name, found in laps.items() if QUIET in name and found]
    if not quiet:
        return
    yield f"canary, quiet: p99 {quiet[0]:.1f} ms"
    for name, found in laps.items():
        if found and QUIET not in name:
            ratio = p99(found) / quiet[0]
            remark = "" if ratio <= 2 else ", more than twice"
            attack = name.partition("[")[2].rstrip("]")
            times = f"p99 of {len(found)} {p99(found):.1f} ms, {ratio:.1f} times quiet"
            yield f"canary, {attack}: {times}{remark}"
