"""The table names where each state leads; each is left."""

from __future__ import annotations

import itertools

import pytest

from oncelog_broker.coordinator.transaction.states import (
    FIRST_STATES,
    RULES,
    Act,
    IllegalTxnTransitionError,
    TxnState,
    check_transition,
)

LEGAL = {
    "Empty": "Empty Ongoing PrepareAbort Dead",
    "Ongoing": "Ongoing PrepareCommit PrepareAbort",
    "PrepareCommit": "CompleteCommit",
    "PrepareAbort": "CompleteAbort",
    "CompleteCommit": "Empty Ongoing PrepareAbort Dead",
    "CompleteAbort": "Empty Ongoing PrepareAbort Dead",
    "Dead": "",
}


@pytest.mark.parametrize(("old", "new"), [*itertools.product(TxnState, TxnState)])
def test_every_pair_of_states(old: TxnState, new: TxnState) -> None:
    if new.label in LEGAL[old.label].split():
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTxnTransitionError, match=f"from {old.label} to {new.label}"):
            check_transition(old, new)


@pytest.mark.parametrize("new", TxnState)
def test_what_an_unknown_id_may_become(new: TxnState) -> None:
    if new in FIRST_STATES:
        check_transition(None, new)
    else:
        with pytest.raises(IllegalTxnTransitionError, match="from nothing"):
            check_transition(None, new)


@pytest.mark.parametrize("state", TxnState)
def test_acts_lead_to_states_that_may_follow(state: TxnState) -> None:
    rules = RULES[state]
    leads = {
        Act.BEGIN: TxnState.ONGOING,
        Act.ADD: TxnState.ONGOING,
        Act.BUMP: TxnState.EMPTY,
    }
    for act in (rules.add, rules.init):
        if act in leads:
            check_transition(state, leads[act])
    for act, prepared in (
        (rules.commit, TxnState.PREPARE_COMMIT),
        (rules.abort, TxnState.PREPARE_ABORT),
        (rules.init, TxnState.PREPARE_ABORT),
    ):
        if act is Act.PREPARE:
            check_transition(state, prepared)


def test_every_state_but_the_last_is_left_without_anybody_asking() -> None:
    assert {state.label: rules.left_by for state, rules in RULES.items()} == {
        "Empty": "expiry",
        "Ongoing": "time-out",
        "PrepareCommit": "markers",
        "PrepareAbort": "markers",
        "CompleteCommit": "expiry",
        "CompleteAbort": "expiry",
        "Dead": "nothing",
    }


def test_the_numbers_in_the_log_stay() -> None:
    assert [state.name for state in sorted(TxnState)] == [
        "EMPTY",
        "ONGOING",
        "PREPARE_COMMIT",
        "PREPARE_ABORT",
        "COMPLETE_COMMIT",
        "COMPLETE_ABORT",
        "DEAD",
    ]


def test_kinds_of_states() -> None:
    assert [s.label for s in TxnState if s.is_prepared] == ["PrepareCommit", "PrepareAbort"]
    assert [s.label for s in TxnState if s.is_complete] == ["CompleteCommit", "CompleteAbort"]
    assert [s.label for s in TxnState if s.is_committed] == ["PrepareCommit", "CompleteCommit"]
