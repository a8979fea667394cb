"""Checkers of what became of writes are tried on hand-made histories.

Many of the stories are after the tests of Jepsen's Kafka workload.
"""

from __future__ import annotations

import pytest

from simulation.checkers.violation import Rules
from simulation.stories import Case, assert_enough, assert_found, bad, good

EXACTLY_ONCE = Rules(idempotent=True)
TOLD = Rules(idempotent=True, offsets_told=True)
LOSSY = Rules(loss_permitted=True)
WEAK = Rules(acks_all=False)
X = ("x", 0)

WRITES = [
    # ---- [A1]: one value at an offset
    bad(
        "A1",
        "two readers see different values",
        """
        p1 send x a@0
        p2 send x b ?
        c1 poll x a@0
        c2 poll x b@0
        """,
    ),
    bad(
        "A1",
        "what was read once is another value later",
        """
        p1 send x a@0 b@1
        p2 send x c ?
        c1 poll x a@0 b@1
        c1 seek x 0
        c1 poll x c@0 b@1
        """,
    ),
    bad(
        "A1",
        "two acknowledgements at one offset",
        """
        p1 send x a@0
        p2 send x b@0
        c1 poll x a@0
        c2 poll x b@0
        """,
    ),
    bad(
        "A1",
        "an acknowledged value was overwritten",
        """
        p1 send x a@0
        p2 send x b ?
        c1 poll x b@0
        """,
        "A3",
    ),
    good(
        "A1",
        "all see the same, and partitions count apart",
        """
        p1 send x a@0
        p1 send y a@0
        c1 poll x a@0
        c2 poll x a@0
        c2 poll y a@0
        """,
    ),
    good(
        "A1",
        "acks=1: the leader died with what it had acknowledged",
        """
        p1 send x a@0
        p2 send x b@0
        c1 poll x b@0
        """,
        WEAK,
    ),
    good(
        "A1",
        "power failed, with flush=interval: records that were read are gone",
        """
        p1 send x a@0
        c1 poll x a@0
        c1 truncated x 0
        p1 send x b@0
        c1 poll x b@0
        """,
        LOSSY,
    ),
    # ---- [A2]: no duplicates
    bad(
        "A2",
        "a retry stored a batch again",
        """
        p1 send x a@0 b@1
        c1 poll x a@0 b@1 a@2 b@3
        """,
        rules=EXACTLY_ONCE,
    ),
    bad(
        "A2",
        "the second copy comes after other records",
        """
        p1 send x a@0
        p2 send x b@1
        c1 poll x a@0
        c1 poll x b@1 a@2
        """,
        rules=EXACTLY_ONCE,
    ),
    good(
        "A2",
        "one copy, read twice",
        """
        p1 send x a@0
        c1 poll x a@0
        c1 seek x 0
        c1 poll x a@0
        c2 poll x a@0
        """,
        EXACTLY_ONCE,
    ),
    good(
        "A2",
        "producers are not idempotent",
        """
        p1 send x a@1
        c1 poll x a@0 a@1
        """,
    ),
    # ---- [A3]: no acknowledged write is lost
    bad(
        "A3",
        "nobody reads b, though c behind it is read",
        """
        p1 send x a@0 b@1 c@2
        c1 poll x a@0
        c2 seek x 2
        c2 poll x c@2
        """,
    ),
    bad(
        "A3",
        "a batch of unknown fate is stored whole if a reader saw some of it",
        """
        p1 send x a b c ?
        c1 poll x a@0
        c2 seek x 2
        c2 poll x c@2
        """,
    ),
    bad(
        "A3",
        "a reader is told that what it has read is gone",
        """
        p1 send x a@0 b@1
        c1 poll x a@0 b@1
        c1 truncated x 1
        c1 poll x b@1
        """,
    ),
    good(
        "A3",
        "sends of unknown fate and failed ones may be missing",
        """
        p1 send x a ?
        p1 send x b !
        p2 send x c@0
        c1 poll x c@0
        """,
    ),
    good(
        "A3",
        "the run permits loss",
        """
        p1 send x a@0 b@1 c@2
        c1 poll x a@0
        c2 seek x 2
        c2 poll x c@2
        """,
        LOSSY,
    ),
    good(
        "A3",
        "retention took it before anybody came",
        """
        p1 send x a@0 b@1
        c1 found x 1
        c1 poll x b@1
        """,
        Rules(log_starts={X: 1}),
    ),
    good(
        "A3",
        "compaction took it",
        """
        p1 send x a@0 b@1 c@2
        c1 poll x a@0 c@2
        c1 seek x 0
        c1 poll x a@0
        """,
        WEAK,
        {X: [1]},
    ),
    # ---- [A4]: every acknowledged write is seen
    bad(
        "A4",
        "the tail of the log is missing",
        """
        p1 send x a@0 b@1
        c1 poll x a@0
        """,
    ),
    bad("A4", "nobody finds anything", "p1 send x a@0"),
    bad(
        "A4",
        "also of a transaction",
        """
        t1 txn send x a@0 ; send y b@0
        c1 poll x a@0
        """,
        "A20",
    ),
    good(
        "A4",
        "the run did not read to the end",
        """
        p1 send x a@0 b@1
        c1 poll x a@0
        """,
        Rules(final_polls=False),
    ),
    good(
        "A4",
        "the tail was never acknowledged",
        """
        p1 send x a@0
        p1 send x b ?
        p1 send x c !
        c1 poll x a@0
        """,
    ),
    good("A4", "acks=1 promises nothing", "p1 send x a@0", WEAK),
    # ---- [A5]: nothing failed is read
    bad(
        "A5",
        "a refused send is in the log",
        """
        p1 send x a !
        c1 poll x a@0
        """,
    ),
    bad(
        "A5",
        "an aborted transaction is visible",
        """
        t1 txn send x a ; send y b !
        c1 poll y b@0
        """,
    ),
    good(
        "A5",
        "a send of unknown fate is in the log",
        """
        p1 send x a ?
        c1 poll x a@0
        """,
    ),
    good(
        "A5",
        "aborted, and read uncommitted",
        """
        t1 txn send x a !
        c1 poll x a@0
        """,
        Rules(read_committed=False),
    ),
    # ---- [A6]: no own uncommitted read
    bad("A6", "a transaction reads its own write", "t1 txn send x a@0 ; poll x a@0"),
    bad(
        "A6",
        "among others",
        """
        p1 send y b@0
        t1 txn poll y b@0 ; send x a@0 ; poll x a@0
        """,
    ),
    good(
        "A6",
        "the next transaction reads it",
        """
        t1 txn send x a@0
        t1 txn poll x a@0 ; send y b@0
        c1 poll y b@0
        """,
    ),
    good(
        "A6",
        "read uncommitted",
        "t1 txn send x a@0 ; poll x a@0",
        Rules(read_committed=False),
    ),
    # ---- [A27]: delivered where it was written
    bad(
        "A27",
        "a record of y comes from x",
        """
        p1 send y a@0
        c1 poll y a@0
        c1 poll x y.a@0
        """,
    ),
    bad("A27", "nobody sent it", "c1 poll x ghost@0"),
    bad("A27", "its writer is unknown, but it names its partition", "c1 poll x y.a@0"),
    good(
        "A27",
        "the same name in two partitions is two values",
        """
        p1 send x a@0
        p1 send y a@0
        c1 poll x a@0
        c1 poll y a@0
        """,
    ),
    good("A27", "not all writers are known", "c1 poll x ghost@0", Rules(complete=False)),
    # ---- [A29]: acknowledged offsets are true
    bad(
        "A29",
        "acknowledged behind where it is",
        """
        p1 send x a@7
        c1 poll x a@0
        """,
    ),
    bad(
        "A29",
        "a repeat is acknowledged with a new offset",
        """
        p1 send x a@0
        p2 send x b@5
        c1 poll x a@0 b@1
        """,
        rules=EXACTLY_ONCE,
    ),
    bad(
        "A29",
        "spurious zero",
        """
        p1 send x a@0
        p2 send x b@0
        c1 poll x a@0 b@1
        """,
        "A1",
    ),
    bad(
        "A29",
        "a retry that came too late is acknowledged without an offset",
        """
        p1 send x a
        c1 poll x a@0
        """,
        rules=TOLD,
    ),
    good(
        "A29",
        "without an offset, where retries may come too late",
        """
        p1 send x a
        c1 poll x a@0
        """,
        EXACTLY_ONCE,
    ),
    good(
        "A29",
        "one of two copies is where it was acknowledged",
        """
        p1 send x a@3
        p2 send x b@1 c@2
        c1 poll x a@0 b@1 c@2 a@3
        """,
    ),
    good(
        "A29",
        "nobody has read so far yet",
        """
        p1 send x a@3
        c1 poll x a@0
        """,
        Rules(final_polls=False),
    ),
]


@pytest.mark.parametrize("case", WRITES, ids=lambda case: f"{case.anomaly}-{case.name}")
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


def test_there_are_enough_stories() -> None:
    assert_enough(WRITES, (1, 2, 3, 4, 5, 6, 27, 29))
