"""Checkers of transactions are tried on hand-made histories."""

from __future__ import annotations

import pytest

from simulation.checkers import transactions_are_decided
from simulation.checkers.copies_match_inputs import copied, copy_of
from simulation.checkers.money_is_conserved import amount_of, booking_of
from simulation.checkers.transactions_are_decided import Open
from simulation.checkers.verdict import verdict
from simulation.checkers.violation import Rules
from simulation.stories import Case, assert_enough, assert_found, bad, good, story

UNCOMMITTED = Rules(read_committed=False)
X, Y = ("x", 0), ("y", 0)

STORIES = [
    # ---- [A5]: nothing aborted is read
    bad(
        "A5",
        "a send of an aborted transaction",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 aborted bank:1
        c1 poll x a@0
        """,
    ),
    bad(
        "A5",
        "nobody ever asked for its commit",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 crash
        c1 poll x a@0
        """,
    ),
    bad(
        "A5",
        "the writer was not among the winners",
        """
        t1 begin all
        t2 begin all/7
        t2 send x a@0 in all/7
        t3 begin all/8
        t3 send x b@1 in all/8
        t1 commits all all/8
        c1 poll x a@0 b@1
        """,
    ),
    good(
        "A5",
        "who reads uncommitted reads it",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        u1 poll x a@0
        t1 aborted bank:1
        """,
    ),
    good(
        "A5",
        "what it committed before",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t1 begin bank:2
        t1 send x b@2 in bank:2
        t1 aborted bank:2
        c1 poll x a@0
        """,
        holes={X: [1, 2, 3]},
    ),
    # ---- [A3], [A4]: what was committed is read, what was not need not be
    bad(
        "A4",
        "a committed record is missing at the end",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        """,
    ),
    good(
        "A4",
        "stored, and not committed",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1 ?
        t2 begin bank:2
        t2 send x b@1 in bank:2
        t2 aborted bank:2
        """,
    ),
    # ---- [A6]: not before the commit
    bad(
        "A6",
        "a reader is early",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        c1 poll x a@0
        t1 commits bank:1
        """,
    ),
    bad(
        "A6",
        "before the last send of an end that nobody knows",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        c1 poll x a@0
        t1 send x b@1 in bank:1
        t1 commits bank:1 ?
        c1 poll x b@1
        """,
    ),
    good(
        "A6",
        "asked for, not answered yet",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 asks bank:1
        c1 poll x a@0
        t1 committed bank:1
        """,
    ),
    good(
        "A6",
        "uncommitted on purpose",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        u1 poll x a@0
        t1 commits bank:1
        c1 poll x a@0
        """,
    ),
    # ---- [A7]: no circles
    bad(
        "A7",
        "two transactions have read each other",
        """
        t1 txn send x a@0 ; poll y b@0
        t2 txn send y b@0 ; poll x a@0
        """,
    ),
    bad(
        "A7",
        "three, over the offsets that they commit",
        """
        t1 begin one:1
        t1 send x a@0 in one:1
        t1 commit g1/m1@1 z@1 in one:1
        t1 asks one:1
        t2 begin two:1
        t2 send y b@0 in two:1
        t2 commit g2/m2@1 x@1 in two:1
        t2 asks two:1
        t3 begin three:1
        t3 send z c@0 in three:1
        t3 commit g3/m3@1 y@1 in three:1
        t3 asks three:1
        c1 poll x a@0
        c1 poll y b@0
        c1 poll z c@0
        """,
    ),
    good(
        "A7",
        "one after the other",
        """
        t1 txn send x a@0
        t2 txn poll x a@0 ; send y b@0
        t3 txn poll x a@0 ; poll y b@0
        """,
    ),
    good(
        "A7",
        "the one that closes the circle was aborted",
        """
        t1 txn send x a@0
        t2 txn send y b@0 ; poll x a@0
        t1 txn poll y b@0 ; send x c@1 !
        """,
    ),
    # ---- [A20]: all or nothing
    bad(
        "A20",
        "half of it is seen, nobody knows the end",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 send y b@0 in bank:1
        t1 commits bank:1 ?
        c1 poll x a@0
        """,
    ),
    bad(
        "A20",
        "the owner died while it committed",
        """
        t1 begin all
        t2 begin all/7
        t2 send x a@0 in all/7
        t3 begin all/8
        t3 send y b@0 in all/8
        t1 asks all all/7 all/8
        t1 crash
        c1 poll y b@0
        """,
    ),
    good(
        "A20",
        "nothing of it is seen",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 send y b@0 in bank:1
        t1 commits bank:1 ?
        """,
    ),
    good(
        "A20",
        "nobody has read that far",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 send y b@0 in bank:1
        t1 commits bank:1 ?
        c1 poll x a@0
        """,
        Rules(final_polls=False),
    ),
    good(
        "A20",
        "the losers of a shared one are not missed",
        """
        t1 begin all
        t2 begin all/7
        t2 send x a@0 in all/7
        t3 begin all/8
        t3 send y b@0 in all/8
        t1 commits all all/8
        c1 poll y b@0
        """,
    ),
    # ---- [A21]: zombies
    bad(
        "A21",
        "both instances commit in turn",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t2 begin bank:2
        t2 send x b@1 in bank:2
        t2 commits bank:2
        t1 begin bank:3
        t1 send x c@2 in bank:3
        t1 commits bank:3
        c1 poll x a@0 b@1 c@2
        """,
    ),
    bad(
        "A21",
        "what the older one sent last is seen, though it never heard",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t2 begin bank:2
        t2 send x b@1 in bank:2
        t2 commits bank:2
        t1 begin bank:3
        t1 send x c@2 in bank:3
        t1 asks bank:3
        c1 poll x a@0 b@1 c@2
        """,
    ),
    good(
        "A21",
        "one after the other",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t2 begin bank:2
        t2 send x b@1 in bank:2
        t2 commits bank:2
        t1 begin bank:3
        t1 send x c@2 in bank:3
        t1 commits bank:3 !
        c1 poll x a@0 b@1
        """,
    ),
    good(
        "A21",
        "they commit at the same time",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t1 begin bank:3
        t1 send x c@1 in bank:3
        t1 asks bank:3
        t2 begin bank:2
        t2 send x b@2 in bank:2
        t2 commits bank:2
        t1 committed bank:3
        c1 poll x a@0 c@1 b@2
        """,
    ),
    good(
        "A21",
        "two ids",
        """
        t1 begin bank:1
        t1 send x a@0 in bank:1
        t1 commits bank:1
        t2 begin shop:2
        t2 send x b@1 in shop:2
        t2 commits shop:2
        t1 begin bank:3
        t1 send x c@2 in bank:3
        t1 commits bank:3
        c1 poll x a@0 b@1 c@2
        """,
    ),
    # ---- [A22]: copies
    bad(
        "A22",
        "an input was copied twice",
        """
        p1 send y a@0
        c1 poll y a@0
        t1 begin copy:1
        t1 send x b<g:y:0@0 in copy:1
        t1 commit g/m1@1 y@1 in copy:1
        t1 commits copy:1
        t2 begin copy:2
        t2 send x c<g:y:0@1 in copy:2
        t2 commits copy:2
        c1 poll x b<g:y:0@0 c<g:y:0@1
        """,
    ),
    bad(
        "A22",
        "the offset was committed, the copy is not there",
        """
        p1 send y a@0
        c1 poll y a@0
        t1 begin copy:1
        t1 commit g/m1@1 y@1 in copy:1
        t1 commits copy:1
        """,
    ),
    bad(
        "A22",
        "the copy is there, the offset was not committed",
        """
        p1 send y a@0
        c1 commit g/m1@1 y@0
        c1 poll y a@0
        t1 begin copy:1
        t1 send x b<g:y:0@0 in copy:1
        t1 commits copy:1
        c1 poll x b<g:y:0@0
        c2 committed g y@0
        """,
    ),
    bad(
        "A22",
        "copies out of order",
        """
        p1 send y a@0 b@1
        c1 poll y a@0 b@1
        t1 begin copy:1
        t1 send x d<g:y:1@0 in copy:1
        t1 send x c<g:y:0@1 in copy:1
        t1 commit g/m1@1 y@2 in copy:1
        t1 commits copy:1
        c1 poll x d<g:y:1@0 c<g:y:0@1
        """,
    ),
    good(
        "A22",
        "an attempt was aborted, and done again",
        """
        p1 send y a@0
        c1 poll y a@0
        t1 begin copy:1
        t1 send x b<g:y:0@0 in copy:1
        t1 commit g/m1@1 y@1 in copy:1
        t1 aborted copy:1
        t2 begin copy:2
        t2 send x c<g:y:0@1 in copy:2
        t2 commit g/m2@2 y@1 in copy:2
        t2 commits copy:2
        c1 poll x c<g:y:0@1
        c2 committed g y@1
        """,
    ),
    good(
        "A22",
        "a producer commits offsets of its own making, and copies nothing",
        """
        p1 send y a@0
        c1 poll y a@0
        t1 begin ledger:1
        t1 commit g y@1 in ledger:1
        t1 commits ledger:1
        c2 committed g y@1
        """,
    ),
    good(
        "A22",
        "two groups copy apart",
        """
        p1 send y a@0
        c1 poll y a@0
        t1 begin one:1
        t1 send x b<g:y:0@0 in one:1
        t1 commit g/m1@1 y@1 in one:1
        t1 commits one:1
        t2 begin two:2
        t2 send x c<h:y:0@1 in two:2
        t2 commit h/m2@2 y@1 in two:2
        t2 commits two:2
        c1 poll x b<g:y:0@0 c<h:y:0@1
        """,
    ),
    # ---- [A31]: money
    bad(
        "A31",
        "what was taken did not arrive",
        """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 send y b=5@0 in bank:1
        t1 commits bank:1 ?
        c1 poll x a=-5@0
        """,
        "A20",
    ),
    bad(
        "A31",
        "a transaction that creates money",
        """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 send y b=6@0 in bank:1
        t1 commits bank:1
        c1 poll x a=-5@0
        c1 poll y b=6@0
        """,
    ),
    bad(
        "A31",
        "booked twice",
        """
        t1 txn send x a=-5@0 ; send y b=5@0
        c1 poll x a=-5@0 a=-5@1
        c1 poll y b=5@0
        """,
    ),
    good(
        "A31",
        "it only moves",
        """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 send y b=5@0 in bank:1
        t1 commits bank:1
        c1 poll x a=-5@0
        c1 poll y b=5@0
        """,
    ),
    good(
        "A31",
        "half a transfer, aborted",
        """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 aborted bank:1
        """,
    ),
    # ---- [A24], [A15]: offsets that were not committed count for nothing
    good(
        "A24",
        "an aborted commit does not move the group",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        t1 begin copy:1
        t1 commit g/m1@1 x@5 in copy:1
        t1 aborted copy:1
        c2 committed g x@1
        """,
    ),
    bad(
        "A24",
        "it did",
        """
        c1 assigned g/m1@1 x
        c1 commit g/m1@1 x@1
        t1 begin copy:1
        t1 commit g/m1@1 x@5 in copy:1
        t1 aborted copy:1
        c2 committed g x@5
        """,
    ),
    good(
        "A24",
        "the answer to the commit came late",
        """
        t1 begin copy:1
        t1 commit g/m1@1 x@5 in copy:1
        t1 asks copy:1
        c2 committed g x@-
        c2 committed g x@5
        t1 committed copy:1
        """,
    ),
    bad(
        "A24",
        "a committed transaction was forgotten",
        """
        t1 begin copy:1
        t1 commit g/m1@1 x@5 in copy:1
        t1 commits copy:1
        c2 committed g x@-
        """,
    ),
]


