"""Tables of decisions say who leads, and properties hold over all small clusters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.election import (
    Candidates,
    Decision,
    elect,
    elect_first,
    elect_for_drain,
    elect_for_shutdown,
    elect_preferred,
    elect_unclean,
)
from oncelog_controller.state import PartitionState


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(leader, 5, isr, 1, 3)


def state_with(
    leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionState:
    return PartitionState(leader, 5, isr, 1, 3, elr, last)


def seen(
    registered: set[int],
    suspected: set[int] = frozenset(),  # type: ignore[assignment]
    restarted: set[int] = frozenset(),  # type: ignore[assignment]
    stopping: set[int] = frozenset(),  # type: ignore[assignment]
    untrusted: set[int] = frozenset(),  # type: ignore[assignment]
    **loads: int,
) -> Candidates:
    return Candidates(
        frozenset(registered),
        frozenset(suspected),
        frozenset(stopping),
        frozenset(restarted),
        {int(key.removeprefix("b")): value for key, value in loads.items()},
        frozenset(untrusted),
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
    # ---- ELR
    (
        "who leaves an ISR below min ISR stays eligible",
        state(1, 1, 2),
        seen({1, 3}),
        2,
        False,
        Decision(1, (1,), (2,)),
    ),
    (
        "the leader of an ISR below min ISR is gone: the ELR leads",
        state_with(1, (1,), (2, 3)),
        seen({2, 3}, b2=1),
        2,
        False,
        Decision(3, (3,), (1, 2)),
    ),
    (
        "the ELR is away, too",
        state_with(1, (1,), (2,)),
        seen({3}),
        2,
        False,
        Decision(-1, (1,), (2,)),
    ),
    ("and still is", state_with(-1, (1,), (2,)), seen({3}), 2, False, None),
    (
        "the first of them that is back leads",
        state_with(-1, (1,), (2,)),
        seen({2, 3}),
        2,
        False,
        Decision(2, (2,), (1,)),
    ),
    (
        "the ISR goes before the ELR",
        state_with(-1, (1,), (2,)),
        seen(ALL),
        2,
        False,
        Decision(1, (1,), (2,)),
    ),
    (
        "a suspected leader gives way to the ELR",
        state_with(1, (1,), (2,)),
        seen(ALL, {1}),
        2,
        False,
        Decision(2, (2,), (1,)),
    ),
    (
        "a suspect of the ELR does not lead",
        state_with(1, (1,), (2,)),
        seen(ALL, {1, 2}),
        2,
        False,
        None,
    ),
    (
        "min ISR was lowered: no ELR beside it",
        state_with(1, (1,), (2,)),
        seen(ALL),
        1,
        False,
        Decision(1, (1,)),
    ),
    # ---- data lost
    (
        "a follower without its data leaves the ISR",
        state(1, 1, 2, 3),
        seen(ALL, untrusted={3}),
        2,
        False,
        Decision(1, (1, 2)),
    ),
    (
        "a leader without its data does not lead",
        state(1, 1, 2, 3),
        seen(ALL, untrusted={1}),
        2,
        False,
        Decision(2, (2, 3)),
    ),
    (
        "below min ISR it is known as the last that was complete",
        state(1, 1, 2),
        seen(ALL, untrusted={1}),
        2,
        False,
        Decision(2, (2,), (), (1,)),
    ),
    (
        "the sole member without its data: nobody leads",
        state(1, 1),
        seen(ALL, untrusted={1}),
        1,
        False,
        Decision(-1, (), (), (1,)),
    ),
    (
        "and nobody goes on leading",
        state_with(-1, (), (), (1,)),
        seen(ALL, untrusted={1}),
        1,
        False,
        None,
    ),
    (
        "the ELR leads in its place",
        state_with(1, (1,), (2, 3)),
        seen(ALL, untrusted={1}),
        2,
        False,
        Decision(2, (2,), (3,), (1,)),
    ),
    (
        "who is away may come back complete: waited for",
        state_with(1, (1,), (2,)),
        seen({1, 3}, untrusted={1}),
        2,
        False,
        Decision(-1, (), (2,), (1,)),
    ),
    (
        "lost data that is found again",
        state_with(-1, (), (), (1,)),
        seen(ALL),
        1,
        False,
        Decision(1, (1,)),
    ),
    (
        "found in the ELR",
        state_with(2, (2,), (), (1,)),
        seen(ALL),
        2,
        False,
        Decision(2, (2,), (1,)),
    ),
    (
        "unclean, the last known first",
        state_with(-1, (), (), (3,)),
        seen(ALL, untrusted={3}, b3=9),
        2,
        True,
        Decision(3, (3,), unclean=True),
    ),
    (
        "unclean, not for those who are complete",
        state_with(1, (1,), (2,)),
        seen(ALL, untrusted={1}),
        2,
        True,
        Decision(2, (2,), (), (1,)),
    ),
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
    untrusted=brokers,
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
    untrusted: frozenset[int],
    min_isr: int,
    unclean: bool,
) -> None:
    min_isr = min(min_isr, len(replicas))
    isr = tuple(data.draw(st.lists(st.sampled_from(replicas), unique=True)))
    others = [b for b in replicas if b not in isr] if len(isr) < min_isr else []
    kinds = data.draw(st.tuples(*(st.sampled_from(["", "elr", "last"]) for _ in others)))
    elr, last = (
        tuple(b for b, kind in zip(others, kinds, strict=True) if kind == wanted)
        for wanted in ("elr", "last")
    )
    leader = data.draw(st.sampled_from([-1, *isr]))
    untrusted &= registered
    candidates = Candidates(registered, suspected, stopping, restarted, untrusted=untrusted)
    before = PartitionState(leader, 1, isr, 1, 1, elr, last)
    decision = elect(replicas, before, candidates, min_isr=min_isr, unclean=unclean)
    complete = {*isr, *elr} - untrusted | ({*last} & registered) - untrusted
    if decision is None:
        assert leader == -1 or leader in registered
        assert not {*isr, *elr} & untrusted
        return
    assert decision.isr or decision.leader == -1
    assert decision.leader == -1 or decision.leader in decision.isr
    members = [*decision.isr, *decision.elr, *decision.last_known_elr]
    assert len(set(members)) == len(members)
    assert set(members) <= set(replicas)
    if len(decision.isr) >= min_isr:
        assert not decision.elr
        assert not decision.last_known_elr
    if not decision.unclean:
        assert {*decision.isr, *decision.elr} <= complete
        if len(decision.isr) < min_isr:
            assert {*decision.isr, *decision.elr} == complete, "nobody complete is forgotten"
    else:
        assert unclean
        assert not complete & registered
    if decision.leader not in (-1, leader):
        assert candidates.able(decision.leader)
    if decision.leader == -1:
        assert not any(candidates.able(b) for b in complete)
    after = PartitionState(decision.leader, 2, decision.isr, 1, 2, *_rest(decision))
    lost = untrusted - {decision.leader} if decision.unclean else untrusted
    calm = Candidates(registered, suspected, stopping, untrusted=lost)
    again = elect(replicas, after, calm, min_isr=min_isr, unclean=unclean)
    if not restarted:
        assert again is None, "a decision stands until something changes"


def _rest(decision: Decision) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return decision.elr, decision.last_known_elr


def test_first_leaders() -> None:
    assert elect_first([3, 1, 2], seen({1, 2, 3}, {3})) == Decision(1, (1, 2))
    assert elect_first([3], seen({1})) is None


def test_preferred_leaders() -> None:
    assert elect_preferred([1, 2], state(2, 1, 2), seen(ALL)) == Decision(1, (1, 2))
    assert elect_preferred([1, 2], state(1, 1, 2), seen(ALL)) is None
    assert elect_preferred([1, 2], state(2, 2), seen(ALL)) is None
    assert elect_preferred([1, 2], state(2, 1, 2), seen(ALL, {1})) is None
    assert elect_preferred([1, 2], state(2, 1, 2), seen({2})) is None


def test_who_drains_leads_only_what_nobody_else_in_the_isr_can() -> None:
    draining = replace(seen(ALL, b2=9), draining=frozenset({1, 3}))
    assert elect_first([1, 2, 3], draining) == Decision(2, (1, 2, 3))
    assert elect_first([1, 3], draining) == Decision(1, (1, 3))
    assert elect_preferred([1, 2], state(2, 1, 2), draining) is None
    lost = replace(seen({2, 3}, b2=9), draining=frozenset({3}))
    assert elect([1, 2, 3], state(1, 1, 2, 3), lost, min_isr=1, unclean=False) == Decision(
        2, (2, 3)
    ), "whatever the others lead"
    beside_elr = state_with(1, (1, 3), (2,))
    assert elect([1, 2, 3], beside_elr, lost, min_isr=3, unclean=False) == Decision(3, (3,), (1, 2))


def test_who_drains_gives_up_what_it_leads() -> None:
    draining = replace(seen(ALL, b2=9), draining=frozenset({1}))
    give_up = partial(elect_for_drain, [1, 2, 3], candidates=draining)
    assert give_up(state(1, 1, 2, 3)) == Decision(3, (1, 2, 3)), "all stay in the ISR"
    assert give_up(state(1, 1, 2, 3), named=2) == Decision(2, (1, 2, 3)), "it gets ready to lead"
    assert give_up(state(1, 1, 3), named=2) == Decision(3, (1, 3))
    assert give_up(state_with(1, (1, 2), (3,))) == Decision(2, (1, 2), (3,))
    assert give_up(state(1, 1)) is None
    assert give_up(state_with(1, (1,), (3,))) is None, "the ELR is not asked"
    assert give_up(state(2, 1, 2)) is None
    assert give_up(state(-1, 1, 2)) is None
    both = replace(draining, draining=frozenset({1, 2}))
    assert elect_for_drain([1, 2], state(1, 1, 2), both) is None
    suspected = replace(seen(ALL, {2}), draining=frozenset({1}))
    assert elect_for_drain([1, 2], state(1, 1, 2), suspected) is None


def test_shutdown() -> None:
    def stop(before: PartitionState, min_isr: int = 1) -> Decision | None:
        stopping = seen(ALL, stopping={1})
        return elect_for_shutdown([1, 2, 3], before, stopping, 1, min_isr=min_isr)

    assert stop(state(1, 1, 2)) == Decision(2, (2,))
    assert stop(state(2, 1, 2)) == Decision(2, (2,))
    assert stop(state(1, 1)) is None
    assert stop(state(2, 2)) is None
    assert stop(state(-1, 1)) is None
    assert stop(state(1, 1, 2), 2) == Decision(2, (2,), (1,))
    assert stop(state_with(1, (1,), (3,)), 2) == Decision(3, (3,), (1,)), "the ELR can take over"


def test_unclean() -> None:
    def usurp(before: PartitionState, candidates: Candidates, min_isr: int = 1) -> Decision | None:
        return elect_unclean([1, 2], before, candidates, min_isr=min_isr)

    assert usurp(state(1, 1), seen(ALL)) is None
    assert usurp(state(-1, 1), seen({2})) == Decision(2, (2,), unclean=True)
    assert usurp(state(-1, 1, 2), seen({2})) == Decision(2, (2,))
    assert usurp(state(-1, 1), seen(set())) is None
    assert usurp(state_with(-1, (1,), (2,)), seen({2}), 2) == Decision(2, (2,), (1,))
    lost = seen(ALL, untrusted={2}, b2=9)
    assert usurp(state_with(-1, (), (), (2,)), lost) == Decision(2, (2,), unclean=True)
