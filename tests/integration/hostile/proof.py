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

__all__ = ["MATRIX", "Ran", "Tables", "Waits", "canary", "judged", "p99", "ran", "waits"]

MATRIX = "test_matrix"
"""The modules of the matrix begin so."""


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
    tests: Iterable[Ran], tables: Tables, caught: Mapping[str, bool], broken: Iterable[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the counts, and what is not proved, in words.

    :param caught: switches that the simulator has tried, and whether the lack of the rule showed.
    :param broken: what has not come to its end; it is not proved either.
    """
    every = list(tests)
    faults = [*broken, *(f"{test.name} failed" for test in every if not test.passed)]
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
        "ablations": sorted(name for name, seen in switches.items() if seen),
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


@dataclass(frozen=True)
class Waits:
    """A bystander took so many milliseconds for each record, alone and then beside an attack."""

    attack: str
    quiet_ms: Sequence[float]
    beside_ms: Sequence[float]

    def __str__(self) -> str:
        """Compare the two, in words."""
        quiet, beside = p99(self.quiet_ms), p99(self.beside_ms)
        times = f"p99 of {len(self.beside_ms)} {beside:.1f} ms, {beside / quiet:.1f} times quiet"
        remark = "" if beside <= 2 * quiet else ", more than twice"
        return f"canary, {self.attack}: {times}{remark}; longest {max(self.beside_ms):.1f} ms"


def p99(laps_ms: Sequence[float]) -> float:
    """Return the time within which 99 of 100 laps ended."""
    return sorted(laps_ms)[math.ceil(len(laps_ms) * 0.99) - 1]


def waits(tests: Iterable[Ran]) -> list[Waits]:
    """Return how long the bystander of each attack waited, where a test has recorded it."""
    found = []
    for test in tests:
        quiet, beside = _laps(test, "quiet_ms"), _laps(test, "laps_ms")
        if quiet and beside:
            found.append(Waits(test.name.partition("[")[2].rstrip("]"), quiet, beside))
    return found


def _laps(test: Ran, name: str) -> list[float]:
    return [float(each) for text in test.of(name) for each in json.loads(text)]


def canary(measured: Iterable[Waits]) -> dict[str, float]:
    """Return the p99 of all bystanders together, in milliseconds, alone and beside attacks."""
    every = list(measured)
    quiet = [lap for each in every for lap in each.quiet_ms]
    beside = [lap for each in every for lap in each.beside_ms]
    if not every:
        return {}
    return {"canary_quiet_p99_ms": p99(quiet), "canary_attack_p99_ms": p99(beside)}
