"""[I16] and [K2] are tried on records that were written down."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    SavedShared,
    SavedTransaction,
    SavedWriter,
    WriterFact,
)
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_protocol.types import TopicPartition
from simulation.store_view import InvariantViolation
from simulation.txn_state_invariants import TxnStateInvariants

S = TxnState
X = TopicPartition("x", 0)


def saved(state: TxnState, pair: tuple[int, int], marker: tuple[int, int] = (-1, -1)) -> IdFact:
    return IdFact("bank", SavedTransaction(state, *pair, 1000, -1, 0, *marker))


COURSE = [
    saved(S.EMPTY, (7, 0)),
    saved(S.ONGOING, (7, 0)),
    saved(S.ONGOING, (7, 0)),
    saved(S.PREPARE_COMMIT, (7, 1), (7, 1)),
    saved(S.COMPLETE_COMMIT, (7, 1), (7, 1)),
    saved(S.ONGOING, (7, 1), (7, 1)),
    saved(S.PREPARE_ABORT, (7, 2), (7, 2)),
    saved(S.COMPLETE_ABORT, (7, 2), (7, 2)),
    saved(S.EMPTY, (7, 3)),
    IdFact("bank", None),
    saved(S.EMPTY, (8, 0)),
]


def numbered(state: TxnState, number: int) -> IdFact:
    return IdFact("bank", SavedTransaction(state, 7, 0, 1000, -1, 0, 7, 0, number=number))


NUMBERED = [
    saved(S.EMPTY, (7, 0)),
    numbered(S.ONGOING, 1),
    numbered(S.PREPARE_COMMIT, 1),
    numbered(S.COMPLETE_COMMIT, 1),
    numbered(S.ONGOING, 2),
    numbered(S.PREPARE_ABORT, 2),
]


def taken(*facts: IdFact) -> TxnStateInvariants:
    invariants = TxnStateInvariants()
    for fact in facts:
        invariants.take(fact)
    return invariants


def test_a_right_course_passes() -> None:
    invariants = taken(*COURSE)
    assert invariants.prepared == {(7, 1): True, (7, 2): False}
    invariants.check_markers({(7, 1): (True, X), (7, 2): (False, X)}, over=True)


def test_a_right_course_of_numbers_passes() -> None:
    invariants = taken(*NUMBERED)
    assert invariants.prepared == {(7, 0, 1): True, (7, 0, 2): False}
    invariants.check_markers({(7, 0, 1): (True, X), (7, 0, 2): (False, X)}, over=True)


BAD = {
    "a number again": [*NUMBERED[:4], numbered(S.ONGOING, 1)],
    "a number left out": [*NUMBERED[:4], numbered(S.ONGOING, 3)],
    "a number that changes at the end": [*NUMBERED[:2], numbered(S.PREPARE_COMMIT, 2)],
    "from nothing to its end": [saved(S.PREPARE_COMMIT, (7, 1), (7, 1))],
    "complete without prepare": [*COURSE[:2], saved(S.COMPLETE_COMMIT, (7, 0))],
    "prepared both ways": [*COURSE[:4], saved(S.PREPARE_ABORT, (7, 2), (7, 2))],
    "dropped while open": [*COURSE[:2], IdFact("bank", None)],
    "no new epoch at the end": [*COURSE[:2], saved(S.PREPARE_COMMIT, (7, 0), (7, 0))],
    "no new epoch for the next instance": [COURSE[0], COURSE[0]],
    "a new epoch in the middle": [*COURSE[:2], saved(S.ONGOING, (7, 1))],
    "an epoch goes back": [saved(S.EMPTY, (7, 5)), saved(S.EMPTY, (7, 4))],
    "somebody else's producer": [COURSE[0], COURSE[0]._replace(transactional_id="shop")],
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_course_is_found(name: str) -> None:
    with pytest.raises(InvariantViolation, match="I16: transactional id"):
        taken(*BAD[name])


@pytest.mark.parametrize(
    ("marker", "over"), [((False, X), False), ((False, X), True), ((True, X), True)]
)
def test_a_marker_that_nobody_prepared_is_found(
    marker: tuple[bool, TopicPartition], over: bool
) -> None:
    pair = (7, 1) if not marker[0] else (9, 1)
    with pytest.raises(InvariantViolation, match="K2"):
        taken(*COURSE).check_markers({pair: marker}, over=over)


def test_before_the_end_its_record_may_not_have_been_seen() -> None:
    taken(*COURSE).check_markers({(9, 1): (True, X)})


def test_a_shared_one_names_its_winners() -> None:
    invariants = TxnStateInvariants()
    opened = SavedShared(S.ONGOING, 3, 5, 1000)
    invariants.take(IdFact("all", opened))
    for producer_id in (11, 12):
        invariants.take_writer(WriterFact("all", producer_id, SavedWriter(3, f"w{producer_id}")))
    invariants.take(IdFact("all", opened._replace(state=S.PREPARE_COMMIT, winners=(12,))))
    assert invariants.prepared == {(11, 1): False, (12, 1): True}
    with pytest.raises(InvariantViolation, match="K2"):
        invariants.check_markers({(11, 1): (True, X)})
    with pytest.raises(InvariantViolation, match="both ordinary and shared"):
        invariants.take(IdFact("all", SavedTransaction(S.COMPLETE_COMMIT, 7, 0, 1000)))
