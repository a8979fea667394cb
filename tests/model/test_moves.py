"""The rules of moves are checked exhaustively, and each is needed.

With all rules on, no move loses a committed record, a leader that there would be, a write that
would be taken or a member that the originals have; and every move can still come to its end.
Without one of them the search finds a way to harm; its steps are printed when a test fails.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.explore import Found, explore
from model.moves import RULES, MoveModel, MoveRules, State, Wishes, without

THERE_AND_BACK = Wishes((1,), ((2,), (1,)))
ELSEWHERE = Wishes((1,), ((2,), (3,)), 2)
MORE = Wishes((1,), ((1, 2, 3),), 2)
FEWER = Wishes((1, 2, 3), ((1,),), 2)
FEWER_AND_OTHERS = Wishes((1, 2, 3), ((2, 3), (1, 2)), 2)
FEWER_WITH_A_NEW_ONE = Wishes((1, 2, 3), ((3, 4),), 2, suspicions=False)
ONE_IS_REPLACED = Wishes((1, 2, 3), ((2, 3, 4),), 2, suspicions=False)
ALL_ARE_REPLACED = Wishes((1, 2), ((3, 4),), suspicions=False)

ALL = {
    "there and back": (THERE_AND_BACK, 900),
    "1 to 1, then elsewhere": (ELSEWHERE, 15_000),
    "1 to 3": (MORE, 7_000),
    "3 to 1": (FEWER, 1_000),
    "3 to 2, then other two": (FEWER_AND_OTHERS, 10_000),
    "3 to 2 with a new one": (FEWER_WITH_A_NEW_ONE, 10_000),
    "3 to 3, one is replaced": (ONE_IS_REPLACED, 10_000),
    "2 to 2, all are replaced": (ALL_ARE_REPLACED, 15_000),
}


def check(wishes: Wishes, rules: MoveRules | None = None) -> Found[State]:
    model = MoveModel(wishes, rules)
    return explore(model.start(), model.steps, model.wrong, model.is_end)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_moves_keep_their_promises(name: str) -> None:
    wishes, states_min = ALL[name]
    found = check(wishes)
    assert not found.problem, found
    assert found.states > states_min


@pytest.mark.nightly
@pytest.mark.parametrize("name", [n for n, (wishes, _) in ALL.items() if not wishes.suspicions])
def test_moves_keep_their_promises_beside_false_suspicions(name: str) -> None:
    found = check(replace(ALL[name][0], suspicions=True))
    assert not found.problem, found


NO_LEADER = "nobody leads after the end, and somebody could before"
WITHOUT = [
    ("finish_keeps_isr", FEWER, "a member lacks a committed record"),
    ("finish_keeps_isr", ONE_IS_REPLACED, "a member lacks a committed record"),
    ("finish_needs_added", MORE, "the end came before a replica that was added was in sync"),
    ("finish_keeps_redundancy", FEWER_AND_OTHERS, "fewer are in sync than the originals had"),
    ("finish_keeps_redundancy", FEWER_WITH_A_NEW_ONE, "fewer are in sync than the originals had"),
    ("finish_keeps_writes", FEWER_AND_OTHERS, "a write is refused that was taken before the end"),
    ("finish_keeps_writes", ONE_IS_REPLACED, "a write is refused that was taken before the end"),
    ("finish_counts_sound", THERE_AND_BACK, NO_LEADER),
    ("finish_counts_sound", FEWER, NO_LEADER),
    ("finish_counts_members", THERE_AND_BACK, "a state that may not exist"),
    ("finish_counts_members", MORE, "the end came before a replica that was added was in sync"),
    ("origin_counts_for_min_isr", MORE, "a write is refused that the originals would take"),
    ("origin_counts_for_min_isr", ELSEWHERE, "a write is refused that the originals would take"),
    ("cancel_turns_back", ALL_ARE_REPLACED, "fewer are in sync than before the move was turned"),
    ("begin_keeps_members", THERE_AND_BACK, "a state that may not exist"),
    ("stop_is_fenced", THERE_AND_BACK, "a member lacks a committed record"),
]


@pytest.mark.parametrize(
    ("rule", "wishes", "harm"),
    WITHOUT,
    ids=[f"{rule}-{wishes.first}" for rule, wishes, _ in WITHOUT],
)
def test_without_a_rule_harm_is_done(rule: str, wishes: Wishes, harm: str) -> None:
    found = check(wishes, without(rule))
    assert found.problem.startswith(harm), found
    assert 1 <= len(found.trace) <= 7, found


def test_every_rule_is_shown_to_be_needed() -> None:
    assert {rule for rule, _, _ in WITHOUT} == set(RULES)
