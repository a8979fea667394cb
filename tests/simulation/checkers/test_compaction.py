"""[A33]: compaction may take some records of hand-made logs away, and others not."""

from __future__ import annotations

import pytest

from simulation.checkers.newest_values_kept import Compacted, Kept, check, superseded
from simulation.checkers.verdict import verdict
from simulation.checkers.violation import Rules
from simulation.stories import story

KEY = ("x", 0)


def log(text: str) -> list[Kept]:
    """Read "a=1@0 a@2": key, value (none: a tombstone) and offset."""
    records = []
    for word in text.split():
        record, _, offset = word.partition("@")
        name, equals, value = record.partition("=")
        records.append(Kept(int(offset), name.encode(), value.encode() if equals else None))
    return records


COMMITTED = log("a=1@0 b=1@1 a=2@2 c=1@3 c@4 b=2@5")

BAD = {
    "the newest value is gone": ("a=1@0 c@4 b=2@5", 2),
    "an older value instead": ("b=1@1 a=2@2 c@4", 5),
    "an offset has moved": ("a=2@3 c@4 b=2@5", 3),
    "a value has changed": ("a=9@2 c@4 b=2@5", 2),
    "what was deleted is back": ("a=2@2 c=1@3 b=2@5", 4),
    "nothing is left": ("", 2),
    "a record that nobody wrote": ("a=2@2 c@4 b=2@5 d=1@9", 9),
}
GOOD = {
    "not compacted": "a=1@0 b=1@1 a=2@2 c=1@3 c@4 b=2@5",
    "a part is": "a=2@2 c=1@3 c@4 b=2@5",
    "all of it": "a=2@2 c@4 b=2@5",
    "the tombstone too": "a=2@2 b=2@5",
}


@pytest.mark.parametrize("name", BAD)
def test_damage_is_found(name: str) -> None:
    text, offset = BAD[name]
    compacted = Compacted(COMMITTED, {1: COMMITTED, 2: log(text)})
    found = check({KEY: compacted}, Rules())
    assert {violation.anomaly for violation in found} == {"A33"}
    assert offset in [violation.offsets[0] for violation in found]
    assert all("broker 2" in violation.text for violation in found)
    assert verdict(story(""), Rules(), compacted={KEY: compacted}) == found


@pytest.mark.parametrize("name", GOOD)
def test_compaction_is_accepted(name: str) -> None:
    compacted = Compacted(COMMITTED, {1: COMMITTED, 2: log(GOOD[name])})
    assert check({KEY: compacted}, Rules()) == []


def test_retention_may_take_the_newest_value() -> None:
    compacted = Compacted(COMMITTED, {1: log("c@4 b=2@5")}, log_start=3)
    assert check({KEY: compacted}, Rules()) == []


def test_a_replica_that_was_away_for_long_may_have_missed_a_deletion() -> None:
    rules = Rules(deletions_may_be_missed=True)
    back = Compacted(COMMITTED, {1: log("a=2@2 c=1@3 b=2@5")})
    assert check({KEY: back}, rules) == []
    lost = Compacted(COMMITTED, {1: log("a=2@2 c=1@3")})
    assert [violation.offsets for violation in check({KEY: lost}, rules)] == [(5,)]


def test_what_may_be_taken_away() -> None:
    assert superseded(COMMITTED) == {0, 1, 3, 4}
