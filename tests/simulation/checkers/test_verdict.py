"""The verdict: every checker takes part, and what it says can be read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from simulation.checkers.__main__ import main
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.checkers.replicas import Entry, Replicas
from simulation.checkers.verdict import failures, summary, verdict
from simulation.checkers.violation import Rules, Violation
from simulation.history import Watermark, line_of
from simulation.stories import story

GOOD = """
p1 send x a@0 b@1
c1 poll x a@0 b@1
"""


def test_a_good_run_has_no_anomalies() -> None:
    log = [Entry(0, 2, 1, b"ab")]
    found = verdict(
        story(GOOD),
        Rules(),
        replicas={("x", 0): Replicas(2, {1: log, 2: log})},
        logs=[LogLine("broker-1", logging.INFO, "ready")],
        watermarks=[Watermark("broker-1", "x", 0, 1, 2)],
    )
    assert found == []
    assert summary(found) == "no anomalies"


def test_whatever_is_given_is_judged() -> None:
    found = verdict(
        story(GOOD),
        Rules(),
        replicas={("x", 0): Replicas(2, {1: [Entry(0, 2, 1, b"ab")], 2: []})},
        logs=[LogLine("broker-1", logging.ERROR, "no")],
        watermarks=[Watermark("broker-1", "x", 0, 1, 2), Watermark("broker-1", "x", 0, 1, 1)],
    )
    assert [violation.anomaly for violation in found] == ["A19", "A23", "A30"]


def test_a_summary_says_what_is_only_for_the_record() -> None:
    found = verdict(
        story(
            """
            t1 txn send x a@0 ; send x c@2
            p1 send x b@1
            c1 poll x a@0 b@1 c@2
            """
        ),
        Rules(),
    )
    assert failures(found) == []
    assert summary(found).splitlines()[0] == (
        "A10 sends_of_an_operation_adjoin: 1 (expected, for the record)"
    )


def test_a_summary_counts_and_shows_the_first_few() -> None:
    lost = [Violation("A3", "no_acked_write_lost", f"number {i}") for i in range(5)]
    lines = summary([Violation("A19", "no_alarm_in_the_logs", "x"), *lost]).splitlines()
    assert lines[0] == "A3 no_acked_write_lost: 5"
    assert len(lines) == 1 + 3 + 2


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), ("p1 send x a@0", 1)])
def test_a_file_is_checked_from_the_command_line(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    lines = [line_of(event) + "\n" for event in story(text).events]
    path.write_text("".join(lines))
    assert main([str(path)]) == code
    said = capsys.readouterr().out
    assert ("no anomalies" in said) == (code == 0)
    assert main([str(path), "--acks-one"]) == 0


def test_a_violation_names_offsets_and_operations() -> None:
    found = verdict(
        story("p1 send x a@0 b@1 c@2\nc9 poll x a@0 b@1 c@2\nc1 poll x a@0 c@2"), Rules()
    )
    assert [str(violation) for violation in found] == [
        "A13 no_skip_within_a_poll x-0: poll 4 of c1/consumer went from 0 to 2, past 1 (ops 4)"
    ]
