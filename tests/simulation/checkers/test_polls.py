"""Checkers of what consumers were handed are tried on hand-made histories.

Many of the stories are after the tests of Jepsen's Kafka workload.
"""

from __future__ import annotations

import pytest

from simulation.checkers.verdict import verdict
from simulation.checkers.violation import Rules
from simulation.stories import Case, assert_enough, assert_found, bad, good, story

X = ("x", 0)
THREE = "p1 send x a@0 b@1 c@2\nc9 poll x a@0 b@1 c@2\n"

POLLS = [
    # ---- [A13]: no skip within a poll
    bad("A13", "a record that another reader saw", THREE + "c1 poll x a@0 c@2"),
    bad(
        "A13",
        "with another partition in between",
        THREE
        + """
        p1 send y d@0
        t1 txn poll x a@0 ; poll y d@0 ; poll x c@2
        """,
    ),
    good("A13", "all of it", THREE + "c1 poll x b@1 c@2"),
    good(
        "A13",
        "the partition was assigned anew in between",
        THREE + "t1 txn poll x a@0 ; assign x ; poll x c@2",
    ),
    # ---- [A14]: no repeat within a poll
    bad("A14", "back to an earlier record", THREE + "c1 poll x a@0 b@1 a@0"),
    bad("A14", "the same record twice", THREE + "c1 poll x a@0 a@0"),
    good(
        "A14",
        "partitions take turns",
        THREE
        + """
        p1 send y d@0
        t1 txn poll x b@1 ; poll y d@0 ; poll x c@2
        """,
    ),
    good(
        "A14",
        "the partition was assigned anew in between",
        THREE + "t1 txn poll x b@1 ; assign x ; poll x b@1",
    ),
    # ---- [A15]: no skip between polls
    bad(
        "A15",
        "a record that another reader saw",
        THREE
        + """
        c1 poll x a@0
        c1 poll x c@2
        """,
    ),
    bad(
        "A15",
        "right after a seek",
        THREE
        + """
        c1 seek x 1
        c1 poll x c@2
        """,
    ),
    bad(
        "A15",
        "thrown out of range, and then to the end",
        THREE
        + """
        c1 poll x a@0
        c1 reset x
        c1 found x 2
        c1 poll x c@2
        """,
    ),
    good(
        "A15",
        "the application moved it",
        THREE
        + """
        c1 poll x a@0
        c1 seek x 2
        c1 poll x c@2
        """,
    ),
    good(
        "A15",
        "given away and taken back, or begun anew",
        THREE
        + """
        c1 poll x a@0
        c1 assign x
        c1 found x 2
        c1 poll x c@2
        c2 poll x a@0
        c2 crash
        c2 poll x c@2
        """,
    ),
    good(
        "A15",
        "a group moves partitions as it likes",
        THREE
        + """
        c1 poll x a@0
        c1 poll x c@2
        """,
        Rules(subscribed=True),
    ),
    good(
        "A15",
        "thrown out of range by retention, after what was fetched before",
        THREE
        + """
        c1 poll x a@0
        c1 reset x
        c1 poll x b@1
        c1 found x 3
        p1 send x d@3 e@4
        c9 poll x d@3 e@4
        c1 poll x e@4
        """,
        Rules(resets_permitted=True),
    ),
    # ---- [A16]: no step back between polls
    bad(
        "A16",
        "a record again",
        THREE
        + """
        c1 poll x a@0 b@1
        c1 poll x b@1 c@2
        """,
    ),
    bad(
        "A16",
        "thrown out of range, and back to the beginning",
        THREE
        + """
        c1 poll x a@0 b@1
        c1 reset x
        c1 found x 0
        c1 poll x a@0
        """,
    ),
    bad(
        "A16",
        "before the place that was sought",
        THREE
        + """
        c1 seek x 1
        c1 poll x a@0
        """,
    ),
    good(
        "A16",
        "the application moved it",
        THREE
        + """
        c1 poll x a@0 b@1
        c1 seek x 0
        c1 poll x a@0
        """,
    ),
    good(
        "A16",
        "another consumer of the same partition",
        THREE
        + """
        c1 poll x a@0 b@1
        c2 poll x a@0
        """,
    ),
    good(
        "A16",
        "a group moves partitions as it likes",
        THREE
        + """
        c1 poll x a@0 b@1
        c1 poll x b@1
        """,
        Rules(subscribed=True),
    ),
    # ---- [A26]: no unexplained hole, no record at a hole
    bad(
        "A26",
        "an offset with nothing in it",
        """
        p1 send x a@0
        p1 send x c@2
        c1 poll x a@0 c@2
        """,
    ),
    bad(
        "A26",
        "between two polls",
        """
        p1 send x a@0
        p1 send x c@2
        c1 poll x a@0
        c1 poll x c@2
        """,
    ),
    bad(
        "A26",
        "a control record is handed out",
        """
        t1 txn send x a@0
        c1 poll x a@0 marker@1
        """,
        holes={X: [1]},
    ),
    bad(
        "A26",
        "a hole that is larger than its reason",
        """
        t1 txn send x a@0
        t1 txn send x d@3
        c1 poll x a@0 d@3
        """,
        holes={X: [1]},
    ),
    good(
        "A26",
        "a marker",
        """
        t1 txn send x a@0
        t1 txn send x c@2
        c1 poll x a@0 c@2
        """,
        holes={X: range(1, 2)},
    ),
    good(
        "A26",
        "transactions whose markers nobody listed",
        """
        t1 txn send x a@0
        t1 txn send x c@2
        c1 poll x a@0 c@2
        """,
    ),
    good(
        "A26",
        "a seek over it",
        """
        p1 send x a@0
        p1 send x c@2
        c1 poll x a@0
        c1 seek x 2
        c1 poll x c@2
        """,
    ),
]


@pytest.mark.parametrize("case", POLLS, ids=lambda case: f"{case.anomaly}-{case.name}")
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


def test_there_are_enough_stories() -> None:
    assert_enough(POLLS, (13, 14, 15, 16, 26))


def test_a_violation_names_offsets_and_operations() -> None:
    found = verdict(story(THREE + "c1 poll x a@0 c@2"), Rules())
    assert [str(violation) for violation in found] == [
        "A13 no_skip_within_a_poll x-0: poll 4 of c1/consumer went from 0 to 2, past 1 (ops 4)"
    ]
