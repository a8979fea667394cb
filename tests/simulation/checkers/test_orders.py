"""Checkers of the order of sends are tried on hand-made histories."""

from __future__ import annotations

import pytest

from simulation.checkers.violation import Rules
from simulation.stories import Case, assert_enough, assert_found, bad, good

ORDERS = [
    # ---- [A10]: sends of an operation adjoin (report only)
    bad(
        "A10",
        "another producer in between",
        """
        t1 txn send x a@0 ; send x c@2
        p1 send x b@1
        c1 poll x a@0 b@1 c@2
        """,
    ),
    bad(
        "A10",
        "seen by polls alone",
        """
        t1 txn send x a ; send x c ?
        p1 send x b ?
        c1 poll x a@0 b@1 c@2
        """,
    ),
    good(
        "A10",
        "side by side",
        """
        t1 txn send x a@0 ; send x b@1
        c1 poll x a@0 b@1
        """,
    ),
    good(
        "A10",
        "a marker lies between",
        """
        t1 txn send x a@0 ; send y c@0 ; send x b@2
        c1 poll x a@0 b@2
        c1 poll y c@0
        """,
    ),
    # ---- [A11]: sends of an operation in order
    bad(
        "A11",
        "a transaction lands the wrong way round",
        """
        t1 txn send x a@1 ; send x b@0
        c1 poll x b@0 a@1
        """,
    ),
    bad(
        "A11",
        "seen by polls alone",
        """
        t1 txn send x a ; send x b ?
        c1 poll x b@0 a@1
        """,
    ),
    good(
        "A11",
        "in order, in two partitions",
        """
        t1 txn send x a@4 ; send y c@0 ; send x b@5 ; send y d@1
        c1 poll x a@4 b@5
        c1 poll y c@0 d@1
        """,
    ),
    good(
        "A11",
        "an aborted one leaves no trace",
        """
        t1 txn send x a@1 ; send x b@0 !
        p1 send x c@0
        c1 poll x c@0
        """,
    ),
    # ---- [A12]: sends of a producer in order
    bad(
        "A12",
        "the second send lands first",
        """
        p1 send x a@1
        p1 send x b@0
        c1 poll x b@0 a@1
        """,
    ),
    bad(
        "A12",
        "the third one lands before the second",
        """
        p1 send x a@0
        p1 send x b@2 c@3
        p1 send x d@1
        c1 poll x a@0 d@1 b@2 c@3
        """,
    ),
    good(
        "A12",
        "two producers have no order between them",
        """
        p1 send x a@1
        p2 send x b@0
        c1 poll x b@0 a@1
        """,
    ),
    good(
        "A12",
        "what ended unknown may land later",
        """
        p1 send x a ?
        p1 send x b@0
        c1 poll x b@0 a@1
        """,
    ),
    good(
        "A12",
        "the run does not promise it",
        """
        p1 send x a@1
        p1 send x b@0
        c1 poll x b@0 a@1
        """,
        Rules(ordered=False),
    ),
]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: f"{case.anomaly}-{case.name}")
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


def test_there_are_enough_stories() -> None:
    assert_enough(ORDERS, (10, 11, 12))
