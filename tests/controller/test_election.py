"""Who leads: tables of decisions, and properties over all small clusters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.election import (
    Candidates,
    Decision,
    elect,
    elect_first,
    elect_for_shutdown,
    elect_preferred,
    elect_unclean,
)
from oncelog_controller.state import PartitionState


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(leader, 5, isr, 1, 3)


def seen(
    registered: set[int],
    suspected: set[int] = frozenset(),  # type: ignore[assignment]
    restarted: set[int] = frozenset(),  # type: ignore[assignment]
    stopping: set[int] = frozenset(),  # type: ignore[assignment]
    **loads: int,
) -> Candidates:
    return Candidates(
        frozenset(registered),
        frozenset(suspected),
        frozenset(stopping),
        frozenset(restarted),
        {int(key.removeprefix("b")): value for key, value in loads.items()},
    )


ALL = {1, 2, 3}
TABLE: list[tuple[str, PartitionState, Candidates, int, bool, Decision | None]] = [
    ("all is well", state(1, 1, 2, 3), seen(ALL), 1, False, None),
    ("leader gone", state(1, 1, 2, 3), seen({2, 3}), 1, False, Decision(2, (2, 3))),
    ("follower gone", state(1, 1, 2, 3), seen({1, 3}), 1, False, Decision(1, (1, 3))),
    (
        "the one that leads least",
        state(1, 1, 2, 3),
        seen({2, 3}, b2=5, b3=1),
        1,
        False,
        Decision(3, (2, 3)),
    ),
    ("last member gone", state(3, 3), seen({1, 2}), 1, False, Decision(-1, (3,))),
    ("last member still gone", state(-1, 3), seen({1, 2}), 1, False, None),
    ("all gone", state(1, 1, 2), seen({3}), 1, False, Decision(-1, (1, 2))),
    ("a member is back", state(-1, 1, 2), seen({2, 3}), 1, False, Decision(2, (2,))),
    ("unclean", state(3, 3), seen({1, 2}), 1, True, Decision(1, (1,), unclean=True)),
    ("unclean is not needed", state(1, 1, 2), seen({2, 3}), 1, True, Decision(2, (2,))),
    ("unclean waits for a suspect", state(-1, 3), seen(ALL, {3}), 1, True, None),
    ("leader suspected", state(1, 1, 2, 3), seen(ALL, {1}), 1, False, Decision(2, (2, 3))),
    ("follower suspected", state(1, 1, 2, 3), seen(ALL, {2}), 2, False, Decision(1, (1, 3))),
    ("suspect kept for min ISR", state(1, 1, 2), seen(ALL, {2}), 2, False, None),
    ("leader suspected at min ISR", state(1, 1, 2), seen(ALL, {1}), 2, False, Decision(2, (1, 2))),
    ("only suspects", state(1, 1, 2), seen(ALL, {1, 2}), 1, False, None),
    ("sole leader suspected", state(1, 1), seen(ALL, {1}), 1, False, None),
    (
        "leader restarted",
        state(1, 1, 2, 3),
        seen(ALL, restarted={1}),
        1,
        False,
        Decision(2, (2, 3)),
    ),
    (
        "follower restarted",
        state(1, 1, 2, 3),
        seen(ALL, restarted={2}),
        1,
        False,
        Decision(1, (1, 3)),
    ),
    ("all restarted", state(1, 1, 2), seen(ALL, restarted={1, 2}), 1, False, Decision(1, (1, 2))),
    ("sole leader restarted", state(1, 1), seen(ALL, restarted={1}), 1, False, Decision(1, (1,))),
    (
        "restarted, the rest suspected",
        state(1, 1, 2),
        seen(ALL, {1}, {2}),
        1,
        False,
        Decision(2, (2,)),
    ),
    (
        "stopping brokers do not take over",
        state(1, 1, 2, 3),
        seen({2, 3}, stopping={2}),
        1,
        False,
        Decision(3, (2, 3)),
    ),
    ("a stopping leader goes on", state(1, 1, 2), seen(ALL, stopping={1}), 1, False, None),
]


@pytest.mark.parametrize(
    ("label", "before", "candidates", "min_isr", "unclean", "wanted"),
    TABLE,
    ids=[row[0] for row in TABLE],
)
def test_decisions(
    label: str,
    before: PartitionState,
    candidates: Candidates,
    min_isr: int,
    unclean: bool,
    wanted: Decision | None,
) -> None:
    decision = elect([1, 2, 3], before, candidates, min_isr=min_isr, unclean=unclean)
    assert decision == wanted, label


brokers = st.frozensets(st.integers(1, 5))


@given(
    replicas=st.permutations(range(1, 6)).flatmap(
        lambda order: st.integers(1, 5).map(lambda count: order[:count])
    ),
    data=st.data(),
    registered=brokers,
    suspected=brokers,
    stopping=brokers,
    restarted=brokers,
    min_isr=st.integers(1, 3),
    unclean=st.booleans(),
)
def test_properties(
    replicas: list[int],
    data: st.DataObject,
    registered: frozenset[int],
    suspected: frozenset[int],
    stopping: frozenset[int],
    restarted: frozenset[int],
    min_isr: int,
    unclean: bool,
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = data.draw(st.sampled_from([-1, *isr]))
    candidates = Candidates(registered, suspected, stopping, restarted)
    before = PartitionState(leader, 1, isr, 1, 1)
    decision = elect(replicas, before, candidates, min_isr=min_isr, unclean=unclean)
    if decision is None:
        assert leader == -1 or leader in registered
        return
    assert decision.isr
    assert decision.leader == -1 or decision.leader in decision.isr
    assert set(decision.isr) <= set(replicas)
    if not decision.unclean:
        assert set(decision.isr) <= set(isr)
    else:
        assert unclean
        assert not set(isr) & registered
    if decision.leader not in (-1, leader):
        assert candidates.able(decision.leader)
    if decision.leader == -1:
        assert not any(candidates.able(b) for b in isr)
    after = PartitionState(decision.leader, 2, decision.isr, 1, 2)
    calm = Candidates(registered, suspected, stopping)
    again = elect(replicas, after, calm, min_isr=min_isr, unclean=unclean)
    if not restarted:
        assert again is None, "a decision stands until something changes"


def test_first_leaders() -> None:
    assert elect_first([3, 1, 2], seen({1, 2, 3}, {3})) == Decision(1, (1, 2))
    assert elect_first([3], seen({1})) is None


def test_preferred_leaders() -> None:
    assert elect_preferred([1, 2], state(2, 1, 2), seen(ALL)) == Decision(1, (1, 2))
    assert elect_preferred([1, 2], state(1, 1, 2), seen(ALL)) is None
    assert elect_preferred([1, 2], state(2, 2), seen(ALL)) is None
    assert elect_preferred([1, 2], state(2, 1, 2), seen(ALL, {1})) is None
    assert elect_preferred([1, 2], state(2, 1, 2), seen({2})) is None


def test_shutdown() -> None:
    stopping = seen(ALL, stopping={1})
    assert elect_for_shutdown([1, 2, 3], state(1, 1, 2), stopping, 1) == Decision(2, (2,))
    assert elect_for_shutdown([1, 2, 3], state(2, 1, 2), stopping, 1) == Decision(2, (2,))
    assert elect_for_shutdown([1, 2, 3], state(1, 1), stopping, 1) is None
    assert elect_for_shutdown([1, 2, 3], state(2, 2), stopping, 1) is None
    assert elect_for_shutdown([1, 2, 3], state(-1, 1), stopping, 1) is None


def test_unclean() -> None:
    assert elect_unclean([1, 2], state(1, 1), seen(ALL)) is None
    assert elect_unclean([1, 2], state(-1, 1), seen({2})) == Decision(2, (2,), unclean=True)
    assert elect_unclean([1, 2], state(-1, 1, 2), seen({2})) == Decision(2, (2,))
    assert elect_unclean([1, 2], state(-1, 1), seen(set())) is None
