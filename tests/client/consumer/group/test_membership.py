"""The state machine of a member is told events step by step, and at random."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.consumer.group.membership import (
    BEATING,
    MOVES,
    TRANSIENT,
    CoordinatorLost,
    Effect,
    Event,
    Handover,
    HandoverBegan,
    HandoverDone,
    Joined,
    JoinSent,
    Left,
    MemberIdGiven,
    MemberPhase,
    Membership,
    OfferHandover,
    PollOverdue,
    Refused,
    SendLeave,
    StopReading,
    Synced,
    Tell,
    Wanted,
)
from oncelog.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InvalidGroupIdError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from oncelog_protocol.types import TopicPartition

TPS = tuple(TopicPartition("t", number) for number in range(4))
A, B, C, D = TPS
REBALANCING = Refused(RebalanceInProgressError.code)
UNKNOWN = Refused(UnknownMemberIdError.code)
OVERDUE = ValueError("too slow")


def run(state: Membership, *events: Event) -> list[Effect]:
    """Return all effects of these events."""
    return [effect for event in events for effect in state.handle(event)]


def joined(*partitions: TopicPartition, cooperative: bool = True) -> Membership:
    """Return a member in its first generation that has been handed these."""
    state = Membership(cooperative=cooperative)
    run(state, Wanted("subscribed"), JoinSent(), MemberIdGiven("m"), JoinSent())
    run(state, Joined("m", 1, False), Synced(partitions))
    if partitions:
        run(state, HandoverBegan(), HandoverDone())
    assert (state.phase, state.owned) == (MemberPhase.STABLE, partitions)
    return state


def test_a_first_join() -> None:
    state = Membership()
    assert not state.is_member
    assert run(state, Wanted("subscribed"), JoinSent()) == []
    assert (state.phase, state.reason) == (MemberPhase.JOINING, "subscribed")
    run(state, MemberIdGiven("m"))
    assert (state.phase, state.member_id, state.is_member) == (MemberPhase.JOINING, "m", False)
    run(state, Joined("m", 1, True))
    assert (state.phase, state.is_leader, state.is_member) == (MemberPhase.SYNCING, True, True)
    assert run(state, Synced((A, B))) == [OfferHandover()]
    assert state.handover == Handover((), False, (A, B))
    assert (state.phase, state.owned) == (MemberPhase.SETTLING, ())
    run(state, HandoverBegan(), HandoverDone())
    assert (state.phase, state.owned, state.previous) == (MemberPhase.STABLE, (A, B), ((A, B), 1))


def test_a_cooperative_member_keeps_what_it_has_and_joins_again_after_giving_up() -> None:
    state = joined(A, B)
    assert run(state, REBALANCING) == []
    assert (state.phase, state.owned, state.handover) == (MemberPhase.JOINING, (A, B), None)
    run(state, JoinSent(), Joined("m", 2, False))
    assert state.owned == (A, B)
    assert run(state, Synced((B, C))) == [OfferHandover()]
    assert state.handover == Handover((A,), False, (C,))
    run(state, HandoverBegan())
    assert state.owned == (A, B), "until it has given it up"
    run(state, HandoverDone())
    assert (state.phase, state.owned) == (MemberPhase.JOINING, (B, C))
    run(state, JoinSent(), Joined("m", 3, False), Synced((B, C)))
    assert state.phase is MemberPhase.STABLE, "nothing changed, so nobody is asked"


def test_an_eager_member_gives_up_first() -> None:
    state = joined(A, B, cooperative=False)
    assert run(state, REBALANCING) == [OfferHandover()]
    assert (state.phase, state.handover) == (MemberPhase.GIVING_UP, Handover((A, B)))
    run(state, REBALANCING, Wanted("whatever"), HandoverBegan(), HandoverDone())
    assert (state.phase, state.owned) == (MemberPhase.JOINING, ())
    assert state.previous == ((A, B), 1)


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize("code", [UnknownMemberIdError.code, IllegalGenerationError.code])
def test_a_member_that_is_none_any_more_has_lost_everything(code: int, cooperative: bool) -> None:
    state = joined(A, cooperative=cooperative)
    assert run(state, Refused(code)) == [StopReading((A,)), OfferHandover()]
    assert (state.phase, state.handover) == (MemberPhase.GIVING_UP, Handover((A,), lost=True))
    assert not state.is_member, "so nothing can be committed"
    assert state.member_id == ("" if code == UnknownMemberIdError.code else "m")
    run(state, HandoverBegan(), HandoverDone())
    assert (state.phase, state.owned) == (MemberPhase.JOINING, ())


def test_lost_in_the_middle_of_a_handover() -> None:
    state = joined(A)
    run(state, REBALANCING, JoinSent(), Joined("m", 2, False), Synced((A, B)), HandoverBegan())
    assert run(state, UNKNOWN) == [StopReading((A,))]
    assert run(state, HandoverDone()) == [StopReading((A, B)), OfferHandover()]
    assert state.handover == Handover((A, B), lost=True)
    assert state.phase is MemberPhase.GIVING_UP


def test_a_rebalance_before_the_application_came_makes_the_assignment_void() -> None:
    state = joined(A)
    run(state, REBALANCING, JoinSent(), Joined("m", 2, False), Synced((B,)))
    assert state.phase is MemberPhase.SETTLING
    run(state, REBALANCING)
    assert (state.phase, state.owned, state.handover) == (MemberPhase.JOINING, (A,), None)
    assert state.generation == 2, "what it owns it claims as of the newest generation"


def test_a_rebalance_while_the_application_goes_through_comes_after() -> None:
    state = joined()
    run(state, REBALANCING, JoinSent(), Joined("m", 2, False), Synced((B,)), HandoverBegan())
    run(state, REBALANCING)
    assert (state.phase, state.wish) == (MemberPhase.SETTLING, "the group rebalances")
    run(state, HandoverDone())
    assert (state.phase, state.owned, state.wish) == (MemberPhase.JOINING, (B,), None)


def test_wishes_while_joining_are_followed_unless_the_join_carries_them() -> None:
    state = joined()
    run(state, REBALANCING, Wanted("partitions added"), JoinSent())
    assert state.wish is None
    run(state, Wanted("topics"), Joined("m", 2, True), Synced(()))
    assert (state.phase, state.reason) == (MemberPhase.JOINING, "topics")


def test_a_sync_that_fails_begins_again_with_a_join() -> None:
    for event in (REBALANCING, CoordinatorLost(), Refused(NotCoordinatorError.code)):
        state = joined(A)
        run(state, REBALANCING, JoinSent(), Joined("m", 2, False), event)
        assert (state.phase, state.owned) == (MemberPhase.JOINING, (A,))


def test_a_coordinator_that_is_lost_changes_nothing_else() -> None:
    state = joined(A)
    assert run(state, CoordinatorLost(), Refused(NotCoordinatorError.code)) == []
    assert (state.phase, state.is_member) == (MemberPhase.STABLE, True)
    assert NotCoordinatorError.code in TRANSIENT


def test_an_application_that_does_not_come() -> None:
    state = joined(A)
    effects = run(state, PollOverdue(OVERDUE))
    assert effects == [
        SendLeave("m", "max_poll_interval_ms exceeded"),
        StopReading((A,)),
        OfferHandover(),
        Tell(OVERDUE),
    ]
    assert (state.phase, state.is_member) == (MemberPhase.OUT, False)
    assert run(state, Wanted("polled again"), UNKNOWN) == []
    assert state.phase is MemberPhase.OUT, "not before the application knows"
    run(state, HandoverBegan(), HandoverDone(), Wanted("polled again"))
    assert (state.phase, state.owned) == (MemberPhase.JOINING, ())


def test_who_is_no_member_need_not_leave() -> None:
    state = joined(A)
    run(state, UNKNOWN)
    assert run(state, PollOverdue(OVERDUE)) == [StopReading((A,)), OfferHandover(), Tell(OVERDUE)]


def test_in_the_middle_of_a_handover_the_application_is_there() -> None:
    state = joined()
    run(state, REBALANCING, JoinSent(), Joined("m", 2, False), Synced((B,)), HandoverBegan())
    assert run(state, PollOverdue(OVERDUE)) == []


def test_a_refusal_ends_it_until_the_application_comes_again() -> None:
    state = joined(A)
    run(state, REBALANCING, JoinSent())
    effects = run(state, Refused(GroupMaxSizeReachedError.code, "full"))
    assert [type(effect) for effect in effects] == [StopReading, OfferHandover, Tell]
    assert isinstance(effects[-1], Tell)
    assert str(effects[-1].error) == "full"
    assert state.phase is MemberPhase.OUT


def test_a_fenced_instance_is_fenced_for_good() -> None:
    state = joined(A)
    effects = run(state, Refused(FencedInstanceIdError.code))
    assert [type(effect) for effect in effects] == [StopReading, OfferHandover, Tell]
    run(state, HandoverBegan(), HandoverDone(), Wanted("again"), Left(), UNKNOWN)
    assert (state.phase, state.owned) == (MemberPhase.FAILED, ())


def test_refused_for_good_in_the_middle_of_a_handover() -> None:
    state = joined()
    run(state, REBALANCING, JoinSent(), Joined("m", 2, False), Synced((B,)), HandoverBegan())
    run(state, Refused(InvalidGroupIdError.code))
    assert run(state, HandoverDone()) == [OfferHandover()]
    assert (state.phase, state.handover) == (MemberPhase.OUT, Handover((B,), lost=True))


def test_leaving() -> None:
    state = joined(A)
    (leave,) = run(state, Left())
    assert isinstance(leave, SendLeave)
    assert (state.phase, state.owned, state.is_member) == (MemberPhase.OUT, (), False)


def test_what_does_not_follow_raises() -> None:
    with pytest.raises(AssertionError, match="does not lead"):
        Membership().handle(Joined("m", 1, False))
    with pytest.raises(AssertionError, match="does not lead"):
        joined().handle(Synced(()))
    assert set(MOVES) == set(MemberPhase)


CODES = [
    RebalanceInProgressError.code,
    UnknownMemberIdError.code,
    IllegalGenerationError.code,
    NotCoordinatorError.code,
    GroupMaxSizeReachedError.code,
]
SHARES = st.lists(st.sampled_from(TPS), unique=True).map(tuple)


def possible(state: Membership, generation: int, share: Sequence[TopicPartition]) -> list[Event]:
    """Return what the shell may say in this phase."""
    events: list[Event] = [Wanted("whatever"), PollOverdue(OVERDUE)]
    events += [Refused(code) for code in CODES]
    if state.phase is MemberPhase.JOINING:
        events += [
            JoinSent(),
            MemberIdGiven("n"),
            Joined(state.member_id or "m", generation, False),
            CoordinatorLost(),
        ]
    elif state.phase is MemberPhase.SYNCING:
        events += [Synced(tuple(share)), CoordinatorLost()]
    if state.handover is not None:
        events.append(HandoverDone() if state.handing_over else HandoverBegan())
    return events


@settings(max_examples=settings().max_examples * 3)
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 1000), SHARES), max_size=60))
def test_whatever_happens(
    cooperative: bool, steps: list[tuple[int, tuple[TopicPartition, ...]]]
) -> None:
    state = Membership(cooperative=cooperative)
    for number, (choice, share) in enumerate(steps):
        events = possible(state, number + 1, share)
        before, handing_over = state.owned, state.handing_over
        event = events[choice % len(events)]
        effects = state.handle(event)
        assert len(set(state.owned)) == len(state.owned)
        if not isinstance(event, HandoverDone):
            assert state.owned == before, "only the application gives and takes"
        if handing_over and not isinstance(event, HandoverDone):
            assert state.handing_over, "a handover that has begun is gone through"
        if not cooperative and state.phase in (MemberPhase.JOINING, MemberPhase.SYNCING):
            assert state.owned == ()
        if state.handover is not None and not handing_over and not state.handing_over:
            assert state.phase in (*BEATING, MemberPhase.OUT)
            assert set(state.handover.revoked) <= set(state.owned)
            assert not set(state.handover.added) & set(state.owned)
        if state.owned and not state.is_member:
            lost = state.handover is not None and (state.handover.lost or state.handing_over)
            assert lost, "who owns anything is a member, or about to hear that it is none"
        if any(isinstance(effect, OfferHandover) for effect in effects):
            assert state.handover is not None
