"""The search itself: it finds the shortest way, and states from which there is no way on."""

from __future__ import annotations

from collections.abc import Iterator

from model.explore import explore


def countdown(state: int) -> Iterator[tuple[str, int]]:
    """Count from n to n - 1 or n - 2, never below 0."""
    for less in (1, 2):
        if state >= less:
            yield f"-{less}", state - less


def test_all_states_are_visited_once() -> None:
    found = explore(10, countdown, lambda state: "", lambda state: state == 0)
    assert not found.problem
    assert found.states == 11


def test_the_trace_to_a_wrong_state_is_the_shortest() -> None:
    found = explore(
        10, countdown, lambda state: "five" if state == 5 else "", lambda state: state == 0
    )
    assert (found.problem, found.last) == ("five", 5)
    assert sorted(found.trace) == ["-1", "-2", "-2"]
    assert "five (" in str(found)


def test_a_state_without_a_way_to_an_end_is_found() -> None:
    def with_trap(state: int) -> Iterator[tuple[str, int]]:
        yield from countdown(state)
        if state == 3:
            yield "fall", -1

    found = explore(5, with_trap, lambda state: "", lambda state: state == 0)
    assert (found.problem, found.last) == ("no end is in reach", -1)
    assert found.trace[-1] == "fall"


def test_a_step_that_changes_nothing_is_no_way_out() -> None:
    found = explore(0, lambda state: [("stay", state)], lambda state: "", lambda state: False)
    assert found.problem == "no end is in reach"
