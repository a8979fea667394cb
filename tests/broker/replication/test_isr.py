"""The table of ISR states: what may be the true ISR is always inside the maximal one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.replication.isr import IsrState, Proposal, isr_members
from oncelog_protocol.messages.replication import IsrMember

COMMITTED = IsrState((1, 2), 5)
GROW = ((1, -1), (2, 20), (3, 30))
PENDING = COMMITTED.propose(GROW)
DOUBT = PENDING.unknown()


def test_maximal_is_committed_without_a_proposal() -> None:
    assert COMMITTED.maximal == (1, 2)


def test_maximal_counts_the_proposed_and_those_to_be_removed() -> None:
    assert PENDING.maximal == (1, 2, 3)
    assert IsrState((1, 2, 3), 5).propose([(1, -1)]).maximal == (1, 2, 3)


def test_only_one_change_at_a_time() -> None:
    with pytest.raises(ValueError):
        PENDING.propose(GROW)


@pytest.mark.parametrize(
    ("state", "answer", "expected"),
    [
        (PENDING, "success", IsrState((1, 2, 3), 6)),
        (PENDING, "superseded", IsrState((1, 2, 3), 6)),
        (PENDING, "refused", COMMITTED),
        (PENDING, "unknown", DOUBT),
        (PENDING, "retry", IsrState((1, 2), 5, Proposal(GROW, False, 1))),
        (DOUBT, "success", IsrState((1, 2, 3), 6)),
        (DOUBT, "superseded", IsrState((1, 2, 3), 6)),
        (DOUBT, "unknown", IsrState((1, 2), 5, Proposal(GROW, True, 2))),
        (
            DOUBT,
            "refused",
            IsrState((1, 2), 5, Proposal(((1, -1), (2, -1)), True), (1, 2, 3)),
        ),
        (COMMITTED, "unknown", COMMITTED),
        (COMMITTED, "refused", COMMITTED),
        (COMMITTED, "retry", COMMITTED),
    ],
)
def test_answers(state: IsrState, answer: str, expected: IsrState) -> None:
    if answer in ("success", "superseded"):
        assert getattr(state, answer)([3, 1, 2], 6) == expected
    else:
        assert getattr(state, answer)() == expected


def test_a_refusal_in_doubt_asks_what_is_true_and_goes_on_counting() -> None:
    asked = DOUBT.refused()
    assert asked.maximal == (1, 2, 3)
    assert asked.proposal is not None
    assert asked.proposal.broker_ids == (1, 2)
    assert asked.refused().maximal == (1, 2, 3)
    assert asked.superseded([1, 2, 3], 6) == IsrState((1, 2, 3), 6)
    assert asked.success([1, 2], 5) == COMMITTED


def test_an_elr_lasts_until_an_answer_says_otherwise() -> None:
    state = IsrState((1,), 5, elr=(2, 3)).propose([(1, -1), (2, 20)])
    assert state.unknown().elr == state.retry().elr == state.refused().elr == (2, 3)
    assert state.unknown().refused().elr == (2, 3)
    assert state.success([1, 2], 6, [3]).elr == (3,)
    assert state.success([1, 2], 6).elr == ()


def test_members_on_the_wire() -> None:
    assert PENDING.proposal is not None
    assert isr_members(PENDING.proposal) == [
        IsrMember(1, -1),
        IsrMember(2, 20),
        IsrMember(3, 30),
    ]


class Controller:
    """It has the true state, and copies of requests that are still on their way."""

    def __init__(self) -> None:
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.version = 0

    def handle(self, version: int, isr: tuple[int, ...], *, ineligible: bool) -> str:
        if isr == self.isr:
            return "success"
        if ineligible:
            return "refused"
        if version != self.version:
            return "superseded"
        self.isr, self.version = isr, self.version + 1
        return "success"


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from([2, 3])),  # what to propose when nothing is pending
            st.booleans(),  # the answer is lost
            st.booleans(),  # the request is lost
            st.booleans(),  # the controller finds a member ineligible
        ),
        max_size=40,
    )
)
def test_the_true_isr_is_always_inside_the_maximal_one(
    steps: list[tuple[set[int], bool, bool, bool]],
) -> None:
    controller = Controller()
    state = IsrState((1, 2, 3), 0)
    for members, answer_lost, request_lost, ineligible in steps:
        if state.proposal is None:
            wanted = (1, *sorted(members))
            if wanted == state.committed:
                continue
            state = state.propose((m, -1) for m in wanted)
            assert state.proposal is not None
        answer = "unknown"
        if not request_lost:
            answer = controller.handle(
                state.partition_epoch, state.proposal.broker_ids, ineligible=ineligible
            )
        # The leader may not commit anything past a member it does not count.
        assert set(controller.isr) <= set(state.maximal)
        if request_lost or answer_lost:
            state = state.unknown()
        elif answer == "refused":
            state = state.refused()
        else:
            state = state.success(controller.isr, controller.version)
        assert set(controller.isr) <= set(state.maximal)
        if state.proposal is None:
            assert state.committed == controller.isr
