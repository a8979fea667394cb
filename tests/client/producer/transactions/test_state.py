"""A table says which phases a transactional producer may go through, and what each raises."""

from __future__ import annotations

import itertools

import pytest

from oncelog.errors import ProducerFencedError, TransactionAbortableError
from oncelog.producer.transactions.state import NEXT, ProducerPhase, ProducerTxnState


def at(phase: ProducerPhase) -> ProducerTxnState:
    state = ProducerTxnState()
    state.phase = phase
    return state


@pytest.mark.parametrize(("old", "new"), list(itertools.product(ProducerPhase, ProducerPhase)))
def test_only_what_the_table_allows(old: ProducerPhase, new: ProducerPhase) -> None:
    state = at(old)
    if new in NEXT[old]:
        state.move(new, ValueError())
        assert state.phase is new
    else:
        with pytest.raises(AssertionError, match=new.value):
            state.move(new)
        assert state.phase is old


def test_every_phase_but_the_last_leads_somewhere() -> None:
    reached = {ProducerPhase.UNINITIALIZED, *(phase for after in NEXT.values() for phase in after)}
    assert reached == set(ProducerPhase)
    assert [phase for phase in ProducerPhase if not NEXT[phase]] == [ProducerPhase.FATAL]
    assert all(
        ProducerPhase.FATAL in NEXT[phase]
        for phase in ProducerPhase
        if phase is not ProducerPhase.FATAL
    )


def test_what_is_fatal_is_raised_anew_each_time() -> None:
    state = at(ProducerPhase.READY)
    state.raise_if_fatal()
    cause = ProducerFencedError("by somebody")
    state.move(ProducerPhase.FATAL, cause)
    raised = []
    for _ in range(2):
        with pytest.raises(ProducerFencedError, match="by somebody") as caught:
            state.raise_if_fatal()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert raised[0].__cause__ is cause
    assert raised[0].definite
    cause.definite = False
    with pytest.raises(ProducerFencedError) as caught:
        state.raise_if_fatal()
    assert not caught.value.definite


def test_what_is_abortable_says_why_until_the_next_begins() -> None:
    state = at(ProducerPhase.OPEN)
    cause = ValueError("the reason")
    state.move(ProducerPhase.ABORTABLE, cause)
    error = state.abortable()
    assert isinstance(error, TransactionAbortableError)
    assert "the reason" in str(error)
    assert error.__cause__ is cause
    state.move(ProducerPhase.ABORTING)
    assert state.cause is cause
    state.move(ProducerPhase.READY)
    assert state.cause is None
