"""Checkers of groups hold against hand-made histories: [A24], [A25], [A28], and under subscribe
[A15], [A16] and [A17].
"""

from __future__ import annotations

import pytest

from simulation.checkers.violation import Rules
from simulation.stories import Case, assert_enough, assert_found, bad, good

FOUR = "p1 send x a@0 b@1 c@2 d@3\nc9 poll x a@0 b@1 c@2 d@3\n"
TO_THE_END = Rules(groups={"g": [("x", 0)]})

GROUPS = [
    # ---- [A13] and [A14]: within a poll a group's member is like everybody
    bad(
        "A13",
        "a member leaves out a record within a poll",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0 c@2
        c1 poll x d@3
        c2 assigned g/m2@2 y
        c2 poll x b@1
        """,
    ),
    bad(
        "A13",
        "between two partitions that it was given",
        FOUR
        + """
        c1 assigned g/m1@1 x y
        c1 poll x b@1 d@3
        c2 assigned g/m2@2 y
        c2 poll x c@2
        """,
    ),
    good(
        "A13",
        "a rebalance took it away and brought it back within an operation",
        FOUR
        + """
        t1 assigned g/m1@1 x
        t1 txn poll x a@0 ; assign x ; poll x c@2
        c2 assigned g/m2@1 y
        c2 poll x b@1
        """,
    ),
    good(
        "A13",
        "every record in its turn",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c1 poll x c@2 d@3
        """,
    ),
    bad(
        "A14",
        "a member is handed a record twice in a poll",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1 b@1
        """,
        "A17",
    ),
    good(
        "A14",
        "again after a rebalance within an operation",
        FOUR
        + """
        t1 assigned g/m1@1 x
        t1 txn poll x a@0 ; assign x ; poll x a@0
        """,
        found=("A17",),
    ),
    # ---- [A15]: what a group has passed it was handed
    bad(
        "A15",
        "the next owner begins behind what anybody was handed",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0
        c2 assigned g/m2@2 x
        c2 subscribe x
        c2 found x 2
        c2 poll x c@2
        """,
    ),
    bad(
        "A15",
        "committed though nobody was handed it",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0 b@1
        c1 commit g/m1@1 x@4
        """,
    ),
    bad(
        "A15",
        "a member skips between its own polls, though no rebalance moved it",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0
        c1 poll x c@2
        c2 assigned g/m2@2 y
        c2 poll x b@1
        """,
    ),
    good(
        "A15",
        "the next owner goes on where the group has committed",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0 b@1
        c1 commit g/m1@1 x@2
        c1 revoked g/m1@1 x
        c2 assigned g/m2@2 x
        c2 subscribe x
        c2 committed g/m2@2 x@2
        c2 found x 2
        c2 poll x c@2 d@3
        """,
    ),
    good(
        "A15",
        "a group that begins at the end need not see what was before",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 2
        c1 poll x c@2 d@3
        """,
    ),
    good(
        "A15",
        "an operator has moved the group",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0
        c1 lost g/m1@1 x
        c5 commit g x@3
        c2 assigned g/m2@2 x
        c2 subscribe x
        c2 found x 3
        c2 poll x d@3
        """,
    ),
    good(
        "A15",
        "compaction took the record away",
        """
        p1 send x a#k@0 b#k@1
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x b#k@1
        """,
        Rules(superseded={("x", 0): {0}}),
    ),
    # ---- [A16]: the next owner begins where the group has committed
    bad(
        "A16",
        "an acknowledged commit is repeated",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 subscribe x
        c1 found x 0
        c1 poll x a@0 b@1 c@2
        c1 commit g/m1@1 x@3
        c2 assigned g/m2@2 x
        c2 subscribe x
        c2 found x 1
        c2 poll x b@1
        """,
        "A17",
    ),
    bad(
        "A16",
        "the second commit is forgotten, by the very same member",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c1 commit g/m1@1 x@1
        c1 commit g/m1@1 x@2
        c1 revoked g/m1@1 x
        c1 assigned g/m1@2 x
        c1 subscribe x
        c1 found x 1
        """,
    ),
    good(
        "A16",
        "what was not committed is read again",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c1 commit g/m1@1 x@1
        c1 commit g/m1@1 x@2 ?
        c2 assigned g/m2@2 x
        c2 subscribe x
        c2 found x 1
        c2 poll x b@1
        """,
        found=("A17",),
    ),
    good(
        "A16",
        "the commit came in while the partition changed hands",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0
        c2 assigned g/m2@2 x
        c2 subscribe x
        c1 commit g/m1@1 x@1 ?
        c2 found x 0
        c2 poll x a@0
        """,
        found=("A17",),
    ),
    # ---- [A17]: repeats, for the record
    bad(
        "A17",
        "a crash between poll and commit",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c1 crash
        c2 assigned g/m2@2 x
        c2 poll x a@0 b@1
        """,
    ),
    bad(
        "A17",
        "a member that was thrown out reads on",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0
        c2 assigned g/m2@2 x
        c2 poll x a@0 b@1
        c1 poll x b@1
        c1 lost g/m1@1 x
        """,
    ),
    good(
        "A17",
        "two groups read the same",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c2 assigned h/m2@1 x
        c2 poll x a@0 b@1
        """,
    ),
    good(
        "A17",
        "who is in no group reads what it likes",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c2 poll x a@0
        c2 seek x 0
        c2 poll x a@0
        """,
    ),
    # ---- [A24]: committed offsets are kept, and the fenced do not commit
    bad(
        "A24",
        "an acknowledged commit is forgotten",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@5
        c1 commit g/m1@1 x@9
        c2 committed g x@5
        """,
    ),
    bad(
        "A24",
        "an acknowledged commit is gone altogether",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@5
        c2 committed g x@-
        """,
    ),
    bad(
        "A24",
        "what was shown is taken back",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@5
        c1 commit g/m1@1 x@9 ?
        c2 committed g x@9
        c2 committed g x@5
        """,
    ),
    bad(
        "A24",
        "an offset that nobody committed",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@5
        c2 committed g x@6
        """,
    ),
    bad(
        "A24",
        "a commit that failed for certain",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@5 !
        c2 committed g x@5
        """,
    ),
    bad(
        "A24",
        "a member commits after it was outlived",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@2 x
        c1 commit g/m1@1 x@5
        """,
    ),
    bad(
        "A24",
        "offsets of a group that is alive expire",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        c1 commit g/m1@1 y@1
        c1 commit g/m1@1 y@2
        c1 commit g/m1@1 y@3
        c1 committed g/m1@1 x@-
        """,
        rules=Rules(offsets_expire_after_s=0.5),
    ),
    good(
        "A24",
        "offsets of a group that is long gone expire",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        p1 send y a ?
        p1 send y b ?
        p1 send y c ?
        p1 send y d ?
        c1 committed g x@-
        """,
        Rules(offsets_expire_after_s=0.5),
    ),
    bad(
        "A24",
        "offsets of a member that only reads expire",
        """
        p1 send x a@0 b@1 c@2 d@3
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@0
        c1 poll x a@0
        c1 poll x b@1
        c1 poll x c@2
        c1 poll x d@3
        c1 committed g/m1@1 x@-
        """,
        rules=Rules(offsets_expire_after_s=0.5),
    ),
    good(
        "A24",
        "offsets expire while a member reads that was thrown out and does not know",
        """
        p1 send x a@0 b@1 c@2 d@3
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@0
        c1 poll x a@0
        c1 poll x b@1
        c1 poll x c@2
        c1 poll x d@3
        c1 lost g/m1@1 x
        c2 committed g x@-
        """,
        Rules(offsets_expire_after_s=0.5),
    ),
    good(
        "A24",
        "nobody knows what became of a commit, so it may come in late",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@9 ?
        c1 commit g/m1@1 x@5
        c2 committed g x@5
        c2 committed g x@9
        """,
    ),
    good(
        "A24",
        "a member goes back on purpose",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@9
        c1 commit g/m1@1 x@5
        c2 committed g x@5 y@-
        """,
    ),
    good(
        "A24",
        "a member that was outlived is refused",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@2 x
        c1 commit g/m1@1 x@5 !
        c2 committed g/m2@2 x@-
        """,
    ),
    good(
        "A24",
        "a member commits in the generation that it is in",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@2 y
        c1 assigned g/m1@2 x
        c1 commit g/m1@2 x@5
        c2 commit g/m2@2 y@1
        """,
    ),
    # ---- [A25]: one owner at a time
    bad(
        "A25",
        "in the same generation",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@1 x
        """,
    ),
    bad(
        "A25",
        "handed over before the first owner gave it up",
        """
        c1 assigned g/m1@1 x y
        c2 assigned g/m2@2 x
        c1 assigned g/m1@2
        c1 revoked g/m1@2 x
        """,
    ),
    bad(
        "A25",
        "the first owner's commit is taken in the generation of the second",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@2 x
        c1 commit g/m1@2 x@4
        """,
    ),
    bad(
        "A25",
        "the former life of a static member commits on",
        """
        static1 assigned g/i1@4 x
        static2 assigned g/i2@4 x
        static1 commit g/i1@4 x@7
        """,
    ),
    good(
        "A25",
        "a static member comes back, its former life does not know yet",
        """
        static1 assigned g/i1@4 x
        static1 commit g/i1@4 x@7
        static2 assigned g/i2@4 x
        static1 commit g/i1@4 x@8 !
        static2 commit g/i2@4 x@8
        """,
    ),
    good(
        "A25",
        "given up first",
        """
        c1 assigned g/m1@1 x y
        c2 assigned g/m2@2
        c1 revoked g/m1@2 x
        c1 assigned g/m1@3
        c2 assigned g/m2@3 x
        c1 commit g/m1@3 y@1
        """,
    ),
    good(
        "A25",
        "a member that was thrown out does not know it yet",
        """
        c1 assigned g/m1@1 x
        c2 assigned g/m2@2 x
        c1 poll x
        c1 lost g/m1@1 x
        c1 assigned g/m1b@3 y
        """,
    ),
    good(
        "A25",
        "a coordinator dies in a round, and the next one gives its number to another",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@2 x@3
        c2 assigned g/m2@2 x
        c1 commit g/m1@2 x@4 !
        c1 lost g/m1@2 x
        """,
    ),
    good(
        "A25",
        "an assignment that comes late, when others have gone on",
        """
        c1 assigned g/m1@3 x
        c2 assigned g/m2@2 x
        c1 commit g/m1@3 x@1
        c2 commit g/m2@2 x@1 !
        """,
    ),
    good(
        "A25",
        "a crash ends it",
        """
        c1 assigned g/m1@1 x
        c1 crash
        c2 assigned g/m2@1 x
        """,
    ),
    good(
        "A25",
        "a group that was empty for long begins anew, and one of before does not know",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        p1 send y a ?
        p1 send y b ?
        p1 send y c ?
        p1 send y d ?
        c2 assigned g/m2@1 x
        """,
        Rules(offsets_expire_after_s=0.5),
    ),
    good(
        "A25",
        "a group without offsets begins anew as soon as it was empty",
        """
        c1 assigned g/m1@1 x
        p1 send y a ?
        p1 send y b ?
        c2 assigned g/m2@1 x
        """,
        Rules(sessions_expire_after_s=0.2),
    ),
    bad(
        "A25",
        "a group that has offsets is not forgotten so soon",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        p1 send y a ?
        p1 send y b ?
        c2 assigned g/m2@1 x
        """,
        rules=Rules(sessions_expire_after_s=0.2),
    ),
    bad(
        "A25",
        "a group that was not empty for so long",
        """
        c1 assigned g/m1@1 x
        p1 send y a ?
        c2 assigned g/m2@1 x
        """,
        rules=Rules(offsets_expire_after_s=0.5),
    ),
    good(
        "A25",
        "two groups",
        """
        c1 assigned g/m1@1 x
        c2 assigned h/m2@1 x
        """,
    ),
    # ---- [A28]: a group comes to the end
    bad(
        "A28",
        "it hangs in the middle",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        """,
        rules=TO_THE_END,
    ),
    bad("A28", "it never begins", FOUR + "c1 assigned g/m1@1 x", rules=TO_THE_END),
    good(
        "A28",
        "two members, together, in the end",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1
        c2 assigned g/m2@2 x
        c2 poll x c@2 d@3
        """,
        TO_THE_END,
    ),
    good(
        "A28",
        "what was not acknowledged need not be there",
        FOUR
        + """
        c1 assigned g/m1@1 x
        c1 poll x a@0 b@1 c@2 d@3
        p1 send x e ?
        """,
        TO_THE_END,
    ),
    good(
        "A28",
        "a group that nobody waits for",
        FOUR + "c1 assigned g/m1@1 x",
        Rules(groups={"h": []}),
    ),
]


@pytest.mark.parametrize("case", GROUPS, ids=lambda case: f"{case.anomaly}-{case.name}")
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


def test_there_are_enough_stories() -> None:
    assert_enough(GROUPS, (13, 15, 16, 17, 24, 25, 28))