@pytest.mark.parametrize("case", STORIES, ids=lambda case: f"{case.anomaly}-{case.name}")
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


def test_there_are_enough_stories() -> None:
    assert_enough(STORIES, (5, 6, 7, 20, 21, 22, 31))


OPEN = Open(7, 0, 5)


@pytest.mark.parametrize("partitions", [{X: [OPEN]}, {X: [], Y: [OPEN, Open(8, 3, 9)]}])
def test_what_is_open_in_the_end_is_found(partitions: dict[tuple[str, int], list[Open]]) -> None:
    found = transactions_are_decided.check(partitions, Rules())
    assert [violation.anomaly for violation in found] == ["A28"]
    assert "producer 7 epoch 0 since offset 5" in str(found[0])
    assert verdict(story("p1 send x a !"), Rules(), undecided=partitions) == found


@pytest.mark.parametrize(
    ("partitions", "rules"),
    [({X: [], Y: []}, Rules()), ({X: [OPEN]}, Rules(loss_permitted=True))],
)
def test_what_is_decided_is_accepted(
    partitions: dict[tuple[str, int], list[Open]], rules: Rules
) -> None:
    assert transactions_are_decided.check(partitions, rules) == []


def test_at_read_uncommitted_nothing_is_promised() -> None:
    text = """
        t1 begin bank:1
        t1 send x a=-5@0 in bank:1
        t1 aborted bank:1
        c1 poll x a=-5@0
        """
    assert verdict(story(text), UNCOMMITTED) == []


def test_values_say_what_they_are() -> None:
    value = copy_of(b"o/1/copier/3", "g1", ("t", 2), 17)
    assert copied(value) == ("g1", ("t", 2), 17)
    assert copied(b"o/1/copier/3/") is None
    assert amount_of(booking_of(b"b/0/bank/4", -12) + b"....") == -12
    assert amount_of(b"b/0/bank/4") is None
