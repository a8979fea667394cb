"""What librdkafka's test runner prints is read."""

from __future__ import annotations

from kafka_suites.kit import Ended
from kafka_suites.librdkafka import note
from kafka_suites.verdict import SuiteResult

ROW = "|\x1b[32m {name:40} | {word:>10} | {seconds:7.3f}s \x1b[0m|{why}\n"


def noted(code: int | None, *rows: tuple[str, str, str]) -> SuiteResult:
    table = [ROW.format(name=name, word=word, seconds=1, why=why) for name, word, why in rows]
    result = SuiteResult()
    printed = "".join([ROW.format(name="<MAIN>", word="PASSED", seconds=2, why=""), *table])
    note(result, "0022", Ended(code, printed))
    return result


def test_a_test_passes_when_a_part_of_it_does_and_none_fails() -> None:
    parts = (("0022_batch", "PASSED", ""), ("0022_batch_local", "SKIPPED", " no OAUTHBEARER"))
    assert noted(0, *parts).passed == ["0022"]
    assert noted(0, parts[1]).skipped == {"0022": "no OAUTHBEARER"}
    assert list(noted(0, *parts, ("0022_more", "FAILED", " oh")).failed) == ["0022"]


def test_a_test_that_aborts_or_says_nothing_has_failed() -> None:
    assert list(noted(-6, ("0022_batch", "PASSED", "")).failed) == ["0022"]
    assert list(noted(None, ("0022_batch", "PASSED", "")).failed) == ["0022"]
    assert list(noted(0).failed) == ["0022"]
