"""Results of the suites of others are counted here, and held against what is known.

A failure that is known stands in ``docs/kafka.md``, in a table with the heading ``| suite | test |
reason |``. That table is the only list: what is not explained there makes ``ok`` false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

HEADING = "| suite | test | reason |"
ROW = re.compile(
    r"^\| (?P<suite>[^|]+) \| (?P<tests>`[^`]+`(?:, `[^`]+`)*) \| (?P<reason>[^|]+) \|$"
)
ALL = "all of it"
"""This stands in place of a test when a suite could not be run."""

Known = Mapping[str, Mapping[str, str]]
"""Suite to test to the reason why it fails."""


class NotAsExpectedError(Exception):
    """A test of a suite came to something else than it should; the message says to what."""


class KnownFailuresError(Exception):
    """The table of known failures cannot be read; the message says which line of it."""


@dataclass(slots=True)
class SuiteResult:
    """One suite came to this."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Test to what it said."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Test to why it was not run."""
    missing: str | None = None
    """Why the suite could not be run at all."""

    def play(self, name: str, test: Callable[[T], None], subject: T) -> None:
        """Run the test of this name, and keep what came of it."""
        try:
            test(subject)
        except NotAsExpectedError as error:
            self.failed[name] = str(error)
        else:
            self.passed.append(name)


def known_failures(page: str) -> dict[str, dict[str, str]]:
    """Return the failures that a page explains.

    :raises KnownFailuresError: there is no such table, or a row of it is of another form.
    """
    lines = iter(page.splitlines())
    if HEADING not in lines:
        raise KnownFailuresError(f"there is no table with the heading {HEADING}")
    next(lines, None)  # the line under the heading
    known: dict[str, dict[str, str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        row = ROW.match(line)
        if row is None:
            raise KnownFailuresError(f"this is no '| suite | `test`, ... | reason |': {line}")
        tests = row["tests"].strip("`").split("`, `")
        known.setdefault(row["suite"], {}).update(dict.fromkeys(tests, row["reason"]))
    return known


def in_turn(tests: Sequence[Callable[[T], None]], subject: T) -> SuiteResult:
    """Run tests until one fails: each builds on the one before, and the rest is skipped then.

    :param tests: named by their functions; what they raise is ``NotAsExpectedError``.
    """
    result = SuiteResult()
    for test in tests:
        if result.failed:
            result.skipped[test.__name__] = f"{next(iter(result.failed))} failed"
        else:
            result.play(test.__name__, test, subject)
    return result


def judged(results: Mapping[str, SuiteResult], known: Known) -> tuple[dict[str, Any], list[str]]:
    """Return the verdict as plain values, and what people should know, a line each."""
    suites: dict[str, Any] = {}
    remarks: list[str] = []
    ok = True
    for name, result in results.items():
        explained = known.get(name, {})
        left = sorted(set(result.failed) - set(explained))
        # A suite in which nothing ran has judged nothing.
        ran = bool(result.passed or result.failed)
        ok = ok and not left and result.missing is None and ran
        suites[name] = _counted(result)
        remarks += _remarks(name, result, explained, left)
        if not ran and result.missing is None:
            remarks.append(f"{name}: no test of it has run")
    return {"suites": suites, "ok": ok}, remarks


def _counted(result: SuiteResult) -> dict[str, Any]:
    skipped = [f"{test}: {why}" if why else test for test, why in sorted(result.skipped.items())]
    if result.missing is not None:
        skipped.append(f"{ALL}: {result.missing}")
    return {
        "run": len(result.passed) + len(result.failed),
        "passed": len(result.passed),
        "failed": sorted(result.failed),
        "skipped": skipped,
    }


def _remarks(
    name: str, result: SuiteResult, explained: Mapping[str, str], left: Sequence[str]
) -> list[str]:
    remarks = [f"{name}: {test} FAILED: {result.failed[test]}" for test in left]
    remarks += [
        f"{name}: {test} failed, as is known: {explained[test]}"
        for test in sorted(result.failed)
        if test in explained
    ]
    remarks += [
        f"{name}: {test} passed, although docs/kafka.md says that it fails"
        for test in sorted(result.passed)
        if test in explained
    ]
    if result.missing is not None:
        remarks.append(f"{name}: not run: {result.missing}")
    return remarks
