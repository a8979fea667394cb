"""Operations wait for one thing in the order in which they came, and go on once."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.result import DelayedOperations
from oncelog_protocol.errors import ApiError, StorageError


def noting(told: list[object], name: str) -> Callable[[ApiError | None], None]:
    return lambda error: told.append((name, error))


def test_all_go_on_in_order_and_once() -> None:
    delayed, told = DelayedOperations(), list[object]()
    for name in "abc":
        delayed.add(noting(told, name))
    assert len(delayed) == 3
    delayed.resume()
    delayed.resume()
    assert told == [("a", None), ("b", None), ("c", None)]
    assert not delayed


def test_all_hear_why_they_waited_in_vain() -> None:
    delayed, told = DelayedOperations(), list[object]()
    error = StorageError("no way")
    delayed.add(noting(told, "a"))
    delayed.refuse(error)
    assert told == [("a", error)]


def test_who_is_taken_out_does_not_go_on() -> None:
    delayed, told = DelayedOperations(), list[object]()
    first = noting(told, "a")
    delayed.add(first)
    delayed.add(noting(told, "b"))
    delayed.discard(first)
    delayed.discard(first)
    delayed.resume()
    assert told == [("b", None)]


def test_who_comes_while_others_go_on_waits_for_the_next_time() -> None:
    delayed, told = DelayedOperations(), list[object]()
    delayed.add(lambda _: delayed.add(noting(told, "late")))
    delayed.resume()
    assert not told
    assert len(delayed) == 1
